//! Where packets come from: captures and generators.

pub mod capture;
pub mod defrag;
pub mod synth;
pub mod write;

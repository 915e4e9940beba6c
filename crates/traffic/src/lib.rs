//! Where packets come from: captures and generators.

pub mod synth;
pub mod write;

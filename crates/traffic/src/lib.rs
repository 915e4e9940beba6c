//! Where packets come from: captures and generators.

pub mod capture;

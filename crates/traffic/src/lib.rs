//! Where packets come from: captures, generators and, with the feature `live`, interfaces.

pub mod capture;
pub mod defrag;
#[cfg(feature = "live")]
pub mod live;
pub mod synth;
pub mod write;

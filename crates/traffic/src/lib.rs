//! Where packets come from: captures, generators and, with the feature `live`, interfaces.
//!
//! [`CaptureSet`](capture::CaptureSet) is the source to use for captures, one or many; [`MixConfig`](synth::MixConfig) describes
//! traffic to be generated; [`Defrag`](defrag::Defrag) stands before any source.
//!
//! # Features
//!
//! * `live`: interfaces through libpcap, a C library, in `live`.

pub mod capture;
pub mod defrag;
#[cfg(feature = "live")]
pub mod live;
pub mod synth;
pub mod write;

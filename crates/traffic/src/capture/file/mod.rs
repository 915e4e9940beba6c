//! One capture file, or a pipe: recognised, mapped or unpacked, and read in pieces.

pub(in crate::capture) mod background;
#[cfg(target_os = "linux")]
pub(in crate::capture) mod bus_error;
pub(in crate::capture) mod copies;
pub(in crate::capture) mod feed;
pub(in crate::capture) mod feed_thread;
pub(in crate::capture) mod gzip;
pub(in crate::capture) mod map;
pub(in crate::capture) mod mapped;
pub(in crate::capture) mod members;
pub(in crate::capture) mod open;
pub(in crate::capture) mod opening;
pub(in crate::capture) mod patient;
#[cfg(target_os = "linux")]
pub(in crate::capture) mod read_ahead;
pub(in crate::capture) mod reopened;
pub(in crate::capture) mod stream;
pub mod unpack;
pub(in crate::capture) mod variant;

//! From a source to decoded packets: reading, pacing, numbering, decoding.

pub(crate) mod decode;
pub(crate) mod pace;
pub(crate) mod reader;

//! From a record's bytes to [`Headers`].

use crate::link::LinkType;
use crate::reason::DropReason;
use crate::view::Headers;

/// What the decoder does with tunnels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Follow tunnels to the innermost IP header instead of stopping at the outermost.
    pub decap: bool,
}

/// Returns what a packet is: its headers and flow key, or the reason why it has none.
///
/// # Errors
///
/// The [`DropReason`] to count the packet under. Never panics, whatever the bytes.
#[inline]
pub fn decode(link: LinkType, bytes: &[u8], options: DecodeOptions) -> Result<Headers, DropReason> {
    let _ = (link, bytes, options);
    Err(DropReason::Unsupported)
}

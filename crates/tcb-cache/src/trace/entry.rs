//! The request in a line of a log.

use super::summary::Skip;

/// Maximum length of a host name in bytes.
const HOST_BYTES_MAX: usize = 255;

/// The request in a line of a log.
///
/// # Examples
///
/// ```
/// use flowloom_tcb_cache::trace::{Entry, clf};
/// let line = b"h - - [01/Jan/1970:00:00:02 +0000] \"GET /\" 200 5";
/// assert_eq!(clf::parse(line), Ok(Entry { host: b"h", time_ms: 2000, reply_bytes: 5 }));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The client.
    pub host: &'a [u8],
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Size of the reply.
    pub reply_bytes: u64,
}

impl Entry<'_> {
    pub(super) fn checked(self) -> Result<Self, Skip> {
        if self.host.is_empty() || self.host.len() > HOST_BYTES_MAX { Err(Skip::Host) } else { Ok(self) }
    }
}

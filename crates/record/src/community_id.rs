//! Community ID: a flow id that other tools also compute.

use std::fmt;

/// A Community ID, shown as `1:` and its digest in base64. The code that computes records also
/// computes the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CommunityId {
    digest: [u8; 20],
}

impl CommunityId {
    /// Returns the ID with a digest.
    #[must_use]
    pub const fn from_digest(digest: [u8; 20]) -> Self {
        Self { digest }
    }

    /// Returns the digest that the text shows in base64.
    #[must_use]
    pub const fn digest(&self) -> &[u8; 20] {
        &self.digest
    }
}

impl fmt::Display for CommunityId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        f.write_str("1:")?;
        for bytes in self.digest.chunks(3) {
            let mut three = [0; 3];
            three[..bytes.len()].copy_from_slice(bytes);
            let word = u32::from_be_bytes([0, three[0], three[1], three[2]]);
            for digit in 0..4 {
                let at = (word >> (18 - 6 * digit) & 63) as usize;
                let is_padding = digit > bytes.len();
                write!(f, "{}", if is_padding { '=' } else { char::from(DIGITS[at]) })?;
            }
        }
        Ok(())
    }
}

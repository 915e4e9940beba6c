//! VSCSI traces of block storage: the number of the block is the key.
//!
//! ```text
//! version 1, 32 bytes: number u32, length u32, segments u32, command u16, version u16,
//!                      block u64, time u64
//! version 2, 40 bytes: command u16, version u16, number u32, length u32, segments u32,
//!                      block u64, time u64, latency u64
//! ```
//!
//! Numbers are little-endian; the upper byte of the version field contains the version; time is in
//! microseconds.

use crate::access::Access;

use super::summary::Skip;

/// Layout of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// 32 bytes.
    One,
    /// 40 bytes.
    Two,
}

impl Version {
    /// Determines the version from the first two records.
    #[must_use]
    pub fn detect(head: &[u8]) -> Option<Self> {
        [Self::Two, Self::One].into_iter().find(|version| {
            let size = version.record_bytes();
            head.len() >= 2 * size
                && [0, size].iter().all(|at| version.parse(&head[*at..at + size]).is_ok())
        })
    }

    /// Returns the size of a record.
    #[must_use]
    pub const fn record_bytes(self) -> usize {
        match self {
            Self::One => 32,
            Self::Two => 40,
        }
    }

    /// Parses a record.
    ///
    /// # Errors
    ///
    /// The reason why it is unusable: truncated, or of another version.
    pub fn parse(self, record: &[u8]) -> Result<Access, Skip> {
        let (version_at, number) = match self {
            Self::One => (14, 1),
            Self::Two => (2, 2),
        };
        let half = |at: usize| record.get(at..at + 2).map(|bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        let long =
            |at: usize| record.get(at..at + 8)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        if half(version_at).ok_or(Skip::Cut)? >> 8 != number {
            return Err(Skip::Record);
        }
        // Both layouts have block and time after the first four words.
        let (block, time_us) = (long(16).ok_or(Skip::Cut)?, long(24).ok_or(Skip::Cut)?);
        Ok(Access::new(block, time_us / 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_recognised() {
        let mut one = [0; 64];
        let mut two = [0; 80];
        for record in 0..2 {
            one[record * 32 + 15] = 1;
            one[record * 32 + 16] = 7;
            one[record * 32 + 25] = 0x10;
            two[record * 40 + 3] = 2;
            two[record * 40 + 16] = 8;
            two[record * 40 + 25] = 0x20;
        }
        assert_eq!(
            (Version::detect(&one), Version::detect(&two)),
            (Some(Version::One), Some(Version::Two))
        );
        assert_eq!(Version::One.parse(&one[..32]), Ok(Access::new(7, 4)));
        assert_eq!(Version::Two.parse(&two[40..]), Ok(Access::new(8, 8)));
        assert_eq!(Version::One.parse(&two[..32]), Err(Skip::Record));
        assert_eq!(Version::Two.parse(&two[..20]), Err(Skip::Cut));
        assert_eq!((Version::detect(&[0; 100]), Version::detect(&one[..40])), (None, None));
    }
}

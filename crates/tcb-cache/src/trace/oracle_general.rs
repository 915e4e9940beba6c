//! The `oracleGeneral` format of libCacheSim: records of 24 bytes, little-endian.
//!
//! ```text
//! 0     4                12     16                 24
//! ┌─────┬────────────────┬──────┬──────────────────┐
//! │time │ identifier     │ size │ next use         │  seconds; next use −1 or the maximum: never
//! └─────┴────────────────┴──────┴──────────────────┘
//! ```

use crate::access::Access;

use super::summary::Skip;

/// Size of a record in bytes.
pub const RECORD_BYTES: usize = 24;

/// Parses a record.
///
/// # Errors
///
/// The reason why it is unusable: a next use below −1 does not occur.
pub fn parse(record: [u8; RECORD_BYTES]) -> Result<Access, Skip> {
    let (time, rest) = record.split_first_chunk::<4>().ok_or(Skip::Cut)?;
    let (key, rest) = rest.split_first_chunk::<8>().ok_or(Skip::Cut)?;
    let next = rest.last_chunk::<8>().ok_or(Skip::Cut)?;
    if i64::from_le_bytes(*next) < -1 {
        return Err(Skip::Record);
    }
    Ok(Access::new(u64::from_le_bytes(*key), u64::from(u32::from_le_bytes(*time)) * 1000))
}

/// Returns the record of an access; `next_use` is the index of the next access with its key, if
/// there is one.
#[must_use]
pub fn record(access: Access, size: u32, next_use: Option<u64>) -> [u8; RECORD_BYTES] {
    let mut bytes = [0; RECORD_BYTES];
    let seconds = u32::try_from(access.time_ms() / 1000).unwrap_or(u32::MAX);
    let next = next_use.map_or(-1, |next| next.min(i64::MAX as u64) as i64);
    bytes[..4].copy_from_slice(&seconds.to_le_bytes());
    bytes[4..12].copy_from_slice(&access.key().to_le_bytes());
    bytes[12..16].copy_from_slice(&size.to_le_bytes());
    bytes[16..].copy_from_slice(&next.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_read_back_as_written() {
        let access = Access::new(0x0A00_0001_0400, 12_999);
        for next in [None, Some(5), Some(u64::MAX)] {
            assert_eq!(parse(record(access, 64, next)), Ok(Access::new(0x0A00_0001_0400, 12_000)));
        }
        let mut bad = record(access, 64, None);
        bad[16] = 0xFE;
        assert_eq!(parse(bad), Err(Skip::Record));
    }
}

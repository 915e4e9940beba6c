//! Bits of a CRC-32 over address and port, in network order [TCBCACHE §2.3].

use crate::hash::crc32::crc32;

/// Returns the set of a key in `bank` among `2^r` sets: bits `bank·r` and above of the CRC,
/// wrapping after 32.
///
/// `r` is below 32. Only the low 48 bits of the key count.
#[inline]
#[must_use]
pub fn crc_slice(key: u64, bank: u32, r: u32) -> u32 {
    let [_, _, bytes @ ..] = key.to_be_bytes();
    crc32(&bytes).rotate_right((bank * r) % 32) & ((1 << r) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_low_bits_of_the_checksum() {
        let key = u64::from_be_bytes(*b"..abcdef");
        assert_eq!(crc_slice(key, 0, 16), crc32(b"abcdef") & 0xFFFF);
        assert_eq!(crc_slice(key, 1, 16), crc32(b"abcdef") >> 16);
        assert_eq!(crc_slice(key, 3, 0), 0);
    }
}

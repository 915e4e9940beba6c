//! CRC-32 (IEEE 802.3), as a network processor's hash unit computes it [FLOWNP §4.1].
//!
//! It is linear and unkeyed: do not use it to place flows that an attacker may choose.

/// Returns the CRC-32 of `bytes`; the checksum of `b"123456789"` is `0xCBF4_3926`.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_catalogue() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}

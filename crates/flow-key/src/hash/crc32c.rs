//! CRC-32C (Castagnoli), the polynomial of the SSE4.2 instruction [DHASH §III-B].
//!
//! It is linear and unkeyed: do not use it to place flows that an attacker may choose.

/// Returns the CRC-32C of `bytes`; the checksum of `b"123456789"` is `0xE306_9283`.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    flowloom_cpu::crc32c::crc32c(bytes)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_catalogue() {
        assert_eq!(super::crc32c(b"123456789"), 0xE306_9283);
    }
}

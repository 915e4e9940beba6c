//! FNV-1a, 32 bits: one of the hashes that [FLOWNP §4.1, Tab. 3] compares.
//!
//! It is not keyed: do not use it to place flows that an attacker may choose.

/// Returns the FNV-1a digest of `bytes`: xor, then multiply, byte by byte.
///
/// # Examples
///
/// ```
/// assert_eq!(flowloom_flow_key::hash::fnv1a::fnv1a(b"a"), 0xE40C_292C);
/// ```
#[must_use]
pub fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |digest, &byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    #[test]
    fn published_values() {
        assert_eq!(super::fnv1a(b""), 0x811C_9DC5);
        assert_eq!(super::fnv1a(b"foobar"), 0xBF9C_F968);
    }
}

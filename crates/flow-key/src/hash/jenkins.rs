//! Jenkins's one-at-a-time hash: one of the hashes compared in [FLOWNP §4.1, Tab. 3].
//!
//! It is not keyed: do not use it to place flows that an attacker may choose.

/// Returns the one-at-a-time digest of `bytes`.
///
/// # Examples
///
/// ```
/// assert_eq!(flowloom_flow_key::hash::jenkins::one_at_a_time(b"a"), 0xCA2E_9442);
/// ```
#[must_use]
pub fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mixed = bytes.iter().fold(0_u32, |digest, &byte| {
        let digest = digest.wrapping_add(u32::from(byte));
        let digest = digest.wrapping_add(digest << 10);
        digest ^ (digest >> 6)
    });
    let mixed = mixed.wrapping_add(mixed << 3);
    let mixed = mixed ^ (mixed >> 11);
    mixed.wrapping_add(mixed << 15)
}

#[cfg(test)]
mod tests {
    #[test]
    fn published_value() {
        assert_eq!(super::one_at_a_time(b"The quick brown fox jumps over the lazy dog"), 0x519E_91F5);
    }
}

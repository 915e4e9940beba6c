//! Keyed multiply-and-fold, the default wherever traffic chooses the keys.

/// Returns the xor of the two halves of a 128-bit product.
///
/// One multiplication mixes 128 bits into 64. The result is only as strong as the secrecy of the
/// values xor-ed into the factors: with a known secret an attacker can make a factor zero.
#[inline]
#[must_use]
pub const fn fold(a: u64, b: u64) -> u64 {
    let product = (a as u128) * (b as u128);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns the next word of a sequence of well-mixed words, and advances `state`.
///
/// The generator is `SplitMix64`. It expands one seed into the secrets of a hasher, and drives the
/// generators.
#[inline]
pub const fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_mix_gives_its_published_sequence() {
        let mut state = 1_234_567;
        assert_eq!(split_mix(&mut state), 6_457_827_717_110_365_317);
        assert_eq!(split_mix(&mut state), 3_203_168_211_198_807_973);
    }

    #[test]
    fn fold_uses_both_halves() {
        assert_eq!(fold(1 << 63, 6), 3);
        assert_eq!(fold(3, 5), 15);
    }
}

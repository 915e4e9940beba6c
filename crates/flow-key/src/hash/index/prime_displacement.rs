//! The index plus the tag multiplied by a small prime [TCBCACHE §2.3].

use super::modulo::modulo;

/// The multipliers, one per bank: the four in the literature, then further odd numbers.
pub const MULTIPLIERS: [u32; 8] = [9, 19, 31, 37, 41, 43, 47, 53];

/// Returns the set of a key among `2^r` sets; `r` is below 32.
#[inline]
#[must_use]
pub const fn prime_displacement(key: u64, multiplier: u32, r: u32) -> u32 {
    modulo(key.wrapping_add((key >> r).wrapping_mul(multiplier as u64)), r)
}

#[cfg(test)]
mod tests {
    #[test]
    fn tag_displaces_the_set_index() {
        assert_eq!(super::prime_displacement(64 + 5, 9, 6), 14);
        assert_eq!(super::prime_displacement(5, 9, 6), 5);
    }
}

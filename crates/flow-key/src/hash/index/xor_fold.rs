//! The low bits of the key xor the bits above them [TCBCACHE §2.3].

use super::modulo::modulo;

/// Returns the set of a key among `2^r` sets; `r` is below 32.
#[inline]
#[must_use]
pub const fn xor_fold(key: u64, r: u32) -> u32 {
    modulo(key ^ (key >> r), r)
}

#[cfg(test)]
mod tests {
    #[test]
    fn two_slices_are_folded() {
        assert_eq!(super::xor_fold(0b1010_0110, 4), 0b1100);
    }
}

//! A different XOR per bank: the index xor a slice of the tag, rotated by the bank's number.
//!
//! It represents the skewed caches that [TCBCACHE §2.3] compares with. The circuits of its sources
//! cross different wires, and all of them mix the index with the r bits above it.

use super::modulo::modulo;

/// Returns the set of a key in `bank` among `2^r` sets; `r` is below 32.
///
/// Bank 0 does not rotate and equals [`xor_fold`](super::xor_fold::xor_fold).
#[inline]
#[must_use]
pub const fn skew_xor(key: u64, bank: u32, r: u32) -> u32 {
    if r == 0 {
        return 0;
    }
    let slice = modulo(key >> r, r);
    let turn = bank % r;
    let rotated = if turn == 0 { slice } else { (slice << turn | slice >> (r - turn)) & ((1 << r) - 1) };
    modulo(key, r) ^ rotated
}

#[cfg(test)]
mod tests {
    use super::super::xor_fold::xor_fold;
    use super::skew_xor;

    #[test]
    fn bank_zero_is_the_plain_fold_and_others_rotate() {
        for key in [0, 1, 0x1234_5678_9ABC, u64::MAX] {
            assert_eq!(skew_xor(key, 0, 6), xor_fold(key, 6));
        }
        assert_eq!(skew_xor(0b1001_0000, 1, 4), 0b0011);
        assert_eq!(skew_xor(0b1001_0000, 5, 4), 0b0011, "rotations repeat after r");
        assert_eq!(skew_xor(99, 3, 0), 0);
    }
}

//! The word: four bins of eight bits [FLOWNP §4.2].

use flowloom_flow_key::TableHash;

/// Bins of a bucket.
pub const BINS: u32 = 4;

/// Returns the bucket of a hash: as many of its highest bits as the bucket numbers have.
#[inline(always)]
#[must_use]
pub const fn bucket_of(hash: TableHash, buckets: u32) -> u32 {
    hash.bucket(buckets)
}

/// Returns the signature of a hash: its lowest eight bits, and 1 for 0, which marks an empty bin.
#[inline(always)]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
pub const fn signature_of(hash: TableHash) -> u8 {
    let low = hash.bits() as u8;
    if low == 0 { 1 } else { low }
}

/// Returns a table hash from a 32-bit digest, split as in the paper: the low 24 bits select the
/// bucket, and the others are the signature.
///
/// It serves to reproduce the paper, which has no secret: an attacker who knows the digest can aim
/// at a bucket.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::sighash::layout::{bucket_of, of_digest, signature_of};
/// let hash = of_digest(0xAB12_3456);
/// assert_eq!((bucket_of(hash, 1 << 24), signature_of(hash)), (0x0012_3456, 0xAB));
/// ```
#[must_use]
pub const fn of_digest(digest: u32) -> TableHash {
    TableHash::from_mixed(((digest & 0x00FF_FFFF) as u64) << 40 | (digest >> 24) as u64)
}

/// Returns the bins that contain a signature, as the top bit of each byte.
///
/// It is exact, unlike the shorter test for a zero byte, which a borrow can mislead.
#[inline(always)]
#[must_use]
pub const fn equal(word: u32, signature: u8) -> u32 {
    let differs = word ^ (signature as u32 * 0x0101_0101);
    let low = (differs & 0x7F7F_7F7F) + 0x7F7F_7F7F;
    !(low | differs) & 0x8080_8080
}

/// Returns the lowest bin of a mask that [`equal`] gave.
#[inline(always)]
#[must_use]
pub const fn first(mask: u32) -> u32 {
    mask.trailing_zeros() / 8
}

/// Returns a word with another signature in a bin.
#[inline(always)]
#[must_use]
pub const fn with(word: u32, bin: u32, signature: u8) -> u32 {
    let shift = bin * 8;
    word & !(0xFF << shift) | (signature as u32) << shift
}

/// Returns the state of a bucket's bin.
#[inline(always)]
#[must_use]
pub const fn state_of(bucket: u32, bin: u32) -> u32 {
    bucket * BINS + bin
}

/// Returns bucket and bin of a state that is not in the pool.
#[inline]
#[must_use]
pub const fn place_of(state: u32) -> (u32, u32) {
    (state / BINS, state % BINS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_compared_exactly() {
        // 0x01 above 0x00 is the case in which the shorter test is wrong.
        for word in [0x0100_0100, 0x0001_0203, 0xFFFE_FFFE, 0x8000_7F80, 0x0101_0101] {
            for signature in 0..=255_u8 {
                let mask = equal(word, signature);
                for bin in 0..BINS {
                    let stored = word.to_le_bytes()[bin as usize];
                    assert_eq!(
                        mask >> (bin * 8 + 7) & 1 == 1,
                        stored == signature,
                        "{word:#x} {signature}"
                    );
                }
            }
        }
    }

    #[test]
    fn digest_splits_into_bucket_and_signature() {
        assert_eq!(of_digest(0xAB12_3456).bits(), 0x1234_5600_0000_00AB);
        let hash = of_digest(0xFF00_0002);
        assert_eq!((bucket_of(hash, 1 << 24), signature_of(hash)), (2, 0xFF));
    }

    #[test]
    fn bins_are_written_one_at_a_time() {
        assert_eq!(with(0x1122_3344, 2, 0xAA), 0x11AA_3344);
        assert_eq!(first(equal(0x11AA_3344, 0xAA)), 2);
    }

    #[test]
    fn bins_and_states_are_one_to_one() {
        for state in 0..16 {
            let (bucket, bin) = place_of(state);
            assert!((bucket, bin) == (state >> 2, state & 3) && state_of(bucket, bin) == state);
        }
    }

    #[test]
    fn no_flow_has_the_signature_zero() {
        assert_eq!(
            (signature_of(TableHash::from_mixed(0x500)), signature_of(TableHash::from_mixed(0x5FF))),
            (1, 255)
        );
    }
}

//! A digest of a run's per-flow results, which does not depend on seed, layout or number of
//! workers.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::hash::fold::fold;

use crate::app::FlowValue;

/// Combines the digests of flow records into 128 bits.
///
/// The digest is a sum over records, so it depends neither on their order nor on their grouping.
/// The digests of parts [add up](Self::combine) to the digest of the whole, so records need not be
/// kept. It detects accidental differences between runs; it is not a cryptographic hash.
///
/// # Examples
///
/// ```
/// use flowloom_engine::ResultDigest;
/// use flowloom_flow_key::FlowKey;
/// let key = |host| FlowKey::from_v4(host, 1, 3, 4, 6).0;
/// let records = [1, 2].map(|host| ResultDigest::of_flow(&key(host), &[]));
/// let mut forwards = ResultDigest::default();
/// let mut backwards = ResultDigest::default();
/// records.iter().for_each(|&record| forwards.add(record));
/// records.iter().rev().for_each(|&record| backwards.add(record));
/// assert_eq!(forwards, backwards);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResultDigest {
    sum: [u64; 2],
}

/// The first digits of pi and e. Any constants serve, but they must not change.
const START: [u64; 2] = [0x243F_6A88_85A3_08D3, 0xB7E1_5162_8AED_2A6A];

impl ResultDigest {
    /// Returns the digest of one flow record. [Add](Self::add) it to the digest of a run.
    #[must_use]
    pub fn of_flow(key: &FlowKey, values: &[FlowValue]) -> [u64; 2] {
        let mut lanes = START;
        for &word in key.words() {
            lanes = mixed(lanes, word);
        }
        for value in values {
            match *value {
                FlowValue::Count(number) | FlowValue::TimeNs(number) | FlowValue::Bits(number) => {
                    lanes = mixed(lanes, number);
                }
                FlowValue::Word(text) => {
                    for chunk in text.as_bytes().chunks(8) {
                        let mut word = [0; 8];
                        word[..chunk.len()].copy_from_slice(chunk);
                        lanes = mixed(lanes, u64::from_le_bytes(word));
                    }
                }
            }
        }
        // Mix once more, so that the sum depends on all bits of the last value.
        mixed(lanes, values.len() as u64)
    }

    /// Adds one record's digest.
    pub fn add(&mut self, record: [u64; 2]) {
        for (sum, lane) in self.sum.iter_mut().zip(record) {
            *sum = sum.wrapping_add(lane);
        }
    }

    /// Adds the digest of other records.
    pub fn combine(&mut self, other: Self) {
        self.add(other.sum);
    }

    /// Returns the digest as 32 hexadecimal digits.
    #[must_use]
    pub fn finish(&self) -> String {
        format!("{:016x}{:016x}", self.sum[0], self.sum[1])
    }
}

#[inline]
fn mixed([a, b]: [u64; 2], word: u64) -> [u64; 2] {
    [
        fold(a ^ word, 0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ b,
        fold(b.rotate_left(32) ^ word, 0xC2B2_AE3D_27D4_EB4F) ^ a.wrapping_add(word),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_and_its_place_counts() {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        let digest = |values: &[FlowValue]| {
            let mut digest = ResultDigest::default();
            digest.add(ResultDigest::of_flow(&key, values));
            digest.finish()
        };
        let all = [
            digest(&[]),
            digest(&[FlowValue::Count(0)]),
            digest(&[FlowValue::Count(1)]),
            digest(&[FlowValue::Count(1), FlowValue::Count(2)]),
            digest(&[FlowValue::Count(2), FlowValue::Count(1)]),
            digest(&[FlowValue::Word("established")]),
            digest(&[FlowValue::Word("estab")]),
        ];
        for (i, a) in all.iter().enumerate() {
            for b in &all[i + 1..] {
                assert_ne!(a, b);
            }
        }
    }

    #[test]
    fn records_that_repeat_do_not_cancel() {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        let record = ResultDigest::of_flow(&key, &[FlowValue::Count(7)]);
        let mut digests = Vec::new();
        let mut digest = ResultDigest::default();
        for _ in 0..4 {
            digests.push(digest.finish());
            digest.add(record);
        }
        digests.dedup();
        assert_eq!(digests.len(), 4);
    }
}

//! A digest of a run's per-flow results, which does not depend on seed, layout or number of
//! workers.

use std::net::IpAddr;

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::hash::fold::fold;
use flowloom_record::Value;

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
    pub fn of_flow(key: &FlowKey, values: &[Value]) -> [u64; 2] {
        let mut lanes = START;
        for &word in key.words() {
            lanes = mixed(lanes, word);
        }
        for value in values {
            match value {
                Value::Number(number) | Value::Bits(number) | Value::Real(number) => {
                    lanes = mixed(lanes, *number);
                }
                Value::Word(text) => lanes = mixed_bytes(lanes, text.as_bytes()),
                Value::Text(text) => lanes = mixed_bytes(lanes, text.as_bytes()),
                Value::Address(IpAddr::V4(address)) => lanes = mixed_bytes(lanes, &address.octets()),
                Value::Address(IpAddr::V6(address)) => lanes = mixed_bytes(lanes, &address.octets()),
                Value::CommunityId(id) => lanes = mixed_bytes(lanes, id.digest()),
                Value::Dropped => lanes = mixed(lanes, 1),
                Value::None => lanes = mixed(lanes, 0),
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

fn mixed_bytes(lanes: [u64; 2], bytes: &[u8]) -> [u64; 2] {
    bytes.chunks(8).fold(lanes, |lanes, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        mixed(lanes, u64::from_le_bytes(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_and_its_place_counts() {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        let digest = |values: &[Value]| {
            let mut digest = ResultDigest::default();
            digest.add(ResultDigest::of_flow(&key, values));
            digest.finish()
        };
        let all = [
            digest(&[]),
            digest(&[Value::Number(0)]),
            digest(&[Value::Number(1)]),
            digest(&[Value::Number(1), Value::Number(2)]),
            digest(&[Value::Number(2), Value::Number(1)]),
            digest(&[Value::Word("established")]),
            digest(&[Value::Word("estab")]),
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
        let record = ResultDigest::of_flow(&key, &[Value::Number(7)]);
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

//! A digest of a run's per-flow results, the same for any seed, mode and number of workers.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::hash::fold::fold;

use crate::app::FlowValue;

/// Accumulates the results of flows, in the order of their keys, into 128 bits.
///
/// It tells two runs apart by accident, not by design: it is no cryptographic hash.
#[derive(Clone, Debug)]
pub struct ResultDigest {
    lanes: [u64; 2],
}

impl Default for ResultDigest {
    fn default() -> Self {
        // The first digits of pi and e: any constants will do, as long as they stay.
        Self { lanes: [0x243F_6A88_85A3_08D3, 0xB7E1_5162_8AED_2A6A] }
    }
}

impl ResultDigest {
    /// Returns the digest of one flow's results, to be added in the order of keys.
    #[must_use]
    pub fn of_flow(key: &FlowKey, values: &[FlowValue]) -> [u64; 2] {
        let mut flow = Self::default();
        for &word in key.words() {
            flow.word(word);
        }
        for value in values {
            match *value {
                FlowValue::Count(number) | FlowValue::TimeNs(number) | FlowValue::Bits(number) => {
                    flow.word(number);
                }
                FlowValue::Word(text) => {
                    for chunk in text.as_bytes().chunks(8) {
                        let mut word = [0; 8];
                        word[..chunk.len()].copy_from_slice(chunk);
                        flow.word(u64::from_le_bytes(word));
                    }
                }
            }
        }
        flow.lanes
    }

    /// Adds one flow's digest.
    pub fn add(&mut self, flow: [u64; 2]) {
        self.word(flow[0]);
        self.word(flow[1]);
    }

    #[inline]
    fn word(&mut self, word: u64) {
        let [a, b] = self.lanes;
        self.lanes = [
            fold(a ^ word, 0x9E37_79B9_7F4A_7C15).rotate_left(23) ^ b,
            fold(b.rotate_left(32) ^ word, 0xC2B2_AE3D_27D4_EB4F) ^ a.wrapping_add(word),
        ];
    }

    /// Returns the digest as 32 hexadecimal digits.
    #[must_use]
    pub fn finish(&self) -> String {
        format!("{:016x}{:016x}", self.lanes[0], self.lanes[1])
    }
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
}

//! Digest modulo the number of workers, as in a network processor [FLOWNP §5.2.2].
//!
//! The caller chooses the digest: the paper compares the CRC-32 of the five-tuple with the
//! destination address. Neither has a key, so an attacker can direct traffic at one worker. With
//! the destination address, the two directions of a flow also have different digests.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::hash::crc32::crc32;

use super::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId};

/// Places each flow by its digest modulo the number of workers.
#[derive(Clone, Copy, Debug)]
pub struct Modulo {
    workers: WorkerCount,
    name: &'static str,
}

impl Modulo {
    /// Returns the policy over a number of workers. `name` is the name of its digest: `crc` or
    /// `dst`.
    #[must_use]
    pub const fn new(workers: WorkerCount, name: &'static str) -> Self {
        Self { workers, name }
    }
}

impl Placement for Modulo {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (&item, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(WorkerId((item.digest % u32::from(self.workers.get())) as u16));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers.get().into())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        self.name
    }
}

/// Returns the CRC-32 of a key's canonical words, which is the same for both directions of a flow.
#[must_use]
pub fn crc_of(key: &FlowKey) -> u32 {
    let mut bytes = [0; 48];
    for (chunk, word) in bytes.chunks_exact_mut(8).zip(key.words()) {
        chunk.copy_from_slice(&word.to_be_bytes());
    }
    crc32(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::FlowHasher;

    #[test]
    fn the_checksum_is_crc_32_of_all_the_words_of_a_key() {
        let by_definition = |key: &FlowKey| {
            let bytes = key.words().iter().flat_map(|word| word.to_be_bytes());
            !bytes.fold(u32::MAX, |crc, byte| {
                (0..8).fold(crc ^ u32::from(byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 * (crc & 1)))
            })
        };
        // Each differs from the first in one field of the tuple.
        let keys = [
            FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 1024, 80, 6).0,
            FlowKey::from_v4(0x0A00_0002, 0xC000_0201, 1024, 80, 6).0,
            FlowKey::from_v4(0x0A00_0001, 0xC000_0202, 1024, 80, 6).0,
            FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 1025, 80, 6).0,
            FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 1024, 81, 6).0,
            FlowKey::from_v4(0x0A00_0001, 0xC000_0201, 1024, 80, 17).0,
        ];
        assert_eq!(keys.each_ref().map(crc_of), keys.each_ref().map(by_definition));
        let reversed = FlowKey::from_v4(0xC000_0201, 0x0A00_0001, 80, 1024, 6).0;
        assert_eq!(crc_of(&reversed), crc_of(&keys[0]), "both directions are one flow");
        for (at, key) in keys.iter().enumerate() {
            assert!(
                keys[..at].iter().all(|other| crc_of(other) != crc_of(key)),
                "field {at} does not count"
            );
        }
    }

    /// The largest share that one of eight workers gets, times eight.
    fn busiest(policy: &mut dyn Placement, digests: &[u32]) -> f64 {
        let items: Vec<WorkItem> = digests.iter().map(|&digest| WorkItem { digest, bytes: 60 }).collect();
        let mut decisions = vec![Decision::Drop; items.len()];
        policy.place(&items, &LoadView::idle(), &mut decisions);
        let mut shares = [0_u32; 8];
        for decision in decisions {
            let Decision::To(worker) = decision else { panic!("{decision:?}") };
            shares[worker.index()] += 1;
        }
        f64::from(shares.into_iter().max().unwrap()) * 8.0 / digests.len() as f64
    }

    #[test]
    fn crafted_flows_flood_one_worker_by_crc_and_none_by_a_keyed_digest() {
        let eight = WorkerCount::new(8).unwrap();
        let crc = |key: &FlowKey| crc32(&key.words().map(u64::to_be_bytes).concat());
        // Anyone can compute a CRC and therefore choose ports that all lead to worker 5.
        let crafted: Vec<FlowKey> = (0..u32::MAX)
            .map(|i| FlowKey::from_v4(0x0A00_0000 + (i >> 16), 0xC000_0201, i as u16, 80, 6).0)
            .filter(|key| crc(key) % 8 == 5)
            .take(40_000)
            .collect();
        let by_crc: Vec<u32> = crafted.iter().map(crc).collect();
        assert!((busiest(&mut Modulo::new(eight, "crc"), &by_crc) - 8.0).abs() < 1e-9);
        for seed in 0..4 {
            let hasher = FlowHasher::with_seed(seed);
            let keyed: Vec<u32> = crafted.iter().map(|key| hasher.hash(key).worker).collect();
            let share = busiest(&mut crate::DirectHash::new(eight), &keyed);
            assert!(share <= 1.1, "the busiest worker has {share:.3} of its share, seed {seed}");
        }
    }
}

//! Packet Handoff: the worker that takes a packet owns its flow, and other workers pass on packets
//! of that flow [LFB slide 9].
//!
//! This is a reconstruction from the slides' labels. Taking a packet from the receive queue and
//! queueing it for its owner happen as one step under one lock. As two steps, packets of a flow
//! could overtake each other.

use std::collections::VecDeque;

use super::fifo::{Fifo, Links};
use super::{FetchCost, Fetched, PullPolicy};
use crate::placement::{OrderGuarantee, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

const NO_WORKER: u16 = u16::MAX;

/// One queue for all packets, and one queue per flow that a worker owns.
#[derive(Clone)]
pub struct PacketHandoff {
    receive: VecDeque<(u32, u32)>,
    links: Links,
    entries: Vec<(Fifo, u16)>,
    /// The entry that each worker owns.
    owned: Vec<Option<u32>>,
    shift: u32,
    handed: usize,
}

impl core::fmt::Debug for PacketHandoff {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PacketHandoff")
            .field("workers", &self.owned.len())
            .field("entries", &self.entries.len())
            .field("handed", &self.handed)
            .finish_non_exhaustive()
    }
}

impl PacketHandoff {
    /// Default number of entries, as a power of two.
    pub const BITS: u32 = 16;

    /// Returns the policy for the workers of a topology, with 2^`bits` entries that flows share by
    /// their digests.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁰ entries.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, 20)?;
        Ok(Self {
            receive: VecDeque::new(),
            links: Links::default(),
            entries: vec![(Fifo::default(), NO_WORKER); 1 << bits],
            owned: vec![None; usize::from(topology.workers().get())],
            shift: 32 - bits,
            handed: 0,
        })
    }
}

impl PullPolicy for PacketHandoff {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        let entry = (u64::from(item.digest) >> self.shift) as u32;
        self.receive.push_back((token, entry));
        None
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        let mut steps = FetchCost::default();
        if let Some(own) = self.owned[worker.index()] {
            let entry = &mut self.entries[own as usize];
            if let Some((token, _)) = entry.0.pop(&mut self.links) {
                self.handed -= 1;
                steps.moved = 1;
                return Some(Fetched { token, steps });
            }
            entry.1 = NO_WORKER;
            self.owned[worker.index()] = None;
        }
        while let Some((token, at)) = self.receive.pop_front() {
            steps.locks += 1;
            steps.inspected += 1;
            let entry = &mut self.entries[at as usize];
            if entry.1 == NO_WORKER {
                entry.1 = worker.index() as u16;
                self.owned[worker.index()] = Some(at);
                return Some(Fetched { token, steps });
            }
            entry.0.push(&mut self.links, token, 0);
            self.handed += 1;
            steps.handed_over += 1;
        }
        None
    }

    fn waiting(&self) -> usize {
        self.receive.len() + self.handed
    }

    fn has_ready(&self) -> bool {
        !self.receive.is_empty()
    }

    fn workers(&self) -> Option<usize> {
        Some(self.owned.len())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        "ph"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    #[test]
    fn pull_policy_passes_the_law_suite() {
        for shape in ["1", "3", "2x2x4,-0"] {
            let topology: Topology = shape.parse().unwrap();
            for bits in [0, 4, 16] {
                let mut policy = PacketHandoff::new(&topology, bits).unwrap();
                laws::check_pull(&mut policy, topology.workers(), u64::from(bits));
            }
        }
    }

    #[test]
    fn second_worker_hands_over_packets_of_the_first_workers_flow() {
        let mut policy = PacketHandoff::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 60 };
        for (token, flow) in [(0, 1), (1, 1), (2, 1), (3, 2)] {
            policy.arrive(token, item(flow));
        }
        assert!(policy.has_ready());
        let next = |policy: &mut PacketHandoff, worker: u16| policy.next(worker.into());
        assert_eq!(next(&mut policy, 0).unwrap().token, 0);
        let second = next(&mut policy, 1).unwrap();
        assert_eq!((second.token, second.steps.handed_over, second.steps.locks), (3, 2, 3));
        assert_eq!(next(&mut policy, 1), None);
        assert!(!policy.has_ready(), "what waits belongs to the first");
        let fetched = [next(&mut policy, 0).unwrap(), next(&mut policy, 0).unwrap()];
        assert_eq!(fetched.map(|fetched| (fetched.token, fetched.steps.moved)), [(1, 1), (2, 1)]);
        assert_eq!((next(&mut policy, 0), policy.waiting()), (None, 0));
    }
}

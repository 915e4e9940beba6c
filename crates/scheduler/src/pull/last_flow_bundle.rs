//! Last Flow Bundle: packets wait in bundles of flows, and a worker returns to the bundles that it
//! had last [LFB slide 10].
//!
//! ```text
//!  receive queue ─ 32 at a time, by a worker without better work ─▶ bundles
//!  bundles ─▶ worker, in this order:
//!     1  the bundle it holds
//!     2  bundles it had last
//!     3  bundles without a worker
//!     4  with stealing: another worker's, the last of the longest list
//! ```
//!
//! This is a reconstruction from the slides. Bundles are served before the receive queue, which the
//! slides give as the reason for the highest maximum latency. The slides do not state whether
//! workers steal, so both forms exist.

use std::collections::VecDeque;

use super::fifo::{Fifo, Links};
use super::{FetchCost, Fetched, PullPolicy};
use crate::placement::{OrderGuarantee, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

const NO_WORKER: u16 = u16::MAX;
/// Number of packets that move from the receive queue to bundles at once.
const BATCH: usize = 32;
/// Number of bundles that wait for their last worker if others may steal; any worker may take
/// additional ones.
const OWN_LIST: usize = 8;

#[derive(Clone, Copy, Debug)]
struct Bundle {
    packets: Fifo,
    last: u16,
    /// Whether a worker holds it, or it is in a list.
    taken: bool,
}

/// Bundles of flows, each with the worker that had it last.
#[derive(Clone)]
pub struct LastFlowBundle {
    receive: VecDeque<(u32, u32)>,
    links: Links,
    bundles: Vec<Bundle>,
    current: Vec<Option<u32>>,
    own: Vec<VecDeque<u32>>,
    shared: VecDeque<u32>,
    shift: u32,
    steal: bool,
    /// Whether any worker may take each bundle, independent of its last worker.
    forgets: bool,
    /// Whether the receive queue is emptied before a bundle is chosen.
    receives_first: bool,
    bundled: usize,
}

impl core::fmt::Debug for LastFlowBundle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("LastFlowBundle")
            .field("workers", &self.current.len())
            .field("bundles", &self.bundles.len())
            .field("steal", &self.steal)
            .field("bundled", &self.bundled)
            .finish_non_exhaustive()
    }
}

impl LastFlowBundle {
    /// Default number of bundles, as a power of two.
    pub const BITS: u32 = 12;

    /// Returns the policy for the workers of a topology, with 2^`bits` bundles. With `steal`, an
    /// idle worker takes bundles that wait for others.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁰ bundles.
    pub fn new(topology: &Topology, bits: u32, steal: bool) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, 20)?;
        let workers = usize::from(topology.workers().get());
        let bundle = Bundle { packets: Fifo::default(), last: NO_WORKER, taken: false };
        Ok(Self {
            receive: VecDeque::new(),
            links: Links::default(),
            bundles: vec![bundle; 1 << bits],
            current: vec![None; workers],
            own: vec![VecDeque::new(); workers],
            shared: VecDeque::new(),
            shift: 32 - bits,
            steal,
            forgets: false,
            receives_first: false,
            bundled: 0,
        })
    }

    /// Disables the preference for the last worker: a bundle goes to the first worker that fetches.
    /// This is for experiments that measure the value of the preference.
    #[must_use]
    pub fn forgetting(mut self) -> Self {
        self.forgets = true;
        self
    }

    /// Serves the receive queue before bundles. This is for experiments that measure the effect of
    /// the order of service.
    #[must_use]
    pub fn receiving_first(mut self) -> Self {
        self.receives_first = true;
        self
    }

    /// Moves a batch from the receive queue into bundles.
    fn sort(&mut self, steps: &mut FetchCost) {
        steps.locks += 1;
        for _ in 0..BATCH.min(self.receive.len()) {
            let Some((token, at)) = self.receive.pop_front() else { return };
            steps.inspected += 1;
            let bundle = &mut self.bundles[at as usize];
            bundle.packets.push(&mut self.links, token, 0);
            self.bundled += 1;
            if !bundle.taken {
                bundle.taken = true;
                let last = usize::from(bundle.last);
                let is_free = self.forgets || bundle.last == NO_WORKER;
                if is_free || (self.steal && self.own[last].len() >= OWN_LIST) {
                    self.shared.push_back(at);
                } else {
                    self.own[last].push_back(at);
                }
            }
        }
    }

    /// Returns a bundle for a worker that holds none.
    fn choose(&mut self, worker: usize, steps: &mut FetchCost) -> Option<u32> {
        if let Some(own) = self.own[worker].pop_front() {
            steps.locks += 1;
            return Some(own);
        }
        if let Some(shared) = self.shared.pop_front() {
            steps.locks += 1;
            return Some(shared);
        }
        if self.steal {
            let longest = (0..self.own.len()).max_by_key(|&other| self.own[other].len())?;
            if let Some(stolen) = self.own[longest].pop_back() {
                steps.locks += 2;
                steps.stolen += 1;
                return Some(stolen);
            }
        }
        None
    }
}

impl PullPolicy for LastFlowBundle {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        let at = (u64::from(item.digest) >> self.shift) as u32;
        self.receive.push_back((token, at));
        let last = self.bundles[at as usize].last;
        (last != NO_WORKER && !self.forgets).then(|| last.into())
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        let worker = worker.index();
        let mut steps = FetchCost::default();
        loop {
            if let Some(at) = self.current[worker] {
                let bundle = &mut self.bundles[at as usize];
                if let Some((token, _)) = bundle.packets.pop(&mut self.links) {
                    self.bundled -= 1;
                    return Some(Fetched { token, steps });
                }
                bundle.taken = false;
                self.current[worker] = None;
            }
            while self.receives_first && !self.receive.is_empty() {
                self.sort(&mut steps);
            }
            if let Some(at) = self.choose(worker, &mut steps) {
                let bundle = &mut self.bundles[at as usize];
                // The worker that sorted a packet has inspected it, whether it is the first one or
                // a later one.
                steps.moved += u32::from(usize::from(bundle.last) != worker);
                bundle.last = worker as u16;
                self.current[worker] = Some(at);
                continue;
            }
            if self.receive.is_empty() {
                return None;
            }
            self.sort(&mut steps);
        }
    }

    fn waiting(&self) -> usize {
        self.receive.len() + self.bundled
    }

    fn has_ready(&self) -> bool {
        // Without stealing, a bundle may wait for one particular worker, so the caller must ask
        // each worker.
        !self.receive.is_empty() || !self.shared.is_empty() || self.own.iter().any(|list| !list.is_empty())
    }

    fn workers(&self) -> Option<usize> {
        Some(self.current.len())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        if self.steal { "lfb" } else { "lfb-ns" }
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
            for (bits, steal) in [(0, true), (4, false), (12, true), (12, false)] {
                let mut policy = LastFlowBundle::new(&topology, bits, steal).unwrap();
                laws::check_pull(&mut policy, topology.workers(), u64::from(bits));
                let mut policy = LastFlowBundle::new(&topology, bits, steal).unwrap().receiving_first();
                laws::check_pull(&mut policy, topology.workers(), u64::from(bits));
            }
        }
    }

    #[test]
    fn ready_count_includes_packets_in_every_list() {
        let mut policy = LastFlowBundle::new(&"2".parse().unwrap(), 8, false).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 60 };
        assert!(!policy.has_ready());
        for flow in 0..3 {
            policy.arrive(flow, item(flow));
        }
        assert!(policy.has_ready(), "in the receive queue");
        assert_eq!(policy.next(0.into()).unwrap().token, 0);
        assert!(policy.has_ready(), "in bundles that are anybody's");
        assert_eq!(policy.next(1.into()).unwrap().token, 1);
        assert_eq!(policy.next(1.into()).unwrap().token, 2);
        assert!(!policy.has_ready());
        // Worker 0 sorts two flows of worker 1, and may take neither of them.
        policy.arrive(3, item(1));
        policy.arrive(4, item(2));
        assert_eq!(policy.next(1.into()).unwrap().token, 3);
        assert_eq!(policy.next(0.into()), None);
        assert!(policy.has_ready(), "in bundles that are one worker's");
        assert_eq!(policy.next(1.into()).unwrap().token, 4);
        assert!(!policy.has_ready() && policy.waiting() == 0);
    }

    #[test]
    fn bundles_are_served_before_the_receive_queue_unless_it_is_first() {
        let new = LastFlowBundle::new(&"1".parse().unwrap(), 8, true).unwrap();
        for (mut policy, inspected, left) in [(new.clone(), 0, 1), (new.receiving_first(), 1, 0)] {
            let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 60 };
            policy.arrive(0, item(1));
            policy.arrive(1, item(2));
            assert_eq!(policy.next(0.into()).unwrap().token, 0);
            policy.arrive(2, item(3));
            let fetched = policy.next(0.into()).unwrap();
            let found = (fetched.token, fetched.steps.inspected, policy.receive.len());
            assert_eq!(found, (1, inspected, left));
        }
    }

    #[test]
    fn only_the_forgetting_variant_lets_another_worker_continue_a_flow() {
        let new = LastFlowBundle::new(&"2".parse().unwrap(), 8, false).unwrap();
        for (mut policy, other_gets_it) in [(new.clone(), false), (new.forgetting(), true)] {
            let item = WorkItem { digest: 1 << 24, bytes: 60 };
            policy.arrive(0, item);
            assert_eq!(policy.next(0.into()).unwrap().token, 0);
            assert_eq!(policy.next(0.into()), None);
            assert_eq!(policy.arrive(1, item).is_none(), other_gets_it);
            assert_eq!(policy.next(1.into()).is_some(), other_gets_it);
        }
    }

    #[test]
    fn a_bundle_waits_for_its_last_worker_unless_others_steal() {
        for steal in [false, true] {
            let mut policy = LastFlowBundle::new(&"2".parse().unwrap(), 8, steal).unwrap();
            let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 60 };
            policy.arrive(0, item(1));
            // A lock of the receive queue, and one of the list of bundles without a worker.
            let steps = FetchCost { locks: 2, inspected: 1, moved: 1, ..FetchCost::default() };
            assert_eq!(policy.next(0.into()), Some(Fetched { token: 0, steps }));
            assert_eq!(policy.next(0.into()), None);
            // The flow has returned; its last worker is asked second.
            assert_eq!(policy.arrive(1, item(1)), Some(0.into()));
            let steps = FetchCost { locks: 3, stolen: 1, ..steps };
            assert_eq!(policy.next(1.into()), steal.then_some(Fetched { token: 1, steps }));
            assert_eq!(policy.next(0.into()).map(|fetched| fetched.token), (!steal).then_some(1));
        }
    }
}

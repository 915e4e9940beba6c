//! The tree of 2009 exactly as printed: the same formula and digest at each level, and node numbers
//! that restart at each node [HRWTREE §3.2].
//!
//! The module exists only for measurements of this formula. If core j has the highest of eight
//! bids, bid j is also the highest of any subset that contains it. A pipeline or thread with the
//! same number therefore wins again at the lower levels, and most threads of a core can never win.
//! In a tree of 8x2x4, 34 of 64 threads get no flow.

use flowloom_flow_key::hash::hrw::weight;

use super::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerId};
use crate::topology::Topology;

/// Places each flow by the formula of 2009.
#[derive(Clone, Debug)]
pub struct HrwTree2009 {
    topology: Topology,
    has_unique_numbers: bool,
}

impl HrwTree2009 {
    /// Returns the policy over a topology.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        Self { topology: topology.clone(), has_unique_numbers: false }
    }

    /// Returns the policy with node numbers that are unique in the whole tree, which the paper may
    /// have meant.
    #[must_use]
    pub fn with_unique_numbers(topology: &Topology) -> Self {
        Self { has_unique_numbers: true, ..Self::new(topology) }
    }

    fn worker(&self, digest: u32) -> WorkerId {
        let digest = digest >> 1;
        let mut among = 0..self.topology.nodes(0);
        let mut above = 0;
        for level in 0..self.topology.levels() {
            let first = among.start;
            // The number of the first node: that of its level, or of the whole tree.
            let number = if self.has_unique_numbers { above + first } else { 0 };
            above += self.topology.nodes(level);
            let mut best = (weight(number as u32, digest), first);
            for node in among.skip(1) {
                let bid = weight((number + node - first) as u32, digest);
                if bid > best.0 {
                    best = (bid, node);
                }
            }
            if level + 1 == self.topology.levels() {
                return WorkerId(best.1 as u16);
            }
            among = self.topology.children(level, best.1);
        }
        WorkerId(0)
    }
}

impl Placement for HrwTree2009 {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (&item, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(self.worker(item.digest));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.topology.workers().get().into())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "hrw3-2009"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    fn flows_of_threads(policy: &HrwTree2009) -> [u32; 64] {
        let mut counts = [0_u32; 64];
        let mut state = 1;
        for _ in 0..200_000 {
            counts[policy.worker((split_mix(&mut state) >> 32) as u32).index()] += 1;
        }
        counts
    }

    #[test]
    fn with_unique_numbers_no_thread_idles() {
        let counts = flows_of_threads(&HrwTree2009::with_unique_numbers(&"8x2x4".parse().unwrap()));
        assert!(counts.iter().all(|&count| count > 1000), "{counts:?}");
    }

    #[test]
    fn at_each_level_the_highest_weight_of_31_bits_wins() {
        let mut policy = HrwTree2009::new(&"8x2x4".parse().unwrap());
        for digest in (0..2000_u32).map(|flow| flow.wrapping_mul(0x9E37_79B9)) {
            let highest = |ways: u32| (0..ways).max_by_key(|&node| weight(node, digest >> 1)).unwrap();
            let thread = highest(8) * 8 + highest(2) * 4 + highest(4);
            let mut decision = [Decision::Drop];
            policy.place(&[WorkItem { digest, bytes: 1 }], &LoadView::idle(), &mut decision);
            assert_eq!(decision, [Decision::To(WorkerId(thread as u16))], "{digest:#x}");
        }
    }

    #[test]
    fn hrw3_2009_leaves_34_of_64_threads_idle() {
        let counts = flows_of_threads(&HrwTree2009::new(&"8x2x4".parse().unwrap()));
        assert_eq!(counts.iter().filter(|&&count| count == 0).count(), 34);
        // Core 0 uses only one thread: number 0 of pipeline 0 has all of its flows.
        assert!(counts[0] > 20_000 && counts[1..8].iter().all(|&count| count == 0), "{:?}", &counts[..8]);
    }
}

//! Highest random weight, level by level: a core, one of its pipelines, one of its threads [HRWTREE
//! §3.2].
//!
//! Unlike in the paper, nodes bid with numbers that are unique in the whole tree, and with their
//! capacity as weight. [`super::hrw_2009`] implements the paper's formula literally and describes
//! its effect.
//!
//! The numbers are positions in the topology. Unless the worker that leaves is the last one, the
//! numbers of others change, and their flows move too.

use super::rendezvous::{NegativeLog, bid};
use super::tree::Nodes;
use super::{ByDigest, Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerId};
use crate::topology::Topology;

/// Chooses a winner among the outermost nodes, then among its children, and so on down to a worker.
///
/// A worker gets flows in proportion to its capacity. Costs one bid per child on the path, 14 in a
/// tree of 8x2x4.
#[derive(Clone, Debug)]
pub struct HrwTree {
    nodes: Nodes,
    /// Whether the children of each node differ in capacity.
    uneven: Vec<bool>,
    /// 2³² divided by the capacity of each node.
    reciprocal: Vec<u64>,
    log: NegativeLog,
}

impl HrwTree {
    /// Returns the policy over a topology.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        let nodes = Nodes::new(topology);
        let uneven = (0..nodes.count())
            .map(|node| !alike(nodes.children(node).map(|c| nodes.capacity(c))))
            .collect();
        let reciprocal =
            (0..nodes.count()).map(|node| (1_u64 << 32) / u64::from(nodes.capacity(node))).collect();
        Self { nodes, uneven, reciprocal, log: NegativeLog::new() }
    }

    /// Returns a child's bid for a flow; the lowest bid among its parent's children wins.
    #[inline]
    pub(super) fn offer(&self, parent: u32, child: u32, digest: u32) -> u64 {
        let bid = bid(digest, child);
        if self.uneven[parent as usize] {
            let product =
                u128::from(self.log.negative_log(bid)) * u128::from(self.reciprocal[child as usize]);
            u64::try_from(product >> 16).unwrap_or(u64::MAX)
        } else {
            // The complement turns the highest bid into the lowest.
            !bid
        }
    }

    /// Returns the winner among the children of a node; the first one if bids are equal.
    #[inline]
    pub(super) fn winner(&self, node: u32, digest: u32) -> u32 {
        let children = self.nodes.children(node);
        let mut best = (children.start, u64::MAX);
        for child in children {
            let offer = self.offer(node, child, digest);
            if offer < best.1 {
                best = (child, offer);
            }
        }
        best.0
    }
}

fn alike(mut capacities: impl Iterator<Item = u32>) -> bool {
    let first = capacities.next();
    capacities.all(|capacity| Some(capacity) == first)
}

impl ByDigest for HrwTree {
    #[inline]
    fn worker(&self, digest: u32) -> WorkerId {
        let mut node = 0;
        while node < self.nodes.first_worker {
            node = self.winner(node, digest);
        }
        WorkerId((node - self.nodes.first_worker) as u16)
    }

    fn cached_name(&self) -> &'static str {
        "hrw3-cached"
    }
}

impl Placement for HrwTree {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (&item, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(self.worker(item.digest));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.nodes.workers())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "hrw3"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    fn shares(topology: &Topology, keys: u32) -> Vec<f64> {
        let policy = HrwTree::new(topology);
        let mut counts = vec![0.0; usize::from(topology.workers().get())];
        let mut state = 3;
        for _ in 0..keys {
            counts[policy.worker((split_mix(&mut state) >> 32) as u32).index()] += 1.0;
        }
        counts
    }

    #[test]
    fn every_thread_gets_its_share_within_sampling_noise() {
        let keys = 400_000;
        let counts = shares(&"8x2x4".parse().unwrap(), keys);
        let mean = f64::from(keys) / 64.0;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 63.0;
        // 1.3 times the sampling noise is three standard deviations of 64 counts.
        assert!(variance.sqrt() <= 1.3 * mean.sqrt(), "{} against {}", variance.sqrt(), mean.sqrt());
    }

    #[test]
    fn unequal_capacities_get_their_proportions() {
        let topology: Topology = "8x2x4,-0,5=25,6=300".parse().unwrap();
        let keys = 400_000;
        let counts = shares(&topology, keys);
        let whole: u32 = (0..63).map(|worker| topology.capacity(2, worker)).sum();
        for (worker, count) in counts.iter().enumerate() {
            let due = f64::from(keys) * f64::from(topology.capacity(2, worker)) / f64::from(whole);
            assert!((count - due).abs() < 5.0 * due.sqrt(), "worker {worker}: {count} instead of {due}");
        }
    }

    #[test]
    fn removed_worker_loses_its_flows_and_moves_few_others() {
        let (all, less): (Topology, Topology) = ("2x4".parse().unwrap(), "2x4,-7".parse().unwrap());
        let (all, less) = (HrwTree::new(&all), HrwTree::new(&less));
        let mut state = 1;
        let mut moved = 0;
        for _ in 0..20_000 {
            let digest = (split_mix(&mut state) >> 32) as u32;
            let (before, after) = (all.worker(digest), less.worker(digest));
            moved += usize::from(before.index() != 7 && before != after);
        }
        // The core that lost a worker bids for less: 3/8 of its other workers' flows also move.
        assert!(moved < 20_000 / 4, "{moved}");
    }
}

//! Minimum-load mapping: each packet goes to the worker with the least waiting work [HRWTREE §3.3].

use super::backlog::{Backlog, least_by};
use super::{Decision, LoadView, OrderGuarantee, Placement, WorkItem};
use crate::topology::Topology;

/// Places each packet on the worker with the least waiting work, independent of its flow.
#[derive(Clone, Debug)]
pub struct MinLoad {
    backlog: Backlog,
}

impl MinLoad {
    /// Returns the policy over the workers of a topology.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        Self { backlog: Backlog::new(topology) }
    }
}

impl Placement for MinLoad {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.backlog.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let worker = least_by(self.backlog.waiting(), item.digest);
            self.backlog.assign(worker, item);
            *decision = Decision::To(Backlog::id(worker));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.backlog.workers())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::None
    }

    fn name(&self) -> &'static str {
        "minload"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_of_a_batch_goes_to_the_least_loaded_worker() {
        let mut policy = MinLoad::new(&"4".parse().unwrap());
        let load = LoadView {
            sent: &[5, 3, 9, 4],
            completed: &[0; 4],
            sent_bytes: &[5, 3, 9, 4].map(|items| 700 * items),
            completed_bytes: &[0; 4],
            busy: &[],
        };
        let items = [WorkItem { digest: 7, bytes: 700 }; 5];
        let mut decisions = [Decision::Drop; 5];
        policy.place(&items, &load, &mut decisions);
        let mut counts = [5, 3, 9, 4];
        for decision in decisions {
            let Decision::To(worker) = decision else { panic!("{decision:?}") };
            assert_eq!(counts[worker.index()], *counts.iter().min().unwrap(), "{decisions:?}");
            counts[worker.index()] += 1;
        }
    }
}

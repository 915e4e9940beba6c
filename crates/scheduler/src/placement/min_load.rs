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
    use crate::laws;

    #[test]
    fn it_keeps_the_laws() {
        for workers in ["1", "3", "8x2x4,-0"] {
            let topology: Topology = workers.parse().unwrap();
            laws::check(&mut MinLoad::new(&topology), topology.workers(), 1);
        }
    }
}

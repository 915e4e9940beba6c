//! Round robin: each packet goes to the next worker in turn [LFB slide 4].
//!
//! The work is spread as evenly as packets allow, but neither the order nor the cache locality of a
//! flow is preserved.

use super::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId};

/// Places each packet on the worker after that of the previous packet.
#[derive(Clone, Copy, Debug)]
pub struct RoundRobin {
    workers: WorkerCount,
    next: u16,
}

impl RoundRobin {
    /// Returns the policy over a number of workers.
    #[must_use]
    pub const fn new(workers: WorkerCount) -> Self {
        Self { workers, next: 0 }
    }
}

impl Placement for RoundRobin {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (_, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(WorkerId(self.next));
            self.next = if self.next + 1 == self.workers.get() { 0 } else { self.next + 1 };
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers.get().into())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::None
    }

    fn name(&self) -> &'static str {
        "rr"
    }
}

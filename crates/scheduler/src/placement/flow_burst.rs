//! Flow-burst scheduling: a flow stays on its worker while packets of it are in flight, and
//! afterwards restarts on the least loaded worker [LFB slide 5].
//!
//! Atomic queues of an event device have the same contract: a flow with packets in progress is
//! pinned, and an idle flow may move.

use super::backlog::{Backlog, least_by};
use super::flows::{FlowSlots, SLOTS_MAX, Whereabouts};
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, bounded};
use crate::topology::Topology;

/// Sends a packet to the worker that has packets of its flow in flight, or to the least loaded
/// worker if there are none.
#[derive(Clone, Debug)]
pub struct FlowBurst {
    backlog: Backlog,
    flows: FlowSlots,
}

impl FlowBurst {
    /// Default size of the table, as a power of two.
    pub const BITS: u32 = 16;

    /// Returns the policy over the workers of a topology with 2^`bits` slots of eight bytes.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁴ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, u64::from(SLOTS_MAX.ilog2()))?;
        Ok(Self { backlog: Backlog::new(topology), flows: FlowSlots::new(bits) })
    }
}

impl Placement for FlowBurst {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.flows.request(items);
        self.backlog.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = self.flows.slot(item);
            let worker = match self.flows.find(slot, &self.backlog) {
                Whereabouts::InFlight(worker) => worker,
                Whereabouts::Unseen | Whereabouts::Idle(_) => least_by(self.backlog.waiting(), item.digest),
            };
            let (place, _) = self.backlog.assign(worker, item);
            self.flows.sent(slot, worker, place);
            *decision = Decision::To(Backlog::id(worker));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.backlog.workers())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        "fbs"
    }
}

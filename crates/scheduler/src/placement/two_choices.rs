//! Power of two choices: an idle flow that would wait too long moves to the better of two randomly
//! chosen workers.

use flowloom_flow_key::hash::fold::split_mix;

use super::backlog::Backlog;
use super::flows::{FlowSlots, SLOTS_MAX, Whereabouts};
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, bounded};
use crate::topology::Topology;

/// Compares two workers instead of all, and moves a flow only while none of its packets is in
/// flight.
#[derive(Clone, Debug)]
pub struct TwoChoices {
    backlog: Backlog,
    flows: FlowSlots,
    state: u64,
}

impl TwoChoices {
    /// Default size of the table, as a power of two.
    pub const BITS: u32 = 16;

    /// Returns the policy over the workers of a topology, with 2^`bits` slots of eight bytes and
    /// random numbers drawn from `seed`.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁴ slots.
    pub fn new(topology: &Topology, bits: u32, seed: u64) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, u64::from(SLOTS_MAX.ilog2()))?;
        Ok(Self { backlog: Backlog::new(topology), flows: FlowSlots::new(bits), state: seed })
    }

    #[inline]
    fn better_of_two(&mut self) -> usize {
        let waiting = self.backlog.waiting();
        let word = split_mix(&mut self.state);
        let draw = |half: u64| ((half * waiting.len() as u64) >> 32) as usize;
        let (first, second) = (draw(word >> 32), draw(word & 0xFFFF_FFFF));
        if waiting[second] < waiting[first] { second } else { first }
    }
}

impl Placement for TwoChoices {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.flows.request(items);
        self.backlog.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = self.flows.slot(item);
            let worker = match self.flows.find(slot, &self.backlog) {
                Whereabouts::InFlight(worker) => worker,
                Whereabouts::Unseen => self.better_of_two(),
                Whereabouts::Idle(last) => {
                    let better = self.better_of_two();
                    let waiting = self.backlog.waiting();
                    // A move costs one or two cache misses, a fraction of an item's work.
                    let slack = self.backlog.mean_cost() / 4;
                    if waiting[last] <= waiting[better].saturating_add(slack) { last } else { better }
                }
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
        "p2c"
    }
}

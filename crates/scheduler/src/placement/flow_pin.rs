//! FlowPin: a flow moves only while none of its packets is in flight, and only if the move pays.
//!
//! ```text
//!  in flight ──────────────▶ its worker
//!  idle ── last worker's pipeline and thread not much longer than the others ──▶ last worker
//!       ── else, if it is the thread: the shortest of its pipeline (same cache)
//!       ── else the shortest thread of the shortest pipeline ──▶ that one
//! ```
//!
//! The policy needs no feedback per packet: a flow is idle when its worker has completed as many
//! items as had been sent to it up to and including the flow's last packet. Backlogs are estimated
//! from items, bytes and, if measured, time. The backlog of a thread determines how long a packet
//! would wait, and that of a pipeline how many siblings would slow it down. Therefore the siblings
//! of an elephant's thread stay idle, and the elephant uses its pipeline alone. If workers differ
//! in speed, the compared value is the time until one more packet would be completed.
//!
//! "Much longer" means half of the shortest pipeline's backlog, but at least a quarter of a packet
//! and at most two packets. A move that prevents no idle time has only costs: the flow's state must
//! be fetched, and the dispatcher must search for a worker.
//!
//! FlowPin is for traffic in which few flows have much of the work. Where a packet's work is less
//! than the dispatcher's own work times the number of workers, it loses to
//! [`DirectHash`](crate::DirectHash) and to the RSS of a network card, in simulation by 14 %. Where
//! flows are equal, it gains a few percent (`docs/papers.md`).

use super::flows::{FlowSlots, SLOTS_MAX};
use super::load_index::LoadIndex;
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, bounded};
use crate::topology::Topology;

/// Leaves flows where they are, unless another worker is better by more than the cost of a move.
///
/// # Examples
///
/// ```
/// use flowloom_scheduler::{Decision, FlowPin, LoadView, Placement, WorkItem};
/// let mut policy = FlowPin::new(&"2x2".parse()?, FlowPin::BITS)?;
/// let items = [WorkItem { digest: 1, bytes: 1500 }; 8];
/// let mut decisions = [Decision::Drop; 8];
/// policy.place(&items, &LoadView::idle(), &mut decisions);
/// // All are of one flow, and none is completed yet.
/// assert!(decisions.iter().all(|decision| *decision == decisions[0]));
/// # Ok::<(), flowloom_scheduler::SetupError>(())
/// ```
#[derive(Clone, Debug)]
pub struct FlowPin {
    index: LoadIndex,
    flows: FlowSlots,
}

impl FlowPin {
    /// Default size of the table, as a power of two: 512 KiB.
    pub const BITS: u32 = 16;

    /// Returns the policy over a topology with 2^`bits` slots of eight bytes.
    ///
    /// Flows that share a slot are pinned together, so with few slots, few flows can move.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁴ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, u64::from(SLOTS_MAX.ilog2()))?;
        Ok(Self { index: LoadIndex::new(topology), flows: FlowSlots::new(bits) })
    }
}

impl Placement for FlowPin {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.index.place(&mut self.flows, items, load, decisions);
    }

    fn workers(&self) -> Option<usize> {
        Some(self.index.workers())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        "flowpin"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Places one packet of a flow with the given counters of every worker.
    fn place(policy: &mut FlowPin, digest: u32, sent: &[u64], completed: &[u64]) -> usize {
        let mut decision = [Decision::Drop];
        let load = LoadView { sent, completed, ..LoadView::idle() };
        policy.place(&[WorkItem { digest, bytes: 1000 }], &load, &mut decision);
        let Decision::To(worker) = decision[0] else { panic!("{decision:?}") };
        worker.index()
    }

    #[test]
    fn flow_in_flight_stays_and_an_idle_one_leaves_a_long_queue() {
        let mut policy = FlowPin::new(&"2".parse().unwrap(), 8).unwrap();
        let flow = 3 << 24;
        let home = place(&mut policy, flow, &[0, 0], &[0, 0]);
        let mut sent = [0, 0];
        sent[home] = 40;
        // Its packet was the first of 40, and none is completed.
        assert_eq!(place(&mut policy, flow, &sent, &[0, 0]), home);
        sent[home] = 41;
        // All of its packets are completed, and much work waits there.
        let mut completed = [0, 0];
        completed[home] = 41;
        sent[home] = 90;
        assert_eq!(place(&mut policy, flow, &sent, &completed), 1 - home);
        // It is idle again, and its new worker has no work.
        sent[1 - home] = 1;
        completed[1 - home] = 1;
        assert_eq!(place(&mut policy, flow, &sent, &completed), 1 - home);
    }

    #[test]
    fn threads_with_busy_siblings_are_avoided() {
        let mut policy = FlowPin::new(&"2x2".parse().unwrap(), 12).unwrap();
        // Thread 0 has an elephant's queue; its sibling is empty, but shares the pipeline.
        for digest in 0..20_u32 {
            let worker = place(&mut policy, digest << 20, &[500, 0, 9, 9], &[0, 0, 0, 0]);
            assert!(worker >= 2, "flow {digest} went to {worker}");
        }
    }
}

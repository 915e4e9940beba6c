//! FlowPin: a flow moves only while none of its packets is in flight, and only where that is worth it.
//!
//! ```text
//!  in flight ──────────────▶ its worker
//!  idle ── last worker's pipeline and thread not much longer than the shortest ──▶ last worker
//!       ── else a thread near the last one that is about as good as the best  ──▶ that one: the cache is shared
//!       ── else the shortest thread of the shortest pipeline                  ──▶ that one
//! ```
//!
//! Nothing comes back per packet: a flow is idle when its worker has completed as many items as were sent to it up to
//! the flow's last. What waits is estimated from items, bytes and, where it is measured, time; at the thread it says
//! how long a packet would wait, at the pipeline who would slow it down. So an elephant's siblings are left alone
//! with it, and it alone fills its pipeline.

use super::backlog::least_from;
use super::flows::{FlowSlots, SLOTS_MAX, Whereabouts};
use super::tree::TreeLoad;
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

/// Places flows where they are, unless another place is better by more than a move costs.
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
    load: TreeLoad,
    flows: FlowSlots,
    /// Node number of the first pipeline, and how many there are.
    pipelines: (u32, u32),
    /// Whether pipelines are the workers themselves.
    flat: bool,
}

impl FlowPin {
    /// Slots of the table as a power of two, where nothing else is asked for: 512 KiB.
    pub const BITS: u32 = 16;

    /// Returns the policy over a topology with 2^`bits` slots of eight bytes.
    ///
    /// Flows that share a slot are pinned together; with few slots little can move.
    ///
    /// # Errors
    ///
    /// [`SetupError::Parameter`] for more than 2²⁴ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, u64::from(SLOTS_MAX.ilog2()))?;
        let load = TreeLoad::new(topology);
        let level = topology.pipeline_level();
        let before: usize = 1 + (0..level).map(|level| topology.nodes(level)).sum::<usize>();
        let pipelines = (before as u32, topology.nodes(level) as u32);
        Ok(Self { load, flows: FlowSlots::new(bits), pipelines, flat: topology.levels() == 1 })
    }

    /// Returns the pipeline of a thread.
    #[inline]
    fn pipeline(&self, thread: u32) -> u32 {
        if self.flat { thread } else { self.load.nodes.parent(thread) }
    }

    /// Returns the threads of a pipeline.
    #[inline]
    fn threads(&self, pipeline: u32) -> std::ops::Range<u32> {
        if self.flat { pipeline..pipeline + 1 } else { self.load.nodes.children(pipeline) }
    }

    #[inline]
    fn best_thread(&self, pipeline: u32, digest: u32) -> u32 {
        let threads = self.threads(pipeline);
        let row = self.load.row(threads.clone());
        threads.start + least_from(row, digest as usize % row.len()) as u32
    }

    /// Returns the thread for an idle flow, given the one that had its last packet.
    #[inline]
    fn choose(&self, last: Option<usize>, digest: u32) -> u32 {
        let (first, count) = self.pipelines;
        let row = self.load.row(first..first + count);
        let best_pipeline = first + least_from(row, digest as usize % count as usize) as u32;
        let Some(last) = last else { return self.best_thread(best_pipeline, digest) };
        let thread = self.load.nodes.first_worker + last as u32;
        let own = self.pipeline(thread);
        // A move costs about a cache miss or two: a quarter of what a packet costs here.
        let slack = self.load.backlog.mean_cost() / 4;
        if self.load.waiting(own) > self.load.waiting(best_pipeline).saturating_add(slack) {
            return self.best_thread(best_pipeline, digest);
        }
        let best = self.best_thread(own, digest);
        if self.load.waiting(thread) > self.load.waiting(best).saturating_add(slack) {
            best
        } else {
            thread
        }
    }
}

impl Placement for FlowPin {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.load.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = self.flows.of(item);
            let worker = match self.flows.find(slot, &self.load.backlog) {
                Whereabouts::InFlight(worker) => worker,
                idle => {
                    let last = if let Whereabouts::Idle(last) = idle { Some(last) } else { None };
                    (self.choose(last, item.digest) - self.load.nodes.first_worker) as usize
                }
            };
            let place = self.load.assign(worker, item);
            self.flows.sent(slot, worker, place);
            *decision = Decision::To(WorkerId(worker as u16));
        }
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
    use crate::laws;

    #[test]
    fn it_keeps_the_laws() {
        for shape in ["1", "3", "8x2x4,-0", "2x2x2x2", "4x2"] {
            let topology: Topology = shape.parse().unwrap();
            laws::check(&mut FlowPin::new(&topology, FlowPin::BITS).unwrap(), topology.workers(), 1);
        }
    }

    /// Places one packet of a flow with every worker's counters as given.
    fn place(policy: &mut FlowPin, digest: u32, sent: &[u64], completed: &[u64]) -> usize {
        let mut decision = [Decision::Drop];
        let load = LoadView { sent, completed, ..LoadView::idle() };
        policy.place(&[WorkItem { digest, bytes: 1000 }], &load, &mut decision);
        let Decision::To(worker) = decision[0] else { panic!("{decision:?}") };
        worker.index()
    }

    #[test]
    fn a_flow_in_flight_stays_and_an_idle_one_leaves_a_long_queue() {
        let mut policy = FlowPin::new(&"2".parse().unwrap(), 8).unwrap();
        let flow = 3 << 24;
        let home = place(&mut policy, flow, &[0, 0], &[0, 0]);
        let mut sent = [0, 0];
        sent[home] = 40;
        // Its packet was the first of 40, and none is done.
        assert_eq!(place(&mut policy, flow, &sent, &[0, 0]), home);
        sent[home] = 41;
        // All of its packets are done, and much waits there.
        let mut completed = [0, 0];
        completed[home] = 41;
        sent[home] = 90;
        assert_eq!(place(&mut policy, flow, &sent, &completed), 1 - home);
        // Idle again, and its new worker has nothing to do.
        sent[1 - home] = 1;
        completed[1 - home] = 1;
        assert_eq!(place(&mut policy, flow, &sent, &completed), 1 - home);
    }

    #[test]
    fn siblings_of_a_busy_thread_are_left_alone() {
        let mut policy = FlowPin::new(&"2x2".parse().unwrap(), 12).unwrap();
        // Thread 0 has an elephant's queue; its sibling is empty, but shares the pipeline.
        for digest in 0..20_u32 {
            let worker = place(&mut policy, digest << 20, &[500, 0, 9, 9], &[0, 0, 0, 0]);
            assert!(worker >= 2, "flow {digest} went to {worker}");
        }
    }
}

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

use super::backlog::{Backlog, least_by};
use super::flows::{FlowSlots, SLOTS_MAX, Whereabouts};
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, bounded};
use crate::topology::{CAPACITY_FULL, Topology};

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
    backlog: Backlog,
    flows: FlowSlots,
    /// First worker of each pipeline, and the number of workers.
    first_worker: Vec<u16>,
    pipeline_of: Vec<u16>,
    /// Capacity of each worker.
    capacity: Vec<u32>,
    /// 2²⁰ over the capacity of each pipeline.
    scale: Vec<u64>,
    /// What waits at each pipeline, per capacity.
    waiting: Vec<u32>,
    /// The pipeline with least, as long as that is known.
    best: Option<usize>,
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
        let (level, leaf) = (topology.pipeline_level(), topology.levels() - 1);
        let workers = topology.workers();
        let pipelines = topology.nodes(level);
        let mut first_worker: Vec<u16> =
            (0..pipelines).map(|pipeline| topology.workers_of(level, pipeline).start as u16).collect();
        first_worker.push(workers.get());
        Ok(Self {
            backlog: Backlog::new(topology),
            flows: FlowSlots::new(bits),
            first_worker,
            pipeline_of: workers.workers().map(|worker| topology.node_of(level, worker) as u16).collect(),
            capacity: workers.workers().map(|worker| topology.capacity(leaf, worker.index())).collect(),
            scale: (0..pipelines)
                .map(|pipeline| (1 << 20) / u64::from(topology.capacity(level, pipeline)))
                .collect(),
            waiting: vec![0; pipelines],
            best: None,
        })
    }

    /// Adds up what waits at each pipeline, once a batch.
    fn refresh(&mut self, load: &LoadView<'_>) {
        self.backlog.refresh(load);
        let threads = self.backlog.waiting();
        for (pipeline, bounds) in self.first_worker.windows(2).enumerate() {
            let workers = usize::from(bounds[0])..usize::from(bounds[1]);
            let sum: u64 = threads[workers.clone()]
                .iter()
                .zip(&self.capacity[workers])
                .map(|(&waiting, &capacity)| u64::from(waiting) * u64::from(capacity))
                .sum();
            self.waiting[pipeline] = u32::try_from((sum * self.scale[pipeline]) >> 20).unwrap_or(u32::MAX);
        }
        self.best = None;
    }

    #[inline]
    fn best_pipeline(&mut self, digest: u32) -> usize {
        // Backlogs only grow until the next refresh: the least stays the least until it is chosen.
        if let Some(best) = self.best {
            return best;
        }
        let best = least_by(&self.waiting, digest);
        self.best = Some(best);
        best
    }

    #[inline]
    fn best_thread(&self, pipeline: usize, digest: u32) -> usize {
        let (first, end) =
            (usize::from(self.first_worker[pipeline]), usize::from(self.first_worker[pipeline + 1]));
        if end - first == 1 {
            return first;
        }
        first + least_by(&self.backlog.waiting()[first..end], digest)
    }

    /// Returns the worker for an idle flow, given the one that had its last packet.
    #[inline]
    fn choose(&mut self, last: Option<usize>, digest: u32) -> usize {
        let best = self.best_pipeline(digest);
        let Some(last) = last else { return self.best_thread(best, digest) };
        let own = usize::from(self.pipeline_of[last]);
        // A move costs about a cache miss or two: a quarter of what a packet costs here.
        let slack = self.backlog.mean_cost() / 4;
        if self.waiting[own] > self.waiting[best].saturating_add(slack) {
            return self.best_thread(best, digest);
        }
        let near = self.best_thread(own, digest);
        let threads = self.backlog.waiting();
        if threads[last] > threads[near].saturating_add(slack) { near } else { last }
    }

    #[inline]
    fn assign(&mut self, worker: usize, item: WorkItem) -> u64 {
        let (place, _) = self.backlog.assign(worker, item);
        let pipeline = usize::from(self.pipeline_of[worker]);
        let cost = u64::from(self.backlog.cost(item)) * u64::from(CAPACITY_FULL);
        let added = u32::try_from((cost * self.scale[pipeline]) >> 20).unwrap_or(u32::MAX);
        self.waiting[pipeline] = self.waiting[pipeline].saturating_add(added);
        if self.best == Some(pipeline) {
            self.best = None;
        }
        place
    }
}

impl Placement for FlowPin {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        self.flows.request(items);
        self.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = self.flows.of(item);
            let worker = match self.flows.find(slot, &self.backlog) {
                Whereabouts::InFlight(worker) => worker,
                Whereabouts::Idle(last) => self.choose(Some(last), item.digest),
                Whereabouts::Unseen => self.choose(None, item.digest),
            };
            let place = self.assign(worker, item);
            self.flows.sent(slot, worker, place);
            *decision = Decision::To(Backlog::id(worker));
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

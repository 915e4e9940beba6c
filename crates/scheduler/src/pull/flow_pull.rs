//! FlowPull: the pull form of FlowPin. Workers fetch flows. One worker at a time holds a flow, and
//! the flow returns to its last worker unless another would be idle.
//!
//! Unlike in [LFB slide 10], the dispatcher sorts packets into flows, so that workers do not
//! contend for a receive queue. If the dispatcher is the bottleneck, that is, while a worker is
//! idle or few packets wait, packets stay unsorted until a worker sorts them. A worker returns a
//! flow after a few packets, so that no flow delays others for long. A flow with more than a
//! pipeline's share of all waiting work (an elephant) goes first, because it would finish last. Its
//! worker keeps it unless a faster worker is free. Threads of a pipeline stay idle for a sibling's
//! elephant if every running thread slows it down ([`Topology::with_thread_demand`] determines
//! whether it does).

use std::collections::VecDeque;

use super::fifo::{Fifo, Links};
use super::{FetchCost, Fetched, PullPolicy};
use crate::placement::{OrderGuarantee, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

const NO_WORKER: u16 = u16::MAX;
const FULL_SPEED: u32 = u32::MAX;
/// Number of packets of a flow after which its worker checks whether other flows wait.
const QUOTA: u32 = 8;
/// Number of flows that wait for their last worker; any worker may take additional ones.
const OWN_LIST: usize = 8;
/// Number of packets that an otherwise idle worker sorts at once.
const BATCH: usize = 32;
/// Number of packets sorted per arrival while workers are busy: more than one, so that the unsorted
/// queue drains.
const SORTED: usize = 2;
/// Number of waiting packets per worker above which workers are the bottleneck.
const PLENTY: usize = 4;
/// Cost of a packet in addition to its bytes.
const ITEM_BYTES: u32 = 256;

#[derive(Clone, Copy, Debug)]
struct Flow {
    packets: Fifo,
    last: u16,
    /// Whether a worker holds it, or it is in a list.
    taken: bool,
    /// Whether a worker holds it, or it is reserved for a worker at full speed. Others cannot take
    /// it, even if it is in a list.
    held: bool,
    /// Whether it is in the list of elephants.
    urgent: bool,
    /// Waiting work, in bytes plus [`ITEM_BYTES`] per packet.
    waiting: u64,
}

/// Flows that workers fetch.
#[derive(Clone)]
pub struct FlowPull {
    /// Unsorted packets: their token, flow and cost.
    receive: VecDeque<(u32, u32, u32)>,
    /// Number of packets that the last arrival sorted.
    sorted: u32,
    /// Whether each worker found nothing at its last fetch, and how many workers found nothing.
    is_idle: Vec<bool>,
    idle: usize,
    links: Links,
    flows: Vec<Flow>,
    /// The flow that each worker holds, and how many of its packets the worker has fetched.
    current: Vec<Option<(u32, u32)>>,
    own: Vec<VecDeque<u32>>,
    shared: VecDeque<u32>,
    /// Flows that no worker holds and that have so much waiting work that they would finish last.
    /// Each flow is in another list too and stays there when it is removed from here. Readers skip
    /// entries of flows that are held or empty.
    urgent: VecDeque<u32>,
    /// Elephants that wait for a faster worker than their last one.
    homeless: VecDeque<Homeless>,
    /// The capacity of each worker, or [`FULL_SPEED`] for the fastest workers on the fastest
    /// pipelines.
    speed: Vec<u32>,
    is_fast_pipeline: Vec<bool>,
    fast_pipelines: usize,
    pipeline: Vec<u16>,
    /// Whether the workers of a pipeline slow each other down.
    is_contended: Vec<bool>,
    /// The worker that has an elephant, by pipeline.
    elephant: Vec<u16>,
    /// Total waiting work of all flows.
    waiting_cost: u64,
    waiting: usize,
    shift: u32,
}

impl core::fmt::Debug for FlowPull {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("FlowPull")
            .field("workers", &self.current.len())
            .field("flows", &self.flows.len())
            .field("waiting", &self.waiting)
            .finish_non_exhaustive()
    }
}

impl FlowPull {
    /// Default size of the table, as a power of two.
    pub const BITS: u32 = 16;

    /// Returns the policy for the workers of a topology, with 2^`bits` slots that flows share by
    /// their digests.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for more than 2²⁰ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, 20)?;
        let workers = usize::from(topology.workers().get());
        let level = topology.pipeline_level();
        let flow = Flow {
            packets: Fifo::default(),
            last: NO_WORKER,
            taken: false,
            held: false,
            urgent: false,
            waiting: 0,
        };
        let leaf = topology.levels() - 1;
        let most =
            |level: usize| (0..topology.nodes(level)).map(|node| topology.capacity(level, node)).max();
        let is_fast = |level: usize, node: usize| Some(topology.capacity(level, node)) == most(level);
        let is_fast_pipeline: Vec<bool> =
            (0..topology.nodes(level)).map(|node| is_fast(level, node)).collect();
        Ok(Self {
            receive: VecDeque::new(),
            sorted: 0,
            is_idle: vec![false; workers],
            idle: 0,
            links: Links::default(),
            flows: vec![flow; 1 << bits],
            current: vec![None; workers],
            own: vec![VecDeque::new(); workers],
            shared: VecDeque::new(),
            urgent: VecDeque::new(),
            homeless: VecDeque::new(),
            speed: (0..workers)
                .map(|worker| {
                    let pipeline = topology.node_of(level, WorkerId::from(worker as u16));
                    let is_fast = is_fast(leaf, worker) && is_fast_pipeline[pipeline];
                    if is_fast { FULL_SPEED } else { topology.capacity(leaf, worker) }
                })
                .collect(),
            fast_pipelines: is_fast_pipeline.iter().filter(|&&fast| fast).count(),
            is_fast_pipeline,
            pipeline: (0..workers)
                .map(|worker| topology.node_of(level, WorkerId::from(worker as u16)) as u16)
                .collect(),
            is_contended: (0..topology.nodes(level)).map(|node| topology.is_contended(node)).collect(),
            elephant: vec![NO_WORKER; topology.nodes(level)],
            waiting_cost: 0,
            waiting: 0,
            shift: 32 - bits,
        })
    }

    /// Returns whether a flow has more than a pipeline's share of the waiting work, and enough work
    /// to matter.
    fn is_elephant(&self, flow: &Flow) -> bool {
        let share = self.waiting_cost / self.elephant.len() as u64;
        flow.packets.len() > 2 * QUOTA && flow.waiting > share
    }

    /// Returns whether another worker of the pipeline holds an elephant that this worker would slow
    /// down.
    fn is_yielding(&self, worker: usize) -> bool {
        let pipeline = usize::from(self.pipeline[worker]);
        let elephant = self.elephant[pipeline];
        self.is_contended[pipeline] && elephant != NO_WORKER && usize::from(elephant) != worker
    }

    /// Returns the speed that the next worker of this worker's elephant must exceed, if the
    /// elephant should move. This is the case if a worker at full speed holds no elephant half as
    /// large, or if a worker twice as fast has no work.
    fn better_than(&self, worker: usize, flow: &Flow) -> Option<u32> {
        let speed = self.speed[worker];
        if speed == FULL_SPEED {
            return None;
        }
        let is_taken = |by: u16| {
            let current = self.current.get(usize::from(by)).copied().flatten();
            current.is_some_and(|(at, _)| 2 * self.flows[at as usize].waiting > flow.waiting)
        };
        let taken =
            self.elephant.iter().zip(&self.is_fast_pipeline).filter(|&(&by, &fast)| fast && is_taken(by));
        if taken.count() + self.homeless.len() < self.fast_pipelines {
            return Some(FULL_SPEED - 1);
        }
        let mut others = self.is_idle.iter().zip(&self.speed);
        others.any(|(&is_idle, &other)| is_idle && other >= 2 * speed).then_some(speed)
    }

    /// Returns whether an elephant with more than twice this flow's waiting work waits for a worker
    /// of this speed.
    fn is_displaced(&self, worker: usize, flow: &Flow) -> bool {
        let at = self.homeless.iter().find(|home| home.above < self.speed[worker]).map(|home| home.flow);
        at.is_some_and(|at| self.flows[at as usize].waiting > 2 * flow.waiting)
    }

    /// Removes an elephant that waits for a worker of this speed.
    fn adopt(&mut self, worker: usize) -> Option<u32> {
        let at = self.homeless.iter().position(|home| home.above < self.speed[worker])?;
        self.homeless.remove(at).map(|home| home.flow)
    }

    /// Sorts up to `most` packets into their flows, oldest first. Returns the number of sorted
    /// packets.
    fn sort(&mut self, most: usize) -> u32 {
        let count = most.min(self.receive.len());
        for _ in 0..count {
            let Some((token, at, cost)) = self.receive.pop_front() else { break };
            let flow = &mut self.flows[at as usize];
            flow.packets.push(&mut self.links, token, cost);
            flow.waiting += u64::from(cost);
            self.waiting_cost += u64::from(cost);
            if !flow.taken {
                flow.taken = true;
                let last = usize::from(flow.last);
                if flow.last == NO_WORKER || self.own[last].len() >= OWN_LIST {
                    self.shared.push_back(at);
                } else {
                    self.own[last].push_back(at);
                }
            }
            let flow = self.flows[at as usize];
            if !flow.held && !flow.urgent && self.is_elephant(&flow) {
                self.flows[at as usize].urgent = true;
                self.urgent.push_back(at);
            }
        }
        count as u32
    }

    /// Records whether a worker found work.
    fn note(&mut self, worker: usize, is_idle: bool) {
        if self.is_idle[worker] != is_idle {
            self.is_idle[worker] = is_idle;
            self.idle = if is_idle { self.idle + 1 } else { self.idle - 1 };
        }
    }

    /// Takes the flow from a worker and puts it into the worker's own list or into the shared one.
    fn give_back(&mut self, worker: usize, at: u32, list: List) {
        self.current[worker] = None;
        let pipeline = usize::from(self.pipeline[worker]);
        if usize::from(self.elephant[pipeline]) == worker {
            self.elephant[pipeline] = NO_WORKER;
        }
        let flow = &mut self.flows[at as usize];
        flow.held = matches!(list, List::Homeless { .. }) && !flow.packets.is_empty();
        match list {
            _ if flow.packets.is_empty() => flow.taken = false,
            List::Own => self.own[worker].push_back(at),
            List::Shared => self.shared.push_back(at),
            List::Homeless { above } => self.homeless.push_back(Homeless { flow: at, above }),
        }
    }

    fn choose(&mut self, worker: usize, steps: &mut FetchCost) -> Option<u32> {
        if let Some(homeless) = self.adopt(worker) {
            steps.locks += 1;
            return Some(homeless);
        }
        if let Some(urgent) = first_of(&mut self.urgent, &self.flows) {
            steps.locks += 1;
            return Some(urgent);
        }
        if let Some(own) = first_of(&mut self.own[worker], &self.flows) {
            return Some(own);
        }
        if let Some(shared) = first_of(&mut self.shared, &self.flows) {
            steps.locks += 1;
            return Some(shared);
        }
        loop {
            let longest = (0..self.own.len()).max_by_key(|&other| self.own[other].len())?;
            let stolen = self.own[longest].pop_back()?;
            if self.flows[stolen as usize].is_waiting() {
                steps.locks += 2;
                steps.stolen += 1;
                return Some(stolen);
            }
        }
    }
}

impl Flow {
    /// Returns whether the flow waits only for a worker.
    fn is_waiting(&self) -> bool {
        !self.held && !self.packets.is_empty()
    }
}

/// Removes the first waiting flow of a list. Skips entries of flows that were taken from another
/// list.
fn first_of(list: &mut VecDeque<u32>, flows: &[Flow]) -> Option<u32> {
    while let Some(at) = list.pop_front() {
        if flows[at as usize].is_waiting() {
            return Some(at);
        }
    }
    None
}

/// The list in which a flow waits that no worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// The list of its last worker.
    Own,
    /// The list for any worker.
    Shared,
    /// The list of elephants that wait for a worker faster than `above`.
    Homeless { above: u32 },
}

/// An elephant that waits for a faster worker.
#[derive(Clone, Copy, Debug)]
struct Homeless {
    flow: u32,
    above: u32,
}

impl PullPolicy for FlowPull {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        let at = (u64::from(item.digest) >> self.shift) as u32;
        let cost = item.bytes.saturating_add(ITEM_BYTES);
        self.waiting += 1;
        self.receive.push_back((token, at, cost));
        // If little work waits, workers are less loaded than the caller and sort the packets
        // themselves.
        let is_busy = self.idle == 0 && self.waiting >= PLENTY * self.is_idle.len();
        self.sorted = if is_busy { self.sort(SORTED) } else { 0 };
        let last = self.flows[at as usize].last;
        (last != NO_WORKER).then(|| last.into())
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        let worker = worker.index();
        let pipeline = usize::from(self.pipeline[worker]);
        let mut steps = FetchCost::default();
        let is_yielding = self.is_yielding(worker);
        if let Some((at, had)) = self.current[worker] {
            let flow = self.flows[at as usize];
            let is_elephant = self.is_elephant(&flow);
            let others = !self.own[worker].is_empty()
                || !self.shared.is_empty()
                || !self.urgent.is_empty()
                || self.homeless.iter().any(|home| home.above < self.speed[worker]);
            if is_yielding {
                self.give_back(worker, at, List::Shared);
            } else if is_elephant && let Some(above) = self.better_than(worker, &flow) {
                self.give_back(worker, at, List::Homeless { above });
            } else if is_elephant && self.is_displaced(worker, &flow) {
                self.give_back(worker, at, List::Shared);
            } else if flow.packets.is_empty() || (had >= QUOTA && others && !is_elephant) {
                self.give_back(worker, at, List::Own);
            }
        }
        if is_yielding {
            // The elephant needs the whole pipeline; other workers can take the flows that wait for
            // this one.
            while let Some(at) = self.own[worker].pop_front() {
                self.shared.push_back(at);
            }
            self.note(worker, false);
            return None;
        }
        if self.current[worker].is_none() {
            let mut chosen = self.choose(worker, &mut steps);
            while chosen.is_none() && !self.receive.is_empty() {
                steps.locks += 1;
                steps.inspected += self.sort(BATCH);
                chosen = self.choose(worker, &mut steps);
            }
            self.note(worker, chosen.is_none());
            let at = chosen?;
            let flow = &mut self.flows[at as usize];
            steps.moved += u32::from(usize::from(flow.last) != worker);
            flow.last = worker as u16;
            (flow.held, flow.urgent) = (true, false);
            self.current[worker] = Some((at, 0));
        }
        let (at, had) = self.current[worker]?;
        let flow = self.flows[at as usize];
        if self.is_elephant(&flow) {
            self.elephant[pipeline] = worker as u16;
        } else if usize::from(self.elephant[pipeline]) == worker {
            self.elephant[pipeline] = NO_WORKER;
        }
        let flow = &mut self.flows[at as usize];
        let (token, cost) = flow.packets.pop(&mut self.links)?;
        flow.waiting -= u64::from(cost);
        self.waiting_cost -= u64::from(cost);
        self.waiting -= 1;
        self.current[worker] = Some((at, had + 1));
        Some(Fetched { token, steps })
    }

    fn waiting(&self) -> usize {
        self.waiting
    }

    fn sorted(&self) -> u32 {
        self.sorted
    }

    fn refuses(&self, item: WorkItem, capacity: u64) -> bool {
        // A flow may have at most as many waiting packets as there is space left for all others, so
        // that one flow leaves space for the others.
        let at = (u64::from(item.digest) >> self.shift) as usize;
        let free = capacity.saturating_sub(self.waiting as u64);
        u64::from(self.flows[at].packets.len()) >= free
    }

    fn has_ready(&self) -> bool {
        !self.receive.is_empty()
            || !self.shared.is_empty()
            || !self.homeless.is_empty()
            || self.own.iter().any(|list| !list.is_empty())
    }

    fn workers(&self) -> Option<usize> {
        Some(self.current.len())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::PerFlow
    }

    fn name(&self) -> &'static str {
        "flowpull"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    #[test]
    fn pull_policy_passes_the_law_suite() {
        for shape in ["1", "3", "2x2x4,-0"] {
            let topology: Topology = shape.parse().unwrap();
            for bits in [0, 4, 16] {
                let mut policy = FlowPull::new(&topology, bits).unwrap();
                laws::check_pull(&mut policy, topology.workers(), u64::from(bits));
            }
        }
        // All packets belong to one flow, so only one worker at a time finds work.
        for shape in ["65", "1024"] {
            let topology: Topology = shape.parse().unwrap();
            laws::check_pull(&mut FlowPull::new(&topology, 0).unwrap(), topology.workers(), 4);
        }
    }

    #[test]
    fn sibling_threads_leave_their_pipeline_to_an_elephant_flow() {
        let mut policy = FlowPull::new(&"2x2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            policy.arrive(token, item(1));
        }
        for token in 100..110 {
            policy.arrive(token, item(token));
        }
        assert_eq!(policy.next(0.into()).unwrap().token, 0);
        assert_eq!(policy.next(1.into()), None);
        assert_eq!(policy.next(2.into()).unwrap().token, 100);
        assert_eq!(policy.next(3.into()).unwrap().token, 101);
        // The quota does not separate the elephant from its worker.
        for token in 1..20 {
            assert_eq!(policy.next(0.into()).unwrap().token, token);
        }
        // When it is small, or a small part of the waiting work, its siblings work again.
        for token in 20..83 {
            assert_eq!(policy.next(0.into()).unwrap().token, token);
        }
        assert_eq!(policy.next(1.into()), None);
        assert_eq!(policy.next(0.into()).unwrap().token, 83);
        assert_eq!(policy.next(0.into()).unwrap().token, 84);
        assert_eq!(policy.next(1.into()).unwrap().token, 102);
    }

    #[test]
    fn sibling_threads_that_do_not_slow_an_elephant_flow_continue() {
        let next = |demand| {
            let topology: Topology = "2x2".parse().unwrap();
            let mut policy = FlowPull::new(&topology.with_thread_demand(demand), 8).unwrap();
            for token in 0..110 {
                let flow = if token < 100 { 1 } else { token };
                policy.arrive(token, WorkItem { digest: flow << 24, bytes: 1000 });
            }
            assert_eq!(policy.next(0.into()).unwrap().token, 0);
            policy.next(1.into()).map(|fetched| fetched.token)
        };
        assert_eq!([1000, 501, 500].map(next), [None, None, Some(100)]);
    }

    #[test]
    fn an_elephant_of_a_slow_worker_is_left_to_a_fast_one() {
        let mut policy = FlowPull::new(&"2x1,1=50".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            policy.arrive(token, item(1));
        }
        assert_eq!(policy.next(1.into()).unwrap().token, 0);
        assert_eq!(policy.next(1.into()), None, "it was given up for the fast worker");
        assert!(policy.has_ready());
        for token in 1..30 {
            assert_eq!(policy.next(0.into()).unwrap().token, token);
        }
        // A second elephant stays, because the fast worker has the first.
        for token in 100..300 {
            policy.arrive(token, item(2));
        }
        for token in 100..120 {
            assert_eq!(policy.next(1.into()).unwrap().token, token);
        }
    }

    #[test]
    fn an_elephant_of_a_slow_worker_is_left_to_a_faster_one_that_is_idle() {
        let mut policy = FlowPull::new(&"3,0=25,1=200".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |policy: &mut FlowPull, worker: u16| policy.next(worker.into()).map(|got| got.token);
        // The fastest worker holds an elephant, and a slow one holds another.
        for token in 0..200 {
            policy.arrive(token, item(token / 100));
        }
        assert_eq!([1, 0].map(|worker| next(&mut policy, worker)), [Some(0), Some(100)]);
        assert_eq!(next(&mut policy, 0), Some(101), "no other worker has asked");
        assert_eq!(next(&mut policy, 2), None);
        assert_eq!(next(&mut policy, 0), None, "it was given up for the idle one");
        assert_eq!(next(&mut policy, 0), None, "and is not taken back");
        assert_eq!(next(&mut policy, 2), Some(102));
    }

    #[test]
    fn a_fast_worker_leaves_a_small_elephant_for_a_large_one() {
        let mut policy = FlowPull::new(&"4,0=200".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |policy: &mut FlowPull, worker: u16| policy.next(worker.into()).map(|got| got.token);
        for token in 0..60 {
            policy.arrive(token, item(1));
        }
        assert_eq!(next(&mut policy, 0), Some(0));
        for token in 60..90 {
            policy.arrive(token, item(2));
        }
        assert_eq!([1, 1].map(|worker| next(&mut policy, worker)), [Some(60), Some(61)]);
        for token in 90..200 {
            policy.arrive(token, item(2));
        }
        assert_eq!(next(&mut policy, 2), None);
        assert_eq!(next(&mut policy, 1), None, "the fastest has less than half of it");
        assert_eq!(next(&mut policy, 0), Some(62), "and gives its own up for it");
        assert_eq!(next(&mut policy, 1), Some(1));
    }

    #[test]
    fn single_flow_in_one_pipeline_is_no_elephant() {
        let mut policy = FlowPull::new(&"1x2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            policy.arrive(token, item(1));
        }
        assert_eq!(policy.next(0.into()).unwrap().token, 0);
        policy.arrive(100, item(2));
        assert_eq!(policy.next(1.into()).unwrap().token, 100);
    }

    #[test]
    fn less_loaded_stage_sorts_the_packets() {
        let mut policy = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 100 };
        // Little work waits: packets stay in order of arrival, and the first worker sorts them.
        for token in 0..5 {
            policy.arrive(token, item(token));
            assert_eq!(policy.sorted(), 0);
        }
        let first = policy.next(0.into()).unwrap();
        assert_eq!((first.token, first.steps.inspected), (0, 5));
        assert_eq!(policy.next(1.into()).unwrap().steps.inspected, 0);
        // Much work waits: an arrival sorts its packet and some older ones.
        for token in 5..40 {
            policy.arrive(token, item(token));
        }
        assert_eq!(policy.sorted(), 1);
        // When a worker finds nothing, workers sort again from then on, even if much work waits.
        let mut other = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        assert_eq!(other.next(1.into()), None);
        for token in 0..40 {
            other.arrive(token, item(1));
            assert_eq!(other.sorted(), 0);
        }
        assert!(other.has_ready());
        assert_eq!(other.next(1.into()).unwrap().steps.inspected, 32);
    }

    #[test]
    fn flow_that_delays_all_others_is_served_first() {
        let mut policy = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |policy: &mut FlowPull, worker: u16| policy.next(worker.into()).map(|got| got.token);
        for token in 0..30 {
            policy.arrive(token, item(token + 2));
        }
        for token in 30..90 {
            policy.arrive(token, item(1));
        }
        // Thirty flows came before it, but it has two thirds of all packets.
        assert_eq!(next(&mut policy, 0), Some(30));
        assert_eq!(next(&mut policy, 1), Some(0));
        for token in 31..70 {
            assert_eq!(next(&mut policy, 0), Some(token));
        }
        // No packet is lost or duplicated, although the flow was in two lists.
        let mut rest: Vec<u32> = std::iter::from_fn(|| next(&mut policy, 0)).collect();
        rest.extend(std::iter::from_fn(|| next(&mut policy, 1)));
        rest.sort_unstable();
        assert_eq!(rest, (1..30).chain(70..90).collect::<Vec<u32>>());
        assert_eq!(policy.waiting(), 0);
    }

    #[test]
    fn one_flow_cannot_fill_the_pool() {
        let mut policy = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let capacity = 100;
        let mut taken = [0, 0];
        for token in 0..400 {
            let flow = token / 200;
            if !policy.refuses(item(flow), capacity) {
                policy.arrive(token, item(flow));
                taken[flow as usize] += 1;
                // The dispatcher sorts, and a worker fetches a packet occasionally.
                if token == 0 {
                    policy.next(0.into());
                }
            }
        }
        // Half of the space for the first flow; half of the rest for the second.
        assert!((45..=55).contains(&taken[0]) && (20..=30).contains(&taken[1]), "{taken:?}");
        assert!(policy.waiting() < 100);
    }
}

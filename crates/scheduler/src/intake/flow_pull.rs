//! FlowPull: FlowPin turned round. Workers fetch flows; a flow is in one hand at a time, and goes back to the worker
//! that had it unless another would be idle.
//!
//! Unlike [LFB slide 10] the dispatcher sorts packets into flows, so that workers do not meet at a receive queue, unless
//! it is the one that others wait for: where a worker has nothing to do, or little waits, packets stay as they came
//! until a worker sorts them. A worker gives a flow back after a few packets, so that no flow makes others wait for
//! long; only a flow with more than a pipeline's share of all that waits goes before all others, since it would be the
//! last to be done, and is kept, unless a faster worker could have it. Threads of a pipeline leave it to such an elephant
//! that one of them has, where it is slowed by every thread that runs beside it ([`Topology::with_thread_demand`] says
//! where it is not).

use std::collections::VecDeque;

use super::fifo::{Fifo, Links};
use super::{Fetched, Intake, Steps};
use crate::placement::{OrderGuarantee, SetupError, WorkItem, WorkerId, bounded};
use crate::topology::Topology;

const NOBODY: u16 = u16::MAX;
const FULL_SPEED: u32 = u32::MAX;
/// Packets of a flow after which its worker looks whether others wait.
const QUOTA: u32 = 8;
/// Flows that wait for their last worker; further ones are anybody's.
const OWN_LIST: usize = 8;
/// Packets that a worker with nothing else to do sorts at once.
const BATCH: usize = 32;
/// Packets that are sorted with each that arrives, while workers are busy: more than one, so that none is left.
const SORTED: usize = 2;
/// Packets that wait for each worker where workers are those that others wait for.
const PLENTY: usize = 4;
/// What a packet counts beside its bytes.
const ITEM_BYTES: u32 = 256;

#[derive(Clone, Copy, Debug)]
struct Flow {
    packets: Fifo,
    last: u16,
    /// In somebody's hand, or in a list.
    taken: bool,
    /// In somebody's hand, or kept for a worker at full speed: whatever other list it is in, it is not to be had.
    held: bool,
    /// In the list of those that others wait for.
    urgent: bool,
    /// What waits, in bytes and [`ITEM_BYTES`] a packet.
    waiting: u64,
}

/// Flows that workers fetch.
#[derive(Clone)]
pub struct FlowPull {
    /// Packets that nobody has sorted: their token, flow and cost.
    receive: VecDeque<(u32, u32, u32)>,
    /// How many the last arrival sorted.
    sorted: u32,
    /// Whether a worker found nothing when it last asked, and how many did.
    is_idle: Vec<bool>,
    idle: usize,
    links: Links,
    flows: Vec<Flow>,
    /// The flow in each worker's hand, and how many of its packets it has had.
    current: Vec<Option<(u32, u32)>>,
    own: Vec<VecDeque<u32>>,
    shared: VecDeque<u32>,
    /// Flows in no hand with so much waiting that all will wait for them in the end. Each is in another list too, and
    /// stays there when it is taken from here: entries of flows that somebody holds, or that are empty, are passed over.
    urgent: VecDeque<u32>,
    /// Elephants that wait for a faster worker than they had.
    homeless: VecDeque<Homeless>,
    /// The capacity of a worker, or [`FULL_SPEED`] for the fastest on the fastest pipelines.
    speed: Vec<u32>,
    is_fast_pipeline: Vec<bool>,
    fast_pipelines: usize,
    pipeline: Vec<u16>,
    /// Whether the workers of a pipeline slow each other.
    is_contended: Vec<bool>,
    /// The worker of a pipeline that has an elephant, by pipeline.
    elephant: Vec<u16>,
    /// What waits in flows.
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
    /// Slots of the table as a power of two, where nothing else is asked for.
    pub const BITS: u32 = 16;

    /// Returns the policy for the workers of a topology, with 2^`bits` slots that flows share by their digests.
    ///
    /// # Errors
    ///
    /// [`SetupError::Parameter`] for more than 2²⁰ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, 20)?;
        let workers = usize::from(topology.workers().get());
        let level = topology.pipeline_level();
        let flow = Flow {
            packets: Fifo::default(),
            last: NOBODY,
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
            elephant: vec![NOBODY; topology.nodes(level)],
            waiting_cost: 0,
            waiting: 0,
            shift: 32 - bits,
        })
    }

    /// Says whether a flow has more than a pipeline's share of what waits, and so much that it matters.
    fn is_elephant(&self, flow: &Flow) -> bool {
        let share = self.waiting_cost / self.elephant.len() as u64;
        flow.packets.len() > 2 * QUOTA && flow.waiting > share
    }

    /// Says whether another worker of the pipeline has an elephant, and is slowed by this one.
    fn is_yielding(&self, worker: usize) -> bool {
        let pipeline = usize::from(self.pipeline[worker]);
        let elephant = self.elephant[pipeline];
        self.is_contended[pipeline] && elephant != NOBODY && usize::from(elephant) != worker
    }

    /// Where an elephant in this worker's hand would do better, and could: returns the speed that its next worker must
    /// exceed. Either a worker at full speed has no elephant that is half as large, or one that is twice as fast as this
    /// has nothing at all.
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

    /// Says whether an elephant waits for a worker as fast as this with more than twice what waits in this flow.
    fn is_displaced(&self, worker: usize, flow: &Flow) -> bool {
        let at = self.homeless.iter().find(|home| home.above < self.speed[worker]).map(|home| home.flow);
        at.is_some_and(|at| self.flows[at as usize].waiting > 2 * flow.waiting)
    }

    /// Takes out an elephant that waits for a worker as fast as this.
    fn adopt(&mut self, worker: usize) -> Option<u32> {
        let at = self.homeless.iter().position(|home| home.above < self.speed[worker])?;
        self.homeless.remove(at).map(|home| home.flow)
    }

    /// Sorts so many packets into their flows, the oldest first; returns how many there were.
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
                if flow.last == NOBODY || self.own[last].len() >= OWN_LIST {
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

    /// Notes whether a worker found something.
    fn note(&mut self, worker: usize, is_idle: bool) {
        if self.is_idle[worker] != is_idle {
            self.is_idle[worker] = is_idle;
            self.idle = if is_idle { self.idle + 1 } else { self.idle - 1 };
        }
    }

    /// Takes the flow out of a worker's hand: to its own list, or to the one that is meant for all.
    fn give_back(&mut self, worker: usize, at: u32, list: List) {
        self.current[worker] = None;
        let pipeline = usize::from(self.pipeline[worker]);
        if usize::from(self.elephant[pipeline]) == worker {
            self.elephant[pipeline] = NOBODY;
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

    fn choose(&mut self, worker: usize, steps: &mut Steps) -> Option<u32> {
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
    /// Says whether it is a worker that the flow lacks.
    fn is_waiting(&self) -> bool {
        !self.held && !self.packets.is_empty()
    }
}

/// Takes the first flow out of a list that waits; what stands before it is of flows that were taken elsewhere.
fn first_of(list: &mut VecDeque<u32>, flows: &[Flow]) -> Option<u32> {
    while let Some(at) = list.pop_front() {
        if flows[at as usize].is_waiting() {
            return Some(at);
        }
    }
    None
}

/// Where a flow waits that is in nobody's hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    /// For its last worker.
    Own,
    /// For any worker.
    Shared,
    /// For a worker faster than this: an elephant.
    Homeless { above: u32 },
}

/// An elephant that waits for a worker faster than this.
#[derive(Clone, Copy, Debug)]
struct Homeless {
    flow: u32,
    above: u32,
}

impl Intake for FlowPull {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        let at = (u64::from(item.digest) >> self.shift) as u32;
        let cost = item.bytes.saturating_add(ITEM_BYTES);
        self.waiting += 1;
        self.receive.push_back((token, at, cost));
        // Where little waits, workers are quicker than whoever calls this, and have the time.
        let is_busy = self.idle == 0 && self.waiting >= PLENTY * self.is_idle.len();
        self.sorted = if is_busy { self.sort(SORTED) } else { 0 };
        let last = self.flows[at as usize].last;
        (last != NOBODY).then(|| last.into())
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        let worker = worker.index();
        let pipeline = usize::from(self.pipeline[worker]);
        let mut steps = Steps::default();
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
            // The elephant needs all of the pipeline; what waits for this worker may be others'.
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
            self.elephant[pipeline] = NOBODY;
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

    fn refuses(&self, item: WorkItem, room: u64) -> bool {
        // A flow may have as many packets waiting as others still could: so one flow leaves room for all.
        let at = (u64::from(item.digest) >> self.shift) as usize;
        let free = room.saturating_sub(self.waiting as u64);
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
    fn it_keeps_the_laws_of_an_intake() {
        for shape in ["1", "3", "2x2x4,-0"] {
            let topology: Topology = shape.parse().unwrap();
            for bits in [0, 4, 16] {
                let mut intake = FlowPull::new(&topology, bits).unwrap();
                laws::check_intake(&mut intake, topology.workers(), u64::from(bits));
            }
        }
        // One flow of all, and so one worker at a time of many that ask.
        for shape in ["65", "1024"] {
            let topology: Topology = shape.parse().unwrap();
            laws::check_intake(&mut FlowPull::new(&topology, 0).unwrap(), topology.workers(), 4);
        }
    }

    #[test]
    fn siblings_leave_their_pipeline_to_an_elephant() {
        let mut intake = FlowPull::new(&"2x2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            intake.arrive(token, item(1));
        }
        for token in 100..110 {
            intake.arrive(token, item(token));
        }
        assert_eq!(intake.next(0.into()).unwrap().token, 0);
        assert_eq!(intake.next(1.into()), None);
        assert_eq!(intake.next(2.into()).unwrap().token, 100);
        assert_eq!(intake.next(3.into()).unwrap().token, 101);
        // The quota does not part the elephant from its worker.
        for token in 1..20 {
            assert_eq!(intake.next(0.into()).unwrap().token, token);
        }
        // Once it is small, or a small part of what waits, its siblings work again.
        for token in 20..83 {
            assert_eq!(intake.next(0.into()).unwrap().token, token);
        }
        assert_eq!(intake.next(1.into()), None);
        assert_eq!(intake.next(0.into()).unwrap().token, 83);
        assert_eq!(intake.next(0.into()).unwrap().token, 84);
        assert_eq!(intake.next(1.into()).unwrap().token, 102);
    }

    #[test]
    fn siblings_that_do_not_slow_an_elephant_work_on() {
        let next = |demand| {
            let topology: Topology = "2x2".parse().unwrap();
            let mut intake = FlowPull::new(&topology.with_thread_demand(demand), 8).unwrap();
            for token in 0..110 {
                let flow = if token < 100 { 1 } else { token };
                intake.arrive(token, WorkItem { digest: flow << 24, bytes: 1000 });
            }
            assert_eq!(intake.next(0.into()).unwrap().token, 0);
            intake.next(1.into()).map(|fetched| fetched.token)
        };
        assert_eq!([1000, 501, 500].map(next), [None, None, Some(100)]);
    }

    #[test]
    fn an_elephant_of_a_slow_worker_is_left_to_a_fast_one() {
        let mut intake = FlowPull::new(&"2x1,1=50".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            intake.arrive(token, item(1));
        }
        assert_eq!(intake.next(1.into()).unwrap().token, 0);
        assert_eq!(intake.next(1.into()), None, "it was given up for the fast worker");
        assert!(intake.has_ready());
        for token in 1..30 {
            assert_eq!(intake.next(0.into()).unwrap().token, token);
        }
        // A second one stays, since the fast worker has the first.
        for token in 100..300 {
            intake.arrive(token, item(2));
        }
        for token in 100..120 {
            assert_eq!(intake.next(1.into()).unwrap().token, token);
        }
    }

    #[test]
    fn an_elephant_of_a_slow_worker_is_left_to_a_faster_one_that_is_idle() {
        let mut intake = FlowPull::new(&"3,0=25,1=200".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |intake: &mut FlowPull, worker: u16| intake.next(worker.into()).map(|got| got.token);
        // The fastest has an elephant, a slow one has another.
        for token in 0..200 {
            intake.arrive(token, item(token / 100));
        }
        assert_eq!([1, 0].map(|worker| next(&mut intake, worker)), [Some(0), Some(100)]);
        assert_eq!(next(&mut intake, 0), Some(101), "nobody else has asked");
        assert_eq!(next(&mut intake, 2), None);
        assert_eq!(next(&mut intake, 0), None, "it was given up for the idle one");
        assert_eq!(next(&mut intake, 0), None, "and is not taken back");
        assert_eq!(next(&mut intake, 2), Some(102));
    }

    #[test]
    fn a_fast_worker_leaves_a_small_elephant_for_a_large_one() {
        let mut intake = FlowPull::new(&"4,0=200".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |intake: &mut FlowPull, worker: u16| intake.next(worker.into()).map(|got| got.token);
        for token in 0..60 {
            intake.arrive(token, item(1));
        }
        assert_eq!(next(&mut intake, 0), Some(0));
        for token in 60..90 {
            intake.arrive(token, item(2));
        }
        assert_eq!([1, 1].map(|worker| next(&mut intake, worker)), [Some(60), Some(61)]);
        for token in 90..200 {
            intake.arrive(token, item(2));
        }
        assert_eq!(next(&mut intake, 2), None);
        assert_eq!(next(&mut intake, 1), None, "the fastest has less than half of it");
        assert_eq!(next(&mut intake, 0), Some(62), "and gives its own up for it");
        assert_eq!(next(&mut intake, 1), Some(1));
    }

    #[test]
    fn where_there_is_one_pipeline_a_flow_that_is_alone_is_no_elephant() {
        let mut intake = FlowPull::new(&"1x2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        for token in 0..100 {
            intake.arrive(token, item(1));
        }
        assert_eq!(intake.next(0.into()).unwrap().token, 0);
        intake.arrive(100, item(2));
        assert_eq!(intake.next(1.into()).unwrap().token, 100);
    }

    #[test]
    fn whoever_has_time_sorts() {
        let mut intake = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 100 };
        // Little waits: packets stay as they came, and the first worker sorts them.
        for token in 0..5 {
            intake.arrive(token, item(token));
            assert_eq!(intake.sorted(), 0);
        }
        let first = intake.next(0.into()).unwrap();
        assert_eq!((first.token, first.steps.inspected), (0, 5));
        assert_eq!(intake.next(1.into()).unwrap().steps.inspected, 0);
        // Much waits: who brings a packet sorts it, and what was left over before.
        for token in 5..40 {
            intake.arrive(token, item(token));
        }
        assert_eq!(intake.sorted(), 1);
        // A worker finds nothing: from then on it is theirs again, however much waits.
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
    fn a_flow_that_all_would_wait_for_goes_first() {
        let mut intake = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let next = |intake: &mut FlowPull, worker: u16| intake.next(worker.into()).map(|got| got.token);
        for token in 0..30 {
            intake.arrive(token, item(token + 2));
        }
        for token in 30..90 {
            intake.arrive(token, item(1));
        }
        // Thirty flows came before it, yet it has two thirds of all.
        assert_eq!(next(&mut intake, 0), Some(30));
        assert_eq!(next(&mut intake, 1), Some(0));
        for token in 31..70 {
            assert_eq!(next(&mut intake, 0), Some(token));
        }
        // No packet is lost or comes twice, though the flow stood in two lists.
        let mut rest: Vec<u32> = std::iter::from_fn(|| next(&mut intake, 0)).collect();
        rest.extend(std::iter::from_fn(|| next(&mut intake, 1)));
        rest.sort_unstable();
        assert_eq!(rest, (1..30).chain(70..90).collect::<Vec<u32>>());
        assert_eq!(intake.waiting(), 0);
    }

    #[test]
    fn one_flow_leaves_room_for_others() {
        let mut intake = FlowPull::new(&"2".parse().unwrap(), 8).unwrap();
        let item = |flow: u32| WorkItem { digest: flow << 24, bytes: 1000 };
        let room = 100;
        let mut taken = [0, 0];
        for token in 0..400 {
            let flow = token / 200;
            if !intake.refuses(item(flow), room) {
                intake.arrive(token, item(flow));
                taken[flow as usize] += 1;
                // Someone sorts, and takes a packet now and then.
                if token == 0 {
                    intake.next(0.into());
                }
            }
        }
        // Half of the room for the first; half of the rest for the second.
        assert!((45..=55).contains(&taken[0]) && (20..=30).contains(&taken[1]), "{taken:?}");
        assert!(intake.waiting() < 100);
    }
}

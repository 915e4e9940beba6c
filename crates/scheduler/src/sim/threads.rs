//! Starts and ends jobs on threads, and counts the values of the report.

use super::cache::{Caches, Fetch};
use super::events::{Events, NEVER};
use super::histogram::Histogram;
use super::machine::{CacheModel, Machine};
use super::report::{LevelUse, Misses, Report};
use super::servers::{Servers, TICK};
use super::workload::Workload;
use crate::placement::WorkerId;

/// No job or no worker.
const NONE: u32 = u32::MAX;

/// History of a flow.
#[derive(Clone, Copy, Debug)]
struct FlowSeen {
    /// One more than the number of the last completed job.
    done: u32,
    /// Number of its jobs that are being processed.
    in_work: u32,
    last_worker: u32,
}

/// What the workers' replicas of the states cost.
///
/// Every replica sees all packets in their order, so a fetch has the same source in each.
#[derive(Debug)]
struct Replicas {
    fetches: Vec<Fetch>,
    /// Cycles of the fetches and replays up to each job.
    cycles: Vec<u64>,
    /// Number of packets in a history.
    history: usize,
    replay_cycles: u64,
}

impl Replicas {
    fn new(machine: &Machine, workload: &Workload) -> Self {
        let workers = u32::from(machine.topology.workers().get());
        let shared_flows = machine.cache.shared_flows / workers;
        let mut one =
            Caches::new(CacheModel { shared_flows, ..machine.cache }, workload.flows() as usize, vec![0]);
        let (mut fetches, mut cycles, mut sum) = (Vec::new(), vec![0], 0);
        for job in workload.jobs() {
            let (fetch, fetch_cycles) = one.touch(0, job.flow);
            fetches.push(fetch);
            sum += u64::from(fetch_cycles);
            cycles.push(sum);
        }
        let replay_cycles = u64::from(machine.replay_cycles);
        Self { fetches, cycles, history: workers as usize - 1, replay_cycles }
    }

    /// Returns the source of a job's state, and the cycles to fetch it and to replay the history.
    fn touch(&self, job: usize) -> (Fetch, u64) {
        let first = job.saturating_sub(self.history);
        let fetched = self.cycles[job + 1] - self.cycles[first];
        (self.fetches[job], fetched + (job - first) as u64 * self.replay_cycles)
    }
}

/// The running threads of a machine.
#[derive(Debug)]
pub(super) struct Threads<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    servers: Servers,
    caches: Caches,
    replicas: Option<Replicas>,
    /// One event source per server, and one more for the dispatcher or pool.
    pub(super) events: Events,
    current: Vec<u32>,
    started: Vec<u64>,
    flows: Vec<FlowSeen>,
    /// The time at which each job entered.
    entered: Vec<u64>,
    /// Ticks during which each worker had work.
    pub(super) busy: Vec<u64>,
    latency: Vec<Histogram>,
    completed: u64,
    work_done: u64,
    reorders: u64,
    races: u64,
    migrations: u64,
    misses: Misses,
    digest: u64,
    end: u64,
}

impl<'a> Threads<'a> {
    pub(super) fn new(machine: &'a Machine, workload: &'a Workload) -> Self {
        let workers = usize::from(machine.topology.workers().get());
        let level = machine.topology.cache_level();
        let core_of = (0..workers)
            .map(|w| machine.topology.node_of(level, WorkerId::from(w as u16)) as u16)
            .collect();
        let servers = Servers::new(machine);
        let events = Events::new(servers.count() + 1);
        let flows = workload.flows() as usize;
        Self {
            machine,
            workload,
            servers,
            caches: Caches::new(machine.cache, flows, core_of),
            replicas: machine.is_replicated.then(|| Replicas::new(machine, workload)),
            events,
            current: vec![NONE; workers],
            started: vec![0; workers],
            flows: vec![FlowSeen { done: 0, in_work: 0, last_worker: NONE }; flows],
            entered: vec![0; workload.jobs().len()],
            busy: vec![0; workers],
            latency: vec![Histogram::default(); workers],
            completed: 0,
            work_done: 0,
            reorders: 0,
            races: 0,
            migrations: 0,
            misses: Misses::default(),
            digest: 0xCBF2_9CE4_8422_2325,
            end: 0,
        }
    }

    /// Returns the event source of the dispatcher or pool.
    pub(super) fn feeder(&self) -> usize {
        self.servers.count()
    }

    /// Records when a job entered, in ticks.
    #[inline]
    pub(super) fn enter(&mut self, job: u32, now: u64) {
        self.entered[job as usize] = now;
    }

    pub(super) fn is_idle(&self, worker: usize) -> bool {
        self.current[worker] == NONE
    }

    /// Starts a job on an idle thread; `extra` cycles, for fetches and the dequeue, add to the
    /// job's work.
    #[inline]
    pub(super) fn start(&mut self, worker: usize, job: u32, extra: u64, now: u64) {
        let what = self.workload.jobs()[job as usize];
        let flow = &mut self.flows[what.flow as usize];
        if flow.in_work > 0 && self.replicas.is_none() {
            self.races += 1;
        }
        flow.in_work += 1;
        if flow.last_worker != worker as u32 {
            self.migrations += u64::from(flow.last_worker != NONE);
            flow.last_worker = worker as u32;
        }
        let (fetch, cycles) = if let Some(replicas) = &self.replicas {
            replicas.touch(job as usize)
        } else {
            let (fetch, cycles) = self.caches.touch(worker, what.flow);
            (fetch, u64::from(cycles))
        };
        match fetch {
            Fetch::Private => {}
            Fetch::Shared => self.misses.shared += 1,
            Fetch::Remote => self.misses.remote += 1,
            Fetch::Memory => self.misses.memory += 1,
        }
        self.current[worker] = job;
        self.started[worker] = now;
        let cost = u64::from(what.work) + cycles + u64::from(self.machine.take_cycles) + extra;
        self.servers.start(worker, cost, now);
        self.reschedule(worker);
    }

    #[inline]
    fn reschedule(&mut self, worker: usize) {
        let server = self.servers.server_of(worker);
        let next = self.servers.next(server).map_or(NEVER, |(time, _)| time);
        self.events.set(server, next);
    }

    /// Ends the job that is due on a server. Returns its worker and its number.
    #[inline]
    pub(super) fn finish(&mut self, server: usize, now: u64) -> (usize, u32) {
        let Some((_, worker)) = self.servers.next(server) else {
            unreachable!("an event exists only for a running thread")
        };
        let job = std::mem::replace(&mut self.current[worker], NONE);
        self.servers.end(worker, now);
        self.reschedule(worker);
        let done = self.workload.jobs()[job as usize];
        self.work_done += u64::from(done.work);
        let flow = &mut self.flows[done.flow as usize];
        flow.in_work -= 1;
        if job + 1 < flow.done {
            self.reorders += 1;
        } else {
            flow.done = job + 1;
        }
        self.completed += 1;
        self.busy[worker] += now - self.started[worker];
        self.latency[worker].add((now - self.entered[job as usize]) >> TICK);
        // The order, place and time of completion: everything that could differ.
        for word in [u64::from(job), worker as u64, now] {
            self.digest = (self.digest ^ word).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(29);
        }
        self.end = now;
        (worker, job)
    }

    /// Returns the report.
    pub(super) fn report(self, name: &str, dropped: u64) -> Report {
        let time = self.end.max(1);
        let topology = &self.machine.topology;
        let permille = |part: u64, whole: u128| (u128::from(part) * 1000 / whole.max(1)) as u32;
        let levels = (0..topology.levels())
            .map(|level| {
                let is_thread = level + 1 == topology.levels();
                let uses = (0..topology.nodes(level)).map(|node| {
                    let workers = topology.workers_of(level, node);
                    if is_thread || self.machine.pooled {
                        let busy: u64 = workers.clone().map(|w| self.busy[w]).sum();
                        return permille(busy, u128::from(time) * workers.len() as u128);
                    }
                    // Work that the pipelines below have done, relative to their capacity.
                    let mut servers: Vec<usize> = workers.map(|w| self.servers.server_of(w)).collect();
                    servers.dedup();
                    let done: u64 = servers.iter().map(|&server| self.servers.done(server)).sum();
                    let carried: u64 =
                        servers.iter().map(|&server| self.servers.carries_permille(server)).sum();
                    permille(done, u128::from(time) * u128::from(carried) / 1000)
                });
                let latency = (0..topology.nodes(level))
                    .map(|node| {
                        let mut merged = Histogram::default();
                        for worker in topology.workers_of(level, node) {
                            merged.merge(&self.latency[worker]);
                        }
                        merged.permille(990)
                    })
                    .collect();
                LevelUse { name: topology.level_name(level), permille: uses.collect(), p99_cycles: latency }
            })
            .collect();
        let mut latency = Histogram::default();
        for one in &self.latency {
            latency.merge(one);
        }
        Report {
            scheduler: name.to_owned(),
            jobs: self.workload.jobs().len() as u64,
            completed: self.completed,
            dropped,
            cycles: (time >> TICK).max(1),
            work: self.workload.work(),
            work_done: self.work_done,
            least_cycles: self.workload.least_cycles(self.machine),
            reorders: self.reorders,
            races: self.races,
            migrations: self.migrations,
            misses: self.misses,
            hand_overs: 0,
            steals: 0,
            blocked_cycles: 0,
            queue_max: Vec::new(),
            queue_mean_milli: Vec::new(),
            levels,
            latency,
            digest: self.digest,
        }
    }
}

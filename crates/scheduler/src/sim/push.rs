//! Runs a [`Placement`]: a dispatcher decides, and each worker has a queue.

use std::collections::VecDeque;

use super::events::NEVER;
use super::machine::{Machine, WhenFull};
use super::report::Report;
use super::servers::TICK;
use super::threads::Threads;
use super::workload::{Pace, Workload};
use crate::placement::{Decision, LoadView, Placement, SetupError, WorkItem};

/// A worker's reported and unreported completions.
#[derive(Clone, Debug, Default)]
struct Counters {
    sent: Vec<u64>,
    sent_bytes: Vec<u64>,
    /// The completions reported so far, after each chunk.
    completed: Vec<u64>,
    completed_bytes: Vec<u64>,
    busy: Vec<u64>,
}

#[derive(Debug)]
struct Queue {
    jobs: VecDeque<u32>,
    /// Jobs left in the chunk until the worker reports.
    chunk_left: u32,
    done: u64,
    done_bytes: u64,
    max: u32,
    /// Packets times ticks, and the time up to which the product is computed.
    area: u128,
    updated: u64,
}

impl Queue {
    #[inline]
    fn note(&mut self, now: u64) {
        self.area += self.jobs.len() as u128 * u128::from(now - self.updated);
        self.updated = now;
    }
}

/// The reason for which the dispatcher waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    /// It waits for space in a worker's queue.
    Queue(usize),
    /// It waits for space in the machine.
    Pool,
}

struct Push<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    threads: Threads<'a>,
    queues: Vec<Queue>,
    counters: Counters,
    placed: Vec<Decision>,
    /// The next job to dispatch, and the first job that is not yet placed.
    next: usize,
    placed_to: usize,
    in_machine: u64,
    dropped: u64,
    waiting: Waiting,
    waits_since: u64,
    blocked: u64,
}

/// Runs a workload with a policy on a machine.
///
/// The policy gets batches and counters as in the engine. Jobs that it drops are counted.
///
/// # Errors
///
/// Returns the errors of [`Machine::check`].
pub fn push(
    machine: &Machine,
    policy: &mut dyn Placement,
    workload: &Workload,
) -> Result<Report, SetupError> {
    machine.check()?;
    let workers = usize::from(machine.topology.workers().get());
    let zero = vec![0; workers];
    let mut run = Push {
        machine,
        workload,
        threads: Threads::new(machine, workload),
        queues: (0..workers)
            .map(|_| Queue {
                jobs: VecDeque::new(),
                chunk_left: 0,
                done: 0,
                done_bytes: 0,
                max: 0,
                area: 0,
                updated: 0,
            })
            .collect(),
        counters: Counters {
            sent: zero.clone(),
            sent_bytes: zero.clone(),
            completed: zero.clone(),
            completed_bytes: zero.clone(),
            busy: zero,
        },
        placed: Vec::new(),
        next: 0,
        placed_to: 0,
        in_machine: 0,
        dropped: 0,
        waiting: Waiting::No,
        waits_since: 0,
        blocked: 0,
    };
    let feeder = run.threads.feeder();
    let first = run.arrival(0).unwrap_or(NEVER);
    run.threads.events.set(feeder, first);
    let mut items = Vec::new();
    while let Some((now, source)) = run.threads.events.next() {
        if source == feeder {
            let then = run.dispatch(policy, &mut items, now);
            run.threads.events.set(feeder, then);
        } else {
            run.finish(source, now);
        }
    }
    let (blocked, dropped) = (run.blocked, run.dropped);
    let mut report = run.threads.report(policy.name(), dropped);
    report.blocked_cycles = blocked >> TICK;
    report.queue_max = run.queues.iter().map(|queue| queue.max).collect();
    let ticks = u128::from(report.cycles << TICK);
    report.queue_mean_milli = run.queues.iter().map(|queue| (queue.area * 1000 / ticks) as u64).collect();
    Ok(report)
}

impl Push<'_> {
    /// Returns when a job arrives, in ticks, or `None` after the last one.
    fn arrival(&self, job: usize) -> Option<u64> {
        let job = self.workload.jobs().get(job)?;
        Some(if self.workload.pace() == Pace::Open { job.arrival << TICK } else { 0 })
    }

    /// Performs the dispatcher's next step. Returns when the following one is due.
    fn dispatch(&mut self, policy: &mut dyn Placement, items: &mut Vec<WorkItem>, now: u64) -> u64 {
        if self.next < self.placed_to {
            match self.hand_on(now) {
                Waiting::No => {}
                waiting => {
                    self.waiting = waiting;
                    self.waits_since = now;
                    return NEVER;
                }
            }
            if self.next < self.placed_to {
                return now + self.dispatch_ticks();
            }
        }
        match self.arrival(self.next) {
            None => NEVER,
            Some(arrival) if arrival > now => arrival,
            Some(_) => {
                self.place(policy, items, now);
                now + self.dispatch_ticks()
            }
        }
    }

    fn dispatch_ticks(&self) -> u64 {
        // Never zero, so that time advances.
        (u64::from(self.machine.dispatch_cycles) << TICK).max(1)
    }

    /// Places the jobs that have arrived, at most one batch.
    fn place(&mut self, policy: &mut dyn Placement, items: &mut Vec<WorkItem>, now: u64) {
        items.clear();
        while items.len() < self.machine.batch as usize {
            let job = self.next + items.len();
            let Some(arrival) = self.arrival(job).filter(|&arrival| arrival <= now) else { break };
            let entered = if self.workload.pace() == Pace::Open { arrival } else { now };
            self.threads.enter(job as u32, entered);
            let job = self.workload.jobs()[job];
            items.push(WorkItem { digest: job.digest, bytes: job.bytes });
        }
        self.placed.clear();
        self.placed.resize(items.len(), Decision::Drop);
        let load = LoadView {
            sent: &self.counters.sent,
            completed: &self.counters.completed,
            sent_bytes: &self.counters.sent_bytes,
            completed_bytes: &self.counters.completed_bytes,
            busy: &self.counters.busy,
        };
        policy.place(items, &load, &mut self.placed);
        self.placed_to = self.next + items.len();
    }

    /// Sends the next placed job to its worker, unless the queue is full.
    fn hand_on(&mut self, now: u64) -> Waiting {
        let at = self.placed.len() - (self.placed_to - self.next);
        let Decision::To(worker) = self.placed[at] else {
            self.dropped += 1;
            self.next += 1;
            return Waiting::No;
        };
        let worker = worker.index();
        if self.in_machine >= u64::from(self.machine.pool_packets) {
            return Waiting::Pool;
        }
        let queue = &mut self.queues[worker];
        let is_idle = self.threads.is_idle(worker);
        if !is_idle && queue.jobs.len() as u64 >= u64::from(self.machine.queue_packets) {
            if self.machine.when_full == WhenFull::Block {
                return Waiting::Queue(worker);
            }
            self.dropped += 1;
            self.next += 1;
            return Waiting::No;
        }
        let job = self.next as u32;
        self.next += 1;
        self.in_machine += 1;
        self.counters.sent[worker] += 1;
        self.counters.sent_bytes[worker] += u64::from(self.workload.jobs()[job as usize].bytes);
        if is_idle {
            queue.chunk_left = 1;
            self.threads.start(worker, job, 0, now);
        } else {
            queue.note(now);
            queue.jobs.push_back(job);
            queue.max = queue.max.max(queue.jobs.len() as u32);
        }
        Waiting::No
    }

    /// Ends the job that is due on a server, and starts that worker's next job.
    fn finish(&mut self, server: usize, now: u64) {
        let (worker, job) = self.threads.finish(server, now);
        self.in_machine -= 1;
        let queue = &mut self.queues[worker];
        queue.done += 1;
        queue.done_bytes += u64::from(self.workload.jobs()[job as usize].bytes);
        queue.chunk_left -= 1;
        if queue.chunk_left == 0 {
            self.counters.completed[worker] = queue.done;
            self.counters.completed_bytes[worker] = queue.done_bytes;
            self.counters.busy[worker] = self.threads.busy[worker] >> TICK;
            queue.chunk_left = (queue.jobs.len() as u32).min(self.machine.chunk);
        }
        queue.note(now);
        if let Some(job) = queue.jobs.pop_front() {
            self.threads.start(worker, job, 0, now);
        }
        if self.waiting == Waiting::Pool || self.waiting == Waiting::Queue(worker) {
            self.waiting = Waiting::No;
            self.blocked += now - self.waits_since;
            let feeder = self.threads.feeder();
            self.threads.events.set(feeder, now);
        }
    }
}

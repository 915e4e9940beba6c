//! Runs a [`PullPolicy`]: the dispatcher only receives packets, and workers fetch them.

use super::events::NEVER;
use super::machine::{Machine, WhenFull};
use super::report::Report;
use super::servers::TICK;
use super::threads::Threads;
use super::workload::{Pace, Workload};
use crate::placement::{SetupError, WorkItem, WorkerId};
use crate::pull::{Fetched, PullPolicy};

struct Pull<'a> {
    machine: &'a Machine,
    workload: &'a Workload,
    threads: Threads<'a>,
    /// Workers without work, in no particular order.
    idle: Vec<u16>,
    next: usize,
    in_machine: u64,
    dropped: u64,
    waits_since: Option<u64>,
    blocked: u64,
    hand_overs: u64,
    steals: u64,
    queue_max: u32,
}

/// Runs a workload with a policy on a machine.
///
/// [`Machine::queue_packets`] limits the average number of waiting packets per worker: the total
/// limit is this value times the number of workers.
///
/// # Errors
///
/// Returns the errors of [`Machine::check`].
pub fn pull(
    machine: &Machine,
    policy: &mut dyn PullPolicy,
    workload: &Workload,
) -> Result<Report, SetupError> {
    machine.check()?;
    let workers = machine.topology.workers();
    let mut run = Pull {
        machine,
        workload,
        threads: Threads::new(machine, workload),
        idle: (0..workers.get()).rev().collect(),
        next: 0,
        in_machine: 0,
        dropped: 0,
        waits_since: None,
        blocked: 0,
        hand_overs: 0,
        steals: 0,
        queue_max: 0,
    };
    let feeder = run.threads.feeder();
    let first = run.arrival(0).unwrap_or(NEVER);
    run.threads.events.set(feeder, first);
    let capacity = u64::from(machine.queue_packets).saturating_mul(u64::from(workers.get()));
    while let Some((now, source)) = run.threads.events.next() {
        if source == feeder {
            let then = run.take_in(policy, capacity, now);
            run.threads.events.set(feeder, then);
        } else {
            run.finish(policy, source, now);
        }
    }
    let (blocked, dropped) = (run.blocked, run.dropped);
    let mut report = run.threads.report(policy.name(), dropped);
    report.blocked_cycles = blocked >> TICK;
    report.hand_overs = run.hand_overs;
    report.steals = run.steals;
    report.queue_max = vec![run.queue_max];
    Ok(report)
}

impl Pull<'_> {
    fn arrival(&self, job: usize) -> Option<u64> {
        let job = self.workload.jobs().get(job)?;
        Some(if self.workload.pace() == Pace::Open { job.arrival << TICK } else { 0 })
    }

    /// Adds the packet that is due. Returns when the next one is due.
    fn take_in(&mut self, policy: &mut dyn PullPolicy, capacity: u64, now: u64) -> u64 {
        let Some(arrival) = self.arrival(self.next) else { return NEVER };
        if arrival > now {
            return arrival;
        }
        let job = self.workload.jobs()[self.next];
        let item = WorkItem { digest: job.digest, bytes: job.bytes };
        let is_full = match self.machine.when_full {
            WhenFull::Block => policy.waiting() as u64 >= capacity,
            WhenFull::Drop => policy.refuses(item, capacity),
        };
        if self.in_machine >= u64::from(self.machine.pool_packets)
            || (is_full && self.machine.when_full == WhenFull::Block)
        {
            self.waits_since = Some(now);
            return NEVER;
        }
        let token = self.next as u32;
        self.next += 1;
        let mut cycles = u64::from(self.machine.dispatch_cycles);
        if is_full {
            self.dropped += 1;
        } else {
            self.in_machine += 1;
            self.threads.enter(token, if self.workload.pace() == Pace::Open { arrival } else { now });
            let wanted = policy.arrive(token, item);
            cycles += u64::from(policy.sorted()) * u64::from(self.machine.sort_cycles);
            self.queue_max = self.queue_max.max(policy.waiting() as u32);
            self.wake(policy, wanted, now);
        }
        let then = now + (cycles << TICK).max(1);
        self.arrival(self.next).map_or(NEVER, |arrival| then.max(arrival))
    }

    /// Lets idle workers fetch work, the preferred worker first.
    fn wake(&mut self, policy: &mut dyn PullPolicy, wanted: Option<WorkerId>, now: u64) {
        if let Some(at) = wanted.and_then(|w| self.idle.iter().position(|&i| usize::from(i) == w.index()))
            && let Some(fetched) = policy.next(WorkerId::from(self.idle[at]))
        {
            let worker = self.idle.swap_remove(at);
            self.start(worker, fetched, now);
        }
        let mut at = self.idle.len();
        while at > 0 && policy.has_ready() {
            at -= 1;
            if let Some(fetched) = policy.next(WorkerId::from(self.idle[at])) {
                let worker = self.idle.swap_remove(at);
                self.start(worker, fetched, now);
            }
        }
    }

    fn start(&mut self, worker: u16, fetched: Fetched, now: u64) {
        let (costs, steps) = (self.machine.pull, fetched.steps);
        let extra = u64::from(steps.locks) * u64::from(costs.lock_cycles)
            + u64::from(steps.inspected) * u64::from(costs.inspect_cycles)
            + u64::from(steps.handed_over) * u64::from(costs.hand_over_cycles)
            + u64::from(steps.moved) * u64::from(costs.move_cycles);
        self.hand_overs += u64::from(steps.handed_over);
        self.steals += u64::from(steps.stolen);
        self.threads.start(usize::from(worker), fetched.token, extra, now);
    }

    fn finish(&mut self, policy: &mut dyn PullPolicy, server: usize, now: u64) {
        let (worker, _) = self.threads.finish(server, now);
        self.in_machine -= 1;
        let worker = worker as u16;
        match policy.next(WorkerId::from(worker)) {
            Some(fetched) => self.start(worker, fetched, now),
            None => self.idle.push(worker),
        }
        if !self.idle.is_empty() && policy.has_ready() {
            // The flow that the worker returned, or its free pipeline, may give other workers work.
            self.wake(policy, None, now);
        }
        if let Some(since) = self.waits_since.take() {
            self.blocked += now - since;
            let feeder = self.threads.feeder();
            self.threads.events.set(feeder, now);
        }
    }
}

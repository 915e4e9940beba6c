//! Models pipelines, whose running threads share the pipeline's capacity equally at each moment.

use super::machine::Machine;
use crate::placement::WorkerId;
use crate::topology::CAPACITY_FULL;

/// Fractional bits of a cycle in times and amounts of work.
pub(super) const TICK: u32 = 8;
/// A full rate.
const RATE_ONE: u64 = 1 << 16;
/// Marks a thread without work.
const IDLE: u64 = u64::MAX;

#[derive(Clone, Debug)]
struct Server {
    /// Its threads, by worker. The last place is the dispatcher's, if it runs here.
    threads: Vec<usize>,
    /// The number of pipelines that it represents, in thousandths of a thread's demand.
    carries_permille: u64,
    running: u64,
    rate: u64,
    /// Work that a thread which ran all the time would have completed.
    served: u64,
    updated: u64,
    /// Work completed by all threads.
    done: u64,
}

/// The pipelines of a machine, each a processor-sharing server.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    row: Vec<Server>,
    home: Vec<usize>,
    /// The value of the server's `served` at which each thread's job is completed.
    finish: Vec<u64>,
    /// Capacity in hundredths of an ordinary worker.
    capacity: Vec<u64>,
}

impl Servers {
    pub(super) fn new(machine: &Machine) -> Self {
        let topology = &machine.topology;
        let (leaf, level) = (topology.levels() - 1, topology.pipeline_level());
        let workers = usize::from(topology.workers().get());
        let pipelines = topology.nodes(level);
        let home: Vec<usize> = (0..workers)
            .map(|w| if machine.pooled { 0 } else { topology.node_of(level, WorkerId::from(w as u16)) })
            .collect();
        let count = if machine.pooled { 1 } else { pipelines };
        let demand = u64::from(machine.thread_demand_permille);
        let row = (0..count)
            .map(|server| {
                let width = if machine.pooled { pipelines as u64 } else { 1 };
                let stolen = u64::from(machine.dispatcher_on_first_pipeline && server == 0 && leaf > 0);
                Server {
                    threads: (0..workers).filter(|&w| home[w] == server).collect(),
                    carries_permille: width * 1_000_000 / demand,
                    running: stolen,
                    rate: RATE_ONE,
                    served: 0,
                    updated: 0,
                    done: 0,
                }
            })
            .collect();
        Self {
            row,
            home,
            finish: vec![IDLE; workers],
            capacity: (0..workers).map(|w| u64::from(topology.capacity(leaf, w))).collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.row.len()
    }

    pub(super) fn server_of(&self, worker: usize) -> usize {
        self.home[worker]
    }

    /// Returns the work that a server has completed, in ticks.
    pub(super) fn done(&self, server: usize) -> u64 {
        self.row[server].done
    }

    /// Returns the thousandths of a thread's work that a server does at once.
    pub(super) fn carries_permille(&self, server: usize) -> u64 {
        self.row[server].carries_permille
    }

    #[inline]
    fn advance(&mut self, server: usize, now: u64) {
        let server = &mut self.row[server];
        // A pipeline may have been idle for longer than 2⁴⁸ ticks, which is several minutes.
        let step = ((u128::from(now - server.updated) * u128::from(server.rate)) >> 16) as u64;
        server.served += step;
        server.done += step * server.running;
        server.updated = now;
    }

    #[inline]
    fn set_rate(&mut self, server: usize) {
        let server = &mut self.row[server];
        server.rate = match server.running {
            0 => RATE_ONE,
            running => (RATE_ONE * server.carries_permille / (running * 1000)).clamp(1, RATE_ONE),
        };
    }

    /// Starts work on an idle thread.
    #[inline]
    pub(super) fn start(&mut self, worker: usize, cycles: u64, now: u64) {
        let at = self.home[worker];
        self.advance(at, now);
        let ticks = (cycles << TICK) * u64::from(CAPACITY_FULL) / self.capacity[worker];
        self.finish[worker] = self.row[at].served + ticks.max(1);
        self.row[at].running += 1;
        self.set_rate(at);
    }

    /// Returns which thread of a server completes its job next, and when.
    #[inline]
    pub(super) fn next(&self, server: usize) -> Option<(u64, usize)> {
        let own = &self.row[server];
        let mut first = (IDLE, 0);
        for &worker in &own.threads {
            if self.finish[worker] < first.0 {
                first = (self.finish[worker], worker);
            }
        }
        if first.0 == IDLE {
            return None;
        }
        let left = first.0.saturating_sub(own.served);
        Some((own.updated + (left << 16).div_ceil(own.rate), first.1))
    }

    /// Ends the work of a thread, at the time that [`next`](Self::next) returned.
    #[inline]
    pub(super) fn end(&mut self, worker: usize, now: u64) {
        let at = self.home[worker];
        self.advance(at, now);
        self.finish[worker] = IDLE;
        self.row[at].running -= 1;
        self.set_rate(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_on_one_pipeline_share_its_throughput() {
        let mut machine = Machine::xeon("1x2".parse().unwrap());
        let mut servers = Servers::new(&machine);
        servers.start(0, 100, 0);
        servers.start(1, 300, 0);
        assert_eq!(servers.next(0), Some((200 << TICK, 0)));
        servers.end(0, 200 << TICK);
        // 200 cycles are left, now alone.
        assert_eq!(servers.next(0), Some((400 << TICK, 1)));
        servers.end(1, 400 << TICK);
        assert_eq!((servers.next(0), servers.done(0)), (None, 400 << TICK));
        machine.thread_demand_permille = 500;
        let mut servers = Servers::new(&machine);
        servers.start(0, 100, 0);
        servers.start(1, 300, 0);
        assert_eq!(servers.next(0), Some((100 << TICK, 0)));
    }

    #[test]
    fn slow_workers_take_longer_and_the_dispatcher_takes_time() {
        let mut machine = Machine::xeon("1x2,1=50".parse().unwrap());
        let mut servers = Servers::new(&machine);
        servers.start(1, 100, 0);
        assert_eq!(servers.next(0), Some((200 << TICK, 1)));
        machine.dispatcher_on_first_pipeline = true;
        let mut servers = Servers::new(&machine);
        servers.start(0, 100, 0);
        assert_eq!(servers.next(0), Some((200 << TICK, 0)));
    }
}

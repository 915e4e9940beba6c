//! The components of the machine and their costs, in cycles.

use crate::placement::{SetupError, bounded};
use crate::topology::Topology;

/// The dispatcher's action when the queue for a packet is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// It waits, and so do all packets behind this one.
    Block,
    /// It drops the packet.
    Drop,
}

/// The caches, described by counts of flows: a flow's state stays in a cache until enough other
/// flows were processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// Cycles to fetch a flow's state from the shared cache.
    pub shared_cycles: u32,
    /// Cycles to fetch a flow's state from the private cache of another core.
    pub remote_cycles: u32,
    /// Cycles to fetch a flow's state from memory.
    pub memory_cycles: u32,
    /// Flow changes on a core after which a state has left its private cache.
    pub private_flows: u32,
    /// Flow changes on all cores after which a state has left the shared cache.
    pub shared_flows: u32,
}

/// Costs of a worker that fetches its own work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullCosts {
    /// Cycles to wait for, take and release a lock.
    pub lock_cycles: u32,
    /// Cycles to determine the flow of a packet.
    pub inspect_cycles: u32,
    /// Cycles to hand a packet over to the worker that owns its flow.
    pub hand_over_cycles: u32,
    /// Cycles to fetch the cache lines of a packet that another core has inspected.
    pub move_cycles: u32,
}

/// A machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Its threads. Those of a pipeline share its execution units, and those of a core its private
    /// cache.
    pub topology: Topology,
    /// The share of a pipeline that one thread can use, in thousandths. At 250, four threads do not
    /// slow each other down.
    pub thread_demand_permille: u32,
    /// Whether an idealised operating system moves threads among all pipelines at no cost.
    pub pooled: bool,
    /// Whether the dispatcher runs on a thread of the first pipeline and slows its siblings down.
    pub dispatcher_on_first_pipeline: bool,
    /// Cycles of the dispatcher per packet, including those of the policy.
    pub dispatch_cycles: u32,
    /// Additional cycles of the dispatcher to sort a packet into its flow, if a policy requires it.
    pub sort_cycles: u32,
    /// Maximum number of packets that are placed at once.
    pub batch: u32,
    /// Number of packets after which a worker reports its completions. It also reports when it runs
    /// out of work.
    pub chunk: u32,
    /// Maximum number of packets that wait for one worker.
    pub queue_packets: u32,
    /// The dispatcher's action for a full queue.
    pub when_full: WhenFull,
    /// Maximum number of packets in the machine; the dispatcher waits if it is reached.
    pub pool_packets: u32,
    /// Cycles of a worker to take a packet.
    pub take_cycles: u32,
    /// Cache model.
    pub cache: CacheModel,
    /// Whether each worker has a replica of all states, as in State-Compute Replication (Xu et al.,
    /// NSDI 2025): each packet carries the history of the packets that the other workers take
    /// meanwhile.
    pub is_replicated: bool,
    /// Cycles of a worker to bring its replica up to date with one packet of that history, in
    /// addition to fetching the flow's state.
    pub replay_cycles: u32,
    /// Costs of pull schemes.
    pub pull: PullCosts,
    /// Cycles per second, to convert times to seconds.
    pub hertz: u64,
}

impl Machine {
    /// No limit.
    pub const UNBOUNDED: u32 = u32::MAX;

    /// Returns the eight cores at 2.53 GHz that the traffic of [LFB Tab. 1] was scheduled on, for a
    /// topology.
    ///
    /// The costs are plausible guesses; experiments vary them.
    #[must_use]
    pub fn xeon(topology: Topology) -> Self {
        Self {
            topology,
            thread_demand_permille: 1000,
            pooled: false,
            dispatcher_on_first_pipeline: false,
            dispatch_cycles: 120,
            sort_cycles: 0,
            batch: 32,
            chunk: 32,
            queue_packets: Self::UNBOUNDED,
            when_full: WhenFull::Block,
            pool_packets: 4096,
            take_cycles: 50,
            cache: CacheModel {
                shared_cycles: 700,
                remote_cycles: 1100,
                memory_cycles: 2500,
                private_flows: 64,
                shared_flows: 2500,
            },
            is_replicated: false,
            replay_cycles: 30,
            pull: PullCosts {
                lock_cycles: 150,
                inspect_cycles: 100,
                hand_over_cycles: 80,
                move_cycles: 300,
            },
            hertz: 2_530_000_000,
        }
    }

    /// Returns the Niagara 2 of [HRWTREE §4.1], at 1.2 GHz, whose thread 0 dispatches. The topology
    /// should omit that thread (`8x2x4,-0`), but any topology works.
    #[must_use]
    pub fn niagara(topology: Topology) -> Self {
        Self {
            dispatcher_on_first_pipeline: true,
            dispatch_cycles: 176,
            queue_packets: 16,
            pool_packets: Self::UNBOUNDED,
            cache: CacheModel {
                shared_cycles: 300,
                remote_cycles: 1200,
                memory_cycles: 3000,
                private_flows: 32,
                shared_flows: 4000,
            },
            pull: PullCosts {
                lock_cycles: 300,
                inspect_cycles: 100,
                hand_over_cycles: 80,
                move_cycles: 300,
            },
            hertz: 1_200_000_000,
            ..Self::xeon(topology)
        }
    }

    /// Returns the machine's capacity in thousandths of an ordinary worker: the sum of its threads,
    /// limited by the capacity of its pipelines.
    #[must_use]
    pub fn parallelism_permille(&self) -> u64 {
        let leaf = self.topology.levels() - 1;
        let threads: u64 =
            (0..self.topology.nodes(leaf)).map(|w| u64::from(self.topology.capacity(leaf, w)) * 10).sum();
        let pipelines = self.topology.nodes(self.topology.pipeline_level()) as u64;
        if self.topology.levels() == 1 {
            return threads;
        }
        threads.min(pipelines * 1_000_000 / u64::from(self.thread_demand_permille.max(1)))
    }

    /// Checks that there are at least as many flows as workers. With fewer flows, schedulers that
    /// keep order cannot be compared.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::FewFlows`] otherwise.
    pub fn check_flows(&self, flows: u32) -> Result<(), SetupError> {
        let workers = self.topology.workers().get();
        if u32::from(workers) > flows { Err(SetupError::FewFlows { workers, flows }) } else { Ok(()) }
    }

    /// Checks the limits of all parameters.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for the first parameter that is out of range.
    pub fn check(&self) -> Result<(), SetupError> {
        let cycles_max = 100_000_000;
        bounded("thread demand", u64::from(self.thread_demand_permille), 1, 1000)?;
        bounded("batch", u64::from(self.batch), 1, 4096)?;
        bounded("chunk", u64::from(self.chunk), 1, 4096)?;
        bounded("queue bound", u64::from(self.queue_packets), 1, u64::from(u32::MAX))?;
        bounded("packet pool", u64::from(self.pool_packets), 1, u64::from(u32::MAX))?;
        bounded("clock rate", self.hertz, 1, 1_000_000_000_000)?;
        for (name, cycles) in [
            ("cost of dispatching a packet", self.dispatch_cycles),
            ("cost of sorting a packet", self.sort_cycles),
            ("cost of taking a packet", self.take_cycles),
            ("cost of the shared cache", self.cache.shared_cycles),
            ("cost of a remote cache", self.cache.remote_cycles),
            ("cost of memory", self.cache.memory_cycles),
            ("cost of replaying a packet", self.replay_cycles),
            ("cost of a lock", self.pull.lock_cycles),
            ("cost of inspecting a packet", self.pull.inspect_cycles),
            ("cost of a hand-over", self.pull.hand_over_cycles),
            ("cost of moving a packet", self.pull.move_cycles),
        ] {
            bounded(name, u64::from(cycles), 0, cycles_max)?;
        }
        Ok(())
    }
}

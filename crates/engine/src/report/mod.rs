//! The report of a run. Every packet taken from the source is processed, or dropped for a counted
//! reason.

pub mod counters;
pub(crate) mod decisions;
pub mod digest;
pub mod results;
pub(crate) mod timeline;

use std::time::Duration;

use flowloom_flow_table::{MemoryReport, TableStats};
use flowloom_packet::DropReason;
use flowloom_packet::drop_reason::DropCounts;

use crate::app::FlowState;
use crate::egress::reorder::SinkCounters;
use crate::error::Fault;
use crate::report::counters::{InputCounters, RecordsReport, WorkerCounters};
use crate::report::results::FlowResults;

/// The report of one worker.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The CPU that the worker was pinned to.
    pub cpu: Option<u32>,
    /// Packets that were put into its ring, or that it fetched.
    pub sent: u64,
    /// Packets of other workers that it processed, because it reached their sequence numbers. See
    /// [`Order::External`](crate::Order::External).
    pub taken_over: u64,
    /// Packets of its own that other workers processed for the same reason.
    pub handed_over: u64,
    /// The worker's counts.
    pub counters: WorkerCounters,
    /// The statistics of its table at the end. `None` if the worker panicked or if flows are
    /// shared.
    pub table: Option<TableStats>,
    /// The memory of its table. `None` in the same cases.
    pub memory: Option<MemoryReport>,
    /// Packets that the input stage dropped because the worker's ring was full. The input's counts
    /// include them as [`RingFull`](DropReason::RingFull), and `sent` does not. 0 in layouts
    /// without rings.
    pub ring_full: u64,
    /// How often the input stage waited for its full ring; in dropping mode, the batches that lost
    /// packets. 0 in layouts without rings.
    pub full_waits: u64,
    /// Processor time of its thread until it completed its last packet, waiting included. `None` on
    /// systems without such a clock (Windows), and for a worker without its own thread.
    pub busy: Option<Duration>,
}

/// The flows that all workers share.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SharedReport {
    /// Number of shards.
    pub shards: usize,
    /// The sum of the tables' statistics at the end.
    pub table: TableStats,
    /// The sum of the tables' memory.
    pub memory: MemoryReport,
    /// Counts of flows. The workers have the counts of packets.
    pub counters: WorkerCounters,
}

/// How the threads of a sharded run shared the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardedReport {
    /// Chunks of consecutive packets, each of which one thread decoded.
    pub chunks: u64,
    /// Threads that ran. A short input does not need all of them.
    pub threads: usize,
    /// Lists of packets that another thread than the shard's own has processed, because that one
    /// was behind.
    pub lists_moved: u64,
}

/// The result of a run.
#[derive(Debug)]
#[must_use = "what went wrong after the start is in its `fault`"]
#[non_exhaustive]
pub struct RunReport<F> {
    /// The counts of the input stage.
    pub input: InputCounters,
    /// The report of each worker. The inline layout has one report. In the sharded layout a worker
    /// is a shard, and its thread the one that mostly processes it.
    pub workers: Vec<WorkerReport>,
    /// Packets dropped as [`RingFull`](DropReason::RingFull) that belong to no worker's ring:
    /// packets that arrived while the pool was full, and packets that a policy dropped.
    pub unplaced: u64,
    /// How often the input stage waited for the full pool; in dropping mode, the batches that lost
    /// packets. 0 without a pool.
    pub pool_full_waits: u64,
    /// The flows that all workers share, if flows are shared.
    pub shared: Option<SharedReport>,
    /// How the threads shared the work, in the sharded layout.
    pub sharded: Option<ShardedReport>,
    /// Counts of the packets passed to the sink, if the run has one. `processed - denied = taken +
    /// refused`, except for packets in flight when a worker or the sink panicked.
    pub sink: Option<SinkCounters>,
    /// The CPU that the input stage was pinned to.
    pub input_cpu: Option<u32>,
    /// Processor time of the input stage's thread (in the inline layout, of the only thread),
    /// waiting included. `None` on systems without such a clock.
    pub input_busy: Option<Duration>,
    /// Time from the first request for a batch until the last packet was completed.
    pub elapsed: Duration,
    /// The records of flows, unless they went to a [sink](crate::RecordSink).
    pub flows: FlowResults<F>,
    /// Flows that were live at the end of the run and whose idle timeout had passed. They count as
    /// expired, and so do their records.
    pub timed_out_at_end: u64,
    /// Counts of the records that went to a sink.
    pub records: Option<RecordsReport>,
    /// Whether the run was asked to stop before its input ended.
    pub interrupted: bool,
    /// What ended the run early, if it ended early.
    pub fault: Option<Fault>,
}

impl<F> Default for RunReport<F> {
    /// Returns the report of a run without packets.
    fn default() -> Self {
        Self {
            input: InputCounters::default(),
            workers: Vec::new(),
            unplaced: 0,
            pool_full_waits: 0,
            shared: None,
            sharded: None,
            sink: None,
            input_cpu: None,
            input_busy: None,
            elapsed: Duration::ZERO,
            flows: FlowResults::new(Vec::new()),
            timed_out_at_end: 0,
            records: None,
            interrupted: false,
            fault: None,
        }
    }
}

impl<F> RunReport<F> {
    /// Returns the report with other flows, and its own.
    fn replace_flows<G>(self, flows: FlowResults<G>) -> (RunReport<G>, FlowResults<F>) {
        let report = RunReport {
            input: self.input,
            workers: self.workers,
            unplaced: self.unplaced,
            pool_full_waits: self.pool_full_waits,
            shared: self.shared,
            sharded: self.sharded,
            sink: self.sink,
            input_cpu: self.input_cpu,
            input_busy: self.input_busy,
            elapsed: self.elapsed,
            flows,
            timed_out_at_end: self.timed_out_at_end,
            records: self.records,
            interrupted: self.interrupted,
            fault: self.fault,
        };
        (report, self.flows)
    }

    /// Separates the records of flows, whose type is the application's, from the rest.
    pub fn split(self) -> (RunReport<()>, FlowResults<F>) {
        self.replace_flows(FlowResults::new(Vec::new()))
    }
}

impl RunReport<()> {
    /// Returns the report with the records of flows.
    pub(crate) fn with_flows<F>(self, flows: FlowResults<F>) -> RunReport<F> {
        self.replace_flows(flows).0
    }
}

impl<F> RunReport<F> {
    /// Returns how many packets the applications have processed.
    pub fn processed(&self) -> u64 {
        self.workers.iter().map(|worker| worker.counters.processed).sum()
    }

    /// Returns how many packets any stage dropped, by reason.
    pub fn dropped(&self) -> DropCounts {
        let mut dropped = self.input.dropped;
        for worker in &self.workers {
            dropped.merge(&worker.counters.dropped);
        }
        dropped
    }

    /// Returns the sum of the workers' counts.
    pub fn worker_totals(&self) -> WorkerCounters {
        let mut totals = WorkerCounters::default();
        for worker in &self.workers {
            totals.merge(&worker.counters);
        }
        if let Some(shared) = &self.shared {
            totals.merge(&shared.counters);
        }
        totals
    }

    /// Returns whether the counts balance: for each worker, in total, and for packets dropped at
    /// full rings. An unbalanced report is a bug of this crate.
    pub fn is_balanced(&self) -> bool {
        let each = self
            .workers
            .iter()
            .all(|worker| worker.sent + worker.taken_over == worker.counters.done() + worker.handed_over);
        let at_rings: u64 = self.workers.iter().map(|worker| worker.ring_full).sum();
        let are_rings_known = at_rings + self.unplaced == self.dropped().get(DropReason::RingFull);
        each && are_rings_known && self.input.packets == self.processed() + self.dropped().total()
    }

    /// Returns the sum of the statistics and of the memory of all tables.
    pub fn tables(&self) -> (TableStats, MemoryReport) {
        let shared = self.shared.iter().map(|shared| (shared.table, shared.memory));
        let own = self.workers.iter().filter_map(|worker| worker.table.zip(worker.memory));
        let sum = |(a, b): (TableStats, MemoryReport), (c, d)| (a.and(c), b.and(d));
        shared.chain(own).reduce(sum).unwrap_or_default()
    }

    /// Returns the number of records, in the report and in a sink.
    pub fn record_count(&self) -> u64 {
        let sent = self.records.as_ref().map_or(0, |records| records.written + records.lost);
        self.flows.len() as u64 + sent
    }
}

impl<F: FlowState> RunReport<F> {
    /// Returns the digest of the per-flow results. Runs with equal results have equal digests,
    /// regardless of seed, layout and number of workers.
    pub fn digest(&self) -> String {
        let mut digest = self.flows.digest();
        if let Some(records) = &self.records {
            digest.combine(records.digest);
        }
        digest.finish()
    }
}

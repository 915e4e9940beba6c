//! What a run says about itself. Every packet taken from the source is processed or dropped for a counted reason.

pub mod counters;
pub mod digest;
pub mod results;

use std::time::Duration;

use flowloom_flow_table::{MemoryReport, TableStats};
use flowloom_packet::DropReason;
use flowloom_packet::reason::DropCounts;

use crate::app::FlowState;
use crate::egress::records::RecordsReport;
use crate::egress::reorder::SinkCounters;
use crate::error::Fault;
use crate::report::counters::{InputCounters, WorkerCounters};
use crate::report::results::FlowResults;

/// One worker's part of a report.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WorkerReport {
    /// The CPU it was pinned to.
    pub cpu: Option<u32>,
    /// Packets that were put into its ring, or that it fetched: those it processed and those it dropped.
    pub sent: u64,
    /// Packets of other workers that it processed, when their number in their shard came; see [`Order::External`](crate::Order::External).
    pub taken_over: u64,
    /// Packets of its own that other workers processed, likewise.
    pub handed_over: u64,
    /// Its counts.
    pub counters: WorkerCounters,
    /// Its table's figures at the end; `None` of a worker that died, and where flows are shared.
    pub table: Option<TableStats>,
    /// Its table's memory; `None` likewise.
    pub memory: Option<MemoryReport>,
    /// Packets that the input stage dropped because the worker's ring was full; they are in the input's counts as
    /// [`RingFull`](DropReason::RingFull), not among those that were `sent`. 0 where there are no rings.
    pub ring_full: u64,
    /// How often the input stage waited at its full ring; where it drops instead, the batches of which it dropped some. 0 where there are
    /// no rings.
    pub full_waits: u64,
    /// Processor time of its thread, waiting included, until its last packet was done; `None` where the system has no such clock that
    /// we read (Windows), and of a worker that had no thread of its own.
    pub busy: Option<Duration>,
}

/// The flows that all workers reach.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SharedReport {
    /// Shards they are spread over.
    pub shards: usize,
    /// The tables' figures at the end, added up.
    pub table: TableStats,
    /// Their memory.
    pub memory: MemoryReport,
    /// What happened to flows; the counts of packets are the workers'.
    pub counters: WorkerCounters,
}

/// How the parts of a sharded run were put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardedReport {
    /// Parts of the input that count.
    pub parts: usize,
    /// Parts that were read again, because they did not begin where the part before ended, or too early in time.
    pub parts_reread: usize,
    /// Flows that go on from one part to another.
    pub flows_joined: u64,
    /// Flows that were processed again in a later part, because their summaries do not compose.
    pub flows_reprocessed: u64,
}

/// The result of a run.
#[derive(Debug)]
#[must_use = "what went wrong after the start is in its `fault`"]
#[non_exhaustive]
pub struct RunReport<F> {
    /// What the input stage counted.
    pub input: InputCounters,
    /// Each worker's part; one in the inline layout.
    pub workers: Vec<WorkerReport>,
    /// Packets dropped as [`RingFull`](DropReason::RingFull) that no worker's ring was full for: those that found no room in the pool that
    /// workers fetch from, and those that a policy itself decided to drop.
    pub unplaced: u64,
    /// How often the input stage waited for room in the pool; where it drops instead, as at [rings](WorkerReport::full_waits). 0 where
    /// there is no pool.
    pub pool_full_waits: u64,
    /// The flows that all workers reach, where flows are shared.
    pub shared: Option<SharedReport>,
    /// How parts were put together, in the sharded layout.
    pub sharded: Option<ShardedReport>,
    /// What the sink was given, if there is one: `processed - denied = taken + refused`, but for packets that were on
    /// their way when a worker or the sink panicked.
    pub sink: Option<SinkCounters>,
    /// The CPU the input stage was pinned to.
    pub input_cpu: Option<u32>,
    /// Processor time of the input stage's thread (in the inline layout: the only one's), waiting included; `None` as there.
    pub input_busy: Option<Duration>,
    /// From the first batch asked for until the last packet was done.
    pub elapsed: Duration,
    /// The records of flows, unless they went to a [sink](crate::RecordSink).
    pub flows: FlowResults<F>,
    /// Flows that lived at the end of the run and whose idle timeout was over: they are counted as expired, and their
    /// records say so.
    pub timed_out_at_end: u64,
    /// What became of the records that went to a sink.
    pub records: Option<RecordsReport>,
    /// The run was asked to stop before its input had ended.
    pub interrupted: bool,
    /// What ended the run early, if anything did.
    pub fault: Option<Fault>,
}

impl<F: FlowState> RunReport<F> {
    /// Returns how many packets an application has seen.
    pub fn processed(&self) -> u64 {
        self.workers.iter().map(|worker| worker.counters.processed).sum()
    }

    /// Returns how many packets were dropped, by reason, by any stage.
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

    /// Says whether every packet is accounted for, by each worker and in total, and every one that was dropped at a full ring by whose
    /// ring it was. Anything else is a mistake of ours.
    pub fn is_balanced(&self) -> bool {
        let each = self
            .workers
            .iter()
            .all(|worker| worker.sent + worker.taken_over == worker.counters.done() + worker.handed_over);
        let at_rings: u64 = self.workers.iter().map(|worker| worker.ring_full).sum();
        let are_rings_known = at_rings + self.unplaced == self.dropped().of(DropReason::RingFull);
        each && are_rings_known && self.input.packets == self.processed() + self.dropped().total()
    }

    /// Returns the figures of all tables that are left, added up.
    pub fn tables(&self) -> (TableStats, MemoryReport) {
        let shared = self.shared.iter().map(|shared| (shared.table, shared.memory));
        let own = self.workers.iter().filter_map(|worker| worker.table.zip(worker.memory));
        let sum = |(a, b): (TableStats, MemoryReport), (c, d)| (a.and(c), b.and(d));
        shared.chain(own).reduce(sum).unwrap_or_default()
    }

    /// Returns the digest of the per-flow results: equal for runs that found the same, whatever the seed, layout and
    /// number of workers.
    pub fn digest(&self) -> String {
        let mut digest = self.flows.digest();
        if let Some(records) = &self.records {
            digest.combine(records.digest);
        }
        digest.finish()
    }

    /// Returns the number of records: those in the report, and those that went to a sink.
    pub fn record_count(&self) -> u64 {
        let sent = self.records.as_ref().map_or(0, |records| records.written + records.lost);
        self.flows.len() as u64 + sent
    }
}

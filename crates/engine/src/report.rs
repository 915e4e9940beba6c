//! What a run says about itself. Every packet taken from the source is processed or dropped for a counted reason.

use std::time::Duration;

use flowloom_flow_table::{MemoryReport, TableStats};
use flowloom_packet::reason::DropCounts;

use crate::app::FlowState;
use crate::counters::{InputCounters, WorkerCounters};
use crate::error::Fault;
use crate::results::FlowResults;

/// One worker's part of a report.
#[derive(Clone, Debug)]
pub struct WorkerReport {
    /// The CPU it was pinned to.
    pub cpu: Option<u32>,
    /// Packets that were put into its ring.
    pub sent: u64,
    /// Its counts. Of a worker that died: what it had published, in which packets that it dropped itself count as
    /// processed.
    pub counters: WorkerCounters,
    /// Its table's figures at the end; `None` of a worker that died.
    pub table: Option<TableStats>,
    /// Its table's memory; `None` of a worker that died.
    pub memory: Option<MemoryReport>,
    /// How often the input stage found its ring full.
    pub full_waits: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct RunReport<F> {
    /// What the input stage counted.
    pub input: InputCounters,
    /// Each worker's part; one in inline mode.
    pub workers: Vec<WorkerReport>,
    /// The CPU the input stage was pinned to.
    pub input_cpu: Option<u32>,
    /// From the first batch asked for until the last packet was done.
    pub elapsed: Duration,
    /// One record per distinct key.
    pub flows: FlowResults<F>,
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
        totals
    }

    /// Says whether every packet is accounted for. Anything else is a mistake of ours.
    pub fn is_balanced(&self) -> bool {
        self.input.packets == self.processed() + self.dropped().total()
    }

    /// Returns the digest of the per-flow results: equal for runs that found the same, whatever seed, mode and
    /// number of workers.
    pub fn digest(&self) -> String {
        self.flows.digest()
    }
}

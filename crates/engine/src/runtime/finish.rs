//! The report of a pipeline whose stages have ended.

use std::sync::Arc;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{FlowTable, MemoryReport, TableStats};
use flowloom_packet::DropReason;

use crate::app::{App, FlowState};
use crate::dispatch::stage::{InputEnd, InputStage};
use crate::error::{Fault, SinkError};
use crate::report::counters::{FullCounts, WorkerCounters};
use crate::report::results::{FlowRecord, FlowResults};
use crate::report::{RunReport, SharedReport, WorkerReport};
use crate::runtime::assemble::{EgressEnd, Ended};
use crate::runtime::panics::caught;
use crate::runtime::pin::Pinning;
use crate::time::FlowTimeouts;
use crate::worker::shards::SharedFlows;
use crate::worker::{WorkerCounted, WorkerEnd};

/// All stages of a pipeline that has ended.
pub(crate) struct Finished<'a, A: App, T> {
    pub(crate) input: Ended<InputStage<'a>>,
    pub(crate) workers: Vec<Ended<WorkerEnd<A::Flow>>>,
    pub(crate) egress: Option<Ended<EgressEnd>>,
    pub(crate) shared: Option<Arc<SharedFlows<A::Flow, T>>>,
    pub(crate) timeouts: FlowTimeouts,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> Finished<'_, A, T> {
    /// Builds the report.
    pub(crate) fn report(self, pinning: &Pinning, elapsed: Duration) -> RunReport<A::Flow> {
        let Self { input, workers, egress, shared, timeouts } = self;
        let mut timed_out_at_end = 0;
        let (end, dispatched) = input.result.finish();
        let InputEnd { counters: input_counters, interrupted, mut fault } = end;
        let mut reports = Vec::with_capacity(workers.len());
        let mut records: Vec<Vec<FlowRecord<A::Flow>>> = Vec::new();
        let mut not_taken = 0;
        let processed_for: Vec<Vec<u64>> =
            workers.iter().map(|worker| worker.result.counted.processed_for.clone()).collect();
        // Packets of worker `to` that worker `by` processed.
        let processed = |by: usize, to: usize| {
            processed_for.get(by).and_then(|processed| processed.get(to)).copied().unwrap_or(0)
        };
        let count = workers.len();
        let by_others = |i: usize, which: &dyn Fn(usize) -> u64| -> u64 {
            (0..count).filter(|&other| other != i).map(which).sum()
        };
        for (i, ended) in workers.into_iter().enumerate() {
            let WorkerEnd { counted: WorkerCounted { mut counters, fetched, refused, .. }, flows } =
                ended.result;
            not_taken += refused;
            let sent = dispatched.sent.get(i).copied().unwrap_or(fetched);
            let taken_over = by_others(i, &|other| processed(i, other));
            let handed_over = by_others(i, &|other| processed(other, i));
            // The packets are in the ring, in the worker's buffers, or parked behind such a packet.
            let lost = sent + taken_over - handed_over - counters.done();
            counters.dropped.add(DropReason::WorkerLost, lost);
            if let Some(message) = ended.panic {
                let packet = ended.at.map(|number| number_near(number, input_counters.packets) + 1);
                let processed = counters.processed;
                // A fault with a packet number is more specific than a fault at the end.
                if packet.is_some() || !matches!(fault, Some(Fault::WorkerPanicked { .. })) {
                    fault = Some(Fault::WorkerPanicked { worker: i, packet, processed, message });
                }
            }
            let (mut table, mut memory) = (None, None);
            if let Some(mut flows) = flows {
                let expired = flows.time_out(timeouts, input_counters.last_ns);
                counters.flows_expired += expired;
                timed_out_at_end += expired;
                (table, memory) = (Some(flows.table), Some(flows.memory));
                records.push(flows.records);
            }
            let FullCounts { refused: ring_full, waits: full_waits } =
                dispatched.rings.get(i).copied().unwrap_or_default();
            reports.push(WorkerReport {
                cpu: pinning.workers.get(i).copied().flatten().filter(|_| ended.pinned),
                sent,
                taken_over,
                handed_over,
                counters,
                table,
                memory,
                ring_full,
                full_waits,
                busy: ended.cpu,
            });
        }
        let last_ns = input_counters.last_ns;
        let results = caught(|| {
            let ended = shared.and_then(Arc::into_inner).map(|flows| {
                let (report, expired) = shared_report(flows, (timeouts, last_ns), &mut records);
                timed_out_at_end += expired;
                report
            });
            (ended, FlowResults::new(records))
        });
        let sink = egress.map(|ended| {
            let EgressEnd { mut counters, failed } = ended.result;
            counters.refused += not_taken;
            let panicked = ended.panic.as_deref().map(SinkError::of_panic);
            let failed = failed.or(panicked).map(|error| Fault::Sink { error });
            fault = fault.take().or(failed);
            counters
        });
        let (shared, flows) = results.unwrap_or_else(|message| {
            fault.get_or_insert(Fault::ResultsPanicked { message });
            (None, FlowResults::new(Vec::new()))
        });
        RunReport {
            input: input_counters,
            workers: reports,
            unplaced: dispatched.unplaced.refused,
            pool_full_waits: dispatched.unplaced.waits,
            shared,
            sink,
            input_cpu: pinning.input.filter(|_| input.pinned),
            input_busy: input.cpu,
            elapsed,
            flows,
            timed_out_at_end,
            interrupted,
            fault,
            ..RunReport::default()
        }
    }
}

/// Returns the sums over all shards, and how many live flows have timed out. Appends the records to
/// `records`.
fn shared_report<F, T>(
    flows: SharedFlows<F, T>,
    (timeouts, last_ns): (FlowTimeouts, u64),
    records: &mut Vec<Vec<FlowRecord<F>>>,
) -> (SharedReport, u64)
where
    F: FlowState,
    T: FlowTable<FlowKey, F>,
{
    let mut sum: Option<(TableStats, MemoryReport)> = None;
    let mut counters = WorkerCounters::default();
    let (mut shards, mut timed_out) = (0, 0);
    for mut end in flows.finish() {
        shards += 1;
        timed_out += end.time_out(timeouts, last_ns);
        counters.add_flows(end.counts);
        sum = Some(sum.map_or((end.table, end.memory), |(table, memory)| {
            (table.and(end.table), memory.and(end.memory))
        }));
        records.push(end.records);
    }
    counters.flows_expired += timed_out;
    let (table, memory) = sum.unwrap_or_default();
    (SharedReport { shards, table, memory, counters }, timed_out)
}

/// Returns a packet's full number from its lower bits: the latest number that the source has
/// yielded with these bits.
fn number_near(low: u64, packets: u64) -> u64 {
    let last = packets.saturating_sub(1);
    last.wrapping_sub(last.wrapping_sub(low) & crate::batch::packet::PacketRef::NUMBERS)
}

//! The report of a run whose stages have ended.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use flowloom_flow_table::{MemoryReport, TableStats};
use flowloom_packet::DropReason;

use crate::app::FlowState;
use crate::dispatch::stage::{InputEnd, InputStage};
use crate::error::{Fault, SinkError};
use crate::ingest::reader::Reader;
use crate::parts::compose::{self, RecordVisitor};
use crate::report::counters::{FullCounts, WorkerCounters};
use crate::report::results::FlowResults;
use crate::report::{RunReport, SharedReport, WorkerReport};
use crate::runtime::assemble::{EgressEnd, Ended};
use crate::runtime::pin::Pinning;
use crate::stage::panics::caught;
use crate::time::FlowTimeouts;
use crate::worker::flows::KeptFlows;
use crate::worker::inline::InlineStage;
use crate::worker::shards::SharedFlows;
use crate::worker::{WorkerCounted, WorkerEnd};

/// What a table has left, with the worker that it belonged to: [`KeptFlows`] of the application's
/// state. Tables that all workers shared belong to none.
pub(crate) type Kept = (Option<usize>, Box<dyn Any + Send>);

/// The result of a run before the application's records are in it.
pub(crate) struct Finished {
    pub(crate) report: RunReport<()>,
    pub(crate) kept: Vec<Kept>,
    pub(crate) sink_failed: Option<SinkError>,
}

impl Finished {
    /// Adds the records, which `part` receives first, and marks those of live flows whose timeout
    /// has passed.
    pub(crate) fn report<F: FlowState>(
        self,
        part: Option<RecordVisitor<'_, F>>,
        timeouts: FlowTimeouts,
    ) -> RunReport<F> {
        let Self { mut report, kept, sink_failed } = self;
        let results = caught(|| {
            let typed = kept.into_iter().map(|(worker, flows)| match flows.downcast::<KeptFlows<F>>() {
                Ok(flows) => (worker, *flows),
                Err(_) => unreachable!("a run builds its flows for the state of its application"),
            });
            let (workers, mut flows): (Vec<Option<usize>>, Vec<KeptFlows<F>>) = typed.unzip();
            if let Some(part) = part {
                compose::visit(&flows, part);
            }
            for (flows, worker) in flows.iter_mut().zip(workers) {
                let expired = flows.time_out(timeouts, report.input.last_ns);
                report.timed_out_at_end += expired;
                let counters = match worker {
                    Some(worker) => Some(&mut report.workers[worker].counters),
                    None => report.shared.as_mut().map(|shared| &mut shared.counters),
                };
                if let Some(counters) = counters {
                    counters.flows_expired += expired;
                }
            }
            FlowResults::new(flows.into_iter().map(|flows| flows.records).collect())
        });
        let flows = results.unwrap_or_else(|message| {
            report.fault.get_or_insert(Fault::ResultsPanicked { message });
            FlowResults::new(Vec::new())
        });
        report.fault = report.fault.or(sink_failed.map(|error| Fault::Sink { error }));
        report.with_flows(flows)
    }
}

/// Returns the result of an inline run.
pub(crate) fn finish_inline(
    ended: Ended<InlineStage<'_>>,
    (cpu, elapsed): (Option<u32>, Duration),
) -> Finished {
    let InlineStage { reader, stage, output, .. } = ended.result;
    let Reader { arrivals, losses, interrupted, mut fault, .. } = reader;
    let counters = stage.counters();
    let finished = caught(|| stage.finish()).map_err(|message| {
        let processed = counters.processed;
        fault.get_or_insert(Fault::WorkerPanicked { worker: 0, packet: None, processed, message });
    });
    let (table, memory) = finished.as_ref().ok().map(|end| (end.table, end.memory)).unzip();
    let worker = WorkerReport {
        cpu: cpu.filter(|_| ended.pinned),
        sent: counters.done(),
        counters,
        table,
        memory,
        busy: ended.cpu,
        ..WorkerReport::default()
    };
    let (sink, sink_failed) = output.map(|output| (output.counters, output.failed)).unzip();
    let report = RunReport {
        input: arrivals.finish(losses),
        workers: vec![worker],
        sink,
        input_cpu: cpu.filter(|_| ended.pinned),
        input_busy: ended.cpu,
        elapsed,
        interrupted,
        fault,
        ..RunReport::default()
    };
    let kept = finished.into_iter().map(|end| (Some(0), end.kept)).collect();
    Finished { report, kept, sink_failed: sink_failed.flatten() }
}

/// All stages of a pipeline that has ended.
pub(crate) struct EndedPipeline<'a> {
    pub(crate) input: Ended<InputStage<'a>>,
    pub(crate) workers: Vec<Ended<WorkerEnd>>,
    pub(crate) egress: Option<Ended<EgressEnd>>,
    pub(crate) shared: Option<Arc<SharedFlows>>,
}

impl EndedPipeline<'_> {
    /// Returns the result.
    pub(crate) fn finish(self, pinning: &Pinning, elapsed: Duration) -> Finished {
        let Self { input, workers, egress, shared } = self;
        let (end, dispatched) = input.result.finish();
        let InputEnd { counters: input_counters, interrupted, mut fault } = end;
        let mut reports = Vec::with_capacity(workers.len());
        let mut kept: Vec<Kept> = Vec::new();
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
            let (table, memory) = flows.as_ref().map(|flows| (flows.table, flows.memory)).unzip();
            kept.extend(flows.map(|flows| (Some(i), flows.kept)));
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
        let shared = caught(|| {
            let flows = shared.and_then(Arc::into_inner)?;
            Some(shared_report(flows, &mut kept))
        });
        let shared = shared.unwrap_or_else(|message| {
            fault.get_or_insert(Fault::ResultsPanicked { message });
            None
        });
        let (sink, sink_failed) = egress
            .map(|ended| {
                let EgressEnd { mut counters, failed } = ended.result;
                counters.refused += not_taken;
                (counters, failed.or_else(|| ended.panic.as_deref().map(SinkError::of_panic)))
            })
            .unzip();
        let report = RunReport {
            input: input_counters,
            workers: reports,
            unplaced: dispatched.unplaced.refused,
            pool_full_waits: dispatched.unplaced.waits,
            shared,
            sink,
            input_cpu: pinning.input.filter(|_| input.pinned),
            input_busy: input.cpu,
            elapsed,
            interrupted,
            fault,
            ..RunReport::default()
        };
        Finished { report, kept, sink_failed: sink_failed.flatten() }
    }
}

/// Returns the sums over all shards, and keeps what their tables have left.
fn shared_report(flows: SharedFlows, kept: &mut Vec<Kept>) -> SharedReport {
    let mut sum: Option<(TableStats, MemoryReport)> = None;
    let mut counters = WorkerCounters::default();
    let mut shards = 0;
    for end in flows.finish() {
        shards += 1;
        counters.add_flows(end.counts);
        sum = Some(sum.map_or((end.table, end.memory), |(table, memory)| {
            (table.and(end.table), memory.and(end.memory))
        }));
        kept.push((None, end.kept));
    }
    let (table, memory) = sum.unwrap_or_default();
    SharedReport { shards, table, memory, counters }
}

/// Returns a packet's full number from its lower bits: the latest number that the source has
/// yielded with these bits.
fn number_near(low: u64, packets: u64) -> u64 {
    let last = packets.saturating_sub(1);
    last.wrapping_sub(last.wrapping_sub(low) & crate::batch::packet::PacketRef::NUMBERS)
}

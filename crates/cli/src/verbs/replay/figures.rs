//! Turns a report into the printed document.

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::engine::{Layout, Order, RunReport, WhenFull, WorkerReport};
use flowloom::traffic::capture::Notice;

use super::plan::Plan;
use super::record_sums::RecordSums;
use super::role::Ran;
use super::setup::scheduler;
use crate::host::{Host, tool};
use crate::render::encapsulations::Encapsulations;
use crate::render::losses::LossFigures;
use crate::render::reasons::NoResult;
use crate::render::replay::{
    InputFigures, L7Figures, RecordFigures, ReplayResult, RunFigures, SamplingFigures, SearchFigures,
    ShardedFigures, TableFigures, TcbCacheFigures, VerifyFigures, WorkerFigures, WrittenFigures,
};
use crate::render::traffic::TrafficFigures;
use crate::render::verdicts::FirewallFigures;

/// What a run leaves beside its report.
pub(super) struct Rest {
    pub(super) passed_over: u64,
    pub(super) verified: Option<VerifyFigures>,
    pub(super) tcb_cache: Option<TcbCacheFigures>,
    pub(super) firewall: Option<FirewallFigures>,
    pub(super) l7: Option<L7Figures>,
    pub(super) records: Option<RecordFigures>,
    pub(super) records_times_back: Option<u64>,
    /// Records that are known to be lost.
    pub(super) records_lost: u64,
    pub(super) sums: Option<RecordSums>,
    pub(super) read_share: Option<f64>,
}

/// Returns the document of a run.
pub(super) fn figures(plan: &Plan<'_>, ran: &Ran<'_>, rest: Rest) -> ReplayResult {
    let Plan { arguments, source, .. } = plan;
    let report = &ran.report;
    let input = &report.input;
    let totals = report.worker_totals();
    let seconds = report.elapsed.as_secs_f64();
    let mut files = source.files();
    // A run that stopped in its first pass may have read more packets than it used.
    let unused = files.iter().map(|file| file.packets).sum::<u64>().saturating_sub(input.packets);
    if let Some(last) = files.last_mut() {
        last.packets = last.packets.saturating_sub(unused);
    }
    let has_all_records =
        rest.records.as_ref().is_none_or(|records| records.is_balanced(rest.records_lost));
    ReplayResult {
        schema: "flowloom/replay/1",
        tool: tool(),
        host: Host::with_isa(plan.isa),
        run: run_figures(plan, ran),
        inputs: files
            .iter()
            .map(|file| InputFigures {
                path: file.path.display().to_string(),
                format: file.format.clone(),
                link_types: file.links.iter().map(|link| link.0).collect(),
                interfaces: file.interfaces,
                packets: file.packets,
                losses: LossFigures::list(&file.losses),
            })
            .collect(),
        passed_over: rest.passed_over,
        packets: input.packets,
        bytes_on_wire: input.bytes_on_wire,
        bytes_captured: input.bytes_captured,
        decoded: input.decoded,
        processed: totals.processed,
        denied: totals.denied,
        sampling: arguments.sample.map(|sampling| SamplingFigures {
            one_of: sampling.one_of(),
            packets: input.packets - report.dropped().withheld(),
            error_per_root: sampling.error(1),
        }),
        flows: ran.flows,
        flows_begun: totals.flows_begun,
        flows_expired: totals.flows_expired,
        records_forgotten: totals.records_forgotten,
        records_times_back: rest.records_times_back,
        fields_dropped: plan.application.field_memory().map(FieldMemory::dropped),
        seconds,
        packets_per_second: if seconds > 0.0 { input.packets as f64 / seconds } else { 0.0 },
        first_ns: input.first_ns,
        last_ns: input.last_ns,
        no_result: NoResult::new(&report.dropped()).with_first(&input.encapsulations),
        unsupported_links: input
            .unsupported_links
            .iter()
            .map(|(link, packets)| (link.to_string(), *packets))
            .collect(),
        encapsulations: Encapsulations::new(&input.encapsulations),
        time_backwards: input.time_backwards,
        time_backwards_ns_max: input.time_backwards_ns_max,
        time_outliers: input.time_outliers,
        time_steps: input.time_steps,
        captured_over_wire: input.captured_over_wire,
        lying_lengths: files.iter().map(|file| file.lying_lengths).sum(),
        digest: ran.digest.clone(),
        workers: worker_figures(report),
        unplaced: report.unplaced,
        pool_full_waits: report.pool_full_waits,
        table: table_figures(report),
        written: arguments.write.as_ref().zip(report.sink).map(|(path, sink)| WrittenFigures {
            path: path.display().to_string(),
            packets: sink.taken,
            refused: sink.refused,
        }),
        verify: rest.verified,
        tcb_cache: rest.tcb_cache,
        firewall: rest.firewall,
        l7: rest.l7,
        records: rest.records,
        traffic: input.timeline.as_ref().map(TrafficFigures::from),
        sums: rest.sums.and_then(RecordSums::figures),
        notices: source.notices().iter().map(ToString::to_string).collect(),
        interrupted: report.interrupted,
        read_share: if report.interrupted { rest.read_share } else { None },
        fault: report.fault.as_ref().map(ToString::to_string),
        balanced: report.is_balanced() && has_all_records,
        complete: !report.interrupted
            && report.fault.is_none()
            && !source.notices().iter().any(Notice::is_partial_input),
    }
}

/// Returns the settings of a run.
fn run_figures(plan: &Plan<'_>, ran: &Ran<'_>) -> RunFigures {
    let (Plan { arguments, config, source, .. }, report) = (plan, &ran.report);
    let pipeline = matches!(config.layout, Layout::Pipeline { .. });
    RunFigures {
        layout: match config.layout {
            Layout::Inline => "inline",
            Layout::Sharded { .. } => "sharded",
            Layout::Pipeline { .. } => "pipeline",
        },
        why: plan.why.clone(),
        merged: source.overlapped(),
        sharded: report.sharded.map(|sharded| ShardedFigures {
            chunks: sharded.chunks,
            threads: sharded.threads,
            lists_moved: sharded.lists_moved,
        }),
        workers: report.workers.len(),
        input_cpu: report.input_cpu,
        app: arguments.app.name(),
        table: arguments.table.name(),
        scheduler: pipeline.then_some(scheduler(arguments).name()),
        order: pipeline.then_some(match config.order {
            Order::None => "none",
            Order::Internal => "internal",
            Order::External => "external",
        }),
        tables: report.shared.as_ref().map_or(report.workers.len(), |shared| shared.shards),
        when_full: match config.when_full {
            WhenFull::Block => "block",
            WhenFull::Drop => "drop",
        },
        ring_slots: pipeline.then_some(config.ring_slots),
        seed: arguments.seed,
        passes: (!arguments.forever).then_some(arguments.passes),
        decap: config.decode.decap,
        defrag: arguments.defrag,
        idle_timeout_ns: arguments.timeout,
        active_timeout_ns: arguments.active_timeout,
        closed_timeout_ns: arguments.closed_timeout_ns(),
        mapped: !arguments.no_mmap,
    }
}

fn worker_figures(report: &RunReport<()>) -> Vec<WorkerFigures> {
    let figures = |worker: &WorkerReport| WorkerFigures {
        cpu: worker.cpu,
        sent: worker.sent,
        processed: worker.counters.processed,
        dropped: worker.counters.dropped.total(),
        flows: report.shared.is_none().then_some(worker.counters.flows_begun),
        ring_full: worker.ring_full,
        full_waits: worker.full_waits,
    };
    report.workers.iter().map(figures).collect()
}

fn table_figures(report: &RunReport<()>) -> TableFigures {
    let (stats, memory) = report.tables();
    TableFigures {
        flows_at_end: u64::from(stats.len).saturating_sub(report.timed_out_at_end),
        inserted: stats.inserted,
        refused: stats.refused,
        displaced: u64::from(stats.displaced),
        list_length_max: stats.list_length_max,
        segments: stats.segments,
        index_bytes: memory.index_bytes,
        state_bytes: memory.state_bytes,
        memory_bytes: memory.total_bytes(),
        searches: stats.searches.map(|steps| {
            let (lookups, each) =
                (steps.hits + steps.misses, |n: u64, of: u64| n as f64 / of.max(1) as f64);
            SearchFigures {
                lookups,
                comparisons_per_lookup: each(steps.comparisons, lookups),
                first_hit_percent: 100.0 * each(steps.first_hits, steps.hits),
                false_match_percent: 100.0 * each(steps.false_matches, lookups),
            }
        }),
        huge_pages_requested: memory.pages.huge_requested,
        huge_pages_obtained: memory.pages.huge_obtained.filter(|_| memory.pages.huge_requested),
    }
}

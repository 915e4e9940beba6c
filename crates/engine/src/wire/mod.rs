//! Runs an appliance: one thread per wire looks up frames, applies the application's verdicts, and
//! sends the frames on.
//!
//! ```text
//!  port 0 ─▶┐                                            ┌─▶ port 1     one wire and one
//!           ├─ batch ─ decode ─ flow table ─ app ─ decide ┤              thread per worker,
//!  port 1 ─▶┘      └ no flow: by reason                   └─▶ port 0     nothing shared
//! ```
//!
//! Workers share nothing, so the wires must give each worker both directions of its flows.

mod options;
mod stage;

use std::any::Any;
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::wire::{PortCounts, Wire};

pub use crate::report::decisions::DecisionCounts;
pub use options::{NoFlow, NoFlowPolicy, OnPanic, WireOptions};

use crate::app::App;
use crate::config::{EngineConfig, Layout};
use crate::control::{Control, Publisher, ReaderPublisher};
use crate::egress::records::RecordSink;
use crate::error::{Fault, StartError};
use crate::ingest::decode::{Arrivals, Decoder, Losses};
use crate::report::counters::InputCounters;
use crate::report::{RunReport, WorkerReport};
use crate::runtime::finish::Finished;
use crate::runtime::pin::{pin, plan};
use crate::runtime::threads::{with_builders, with_records};
use crate::stage::clock;
use crate::stage::panics::caught;
use crate::stage::shutdown::Halt;
use crate::worker::process::Burst;

use stage::WireStage;

/// The result of an appliance's run.
#[derive(Debug)]
#[must_use = "what went wrong after the start is in the report's `fault`"]
#[non_exhaustive]
pub struct WireRun<F> {
    /// The report. A packet without a flow counts as dropped there, for its reason, even if its
    /// frame was forwarded.
    pub report: RunReport<F>,
    /// The counts of each port, summed over the wires.
    pub ports: Vec<PortCounts>,
    /// Counts of the frames by decision.
    pub decisions: DecisionCounts,
}

impl<F> WireRun<F> {
    /// Returns whether every received frame was sent by a port, dropped for a counted reason, or
    /// refused by its port.
    #[must_use]
    pub fn is_balanced(&self) -> bool {
        let sum = |count: fn(&PortCounts) -> u64| self.ports.iter().map(count).sum::<u64>();
        sum(|port| port.received)
            == sum(|port| port.sent) + sum(|port| port.refused) + self.decisions.dropped()
    }
}

/// What a thread returns.
struct WireEnd {
    worker: WorkerReport,
    input: InputCounters,
    ports: Vec<PortCounts>,
    decisions: DecisionCounts,
    kept: Option<Box<dyn Any + Send>>,
    interrupted: bool,
    fault: Option<Fault>,
}

/// Forwards frames until `control` stops the run or a fault ends it, on one thread per wire. The
/// layout in `config` is not used.
///
/// `table` and `app` build the flow table and the application of each wire. `records` receives the
/// records of flows as the flows end, even while no frame arrives; without a sink the report keeps
/// them. A stopped run accepts no further frames, forwards those that it has received, and waits
/// until they have been sent.
///
/// # Errors
///
/// Returns [`StartError`] when the run cannot start. Later errors are in the report as its
/// [`fault`](RunReport::fault). A failed wire ends the run. So does a
/// panic of an application, unless [`WireOptions::on_panic`] says otherwise.
///
/// # Panics
///
/// Panics if `table` or `app` panics. No thread has started by then.
pub fn run_wires<A, T, E, W>(
    config: &EngineConfig,
    options: &WireOptions,
    wires: Vec<W>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    control: &Control,
    records: Option<&mut (dyn RecordSink<A::Flow> + Send)>,
) -> Result<WireRun<A::Flow>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
    W: Wire + Send,
{
    let workers = wires.len();
    let config = &EngineConfig { layout: Layout::Sharded { workers }, ..config.clone() };
    config.check()?;
    let cpus = plan(config)?.workers;
    let (mut ports, mut decisions) = (Vec::new(), DecisionCounts::default());
    let report = with_records(config, records, control, |output| {
        let ends = with_builders(config, (output, false), table, app, |builders| {
            let mut stages = Vec::with_capacity(workers);
            let gauges = control.begin(workers, workers);
            for (i, wire) in wires.into_iter().enumerate() {
                let published =
                    (ReaderPublisher::new(control, &gauges, i), Publisher::new(control, &gauges, i));
                stages.push(WireStage {
                    wire,
                    decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
                    stage: builders.stage(i)?,
                    burst: Burst::new(),
                    options: options.clone(),
                    spoken_ns: None,
                    arrivals: Arrivals::new(false, config.decode),
                    losses: Losses::default(),
                    counts: DecisionCounts::default(),
                    batch: stage::Batch::default(),
                    published,
                });
            }
            run_stages(stages, &cpus, control)
        })?;
        Ok(merged(ends, (&mut ports, &mut decisions)).report(None, config.timeouts()))
    })?;
    control.end(&report);
    Ok(WireRun { report, ports, decisions })
}

/// Runs each wire on its own thread. Also returns how long it took.
fn run_stages<W: Wire + Send>(
    stages: Vec<WireStage<'_, W>>,
    cpus: &[Option<u32>],
    control: &Control,
) -> Result<(Vec<WireEnd>, Duration), StartError> {
    let halt = Arc::new(Halt::default());
    let begun = clock::now();
    let ends = std::thread::scope(|scope| {
        let mut threads = Vec::with_capacity(stages.len());
        for (i, mut stage) in stages.into_iter().enumerate() {
            let (cpu, thread_halt) = (cpus.get(i).copied().flatten(), Arc::clone(&halt));
            let work = move || {
                let pinned = pin(cpu);
                let (interrupted, fault) = stage.run(control, &thread_halt, i);
                end(stage, (i, cpu.filter(|_| pinned)), (interrupted, fault))
            };
            let thread = Builder::new().name(format!("wire-{i}")).spawn_scoped(scope, work);
            threads.push(thread.inspect_err(|_| halt.halt())?);
        }
        let died = |_| std::io::Error::other("a thread died outside its loop");
        threads.into_iter().map(|thread| thread.join().map_err(died)).collect::<Result<_, _>>()
    })?;
    Ok((ends, begun.elapsed()))
}

/// Ends a stage whose loop has ended.
fn end<W: Wire>(
    stage: WireStage<'_, W>,
    (worker, cpu): (usize, Option<u32>),
    (interrupted, mut fault): (bool, Option<Fault>),
) -> WireEnd {
    let WireStage { wire, stage, arrivals, losses, counts, .. } = stage;
    let counters = stage.counters();
    let processed = counters.processed;
    let ended = caught(|| stage.finish()).map_err(|message| {
        fault.get_or_insert(Fault::WorkerPanicked { worker, packet: None, processed, message });
    });
    let (table, memory) = ended.as_ref().ok().map(|end| (end.table, end.memory)).unzip();
    let worker = WorkerReport {
        cpu,
        sent: counters.done(),
        counters,
        table,
        memory,
        busy: clock::thread_cpu(),
        ..WorkerReport::default()
    };
    WireEnd {
        worker,
        input: arrivals.finish(losses),
        ports: wire.ports(),
        decisions: counts,
        kept: ended.ok().map(|end| end.kept),
        interrupted,
        fault,
    }
}

/// Returns the result of all wires.
fn merged(
    (ends, elapsed): (Vec<WireEnd>, Duration),
    (ports, decisions): (&mut Vec<PortCounts>, &mut DecisionCounts),
) -> Finished {
    let mut report = RunReport { elapsed, ..RunReport::default() };
    let mut kept = Vec::with_capacity(ends.len());
    for (worker, end) in ends.into_iter().enumerate() {
        let (first_ns, last_ns, packets) =
            (report.input.first_ns, report.input.last_ns, report.input.packets);
        let has_packets = end.input.packets > 0;
        report.input.append(end.input);
        // The wires run in parallel, not one after another.
        if packets > 0 && has_packets {
            report.input.first_ns = report.input.first_ns.min(first_ns);
            report.input.last_ns = report.input.last_ns.max(last_ns);
        }
        report.workers.push(end.worker);
        report.interrupted |= end.interrupted;
        report.fault = report.fault.take().or(end.fault);
        kept.extend(end.kept.map(|flows| (Some(worker), flows)));
        if ports.len() < end.ports.len() {
            ports.resize(end.ports.len(), PortCounts::default());
        }
        for (all, port) in ports.iter_mut().zip(&end.ports) {
            all.merge(port);
        }
        decisions.merge(&end.decisions);
    }
    Finished { report, kept, sink_failed: None }
}

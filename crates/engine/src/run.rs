//! Puts the stages together, starts their threads, and makes sure that whatever happens ends in a balanced report.

use std::any::Any;
use std::time::Instant;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::{DropReason, PacketSource};
use flowloom_scheduler::Placement;

use crate::app::App;
use crate::clock;
use crate::config::{EngineConfig, Mode, WhenFull};
use crate::control::Control;
use crate::counters::{InputCounters, WorkerCounters};
use crate::dispatch::PipelineSink;
use crate::drive::{Driven, drive};
use crate::error::{Fault, StartError};
use crate::inline::InlineSink;
use crate::input::Admission;
use crate::pin::{Pinning, pin, plan};
use crate::report::{RunReport, WorkerReport};
use crate::results::FlowResults;
use crate::ring::{Outbox, connect};
use crate::stage::{Burst, FlowStage};
use crate::worker::{self, WorkerResult};

/// How the input stage ended.
#[derive(Debug)]
struct InputEnd {
    counters: InputCounters,
    interrupted: bool,
    fault: Option<Fault>,
    pinned: bool,
    done: Instant,
}

/// Runs packets from `source` through the stages until the source ends, the run is stopped, or a fault ends it.
///
/// `table` builds the flow table and `app` the application of each worker (of worker 0 in inline mode). `placement` is
/// not asked in inline mode.
///
/// # Errors
///
/// [`StartError`] when the run could not begin. Whatever happens later is in the report, which is balanced all the same.
pub fn run<A, T, E>(
    config: &EngineConfig,
    source: &mut (dyn PacketSource + Send),
    placement: &mut dyn Placement,
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    control: &Control,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    config.check()?;
    let pinning = plan(config.mode, &config.cores)?;
    let mut stages = Vec::with_capacity(config.mode.tables());
    for i in 0..config.mode.tables() {
        let table = table(i).map_err(|error| StartError::Table(Box::new(error)))?;
        stages.push(FlowStage::new(app(i), table, config.idle_timeout, config.records_max));
    }
    match (config.mode, stages.pop()) {
        (Mode::Inline, Some(stage)) => run_inline(config, &pinning, source, stage, control),
        (_, last) => {
            stages.extend(last);
            run_pipeline(config, &pinning, source, placement, stages, control)
        }
    }
}

fn run_inline<A: App, T: FlowTable<FlowKey, A::Flow> + Send>(
    config: &EngineConfig,
    pinning: &Pinning,
    source: &mut (dyn PacketSource + Send),
    stage: FlowStage<A, T>,
    control: &Control,
) -> Result<RunReport<A::Flow>, StartError> {
    let cpu = pinning.input;
    let (begun, end, stage) = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("inline".into()).spawn_scoped(scope, move || {
            let pinned = pin(cpu);
            let begun = clock::now();
            let mut input = Admission::new(config.decode, config.hasher.clone());
            let mut sink = InlineSink { stage, burst: Burst::new() };
            let caught = drive(config, source, &mut input, &mut sink, control);
            let done = clock::now();
            let end = end_of(input, caught, pinned, done, control);
            (begun, end, sink.stage)
        })?;
        thread.join().map_err(|_| std::io::Error::other("the thread died outside its loop"))
    })?;
    // What the application had seen before a panic is known, the packet it panicked on and the rest of its burst are not.
    let result = stage.finish();
    let mut counters = result.counters;
    let seen = counters.processed + counters.dropped.total();
    let owed = end.counters.decoded.saturating_sub(seen);
    counters.dropped.add(DropReason::WorkerLost, owed);
    let worker = WorkerReport {
        cpu: cpu.filter(|_| end.pinned),
        sent: end.counters.decoded,
        counters,
        table: Some(result.table),
        memory: Some(result.memory),
        full_waits: 0,
    };
    Ok(RunReport {
        elapsed: end.done - begun,
        input: end.counters,
        workers: vec![worker],
        input_cpu: cpu.filter(|_| end.pinned),
        flows: FlowResults::new(result.records),
        interrupted: end.interrupted,
        fault: end.fault,
    })
}

fn run_pipeline<A: App, T: FlowTable<FlowKey, A::Flow> + Send>(
    config: &EngineConfig,
    pinning: &Pinning,
    source: &mut (dyn PacketSource + Send),
    placement: &mut dyn Placement,
    stages: Vec<FlowStage<A, T>>,
    control: &Control,
) -> Result<RunReport<A::Flow>, StartError> {
    let options = config.decode;
    std::thread::scope(|scope| {
        let mut outboxes = Vec::with_capacity(stages.len());
        let mut threads = Vec::with_capacity(stages.len());
        for (i, stage) in stages.into_iter().enumerate() {
            let (outbox, inbox) = connect(config.ring_slots);
            outboxes.push(outbox);
            let cpu = pinning.workers[i];
            // An error here drops the outboxes, which ends the workers that were started.
            threads.push(std::thread::Builder::new().name(format!("worker-{i}")).spawn_scoped(
                scope,
                move || {
                    let pinned = pin(cpu);
                    worker::run(inbox, stage, options, pinned)
                },
            )?);
        }
        let input_cpu = pinning.input;
        let input = std::thread::Builder::new().name("input".into()).spawn_scoped(scope, move || {
            let pinned = pin(input_cpu);
            let begun = clock::now();
            let mut input = Admission::new(config.decode, config.hasher.clone());
            let mut sink = PipelineSink::new(outboxes, placement, config.when_full == WhenFull::Drop);
            let caught = drive(config, source, &mut input, &mut sink, control);
            if caught.is_err() {
                sink.settle(&mut input);
            }
            sink.end();
            (begun, end_of(input, caught, pinned, clock::now(), control), sink.outboxes)
        })?;
        let (begun, mut end, outboxes) =
            input.join().map_err(|_| std::io::Error::other("the input thread died outside its loop"))?;
        let mut workers = Vec::with_capacity(threads.len());
        let mut records = Vec::new();
        let mut done = end.done;
        for (i, (thread, outbox)) in threads.into_iter().zip(outboxes).enumerate() {
            let (report, result) = join_worker(i, thread.join(), &outbox, pinning.workers[i], &mut end);
            if let Some(result) = result {
                done = done.max(result.done);
                if records.is_empty() {
                    records = result.stage.records;
                } else {
                    records.extend(result.stage.records);
                }
            }
            workers.push(report);
        }
        Ok(RunReport {
            elapsed: done - begun,
            input: end.counters,
            workers,
            input_cpu: input_cpu.filter(|_| end.pinned),
            flows: FlowResults::new(records),
            interrupted: end.interrupted,
            fault: end.fault,
        })
    })
}

/// Turns a worker's end into its part of the report: a panic becomes a fault, and its packets are counted as lost.
fn join_worker<F>(
    index: usize,
    joined: std::thread::Result<WorkerResult<F>>,
    outbox: &Outbox,
    cpu: Option<u32>,
    end: &mut InputEnd,
) -> (WorkerReport, Option<WorkerResult<F>>) {
    match joined {
        Ok(result) => {
            let report = WorkerReport {
                cpu: cpu.filter(|_| result.pinned),
                sent: outbox.sent,
                counters: result.stage.counters.clone(),
                table: Some(result.stage.table),
                memory: Some(result.stage.memory),
                full_waits: outbox.full_waits,
            };
            (report, Some(result))
        }
        Err(panic) => {
            let completed = outbox.completed();
            let mut counters = WorkerCounters { processed: completed, ..WorkerCounters::default() };
            counters.dropped.add(DropReason::WorkerLost, outbox.sent - completed);
            end.fault = Some(Fault::WorkerPanicked {
                worker: index,
                processed: completed,
                message: panic_message(&*panic),
            });
            let report = WorkerReport {
                cpu,
                sent: outbox.sent,
                counters,
                table: None,
                memory: None,
                full_waits: outbox.full_waits,
            };
            (report, None)
        }
    }
}

fn end_of(input: Admission, caught: Driven, pinned: bool, done: Instant, control: &Control) -> InputEnd {
    control.publish(input.packets());
    let packets = input.packets();
    let (interrupted, fault) = match caught {
        Ok(Ok(interrupted)) => (interrupted, None),
        Ok(Err(fault)) => (false, Some(fault)),
        Err(panic) => (false, Some(Fault::InputPanicked { packets, message: panic_message(&*panic) })),
    };
    InputEnd { counters: input.finish(), interrupted, fault, pinned, done }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| String::from(*text))
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("no message"))
}

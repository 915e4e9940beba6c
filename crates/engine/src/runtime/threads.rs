//! Runs each stage on its own thread. Every run ends with a balanced report.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::PacketSource;

use crate::app::{App, FlowState};
use crate::budget::Budget;
use crate::config::{EngineConfig, Layout};
use crate::control::Control;
use crate::dispatch::policy::PolicyRef;
use crate::dispatch::stage::InputStage;
use crate::egress::records::{self, RecordOutput, RecordSender, RecordSink};
use crate::egress::reorder::Egress;
use crate::error::{ConfigError, Fault, StartError};
use crate::exchange::member::Member;
use crate::exchange::run::MemberEnd;
use crate::exchange::{self, Exchange};
use crate::report::RunReport;
use crate::report::results::{FlowRecord, FlowResults};
use crate::runtime::assemble::{self, Assembly, Builders, EgressEnd, Ended, Endpoints, Parts};
use crate::runtime::finish::{EndedPipeline, Finished, finish_inline};
use crate::runtime::pin::{Pinning, pin, plan};
use crate::stage::backoff::Backoff;
use crate::stage::clock;
use crate::stage::panics::caught;
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;
use crate::worker::flows::{FlowStore, Flows};
use crate::worker::inline::InlineStage;
use crate::worker::process::AppRunner;

/// Runs packets from `source` through the stages until the source ends, the run is stopped, or a
/// fault ends it.
///
/// `table` builds the flow tables, as many as [`EngineConfig::tables`] returns. `app` builds the
/// application of each worker (of worker 0 in the inline layout). The policy must be made for [as
/// many workers](crate::Layout::workers) as the run has. The run refuses a policy that states
/// another number, and ends with a fault if a policy chooses a worker that does not exist. The
/// inline layout does not use the policy.
///
/// # Errors
///
/// Returns [`StartError`] when the run cannot start. Every later error is in the balanced report as
/// its [`fault`](RunReport::fault), including a panic of the source, the policy, the application,
/// the sink, or a flow's state.
///
/// # Panics
///
/// Panics if `table` or `app` panics. No thread has started by then.
pub fn run<'a, A, T, E>(
    config: &EngineConfig,
    source: &'a mut (dyn PacketSource + Send),
    policy: impl Into<PolicyRef<'a>>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    control: &'a Control,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    run_with(config, Endpoints::new(source, policy, control), table, app)
}

/// Runs packets as [`run`] does, with optional sinks for accepted packets and for records of flows.
///
/// # Errors
///
/// Returns [`StartError`] when the run cannot start.
///
/// # Panics
///
/// Panics in the same cases as [`run`].
pub fn run_with<'a, A, T, E>(
    config: &EngineConfig,
    endpoints: Endpoints<'a, A::Flow>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    config.check()?;
    let Endpoints { source, policy, packets, records, control, part } = endpoints;
    let is_part = part.is_some();
    let report = with_records(config, records, control, |output| {
        let parts = Parts { source, policy, packets, control };
        let finished = with_builders(config, (output, is_part), table, app, |builders| {
            launch(config, parts, builders, is_part)
        })?;
        Ok(finished.report(part, config.timeouts()))
    })?;
    control.end(&report);
    Ok(report)
}

/// Calls `run` with what builds flows and applications, and hides their types from it.
pub(crate) fn with_builders<'a, A, T, E, R>(
    config: &EngineConfig,
    (output, is_part): (RecordOutput<A::Flow>, bool),
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    run: impl FnOnce(&mut Builders<'_, 'a>) -> R,
) -> R
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let requests = output.flush_requests();
    let budget = config.flows_max.map(Budget::new);
    let mut flows = |i| {
        let table = table(i).map_err(|error| StartError::Table(Box::new(error)))?;
        if table.timeouts().is_some_and(|timeouts| timeouts != config.timeouts().for_table()) {
            return Err(StartError::Timeouts);
        }
        let flows = Flows::new(table, config.timeouts(), output.clone()).with_budget(budget.clone());
        let flows = if is_part { flows.with_spans() } else { flows };
        Ok(Box::new(flows) as Box<dyn FlowStore>)
    };
    let mut app = |i| AppRunner::new::<A, T>(app(i));
    run(&mut Builders { flows: &mut flows, app: &mut app, requests })
}

/// Builds the stages of the layout, and runs them to their end.
fn launch<'a>(
    config: &EngineConfig,
    parts: Parts<'a>,
    builders: &mut Builders<'_, 'a>,
    is_part: bool,
) -> Result<Finished, StartError> {
    let pinning = plan(config)?;
    let halt = Arc::new(Halt::default());
    match config.layout {
        Layout::Inline => run_inline(assemble::inline(config, parts, builders, &halt)?, pinning.input),
        Layout::Sharded { .. } => {
            let exchange = exchange::run::build(config, parts, builders)?;
            run_exchange(config, &pinning, exchange)
        }
        Layout::Pipeline { .. } if is_part => Err(ConfigError::PartOfPipeline.into()),
        Layout::Pipeline { .. } => {
            run_pipeline(&pinning, assemble::pipeline(config, parts, builders, &halt)?, &halt)
        }
    }
}

/// Runs with a record thread before the sink, if there is a sink. The sink then also receives the
/// records that the report has kept.
pub(crate) fn with_records<F: FlowState>(
    config: &EngineConfig,
    sink: Option<&mut (dyn RecordSink<F> + Send)>,
    control: &Control,
    run: impl FnOnce(RecordOutput<F>) -> Result<RunReport<F>, StartError>,
) -> Result<RunReport<F>, StartError> {
    let Some(sink) = sink else { return run(RecordOutput::kept(config)) };
    let (mut sender, mut writer) = records::queue(config.records_when_full);
    if let Layout::Sharded { .. } = config.layout {
        sender.prepare_with(sink.preparation());
    }
    std::thread::scope(|scope| {
        let thread = Builder::new().name("records".into()).spawn_scoped(scope, move || {
            writer.run(sink, control);
            writer.finish()
        })?;
        let output = RecordOutput::Stream(sender);
        let mut last = output.clone();
        let report = run(output);
        let report = report.map(|mut report| {
            let kept = std::mem::replace(&mut report.flows, FlowResults::new(Vec::new()));
            if let RecordOutput::Stream(sender) = &mut last {
                // No records follow these, so waiting loses none.
                sender.wait_when_full();
                send_all(sender, kept.into_lists());
            }
            report
        });
        // The thread ends when all senders are gone.
        drop(last);
        let died = |_| std::io::Error::other("the record thread died outside its loop");
        let (records, error) = thread.join().map_err(died)?;
        report.map(|mut report| {
            report.records = Some(records);
            if let Some(error) = error {
                report.fault.get_or_insert(Fault::Records { error });
            }
            report
        })
    })
}

/// Sends lists of records. Further threads help if the sender prepares its records.
fn send_all<F: FlowState>(sender: &mut RecordSender<F>, lists: impl Iterator<Item = Vec<FlowRecord<F>>>) {
    let lists: Vec<_> = lists.map(Mutex::new).collect();
    let next = AtomicUsize::new(0);
    let send = |sender: &mut RecordSender<F>| {
        while let Some(list) = lists.get(next.fetch_add(1, Ordering::Relaxed)) {
            let records = std::mem::take(&mut *list.lock().unwrap_or_else(PoisonError::into_inner));
            for record in records {
                sender.push(record);
            }
        }
    };
    std::thread::scope(|scope| {
        let others = if sender.is_preparing() { lists.len().saturating_sub(1) } else { 0 };
        for _ in 0..others {
            let (mut sender, send) = (sender.another(), &send);
            // If no thread starts, this one sends all lists.
            let _ = Builder::new().name("sender".into()).spawn_scoped(scope, move || send(&mut sender));
        }
        send(sender);
    });
}

fn run_inline(mut stage: InlineStage<'_>, cpu: Option<u32>) -> Result<Finished, StartError> {
    let (ended, elapsed) = std::thread::scope(|scope| {
        let thread = Builder::new().name("inline".into()).spawn_scoped(scope, move || {
            let pinned = pin(cpu);
            let begun = clock::now();
            let panic = repeat(|| stage.poll());
            if let Some(message) = panic {
                stage.settle(message);
                // The next poll finishes the sink, which may panic.
                if let Some(message) = repeat(|| stage.poll()) {
                    stage.settle(message);
                }
            }
            let cpu = clock::thread_cpu();
            (Ended { result: stage, panic: None, at: None, pinned, cpu }, begun.elapsed())
        })?;
        thread.join().map_err(|_| std::io::Error::other("the thread died outside its loop"))
    })?;
    Ok(finish_inline(ended, (cpu, elapsed)))
}

/// Runs the sharded layout. The first thread starts alone, and the others when the input turns out
/// to be long enough. If one of these cannot start, the others do its work.
fn run_exchange(
    config: &EngineConfig,
    pinning: &Pinning,
    exchange: Exchange<'_>,
) -> Result<Finished, StartError> {
    let (members, elapsed) = std::thread::scope(|scope| {
        let start = |id: usize| {
            let (exchange, cpu) = (&exchange, pinning.workers.get(id).copied().flatten());
            Builder::new().name(format!("worker-{id}")).spawn_scoped(scope, move || {
                let pinned = pin(cpu);
                let mut member = Member::new(exchange, id);
                // A member catches the panics of what it calls.
                let _ = repeat(|| member.poll());
                MemberEnd { pinned, cpu: clock::thread_cpu(), helped: member.helped }
            })
        };
        let begun = clock::now();
        let mut threads = vec![start(0)?];
        if exchange.needs_others() {
            threads.extend((1..config.layout.workers()).map_while(|id| start(id).ok()));
            exchange.note_started(threads.len());
        }
        let died = |_| std::io::Error::other("a thread died outside its loop");
        let ends = threads.into_iter().map(|thread| thread.join().map_err(died));
        let ends = ends.collect::<Result<Vec<MemberEnd>, _>>()?;
        Ok::<_, StartError>((ends, begun.elapsed()))
    })?;
    Ok(exchange::run::finish(exchange, &members, pinning, elapsed))
}

type Handle<'scope, R> = ScopedJoinHandle<'scope, (Ended<R>, Instant)>;

/// Starts a thread that polls a stage until it is done. `end` then turns the stage into its
/// results.
fn start<'scope, S: Send + 'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    name: String,
    cpu: Option<u32>,
    mut stage: S,
    poll: impl Fn(&mut S) -> Polled + Send + 'scope,
    end: impl FnOnce(S, Option<String>) -> Ended<R> + Send + 'scope,
) -> std::io::Result<Handle<'scope, R>> {
    Builder::new().name(name).spawn_scoped(scope, move || {
        let pinned = pin(cpu);
        let panic = repeat(|| poll(&mut stage));
        let (done, cpu) = (clock::now(), clock::thread_cpu());
        (Ended { pinned, cpu, ..end(stage, panic) }, done)
    })
}

fn run_pipeline(
    pinning: &Pinning,
    assembly: Assembly<'_>,
    halt: &Arc<Halt>,
) -> Result<Finished, StartError> {
    let Assembly { input, workers, egress, shared } = assembly;
    let (input, workers, egress, elapsed) = std::thread::scope(|scope| {
        let begin = || -> std::io::Result<_> {
            let mut threads = Vec::with_capacity(workers.len());
            for (i, (worker, &cpu)) in workers.into_iter().zip(&pinning.workers).enumerate() {
                let halt = Arc::clone(halt);
                let end = move |worker, panic| assemble::end_worker(worker, panic, &halt);
                threads.push(start(
                    scope,
                    format!("worker-{i}"),
                    cpu,
                    worker,
                    |worker| worker.poll(),
                    end,
                )?);
            }
            let egress = egress
                .map(|egress| {
                    let halt = Arc::clone(halt);
                    let end = move |egress, panic| assemble::end_egress(egress, panic, &halt);
                    start(scope, "egress".into(), None, egress, Egress::poll, end)
                })
                .transpose()?;
            // The input thread starts last, so that it takes no packet before the other threads
            // run. If it cannot start, the input stage is dropped, and the other threads find their
            // rings abandoned.
            let begun = clock::now();
            let input =
                start(scope, "input".into(), pinning.input, input, InputStage::poll, |input, panic| {
                    Ended { result: input, panic, at: None, pinned: false, cpu: None }
                })?;
            Ok((threads, egress, input, begun))
        };
        let (threads, egress, input, begun) = begin().inspect_err(|_| halt.halt())?;
        let died = |_| std::io::Error::other("a thread died outside its loop");
        let (input, mut done) = input.join().map_err(died)?;
        let mut ended = Vec::with_capacity(threads.len());
        for thread in threads {
            let (worker, at) = thread.join().map_err(died)?;
            done = done.max(at);
            ended.push(worker);
        }
        let egress: Option<Ended<EgressEnd>> = egress
            .map(|thread| {
                let (egress, at) = thread.join().map_err(died)?;
                done = done.max(at);
                Ok::<_, std::io::Error>(egress)
            })
            .transpose()?;
        Ok::<_, StartError>((input, ended, egress, done - begun))
    })?;
    Ok(EndedPipeline { input, workers, egress, shared }.finish(pinning, elapsed))
}

/// Polls a stage until it is done. Returns the message of a panic.
pub(crate) fn repeat(mut poll: impl FnMut() -> Polled) -> Option<String> {
    let wait = Backoff::default();
    let ended = caught(|| {
        loop {
            match poll() {
                Polled::Worked => wait.reset(),
                Polled::Idle | Polled::Starved => wait.snooze(),
                Polled::Nap(nap) => std::thread::sleep(nap),
                Polled::Done => return,
            }
        }
    });
    ended.err()
}

//! Runs the stages on threads, one each, and makes sure that whatever happens ends in a balanced report.

use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Instant;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::PacketSource;

use crate::actor::Polled;
use crate::app::App;
use crate::clock;
use crate::config::{EngineConfig, Mode};
use crate::control::Control;
use crate::crew::{self, Crew, EgressEnd, Ended, Finished, Parts, caught};
use crate::discipline::Discipline;
use crate::egress::Egress;
use crate::error::StartError;
use crate::halt::Halt;
use crate::pin::{Pinning, pin, plan};
use crate::report::RunReport;
use crate::turns_at_input::{Helper, TurnsAtInput};
use crate::wait::Wait;

/// Runs packets from `source` through the stages until the source ends, the run is stopped, or a fault ends it.
///
/// `table` builds the flow tables, as many as [`EngineConfig::tables`] says, and `app` the application of each worker
/// (of worker 0 in inline mode). The policy is one for [as many workers](crate::Mode::workers) as the run has: one that says that
/// it was made for another number is refused, one that decides for a worker that does not exist ends the run with a fault. In inline
/// mode it is not asked, and any will do.
///
/// # Errors
///
/// [`StartError`] when the run could not begin. Whatever happens later is in the report, which is balanced all the same: also a panic
/// of the source, the policy, the application, the sink, or a flow's state, as its [`fault`](RunReport::fault).
///
/// # Panics
///
/// Where `table` or `app` panics, before any thread is started.
pub fn run<'a, A, T, E>(
    config: &EngineConfig,
    source: &'a mut (dyn PacketSource + Send),
    policy: impl Into<Discipline<'a>>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    control: &'a Control,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'a,
    E: std::error::Error + Send + Sync + 'static,
{
    run_parts(config, Parts { source, discipline: policy.into(), sink: None, control }, table, app)
}

/// Runs packets as [`run`] does, with a sink for accepted packets.
///
/// # Errors
///
/// [`StartError`] when the run could not begin.
///
/// # Panics
///
/// As [`run`].
pub fn run_parts<'a, A, T, E>(
    config: &EngineConfig,
    parts: Parts<'a>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'a,
    E: std::error::Error + Send + Sync + 'static,
{
    config.check()?;
    let pinning = plan(config)?;
    let halt = Arc::new(Halt::default());
    let control = parts.control;
    let report = match config.mode {
        Mode::Inline => run_inline(config, &pinning, parts, table, app, &halt),
        Mode::Pipeline { .. } => {
            let crew = crew::pipeline(config, parts, table, app, &halt)?;
            run_pipeline(&pinning, crew, &halt)
        }
    }?;
    control.end(&report);
    Ok(report)
}

fn run_inline<A, T, E>(
    config: &EngineConfig,
    pinning: &Pinning,
    parts: Parts<'_>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    halt: &Arc<Halt>,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
    E: std::error::Error + Send + Sync + 'static,
{
    let mut stage = crew::inline(config, parts, table, app, halt)?;
    let cpu = pinning.input;
    let (ended, elapsed) = std::thread::scope(|scope| {
        let thread = Builder::new().name("inline".into()).spawn_scoped(scope, move || {
            let pinned = pin(cpu);
            let begun = clock::now();
            let panic = repeat(|| stage.poll());
            if let Some(message) = panic {
                stage.settle(message);
                // The sink is finished all the same, and may panic then.
                if let Some(message) = repeat(|| stage.poll()) {
                    stage.settle(message);
                }
            }
            let cpu = clock::thread_cpu();
            (Ended { result: stage, panic: None, at: None, pinned, cpu }, begun.elapsed())
        })?;
        thread.join().map_err(|_| std::io::Error::other("the thread died outside its loop"))
    })?;
    Ok(crew::inline_report(ended, cpu, elapsed))
}

type Handle<'scope, R> = ScopedJoinHandle<'scope, (Ended<R>, Instant)>;

/// Starts a thread that polls a stage until it is done, and then makes of it what is left.
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

fn run_pipeline<A, T>(
    pinning: &Pinning,
    crew: Crew<'_, A, T>,
    halt: &Arc<Halt>,
) -> Result<RunReport<A::Flow>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
{
    let Crew { input, workers, egress, shared } = crew;
    let at_input = &input;
    let mut helpers = input.helpers();
    let mut helper = || helpers.next().unwrap_or_else(|| unreachable!("there are two more than workers"));
    let mut last = helper();
    let by_workers = pinning.input_by_workers;
    let (ended, thread_of_input, elapsed) = std::thread::scope(|scope| {
        let begin = || -> std::io::Result<_> {
            let mut threads = Vec::with_capacity(workers.len());
            for (i, (worker, &cpu)) in workers.into_iter().zip(&pinning.workers).enumerate() {
                let halt = Arc::clone(halt);
                threads.push(start(
                    scope,
                    format!("worker-{i}"),
                    cpu,
                    (worker, helper()),
                    move |(worker, helper)| {
                        // Before it has nothing left: who then finds somebody else at the input would wait.
                        let helped = (by_workers && worker.is_short()).then(|| at_input.help(helper));
                        match (worker.poll(), helped) {
                            (Polled::Idle, Some(helped)) => helped,
                            (Polled::Idle, None) if by_workers => at_input.help(helper),
                            (polled, _) => polled,
                        }
                    },
                    move |(worker, _), panic| crew::end_worker(worker, panic, &halt),
                )?);
            }
            let egress = egress
                .map(|egress| {
                    let halt = Arc::clone(halt);
                    start(scope, "egress".into(), None, egress, Egress::poll, move |egress, panic| {
                        crew::end_egress(egress, panic, &halt)
                    })
                })
                .transpose()?;
            let input = (!by_workers)
                .then(|| {
                    let ended = |_, panic| Ended { result: (), panic, at: None, pinned: false, cpu: None };
                    let poll = |helper: &mut _| at_input.poll(helper);
                    start(scope, "input".into(), pinning.input, helper(), poll, ended)
                })
                .transpose()?;
            Ok((threads, egress, input))
        };
        // Nobody takes a packet before all threads are there. Should one not start, those that run are ended.
        let held = at_input.hold();
        let started = begin().inspect_err(|_| halt.halt());
        let begun = clock::now();
        drop(held);
        let started = started.inspect_err(|_| finish(at_input, &mut last));
        let (threads, egress, thread_of_input) = started?;
        let died = |_| std::io::Error::other("a thread died outside its loop");
        let thread_of_input = thread_of_input.map(|thread| thread.join().map_err(died)).transpose()?;
        let mut done = thread_of_input.as_ref().map_or(begun, |(_, at)| *at);
        let mut ended = Vec::with_capacity(threads.len());
        for thread in threads {
            let (worker, at) = thread.join().map_err(died)?;
            done = done.max(at);
            ended.push(worker);
        }
        // Workers that have all died leave an input stage that does not know it.
        finish(at_input, &mut last);
        let egress: Option<Ended<EgressEnd>> = egress
            .map(|thread| {
                let (egress, at) = thread.join().map_err(died)?;
                done = done.max(at);
                Ok::<_, std::io::Error>(egress)
            })
            .transpose()?;
        Ok::<_, StartError>(((ended, egress), thread_of_input, done - begun))
    })?;
    let (workers, egress) = ended;
    let mut input = Ended { result: input, panic: None, at: None, pinned: false, cpu: None };
    if let Some((Ended { pinned, cpu, .. }, _)) = thread_of_input {
        input = Ended { pinned, cpu, ..input };
    }
    Ok(Finished::<A, T> { input, workers, egress, shared }.report(pinning, elapsed))
}

/// Polls the input stage to its end.
fn finish(input: &TurnsAtInput<'_>, helper: &mut Helper) {
    repeat(|| input.poll(helper));
}

/// Polls until there is nothing more to do; returns the message of a panic.
fn repeat(mut poll: impl FnMut() -> Polled) -> Option<String> {
    let wait = Wait::default();
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

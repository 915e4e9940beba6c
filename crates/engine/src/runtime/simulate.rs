//! Runs the stages one step at a time on the calling thread, in an order that a seed determines.
//! The stages run the same code as on threads. The same seed repeats a failure.
//!
//! A step polls one stage: it reads, decodes and dispatches a batch, processes a chunk of a worker,
//! or releases some packets. Schedules therefore differ in which stage is ahead and by how much,
//! not in the interleaving of single instructions, which loom and sanitizers cover.

use std::sync::Arc;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;

use crate::app::App;
use crate::config::{EngineConfig, Layout};
use crate::dispatch::stage::InputStage;
use crate::egress::records::{self, RecordOutput};
use crate::egress::reorder::Egress;
use crate::error::{ConfigError, Fault, StartError};
use crate::exchange::member::Member;
use crate::exchange::run::MemberEnd;
use crate::exchange::{self, Exchange};
use crate::report::RunReport;
use crate::report::results::FlowResults;
use crate::runtime::assemble::{self, Assembly, Builders, Ended, Endpoints, Parts};
use crate::runtime::finish::{EndedPipeline, Finished, finish_inline};
use crate::runtime::pin::Pinning;
use crate::runtime::threads::with_builders;
use crate::stage::panics::caught;
use crate::stage::poll::Polled;
use crate::stage::shutdown::Halt;
use crate::worker::inline::InlineStage;
use crate::worker::{Worker, WorkerEnd};

/// Why a seeded run has no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SeededError {
    /// The run could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Every stage waits for another, or for a source that has had no packets for very long. On
    /// threads this run would hang.
    #[error("every stage waits for another or for the source after {steps} steps: seed {seed} repeats it")]
    Stuck {
        /// Number of steps before that.
        steps: u64,
        /// The seed.
        seed: u64,
    },
}

/// Steps between two draws of the stages' speeds.
const PHASE_STEPS: u64 = 64;

/// Number of consecutive empty answers of a source while no stage works.
const STARVED_MAX: u64 = 10_000;

/// Draws the next stage to poll.
struct Draw {
    state: u64,
    weights: Vec<u32>,
    left: u64,
}

impl Draw {
    fn new(seed: u64, stages: usize) -> Self {
        Self { state: seed, weights: vec![1; stages], left: 0 }
    }

    /// Returns 64 random bits [`SplitMix64`, Steele et al. 2014].
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ self.state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Returns one of the `ready` stages; fast stages come more often.
    fn stage(&mut self, ready: &[bool]) -> Option<usize> {
        if self.left == 0 {
            self.left = PHASE_STEPS;
            for i in 0..self.weights.len() {
                self.weights[i] = [1, 1, 4, 64][(self.bits() & 3) as usize];
            }
        }
        self.left -= 1;
        let all: u32 =
            self.weights.iter().zip(ready).filter(|&(_, &ready)| ready).map(|(weight, _)| weight).sum();
        let mut at = (self.bits() % u64::from(all.max(1))) as u32;
        for (i, &weight) in self.weights.iter().enumerate() {
            if ready[i] {
                if at < weight {
                    return Some(i);
                }
                at -= weight;
            }
        }
        None
    }
}

/// A live stage, or its results.
enum Slot<S, R> {
    Live(S),
    Ended(R),
    Moving,
}

impl<S, R> Slot<S, R> {
    /// Polls the stage. When it is done or has panicked, `end` turns it into its results.
    fn step(
        &mut self,
        poll: impl FnOnce(&mut S) -> Polled,
        end: impl FnOnce(S, Option<String>) -> R,
    ) -> Polled {
        let Self::Live(stage) = self else { return Polled::Done };
        let (polled, panic) = match caught(|| poll(stage)) {
            Ok(polled) => (polled, None),
            Err(message) => (Polled::Done, Some(message)),
        };
        if polled == Polled::Done
            && let Self::Live(stage) = std::mem::replace(self, Self::Moving)
        {
            *self = Self::Ended(end(stage, panic));
        }
        polled
    }

    fn into_ended(self) -> Option<R> {
        match self {
            Self::Ended(result) => Some(result),
            Self::Live(_) | Self::Moving => None,
        }
    }
}

/// Runs like [`crate::run_with`], on the calling thread and in an order that `seed` determines. The
/// run keeps no pace: all waits end at once. It passes records to the sink after all stages have
/// ended. `elapsed` is zero in the report.
///
/// # Errors
///
/// Returns [`SeededError`] when the run cannot start, or when every stage waits for another or for
/// the source.
pub fn run_seeded<'a, A, T, E>(
    config: &EngineConfig,
    endpoints: Endpoints<'a, A::Flow>,
    table: impl FnMut(usize) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    seed: u64,
) -> Result<RunReport<A::Flow>, SeededError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    config.check().map_err(StartError::from)?;
    let Endpoints { source, policy, packets, records: sink, control, part } = endpoints;
    let (output, is_part) = (RecordOutput::kept(config), part.is_some());
    let parts = Parts { source, policy, packets, control };
    let finished = with_builders(config, (output, is_part), table, app, |builders| {
        run_stages(config, parts, builders, (is_part, seed))
    })?;
    let mut report = finished.report(part, config.timeouts());
    if let Some(sink) = sink {
        let (_, mut writer) = records::queue(config.records_when_full);
        let kept = std::mem::replace(&mut report.flows, FlowResults::new(Vec::new()));
        let kept: Vec<_> = kept.into_records().collect();
        writer.write(sink, &kept);
        let (records, error) = writer.finish();
        report.records = Some(records);
        if let Some(error) = error {
            report.fault.get_or_insert(Fault::Records { error });
        }
    }
    control.end(&report);
    Ok(report)
}

fn run_stages<'a>(
    config: &EngineConfig,
    parts: Parts<'a>,
    builders: &mut Builders<'_, 'a>,
    (is_part, seed): (bool, u64),
) -> Result<Finished, SeededError> {
    let halt = Arc::new(Halt::default());
    match config.layout {
        Layout::Sharded { .. } => {
            let exchange = exchange::run::build(config, parts, builders)?;
            let members = run_members(&exchange, config.layout.workers(), seed)?;
            let pinning = Pinning { input: None, workers: Vec::new() };
            Ok(exchange::run::finish(exchange, &members, &pinning, Duration::ZERO))
        }
        Layout::Inline => {
            let mut stage = assemble::inline(config, parts, builders, &halt)?;
            if let Some(message) = poll_to_end(&mut stage, seed, InlineStage::poll)? {
                stage.settle(message);
                if let Some(message) = poll_to_end(&mut stage, seed, InlineStage::poll)? {
                    stage.settle(message);
                }
            }
            let ended = Ended { result: stage, panic: None, at: None, pinned: false, cpu: None };
            Ok(finish_inline(ended, (None, Duration::ZERO)))
        }
        Layout::Pipeline { .. } if is_part => Err(StartError::from(ConfigError::PartOfPipeline).into()),
        Layout::Pipeline { .. } => {
            let Assembly { input, workers, egress, shared } =
                assemble::pipeline(config, parts, builders, &halt)?;
            let pinning = Pinning { input: None, workers: vec![None; workers.len()] };
            let (input, workers, egress) = Stages::new(input, workers, egress).run(&halt, seed)?;
            let ended = EndedPipeline { input, workers, egress, shared };
            Ok(ended.finish(&pinning, Duration::ZERO))
        }
    }
}

/// Polls the threads of a sharded run until each is done.
fn run_members(exchange: &Exchange<'_>, count: usize, seed: u64) -> Result<Vec<MemberEnd>, SeededError> {
    exchange.note_started(count);
    let mut members: Vec<_> = (0..count).map(|id| Member::new(exchange, id)).collect();
    poll_all(count, seed, |at| members[at].poll())?;
    let end = |member: Member<'_, '_>| MemberEnd { helped: member.helped, ..MemberEnd::default() };
    Ok(members.into_iter().map(end).collect())
}

/// Polls a stage until it is done. Returns the message of a panic.
fn poll_to_end<S>(
    stage: &mut S,
    seed: u64,
    poll: impl Fn(&mut S) -> Polled,
) -> Result<Option<String>, SeededError> {
    let (mut steps, mut starved) = (0, 0);
    let polled = caught(|| {
        while starved <= STARVED_MAX {
            steps += 1;
            match poll(stage) {
                Polled::Done => return Ok(None),
                Polled::Starved => starved += 1,
                Polled::Worked | Polled::Nap(_) | Polled::Idle => starved = 0,
            }
        }
        Err(SeededError::Stuck { steps, seed })
    });
    polled.unwrap_or_else(|message| Ok(Some(message)))
}

/// Polls `count` stages in an order that `seed` determines, until each is done.
fn poll_all(count: usize, seed: u64, mut poll: impl FnMut(usize) -> Polled) -> Result<(), SeededError> {
    let mut draw = Draw::new(seed, count);
    let mut live = vec![true; count];
    // Stages that may have work. A stage without work is polled again when another stage has
    // worked.
    let mut ready = live.clone();
    let (mut steps, mut starved) = (0, 0);
    while live.contains(&true) {
        let Some(stage) = draw.stage(&ready) else { return Err(SeededError::Stuck { steps, seed }) };
        steps += 1;
        match poll(stage) {
            Polled::Starved if starved < STARVED_MAX => {
                if starved == 0 {
                    // After the first empty answer of a source, the egress stage flushes its sink.
                    ready.clone_from(&live);
                }
                starved += 1;
            }
            Polled::Starved => return Err(SeededError::Stuck { steps, seed }),
            Polled::Worked | Polled::Nap(_) => {
                starved = 0;
                ready.clone_from(&live);
            }
            Polled::Idle => ready[stage] = false,
            Polled::Done => {
                live[stage] = false;
                ready.clone_from(&live);
            }
        }
    }
    Ok(())
}

type LiveWorker<'a> = Slot<Box<dyn Worker + 'a>, Ended<WorkerEnd>>;

struct Stages<'a> {
    input: Slot<InputStage<'a>, Ended<InputStage<'a>>>,
    workers: Vec<LiveWorker<'a>>,
    egress: Option<Slot<Egress<'a>, Ended<assemble::EgressEnd>>>,
}

type AllEnded<'a> = (Ended<InputStage<'a>>, Vec<Ended<WorkerEnd>>, Option<Ended<assemble::EgressEnd>>);

impl<'a> Stages<'a> {
    fn new(input: InputStage<'a>, workers: Vec<Box<dyn Worker + 'a>>, egress: Option<Egress<'a>>) -> Self {
        Self {
            input: Slot::Live(input),
            workers: workers.into_iter().map(Slot::Live).collect(),
            egress: egress.map(Slot::Live),
        }
    }

    /// Polls one stage: the input stage is the first, then the workers, and the egress stage is the
    /// last.
    fn step(&mut self, stage: usize, halt: &Halt) -> Polled {
        match (stage.checked_sub(1), &mut self.egress) {
            (None, _) => self.input.step(InputStage::poll, |input, panic| Ended {
                result: input,
                panic,
                at: None,
                pinned: false,
                cpu: None,
            }),
            (Some(worker), _) if worker < self.workers.len() => self.workers[worker]
                .step(|worker| worker.poll(), |worker, panic| assemble::end_worker(worker, panic, halt)),
            (_, Some(egress)) => {
                egress.step(Egress::poll, |egress, panic| assemble::end_egress(egress, panic, halt))
            }
            (_, None) => Polled::Done,
        }
    }

    fn run(mut self, halt: &Halt, seed: u64) -> Result<AllEnded<'a>, SeededError> {
        let stages = 1 + self.workers.len() + usize::from(self.egress.is_some());
        poll_all(stages, seed, |stage| self.step(stage, halt))?;
        let ended = (|| {
            let workers = self.workers.into_iter().map(Slot::into_ended).collect::<Option<_>>()?;
            Some((self.input.into_ended()?, workers, self.egress.and_then(Slot::into_ended)))
        })();
        Ok(ended.unwrap_or_else(|| unreachable!("the loop ends when every stage has")))
    }
}

//! Runs the workers of the sharded layout, confirms the cuts, and composes the results.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{FlowTable, MemoryReport, TableStats};
use flowloom_packet::SourceError;
use flowloom_packet::clock::PacketClock;

use crate::app::{App, PartSupport};
use crate::config::{EngineConfig, Layout};
use crate::control::{Control, Publisher, ReaderPublisher};
use crate::egress::records::{RecordOutput, RecordSink};
use crate::error::{ConfigError, Fault, StartError};
use crate::ingest::decode::Decoder;
use crate::ingest::pace::Pace;
use crate::ingest::reader::Reader;
use crate::report::counters::{InputCounters, WorkerCounters};
use crate::report::results::{FlowRecord, FlowResults};
use crate::report::timeline::Timeline;
use crate::report::{RunReport, ShardedReport, WorkerReport};
use crate::runtime::clock;
use crate::runtime::panics::caught;
use crate::runtime::pin::{pin, plan};
use crate::runtime::shutdown::Halt;
use crate::runtime::threads::{repeat, with_records};
use crate::sharded::compose::{Composer, PartRecords};
use crate::sharded::context::{Begin, RunContext};
use crate::sharded::hashes::PacketHashes;
use crate::sharded::parts::{PartSource, PartitionedSource};
use crate::sharded::reprocess::SecondPass;
use crate::worker::flows::{Flows, FlowsEnd};
use crate::worker::inline::InlineStage;
use crate::worker::process::{Burst, FlowStage};

/// The result of a sharded run.
#[derive(Debug)]
#[must_use = "what went wrong after the start is in the report's `fault`"]
#[non_exhaustive]
pub struct ShardedRun<F, R> {
    /// The report, equal to that of a run over the whole input.
    pub report: RunReport<F>,
    /// What each part of the result has read, in order.
    pub reads: Vec<R>,
}

/// A part that was read and processed.
struct PartRun<A: App> {
    /// `None` after a panic while the records were taken from the table.
    records: Option<PartRecords<A::Flow>>,
    /// `None` once the application is dropped.
    app: Option<A>,
    input: InputCounters,
    hashes: PacketHashes,
    /// The stamp of its first packet.
    first_stamp: Option<u64>,
    /// The clock before its first packet, as known when it was read.
    begin: PacketClock,
    /// The clock after its last packet.
    end: PacketClock,
    counters: WorkerCounters,
    table: Option<(TableStats, MemoryReport)>,
    interrupted: bool,
    fault: Option<Fault>,
    pinned: bool,
    busy: Option<Duration>,
}

impl<A: App> PartRun<A> {
    /// Returns the packets that the source yielded.
    fn yielded(&self) -> u64 {
        self.input.packets - self.input.dropped.withheld()
    }

    /// Drops a run whose packets do not count or are read again.
    fn discard(mut self) {
        // Ignore a panic: the counts of this application are subtracted anyway.
        let _ = caught(|| {
            if let Some(mut app) = self.app.take() {
                app.retract();
            }
        });
    }
}

/// A part's run and what it read, or the error of opening it.
type Outcome<A, R> = Result<(PartRun<A>, R), SourceError>;

/// Runs the parts of `cut` on the workers of the layout, and composes the results. The report
/// equals that of one thread over the whole input.
///
/// If there are more parts than workers, the run is a sequence of rounds, in which each worker
/// processes one part. `table` builds the flow table and `app` the application of each part, and
/// further ones if a part is read again. Each part keeps at most
/// [`records_max`](EngineConfig::records_max) records, and the limits of its table apply to it
/// alone. Only if a part reaches one of these limits may the results differ from those of another
/// layout.
///
/// A stopped run composes what each worker has processed until then.
///
/// # Errors
///
/// Returns [`StartError`] when the run cannot start. This includes an application that needs all
/// packets in one sequence, and a configuration with a pace.
///
/// # Panics
///
/// Panics if `table` or `app` panics.
pub fn run_sharded<A, T, E, C>(
    config: &EngineConfig,
    cut: &C,
    table: impl FnMut(TableFor) -> Result<T, E>,
    app: impl FnMut(usize) -> A,
    control: &Control,
) -> Result<ShardedRun<A::Flow, C::Read>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
    E: std::error::Error + Send + Sync + 'static,
    C: PartitionedSource,
{
    run_sharded_with(config, cut, table, app, control, Outputs::default())
}

/// Destinations of a sharded run's results, in addition to the report.
#[derive(Default)]
#[non_exhaustive]
pub struct Outputs<'s, F> {
    /// The sink of records. It receives them after each round, once the parts of the round are
    /// composed. Records of flows that are live at that time pass into the next round.
    pub records: Option<&'s mut (dyn RecordSink<F> + Send)>,
    /// Called for each record before the records become results, to save them as a
    /// [part](crate::SavedPart) of a larger input. The sink then receives records only at the end.
    pub part: Option<RecordVisitor<'s, F>>,
}

impl<F> std::fmt::Debug for Outputs<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outputs").finish_non_exhaustive()
    }
}

/// Receives a part's records before they become results, each with the ticks of its first and last
/// packet, and whether it is live at the end.
pub(crate) type RecordVisitor<'s, F> = &'s mut dyn FnMut(&FlowRecord<F>, [u64; 2], bool);

/// Runs like [`run_sharded`], with destinations in addition to the report.
///
/// # Errors
///
/// Returns [`StartError`] when the run cannot start.
///
/// # Panics
///
/// Panics in the same cases as [`run_sharded`].
pub fn run_sharded_with<A, T, E, C>(
    config: &EngineConfig,
    cut: &C,
    mut table: impl FnMut(TableFor) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    control: &Control,
    outputs: Outputs<'_, A::Flow>,
) -> Result<ShardedRun<A::Flow, C::Read>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
    E: std::error::Error + Send + Sync + 'static,
    C: PartitionedSource,
{
    config.check()?;
    if let PartSupport::Never(why) = A::PARTS {
        return Err(ConfigError::Sharded { why }.into());
    }
    if config.pace != Pace::Max {
        return Err(ConfigError::Sharded { why: "a pace needs a single reader" }.into());
    }
    let parts = cut.parts();
    let workers = match config.layout {
        Layout::Sharded { workers } => workers.clamp(1, parts),
        Layout::Inline | Layout::Pipeline { .. } => parts,
    };
    let layout = Layout::Sharded { workers };
    let cpus = plan(&EngineConfig { layout, ..config.clone() })?.workers;
    let mut build =
        Factory { table: |of| table(of).map_err(|e| StartError::Table(Box::new(e))), app: &mut app };
    let context = RunContext { config, cut, control, gauges: control.begin(workers, workers), cpus };
    let mut reads = Vec::new();
    let report = with_records(config, outputs.records, control, |mut output| {
        let begun = clock::now();
        let mut composed = Composition::new(&context);
        for from in (0..parts).step_by(workers) {
            if composed.is_over() {
                break;
            }
            let round = build.each((from..parts.min(from + workers)).map(|i| (i, None)))?;
            let mut outcomes: Vec<Outcome<A, C::Read>> = context.read_all(round)?;
            composed.confirm(&mut outcomes, &mut build)?;
            for (i, outcome) in (from..).zip(outcomes) {
                composed.add(i, outcome, &mut build)?;
            }
            if let (RecordOutput::Stream(sender), None) = (&mut output, &outputs.part) {
                composed.composer.take_ended(|record| sender.push(record));
                sender.send();
            }
        }
        if let Some(visit) = outputs.part {
            composed.composer.for_each(|record, span, is_live| {
                visit(record, [span.start.0, span.last.0], is_live);
            });
        }
        let run = composed.finish(begun.elapsed());
        reads = run.reads;
        Ok(run.report)
    })?;
    control.end(&report);
    Ok(ShardedRun { report, reads })
}

/// The purpose of a flow table.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TableFor {
    /// The index of the part.
    pub part: usize,
    /// The number of flows, which is known if some flows of a part are processed again. The table
    /// then needs space only for these.
    pub flows: Option<u32>,
}

/// Builds tables and applications.
struct Factory<F, G> {
    table: F,
    app: G,
}

/// A part to read: its index, its true beginning if known, and its table and application.
type Work<B, T, A> = (usize, Option<Begin<B>>, (T, A));

impl<T, A, F, G> Factory<F, G>
where
    F: FnMut(TableFor) -> Result<T, StartError>,
    G: FnMut(usize) -> A,
{
    /// `flows` is the number of flows, if known.
    fn one(&mut self, part: usize, flows: Option<u32>) -> Result<(T, A), StartError> {
        Ok(((self.table)(TableFor { part, flows })?, (self.app)(part)))
    }

    fn each<B>(
        &mut self,
        parts: impl Iterator<Item = (usize, Option<Begin<B>>)>,
    ) -> Result<Vec<Work<B, T, A>>, StartError> {
        parts.map(|(part, begin)| Ok((part, begin, self.one(part, None)?))).collect()
    }
}

impl<C: PartitionedSource> RunContext<'_, C> {
    /// Reads and processes parts, each on its own thread.
    fn read_all<A, T>(
        &self,
        work: Vec<Work<C::Boundary, T, A>>,
    ) -> Result<Vec<Outcome<A, C::Read>>, StartError>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow> + Send,
    {
        let halts: Vec<Arc<Halt>> = work.iter().map(|_| Arc::default()).collect();
        std::thread::scope(|scope| {
            let halts = &halts;
            let mut threads = Vec::with_capacity(work.len());
            for (nth, (part, begin, parts)) in work.into_iter().enumerate() {
                let work = move || {
                    let worker = part % self.cpus.len();
                    let pinned = pin(self.cpus[worker]);
                    let outcome = self.read(part, begin, parts, &halts[nth]);
                    if outcome.as_ref().map_or(true, |(run, _)| run.fault.is_some()) {
                        // Parts after a failed part do not count.
                        halts[nth + 1..].iter().for_each(|halt| halt.halt());
                    }
                    let busy = clock::thread_cpu();
                    outcome.map(|(run, read)| (PartRun { pinned, busy, ..run }, read))
                };
                let thread = Builder::new()
                    .name(format!("worker-{}", part % self.cpus.len()))
                    .spawn_scoped(scope, work);
                threads.push(thread.inspect_err(|_| halts.iter().for_each(|halt| halt.halt()))?);
            }
            let died = |_| std::io::Error::other("a thread died outside its loop");
            let ended = threads.into_iter().map(|thread| thread.join().map_err(died));
            ended.collect::<Result<Vec<_>, _>>().map_err(StartError::from)
        })
    }

    /// Reads and processes a part, from the assumed boundary unless `begin` has another.
    fn read<A, T>(
        &self,
        i: usize,
        begin: Option<Begin<C::Boundary>>,
        (table, app): (T, A),
        halt: &Arc<Halt>,
    ) -> Outcome<A, C::Read>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow>,
    {
        let clock = begin.as_ref().map_or_else(PacketClock::default, |begin| begin.clock.clone());
        let mut part = match begin {
            None => self.cut.open(i)?,
            Some(Begin { boundary, .. }) => self.cut.open_at(i, boundary)?,
        };
        let config = self.config;
        let worker = i % self.cpus.len();
        let publisher = ReaderPublisher::new(self.control, &self.gauges, worker);
        let mut reader = Reader::new(config, &mut part, None, publisher, Arc::clone(halt));
        reader.arrivals.begin_at(&clock);
        let keep = RecordOutput::Keep { records_max: config.records_max };
        let flows = Flows::new(table, config.timeouts(), keep).with_spans();
        let mut stage = InlineStage {
            reader,
            decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
            stage: FlowStage::new(app, flows),
            burst: Burst::new(),
            publisher: Publisher::new(self.control, &self.gauges, worker),
            output: None,
            // A second pass never reads the first part.
            hashes: (i > 0).then(PacketHashes::default),
        };
        if let Some(message) = repeat(|| stage.poll()) {
            stage.settle(message);
        }
        let InlineStage { reader, stage, hashes, .. } = stage;
        let Reader { arrivals, losses, interrupted, mut fault, .. } = reader;
        let counters = stage.counters();
        let FlowStage { runner, flows } = stage;
        let ended = caught(|| {
            let FlowsEnd { records, ended, spans, table, memory, .. } = flows.finish();
            (PartRecords::new(records, ended, spans), (table, memory))
        });
        let (records, table) = match ended {
            Ok((records, table)) => (Some(records), Some(table)),
            Err(message) => {
                let processed = counters.processed;
                fault.get_or_insert(Fault::WorkerPanicked { worker, packet: None, processed, message });
                (None, None)
            }
        };
        let (first_stamp, end) = (arrivals.first_stamp(), arrivals.clock());
        let input = arrivals.finish(losses);
        let run = PartRun {
            records,
            app: Some(runner.into_app()),
            input,
            hashes: hashes.unwrap_or_default(),
            first_stamp,
            begin: clock,
            end,
            counters,
            table,
            interrupted,
            fault,
            pinned: false,
            busy: None,
        };
        Ok((run, part.finish()))
    }
}

/// Returns the report of a worker that has processed nothing.
fn idle_worker() -> WorkerReport {
    WorkerReport {
        cpu: None,
        sent: 0,
        taken_over: 0,
        handed_over: 0,
        counters: WorkerCounters::default(),
        table: None,
        memory: None,
        ring_full: 0,
        full_waits: 0,
        busy: None,
    }
}

/// Composes the parts one after another.
struct Composition<'c, 'a, A: App, C: PartitionedSource> {
    context: &'c RunContext<'a, C>,
    composer: Composer<A::Flow>,
    report: ShardedReport,
    input: InputCounters,
    /// The clock after the last packet.
    clock: PacketClock,
    workers: Vec<WorkerReport>,
    /// Packets that each worker has taken.
    taken: Vec<u64>,
    reads: Vec<C::Read>,
    interrupted: bool,
    fault: Option<Fault>,
}

impl<'c, 'a, A: App, C: PartitionedSource> Composition<'c, 'a, A, C> {
    fn new(context: &'c RunContext<'a, C>) -> Self {
        Self {
            context,
            composer: Composer::new(context.config.timeouts()),
            report: ShardedReport::default(),
            input: InputCounters {
                timeline: context.config.timeline.then(Timeline::default),
                ..InputCounters::default()
            },
            clock: PacketClock::default(),
            workers: context.cpus.iter().map(|_| idle_worker()).collect(),
            taken: vec![0; context.cpus.len()],
            reads: Vec::new(),
            interrupted: false,
            fault: None,
        }
    }

    /// Reads the parts of a round again until each began in the state in which the part before
    /// ended.
    fn confirm<T, F, G>(
        &mut self,
        outcomes: &mut [Outcome<A, C::Read>],
        build: &mut Factory<F, G>,
    ) -> Result<(), StartError>
    where
        T: FlowTable<FlowKey, A::Flow> + Send,
        F: FnMut(TableFor) -> Result<T, StartError>,
        G: FnMut(usize) -> A,
    {
        let from = self.reads.len();
        loop {
            // Do not confirm parts after a stop or after a failed part.
            let is_broken = |outcome: &Outcome<A, C::Read>| {
                outcome.as_ref().map_or(true, |(run, _)| run.interrupted || run.fault.is_some())
            };
            let whole = outcomes.iter().position(is_broken).unwrap_or(outcomes.len());
            if outcomes[whole..].iter().flatten().any(|(run, _)| run.interrupted) {
                return Ok(());
            }
            let mut clock = self.clock.clone();
            let mut clocks = Vec::with_capacity(outcomes.len());
            let mut runs = Vec::new();
            for outcome in outcomes.iter_mut().take(whole + 1) {
                clocks.push(clock.clone());
                if outcome.is_err() {
                    break;
                }
                let taken = std::mem::replace(outcome, Err(SourceError("it is looked at".into())));
                let Ok((run, read)) = taken else { break };
                if run.input.packets > 0 {
                    clock = run.end.clone();
                }
                self.reads.push(read);
                runs.push(run);
            }
            let mut again = self.context.cut.unconfirmed(&self.reads);
            again.retain(|(part, _)| *part >= from);
            for (nth, run) in runs.iter().enumerate() {
                // A clock that went on from another state may have set other times.
                let is_new = !run.begin.is_begun();
                let is_right = run.begin == clocks[nth]
                    || run.first_stamp.is_none_or(|stamp| {
                        let is_usual = stamp == run.input.first_ns && clocks[nth].continues_as_new(stamp);
                        is_new && (is_usual || !clocks[nth].is_begun())
                    });
                let part = from + nth;
                if !is_right && again.iter().all(|(other, _)| *other != part) {
                    again.push((part, self.context.cut.begin(&self.reads[part])));
                }
            }
            for (outcome, both) in outcomes.iter_mut().zip(runs.into_iter().zip(self.reads.drain(from..))) {
                *outcome = Ok(both);
            }
            if again.is_empty() {
                return Ok(());
            }
            self.report.parts_reread += again.len();
            let begins = again.into_iter().map(|(part, boundary)| {
                let clock = clocks.get(part - from).cloned().unwrap_or_default();
                (part, Some(Begin { boundary, clock }))
            });
            let work = build.each(begins)?;
            let parts: Vec<usize> = work.iter().map(|(part, ..)| *part).collect();
            for (part, outcome) in parts.into_iter().zip(self.context.read_all(work)?) {
                if let Ok((run, _)) = std::mem::replace(&mut outcomes[part - from], outcome) {
                    run.discard();
                }
            }
        }
    }

    /// Returns whether later parts do not count.
    fn is_over(&self) -> bool {
        self.interrupted || self.fault.is_some() || self.left() == Some(0)
    }

    /// Returns how many packets the packet limit leaves.
    fn left(&self) -> Option<u64> {
        let yielded = self.input.packets - self.input.dropped.withheld();
        self.context.config.packet_limit.map(|limit| limit.saturating_sub(yielded))
    }

    /// Adds the next part.
    fn add<T, F, G>(
        &mut self,
        i: usize,
        outcome: Outcome<A, C::Read>,
        build: &mut Factory<F, G>,
    ) -> Result<(), StartError>
    where
        T: FlowTable<FlowKey, A::Flow> + Send,
        F: FnMut(TableFor) -> Result<T, StartError>,
        G: FnMut(usize) -> A,
    {
        let left = self.left();
        if self.fault.is_some() || left == Some(0) {
            if let Ok((run, _)) = outcome {
                run.discard();
            }
            return Ok(());
        }
        let outcome = match (outcome, left) {
            (Ok((run, read)), Some(left)) if run.yielded() > left => {
                // The packet limit lies in this part: read the part again up to the limit.
                let begin = Begin { boundary: self.context.cut.begin(&read), clock: self.clock.clone() };
                run.discard();
                let config = EngineConfig { packet_limit: Some(left), ..self.context.config.clone() };
                let gauges = Arc::clone(&self.context.gauges);
                let RunContext { cut, control, .. } = *self.context;
                let limited =
                    RunContext { config: &config, cut, control, gauges, cpus: self.context.cpus.clone() };
                limited.read(i, Some(begin), build.one(i, None)?, &Arc::default())
            }
            (outcome, _) => outcome,
        };
        let (mut run, read) = match outcome {
            Ok(both) => both,
            Err(error) => {
                self.fault = Some(Fault::Source { packets: self.input.packets, error });
                return Ok(());
            }
        };
        self.interrupted |= run.interrupted;
        let worker = i % self.workers.len();
        self.fault = run.fault.take().map(|fault| fault.in_part(self.input.packets, worker));
        if let Some(records) = run.records.take() {
            self.compose(i, records, (&mut run, &read), build)?;
        }
        if let Err(message) = caught(|| drop(run.app.take())) {
            let processed = run.counters.processed;
            let fault = Fault::WorkerPanicked { worker, packet: None, processed, message };
            self.fault.get_or_insert(fault);
        }
        if run.input.packets > 0 {
            self.clock = run.end.clone();
        }
        self.taken[worker] += run.input.packets;
        self.input.append(std::mem::take(&mut run.input));
        self.add_to_worker(worker, &run);
        let counters = &self.workers[worker].counters;
        self.context.gauges.set_before(worker, self.taken[worker], counters);
        self.reads.push(read);
        Ok(())
    }

    /// Composes the flows of a part with those of the parts before.
    fn compose<T, F, G>(
        &mut self,
        i: usize,
        records: PartRecords<A::Flow>,
        (run, read): (&mut PartRun<A>, &C::Read),
        build: &mut Factory<F, G>,
    ) -> Result<(), StartError>
    where
        T: FlowTable<FlowKey, A::Flow> + Send,
        F: FnMut(TableFor) -> Result<T, StartError>,
        G: FnMut(usize) -> A,
    {
        let is_whole = !self.interrupted && self.fault.is_none();
        let Some(app) = &mut run.app else { return Ok(()) };
        let composer = &mut self.composer;
        let joined = caught(|| composer.join(records, !is_whole, |flow, later| app.compose(flow, later)));
        let joined = match joined {
            Ok(joined) => joined,
            Err(message) => {
                self.fault.get_or_insert(Fault::ResultsPanicked { message });
                return Ok(());
            }
        };
        self.report.flows_joined += joined.flows;
        run.counters.flows_begun -= joined.flows;
        run.counters.flows_expired += joined.expired;
        if joined.unresolved.is_empty() {
            return Ok(());
        }
        self.report.flows_reprocessed += joined.unresolved.len() as u64;
        let begin = Begin { boundary: self.context.cut.begin(read), clock: self.clock.clone() };
        // Verdicts may change, and the counts with them.
        let has_counts = A::KEEPS_TOTALS || run.counters.denied > 0;
        let mut stages = Vec::new();
        let threads = self.context.threads_for(joined.unresolved.len());
        let flows = u32::try_from(joined.unresolved.len().div_ceil(threads)).ok();
        for _ in 0..threads {
            let undo = if has_counts { Some(build.one(i, flows)?) } else { None };
            stages.push((undo, build.one(i, flows)?));
        }
        let pass = SecondPass { part: i, begin, packets: run.yielded(), hashes: &run.hashes };
        let again = self.context.process_again(&pass, stages, joined.unresolved, &self.composer);
        match again {
            Ok(Ok(again)) => {
                for again in again {
                    let counters = &mut run.counters;
                    counters.flows_begun -= again.completed.len() as u64;
                    for (flow, state) in again.completed {
                        self.composer.complete(&flow, state);
                    }
                    let removed = self.composer.replace(&again.replaced, again.records);
                    counters.flows_begun = counters.flows_begun + again.counts.begun - removed.records;
                    counters.flows_expired =
                        counters.flows_expired + again.counts.expired - removed.timeouts;
                    counters.denied = counters.denied + again.denied - again.denied_before;
                }
            }
            Ok(Err(error)) => self.fault = Some(Fault::Source { packets: self.input.packets, error }),
            Err(message) => self.fault = Some(Fault::ResultsPanicked { message }),
        }
        Ok(())
    }

    /// Adds the counts of a part to its worker's report.
    fn add_to_worker(&mut self, worker: usize, run: &PartRun<A>) {
        let report = &mut self.workers[worker];
        report.counters.merge(&run.counters);
        report.sent = report.counters.done();
        report.cpu = report.cpu.or(self.context.cpus[worker].filter(|_| run.pinned));
        report.busy = report.busy.into_iter().chain(run.busy).reduce(|a, b| a + b);
        // The table of the worker's earlier part is gone.
        (report.table, report.memory) = run.table.unzip();
    }

    fn finish(self, elapsed: Duration) -> ShardedRun<A::Flow, C::Read> {
        let Self { composer, report, input, mut workers, reads, interrupted, mut fault, .. } = self;
        let report = ShardedReport { parts: reads.len(), ..report };
        let last_ns = input.last_ns;
        let (flows, timed_out_at_end) = caught(|| composer.finish(last_ns)).unwrap_or_else(|message| {
            fault.get_or_insert(Fault::ResultsPanicked { message });
            (FlowResults::new(Vec::new()), 0)
        });
        if let Some(last) = workers.last_mut() {
            last.counters.flows_expired += timed_out_at_end;
        }
        let report = RunReport {
            input,
            workers,
            unplaced: 0,
            pool_full_waits: 0,
            shared: None,
            sharded: Some(report),
            sink: None,
            input_cpu: None,
            input_busy: None,
            elapsed,
            flows,
            timed_out_at_end,
            records: None,
            interrupted,
            fault,
        };
        ShardedRun { report, reads }
    }
}

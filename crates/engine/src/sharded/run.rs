//! Runs the workers of the sharded layout, confirms the cuts, and composes the results.

use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{FlowTable, MemoryReport, TableStats};
use flowloom_packet::SourceError;

use crate::app::{App, PartSupport};
use crate::config::EngineConfig;
use crate::control::{Control, Gauges, Publisher, ReaderPublisher};
use crate::error::{ConfigError, Fault, StartError};
use crate::ingest::decode::Decoder;
use crate::ingest::pace::Pace;
use crate::ingest::reader::{Next, Reader};
use crate::report::counters::{InputCounters, WorkerCounters};
use crate::report::results::FlowResults;
use crate::report::{RunReport, ShardedReport, WorkerReport};
use crate::runtime::assemble::caught;
use crate::runtime::clock;
use crate::runtime::pin::{pin, plan};
use crate::runtime::shutdown::Halt;
use crate::runtime::threads::repeat;
use crate::sharded::compose::{Composer, PartRecords, Unresolved};
use crate::sharded::parts::{CutSource, PartSource};
use crate::worker::flows::{FlowCounts, Flows, FlowsEnd};
use crate::worker::inline::InlineStage;
use crate::worker::process::{Burst, FlowStage};

/// What a sharded run leaves.
#[derive(Debug)]
#[must_use = "what went wrong after the start is in the report's `fault`"]
#[non_exhaustive]
pub struct ShardedRun<F, P> {
    /// The report, as of a run over the whole input.
    pub report: RunReport<F>,
    /// The parts that count, in order, as far as they were read.
    pub parts: Vec<P>,
}

/// A part that was read and processed.
struct PartRun<A: App, P> {
    part: P,
    /// `None` after a panic while they were taken from the table.
    records: Option<PartRecords<A::Flow>>,
    /// `None` once it is dropped.
    app: Option<A>,
    input: InputCounters,
    /// The time of its first packet as the source has it.
    first_ns: Option<u64>,
    counters: WorkerCounters,
    table: Option<(TableStats, MemoryReport)>,
    interrupted: bool,
    fault: Option<Fault>,
    pinned: bool,
    busy: Option<Duration>,
}

/// What every part of a run has in common.
struct Common<'a, C> {
    config: &'a EngineConfig,
    cut: &'a C,
    control: &'a Control,
    gauges: Arc<Gauges>,
}

/// Runs each part of `cut` on a worker of its own, and composes what they know: the report is that of one thread over
/// the whole input.
///
/// `config` is one for [as many workers](crate::Layout::workers) as there are parts; `table` builds the flow table and
/// `app` the application of each, and further ones where a part is read again. Each worker keeps at most
/// [`records_max`](EngineConfig::records_max) records, and its table's limits count for it alone: only where one of
/// these is reached may the results differ from those of another layout.
///
/// A run that is stopped composes what each worker has seen until then.
///
/// # Errors
///
/// [`StartError`] when the run could not begin: also where the application needs all packets in one sequence, or a pace
/// is asked for.
///
/// # Panics
///
/// Where `table` or `app` panics.
pub fn run_sharded<A, T, E, C>(
    config: &EngineConfig,
    cut: &C,
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    control: &Control,
) -> Result<ShardedRun<A::Flow, C::Part>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow> + Send,
    E: std::error::Error + Send + Sync + 'static,
    C: CutSource,
{
    config.check()?;
    if let PartSupport::Never(why) = A::PARTS {
        return Err(ConfigError::Sharded { why }.into());
    }
    if config.pace != Pace::Max {
        return Err(ConfigError::Sharded { why: "a pace is kept by one reader" }.into());
    }
    let parts = cut.parts();
    let pinning =
        plan(&EngineConfig { layout: crate::Layout::Sharded { workers: parts }, ..config.clone() })?;
    let mut table = |i| table(i).map_err(|error| StartError::Table(Box::new(error)));
    let tables = (0..parts).map(&mut table).collect::<Result<Vec<T>, _>>()?;
    let apps: Vec<A> = (0..parts).map(&mut app).collect();
    let common = Common { config, cut, control, gauges: control.begin(parts, parts) };
    let halts: Vec<Arc<Halt>> = (0..parts).map(|_| Arc::default()).collect();
    let begun = clock::now();
    let runs = std::thread::scope(|scope| {
        let (common, halts) = (&common, &halts);
        let mut threads = Vec::with_capacity(parts);
        for (i, (table, app)) in tables.into_iter().zip(apps).enumerate() {
            let cpu = pinning.workers.get(i).copied().flatten();
            let work = move || {
                let pinned = pin(cpu);
                let run = common.read(i, None, (table, app), &halts[i]);
                if run.as_ref().is_err() || run.as_ref().is_ok_and(|run| run.fault.is_some()) {
                    // What follows a part that broke does not count.
                    halts[i + 1..].iter().for_each(|halt| halt.halt());
                }
                run.map(|run| PartRun { pinned, busy: clock::thread_cpu(), ..run })
            };
            let thread = Builder::new().name(format!("worker-{i}")).spawn_scoped(scope, work);
            threads.push(thread.inspect_err(|_| halts.iter().for_each(|halt| halt.halt()))?);
        }
        let died = |_| std::io::Error::other("a thread died outside its loop");
        let ended = threads.into_iter().map(|thread| thread.join().map_err(died));
        ended.collect::<Result<Vec<_>, _>>().map_err(StartError::from)
    })?;
    let mut assembly = Assembly::new(&common, pinning.workers);
    for (i, run) in runs.into_iter().enumerate() {
        assembly.add(i, run, (&mut table, &mut app))?;
    }
    let run = assembly.finish(begun.elapsed());
    control.end(&run.report);
    Ok(run)
}

/// The state of the input before a part, where it is not the assumed one.
struct Begin<B> {
    boundary: B,
    /// The latest time before it.
    last_ns: u64,
    /// Packets that may still be taken.
    packets_left: Option<u64>,
}

impl<C: CutSource> Common<'_, C> {
    /// Reads and processes a part, from the assumed boundary unless another is given.
    fn read<A, T>(
        &self,
        i: usize,
        begin: Option<&Begin<C::Boundary>>,
        (table, app): (T, A),
        halt: &Arc<Halt>,
    ) -> Result<PartRun<A, C::Part>, SourceError>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow>,
    {
        let mut part = match begin {
            None => self.cut.open(i)?,
            Some(begin) => self.cut.open_at(i, &begin.boundary)?,
        };
        let limit = begin.map_or(self.config.packet_limit, |begin| begin.packets_left);
        let config = EngineConfig { packet_limit: limit, ..self.config.clone() };
        let mut front = self.reader(&config, i, &mut part, halt);
        if let Some(begin) = begin {
            front.arrivals.begin_at(begin.last_ns);
        }
        let flows = Flows::new(table, config.idle_timeout, config.records_max).with_spans();
        let mut stage = InlineStage {
            front,
            decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
            stage: FlowStage::new(app, flows),
            burst: Burst::new(),
            publisher: Publisher::new(self.control, &self.gauges, i),
            outlet: None,
        };
        if let Some(message) = repeat(|| stage.poll()) {
            stage.settle(message);
        }
        let InlineStage { front, stage, .. } = stage;
        let Reader { arrivals, losses, interrupted, mut fault, .. } = front;
        let counters = stage.counters();
        let FlowStage { hands, flows } = stage;
        let ended = caught(|| {
            let FlowsEnd { records, ended, spans, table, memory, .. } = flows.finish();
            (PartRecords::new(records, ended, spans), (table, memory))
        });
        let (records, table) = match ended {
            Ok((records, table)) => (Some(records), Some(table)),
            Err(message) => {
                let processed = counters.processed;
                fault.get_or_insert(Fault::WorkerPanicked { worker: i, packet: None, processed, message });
                (None, None)
            }
        };
        let first_ns = arrivals.first_ns();
        let input = arrivals.finish(losses);
        let app = Some(hands.into_app());
        Ok(PartRun {
            part,
            records,
            app,
            input,
            first_ns,
            counters,
            table,
            interrupted,
            fault,
            pinned: false,
            busy: None,
        })
    }

    fn reader<'s>(
        &'s self,
        config: &EngineConfig,
        i: usize,
        part: &'s mut C::Part,
        halt: &Arc<Halt>,
    ) -> Reader<'s> {
        let publisher = ReaderPublisher::new(self.control, &self.gauges, i);
        Reader::new(config, part, None, publisher, Arc::clone(halt))
    }

    /// Processes the packets of some flows of a part again, from the states they had before it.
    fn process_again<A, T>(
        &self,
        i: usize,
        begin: &Begin<C::Boundary>,
        packets: u64,
        (undo, (table, app)): (Option<(T, A)>, (T, A)),
        unresolved: Vec<Unresolved<A::Flow>>,
    ) -> Result<Again<A::Flow>, SourceError>
    where
        A: App,
        T: FlowTable<FlowKey, A::Flow>,
    {
        let mut part = self.cut.open_at(i, &begin.boundary)?;
        let halt = Arc::default();
        // Packets that the source withholds do not count against the limit here either.
        let config = EngineConfig { packet_limit: Some(packets), ..self.config.clone() };
        let again = Control::default();
        let publisher = ReaderPublisher::new(&again, &again.begin(1, 1), 0);
        let mut reader = Reader::new(&config, &mut part, None, publisher, halt);
        reader.arrivals.begin_at(begin.last_ns);
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        let mut flows = Flows::new(table, config.idle_timeout, config.records_max).with_spans();
        let mut wanted = Wanted::new(unresolved.len());
        for Unresolved { key, span, state } in unresolved {
            let hash = config.hasher.hash(&key).table;
            wanted.add(hash, key);
            if !flows.resume((key, hash), span, state) {
                return Err(SourceError(
                    "the flow table has no room for flows that are processed again".into(),
                ));
            }
        }
        let mut stage = FlowStage::new(app, flows);
        // Sees the same packets as in the first pass, without the states, to take back what was counted there.
        let mut undo = undo.map(|(table, app)| {
            FlowStage::new(app, Flows::new(table, config.idle_timeout, config.records_max))
        });
        let (mut burst, mut undo_burst) = (Burst::new(), Burst::new());
        loop {
            let (first, range) = match reader.next() {
                Next::Packets { first, range } => (first, range),
                Next::Not(_) => continue,
                Next::Over => break,
            };
            let batch = &reader.batch;
            let Some(block) = &batch.block else { continue };
            let block = block.bytes();
            let mut ahead = batch.lookahead();
            for (number, raw) in (first..).zip(&batch.packets[range]) {
                ahead.request(block);
                // Packets without a key were counted the first time.
                let _ = decoder.admit((number, raw), block, batch.pass, |headers, hash, place| {
                    if wanted.has(hash.table, &headers.key) {
                        burst.push(hash.table, headers, place);
                        if undo.is_some() {
                            undo_burst.push(hash.table, headers, place);
                        }
                    }
                });
            }
            if !burst.is_empty() {
                stage.run(block, &mut burst, &mut |_, _, _| {});
                if let Some(undo) = &mut undo {
                    undo.run(block, &mut undo_burst, &mut |_, _, _| {});
                }
            }
        }
        let mut denied_before = 0;
        if let Some(FlowStage { hands, .. }) = undo {
            denied_before = hands.counters.denied;
            hands.into_app().cancel();
        }
        if let Some(Fault::Source { error, .. }) = reader.fault.take() {
            return Err(error);
        }
        let (counts, denied) = (stage.flows.counts(), stage.hands.counters.denied);
        let FlowsEnd { records, ended, spans, .. } = stage.finish();
        let records = PartRecords::new(records, ended, spans);
        Ok(Again { records, counts, denied, denied_before })
    }
}

/// What came of processing flows of a part again.
struct Again<F> {
    records: PartRecords<F>,
    counts: FlowCounts,
    /// Packets of these flows that were denied.
    denied: u64,
    /// Packets of these flows that were denied the first time.
    denied_before: u64,
}

/// Flows that are processed again: a bit for each hash that may be theirs, and their keys.
struct Wanted {
    bits: Vec<u64>,
    keys: Vec<(u64, FlowKey)>,
    is_sorted: bool,
}

impl Wanted {
    fn new(flows: usize) -> Self {
        let words = (flows / 4).next_power_of_two().clamp(64, 1 << 20);
        Self { bits: vec![0; words], keys: Vec::with_capacity(flows), is_sorted: false }
    }

    fn bit(&self, hash: u64) -> (usize, u64) {
        let at = (hash >> 6) as usize & (self.bits.len() - 1);
        (at, 1 << (hash & 63))
    }

    fn add(&mut self, hash: u64, key: FlowKey) {
        let (at, bit) = self.bit(hash);
        self.bits[at] |= bit;
        self.keys.push((hash, key));
        self.is_sorted = false;
    }

    #[inline]
    fn has(&mut self, hash: u64, key: &FlowKey) -> bool {
        let (at, bit) = self.bit(hash);
        self.bits[at] & bit != 0 && self.has_key(hash, key)
    }

    #[cold]
    fn has_key(&mut self, hash: u64, key: &FlowKey) -> bool {
        if !self.is_sorted {
            self.keys.sort_unstable();
            self.is_sorted = true;
        }
        self.keys.binary_search(&(hash, *key)).is_ok()
    }
}

/// Parts that are confirmed and composed, one after the other.
struct Assembly<'c, 'a, A: App, C: CutSource> {
    common: &'c Common<'a, C>,
    cpus: Vec<Option<u32>>,
    composer: Composer<A::Flow>,
    report: ShardedReport,
    input: InputCounters,
    workers: Vec<WorkerReport>,
    parts: Vec<C::Part>,
    /// Where the next part begins; `None` before the first.
    boundary: Option<C::Boundary>,
    interrupted: bool,
    fault: Option<Fault>,
}

impl<'c, 'a, A: App, C: CutSource> Assembly<'c, 'a, A, C> {
    fn new(common: &'c Common<'a, C>, cpus: Vec<Option<u32>>) -> Self {
        Self {
            common,
            cpus,
            composer: Composer::new(common.config.idle_timeout),
            report: ShardedReport::default(),
            input: InputCounters::default(),
            workers: Vec::new(),
            parts: Vec::new(),
            boundary: None,
            interrupted: false,
            fault: None,
        }
    }

    /// Returns the packets that the limit leaves.
    fn packets_left(&self) -> Option<u64> {
        // What a source withholds does not count.
        let yielded = self.input.packets - self.input.dropped.withheld();
        self.common.config.packet_limit.map(|limit| limit.saturating_sub(yielded))
    }

    /// Adds the next part: reads it again where it was not read from the true state.
    fn add<T>(
        &mut self,
        i: usize,
        run: Result<PartRun<A, C::Part>, SourceError>,
        (table, app): (&mut impl FnMut(usize) -> Result<T, StartError>, &mut impl FnMut(usize) -> A),
    ) -> Result<(), StartError>
    where
        T: FlowTable<FlowKey, A::Flow>,
    {
        let left = self.packets_left();
        if self.fault.is_some() || (left == Some(0) && !self.parts.is_empty()) {
            discard(run.ok());
            self.workers.push(self.worker(i, None));
            return Ok(());
        }
        let mut run = match run {
            Ok(run) => run,
            Err(error) => {
                self.fault = Some(Fault::Source { packets: self.input.packets, error });
                self.workers.push(self.worker(i, None));
                return Ok(());
            }
        };
        let begin = self.boundary.take().map(|boundary| Begin {
            boundary,
            last_ns: self.input.last_ns,
            packets_left: left,
        });
        if let Some(begin) = &begin
            && !self.interrupted
            && !run.interrupted
        {
            let taken = run.input.packets - run.input.dropped.withheld();
            let is_confirmed = run.part.begin() == begin.boundary
                && run.first_ns.is_none_or(|first_ns| first_ns >= begin.last_ns)
                && left.is_none_or(|left| taken <= left);
            if !is_confirmed {
                let (pinned, busy) = (run.pinned, run.busy);
                discard(Some(run));
                self.report.parts_reread += 1;
                match self.common.read(i, Some(begin), (table(i)?, app(i)), &Arc::default()) {
                    Ok(again) => run = PartRun { pinned, busy, ..again },
                    Err(error) => {
                        self.fault = Some(Fault::Source { packets: self.input.packets, error });
                        self.workers.push(self.worker(i, None));
                        return Ok(());
                    }
                }
            }
        }
        self.interrupted |= run.interrupted;
        self.fault = run.fault.take().map(|fault| fault.in_part(self.input.packets, i));
        let is_whole = !self.interrupted && self.fault.is_none();
        if let Some(records) = run.records.take() {
            let mut composer_app = run.app.take().unwrap_or_else(|| app(i));
            let joined = caught(|| {
                self.composer
                    .join(records, !is_whole, |earlier, later| composer_app.compose(earlier, later))
            });
            match joined {
                Ok(joined) => {
                    self.report.flows_joined += joined.flows;
                    run.counters.flows_begun -= joined.flows;
                    run.counters.flows_expired += joined.expired;
                    run.counters.flows_begun -= joined.records_removed;
                    run.counters.flows_expired -= joined.timeouts_removed;
                    if let (false, Some(begin)) = (joined.unresolved.is_empty(), &begin) {
                        self.resolve(i, begin, &mut run, joined.unresolved, (table, app))?;
                    }
                }
                Err(message) => self.fault = Some(Fault::ResultsPanicked { message }),
            }
            run.app = Some(composer_app);
        }
        if let Err(message) = caught(|| drop(run.app.take())) {
            let processed = run.counters.processed;
            let fault = Fault::WorkerPanicked { worker: i, packet: None, processed, message };
            self.fault.get_or_insert(fault);
        }
        self.boundary = Some(run.part.end());
        self.input.append(std::mem::take(&mut run.input));
        self.workers.push(self.worker(i, Some(&mut run)));
        self.parts.push(run.part);
        Ok(())
    }

    /// Processes flows of part `i` again, from the states they had at its beginning.
    fn resolve<T>(
        &mut self,
        i: usize,
        begin: &Begin<C::Boundary>,
        run: &mut PartRun<A, C::Part>,
        unresolved: Vec<Unresolved<A::Flow>>,
        (table, app): (&mut impl FnMut(usize) -> Result<T, StartError>, &mut impl FnMut(usize) -> A),
    ) -> Result<(), StartError>
    where
        T: FlowTable<FlowKey, A::Flow>,
    {
        let flows = unresolved.len() as u64;
        self.report.flows_reprocessed += flows;
        let packets = run.input.packets - run.input.dropped.withheld();
        // Verdicts may change, and with them what was counted.
        let has_counts = A::KEEPS_TOTALS || run.counters.denied > 0;
        let undo = if has_counts { Some((table(i)?, app(i))) } else { None };
        let redo = (table(i)?, app(i));
        let again = caught(|| self.common.process_again(i, begin, packets, (undo, redo), unresolved));
        match again {
            Ok(Ok(again)) => {
                self.composer.replace(again.records);
                run.counters.flows_begun += again.counts.begun;
                run.counters.flows_expired += again.counts.expired;
                run.counters.denied = run.counters.denied + again.denied - again.denied_before;
            }
            Ok(Err(error)) => self.fault = Some(Fault::Source { packets: self.input.packets, error }),
            Err(message) => self.fault = Some(Fault::ResultsPanicked { message }),
        }
        Ok(())
    }

    fn worker(&self, i: usize, run: Option<&mut PartRun<A, C::Part>>) -> WorkerReport {
        let cpu = self.cpus.get(i).copied().flatten();
        let (counters, table, pinned, busy) = match run {
            Some(run) => (std::mem::take(&mut run.counters), run.table, run.pinned, run.busy),
            None => (WorkerCounters::default(), None, false, None),
        };
        WorkerReport {
            cpu: cpu.filter(|_| pinned),
            sent: counters.done(),
            taken_over: 0,
            handed_over: 0,
            counters,
            table: table.map(|(table, _)| table),
            memory: table.map(|(_, memory)| memory),
            ring_full: 0,
            full_waits: 0,
            busy,
        }
    }

    fn finish(self, elapsed: Duration) -> ShardedRun<A::Flow, C::Part> {
        let Self { composer, mut report, input, workers, parts, interrupted, mut fault, .. } = self;
        report.parts = parts.len();
        let flows = caught(|| composer.finish()).unwrap_or_else(|message| {
            fault.get_or_insert(Fault::ResultsPanicked { message });
            FlowResults::new(Vec::new())
        });
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
            interrupted,
            fault,
        };
        ShardedRun { report, parts }
    }
}

/// Drops a part whose packets do not count, or are read again.
fn discard<A: App, P>(run: Option<PartRun<A, P>>) {
    let Some(mut run) = run else { return };
    // A panic here is of an application whose counts are taken back.
    let _ = caught(|| {
        if let Some(mut app) = run.app.take() {
            app.retract();
        }
    });
}

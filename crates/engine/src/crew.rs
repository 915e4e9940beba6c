//! Everything that a run is made of, built before anything starts, and the report when all of it has ended. What happens
//! in between is a matter of threads or of a schedule, see [`crate::run`] and [`crate::seeded`].

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{FlowTable, MemoryReport, TableStats};
use flowloom_packet::{DropReason, PacketSource};
use flowloom_scheduler::{OrderGuarantee, WorkerId};

use crate::app::App;
use crate::config::{EngineConfig, Order, WhenFull};
use crate::control::{Control, Publisher};
use crate::counters::WorkerCounters;
use crate::discipline::Discipline;
use crate::dispatch::{PushIntake, PushOptions};
use crate::drive::Front;
use crate::egress::{self, DoneWith, Egress, Ends, PacketSink, SinkCounters};
use crate::error::{ConfigError, Fault, SinkError, StartError};
use crate::flows::{Flows, FlowsEnd};
use crate::halt::Halt;
use crate::handing_out::{Full, HandingOut, Intake};
use crate::inline::{InlineStage, Outlet};
use crate::input::Decoder;
use crate::pin::Pinning;
use crate::pool::{Pool, PullIntake};
use crate::report::{RunReport, SharedReport, WorkerReport};
use crate::results::{FlowRecord, FlowResults};
use crate::ring::connect;
use crate::shared::SharedFlows;
use crate::stage::{Burst, FlowStage};
use crate::tray::Stock;
use crate::turns_at_input::{InputEnd, TurnsAtInput};
use crate::worker::private::PrivateWorker;
use crate::worker::pull::PullWorker;
use crate::worker::shared::{Clerk, SharedWorker};
use crate::worker::{Desk, Worker, WorkerCounted, WorkerEnd};

/// What a run is given beside its parameters, its tables and its applications.
pub struct Parts<'a> {
    /// Where packets come from.
    pub source: &'a mut (dyn PacketSource + Send),
    /// Which worker has a packet; not asked in inline mode.
    pub discipline: Discipline<'a>,
    /// Where accepted packets go, if anywhere.
    pub sink: Option<&'a mut (dyn PacketSink + Send)>,
    /// The line to whoever watches.
    pub control: &'a Control,
}

impl std::fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("discipline", &self.discipline).finish_non_exhaustive()
    }
}

/// A thread's worth of work that has ended.
#[derive(Debug)]
pub(crate) struct Ended<R> {
    pub(crate) result: R,
    /// The message of a panic.
    pub(crate) panic: Option<String>,
    /// The packet in hand at that moment.
    pub(crate) at: Option<u64>,
    pub(crate) pinned: bool,
    /// Processor time of its thread, until it was done.
    pub(crate) cpu: Option<Duration>,
}

/// What the egress stage leaves.
#[derive(Debug)]
pub(crate) struct EgressEnd {
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
}

/// The stages of pipeline mode.
pub(crate) struct Crew<'a, A: App, T> {
    pub(crate) input: TurnsAtInput<'a>,
    pub(crate) workers: Vec<Box<dyn Worker<A::Flow> + 'a>>,
    pub(crate) egress: Option<Egress<'a>>,
    pub(crate) shared: Option<Arc<SharedFlows<A::Flow, T>>>,
}

/// Builds the tables that a run needs.
fn build<T, E>(count: usize, table: &mut impl FnMut(usize) -> Result<T, E>) -> Result<Vec<T>, StartError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    (0..count).map(|i| table(i).map_err(|error| StartError::Table(Box::new(error)))).collect()
}

/// Builds the stages of inline mode.
pub(crate) fn inline<'a, A, T, E>(
    config: &EngineConfig,
    parts: Parts<'a>,
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    halt: &Arc<Halt>,
) -> Result<InlineStage<'a, A, T>, StartError>
where
    A: App,
    T: FlowTable<FlowKey, A::Flow>,
    E: std::error::Error + Send + Sync + 'static,
{
    let table = table(0).map_err(|error| StartError::Table(Box::new(error)))?;
    let flows = Flows::new(table, config.idle_timeout, config.records_max);
    let gauges = parts.control.begin(1);
    let outlet = parts.sink.map(|sink| Outlet {
        sink,
        halt: Arc::clone(halt),
        counters: SinkCounters::default(),
        failed: None,
        is_held: false,
        is_asked: false,
    });
    Ok(InlineStage {
        front: Front::new(config, parts.source, None, parts.control, Arc::clone(halt)),
        decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
        stage: FlowStage::new(app(0), flows),
        burst: Burst::new(),
        publisher: Publisher::new(parts.control, &gauges, 0),
        outlet,
    })
}

/// Builds the stages of pipeline mode.
pub(crate) fn pipeline<'a, A, T, E>(
    config: &EngineConfig,
    parts: Parts<'a>,
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    halt: &Arc<Halt>,
) -> Result<Crew<'a, A, T>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'a,
    E: std::error::Error + Send + Sync + 'static,
{
    let Parts { source, discipline, sink, control } = parts;
    let guarantee = discipline.order();
    if config.order == Order::Internal && !guarantee.keeps_flow_order() {
        return Err(ConfigError::NoOrder { policy: discipline.name() }.into());
    }
    let workers = config.mode.workers();
    if let Some(made_for) = discipline.workers().filter(|&made_for| made_for != workers) {
        return Err(ConfigError::PolicyWorkers { policy: discipline.name(), made_for, workers }.into());
    }
    let is_shared = guarantee != OrderGuarantee::Home || matches!(discipline, Discipline::Pull(_));
    let by_turns = config.is_by_turns(guarantee);
    let exact = config.order == Order::External || (config.order == Order::Internal && is_shared);

    let count = if is_shared { crate::shared::shards(workers, by_turns) } else { workers };
    let mut tables = build(count, &mut table)?;
    let gauges = control.begin(workers);
    let (egress, window, given_out, mut ends) = match sink {
        Some(sink) => {
            let (egress, Ends { window, given_out, workers }) = egress::connect(sink, workers, exact, halt);
            (Some(egress), Some(window), Some(given_out), workers.into_iter().map(Some).collect())
        }
        None => (None, None, None, Vec::new()),
    };
    ends.resize_with(workers, || None);
    let mut desks = ends.into_iter().enumerate().map(|(i, done_with): (usize, Option<DoneWith>)| Desk {
        publisher: Publisher::new(control, &gauges, i),
        done_with,
    });
    let shared = is_shared.then(|| {
        let tables = std::mem::take(&mut tables);
        Arc::new(SharedFlows::new(tables, config.idle_timeout, config.records_max))
    });
    let drop_when_full = config.when_full == WhenFull::Drop;

    let mut crew: Vec<Box<dyn Worker<A::Flow> + 'a>> = Vec::with_capacity(workers);
    let stock = Stock::default();
    let intake: Box<dyn Intake + 'a> = match discipline {
        Discipline::Pull(policy) => {
            let done_up_to = shared.as_ref().map(|shared| shared.done_up_to()).unwrap_or_default();
            let pool = Arc::new(Pool::new(policy, config.ring_slots, workers, done_up_to));
            if let Some(shared) = &shared {
                for (i, desk) in (0..workers as u16).zip(desks.by_ref()) {
                    let clerk = Clerk::new(app(usize::from(i)), Arc::clone(shared), desk);
                    let me = WorkerId::from(i);
                    crew.push(Box::new(PullWorker::new(Arc::clone(&pool), me, clerk, Arc::clone(halt))));
                }
            }
            Box::new(PullIntake::new(pool, drop_when_full, given_out, Arc::clone(&gauges)))
        }
        Discipline::Push(policy) => {
            let mut outboxes = Vec::with_capacity(workers);
            let mut tables = tables.into_iter();
            for (i, desk) in desks.by_ref().enumerate() {
                let (outbox, inbox) = connect(config.ring_slots);
                outboxes.push(outbox);
                match (&shared, tables.next()) {
                    (Some(shared), _) => {
                        let clerk = Clerk::new(app(i), Arc::clone(shared), desk);
                        crew.push(Box::new(SharedWorker::new(inbox, clerk, by_turns, Arc::clone(halt))));
                    }
                    (None, Some(table)) => {
                        let flows = Flows::new(table, config.idle_timeout, config.records_max);
                        let stage = FlowStage::new(app(i), flows);
                        crew.push(Box::new(PrivateWorker::new(inbox, stage, desk)));
                    }
                    (None, None) => unreachable!("one table was built for each worker"),
                }
            }
            let options = PushOptions {
                drop_when_full,
                slots: config.ring_slots,
                shards: if by_turns { count } else { 0 },
                given_out,
                stock: stock.clone(),
                done_up_to: shared.as_ref().map(|shared| shared.done_up_to()),
                gauges: Arc::clone(&gauges),
            };
            Box::new(PushIntake::new(outboxes, policy, options))
        }
    };
    let front = Front::new(config, source, window, control, Arc::clone(halt));
    let handing_out = HandingOut::new(intake, control);
    let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
    // One for each worker, one for a thread of its own, and one for whoever ends the run.
    let input = TurnsAtInput::new(front, handing_out, decoder, &stock, workers + 2);
    Ok(Crew { input, workers: crew, egress, shared })
}

/// Ends a worker; after a panic the others are told. What it counted is known also where its application panics when it is dropped.
pub(crate) fn end_worker<F>(
    worker: Box<dyn Worker<F> + '_>,
    panic: Option<String>,
    halt: &Halt,
) -> Ended<WorkerEnd<F>> {
    if panic.is_some() {
        halt.halt();
    }
    let (at, counted) = (worker.at(), worker.counted());
    let (flows, panic) = match caught(|| worker.end(panic.is_some())) {
        Ok(flows) => (flows, panic),
        // Whoever has come so far holds up nobody.
        Err(message) => (None, panic.or(Some(message))),
    };
    Ended { result: WorkerEnd { counted, flows }, panic, at, pinned: false, cpu: None }
}

/// Ends the egress stage; after a panic of the sink the others are told.
pub(crate) fn end_egress(egress: Egress<'_>, panic: Option<String>, halt: &Halt) -> Ended<EgressEnd> {
    if panic.is_some() {
        halt.halt();
    }
    let Egress { counters, failed, .. } = egress;
    Ended { result: EgressEnd { counters, failed }, panic, at: None, pinned: false, cpu: None }
}

/// Returns the report of an inline run.
pub(crate) fn inline_report<A: App, T: FlowTable<FlowKey, A::Flow>>(
    ended: Ended<InlineStage<'_, A, T>>,
    cpu: Option<u32>,
    elapsed: Duration,
) -> RunReport<A::Flow> {
    let InlineStage { front, stage, outlet, .. } = ended.result;
    let Front { arrivals, losses, interrupted, mut fault, .. } = front;
    let counters = stage.counters();
    let (table, memory, records) = match caught(|| stage.finish()) {
        Ok(FlowsEnd { records, table, memory, .. }) => (Some(table), Some(memory), records),
        Err(message) => {
            let processed = counters.processed;
            fault.get_or_insert(Fault::WorkerPanicked { worker: 0, packet: None, processed, message });
            (None, None, Vec::new())
        }
    };
    let flows = caught(|| FlowResults::new(records));
    let worker = WorkerReport {
        cpu: cpu.filter(|_| ended.pinned),
        sent: counters.done(),
        counters,
        table,
        memory,
        ring_full: 0,
        full_waits: 0,
        busy: ended.cpu,
    };
    let (sink, failed) = outlet.map_or((None, None), |outlet| (Some(outlet.counters), outlet.failed));
    fault = fault.or(failed.map(|error| Fault::Sink { error }));
    let flows = flows.unwrap_or_else(|message| {
        fault.get_or_insert(Fault::ResultsPanicked { message });
        FlowResults::new(Vec::new())
    });
    RunReport {
        input: arrivals.finish(losses),
        workers: vec![worker],
        unplaced: 0,
        pool_full_waits: 0,
        shared: None,
        sink,
        input_cpu: cpu.filter(|_| ended.pinned),
        input_by_workers: false,
        input_busy: ended.cpu,
        elapsed,
        flows,
        interrupted,
        fault,
    }
}

/// Everything of a pipeline that has ended.
pub(crate) struct Finished<'a, A: App, T> {
    pub(crate) input: Ended<TurnsAtInput<'a>>,
    pub(crate) workers: Vec<Ended<WorkerEnd<A::Flow>>>,
    pub(crate) egress: Option<Ended<EgressEnd>>,
    pub(crate) shared: Option<Arc<SharedFlows<A::Flow, T>>>,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> Finished<'_, A, T> {
    /// Returns the report.
    pub(crate) fn report(self, pinning: &Pinning, elapsed: Duration) -> RunReport<A::Flow> {
        let Self { input, workers, egress, shared } = self;
        let (end, handed) = input.result.finish();
        let InputEnd { counters: input_counters, interrupted, mut fault } = end;
        let mut reports = Vec::with_capacity(workers.len());
        let mut records: Vec<FlowRecord<A::Flow>> = Vec::new();
        let mut unsold = 0;
        for (i, ended) in workers.into_iter().enumerate() {
            let WorkerEnd { counted: WorkerCounted { mut counters, fetched, refused }, flows } =
                ended.result;
            unsold += refused;
            let sent = handed.sent.get(i).copied().unwrap_or(fetched);
            // In its ring, or in its hands.
            let lost = sent - counters.done();
            counters.dropped.add(DropReason::WorkerLost, lost);
            if let Some(message) = ended.panic {
                let packet = ended.at.map(|number| number_near(number, input_counters.packets) + 1);
                let processed = counters.processed;
                // One that had a packet in hand says more than one that only was to end.
                if packet.is_some() || !matches!(fault, Some(Fault::WorkerPanicked { .. })) {
                    fault = Some(Fault::WorkerPanicked { worker: i, packet, processed, message });
                }
            }
            let (mut table, mut memory) = (None, None);
            if let Some(flows) = flows {
                (table, memory) = (Some(flows.table), Some(flows.memory));
                append(&mut records, flows.records);
            }
            let Full { refused: ring_full, waits: full_waits } =
                handed.rings.get(i).copied().unwrap_or_default();
            reports.push(WorkerReport {
                cpu: pinning.workers.get(i).copied().flatten().filter(|_| ended.pinned),
                sent,
                counters,
                table,
                memory,
                ring_full,
                full_waits,
                busy: ended.cpu,
            });
        }
        let results = caught(|| {
            let shared = shared.and_then(Arc::into_inner).map(|flows| shared_report(flows, &mut records));
            (shared, FlowResults::new(records))
        });
        let sink = egress.map(|ended| {
            let EgressEnd { mut counters, failed } = ended.result;
            counters.refused += unsold;
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
            unplaced: handed.nobodys.refused,
            pool_full_waits: handed.nobodys.waits,
            shared,
            sink,
            input_cpu: pinning.input.filter(|_| input.pinned),
            input_by_workers: pinning.input_by_workers,
            input_busy: input.cpu,
            elapsed,
            flows,
            interrupted,
            fault,
        }
    }
}

/// Returns what all shards leave, added up; their records go to `records`.
fn shared_report<F, T>(flows: SharedFlows<F, T>, records: &mut Vec<FlowRecord<F>>) -> SharedReport
where
    F: crate::app::FlowState,
    T: FlowTable<FlowKey, F>,
{
    let mut sum: Option<(TableStats, MemoryReport)> = None;
    let mut counters = WorkerCounters::default();
    let mut shards = 0;
    for end in flows.finish() {
        shards += 1;
        counters.add_flows(end.counts);
        sum = Some(sum.map_or((end.table, end.memory), |(table, memory)| {
            (table.and(end.table), memory.and(end.memory))
        }));
        append(records, end.records);
    }
    let (table, memory) = sum.unwrap_or_default();
    SharedReport { shards, table, memory, counters }
}

fn append<R>(all: &mut Vec<R>, mut more: Vec<R>) {
    if all.is_empty() {
        *all = more;
    } else {
        all.append(&mut more);
    }
}

/// Returns a packet's number from its lower bits: the latest that the source has yielded.
fn number_near(low: u64, packets: u64) -> u64 {
    let last = packets.saturating_sub(1);
    last.wrapping_sub(last.wrapping_sub(low) & crate::descriptor::Descriptor::NUMBERS)
}

/// Does what runs code of others, and returns what a panic in it said.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // Unwind safety: after a panic nothing is read but counters, which are whole at any moment.
    catch_unwind(AssertUnwindSafe(work)).map_err(panic_message)
}

/// Returns what a panic said.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| String::from(*text))
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("no message"));
    // What it carries may panic when it is dropped, and so may what that carries: then it is left.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(another)))
    {
        std::mem::forget(third);
    }
    message
}

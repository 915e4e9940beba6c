//! Builds all stages of a run before anything starts, and the report when all stages have ended.
//! `threads` and `simulate` run the stages in between.

use std::sync::Arc;
use std::time::Duration;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::FlowTable;
use flowloom_packet::PacketSource;
use flowloom_scheduler::{OrderGuarantee, WorkerId};

use crate::app::{App, FlowState};
use crate::config::{EngineConfig, Order, WhenFull};
use crate::control::{Control, Publisher, ReaderPublisher};
use crate::dispatch::policy::PolicyRef;
use crate::dispatch::pull::{Pool, PullDispatcher};
use crate::dispatch::push::{PushDispatcher, PushOptions};
use crate::dispatch::ring::{Outbox, connect};
use crate::dispatch::stage::{Dispatcher, InputStage};
use crate::egress::records::{RecordOutput, RecordSink};
use crate::egress::reorder::{self, Egress, Ends, OutcomeSender, PacketSink, SinkCounters};
use crate::error::{ConfigError, Fault, SinkError, StartError};
use crate::ingest::decode::Decoder;
use crate::ingest::reader::Reader;
use crate::parts::compose::{self, RecordVisitor};
use crate::report::results::FlowResults;
use crate::report::{RunReport, WorkerReport};
use crate::runtime::panics::caught;
use crate::runtime::shutdown::Halt;
use crate::time::FlowTimeouts;
use crate::worker::flows::Flows;
use crate::worker::inline::{InlineStage, SinkOutput};
use crate::worker::private::PrivateWorker;
use crate::worker::process::{Burst, FlowStage};
use crate::worker::pull::PullWorker;
use crate::worker::shards::{ProcessedTime, SharedFlows, SilentTime};
use crate::worker::shared::{InOrder, SharedRunner, SharedWorker};
use crate::worker::{Worker, WorkerEnd, WorkerOutput};

/// The endpoints of a run: its source, its policy, its sinks and its control.
///
/// # Examples
///
/// ```
/// use flowloom_engine::scheduler::{DirectHash, WorkerCount};
/// use flowloom_engine::{Control, Endpoints};
/// use flowloom_traffic::synth::{Generated, Mix, MixConfig};
///
/// let mix = MixConfig { flows: 4, packets: 60, ..MixConfig::default() };
/// let mut source = Generated::new(Mix::new(mix)?);
/// let mut policy = DirectHash::new(WorkerCount::new(2)?);
/// let control = Control::default();
/// // Without sinks the report has the records, and accepted packets go nowhere.
/// let endpoints: Endpoints<'_, u64> = Endpoints::new(&mut source, &mut policy, &control);
/// # let _ = endpoints;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[non_exhaustive]
pub struct Endpoints<'a, F> {
    /// The source of packets.
    pub source: &'a mut (dyn PacketSource + Send),
    /// The policy that chooses the worker of a packet. The inline layout does not use it.
    pub policy: PolicyRef<'a>,
    /// The destination of accepted packets, if there is one.
    pub packets: Option<&'a mut (dyn PacketSink + Send)>,
    /// The destination of records as flows end. Without one the report keeps the records.
    pub records: Option<&'a mut (dyn RecordSink<F> + Send)>,
    /// Receives progress, and passes a stop request to the run.
    pub control: &'a Control,
    /// Receives the records before they become results, in the order of their keys, to save them as
    /// a [part](crate::SavedPart) of a larger input. In the pipeline layout nothing calls it.
    pub part: Option<RecordVisitor<'a, F>>,
}

impl<'a, F> Endpoints<'a, F> {
    /// Returns endpoints without sinks.
    pub fn new(
        source: &'a mut (dyn PacketSource + Send),
        policy: impl Into<PolicyRef<'a>>,
        control: &'a Control,
    ) -> Self {
        Self { source, policy: policy.into(), packets: None, records: None, control, part: None }
    }

    /// Sends accepted packets to `sink`, if there is one.
    #[must_use]
    pub fn with_packets(self, sink: Option<&'a mut (dyn PacketSink + Send)>) -> Self {
        Self { packets: sink, ..self }
    }

    /// Sends the records of flows to `sink`, if there is one.
    #[must_use]
    pub fn with_records(self, sink: Option<&'a mut (dyn RecordSink<F> + Send)>) -> Self {
        Self { records: sink, ..self }
    }
}

impl<F> std::fmt::Debug for Endpoints<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoints").field("policy", &self.policy).finish_non_exhaustive()
    }
}

/// A stage that has ended.
#[derive(Debug)]
pub(crate) struct Ended<R> {
    pub(crate) result: R,
    /// The message of a panic, if it panicked.
    pub(crate) panic: Option<String>,
    /// The number of the packet in process at that moment.
    pub(crate) at: Option<u64>,
    pub(crate) pinned: bool,
    /// Processor time of its thread until it ended.
    pub(crate) cpu: Option<Duration>,
}

/// The results of the egress stage.
#[derive(Debug)]
pub(crate) struct EgressEnd {
    pub(crate) counters: SinkCounters,
    pub(crate) failed: Option<SinkError>,
}

/// The stages of the pipeline layout.
pub(crate) struct Assembly<'a, A: App, T> {
    pub(crate) input: InputStage<'a>,
    pub(crate) workers: Vec<Box<dyn Worker<A::Flow> + 'a>>,
    pub(crate) egress: Option<Egress<'a>>,
    pub(crate) shared: Option<Arc<SharedFlows<A::Flow, T>>>,
}

/// Builds the flow tables of a run.
pub(crate) fn build<T, E>(
    count: usize,
    table: &mut impl FnMut(usize) -> Result<T, E>,
) -> Result<Vec<T>, StartError>
where
    E: std::error::Error + Send + Sync + 'static,
{
    (0..count).map(|i| table(i).map_err(|error| StartError::Table(Box::new(error)))).collect()
}

/// Returns the flows of a table.
pub(crate) fn flows<F: FlowState, T: FlowTable<FlowKey, F>>(
    table: T,
    config: &EngineConfig,
    records: RecordOutput<F>,
    is_part: bool,
) -> Flows<F, T> {
    let flows = Flows::new(table, config.timeouts(), records);
    if is_part { flows.with_spans() } else { flows }
}

/// Builds the stages of the inline layout.
pub(crate) fn inline<'a, A, T, E>(
    config: &EngineConfig,
    (parts, records, is_part): (Endpoints<'a, A::Flow>, RecordOutput<A::Flow>, bool),
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
    let flows = flows(table, config, records, is_part);
    let gauges = parts.control.begin(1, 1);
    let output = parts.packets.map(|sink| SinkOutput::new(sink, Arc::clone(halt)));
    Ok(InlineStage {
        reader: Reader::new(
            config,
            parts.source,
            None,
            ReaderPublisher::new(parts.control, &gauges, 0),
            Arc::clone(halt),
        ),
        decoder: Decoder::new(config.decode, config.hasher.clone(), config.digest),
        stage: FlowStage::new(app(0), flows),
        burst: Burst::new(),
        publisher: Publisher::new(parts.control, &gauges, 0),
        output,
    })
}

/// Builds the stages of the pipeline layout.
pub(crate) fn pipeline<'a, A, T, E>(
    config: &EngineConfig,
    (parts, records): (Endpoints<'a, A::Flow>, RecordOutput<A::Flow>),
    mut table: impl FnMut(usize) -> Result<T, E>,
    mut app: impl FnMut(usize) -> A,
    halt: &Arc<Halt>,
) -> Result<Assembly<'a, A, T>, StartError>
where
    A: App + 'a,
    T: FlowTable<FlowKey, A::Flow> + Send + 'a,
    E: std::error::Error + Send + Sync + 'static,
{
    let Endpoints { source, policy, packets: sink, control, .. } = parts;
    let guarantee = policy.order();
    if config.order == Order::Internal && !guarantee.keeps_flow_order() {
        return Err(ConfigError::NoOrder { policy: policy.name() }.into());
    }
    let workers = config.layout.workers();
    if let Some(made_for) = policy.workers().filter(|&made_for| made_for != workers) {
        return Err(ConfigError::PolicyWorkers { policy: policy.name(), made_for, workers }.into());
    }
    let is_shared = guarantee != OrderGuarantee::Home || matches!(policy, PolicyRef::Pull(_));
    let is_sequenced = config.is_sequenced(guarantee);
    let exact = config.order == Order::External || (config.order == Order::Internal && is_shared);

    let count = if is_shared { crate::shard_count::shard_count(workers, is_sequenced) } else { workers };
    let mut tables = build(count, &mut table)?;
    let gauges = control.begin(1, workers);
    let (egress, window, notices, mut ends) = match sink {
        Some(sink) => {
            let (egress, Ends { window, notices, workers }) = reorder::connect(sink, workers, exact, halt);
            (Some(egress), Some(window), Some(notices), workers.into_iter().map(Some).collect())
        }
        None => (None, None, None, Vec::new()),
    };
    ends.resize_with(workers, || None);
    let mut outputs = ends.into_iter().enumerate().map(|(i, outcomes): (usize, Option<OutcomeSender>)| {
        WorkerOutput { publisher: Publisher::new(control, &gauges, i), outcomes }
    });
    let shared = is_shared.then(|| {
        let tables = std::mem::take(&mut tables);
        Arc::new(SharedFlows::new(tables, config.timeouts(), &records))
    });
    let drop_when_full = config.when_full == WhenFull::Drop;
    let silent_time: Arc<ProcessedTime> = Arc::default();
    let follow = || SilentTime::new(Arc::clone(&silent_time));

    let mut stages: Vec<Box<dyn Worker<A::Flow> + 'a>> = Vec::with_capacity(workers);
    let dispatcher: Box<dyn Dispatcher + 'a> = match policy {
        PolicyRef::Pull(policy) => {
            let processed_time = shared.as_ref().map(|shared| shared.processed_time()).unwrap_or_default();
            let pool = Arc::new(Pool::new(policy, config.ring_slots, workers, processed_time));
            if let Some(shared) = &shared {
                for (i, output) in (0..workers as u16).zip(outputs.by_ref()) {
                    let runner =
                        SharedRunner::new(app(usize::from(i)), Arc::clone(shared), output, follow());
                    let id = WorkerId::from(i);
                    stages.push(Box::new(PullWorker::new(Arc::clone(&pool), id, runner, Arc::clone(halt))));
                }
            }
            Box::new(PullDispatcher::new(pool, drop_when_full, notices, (silent_time, Arc::clone(&gauges))))
        }
        PolicyRef::Push(policy) => {
            let (outboxes, inboxes): (Vec<_>, Vec<_>) =
                (0..workers).map(|_| connect(config.ring_slots)).unzip();
            let progress: Vec<_> = outboxes.iter().map(Outbox::progress).collect();
            let mut tables = tables.into_iter();
            for (i, (inbox, output)) in inboxes.into_iter().zip(outputs.by_ref()).enumerate() {
                match (&shared, tables.next()) {
                    (Some(shared), _) => {
                        let runner = SharedRunner::new(app(i), Arc::clone(shared), output, follow());
                        let in_order = is_sequenced.then(|| InOrder::new(i as u16, progress.clone()));
                        stages.push(Box::new(SharedWorker::new(inbox, runner, in_order)));
                    }
                    (None, Some(table)) => {
                        let flows = Flows::new(table, config.timeouts(), records.clone());
                        let stage = FlowStage::new(app(i), flows);
                        stages.push(Box::new(PrivateWorker::new(inbox, stage, output, follow())));
                    }
                    (None, None) => unreachable!("one table was built for each worker"),
                }
            }
            let options = PushOptions {
                drop_when_full,
                slots: config.ring_slots,
                shards: if is_sequenced { count } else { 0 },
                notices,
                processed_time: shared.as_ref().map(|shared| shared.processed_time()),
                silent_time,
                gauges: Arc::clone(&gauges),
            };
            Box::new(PushDispatcher::new(outboxes, policy, options))
        }
    };
    let publisher = ReaderPublisher::new(control, &gauges, 0);
    let reader = Reader::new(config, source, window, publisher, Arc::clone(halt));
    let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
    let input = InputStage::new(reader, decoder, dispatcher, control);
    Ok(Assembly { input, workers: stages, egress, shared })
}

/// Ends a worker, and halts the other stages after a panic. The counts are read before the
/// application is dropped, which may panic too.
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
        // The worker has ended its work and blocks no other.
        Err(message) => (None, panic.or(Some(message))),
    };
    Ended { result: WorkerEnd { counted, flows }, panic, at, pinned: false, cpu: None }
}

/// Ends the egress stage, and halts the other stages after a panic of the sink.
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
    part: Option<RecordVisitor<'_, A::Flow>>,
    timeouts: FlowTimeouts,
    (cpu, elapsed): (Option<u32>, Duration),
) -> RunReport<A::Flow> {
    let InlineStage { reader, stage, output, .. } = ended.result;
    let Reader { arrivals, losses, interrupted, mut fault, .. } = reader;
    let mut counters = stage.counters();
    let input = arrivals.finish(losses);
    let mut timed_out_at_end = 0;
    let finished = caught(|| {
        let end = [stage.finish()];
        if let Some(part) = part {
            compose::visit(&end, part);
        }
        end
    });
    let (table, memory, records) = match finished {
        Ok([mut end]) => {
            timed_out_at_end = end.time_out(timeouts, input.last_ns);
            counters.flows_expired += timed_out_at_end;
            (Some(end.table), Some(end.memory), end.records)
        }
        Err(message) => {
            let processed = counters.processed;
            fault.get_or_insert(Fault::WorkerPanicked { worker: 0, packet: None, processed, message });
            (None, None, Vec::new())
        }
    };
    let worker = WorkerReport {
        cpu: cpu.filter(|_| ended.pinned),
        sent: counters.done(),
        counters,
        table,
        memory,
        busy: ended.cpu,
        ..WorkerReport::default()
    };
    let (sink, failed) = output.map_or((None, None), |output| (Some(output.counters), output.failed));
    fault = fault.or(failed.map(|error| Fault::Sink { error }));
    RunReport {
        input,
        workers: vec![worker],
        sink,
        input_cpu: cpu.filter(|_| ended.pinned),
        input_busy: ended.cpu,
        elapsed,
        flows: FlowResults::new(vec![records]),
        timed_out_at_end,
        interrupted,
        fault,
        ..RunReport::default()
    }
}

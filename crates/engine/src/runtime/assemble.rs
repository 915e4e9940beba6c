//! Builds all stages of a run before anything starts. `threads` and `simulate` run them, and
//! `finish` builds the report when all have ended.

use std::sync::Arc;
use std::time::Duration;

use flowloom_packet::PacketSource;
use flowloom_scheduler::{OrderGuarantee, WorkerId};

use crate::config::{EngineConfig, Order, WhenFull};
use crate::control::{Control, Publisher, ReaderPublisher};
use crate::dispatch::policy::PolicyRef;
use crate::dispatch::pull::{Pool, PullDispatcher};
use crate::dispatch::push::{PushDispatcher, PushOptions};
use crate::dispatch::ring::{Outbox, connect};
use crate::dispatch::stage::{Dispatcher, InputStage};
use crate::egress::records::{FlushRequests, RecordSink};
use crate::egress::reorder::{self, Egress, Ends, OutcomeSender, PacketSink, SinkCounters};
use crate::error::{ConfigError, SinkError, StartError};
use crate::ingest::decode::Decoder;
use crate::ingest::reader::Reader;
use crate::parts::compose::RecordVisitor;
use crate::stage::panics::caught;
use crate::stage::shutdown::Halt;
use crate::worker::flows::FlowStore;
use crate::worker::inline::{InlineStage, SinkOutput};
use crate::worker::private::PrivateWorker;
use crate::worker::process::{AppRunner, Burst, FlowStage};
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

/// The endpoints that do not depend on the application.
pub(crate) struct Parts<'a> {
    pub(crate) source: &'a mut (dyn PacketSource + Send),
    pub(crate) policy: PolicyRef<'a>,
    pub(crate) packets: Option<&'a mut (dyn PacketSink + Send)>,
    pub(crate) control: &'a Control,
}

/// Builds flows and applications, whose types the stages do not know.
pub(crate) struct Builders<'b, 'a> {
    pub(crate) flows: &'b mut dyn FnMut(usize) -> Result<Box<dyn FlowStore>, StartError>,
    pub(crate) app: &'b mut dyn FnMut(usize) -> AppRunner<'a>,
    pub(crate) requests: Option<FlushRequests>,
}

impl<'a> Builders<'_, 'a> {
    pub(crate) fn all_flows(&mut self, count: usize) -> Result<Vec<Box<dyn FlowStore>>, StartError> {
        (0..count).map(&mut *self.flows).collect()
    }

    pub(crate) fn stage(&mut self, worker: usize) -> Result<FlowStage<'a>, StartError> {
        Ok(FlowStage { flows: (self.flows)(worker)?, runner: (self.app)(worker) })
    }
}

/// The stages of the pipeline layout.
pub(crate) struct Assembly<'a> {
    pub(crate) input: InputStage<'a>,
    pub(crate) workers: Vec<Box<dyn Worker + 'a>>,
    pub(crate) egress: Option<Egress<'a>>,
    pub(crate) shared: Option<Arc<SharedFlows>>,
}

/// Builds the stages of the inline layout.
pub(crate) fn inline<'a>(
    config: &EngineConfig,
    parts: Parts<'a>,
    builders: &mut Builders<'_, 'a>,
    halt: &Arc<Halt>,
) -> Result<InlineStage<'a>, StartError> {
    let stage = builders.stage(0)?;
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
        stage,
        burst: Burst::new(),
        publisher: Publisher::new(parts.control, &gauges, 0),
        output,
    })
}

/// Builds the stages of the pipeline layout.
pub(crate) fn pipeline<'a>(
    config: &EngineConfig,
    parts: Parts<'a>,
    builders: &mut Builders<'_, 'a>,
    halt: &Arc<Halt>,
) -> Result<Assembly<'a>, StartError> {
    let Parts { source, policy, packets: sink, control } = parts;
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
    let mut tables = builders.all_flows(count)?;
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
        Arc::new(SharedFlows::new(tables, builders.requests.clone()))
    });
    let drop_when_full = config.when_full == WhenFull::Drop;
    let silent_time: Arc<ProcessedTime> = Arc::default();
    let follow = || SilentTime::new(Arc::clone(&silent_time));

    let mut stages: Vec<Box<dyn Worker + 'a>> = Vec::with_capacity(workers);
    let dispatcher: Box<dyn Dispatcher + 'a> = match policy {
        PolicyRef::Pull(policy) => {
            let processed_time = shared.as_ref().map(|shared| shared.processed_time()).unwrap_or_default();
            let pool = Arc::new(Pool::new(policy, config.ring_slots, workers, processed_time));
            if let Some(shared) = &shared {
                for (i, output) in (0..workers as u16).zip(outputs.by_ref()) {
                    let app = (builders.app)(usize::from(i));
                    let runner = SharedRunner::new(app, Arc::clone(shared), output, follow());
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
                        let app = (builders.app)(i);
                        let runner = SharedRunner::new(app, Arc::clone(shared), output, follow());
                        let in_order = is_sequenced.then(|| InOrder::new(i as u16, progress.clone()));
                        stages.push(Box::new(SharedWorker::new(inbox, runner, in_order)));
                    }
                    (None, Some(flows)) => {
                        let stage = FlowStage { runner: (builders.app)(i), flows };
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
pub(crate) fn end_worker(
    worker: Box<dyn Worker + '_>,
    panic: Option<String>,
    halt: &Halt,
) -> Ended<WorkerEnd> {
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

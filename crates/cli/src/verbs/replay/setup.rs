//! Turns arguments into a source, an engine and tables. Mistakes appear before the run starts.

use std::sync::Arc;

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::apps::{L7Plan, MeterFlow, RecordState};
use flowloom::cpu::features::Isa;
use flowloom::cpu::pages::HugePages;
use flowloom::cpu::topology::parse_cpu_list;
use flowloom::engine::{Cores, EngineConfig, IdleTimeout, Layout, Order, PlacementDigest, WhenFull};
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::baseline::{Chained, ChainedConfig, DirectTable, DirectTableConfig};
use flowloom::flow_table::dhash::ReferenceDHash;
use flowloom::flow_table::dhash::major_location::Folded;
use flowloom::flow_table::dhash::signature::SignatureAlgorithm;
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::flow_table::{
    BuildError, DHash, DHashConfig, FlowTable, Growing, SigHash, SigHashConfig, Timeouts,
};
use flowloom::record::{Group, GroupSet, Schema};
use flowloom::scheduler::registry::{DigestKind, Policy};
use flowloom::scheduler::{OrderGuarantee, SetupError, Topology, WorkerCount};
use flowloom::traffic::capture::{CaptureOptions, SetOptions, SetOrder, UnpackLimits};

use crate::args::Common;
use crate::args::replay::{
    AppName, FullName, HugePagesName, MajorLocationName, OrderName, RING, Replay, SignatureName, TableName,
    TimesName,
};
use crate::args::scheduler::SchedulerName;
use crate::exit::{Failure, TableError};
use crate::flow_file::{Destination, Format};
use crate::growing_table::{SegmentOptions, fitted, growing_linehash};
use crate::memory_budget::{FieldShare, Shares};
use crate::record_view::{FieldGroups, RecordPlan};
use crate::render::{counted, some_of, warn};
use crate::topology;

use super::application::Application;
use super::flow_guess;
use super::source::Source;

pub(crate) fn set_options(arguments: &Replay) -> SetOptions {
    let limits = UnpackLimits {
        bytes_max: arguments.unpack_max,
        ratio_max: arguments.unpack_ratio_max,
        ..UnpackLimits::default()
    };
    SetOptions {
        capture: CaptureOptions { map: !arguments.no_mmap, release: arguments.memory.is_some(), limits },
        passes: if arguments.forever { u32::MAX } else { arguments.passes },
        order: if arguments.concat { SetOrder::Concat } else { SetOrder::ByTime },
        names_files: arguments.by_file,
    }
}

pub(super) fn engine_config(arguments: &Replay, layout: Layout) -> Result<EngineConfig, Failure> {
    let mut config = EngineConfig::new(layout);
    config.cores = if arguments.no_pin {
        Cores::Unpinned
    } else if arguments.cores == "auto" {
        Cores::Auto
    } else {
        Cores::List(
            parse_cpu_list(&arguments.cores)
                .map_err(|error| Failure::Usage(format!("--cores {}: {error}", arguments.cores)))?,
        )
    };
    config.flows_max = (layout != Layout::Inline).then_some(arguments.flows_max);
    if let Some(seed) = arguments.seed {
        config.hasher = FlowHasher::with_seed(seed);
    }
    config.decode = arguments.decoding.options()?;
    config.ring_slots = arguments.ring.unwrap_or(RING);
    config.when_full = match arguments.full {
        Some(FullName::Block) | None => WhenFull::Block,
        Some(FullName::Drop) => WhenFull::Drop,
    };
    config.digest = match scheduler(arguments).0.digest {
        DigestKind::Keyed => PlacementDigest::Keyed,
        DigestKind::Crc => PlacementDigest::Crc,
        DigestKind::Destination => PlacementDigest::Destination,
    };
    config.order = match arguments.order {
        Some(OrderName::None) => Order::None,
        Some(OrderName::Internal) | None => Order::Internal,
        Some(OrderName::External) => Order::External,
    };
    config.idle_timeout = arguments.timeout.map(IdleTimeout::from_ns);
    config.closed_timeout = arguments.closed_timeout_ns().map(IdleTimeout::from_ns);
    config.packet_limit = arguments.limit;
    config.pace = arguments.speed;
    config.timeline = arguments.save.save.is_some();
    config.check().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(config)
}

/// Warns of pipeline options that have no effect in another layout.
pub(super) fn warn_outside_pipeline(arguments: &Replay, config: &EngineConfig, common: &Common) {
    let options = [
        ("--scheduler", arguments.scheduler.is_some()),
        ("--order", arguments.order.is_some() && config.layout == Layout::Inline),
        ("--topology", arguments.topology.is_some()),
        ("--full", arguments.full.is_some()),
        ("--ring", arguments.ring.is_some()),
    ];
    let idle: Vec<&str> =
        options.iter().filter(|(_, asked_for)| *asked_for).map(|(name, _)| *name).collect();
    if !matches!(config.layout, Layout::Pipeline { .. }) && !idle.is_empty() {
        let verb = if idle.len() == 1 { "has" } else { "have" };
        let names = some_of(&idle, ", ");
        warn(&format!("{names} {verb} no effect outside the pipeline; add --layout pipeline"), common);
    }
}

/// Returns the selected scheduler.
pub(super) fn scheduler(arguments: &Replay) -> SchedulerName {
    arguments.scheduler.unwrap_or_default()
}

/// Returns the tree of workers for schedulers, which is flat by default.
fn topology(arguments: &Replay, workers: WorkerCount) -> Result<Topology, Failure> {
    let Some(name) = &arguments.topology else { return Ok(Topology::flat(workers)) };
    let topology = topology::named(name)?;
    if topology.workers() != workers {
        return Err(Failure::Usage(format!(
            "--topology {name} has {} threads, but the pipeline has {}\n  use --workers {}",
            topology.workers().get(),
            counted(u64::from(workers.get()), "worker"),
            topology.workers().get()
        )));
    }
    Ok(topology)
}

/// Returns the selected policy.
pub(super) fn policy(arguments: &Replay, config: &EngineConfig) -> Result<Policy, Failure> {
    let usage = |error: SetupError| Failure::Usage(error.to_string());
    let topology = topology(arguments, WorkerCount::new(config.layout.workers()).map_err(usage)?)?;
    let seed = arguments.seed.unwrap_or(1);
    let scheme = scheduler(arguments).0;
    let scheme = scheme.with_threshold(arguments.threshold.unwrap_or(scheme.threshold));
    scheme.policy(&topology, seed).map_err(usage)
}

/// Returns whether the packets of a flow reach its state in input order.
pub(super) fn keeps_flow_order(config: &EngineConfig, policy: OrderGuarantee) -> bool {
    !matches!(config.layout, Layout::Pipeline { .. })
        || config.order != Order::None
        || policy.keeps_flow_order()
}

/// Returns the plan of records with these columns.
pub(super) fn record_plan(arguments: &Replay, schema: Schema) -> Result<RecordPlan, Failure> {
    let fields = arguments.fields.unwrap_or_default().with_file(arguments.by_file);
    let filter = arguments.record_filter.as_ref();
    let destination =
        arguments.flows.as_deref().map(|path| Destination::parse(path, arguments.flows_format));
    let format = destination.transpose().map_err(Failure::Usage)?.map(|destination| destination.format);
    let absent = absent_groups(arguments);
    let mut plan = RecordPlan::new(schema, arguments.columns.as_ref(), fields, filter, format, absent)
        .map_err(Failure::Usage)?;
    plan.sampling = arguments.sample;
    Ok(if arguments.times == TimesName::Iso { plan.with_dates() } else { plan })
}

/// Returns the groups of modules that no option asks for: their columns are shown only by name.
fn absent_groups(arguments: &Replay) -> GroupSet {
    let labels = arguments.app == AppName::L7;
    let modules = [(Group::Label, labels), (Group::Verdict, arguments.firewall.source.rules.is_some())];
    let absent = modules.into_iter().filter(|(_, is_present)| !is_present).map(|(group, _)| group);
    // A saved part keeps no additional fields.
    absent.chain(arguments.save_part.is_some().then_some(Group::Conn)).collect()
}

/// What a run keeps of flows beside accounting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modules {
    pub(super) active_ns: Option<u64>,
    /// The groups of additional fields.
    pub(super) fields: GroupSet,
    pub(super) labels: bool,
}

impl Modules {
    /// Returns the modules of a run with accounting and something beside it, or `None` if a bare
    /// application suffices.
    pub(super) fn from_arguments(arguments: &Replay) -> Result<Option<Self>, Failure> {
        let writes_records = match arguments.app {
            AppName::Null | AppName::TcpTracker => return Ok(None),
            AppName::Accounting => true,
            AppName::L7 | AppName::Firewall => {
                arguments.flows.is_some()
                    || arguments.record_filter.is_some()
                    || arguments.active_timeout.is_some()
                    || arguments.closed_timeout.is_some()
                    || arguments.tcb_cache.is_some()
            }
        };
        if writes_records { Self::of_records(arguments) } else { Ok(None) }
    }

    /// Returns the modules of a run whose records something reads: those that its options name,
    /// write or select by.
    pub(super) fn of_records(arguments: &Replay) -> Result<Option<Self>, Failure> {
        let modules = Self::with_accounting(arguments)?;
        let is_bare = arguments.app == AppName::Accounting
            && modules.fields.is_empty()
            && !modules.labels
            && arguments.firewall.source.rules.is_none()
            && arguments.tcb_cache.is_none();
        Ok((!is_bare).then_some(modules))
    }

    fn with_accounting(arguments: &Replay) -> Result<Self, Failure> {
        let groups = record_plan(arguments, MeterFlow::schema())?.groups();
        if groups.contains(Group::Verdict) && arguments.firewall.source.rules.is_none() {
            return Err(Failure::Usage(String::from(
                "a column of verdicts is selected, but no rules are given\n  add --rules FILE",
            )));
        }
        Ok(Self {
            active_ns: arguments.active_timeout,
            fields: groups.intersection(GroupSet::FIELDS),
            labels: arguments.app == AppName::L7 || groups.contains(Group::Label),
        })
    }
}

/// Warns of columns that the format cannot hold.
pub(super) fn warn_of_left_columns(arguments: &Replay, plan: &RecordPlan, common: &Common) {
    let Some(path) = &arguments.flows else { return };
    let Ok(Destination { format, .. }) = Destination::parse(path, arguments.flows_format) else { return };
    let left = plan.left_by(format);
    if !left.is_empty() {
        let names = some_of(&left, ", ");
        warn(&format!("{} cannot hold {names}: omitted", format.name()), common);
    }
    let fields = arguments.fields.map_or(GroupSet::NONE, FieldGroups::groups);
    if format == Format::Zeek
        && Group::FIELDS.into_iter().any(|group| group.is_payload() && fields.contains(group))
    {
        warn("Zeek's conn.log uses fields from payload for the service only", common);
    }
}

/// Refuses more flows than so many tables can number.
fn check_flows(option: &str, flows: u64, tables: u64, each_max: u32) -> Result<(), Failure> {
    let flows_max = tables * u64::from(each_max);
    if flows <= flows_max {
        return Ok(());
    }
    let whose = if tables == 1 { String::from("a flow table") } else { format!("{tables} flow tables") };
    Err(Failure::Usage(format!(
        "{option} {flows}: {whose} can number {flows_max} flows\n  use a smaller {option}"
    )))
}

/// What takes memory in a run besides its tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryOf<'a> {
    fields: Option<&'a FieldMemory>,
    record_bytes: usize,
    /// Bytes of a flow outside of its slot.
    beside_bytes: usize,
    labels_bytes: usize,
}

impl<'a> MemoryOf<'a> {
    pub(super) fn application(application: &'a dyn Application, table: TableName) -> Self {
        let (record_bytes, beside_bytes) = application.record_bytes(table);
        Self {
            fields: application.field_memory(),
            record_bytes,
            beside_bytes,
            labels_bytes: application.l7().map_or(0, L7Plan::bytes_max),
        }
    }

    /// Returns the bytes of records on their way to an output, of a file format that collects
    /// records, and of labels.
    fn others_bytes(&self, config: &EngineConfig) -> u64 {
        const FILE_BYTES: usize = 64 << 20;
        let records = EngineConfig::QUEUED_RECORDS_MAX + 512 * config.layout.workers();
        (records * self.record_bytes + FILE_BYTES + self.labels_bytes) as u64
    }
}

/// The flow tables of a run; all workers have the same kind.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    limits: GrowthLimits,
    /// Whether an option gives the flows of the first segment.
    is_given: bool,
    fields: Option<Arc<FieldShare>>,
    timeouts: Timeouts,
    isa: Isa,
    huge_pages: HugePages,
    memory_limit_bytes: u64,
    /// Bytes that a flow takes outside of its slot.
    beside_bytes: u64,
    /// The signature and the major location of [DHASH], if an option asks for the paper's search.
    pub(super) published: Option<(SignatureAlgorithm, Option<Folded>)>,
}

fn published(arguments: &Replay) -> Option<(SignatureAlgorithm, Option<Folded>)> {
    let signature = match arguments.signature {
        None | Some(SignatureName::Keyed) => SignatureAlgorithm::Keyed,
        Some(SignatureName::One) => SignatureAlgorithm::One,
        Some(SignatureName::Two) => SignatureAlgorithm::Two,
        Some(SignatureName::Three) => SignatureAlgorithm::Three,
        Some(SignatureName::Four) => SignatureAlgorithm::Four,
    };
    let major = (arguments.major_location != Some(MajorLocationName::Off)).then_some(Folded);
    let is_asked_for = arguments.signature.is_some() || arguments.major_location.is_some();
    is_asked_for.then_some((signature, major))
}

/// The table of one worker, or the reason for a failure.
type Built<T> = Result<T, TableError>;

impl Tables {
    /// Determines the sizes of the tables from the arguments or from a sample of the captures.
    pub(super) fn plan(
        arguments: &Replay,
        config: &EngineConfig,
        order: OrderGuarantee,
        source: &Source,
        options: SetOptions,
        isa: Isa,
        memory: MemoryOf<'_>,
    ) -> Result<Self, Failure> {
        let tables = config.tables(order) as u64;
        // A growing table consists of segments, each limited to the flows that one table can
        // number.
        let first_max = match arguments.table {
            TableName::Sighash => SigHashConfig::FLOWS_MAX,
            TableName::Linehash | TableName::Dhash => DHashConfig::FLOWS_MAX,
            TableName::Chained => ChainedConfig::FLOWS_MAX,
            TableName::Direct => DirectTableConfig::FLOWS_MAX,
        };
        check_flows("--table-flows", arguments.table_flows.unwrap_or(0), tables, first_max)?;
        check_flows("--flows-max", arguments.flows_max, tables, DHashConfig::FLOWS_MAX)?;
        let guess = || flow_guess::guess(&source.paths(), source.bytes_on_disk(), options, config.decode);
        let flows = arguments.table_flows.unwrap_or_else(guess);
        // Tables get unequal shares of the flows; four standard deviations above the mean suffice
        // nearly always.
        let is_hashed = tables > 1
            && (matches!(config.layout, Layout::Sharded { .. }) || tables > config.layout.workers() as u64);
        let share = |flows: u64| {
            let equal = flows.div_ceil(tables);
            let more = if is_hashed { 4 * equal.isqrt() + 4 } else { 0 };
            u32::try_from(equal + more).unwrap_or(u32::MAX)
        };
        let Shares { tables_bytes, fields } =
            arguments.budget().divide(memory.others_bytes(config), memory.fields)?;
        // What flows keep outside of the tables takes its share of their memory.
        let (all, beside) = (memory.record_bytes as u64, memory.beside_bytes as u64);
        let memory_max_bytes = tables_bytes / tables / all.max(1) * (all - beside);
        Ok(Self {
            limits: GrowthLimits {
                first_flows: share(flows).min(first_max),
                // The run has a limit of its own for several tables.
                flows_max: u32::try_from(arguments.flows_max)
                    .unwrap_or(u32::MAX)
                    .min(DHashConfig::FLOWS_MAX),
                memory_max_bytes,
            },
            is_given: arguments.table_flows.is_some(),
            fields,
            timeouts: config.timeouts().for_table(),
            isa,
            huge_pages: match arguments.hugepages {
                HugePagesName::Auto => HugePages::Try,
                HugePagesName::Off => HugePages::No,
            },
            memory_limit_bytes: memory_max_bytes,
            beside_bytes: beside,
            published: published(arguments),
        })
    }

    /// Builds a table. An estimate of its first segment yields to the memory that there is.
    fn build<T>(&self, build: impl FnMut(GrowthLimits) -> Result<T, BuildError>) -> Result<T, TableError> {
        let mut build = build;
        if self.is_given {
            return build(self.limits).map_err(TableError::Given);
        }
        fitted(self.limits, build).map_err(TableError::Estimated)
    }

    pub(super) fn linehash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        let Self { timeouts, isa, huge_pages, memory_limit_bytes, .. } = *self;
        let beside_bytes = self.beside_bytes;
        let options =
            SegmentOptions { timeouts, isa, huge_pages, memory_limit_bytes, beside_bytes, prefault: false };
        self.build(|limits| growing_linehash(limits, options, self.fields.clone()))
    }

    /// Returns a growing table of segments that `segment` builds, with the settings that all tables
    /// share.
    fn growing<V, T, B>(&self, segment: B) -> Built<impl FlowTable<FlowKey, V> + Send + use<V, T, B>>
    where
        V: Send + 'static,
        T: FlowTable<FlowKey, V> + Send,
        B: Fn(u32, Shared) -> Result<T, BuildError> + Copy + Send,
    {
        let Self { timeouts, isa, huge_pages, memory_limit_bytes, .. } = *self;
        let shared = Shared { timeouts, isa, huge_pages, memory_limit_bytes };
        let (fields, beside_bytes) = (self.fields.clone(), self.beside_bytes);
        self.build(move |limits| {
            let fields = fields.clone();
            Growing::try_new(limits, move |flows| {
                let table = segment(flows, shared)?;
                if let Some(fields) = &fields {
                    fields.opened(table.memory().total_bytes() + u64::from(flows) * beside_bytes);
                }
                Ok(table)
            })
        })
    }

    pub(super) fn dhash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, isa, huge_pages, memory_limit_bytes }| {
            let usual = DHashConfig { isa: Some(isa), ..DHashConfig::for_flows(flows) };
            DHash::<FlowKey, V>::try_new(&DHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual })
        })
    }

    /// Returns the table of [DHASH] as published, which counts the steps of its searches.
    pub(super) fn published_dhash<V: Send + 'static>(
        &self,
        (signature, major): (SignatureAlgorithm, Option<Folded>),
    ) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(move |flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = DHashConfig::for_flows(flows);
            let config = DHashConfig { timeouts, huge_pages, memory_limit_bytes, ..usual };
            ReferenceDHash::<FlowKey, V, _, _>::with(&config, signature, major)
                .map(ReferenceDHash::<FlowKey, V, _, _>::counting)
        })
    }

    pub(super) fn sighash<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = SigHashConfig::for_flows(flows);
            SigHash::<FlowKey, V>::try_new(&SigHashConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }

    pub(super) fn chained<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = ChainedConfig::for_flows(flows);
            Chained::<FlowKey, V>::try_new(&ChainedConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }

    pub(super) fn direct<V: Send + 'static>(&self) -> Built<impl FlowTable<FlowKey, V> + Send + use<V>> {
        self.growing(|flows, Shared { timeouts, huge_pages, memory_limit_bytes, .. }| {
            let usual = DirectTableConfig::for_flows(flows);
            DirectTable::<FlowKey, V>::try_new(&DirectTableConfig {
                timeouts,
                huge_pages,
                memory_limit_bytes,
                ..usual
            })
        })
    }
}

/// The settings of a table that do not depend on its kind.
#[derive(Clone, Copy)]
struct Shared {
    timeouts: Timeouts,
    isa: Isa,
    huge_pages: HugePages,
    memory_limit_bytes: u64,
}

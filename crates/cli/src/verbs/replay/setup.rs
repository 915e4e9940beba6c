//! Turns arguments into a source, an engine and tables. Mistakes appear before the run starts.

use flowloom::apps::{MeterFlow, RecordState};
use flowloom::cpu::topology::parse_cpu_list;
use flowloom::engine::{Cores, EngineConfig, IdleTimeout, Layout, Order, PlacementDigest, WhenFull};
use flowloom::flow_key::FlowHasher;
use flowloom::record::{Group, GroupSet, Schema};
use flowloom::scheduler::registry::{DigestKind, Policy};
use flowloom::scheduler::{OrderGuarantee, SetupError, Topology, WorkerCount};
use flowloom::traffic::capture::{CaptureOptions, SetOptions, SetOrder, UnpackLimits};

use crate::args::Common;
use crate::args::replay::{AppName, FullName, OrderName, RING, Replay, TimesName};
use crate::args::scheduler::SchedulerName;
use crate::exit::Failure;
use crate::flow_file::Destination;
use crate::record_format::Format;
use crate::record_view::RecordPlan;
use crate::render::{counted, some_of, warn};
use crate::topology;

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
    let fields = arguments.fields().with_file(arguments.by_file);
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
    let Some(format) = arguments.format_of_flows() else { return };
    let left = plan.left_by(format);
    if !left.is_empty() {
        let names = some_of(&left, ", ");
        warn(&format!("{} cannot hold {names}: omitted", format.name()), common);
    }
    let fields = arguments.fields().groups();
    let of_payload = Group::FIELDS.into_iter().any(|group| group.is_payload() && fields.contains(group));
    if format == Format::Zeek && of_payload {
        warn("Zeek's conn.log uses fields from payload for the service only", common);
    }
}

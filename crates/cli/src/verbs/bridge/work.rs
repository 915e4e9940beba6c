//! Sets up ports, rules and records from the arguments, and forwards frames until the bridge is
//! stopped.

use std::sync::Arc;

use flowloom::apps::{Accounting, Guard, GuardedFlow};
use flowloom::cpu::features::Isa;
use flowloom::cpu::memory;
use flowloom::cpu::pages::HugePages;
use flowloom::engine::{
    Control, Cores, EngineConfig, Fault, IdleTimeout, Layout, NoFlow, NoFlowPolicy, RecordSink, Verdict,
    WhenFull, WireOptions, run_wires,
};
use flowloom::flow_table::segments::GrowthLimits;
use flowloom::packet::DropReason;
use flowloom::packet::refusal::Refusal;

use super::{kernel_bridge, ports};
use crate::args::Common;
use crate::args::bridge::{Bridge, RefusalName, WithoutFlowName};
use crate::background;
use crate::exit::{Failure, Status};
use crate::flow_file::{Destination, FlowWriter};
use crate::growing_table::{SegmentOptions, growing_linehash};
use crate::privileges::{self, Confinement};
use crate::record_view::{FieldGroups, RecordView, WrittenColumns};
use crate::render::bridge::BridgeResult;
use crate::render::{counted, print, print_aside, say, say_error, warn};
use crate::service_manager;
use crate::verbs::replay::{Origin, Rules};

/// Idle time after which the record of a closed connection is written.
const CLOSED_TIMEOUT_NS: u64 = 10_000_000_000;

/// Initial size of a worker's table, in flows; it grows as needed.
const FLOWS_FIRST: u32 = 16 << 10;

/// Runs the command.
pub(super) fn run(arguments: &Bridge, common: &Common) -> Result<Status, Failure> {
    kernel_bridge::check(&arguments.a, &arguments.b, arguments.fail_open)?;
    let options = &arguments.firewall;
    let rules = options
        .rules
        .as_ref()
        .map(|path| Rules::load(path, options, Origin::Wire(ports::names(arguments)), common))
        .transpose()?;
    let mut config = EngineConfig::new(Layout::Inline);
    config.cores = Cores::Unpinned;
    config.idle_timeout = Some(IdleTimeout::from_ns(arguments.timeout));
    config.closed_timeout = Some(IdleTimeout::from_ns(CLOSED_TIMEOUT_NS));
    // A slow collector must not stop forwarding.
    config.records_when_full = WhenFull::Drop;
    config.decode = config.decode.with_errors_by_flow(rules.as_ref().is_some_and(Rules::ask_state));
    let (mut writer, is_standard_output) = writer(arguments)?;
    let confinement = Confinement::of(arguments.user.as_deref())?;
    let listener = background::listen(arguments.listen, arguments.listen_publicly, common)?;
    let wires = ports::open(arguments)?;

    // Threads that start after this point inherit the reduced privileges.
    if !arguments.keep_privileges {
        let read = options.rules.iter().filter_map(|path| path.parent());
        privileges::apply(&confinement, read)?;
    }
    let control = Arc::new(Control::default());
    let reload = rules.as_ref().and_then(|rules| rules.reload(false, common.quiet > 1));
    let live = rules.as_ref().map(Rules::live);
    let reloads = background::start(&control, arguments.workers, live, reload, listener)?;
    let tables = Tables::of(arguments, &config);
    let app = |_| {
        let rules = rules.as_ref().map(|rules| (rules.live(), rules.options()));
        Guard::new(Accounting::new(arguments.active_timeout), rules)
    };
    if common.quiet == 0 {
        say(&format!("bridge of {} and {}, until it is stopped", arguments.a, arguments.b));
    }
    service_manager::notify("READY=1");
    let records = writer.as_mut().map(|writer| writer as &mut (dyn RecordSink<GuardedFlow> + Send));
    let sink = &mut Forgotten;
    let run = run_wires(
        &config,
        &wire_options(arguments),
        wires,
        |_| tables.build(),
        app,
        &control,
        records.or(Some(sink)),
    );
    service_manager::notify("STOPPING=1");
    let run = run?;
    let written = match &run.report.fault {
        Some(Fault::Records { error }) => Err(error.to_string()),
        _ => writer.as_mut().map_or(Ok(()), |writer| writer.finish().map_err(|error| error.to_string())),
    };
    let refused = writer.as_ref().map_or(0, FlowWriter::refused);
    if refused > 0 {
        let datagrams = counted(refused, "datagram");
        warn(&format!("{datagrams} to the collector could not be sent; is it listening?"), common);
    }
    let firewall = rules.as_ref().map(|rules| rules.figures(options.top_rules, reloads.get()));
    let result = BridgeResult::new([&arguments.a, &arguments.b], &run, firewall);
    if is_standard_output { print_aside(&result, common) } else { print(&result, common) }?;
    written.map_err(|error| {
        let path = arguments.flows.iter().map(|path| path.display().to_string()).collect::<String>();
        Failure::Output(format!("cannot write flows to {path}: {error}"))
    })?;
    Ok(match &run.report.fault {
        None => Status::Ok,
        Some(fault) => {
            let status =
                if matches!(fault, Fault::Records { .. }) { Status::Output } else { Status::Fault };
            say_error(&fault.to_string(), status);
            status
        }
    })
}

/// Discards records if none are requested: a bridge that runs forever would otherwise keep them
/// forever.
struct Forgotten;

impl RecordSink<GuardedFlow> for Forgotten {
    fn write(
        &mut self,
        _records: &[flowloom::engine::FlowRecord<GuardedFlow>],
    ) -> Result<(), flowloom::engine::SinkError> {
        Ok(())
    }
}

/// Opens the destination of records. Also returns whether the destination is standard output.
fn writer(arguments: &Bridge) -> Result<(Option<FlowWriter<GuardedFlow>>, bool), Failure> {
    let Some(path) = &arguments.flows else { return Ok((None, false)) };
    let destination = Destination::of(path, arguments.flows_format).map_err(Failure::Usage)?;
    let is_standard_output = destination.is_standard_output();
    let failed = |error| Failure::Output(format!("cannot write flows to {}: {error}", path.display()));
    let opened = destination.open().map_err(failed)?;
    let columns = WrittenColumns::of(None, None).map_err(Failure::Usage)?;
    let groups = FieldGroups::default();
    let view = RecordView::new(|flow: &GuardedFlow| Some(flow.account()), None, None, &groups);
    Ok((Some(FlowWriter::new(opened, Some(view), columns, &groups)), is_standard_output))
}

fn wire_options(arguments: &Bridge) -> WireOptions {
    let no_flow = match arguments.without_flow {
        WithoutFlowName::Pass => NoFlowPolicy::all(NoFlow::Pass),
        // Frames that are not IP keep links and neighbours working.
        WithoutFlowName::Drop => NoFlowPolicy::all(NoFlow::Drop).with(DropReason::NotIp, NoFlow::Pass),
    };
    let refusal = match arguments.deny_with {
        RefusalName::Silent => Refusal::Silent,
        RefusalName::Reset => Refusal::Reset,
        RefusalName::Icmp => Refusal::Icmp,
    };
    let table_full = if arguments.fail_open { Verdict::Accept } else { Verdict::Deny };
    let mut options = WireOptions::default();
    (options.no_flow, options.refusal, options.table_full) = (no_flow, refusal, table_full);
    options
}

/// The flow tables of the workers.
struct Tables {
    limits: GrowthLimits,
    options: SegmentOptions,
}

impl Tables {
    fn of(arguments: &Bridge, config: &EngineConfig) -> Self {
        let workers = arguments.workers as u64;
        let flows_max = u32::try_from(arguments.flows_max.div_ceil(workers)).unwrap_or(u32::MAX);
        // Half of the free memory; the rest of the machine needs memory too.
        let memory = memory::available_bytes().unwrap_or(u64::MAX) / 2 / workers;
        Self {
            limits: GrowthLimits {
                first_flows: FLOWS_FIRST.min(flows_max),
                flows_max,
                memory_max_bytes: memory,
            },
            options: SegmentOptions {
                timeouts: config.timeouts().for_table(),
                isa: Isa::detect(),
                huge_pages: HugePages::Try,
                memory_limit_bytes: memory,
                prefault: true,
            },
        }
    }

    fn build(
        &self,
    ) -> Result<
        impl flowloom::flow_table::FlowTable<flowloom::flow_key::FlowKey, GuardedFlow> + Send + use<>,
        flowloom::flow_table::BuildError,
    > {
        growing_linehash(self.limits, self.options)
    }
}

//! Sets up ports, rules and records from the arguments, and forwards frames until the bridge is
//! stopped.

use std::sync::Arc;

use flowloom::apps::{Accounting, Guard, GuardedFlow, GuardedProtocols, L7Options, RecordState as _};
use flowloom::engine::{
    Control, Cores, EngineConfig, IdleTimeout, Layout, NoFlow, NoFlowPolicy, OnPanic, RecordSink, Verdict,
    WhenFull, WireOptions, run_wires,
};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::{Growing, LineHash, TableOptions};
use flowloom::packet::DropReason;
use flowloom::packet::refusal::Refusal;
use flowloom::record::GroupSet;

use rustix::thread::CapabilitySet;

use super::ports::Ends;
use super::{kernel_bridge, ports};
use crate::args::Common;
use crate::args::bridge::{Bridge, OnPanicName, RefusalName};
use crate::args::replay::LIVE_CLOSED_TIMEOUT_NS;
use crate::background;
use crate::exit::{Failure, Status, TableError};
use crate::flow_file::{Destination, LastingWriter};
use crate::growing_table::fitted;
use crate::memory_budget::Budget;
use crate::privileges::{self, Confinement};
use crate::record_view::{FieldGroups, RecordPlan};
use crate::render::bridge::BridgeResult;
use crate::render::{counted, print, print_aside, say, say_error, warn};
use crate::service_manager;
use crate::verbs::replay::{Origin, Rules, load_patterns};

/// Initial size of a worker's table, in flows; it grows as needed.
const FLOWS_FIRST: u32 = 16 << 10;

/// Runs the command.
pub(super) fn run(arguments: &Bridge, common: &Common) -> Result<Status, Failure> {
    let ends = Ends::from_arguments(arguments)?;
    if let Ends::Interfaces([a, b]) = &ends {
        kernel_bridge::check(a, b, arguments.fail_open)?;
    }
    let names = ends.names();
    let options = &arguments.firewall;
    if arguments.deny_with != RefusalName::Silent
        && options.source.rules.is_none()
        && arguments.l7_deny.is_empty()
    {
        let text = "--deny-with: nothing is denied\n  add --rules, or --l7 and --l7-deny";
        return Err(Failure::Usage(String::from(text)));
    }
    let origin = match &names[..] {
        [a, b] => Origin::Wire([a.clone(), b.clone()]),
        _ => Origin::Captures(Vec::new()),
    };
    let rules =
        options.source.rules.as_ref().map(|path| Rules::load(path, options, origin, common)).transpose()?;
    let mut config = EngineConfig::new(Layout::Inline);
    config.cores = Cores::Unpinned;
    config.flows_max = Some(arguments.flows_max);
    config.idle_timeout = Some(IdleTimeout::from_ns(arguments.timeout));
    config.closed_timeout = Some(IdleTimeout::from_ns(LIVE_CLOSED_TIMEOUT_NS));
    // A slow collector must not stop forwarding.
    config.records_when_full = WhenFull::Drop;
    config.decode = config.decode.with_errors_by_flow(rules.as_ref().is_some_and(Rules::ask_state));
    let protocols = protocols(arguments)?;
    // The rings take memory first; the tables have the rest.
    let rings = ("rings", ports::ring_bytes(arguments, &ends));
    let left = Budget::half_of_free(arguments.memory).without(&[rings])?;
    let tables = Tables::plan(arguments, &config, left);
    let (mut writer, is_standard_output) = writer(arguments, common)?;
    let mut confinement = Confinement::from_user(arguments.user.as_deref())?;
    if matches!(ends, Ends::Queue(_)) {
        // The kernel checks each verdict's sender.
        confinement = confinement.keeping(CapabilitySet::NET_ADMIN);
    }
    let listener = background::listen(arguments.listen, arguments.listen_publicly, common)?;
    let wires = ports::open(arguments, &ends)?;

    // Threads that start after this point inherit the reduced privileges.
    if !arguments.keep_privileges {
        let read = options.source.rules.iter().filter_map(|path| path.parent());
        privileges::apply(&confinement, read)?;
    }
    let control = Arc::new(Control::default());
    let reload = rules.as_ref().and_then(|rules| rules.reload(false, common.quiet > 1));
    let live = rules.as_ref().map(Rules::live);
    let reloads = background::start(&control, (arguments.workers, &names), live, reload, listener)?;
    let app = |_| {
        let rules = rules.as_ref().map(|rules| (rules.live(), rules.options()));
        Guard::new(Accounting::new(arguments.active_timeout), rules).with_protocols(protocols.as_ref())
    };
    if common.quiet == 0 {
        say(&format!("bridge of {}, until it is stopped", names.join(" and ")));
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
    let mut run = run?;
    let mut written = Ok(());
    if let Some(writer) = &mut writer {
        // The run has counted what was held as lost, but it may have been written since; and a
        // collector may have refused datagrams since.
        let before = writer.records_lost() + writer.records_held();
        written = writer.finish();
        let after = writer.records_lost();
        if let Some(records) = &mut run.report.records {
            records.written = (records.written + before).saturating_sub(after);
            records.lost = (records.lost + after).saturating_sub(before);
        }
        writer.counts().warn_of_refused(common);
    }
    let firewall = rules.as_ref().map(|rules| rules.figures(options.top_rules, reloads.get()));
    let labels = protocols.map(|protocols| protocols.counts());
    let result = BridgeResult::new(&names, &run, firewall, labels);
    if is_standard_output { print_aside(&result, common) } else { print(&result, common) }?;
    if let Some(fault) = &run.report.fault {
        say_error(&fault.to_string(), Status::Fault);
        return Ok(Status::Fault);
    }
    let lost = counted(run.report.records.as_ref().map_or(0, |records| records.lost), "record");
    if let Err(error) = written {
        let path = arguments.flows.iter().map(|path| path.display().to_string()).collect::<String>();
        return Err(Failure::Output(format!("cannot write flows to {path}: {error}\n  {lost} lost")));
    }
    if run.report.records.is_some_and(|records| records.lost > 0) {
        warn(&format!("{lost} lost"), common);
    }
    Ok(Status::Ok)
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
///
/// Frames pass even if records are lost, so the collector may start later.
fn writer(arguments: &Bridge, common: &Common) -> Result<(Option<LastingWriter>, bool), Failure> {
    let Some(path) = &arguments.flows else { return Ok((None, false)) };
    let destination = Destination::parse(path, arguments.flows_format).map_err(Failure::Usage)?;
    let is_standard_output = destination.is_standard_output();
    let failed = |error| Failure::Output(format!("cannot write flows to {}: {error}", path.display()));
    let format = Some(destination.format);
    let plan =
        RecordPlan::new(GuardedFlow::schema(), None, FieldGroups::default(), None, format, GroupSet::NONE);
    let plan = plan.map_err(Failure::Usage)?;
    let name =
        if is_standard_output { String::from("standard output") } else { path.display().to_string() };
    let writer = destination.open_lasting(name, plan, common.quiet > 1);
    Ok((Some(writer.map_err(failed)?), is_standard_output))
}

fn wire_options(arguments: &Bridge) -> WireOptions {
    let mut no_flow = NoFlowPolicy::all(NoFlow::Pass);
    for rule in &arguments.without_flow {
        let what = if rule.passes { NoFlow::Pass } else { NoFlow::Drop };
        no_flow = match rule.reason {
            Some(reason) => no_flow.with(reason, what),
            // Frames that are not IP keep links and neighbours working.
            None => NoFlowPolicy::all(what).with(DropReason::NotIp, NoFlow::Pass),
        };
    }
    let on_panic = match arguments.on_panic {
        OnPanicName::Stop => OnPanic::Stop,
        OnPanicName::Pass => OnPanic::Pass,
        OnPanicName::Drop => OnPanic::Drop,
    };
    let refusal = match arguments.deny_with {
        RefusalName::Silent => Refusal::Silent,
        RefusalName::Reset => Refusal::Reset,
        RefusalName::Icmp => Refusal::Icmp,
    };
    let table_full = if arguments.fail_open { Verdict::Accept } else { Verdict::Deny };
    let mut options = WireOptions::default();
    (options.no_flow, options.refusal, options.table_full) = (no_flow, refusal, table_full);
    options.on_panic = on_panic;
    options
}

/// Returns the labels and the protocols that are denied, if flows are labelled.
fn protocols(arguments: &Bridge) -> Result<Option<GuardedProtocols>, Failure> {
    if !arguments.l7 {
        return Ok(None);
    }
    let plan = load_patterns(&arguments.patterns, L7Options::default(), "--l7")?;
    let names: Vec<String> = plan.scanner().names().map(String::from).collect();
    GuardedProtocols::new(plan, arguments.l7_deny.clone()).map(Some).map_err(|unknown| {
        let names = names.join(", ");
        Failure::Usage(format!("--l7-deny {unknown}: no pattern has this name\n  use one of {names}"))
    })
}

/// The flow tables of the workers.
struct Tables {
    options: TableOptions,
}

impl Tables {
    /// Plans tables that take this number of bytes together.
    fn plan(arguments: &Bridge, config: &EngineConfig, bytes: u64) -> Self {
        let workers = arguments.workers as u64;
        // The run has a limit of its own for several tables.
        let flows_max = u32::try_from(arguments.flows_max).unwrap_or(u32::MAX);
        Self {
            options: TableOptions {
                timeouts: config.timeouts().for_table(),
                memory_limit_bytes: bytes / workers,
                prefault: true,
                ..TableOptions::for_flows(flows_max)
            },
        }
    }

    fn build(&self) -> Result<Growing<FlowKey, GuardedFlow, LineHash<FlowKey, GuardedFlow>>, TableError> {
        fitted(FLOWS_FIRST, |flows| Growing::try_new(flows, self.options, LineHash::try_new))
            .map_err(TableError::Estimated)
    }
}

//! Runs the engine over captures.

mod charts;
mod figures;
mod firewall;
mod l7;
mod outputs;
mod probe;
mod role;
mod setup;
mod source;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use flowloom::apps::accounting::{EndReason, end_reasons};
use flowloom::engine::{
    App, Control, Discipline, EngineConfig, Fault, IdleTimeout, Parts, RunReport, run_parts,
};
use flowloom::packet::PacketSource;
use flowloom::traffic::capture::{CaptureSet, Input, Notice};

use crate::args::Common;
use crate::args::replay::{AppName, Replay, TableName};
use crate::exit::{Failure, Status, check_decodable};
use crate::host::isa_named;
use crate::output::OutputFile;
use crate::pace::Pace;
use crate::progress::{Progress, label};
use crate::render::replay::{ReplayResult, VerifyFigures};
use crate::render::save::save;
use crate::render::{counted, print, say, say_error, warn, warn_of};
use crate::{attend, flow_file, verify};

use figures::{Run, figures};
use firewall::Rules;
use outputs::Outputs;
use probe::Probe;
use role::{AccountingRole, Beside, L7Role, NullRole, Role, TrackerRole};
use setup::{
    Tables, check_application, check_verifiable, engine_config, keeps_flow_order, policy, set_options,
    warn_without_workers,
};
use source::{Source, feed};

/// Runs the verb.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    let rules = Rules::of(arguments, common)?;
    if let Some(rules) = &rules {
        return run_role(arguments, common, Some(rules), rules.role());
    }
    let l7 = l7::plan(arguments)?;
    match arguments.app {
        AppName::Null => run_role(arguments, common, None, NullRole),
        AppName::TcpTracker => run_role(arguments, common, None, TrackerRole),
        AppName::Accounting => run_role(arguments, common, None, AccountingRole(arguments.active_timeout)),
        AppName::L7 => {
            let plan = l7.as_ref().expect("the plan is made for this application");
            run_role(arguments, common, None, L7Role(plan))
        }
        AppName::Firewall => unreachable!("a firewall without rules is refused before"),
    }
}

fn run_role<R: Role>(
    arguments: &Replay,
    common: &Common,
    rules: Option<&Rules>,
    role: R,
) -> Result<Status, Failure> {
    match arguments.tcb_cache.map(|bytes| Probe::new(bytes, arguments.tcb_policy)).transpose()? {
        None => run_app(arguments, common, None, rules, &role),
        Some(probe) => run_app(arguments, common, Some(&probe), rules, &Beside(role, &probe)),
    }
}

/// What a role's application keeps per flow.
type FlowOf<R> = <<R as Role>::App as App>::Flow;

fn run_app<R: Role>(
    arguments: &Replay,
    common: &Common,
    probe: Option<&Probe>,
    rules: Option<&Rules>,
    role: &R,
) -> Result<Status, Failure> {
    check_application(arguments)?;
    let config = engine_config(arguments)?;
    warn_without_workers(arguments, &config, common);
    let mut policy = policy(arguments, &config)?;
    let order = policy.order();
    let isa = isa_named(&arguments.isa)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    if arguments.verify {
        check_verifiable(arguments, &inputs)?;
    }
    let options = set_options(arguments);
    let mut source = Source::open(arguments, &inputs, options)?;
    let mut outputs = Outputs::open(arguments, source.captures())?;
    let tables = Tables::plan(arguments, &config, order, source.captures(), options, isa)?;

    let listener = listener(arguments, common)?;
    let control = Arc::new(Control::default());
    source.stop_with(&control);
    let reload = rules.and_then(|rules| rules.reload(arguments, common.quiet > 1));
    let reloads = attend::start(&control, config.mode.workers(), rules.map(Rules::live), reload, listener)?;
    let defrag = arguments.defrag.then_some(config.decode);
    let input = arguments.live.iface.clone().unwrap_or_else(|| label(&arguments.inputs));
    let label = format!("replay  {input}");
    let progress = Progress::start(label, source.progress(), Arc::clone(&control), common.quiet > 0);
    let pace = arguments.save.save.is_some().then(|| Pace::start(Arc::clone(&control))).flatten();
    let mut fed = feed(&mut source, defrag);
    let parts = Parts {
        source: &mut *fed,
        discipline: Discipline::of(&mut policy),
        sink: outputs.sink.as_mut().map(|sink| sink as _),
        control: &control,
    };
    let app_of = |_| role.app();
    let report = match arguments.table {
        TableName::Linehash => run_parts(&config, parts, |_| tables.linehash::<FlowOf<R>>(), app_of),
        TableName::Dhash => run_parts(&config, parts, |_| tables.dhash::<FlowOf<R>>(), app_of),
        TableName::Sighash => run_parts(&config, parts, |_| tables.sighash::<FlowOf<R>>(), app_of),
    };
    drop(fed);
    let read_share = match source.progress().total_bytes() {
        0 => None,
        total => Some(source.progress().done_bytes() as f64 / total as f64),
    };
    drop(progress);
    let looks = pace.map(Pace::stop).unwrap_or_default();
    let report = report?;
    if let Some(Fault::Source { packets, error }) = &report.fault {
        check_decodable(*packets, error)?;
    }
    if let (Some(set), Some(_), None) = (source.captures(), arguments.limit, &report.fault) {
        set.check_decodable()?;
    }

    // Taken now: the oracle runs an application, and a probe, of its own.
    let tcb_cache = probe.map(Probe::figures);
    let firewall = rules.map(|rules| rules.figures(arguments.firewall.top_rules, reloads.get()));
    let l7 = role.l7().map(|plan| l7::figures(plan, &report));
    let verified = if arguments.verify {
        let mut again = CaptureSet::open(&inputs, options)?;
        let in_order = keeps_flow_order(&config, order);
        oracle_says(role, &report, &mut *feed(&mut again, defrag), (&config, in_order), &control)?
    } else {
        None
    };

    let result = figures(Run {
        arguments,
        app: R::NAME,
        config: &config,
        isa,
        scheduler: arguments.scheduler.name(),
        source: &source,
        report: &report,
        verified,
        tcb_cache,
        firewall,
        l7,
        read_share,
    });
    for notice in source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    // A result that cannot be printed is no reason to lose the flows, nor the other way round.
    let flows = arguments.flows.as_ref().zip(outputs.flows.take());
    let written = flows.map_or(Ok(()), |(path, file)| {
        write_flows::<R>(path, file, &report, config.idle_timeout)
            .map_err(|error| Failure::Output(format!("cannot write flows to {}: {error}", path.display())))
    });
    let saved = arguments.save.save.as_ref().map_or(Ok(()), |folder| {
        let title = format!("replay of {input}");
        save(folder, &title, &result, &charts::charts(&result, &report.flows, &looks), common)
    });
    let printed = print(&result, common);
    // Who closes the pipe early has seen enough of the result, and is told how the run ended all the same.
    if !matches!(printed, Err(Failure::BrokenPipe)) {
        printed?;
    }
    written?;
    saved?;
    // The fault is the writing of packets.
    let is_output = matches!(report.fault, Some(Fault::Sink { .. }));
    let unverified = arguments.verify && result.verify.is_none();
    Ok(if unverified {
        Status::Interrupted
    } else {
        status(arguments, &source, &result, is_output, common)
    })
}

/// Compares the results with those of plain maps over the same input, or without order what does not depend on it; `None` if that was
/// interrupted.
fn oracle_says<R: Role>(
    role: &R,
    report: &RunReport<FlowOf<R>>,
    again: &mut dyn PacketSource,
    (config, in_order): (&EngineConfig, bool),
    control: &Control,
) -> Result<Option<VerifyFigures>, Failure> {
    let repeat = verify::Repeat {
        packets: report.input.packets - report.input.dropped.withheld(),
        decode: config.decode,
        idle_timeout: config.idle_timeout,
    };
    let oracle = verify::oracle(again, role.oracle(), repeat, control)
        .map_err(|error| Failure::Usage(format!("the oracle cannot read the input again: {error}")))?;
    Ok(oracle.map(|oracle| {
        let (flows, compared) = if in_order {
            (verify::count(&oracle), verify::compare(&report.flows, &oracle))
        } else {
            (oracle.len() as u64, verify::compare_sums(&report.flows, &oracle, R::SUMS))
        };
        let difference = compared.err();
        VerifyFigures { flows, in_order, agrees: difference.is_none(), difference }
    }))
}

/// Writes a record per flow; of an application that keeps account, with the reason for its end.
fn write_flows<R: Role>(
    path: &Path,
    file: OutputFile,
    report: &RunReport<FlowOf<R>>,
    idle: Option<IdleTimeout>,
) -> std::io::Result<()> {
    let last_ns = report.input.last_ns;
    let reasons = end_reasons(&report.flows, R::account, idle, last_ns);
    if flow_file::is_ipfix(path) {
        let records =
            report.flows.iter().filter_map(|record| Some((&record.key, R::account(&record.state)?)));
        return flow_file::write_ipfix(file, records.zip(reasons), last_ns);
    }
    let ends: Vec<&'static str> = reasons.into_iter().map(EndReason::name).collect();
    flow_file::write(path, file, &report.flows, &ends)
}

/// Opens the socket that statistics are read from, and says where: the port may have been left to the system.
fn listener(arguments: &Replay, common: &Common) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = arguments.listen else { return Ok(None) };
    let listener = attend::bind(address, arguments.listen_publicly)?;
    let address = listener.local_addr().unwrap_or(address);
    if common.quiet < 2 {
        say(&format!("statistics at http://{address}/metrics"));
    }
    Ok(Some(listener))
}

fn status(
    arguments: &Replay,
    source: &Source,
    result: &ReplayResult,
    is_output: bool,
    common: &Common,
) -> Status {
    if let Some(fault) = &result.fault {
        let status = if is_output { Status::Output } else { Status::Fault };
        say_error(fault, status);
        return status;
    }
    if result.interrupted {
        return Status::Interrupted;
    }
    if let Some(VerifyFigures { agrees: false, difference, .. }) = &result.verify {
        let difference = difference.as_deref().unwrap_or("no detail");
        let why = match result.table.refused {
            0 => String::new(),
            refused => format!(
                "\n  the table was full and refused flows {}, the oracle takes all: --flows-max says how many it may have",
                counted(refused, "time")
            ),
        };
        say_error(&format!("the result differs from the oracle's: {difference}{why}"), Status::CheckFailed);
        return Status::CheckFailed;
    }
    if !result.balanced {
        warn("packets and drops do not add up: this is a mistake of flowloom, please report it", common);
        return Status::CheckFailed;
    }
    if arguments.strict && source.notices().iter().any(Notice::is_partial_input) {
        return Status::PartialInput;
    }
    Status::Ok
}

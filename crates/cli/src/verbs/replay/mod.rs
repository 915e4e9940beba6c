//! Runs the engine over captures.

mod figures;
mod l7;
mod probe;
mod setup;

use std::sync::Arc;

use flowloom::apps::{L7Plan, Null, TcpTracker};
use flowloom::engine::{self, App, Control, Fault};
use flowloom::traffic::capture::{CaptureSet, Input, Notice};

use crate::args::Common;
use crate::args::replay::{AppName, Replay, TableName};
use crate::exit::{Failure, Status, check_decodable, with_status};
use crate::host::isa_named;
use crate::progress::{Progress, label};
use crate::render::replay::{ReplayResult, VerifyFigures};
use crate::render::{print, warn, warn_of};
use crate::signals::stop_on_signals;
use crate::{flow_file, verify};

use figures::{Run, figures};
use probe::Probe;
use setup::{Tables, check_verifiable, engine_config, placement, set_options};

/// Runs the verb.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    let probe = arguments.tcb_cache.map(|bytes| Probe::new(bytes, arguments.tcb_policy)).transpose()?;
    let l7 = l7::plan(arguments)?;
    match (arguments.app, &probe) {
        (AppName::Null, None) => run_app(arguments, common, "null", None, None, || Null),
        (AppName::TcpTracker, None) => run_app(arguments, common, "tcp-tracker", None, None, || TcpTracker),
        (AppName::Null, Some(probe)) => {
            run_app(arguments, common, "null", Some(probe), None, || probe.beside(Null))
        }
        (AppName::TcpTracker, Some(probe)) => {
            run_app(arguments, common, "tcp-tracker", Some(probe), None, || probe.beside(TcpTracker))
        }
        (AppName::L7, probe) => {
            let plan = l7.as_ref().expect("the plan is made for this application");
            match probe {
                None => run_app(arguments, common, "l7", None, l7.as_ref(), || plan.app()),
                Some(probe) => {
                    run_app(arguments, common, "l7", Some(probe), l7.as_ref(), || probe.beside(plan.app()))
                }
            }
        }
    }
}

fn run_app<A: App>(
    arguments: &Replay,
    common: &Common,
    app_name: &'static str,
    probe: Option<&Probe>,
    l7: Option<&L7Plan>,
    app: impl Fn() -> A,
) -> Result<Status, Failure> {
    let config = engine_config(arguments)?;
    let mut placement = placement(arguments, &config)?;
    let isa = isa_named(&arguments.isa)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    if arguments.verify {
        check_verifiable(arguments, &inputs)?;
    }
    let options = set_options(arguments);
    let mut source = CaptureSet::open(&inputs, options)?;
    let tables = Tables::plan(arguments, &config, &source, options, isa);

    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let label = format!("replay  {}", label(&arguments.inputs));
    let progress = Progress::start(label, source.progress(), Arc::clone(&control), common.quiet > 0);
    let report = match arguments.table {
        TableName::Linehash => engine::run(
            &config,
            &mut source,
            &mut *placement,
            |_| tables.linehash::<A::Flow>(),
            |_| app(),
            &control,
        ),
        TableName::Dhash => engine::run(
            &config,
            &mut source,
            &mut *placement,
            |_| tables.dhash::<A::Flow>(),
            |_| app(),
            &control,
        ),
        TableName::Sighash => engine::run(
            &config,
            &mut source,
            &mut *placement,
            |_| tables.sighash::<A::Flow>(),
            |_| app(),
            &control,
        ),
    };
    let read_share = match source.progress().total_bytes() {
        0 => None,
        total => Some(source.progress().done_bytes() as f64 / total as f64),
    };
    drop(progress);
    let report = report?;
    if let Some(Fault::Source { packets, error }) = &report.fault {
        check_decodable(*packets, error)?;
    }

    // Taken now: the oracle runs an application, and a probe, of its own.
    let tcb_cache = probe.map(Probe::figures);
    let l7 = l7.map(|plan| l7::figures(plan, &report));
    let verified = if arguments.verify {
        let repeat = verify::Repeat {
            packets: report.input.packets,
            decode: config.decode,
            idle_timeout: config.idle_timeout,
        };
        let mut again = CaptureSet::open(&inputs, options)?;
        let oracle = verify::oracle(&mut again, app(), repeat, &control)
            .map_err(|error| Failure::Usage(format!("the oracle cannot read the input again: {error}")))?;
        oracle.map(|oracle| {
            let difference = verify::compare(&report.flows, &oracle).err();
            VerifyFigures { flows: oracle.len() as u64, agrees: difference.is_none(), difference }
        })
    } else {
        None
    };

    let result = figures(Run {
        arguments,
        app: app_name,
        config: &config,
        isa,
        scheduler: arguments.scheduler.name(),
        source: &source,
        report: &report,
        verified,
        tcb_cache,
        l7,
        read_share,
    });
    for notice in source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    // A result that cannot be printed is no reason to lose the flows, nor the other way round.
    let written = arguments.flows.as_ref().map_or(Ok(()), |path| {
        flow_file::write(path, &report.flows)
            .map_err(|error| Failure::Output(format!("cannot write flows to {}: {error}", path.display())))
    });
    let printed = print(&result, common);
    // Who closes the pipe early has seen enough of the result, and is told how the run ended all the same.
    if !matches!(printed, Err(Failure::BrokenPipe)) {
        printed?;
    }
    written?;
    let unverified = arguments.verify && result.verify.is_none();
    Ok(if unverified { Status::Interrupted } else { status(arguments, &source, &result, common) })
}

fn status(arguments: &Replay, source: &CaptureSet, result: &ReplayResult, common: &Common) -> Status {
    if let Some(fault) = &result.fault {
        eprintln!("error: {}", with_status(fault, Status::Fault));
        return Status::Fault;
    }
    if result.interrupted {
        return Status::Interrupted;
    }
    if let Some(VerifyFigures { agrees: false, difference, .. }) = &result.verify {
        let difference = difference.as_deref().unwrap_or("no detail");
        eprintln!(
            "error: {}",
            with_status(
                &format!("the result differs from the oracle's: {difference}"),
                Status::CheckFailed
            )
        );
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

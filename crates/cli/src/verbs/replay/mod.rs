//! Runs the engine over captures.

mod figures;
mod probe;
mod setup;
mod source;

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use flowloom::apps::{CaptureSink, Null, TcpTracker};
use flowloom::engine::{App, Control, Fault, Parts, run_parts};
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
use setup::{Tables, check_verifiable, discipline, engine_config, policy, set_options};
use source::{Source, feed};

/// Runs the verb.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    let probe = arguments.tcb_cache.map(|bytes| Probe::new(bytes, arguments.tcb_policy)).transpose()?;
    match (arguments.app, &probe) {
        (AppName::Null, None) => run_app(arguments, common, "null", None, || Null),
        (AppName::TcpTracker, None) => run_app(arguments, common, "tcp-tracker", None, || TcpTracker),
        (AppName::Null, Some(probe)) => {
            run_app(arguments, common, "null", Some(probe), || probe.beside(Null))
        }
        (AppName::TcpTracker, Some(probe)) => {
            run_app(arguments, common, "tcp-tracker", Some(probe), || probe.beside(TcpTracker))
        }
    }
}

fn run_app<A: App>(
    arguments: &Replay,
    common: &Common,
    app_name: &'static str,
    probe: Option<&Probe>,
    app: impl Fn() -> A,
) -> Result<Status, Failure> {
    let config = engine_config(arguments)?;
    let mut policy = policy(arguments, &config)?;
    let order = policy.order();
    let isa = isa_named(&arguments.isa)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    if arguments.verify {
        check_verifiable(arguments, &inputs)?;
    }
    let options = set_options(arguments);
    let mut source = Source::open(arguments, &inputs, options)?;
    let tables = Tables::plan(arguments, &config, order, source.captures(), options, isa);

    let mut sink = arguments.write.as_deref().map(capture_sink).transpose()?;
    let control = Arc::new(Control::default());
    stop_on_signals(&control);
    let defrag = arguments.defrag.then_some(config.decode);
    let input = arguments.live.iface.clone().unwrap_or_else(|| label(&arguments.inputs));
    let label = format!("replay  {input}");
    let progress = Progress::start(label, source.progress(), Arc::clone(&control), common.quiet > 0);
    let mut feed = feed(&mut source, defrag);
    let parts = Parts {
        source: &mut *feed,
        discipline: discipline(&mut policy),
        sink: sink.as_mut().map(|sink| sink as _),
        control: &control,
    };
    let app_of = |_| app();
    let report = match arguments.table {
        TableName::Linehash => run_parts(&config, parts, |_| tables.linehash::<A::Flow>(), app_of),
        TableName::Dhash => run_parts(&config, parts, |_| tables.dhash::<A::Flow>(), app_of),
        TableName::Sighash => run_parts(&config, parts, |_| tables.sighash::<A::Flow>(), app_of),
    };
    drop(feed);
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
    let verified = if arguments.verify {
        let repeat = verify::Repeat {
            packets: report.input.packets - report.input.dropped.withheld(),
            decode: config.decode,
            idle_timeout: config.idle_timeout,
        };
        let mut again = CaptureSet::open(&inputs, options)?;
        let oracle = verify::oracle(&mut *source::feed(&mut again, defrag), app(), repeat, &control)
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
    // The fault is the writing of packets.
    let is_output = matches!(report.fault, Some(Fault::Sink { .. }));
    let unverified = arguments.verify && result.verify.is_none();
    Ok(if unverified {
        Status::Interrupted
    } else {
        status(arguments, &source, &result, is_output, common)
    })
}

/// Creates the file that accepted packets are written to.
fn capture_sink(path: &Path) -> Result<CaptureSink<BufWriter<File>>, Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::Usage(String::from("--write needs a file: standard output has the report")));
    }
    let file = File::create(path)
        .map_err(|error| Failure::Output(format!("cannot write packets to {}: {error}", path.display())))?;
    Ok(CaptureSink::new(BufWriter::with_capacity(1 << 18, file)))
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
        eprintln!("error: {}", with_status(fault, status));
        return status;
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

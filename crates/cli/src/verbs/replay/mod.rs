//! Runs the engine over captures.

mod charts;
mod figures;
mod firewall;
mod flow_guess;
#[cfg(feature = "arrow")]
mod fragments;
mod interface;
mod l7;
mod layout;
mod look;
mod outputs;
#[cfg(feature = "arrow")]
mod packets;
mod probe;
mod record_sums;
mod records;
mod role;
mod select;
mod setup;
mod source;

use std::path::Path;
use std::sync::Arc;

use flowloom::apps::RecordState;
use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::engine::{
    Control, Endpoints, EngineConfig, Fault, FlowRecord, FlowState, PolicyRef, RecordSink, RunReport,
    StartError,
};
use flowloom::packet::PacketSource;
use flowloom::scheduler::registry::Policy;
use flowloom::traffic::capture::{CaptureSet, Input, Notice};

use crate::args::Common;
use crate::args::replay::{AppName, Replay};
use crate::exit::{Failure, Status, check_decodable};
use crate::flow_file::{Destination, FlowWriter};
use crate::host::isa_named;
use crate::memory_budget::Budget;
use crate::output::OutputFile;
use crate::pace::Pace;
use crate::part_file::{self, Header, Settings};
use crate::progress::{Progress, label};
use crate::record_view::RecordPlan;
use crate::render::replay::{RecordFigures, ReplayResult, VerifyFigures};
use crate::render::save::save;
use crate::render::{counted, print, print_aside, say_error, warn, warn_of};
use crate::{background, verify};

pub(crate) use firewall::{Origin, Rules};
pub(crate) use l7::load_patterns;
pub(crate) use look::look;
pub(crate) use select::{Selected, Selection};
pub(crate) use setup::set_options;

use figures::{Run, figures};
use layout::Planned;
use outputs::Outputs;
use probe::Probe;
use record_sums::RecordSums;
use records::Records;
use role::{AccountingRole, Beside, FlowOf, L7Role, MeterRole, NullRole, Role, TrackerRole};
use setup::{
    MemoryOf, Modules, Tables, check_application, check_verifiable, engine_config, keeps_flow_order,
    labels, policy, scheduler, warn_of_left_columns, warn_outside_pipeline,
};
use source::{Source, feed};

/// Runs the command.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    // Patterns and rules may take what is left before the tables ask.
    Budget::of_free(arguments.memory).without(&[])?;
    let rules = Rules::of(arguments, common)?;
    let modules = Modules::of(arguments)?;
    check_application(arguments, modules.as_ref())?;
    let l7 = l7::plan(arguments, labels(arguments, modules.as_ref()))?;
    let probe = arguments.tcb_cache.map(|bytes| Probe::new(bytes, arguments.tcb_policy)).transpose()?;
    if let Some(modules) = modules {
        let role = MeterRole::new(modules, l7.as_ref(), rules.as_ref().map(Rules::role));
        return match &probe {
            Some(probe) => run_app(arguments, common, Some(probe), rules.as_ref(), &Beside(role, probe)),
            None => run_app(arguments, common, None, rules.as_ref(), &role),
        };
    }
    match (arguments.app, &probe) {
        (AppName::Null, None) => run_app(arguments, common, None, None, &NullRole),
        (AppName::Null, Some(probe)) => {
            run_app(arguments, common, Some(probe), None, &Beside(NullRole, probe))
        }
        (AppName::TcpTracker, None) => run_app(arguments, common, None, None, &TrackerRole),
        (AppName::TcpTracker, Some(probe)) => {
            run_app(arguments, common, Some(probe), None, &Beside(TrackerRole, probe))
        }
        (AppName::Accounting, _) => {
            run_app(arguments, common, None, None, &AccountingRole(arguments.active_timeout))
        }
        (AppName::L7, _) => {
            let plan = l7.as_ref().expect("the plan is made for this application");
            run_app(arguments, common, None, None, &L7Role(plan))
        }
        (AppName::Firewall, _) => {
            let rules = rules.as_ref().expect("a firewall without rules is refused before");
            run_app(arguments, common, None, Some(rules), &rules.role())
        }
    }
}

#[expect(clippy::too_many_lines, reason = "a run from its arguments to its status, step by step")]
fn run_app<R: Role>(
    arguments: &Replay,
    common: &Common,
    probe: Option<&Probe>,
    rules: Option<&Rules>,
    role: &R,
) -> Result<Status, Failure> {
    let plan = setup::plan_of::<FlowOf<R>>(arguments)?;
    let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
    let options = set_options(arguments);
    let isa = isa_named(&arguments.isa)?;
    if arguments.verify {
        check_verifiable(arguments, &inputs)?;
    }
    let Planned { layout, mut source, why } = layout::plan(arguments, &inputs, options)?;
    let mut config = engine_config(arguments, layout)?;
    // Rules that ask for states process an ICMP error with the flow that it concerns.
    config.decode = config.decode.with_errors_by_flow(rules.is_some_and(Rules::ask_state));
    warn_outside_pipeline(arguments, &config, common);
    warn_of_left_columns(arguments, &plan, common);
    let mut policy = policy(arguments, &config)?;
    let order = policy.order();
    let selection = Selection::of(arguments, &source.paths())?;
    #[cfg(feature = "arrow")]
    if let Some(to) = &arguments.packets {
        return packets::run(arguments, to, source, selection);
    }
    let times = selection.as_ref().and_then(Selection::times_of_part);
    let mut outputs = Outputs::open(arguments, &source.paths())?;
    let tables = Tables::plan(arguments, &config, order, &source, options, isa, MemoryOf::role(role))?;

    let listener = background::listen(arguments.listen, arguments.listen_publicly, common)?;
    let control = Arc::new(Control::default());
    source.stop_with(&control);
    outputs.keep_details(arguments, &source.paths(), options, &config, &control)?;
    let reload = rules.and_then(|rules| rules.reload(arguments.verify, common.quiet > 1));
    let reloads = background::start(
        &control,
        (config.layout.workers(), &[]),
        rules.map(Rules::live),
        reload,
        listener,
    )?;
    let input = arguments.live.iface.clone().unwrap_or_else(|| label(&arguments.inputs));
    let label = format!("replay  {input}");
    let progress = Progress::start(label, source.progress(), Arc::clone(&control), common.quiet > 0);
    let pace = arguments.save.save.is_some().then(|| Pace::start(Arc::clone(&control))).flatten();
    let mut kept = Kept::of(arguments);
    let part = arguments.fragments.then(|| outputs.flows.take().map(|opened| (opened, plan.clone())));
    let mut records = records_of(role, arguments, plan, &mut outputs);
    // Only these need all records at once.
    let keeps_records =
        arguments.verify || arguments.sort || arguments.fragments || arguments.save_part.is_some();
    let run = Prepared {
        arguments,
        config: &config,
        tables: &tables,
        control: &control,
        selection: selection.as_ref(),
    };
    let sink = (!keeps_records).then_some(&mut records as _);
    let ran = run.run(role, &mut source, &mut policy, (&mut outputs, &mut kept, sink));
    let read_share = match source.progress().total_bytes() {
        0 => None,
        total => Some(source.progress().done_bytes() as f64 / total as f64),
    };
    drop(progress);
    let looks = pace.map(Pace::stop).unwrap_or_default();
    let (report, passed_over, range) = ran?;
    let written = match &report.fault {
        Some(Fault::Records { error }) => Err(error.to_string()),
        _ if keeps_records => write_sorted(&report, &mut records),
        _ => Ok(()),
    };
    let written = written.and_then(|()| records.finish().map_err(|error| error.to_string()));
    let remains = records.file.as_ref().and_then(FlowWriter::remains);
    let remains = remains.map_or(String::new(), |rest| format!("\n  {rest}"));
    let (record_figures, records_lost) = records_written(arguments, &report, &records, written.is_ok());
    if let Some(file) = &records.file {
        file.counts().warn_of_refused(common);
    }
    if record_figures.as_ref().is_some_and(|records| records.unchanged) {
        let path = arguments.flows.as_deref().unwrap_or(Path::new("--flows"));
        warn(&format!("no record was selected: {} is unchanged", path.display()), common);
    }
    if let Some(Fault::Source { packets, error }) = &report.fault {
        check_decodable(*packets, error)?;
    }
    // Another part may have packets that can be decoded.
    if report.fault.is_none() && arguments.limit.is_some() && !arguments.is_part() {
        source.check_decodable()?;
    }

    // Read the figures now, because the oracle runs its own application and probe.
    let tcb_cache = probe.map(Probe::figures);
    let firewall = rules.map(|rules| rules.figures(arguments.firewall.top_rules, reloads.get()));
    let Records { labels, sums, .. } = records;
    let l7 = role.l7().zip(labels).map(|(plan, (_, labels))| labels.figures(plan));
    let verified = if arguments.verify {
        let mut again = Selected::new(CaptureSet::open(&inputs, options)?, selection);
        let in_order = keeps_flow_order(&config, order);
        let defrag = arguments.defrag.then_some(config.decode);
        oracle_says(role, &report, &mut *feed(&mut again, defrag), (&config, in_order), &control)?
    } else {
        None
    };

    let result = figures(Run {
        arguments,
        app: arguments.app.name(),
        passed_over,
        config: &config,
        isa,
        scheduler: scheduler(arguments).name(),
        why,
        source: &source,
        report: &report,
        verified,
        tcb_cache,
        firewall,
        l7,
        records: record_figures,
        records_lost,
        sums,
        read_share,
        fields_dropped: role.field_memory().map(FieldMemory::dropped),
    });
    for notice in source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    outputs.warn_of_left_behind(arguments, &source.files(), options.capture.limits, common);
    // An error in printing the result must not lose the flows, and the reverse.
    let written = written.map_err(|error| {
        let path = arguments.flows.as_deref().unwrap_or(Path::new("--flows"));
        Failure::Output(format!("cannot write flows to {}: {error}{remains}", path.display()))
    });
    let header = || part_header(arguments, R::NAME, (&source, &report), (range, times));
    let kept = match kept {
        Kept::File(records) => match (&arguments.save_part, outputs.part.take()) {
            (Some(path), Some(file)) => save_part(&header()?, &records, &file, path),
            _ => Ok(()),
        },
        #[cfg(feature = "arrow")]
        Kept::Rows(rows) => match part.flatten() {
            Some(opened) => fragments::write::<R>(&config, &report, &rows, opened, header()?),
            None => Ok(()),
        },
        Kept::Nothing => Ok(()),
    };
    let saved = arguments.save.save.as_ref().map_or(Ok(()), |folder| {
        let title = format!("replay of {input}");
        save(folder, &title, &result, &charts::charts(&result, &looks), common)
    });
    let on_standard_output = arguments.flows.as_ref().is_some_and(|path| {
        Destination::of(path, arguments.flows_format).is_ok_and(|flows| flows.is_standard_output())
    });
    let printed = if on_standard_output { print_aside(&result, common) } else { print(&result, common) };
    // A reader that closes the pipe early has seen enough of the result, but still gets the exit
    // status.
    if !matches!(printed, Err(Failure::BrokenPipe)) {
        printed?;
    }
    written?;
    kept?;
    saved?;
    // The fault concerns writing of packets or records.
    let is_output = matches!(report.fault, Some(Fault::Sink { .. } | Fault::Records { .. }));
    let unverified = arguments.verify && result.verify.is_none();
    Ok(if unverified {
        Status::Interrupted
    } else {
        let remains = match &report.fault {
            Some(Fault::Sink { .. }) => outputs.remains().map(|rest| (&arguments.write, rest)),
            _ => None,
        };
        let remains = remains.and_then(|(path, rest)| Some((path.as_deref()?, rest)));
        status(arguments, &source, &result, (is_output, remains), common)
    })
}

/// Returns what became of the records that a run was to write, and how many are known to be lost.
fn records_written<F: RecordState>(
    arguments: &Replay,
    report: &RunReport<F>,
    records: &Records<F>,
    is_written: bool,
) -> (Option<RecordFigures>, u64) {
    let (Some(file), Some(path)) = (&records.file, &arguments.flows) else { return (None, 0) };
    let counts = file.counts();
    let (ended, engine_lost) = report
        .records
        .as_ref()
        .map_or((report.record_count(), 0), |records| (records.written + records.lost, records.lost));
    let path = path.display().to_string();
    let figures = RecordFigures::new(path, ended, counts, file.filter_counts());
    // After an error of the file, records that were in buffers are lost too.
    let known_lost = if is_written { engine_lost + counts.refused } else { figures.lost };
    (Some(figures), known_lost)
}

/// The report of a run, how many packets the selection passed over, and the range of a capture that
/// was read.
type Ran<F> = (RunReport<F>, u64, Option<part_file::Range>);

/// A run that is ready to start.
struct Prepared<'a> {
    arguments: &'a Replay,
    config: &'a EngineConfig,
    tables: &'a Tables,
    control: &'a Control,
    selection: Option<&'a Selection>,
}

impl Prepared<'_> {
    /// Runs in the planned layout. `kept` receives the records of a part. Also returns how
    /// many packets the selection rejected.
    fn run<R: Role>(
        &self,
        role: &R,
        source: &mut Source,
        policy: &mut Policy,
        (outputs, kept, records): (
            &mut Outputs,
            &mut Kept,
            Option<&mut (dyn RecordSink<FlowOf<R>> + Send)>,
        ),
    ) -> Result<Ran<FlowOf<R>>, StartError> {
        let Self { arguments, config, tables, control, selection } = *self;
        let keeps = !matches!(kept, Kept::Nothing);
        let mut keep = |record: &FlowRecord<_>, ticks, is_live| match (&mut *kept, R::save_with()) {
            (Kept::File(records), Some(save)) => records.add(record, ticks, is_live, save),
            #[cfg(feature = "arrow")]
            (Kept::Rows(rows), _) => rows.push((ticks, is_live)),
            _ => {}
        };
        let defrag = arguments.defrag.then_some(config.decode);
        let mut selected = Selected::new(&mut *source, selection.cloned());
        let mut fed = feed(&mut selected, defrag);
        let mut endpoints = Endpoints::new(&mut *fed, PolicyRef::of(policy), control)
            .with_packets(outputs.sink.as_mut().map(|sink| sink as _))
            .with_records(records.map(|sink| sink as _));
        endpoints.part = keeps.then_some(&mut keep as _);
        let report = role.run(arguments.table, config, endpoints, tables)?;
        drop(fed);
        let passed_over = selected.passed_over;
        Ok((report, passed_over, source.finish()))
    }
}

/// Compares the results with those of plain maps over the same input. Without packet order,
/// compares only what does not depend on it. Returns `None` if interrupted.
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
        timeouts: config.timeouts(),
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

/// What a run keeps of the flows for a part.
enum Kept {
    Nothing,
    /// All of them.
    File(part_file::Records),
    /// The ticks of each record's first and last packet, and whether it is live at the end.
    #[cfg(feature = "arrow")]
    Rows(Vec<([u64; 2], bool)>),
}

impl Kept {
    fn of(arguments: &Replay) -> Self {
        match arguments {
            #[cfg(feature = "arrow")]
            Replay { fragments: true, .. } => Self::Rows(Vec::new()),
            Replay { save_part: Some(_), .. } => Self::File(part_file::Records::default()),
            _ => Self::Nothing,
        }
    }
}

/// Returns what a part says of itself.
fn part_header<F: FlowState>(
    arguments: &Replay,
    app: &'static str,
    (source, report): (&Source, &RunReport<F>),
    (range, times): (Option<part_file::Range>, Option<part_file::Times>),
) -> Result<Header, Failure> {
    if report.interrupted || report.fault.is_some() || (arguments.byte_range().is_some() && range.is_none())
    {
        let text = String::from("no part is saved: the run did not finish");
        return Err(if report.interrupted { Failure::Interrupted(text) } else { Failure::Output(text) });
    }
    let settings = Settings {
        app: app.to_owned(),
        idle_timeout_ns: arguments.timeout,
        active_timeout_ns: arguments.active_timeout,
        decoding: arguments.decoding.words(),
        selection: arguments.live.filter.iter().map(|filter| format!("--filter {filter}")).collect(),
    };
    let inputs = arguments.inputs.iter().map(|path| path.display().to_string()).collect();
    let mut header = Header::new(settings, arguments.part, inputs, &report.input, &report.worker_totals());
    header.range = range;
    header.times = times;
    header.notices = source.notices().iter().map(ToString::to_string).collect();
    // The merge counts the live flows that have ended.
    header.flows_expired -= report.timed_out_at_end;
    Ok(header)
}

/// Writes what is known of the flows as a part.
fn save_part(
    header: &Header,
    records: &part_file::Records,
    file: &OutputFile,
    path: &Path,
) -> Result<(), Failure> {
    part_file::write(file, header, records)
        .map_err(|error| Failure::Output(format!("cannot write the part to {}: {error}", path.display())))
}

/// Returns what the run does with records.
fn records_of<R: Role>(
    role: &R,
    arguments: &Replay,
    plan: RecordPlan,
    outputs: &mut Outputs,
) -> Records<FlowOf<R>> {
    let mut file = outputs.flows.take().map(|opened| FlowWriter::new(opened, plan));
    let selects = arguments.record_filter.is_some()
        || arguments.live.filter.is_some()
        || arguments.from.is_some()
        || arguments.to.is_some();
    if let Some(file) = file.as_mut().filter(|_| selects && arguments.live.iface.is_none()) {
        file.keep_old_if_empty();
    }
    let sums = arguments.save.save.is_some().then(RecordSums::default);
    let is_awaited = arguments.live.iface.is_some();
    let labels = role.l7().and(R::label()).map(|label| (label, l7::Labels::default()));
    Records { file, is_awaited, labels, sums }
}

/// Writes the records of a report to their destination, sorted by key.
fn write_sorted<F: RecordState>(report: &RunReport<F>, records: &mut Records<F>) -> Result<(), String> {
    for record in &report.flows {
        records.write(std::slice::from_ref(record)).map_err(|error| error.to_string())?;
    }
    Ok(())
}

fn status(
    arguments: &Replay,
    source: &Source,
    result: &ReplayResult,
    (is_output, remains): (bool, Option<(&Path, String)>),
    common: &Common,
) -> Status {
    if let Some(fault) = &result.fault {
        let status = if is_output { Status::Output } else { Status::Fault };
        let remains =
            remains.map_or(String::new(), |(path, rest)| format!("\n  {}: {rest}", path.display()));
        say_error(&format!("{fault}{remains}"), status);
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
                "\n  the table was full and refused flows {}, but the oracle accepts all: \
                 raise --flows-max",
                counted(refused, "time")
            ),
        };
        say_error(&format!("the result differs from the oracle's: {difference}{why}"), Status::CheckFailed);
        return Status::CheckFailed;
    }
    if !result.balanced {
        warn("packets and drops do not add up: this is a bug in flowloom, please report it", common);
        return Status::CheckFailed;
    }
    if arguments.strict && source.notices().iter().any(Notice::is_partial_input) {
        return Status::PartialInput;
    }
    Status::Ok
}

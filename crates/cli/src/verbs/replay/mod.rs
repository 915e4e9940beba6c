//! Runs the engine over captures.

mod application;
mod charts;
mod conflicts;
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
mod part;
mod plan;
mod probe;
mod record_sums;
mod records;
mod role;
mod select;
mod setup;
mod source;
mod tables;

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use flowloom::apps::EndedFlow;
use flowloom::engine::{Control, Fault};
use flowloom::traffic::capture::Notice;

use crate::args::Common;
use crate::args::replay::Replay;
use crate::background::{self, ReloadCounts};
use crate::exit::{Failure, Status, check_decodable};
use crate::flow_file::{Destination, FlowWriter, Opened};
use crate::pace::{Look, Pace};
use crate::part_file;
use crate::progress::{Progress, label};
use crate::render::reasons::warn_of_full_table;
use crate::render::replay::{RecordFigures, ReplayResult, VerifyFigures};
use crate::render::save::save;
use crate::render::{counted, print, print_aside, say_error, warn, warn_of, warn_of_unchanged};

pub(crate) use firewall::{Origin, Rules};
pub(crate) use l7::load_patterns;
pub(crate) use look::look;
pub(crate) use outputs::capture_sink;
pub(crate) use select::{Selected, Selection};
pub(crate) use setup::set_options;

use figures::{Rest, figures};
use plan::{Ended, Plan};
use record_sums::RecordSums;
use records::{AnySink as _, Kept, Records};
use role::Ran;

/// Runs the command.
pub(crate) fn run(arguments: &Replay, common: &Common) -> Result<Status, Failure> {
    #[cfg(feature = "arrow")]
    if let Some(to) = &arguments.packets {
        return packets::run(arguments, to);
    }
    let mut plan = Plan::of_run(arguments, common)?;
    let around = Around::start(&mut plan, common)?;
    let application = Rc::clone(&plan.application);
    let mut kept = Kept::from_arguments(arguments);
    let fragments = arguments.fragments.then(|| plan.outputs.flows.take()).flatten();
    let mut records = records_of(&mut plan);
    // Only these need all records at once.
    let keeps_records =
        arguments.verify || arguments.sort || arguments.fragments || arguments.save_part.is_some();
    let sink = (!keeps_records).then_some(&mut records as _);
    let mut packets = plan.outputs.sink.take();
    let packet_sink = packets.as_mut().map(|sink| sink as _);
    let ended = plan.run(&*application, &around.control, packet_sink, sink, &mut kept);
    plan.outputs.sink = packets;
    let (control, reloads, looks) = around.stop();
    let Ended { ran, passed_over, outside, range } = ended?;
    if let Some(why) = outside {
        warn(&why, common);
    }

    let written = finish_records(&plan, &ran, &mut records, keeps_records, common);
    if has_seen_enough(&plan, &ran) {
        return Err(Failure::BrokenPipe);
    }
    check_input(&plan, &ran)?;
    // Read the figures now, because the oracle runs its own application and probe.
    let tcb_cache = plan.probe.as_ref().map(probe::Probe::figures);
    let rules = plan.rules.as_ref();
    let firewall = rules.map(|rules| rules.figures(arguments.firewall.top_rules, reloads.get()));
    let l7 = application.l7().zip(records.labels.take()).map(|(plan, labels)| labels.figures(plan));
    let verified = plan.verify(&ran, &control)?;
    plan.warn_of_cut_contents(&ran.report, common);
    let rest = Rest {
        passed_over,
        verified,
        tcb_cache,
        firewall,
        l7,
        records: written.figures,
        records_times_back: records.times_back,
        records_lost: written.lost,
        sums: records.sums.take(),
        read_share: read_share(&plan),
    };
    let result = figures(&plan, &ran, rest);
    for notice in plan.source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    let (files, limits) = (plan.source.files(), plan.options.capture.limits);
    plan.outputs.warn_of_left_behind(arguments, &files, limits, common);
    // An error in printing the result must not lose the flows, and the reverse.
    let kept = save_kept(&mut plan, &ran, kept, range, fragments);
    let saved = save_page(arguments, &result, &looks, common);
    print_result(arguments, &result, common)?;
    written.outcome?;
    kept?;
    saved?;
    Ok(status(&plan, &ran, &result, common))
}

/// The services that accompany a run: its control, reloads, and what people see meanwhile.
struct Around {
    control: Arc<Control>,
    reloads: Arc<ReloadCounts>,
    progress: Progress,
    pace: Option<Pace>,
}

impl Around {
    fn start(plan: &mut Plan<'_>, common: &Common) -> Result<Self, Failure> {
        let arguments = plan.arguments;
        let listener = background::listen(arguments.listen, arguments.listen_publicly, common)?;
        let control = Arc::new(Control::default());
        plan.source.stop_with(&control);
        plan.outputs.keep_details(arguments, &plan.source.paths(), plan.options, &plan.config, &control)?;
        let rules = plan.rules.as_ref();
        let reload = rules.and_then(|rules| rules.reload(arguments.verify, common.quiet > 1));
        let workers = (plan.config.layout.workers(), &[][..]);
        let reloads = background::start(&control, workers, rules.map(Rules::live), reload, listener)?;
        let title = format!("replay  {}", input_name(arguments));
        let progress =
            Progress::start(title, plan.source.progress(), Arc::clone(&control), common.quiet > 0);
        let pace = arguments.save.save.is_some().then(|| Pace::start(Arc::clone(&control))).flatten();
        Ok(Self { control, reloads, progress, pace })
    }

    fn stop(self) -> (Arc<Control>, Arc<ReloadCounts>, Vec<Look>) {
        drop(self.progress);
        (self.control, self.reloads, self.pace.map(Pace::stop).unwrap_or_default())
    }
}

fn input_name(arguments: &Replay) -> String {
    arguments.live.iface.clone().unwrap_or_else(|| label(&arguments.inputs))
}

/// Returns the share of the input that was read, if its size is known.
fn read_share(plan: &Plan<'_>) -> Option<f64> {
    let progress = plan.source.progress();
    match progress.total_bytes() {
        0 => None,
        total => Some(progress.done_bytes() as f64 / total as f64),
    }
}

/// Fails if no packet of the input can be decoded.
fn check_input(plan: &Plan<'_>, ran: &Ran<'_>) -> Result<(), Failure> {
    let arguments = plan.arguments;
    if let Some(Fault::Source { packets, error }) = &ran.report.fault {
        check_decodable(*packets, error)?;
    }
    // Another part may have packets that can be decoded.
    if ran.report.fault.is_none() && arguments.limit.is_some() && !arguments.is_part() {
        plan.source.check_decodable()?;
    }
    Ok(())
}

/// Returns what the run does with records.
fn records_of(plan: &mut Plan<'_>) -> Records {
    let Plan { arguments, .. } = *plan;
    let records = plan.records.clone();
    let mut file = plan.outputs.flows.take().map(|opened| FlowWriter::new(opened, records));
    let selects = arguments.record_filter.is_some()
        || arguments.live.filter.is_some()
        || arguments.from.is_some()
        || arguments.to.is_some();
    if let Some(file) = file.as_mut().filter(|_| selects && arguments.live.iface.is_none()) {
        file.keep_old_if_empty();
    }
    let sums = arguments.save.save.is_some().then(RecordSums::default);
    let labels = plan.application.l7().map(|_| l7::Labels::default());
    let times_back = plan.application.keeps_account().then_some(0);
    Records { file, is_awaited: arguments.live.iface.is_some(), labels, times_back, sums }
}

/// Returns whether the records went to a reader that has closed its pipe, and nothing else was to
/// be written.
fn has_seen_enough(plan: &Plan<'_>, ran: &Ran<'_>) -> bool {
    let arguments = plan.arguments;
    let Some(Fault::Records { error }) = &ran.report.fault else { return false };
    let first: &(dyn std::error::Error + 'static) = &*error.0;
    let mut causes = std::iter::successors(Some(first), |error| error.source());
    let is_closed = causes.any(|error| {
        let error = error.downcast_ref::<std::io::Error>();
        error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
    });
    let others = [&arguments.write, &arguments.save_part, &arguments.save.save];
    is_closed && is_to_standard_output(arguments) && others.iter().all(|path| path.is_none())
}

/// Returns whether the records go to standard output.
fn is_to_standard_output(arguments: &Replay) -> bool {
    arguments.flows.as_ref().is_some_and(|path| {
        Destination::parse(path, arguments.flows_format).is_ok_and(|flows| flows.is_standard_output())
    })
}

/// What became of the records that a run was to write.
struct Written {
    outcome: Result<(), Failure>,
    figures: Option<RecordFigures>,
    /// Records that are known to be lost.
    lost: u64,
}

/// Writes the remaining records, and warns of lost ones.
fn finish_records(
    plan: &Plan<'_>,
    ran: &Ran<'_>,
    records: &mut Records,
    keeps_records: bool,
    common: &Common,
) -> Written {
    let outcome = match &ran.report.fault {
        Some(Fault::Records { error }) => Err(error.to_string()),
        // In the order of keys.
        _ if keeps_records => {
            let mut write = |record: &dyn EndedFlow| records.take(record).map_err(std::io::Error::other);
            ran.results.each(&mut write).map_err(|error| error.to_string())
        }
        _ => Ok(()),
    };
    let losses: Vec<_> = plan.source.files().iter().flat_map(|file| file.losses.clone()).collect();
    let outcome = outcome.and_then(|()| records.finish(&losses).map_err(|error| error.to_string()));
    let path = plan.arguments.flows.as_deref().unwrap_or(Path::new("--flows"));
    let Some(file) = &records.file else {
        let failed = |error| Failure::Output(format!("cannot write flows to {}: {error}", path.display()));
        return Written { outcome: outcome.map_err(failed), figures: None, lost: 0 };
    };
    let counts = file.counts();
    let (ended, engine_lost) = ran
        .report
        .records
        .as_ref()
        .map_or((ran.flows, 0), |records| (records.written + records.lost, records.lost));
    let figures = RecordFigures::new(path.display().to_string(), ended, counts, file.filter_counts());
    // After an error of the file, records that were in buffers are lost too.
    let lost = if outcome.is_ok() { engine_lost + counts.refused } else { figures.lost };
    counts.warn_of_refused(common);
    if figures.unchanged {
        warn_of_unchanged("record", path);
    }
    let remains = file.remains().map_or(String::new(), |rest| format!("\n  {rest}"));
    let outcome = outcome.map_err(|error| {
        Failure::Output(format!("cannot write flows to {}: {error}{remains}", path.display()))
    });
    Written { outcome, figures: Some(figures), lost }
}

/// Saves what the run has kept for a part.
fn save_kept(
    plan: &mut Plan<'_>,
    ran: &Ran<'_>,
    kept: Kept,
    range: Option<part_file::Range>,
    fragments: Option<Opened>,
) -> Result<(), Failure> {
    match kept {
        Kept::File(records) => match (&plan.arguments.save_part, plan.outputs.part.take()) {
            (Some(path), Some(file)) => part::save(&part::header(plan, ran, range)?, &records, &file, path),
            _ => Ok(()),
        },
        #[cfg(feature = "arrow")]
        Kept::Rows(rows) => match fragments {
            Some(opened) => {
                let header = part::header(plan, ran, range)?;
                fragments::write(&plan.config, ran, &rows, (opened, plan.records.clone()), header)
            }
            None => Ok(()),
        },
        Kept::Nothing => Ok(()),
    }
}

/// Saves the result as a page, if the user asks for it.
fn save_page(
    arguments: &Replay,
    result: &ReplayResult,
    looks: &[Look],
    common: &Common,
) -> Result<(), Failure> {
    let Some(folder) = &arguments.save.save else { return Ok(()) };
    let title = format!("replay of {}", input_name(arguments));
    save(folder, &title, result, &charts::charts(result, looks), common)
}

/// Prints the result, where records do not go.
fn print_result(arguments: &Replay, result: &ReplayResult, common: &Common) -> Result<(), Failure> {
    let on_standard_output = is_to_standard_output(arguments);
    let printed = if on_standard_output { print_aside(result, common) } else { print(result, common) };
    match printed {
        // A reader that closes the pipe early has seen enough of the result, but still gets the
        // exit status.
        Err(Failure::BrokenPipe) => Ok(()),
        printed => printed,
    }
}

/// Returns the status of a run, and says why it is not 0.
fn status(plan: &Plan<'_>, ran: &Ran<'_>, result: &ReplayResult, common: &Common) -> Status {
    let arguments = plan.arguments;
    if arguments.verify && result.verify.is_none() {
        return Status::Interrupted;
    }
    if let Some(fault) = &result.fault {
        let remains = match &ran.report.fault {
            Some(Fault::Sink { .. }) => plan.outputs.remains().zip(arguments.write.as_deref()),
            _ => None,
        };
        // The fault concerns writing of packets or records.
        let is_output = matches!(ran.report.fault, Some(Fault::Sink { .. } | Fault::Records { .. }));
        let status = if is_output { Status::Output } else { Status::Fault };
        let remains =
            remains.map_or(String::new(), |(rest, path)| format!("\n  {}: {rest}", path.display()));
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
    warn_of_full_table(&result.no_result, result.packets, common);
    if let Some(firewall) = &result.firewall {
        firewall.warn_of_denied(common);
    }
    if !result.balanced {
        warn("packets and drops do not add up: this is a bug in flowloom, please report it", common);
        return Status::CheckFailed;
    }
    if arguments.strict && plan.source.notices().iter().any(Notice::is_partial_input) {
        return Status::PartialInput;
    }
    Status::Ok
}

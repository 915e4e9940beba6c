//! Runs accounting over captures for commands that examine records. It writes no output itself.

use std::rc::Rc;
use std::sync::Arc;

use flowloom::apps::accounting::fields::FieldMemory;
use flowloom::engine::{Control, Fault, PacketSink};
use flowloom::record::NO_MEMORY;
use flowloom::traffic::capture::Notice;

use super::plan::{Ended, Plan};
use super::records::{Kept, Show, Shown};
use crate::args::Common;
use crate::args::replay::Replay;
use crate::exit::{Failure, check_decodable};
use crate::progress::{Progress, label};
use crate::record_view::FilterCounts;
use crate::render::encapsulations::Encapsulations;
use crate::render::reasons::{NoResult, warn_of_full_table};
use crate::render::{counted, warn, warn_of};
use crate::signals::stop_on_signals;

/// The results of a run other than its records.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    pub(crate) packets: u64,
    /// Packets that --filter, --from and --to rejected.
    pub(crate) passed_over: u64,
    /// Packets that belong to no record, by reason.
    pub(crate) no_result: NoResult,
    /// Whether ICMP errors belong to the flows that they concern, because rules ask for states.
    pub(crate) errors_by_flow: bool,
    /// Counts of --where, if it was given.
    pub(crate) filtered: Option<FilterCounts>,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) notices: Vec<String>,
    /// Part of an input could not be used.
    pub(crate) is_partial: bool,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<String>,
}

/// Passes the records that match the filter of the arguments to `show`, as flows end, and the
/// packets that the rules accept to `packets`. With `--app l7` it also passes the protocol labels
/// of records. `verb` appears before the progress bar.
///
/// # Errors
///
/// Returns [`Failure`] for contradictory arguments, and for input that cannot be read.
pub(crate) fn look(
    arguments: &Replay,
    common: &Common,
    verb: &str,
    packets: Option<&mut (dyn PacketSink + Send)>,
    show: Show<'_>,
) -> Result<Looked, Failure> {
    let mut plan = Plan::of_records(arguments, common)?;
    let control = Arc::new(Control::default());
    plan.source.stop_with(&control);
    stop_on_signals(&control);
    let title = format!("{verb}  {}", label(&arguments.inputs));
    let progress = Progress::start(title, plan.source.progress(), Arc::clone(&control), common.quiet > 0);
    let mut shown = Shown { view: plan.records.view(), show };
    let application = Rc::clone(&plan.application);
    let ended = plan.run(&*application, &control, packets, Some(&mut shown), &mut Kept::Nothing);
    drop(progress);
    let Ended { ran, passed_over, outside, .. } = ended?;
    if let Some(why) = outside {
        warn(&why, common);
    }
    let (report, source) = (&ran.report, &plan.source);
    if let Some(Fault::Source { packets, error }) = &report.fault {
        check_decodable(*packets, error)?;
    }
    if report.fault.is_none() && arguments.limit.is_some() {
        source.check_decodable()?;
    }
    if let Some(dropped @ 1..) = application.field_memory().map(FieldMemory::dropped) {
        let fields = counted(dropped, "field");
        warn(&format!("{fields} dropped for lack of memory: --where sees {NO_MEMORY}"), common);
    }
    let no_result = NoResult::new(&report.dropped());
    warn_of_full_table(&no_result, report.input.packets, common);
    plan.warn_of_cut_contents(report, common);
    if let Some(rules) = &plan.rules {
        rules.figures(0, (0, 0)).warn_of_denied(common);
    }
    for notice in source.notices() {
        warn_of(notice, arguments.strict, common);
    }
    let lengths: Vec<String> = Encapsulations::new(&report.input.encapsulations).length_lines().collect();
    for line in &lengths {
        warn(line.trim_start_matches("Noted       "), common);
    }
    Ok(Looked {
        packets: report.input.packets,
        passed_over,
        no_result,
        errors_by_flow: plan.config.decode.errors_by_flow,
        filtered: shown.view.counts(),
        first_ns: report.input.first_ns,
        last_ns: report.input.last_ns,
        notices: source.notices().iter().map(ToString::to_string).chain(lengths).collect(),
        is_partial: source.notices().iter().any(Notice::is_partial_input),
        interrupted: report.interrupted,
        fault: report.fault.as_ref().map(ToString::to_string),
    })
}

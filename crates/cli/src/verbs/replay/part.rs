//! The part of a larger input: what it says of itself, and its file.

use std::path::Path;

use super::plan::Plan;
use super::role::Ran;
use crate::exit::Failure;
use crate::output::OutputFile;
use crate::part_file::{self, Header, Settings};

/// Returns what a part says of itself.
///
/// # Errors
///
/// Returns [`Failure`] if the run did not read its part to the end.
pub(super) fn header(
    plan: &Plan<'_>,
    ran: &Ran<'_>,
    range: Option<part_file::Range>,
) -> Result<Header, Failure> {
    let (arguments, report) = (plan.arguments, &ran.report);
    if report.interrupted || report.fault.is_some() || (arguments.byte_range().is_some() && range.is_none())
    {
        let text = String::from("no part is saved: the run did not finish");
        return Err(if report.interrupted { Failure::Interrupted(text) } else { Failure::Output(text) });
    }
    let settings = Settings {
        app: plan.application.name().to_owned(),
        idle_timeout_ns: arguments.timeout,
        active_timeout_ns: arguments.active_timeout,
        decoding: arguments.decoding.words(),
        selection: arguments.live.filter.iter().map(|filter| format!("--filter {filter}")).collect(),
    };
    let inputs = arguments.inputs.iter().map(|path| path.display().to_string()).collect();
    let mut header = Header::new(settings, arguments.part, inputs, &report.input, &report.worker_totals());
    header.range = range;
    header.times = plan.selection.as_ref().and_then(super::Selection::times_of_part);
    header.notices = plan.source.notices().iter().map(ToString::to_string).collect();
    // The merge counts the live flows that have ended.
    header.flows_expired -= report.timed_out_at_end;
    Ok(header)
}

/// Writes the states of the flows as a part.
///
/// # Errors
///
/// Returns [`Failure::Output`] if the file cannot be written.
pub(super) fn save(
    header: &Header,
    records: &part_file::Records,
    file: &OutputFile,
    path: &Path,
) -> Result<(), Failure> {
    part_file::write(file, header, records)
        .map_err(|error| Failure::Output(format!("cannot write the part to {}: {error}", path.display())))
}

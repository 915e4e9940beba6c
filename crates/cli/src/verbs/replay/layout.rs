//! Selects the layout of a run, with the reason.

use flowloom::cpu::topology::allowed_cpus;
use flowloom::engine::{ConfigError, Layout, Pace};
use flowloom::traffic::capture::{CaptureParts, CaptureSet, Input, PlanError, SetOptions};

use super::conflicts;
use super::source::{CaptureRange, Source};
use crate::args::replay::{LayoutName, Replay};
use crate::exit::Failure;
use crate::render::counted;

/// The layout of a run, and its input.
pub(super) struct Planned {
    pub(super) layout: Layout,
    pub(super) source: Source,
    /// The reason why it is not the usual layout for the arguments.
    pub(super) why: Option<String>,
}

/// Minimum size of captures for which all CPUs are used by default. One thread reads a smaller
/// input in a few milliseconds.
const ALL_CPUS_FROM_BYTES: u64 = 16 << 20;
/// Maximum number of workers by default.
const WORKERS_MAX: usize = 16;

/// Opens the input in the requested layout, or in the most suitable one.
pub(super) fn plan(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Planned, Failure> {
    let cpus = allowed_cpus().map_or(2, |cpus| cpus.len());
    let source = open(arguments, inputs, options)?;
    let pipeline = || {
        let workers = arguments.workers.unwrap_or(cpus.saturating_sub(1).clamp(1, WORKERS_MAX));
        Layout::Pipeline { workers }
    };
    let asks_pipeline = conflicts::pipeline_asked_by(arguments);
    let (layout, why) = match (arguments.layout, arguments.workers) {
        (Some(LayoutName::Inline), _) => (Layout::Inline, None),
        (Some(LayoutName::Pipeline), _) => (pipeline(), None),
        (Some(LayoutName::Sharded), workers) => (sharded(workers.unwrap_or(cpus.min(WORKERS_MAX)))?, None),
        (None, Some(1)) if asks_pipeline.is_none() => (Layout::Inline, None),
        (None, Some(workers)) => match asks_pipeline {
            Some(why) => (pipeline(), Some(why.to_owned())),
            None => (sharded(workers)?, None),
        },
        (None, None) => {
            let is_long = source.bytes_on_disk().is_none_or(|bytes| bytes >= ALL_CPUS_FROM_BYTES);
            let is_paced = arguments.speed != Pace::Max;
            let is_usual = asks_pipeline.is_none() && !is_paced && matches!(source, Source::Captures(_));
            // Workers on all CPUs would slow down the thread that they wait for.
            let workers = || (cpus - usize::from(source.is_read_apart() && cpus > 1)).min(WORKERS_MAX);
            let workers = if is_usual && is_long { workers() } else { 1 };
            let is_sharded = workers > 1;
            (if is_sharded { Layout::Sharded { workers } } else { Layout::Inline }, None)
        }
    };
    Ok(Planned { layout, source, why })
}

fn sharded(workers: usize) -> Result<Layout, Failure> {
    if workers == 0 || workers > Layout::WORKERS_MAX {
        let max = Layout::WORKERS_MAX;
        return Err(Failure::Usage(ConfigError::Workers { workers, max }.to_string()));
    }
    Ok(Layout::Sharded { workers })
}

/// Opens the input.
fn open(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Source, Failure> {
    if let Some(range) = arguments.byte_range() {
        return of_range(inputs, options, range.clone());
    }
    if arguments.bytes.is_empty() {
        Source::open(arguments, inputs, options)
    } else {
        of_ranges(arguments, inputs, options)
    }
}

/// Opens a range of a capture.
fn of_range(inputs: &[Input], options: SetOptions, range: std::ops::Range<u64>) -> Result<Source, Failure> {
    let [input @ Input::Path(path)] = inputs else {
        return Err(Failure::Usage(String::from("--bytes is for one capture, in a file\n  name one")));
    };
    if path.is_dir() {
        return Err(Failure::Usage(format!("--bytes is for one capture, {} is a folder", path.display())));
    }
    match CaptureParts::range(input.clone(), options, range) {
        Ok(range) => Ok(Source::Range(Box::new(CaptureRange::new(range)?))),
        Err(PlanError::NotCuttable(why)) => {
            Err(Failure::Usage(format!("--bytes cannot be used: {why}\n  leave it away")))
        }
        Err(PlanError::Capture(error)) => Err(error.into()),
        Err(error) => Err(Failure::Input(error.to_string())),
    }
}

/// Opens ranges of captures, which are merged by time.
fn of_ranges(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Source, Failure> {
    if arguments.bytes.len() != inputs.len() {
        return Err(Failure::Usage(format!(
            "--bytes is given {} for {}\n  give one for each capture, in their order; .. takes all of it",
            counted(arguments.bytes.len() as u64, "time"),
            counted(inputs.len() as u64, "input"),
        )));
    }
    let ranges: Vec<_> = arguments.bytes.iter().map(|extent| extent.0.clone()).collect();
    match CaptureSet::open_ranges(inputs, &ranges, options) {
        Ok(set) => Ok(Source::Captures(Box::new(set))),
        Err(PlanError::NotCuttable(why)) => {
            Err(Failure::Usage(format!("--bytes cannot be used: {why}\n  write .. for this capture")))
        }
        Err(PlanError::Capture(error)) => Err(error.into()),
        Err(error) => Err(Failure::Input(error.to_string())),
    }
}

//! Selects the layout of a run, with the reason.

use flowloom::cpu::topology::allowed_cpus;
use flowloom::engine::{ConfigError, Layout, Pace, PartSupport};
use flowloom::traffic::capture::{CaptureParts, CaptureSet, Input, NotCuttable, PlanError, SetOptions};

use super::source::Source;
use crate::args::replay::{LayoutName, Replay, TableName};
use crate::exit::Failure;
use crate::memory_budget::Budget;
use crate::render::counted;

/// The layout of a run, and its input.
pub(super) struct Planned {
    pub(super) layout: Layout,
    pub(super) source: Source,
    /// The reason why it is not the usual layout for the arguments.
    pub(super) why: Option<String>,
}

/// Opens the input in the requested layout, or in the most suitable one.
pub(super) fn plan(
    arguments: &Replay,
    inputs: &[Input],
    options: SetOptions,
    support: PartSupport,
) -> Result<Planned, Failure> {
    let cpus = allowed_cpus().map_or(2, |cpus| cpus.len());
    let one = |layout, why| {
        let source = Source::open(arguments, inputs, options)?;
        Ok(Planned { layout, source, why })
    };
    let pipeline = |why| {
        let workers = arguments.workers.unwrap_or(cpus.saturating_sub(1).clamp(1, 16));
        one(Layout::Pipeline { workers }, why)
    };
    match (arguments.layout, arguments.workers) {
        (Some(LayoutName::Inline), Some(_)) => Err(Failure::Usage(String::from(
            "--layout inline has no workers\n  omit --workers, or use another layout",
        ))),
        (Some(LayoutName::Inline | LayoutName::Pipeline), _) if arguments.is_part() => Err(Failure::Usage(
            format!("{} needs the sharded layout\n  omit --layout", arguments.part_option()),
        )),
        (Some(LayoutName::Inline), None) => one(Layout::Inline, None),
        (None, None) if !arguments.is_part() => one(Layout::Inline, None),
        (Some(LayoutName::Pipeline), _) => pipeline(None),
        (asked, workers) => {
            let is_explicit = asked.is_some() || arguments.is_part();
            let workers = workers.or(asked.is_none().then_some(1));
            let refused = |why: String| {
                if is_explicit {
                    return Err(Failure::Usage(format!(
                        "{} cannot be used: {why}\n  use --layout pipeline, or inline",
                        if arguments.is_part() { arguments.part_option() } else { "--layout sharded" }
                    )));
                }
                pipeline(Some(why))
            };
            if let Some(why) = obstacle(arguments, support) {
                return refused(why);
            }
            if let Some(range) = arguments.byte_range() {
                return of_range(arguments, inputs, options, range.clone());
            }
            if !arguments.bytes.is_empty() || (arguments.is_part() && arguments.is_part_by_time()) {
                return of_captures(arguments, inputs, options);
            }
            let is_one = arguments.is_part() && workers == Some(1) && inputs.len() > 1;
            if is_one && !arguments.concat && CaptureParts::overlap(inputs, options)?.files > 0 {
                return one(Layout::Sharded { workers: 1 }, None);
            }
            let one_part = |why: NotCuttable| match CaptureParts::plan(inputs, options, 1) {
                Ok(parts) => Ok(Planned {
                    layout: Layout::Sharded { workers: 1 },
                    source: Source::of_parts(arguments, parts)?,
                    why: Some(why.to_string()),
                }),
                Err(PlanError::Capture(error)) => Err(error.into()),
                Err(error) => Err(Failure::Input(error.to_string())),
            };
            let workers = workers.unwrap_or(cpus);
            if workers == 0 || workers > Layout::WORKERS_MAX {
                let max = Layout::WORKERS_MAX;
                return Err(Failure::Usage(ConfigError::Workers { workers, max }.to_string()));
            }
            match CaptureParts::plan(inputs, options, workers) {
                Ok(parts) => {
                    let workers = parts.len();
                    let rounds = rounds(arguments, &parts);
                    let parts = match CaptureParts::plan(inputs, options, workers * rounds) {
                        Ok(smaller) if rounds > 1 => smaller,
                        _ => parts,
                    };
                    let workers = workers.min(parts.len());
                    Ok(Planned {
                        layout: Layout::Sharded { workers },
                        source: Source::of_parts(arguments, parts)?,
                        why: None,
                    })
                }
                // An input this short is read just as fast in one part.
                Err(PlanError::NotCuttable(why @ NotCuttable::NoBoundary { .. })) => one_part(why),
                Err(PlanError::NotCuttable(why @ NotCuttable::Compressed { .. })) if is_explicit => {
                    one_part(why)
                }
                Err(PlanError::NotCuttable(why)) => refused(why.to_string()),
                Err(PlanError::Capture(error)) => Err(error.into()),
                Err(error) => Err(Failure::Input(error.to_string())),
            }
        }
    }
}

/// Maximum size of a part in bytes, if records are written during the run.
const PART_BYTES: u64 = 512 << 20;
/// The parts that are read at the same time have at most this part of the memory. The records of
/// usual traffic take a tenth of its bytes.
const PARTS_OF_MEMORY: u64 = 2;

/// Returns how many parts each worker reads. Records of ended flows wait until their part is
/// composed, so a large input that writes them has parts of a bounded size. Without a timeout all
/// flows live until the end, and more parts would be useless.
fn rounds(arguments: &Replay, parts: &CaptureParts) -> usize {
    let timeouts = [arguments.timeout, arguments.active_timeout, arguments.closed_timeout];
    let is_streamed = arguments.flows.is_some() && !arguments.is_part();
    if !is_streamed || timeouts.iter().all(Option::is_none) {
        return 1;
    }
    let memory = Budget::of_free(arguments.memory).bytes();
    let at_once = (PART_BYTES * parts.len() as u64).min(memory / PARTS_OF_MEMORY).max(1);
    let rounds = parts.bytes_on_disk().div_ceil(at_once);
    usize::try_from(rounds).unwrap_or(usize::MAX).clamp(1, CaptureParts::PARTS_MAX / parts.len())
}

/// Plans a range of a capture.
fn of_range(
    arguments: &Replay,
    inputs: &[Input],
    options: SetOptions,
    range: std::ops::Range<u64>,
) -> Result<Planned, Failure> {
    let [input @ Input::Path(path)] = inputs else {
        return Err(Failure::Usage(String::from("--bytes is for one capture, in a file\n  name one")));
    };
    if path.is_dir() {
        return Err(Failure::Usage(format!("--bytes is for one capture, {} is a folder", path.display())));
    }
    match CaptureParts::range(input.clone(), options, range) {
        Ok(part) => {
            let source = Source::of_parts(arguments, part)?;
            Ok(Planned { layout: Layout::Sharded { workers: 1 }, source, why: None })
        }
        Err(PlanError::NotCuttable(why)) => {
            Err(Failure::Usage(format!("--bytes cannot be used: {why}\n  leave it away")))
        }
        Err(PlanError::Capture(error)) => Err(error.into()),
        Err(error) => Err(Failure::Input(error.to_string())),
    }
}

/// Opens captures, or ranges of them, that are merged by time into one part.
fn of_captures(arguments: &Replay, inputs: &[Input], options: SetOptions) -> Result<Planned, Failure> {
    let keeps = arguments.fragments || arguments.save_part.is_some();
    let layout = if keeps { Layout::Sharded { workers: 1 } } else { Layout::Inline };
    if arguments.bytes.is_empty() {
        return Ok(Planned { layout, source: Source::open(arguments, inputs, options)?, why: None });
    }
    if arguments.bytes.len() != inputs.len() {
        return Err(Failure::Usage(format!(
            "--bytes is given {} for {}\n  give one for each capture, in their order; .. takes all of it",
            counted(arguments.bytes.len() as u64, "time"),
            counted(inputs.len() as u64, "input"),
        )));
    }
    let ranges: Vec<_> = arguments.bytes.iter().map(|extent| extent.0.clone()).collect();
    match CaptureSet::open_ranges(inputs, &ranges, options) {
        Ok(set) => Ok(Planned { layout, source: Source::Captures(Box::new(set)), why: None }),
        Err(PlanError::NotCuttable(why)) => {
            Err(Failure::Usage(format!("--bytes cannot be used: {why}\n  write .. for this capture")))
        }
        Err(PlanError::Capture(error)) => Err(error.into()),
        Err(error) => Err(Failure::Input(error.to_string())),
    }
}

/// Returns the reason why the sharded layout is impossible for any input.
fn obstacle(arguments: &Replay, support: PartSupport) -> Option<String> {
    if let PartSupport::Never(why) = support {
        return Some(String::from(why));
    }
    let asked = [
        (arguments.live.iface.is_some(), "an interface is read by one thread"),
        (arguments.scheduler.is_some(), "--scheduler is for the pipeline"),
        (arguments.order.is_some(), "--order is for the pipeline"),
        (arguments.topology.is_some(), "--topology is for the pipeline"),
        (arguments.full.is_some(), "--full is for the pipeline"),
        (arguments.ring.is_some(), "--ring is for the pipeline"),
        (arguments.write.is_some(), "--write needs the packets of all parts in one sequence"),
        (arguments.speed != Pace::Max, "--speed needs a single reader"),
        (arguments.defrag, "--defrag needs all fragments in one sequence"),
        (arguments.firewall.watch_rules, "--watch-rules could replace rules between the parts"),
        (arguments.table != TableName::Linehash, "it supports --table linehash only"),
    ];
    asked.into_iter().find(|(is_asked, _)| *is_asked).map(|(_, why)| String::from(why))
}

//! Merges parts into the result of one run over all of them.

#[cfg(feature = "arrow")]
mod fragments;

use std::path::{Path, PathBuf};

use flowloom::apps::accounting::Accounted;
use flowloom::apps::{Accounting, NoState, RecordState, SaveState, TcpFlow};
use flowloom::engine::{Composed, FlowState, IdleTimeout, MergedParts, merge_parts};
use flowloom::record::GroupSet;

use crate::args::Common;
use crate::args::merge::Merge;
use crate::exit::{Failure, Status};
use crate::flow_file::{Destination, FlowWriter};
use crate::part_file::{self, Header, PartFile, PartNumber, Settings};
use crate::record_view::{FieldGroups, RecordPlan};
use crate::render::merge::{MergeResult, PartFigures};
use crate::render::replay::RecordFigures;
use crate::render::{counted, print, print_aside, warn_of_unchanged};

/// Runs the command.
pub(crate) fn run(arguments: &Merge, common: &Common) -> Result<Status, Failure> {
    if let (Some(fragments), Some(list), Some(flows)) =
        (&arguments.fragments, &arguments.parts_list, &arguments.flows)
    {
        #[cfg(feature = "arrow")]
        return fragments::run(fragments, list, (flows, arguments.flows_format));
        #[cfg(not(feature = "arrow"))]
        return Err(Failure::Usage(format!(
            "--fragments {}: this flowloom was built without Arrow\n  build it with --features arrow",
            fragments.display()
        )));
    }
    let mut parts = Vec::with_capacity(arguments.parts.len());
    for path in &arguments.parts {
        let part = part_file::read(path)
            .map_err(|why| Failure::Input(format!("cannot read the part {}: {why}", path.display())))?;
        parts.push((path.clone(), part));
    }
    let settings = agreed(parts.iter().map(|(path, part)| (path.display().to_string(), &part.header)))?;
    in_order(&mut parts, arguments.incomplete)?;
    let active_ns = settings.active_timeout_ns;
    match settings.app.as_str() {
        "null" => merge::<NoState>(arguments, common, parts, &settings, FlowState::compose),
        "tcp-tracker" => merge::<TcpFlow>(arguments, common, parts, &settings, FlowState::compose),
        "accounting" => {
            let accounting = Accounting::new(active_ns);
            let compose = |flow: &mut _, later: &mut _| accounting.compose(flow, later);
            merge::<Accounted>(arguments, common, parts, &settings, compose)
        }
        app => Err(Failure::Input(format!("parts of the application '{app}' cannot be merged"))),
    }
}

/// Returns the settings of all parts, which must be the same, and of which there must be one.
fn agreed<'a>(parts: impl IntoIterator<Item = (String, &'a Header)>) -> Result<Settings, Failure> {
    let mut parts = parts.into_iter();
    let (first, header) =
        parts.next().ok_or_else(|| Failure::Input(String::from("there are no parts to merge")))?;
    let settings = &header.settings;
    for (path, other) in parts {
        if other.settings != *settings {
            return Err(Failure::Input(format!(
                "parts of different runs cannot be merged\n  {first}: {settings:?}\n  {path}: {:?}",
                other.settings
            )));
        }
    }
    Ok(settings.clone())
}

/// Sorts parts by their numbers, or by their times if they have none.
fn in_order(parts: &mut [(PathBuf, PartFile)], incomplete: bool) -> Result<(), Failure> {
    let numbers: Vec<PartNumber> = parts.iter().filter_map(|(_, part)| part.header.part).collect();
    if numbers.is_empty() {
        parts.sort_by_key(|(_, part)| part.header.first_ns);
        return Ok(());
    }
    let of = numbers[0].of;
    if numbers.len() < parts.len() || numbers.iter().any(|number| number.of != of) {
        return Err(Failure::Input(String::from(
            "the parts are numbered inconsistently\n  give each a --part K/N with the same N",
        )));
    }
    parts.sort_by_key(|(_, part)| part.header.part);
    for pair in parts.windows(2) {
        if pair[0].1.header.part == pair[1].1.header.part {
            return Err(Failure::Input(format!(
                "parts overlap: {} and {} are both part {}",
                pair[0].0.display(),
                pair[1].0.display(),
                numbers.first().map_or(String::new(), |_| pair[0]
                    .1
                    .header
                    .part
                    .map_or(String::new(), |n| n.to_string()))
            )));
        }
    }
    if parts.len() < of as usize && !incomplete {
        let missing = (1..=of)
            .filter(|n| parts.iter().all(|(_, part)| part.header.part.is_none_or(|p| p.part != *n)));
        let missing: Vec<String> = missing.take(8).map(|n| n.to_string()).collect();
        return Err(Failure::Input(format!(
            "{} of {of} parts are missing: {}\n  --incomplete merges the others",
            of as usize - parts.len(),
            missing.join(", ")
        )));
    }
    Ok(())
}

fn merge<F: SaveState + RecordState>(
    arguments: &Merge,
    common: &Common,
    parts: Vec<(PathBuf, PartFile)>,
    settings: &Settings,
    compose: impl FnMut(&mut F, &mut F) -> Composed,
) -> Result<Status, Failure> {
    let destination = |path: &PathBuf| Destination::parse(path, arguments.flows_format);
    let destination = arguments.flows.as_ref().map(destination).transpose().map_err(Failure::Usage)?;
    let format = destination.as_ref().map(|destination| destination.format);
    let filter = arguments.record_filter.as_ref();
    let plan = RecordPlan::new(F::schema(), None, FieldGroups::default(), filter, format, GroupSet::NONE)
        .map_err(Failure::Usage)?;
    let mut figures = Vec::with_capacity(parts.len());
    let mut saved = Vec::with_capacity(parts.len());
    for (path, part) in parts {
        let (first_ns, last_ns, number) = (part.header.first_ns, part.header.last_ns, part.header.part);
        let inputs = part.header.inputs.clone();
        let part = part
            .into_part::<F>()
            .map_err(|why| Failure::Input(format!("cannot read the part {}: {why}", path.display())))?;
        figures.push(PartFigures {
            path: path.display().to_string(),
            part: number.map(|number| number.to_string()),
            inputs,
            packets: part.input.packets,
            first_ns,
            last_ns,
        });
        saved.push(part);
    }
    let idle = settings.idle_timeout_ns.map(IdleTimeout::from_ns);
    let merged = merge_parts(saved, idle, compose).map_err(|error| {
        Failure::Input(format!("{} cannot be merged: {error}", counted(figures.len() as u64, "part")))
    })?;
    let mut result = MergeResult::new(settings, figures, &merged);
    if let (Some(path), Some(destination)) = (&arguments.flows, destination) {
        let shown = path.display().to_string();
        let figures = write_flows((destination, shown), common, &merged, plan).map_err(|error| {
            Failure::Output(format!("cannot write flows to {}: {error}", path.display()))
        })?;
        result.records = Some(figures);
    }
    let is_aside = arguments.flows.as_ref().is_some_and(|path| path.as_os_str() == "-");
    let print = if is_aside { print_aside } else { print };
    print(&result, common)?;
    Ok(Status::Ok)
}

/// Writes the matching records. Returns what became of them.
fn write_flows<F: SaveState + RecordState>(
    (destination, path): (Destination, String),
    common: &Common,
    merged: &MergedParts<F>,
    plan: RecordPlan,
) -> std::io::Result<RecordFigures> {
    let mut writer = FlowWriter::new(destination.open()?, plan);
    if writer.filter_counts().is_some() {
        writer.keep_old_if_empty();
    }
    let mut written = Ok(());
    for record in &merged.flows {
        written = written.and_then(|()| writer.write(record));
    }
    if let Err(error) = written.and_then(|()| writer.finish()) {
        let remains = writer.remains().unwrap_or_default();
        return Err(std::io::Error::other(format!("{error}\n  {remains}")));
    }
    let counts = writer.counts();
    counts.warn_of_refused(common);
    let figures = RecordFigures::new(path, merged.flows.len() as u64, counts, writer.filter_counts());
    if figures.unchanged {
        warn_of_unchanged("record", Path::new(figures.path.as_deref().unwrap_or("-")));
    }
    Ok(figures)
}

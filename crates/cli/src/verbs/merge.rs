//! Merges parts into the result of one run over all of them.

use std::path::PathBuf;

use flowloom::apps::accounting::Accounted;
use flowloom::apps::{Accounting, Null, SaveState, SourceDirection, TcpTracker};
use flowloom::engine::{App, IdleTimeout, MergedParts, RecordSink, merge_parts};

use crate::args::Common;
use crate::args::merge::Merge;
use crate::exit::{Failure, Status};
use crate::flow_file::{Destination, FlowWriter, Format};
use crate::part_file::{self, PartFile, PartNumber, Settings};
use crate::record_view::{AccountOf, FieldGroups, RecordView, Where, WrittenColumns};
use crate::render::merge::{MergeResult, PartFigures};
use crate::render::replay::RecordFigures;
use crate::render::{counted, print};

/// Runs the command.
pub(crate) fn run(arguments: &Merge, common: &Common) -> Result<Status, Failure> {
    let mut parts = Vec::with_capacity(arguments.parts.len());
    for path in &arguments.parts {
        let part = part_file::read(path)
            .map_err(|why| Failure::Input(format!("cannot read the part {}: {why}", path.display())))?;
        parts.push((path.clone(), part));
    }
    let settings = agreed(&parts)?;
    in_order(&mut parts, arguments.incomplete)?;
    let active_ns = settings.active_timeout_ns;
    match settings.app.as_str() {
        "null" => merge(arguments, common, parts, &settings, Null, None),
        "tcp-tracker" => merge(arguments, common, parts, &settings, TcpTracker, None),
        "accounting" => {
            merge(arguments, common, parts, &settings, Accounting::new(active_ns), Some(itself as _))
        }
        app => Err(Failure::Input(format!("parts of the application '{app}' cannot be merged"))),
    }
}

/// Returns the settings that all parts must share.
fn agreed(parts: &[(PathBuf, PartFile)]) -> Result<Settings, Failure> {
    let (first, rest) = parts.split_first().expect("the command line requires at least one part");
    for (path, part) in rest {
        if part.header.settings != first.1.header.settings {
            return Err(Failure::Input(format!(
                "parts of different runs cannot be merged\n  {}: {:?}\n  {}: {:?}",
                first.0.display(),
                first.1.header.settings,
                path.display(),
                part.header.settings
            )));
        }
    }
    Ok(first.1.header.settings.clone())
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

fn merge<A: App<Flow: SaveState + SourceDirection>>(
    arguments: &Merge,
    common: &Common,
    parts: Vec<(PathBuf, PartFile)>,
    settings: &Settings,
    app: A,
    account: Option<AccountOf<A::Flow>>,
) -> Result<Status, Failure> {
    if let Some(path) = &arguments.flows {
        let Destination { format, .. } = Destination::of(path, None).map_err(Failure::Usage)?;
        if !matches!(format, Format::Csv | Format::Jsonl) && settings.app != "accounting" {
            return Err(Failure::Usage(format!(
                "--flows in this format needs parts of --app accounting; these are of {}",
                settings.app
            )));
        }
    }
    if arguments.record_filter.is_some() && account.is_none() {
        return Err(Failure::Usage(format!(
            "--where needs parts of --app accounting; these are of {}\n  omit --where",
            settings.app
        )));
    }
    let mut figures = Vec::with_capacity(parts.len());
    let mut saved = Vec::with_capacity(parts.len());
    for (path, part) in parts {
        let (first_ns, last_ns, number) = (part.header.first_ns, part.header.last_ns, part.header.part);
        let inputs = part.header.inputs.clone();
        let part = part
            .into_part::<A::Flow>()
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
    let merged = merge_parts(saved, idle, app).map_err(|error| {
        Failure::Input(format!("{} cannot be merged: {error}", counted(figures.len() as u64, "part")))
    })?;
    let mut result = MergeResult::new(settings, figures, &merged);
    if let Some(path) = &arguments.flows {
        let filter = arguments.record_filter.clone().map(Where);
        result.records = write_flows(path, &merged, account, filter).map_err(|error| {
            Failure::Output(format!("cannot write flows to {}: {error}", path.display()))
        })?;
    }
    print(&result, common)?;
    Ok(Status::Ok)
}

/// Writes the matching records. Returns the counts of the filter, if there is one.
fn write_flows<F: SaveState + SourceDirection>(
    path: &std::path::Path,
    merged: &MergedParts<F>,
    account: Option<AccountOf<F>>,
    filter: Option<Where>,
) -> std::io::Result<Option<RecordFigures>> {
    let opened = Destination::of(path, None).map_err(std::io::Error::other)?.open()?;
    let groups = FieldGroups::default();
    let state = account.is_none().then_some(F::COLUMNS);
    let columns = WrittenColumns::of(None, state).map_err(std::io::Error::other)?;
    let view = account.map(|account| RecordView::new(account, None, filter, &groups));
    let mut writer = FlowWriter::new(opened, view, columns, &groups);
    for record in &merged.flows {
        writer.write(std::slice::from_ref(record)).map_err(std::io::Error::other)?;
    }
    writer.finish()?;
    Ok(writer.filter_counts().map(RecordFigures::from))
}

/// Returns an accounting record as its own accounting record.
#[expect(clippy::unnecessary_wraps, reason = "states of other applications have none")]
fn itself(flow: &Accounted) -> Option<&Accounted> {
    Some(flow)
}

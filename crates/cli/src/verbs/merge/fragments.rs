//! Merges the flows that parts have left open, of all keys or of some.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use flowloom::apps::Accounting;
use flowloom::apps::RecordState as _;
use flowloom::apps::accounting::Accounted;
use flowloom::engine::{IdleTimeout, MergeError, PartRecord, SavedPart, merge_parts};
use flowloom::record::GroupSet;
use flowloom_export::{ArrowWriter, RecordWriter as _, read_fragments};
use serde::{Deserialize, Serialize};

use super::agreed;
use crate::exit::{Failure, Status};
use crate::flow_file::{Destination, Opened};
use crate::part_file::{Header, Range, Times, key_bytes, load_record};
use crate::record_format::Format;
use crate::record_view::{FieldGroups, RecordPlan};
use crate::render::counted;

/// The most parts: the composer numbers them in 16 bits.
const PARTS_MAX: usize = 65_535;
/// The longest line of the list.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line of the list of parts.
#[derive(Deserialize)]
struct Listed {
    part: i32,
    about: Header,
}

/// What the row behind the records says: what is to be added to the sums over all parts.
#[derive(Serialize)]
struct About {
    /// Flows that go on from one part to the next, which both have counted.
    flows_joined: u64,
    /// Flows that an idle timeout has ended, which no part has counted.
    flows_expired: u64,
}

/// Merges a stream of fragments, and writes their records with [`About`] behind them. Flows that
/// summaries do not determine are left out of both: they are rows of their key, without a state.
pub(super) fn run(
    fragments: &Path,
    list: &Path,
    (flows, format): (&Path, Option<Format>),
) -> Result<Status, Failure> {
    let destination = Destination::parse(flows, format).map_err(Failure::Usage)?;
    if destination.format != Format::Arrow {
        return Err(Failure::Usage(String::from(
            "merge --fragments writes Arrow\n  add --flows-format arrow, or name a file .arrows",
        )));
    }
    let listed = read_list(list).map_err(|why| {
        Failure::Input(format!("cannot read the list of parts {}: {why}", list.display()))
    })?;
    let settings = agreed(listed.iter().map(|listed| (format!("part {}", listed.part), &listed.about)))?;
    if settings.app != "accounting" {
        return Err(Failure::Input(format!(
            "fragments are of --app accounting, these are of {}",
            settings.app
        )));
    }
    check_ranges(&listed).and_then(|()| check_times(&listed)).map_err(Failure::Input)?;
    let records = read(fragments, &listed).map_err(|error| {
        Failure::Input(format!("cannot read the fragments {}: {error}", fragments.display()))
    })?;
    let (mut parts, mut expired) = (Vec::with_capacity(listed.len()), 0);
    for (Listed { about, .. }, records) in listed.iter().zip(records) {
        let counters = about.input().and_then(|input| Ok((input, about.workers()?)));
        let (input, workers) = counters.map_err(Failure::Input)?;
        expired += workers.flows_expired;
        parts.push(SavedPart::new(input, workers, records));
    }
    let idle = settings.idle_timeout_ns.map(IdleTimeout::from_ns);
    let accounting = Accounting::new(settings.active_timeout_ns);
    let merge = |parts| merge_parts(parts, idle, |flow, later| accounting.compose(flow, later));
    let (merged, unresolved) = match merge(parts.clone()) {
        Err(MergeError::NeedsPackets { keys, .. }) => {
            for part in &mut parts {
                part.records.retain(|record| keys.binary_search(&record.key).is_err());
            }
            (merge(parts), keys)
        }
        merged => (merged, Vec::new()),
    };
    let merged = merged.map_err(|error| {
        Failure::Input(format!("{} cannot be merged: {error}", counted(listed.len() as u64, "part")))
    })?;
    let about =
        About { flows_joined: merged.flows_joined, flows_expired: merged.counters.flows_expired - expired };
    let failed =
        |error: io::Error| Failure::Output(format!("cannot write flows to {}: {error}", flows.display()));
    let plan =
        RecordPlan::new(Accounted::schema(), None, FieldGroups::default(), None, None, GroupSet::NONE);
    let plan = plan.map_err(Failure::Usage)?;
    let (stream, file) = destination.open_whole().and_then(Opened::into_stream).map_err(failed)?;
    let mut out = ArrowWriter::of_part(stream, &plan.columns).map_err(failed)?;
    let mut view = plan.view();
    for record in &merged.flows {
        let Some(row) = view.row(record) else { continue };
        out.write(row).map_err(failed)?;
    }
    for key in &unresolved {
        out.write_fragment(&key_bytes(key), &[]).map_err(failed)?;
    }
    let about = serde_json::to_string(&about).map_err(|error| failed(error.into()))?;
    out.write_about(&about).and_then(|()| out.finish()).map_err(failed)?;
    file.map_or(Ok(()), |file| file.finish()).map_err(failed)?;
    Ok(Status::Ok)
}

fn read_list(path: &Path) -> Result<Vec<Listed>, String> {
    let mut reader = BufReader::new(File::open(path).map_err(|error| error.to_string())?);
    let (mut listed, mut line) = (Vec::new(), String::new());
    loop {
        line.clear();
        let bytes = reader.by_ref().take(LINE_BYTES_MAX).read_line(&mut line);
        if bytes.map_err(|error| error.to_string())? == 0 {
            return Ok(listed);
        }
        if listed.len() == PARTS_MAX {
            return Err(format!("it has more than {PARTS_MAX} parts"));
        }
        let number = listed.len() + 1;
        listed.push(serde_json::from_str(&line).map_err(|error| format!("line {number}: {error}"))?);
    }
}

/// Refuses ranges of a capture that leave a gap or overlap.
fn check_ranges(listed: &[Listed]) -> Result<(), String> {
    let place =
        |listed: &Listed| listed.about.range.clone().map(|range| (listed.about.inputs.clone(), range));
    // A range in which no record begins has nothing to adjoin to.
    let is_empty = |part: &&Listed| part.about.range.as_ref().is_some_and(|range| range.begin == range.end);
    let mut before: Option<(Vec<String>, Range)> = None;
    for part in listed.iter().filter(|part| !is_empty(part)).map(place).chain([None]) {
        let is_right = match (&before, &part) {
            (Some((inputs, range)), Some((next, after))) if range.end != Range::END => {
                inputs == next && range.end == after.begin
            }
            (Some((_, range)), None) => range.end == Range::END,
            (_, Some((_, after))) => after.begin == Range::BEGIN,
            (None, None) => true,
        };
        if !is_right {
            let named = |place: &Option<(Vec<String>, Range)>| {
                place.as_ref().map_or_else(
                    || String::from("nothing"),
                    |(inputs, Range { begin, end })| format!("{} from {begin} to {end}", inputs.join(", ")),
                )
            };
            return Err(format!(
                "ranges of a capture do not adjoin: {} is followed by {}\n  read this capture whole, without --bytes",
                named(&before),
                named(&part)
            ));
        }
        before = part;
    }
    Ok(())
}

/// Refuses ranges of time that leave a gap or overlap.
fn check_times(listed: &[Listed]) -> Result<(), String> {
    let mut ended = None;
    let times = listed.iter().map(|part| (part.part, part.about.times.unwrap_or_default()));
    for (part, times) in times.chain([(0, Times::default())]) {
        if times.from_ns != ended {
            let named =
                |time: Option<u64>| time.map_or_else(|| String::from("none"), |ns| format!("{ns} ns"));
            return Err(format!(
                "ranges of time do not adjoin: one ends at {}, the next (part {part}) begins at {}\n  list \
                 all parts of these captures, in the order of time",
                named(ended),
                named(times.from_ns)
            ));
        }
        ended = times.to_ns;
    }
    Ok(())
}

/// Returns the fragments of each part.
fn read(path: &Path, listed: &[Listed]) -> io::Result<Vec<Vec<PartRecord<Accounted>>>> {
    let places: BTreeMap<i32, usize> = listed.iter().map(|listed| listed.part).zip(0..).collect();
    let mut records: Vec<Vec<_>> = listed.iter().map(|_| Vec::new()).collect();
    let stream: Box<dyn Read> =
        if path.as_os_str() == "-" { Box::new(io::stdin()) } else { Box::new(File::open(path)?) };
    let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    read_fragments(BufReader::new(stream), |part, key, state| {
        let place = places.get(&part).and_then(|place| records.get_mut(*place));
        let place = place.ok_or_else(|| invalid(format!("part {part} is not in the list")))?;
        place.push(load_record(key, state).map_err(|why| invalid(format!("a flow of part {part} {why}")))?);
        Ok(())
    })?;
    Ok(records)
}

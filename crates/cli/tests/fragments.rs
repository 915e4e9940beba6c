//! Parts whose records leave at once, and whose open flows are merged elsewhere.

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, Int32Array, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Folder, flowloom, flowloom_fed, number, replay};

/// The columns of a part beside those of records.
const OF_PART: [&str; 4] = ["flow_key", "flow_state", "timed_out", "about"];

/// A flow that may continue after its part: the part, the key, the state.
type Fragment = (i32, Vec<u8>, Vec<u8>);

/// What a stream of a part holds.
#[derive(Debug, Default)]
struct Rows {
    /// Each record with its key, if it has one.
    records: Vec<(Vec<u8>, String)>,
    /// Whether an idle timeout has ended the record, if the stream says so.
    timed_out: Vec<bool>,
    fragments: Vec<Fragment>,
    about: Option<Value>,
}

fn text(column: &ArrayRef, row: usize) -> String {
    if column.is_null(row) {
        return String::from("-");
    }
    if let Some(column) = column.as_string_opt::<i32>() {
        return column.value(row).to_owned();
    }
    if let Some(column) = column.as_primitive_opt::<UInt64Type>() {
        return column.value(row).to_string();
    }
    if let Some(column) = column.as_primitive_opt::<TimestampNanosecondType>() {
        return column.value(row).to_string();
    }
    column.as_primitive::<UInt32Type>().value(row).to_string()
}

fn read(stream: &[u8], part: i32) -> Rows {
    let mut rows = Rows::default();
    for batch in StreamReader::try_new(Cursor::new(stream), None).unwrap() {
        let batch = batch.unwrap();
        let bytes = |name: &str, row: usize| {
            let column = batch.column_by_name(name)?.as_binary::<i32>();
            column.is_valid(row).then(|| column.value(row).to_vec())
        };
        let of_records: Vec<&ArrayRef> = batch
            .schema()
            .fields()
            .iter()
            .zip(batch.columns())
            .filter(|(field, _)| !OF_PART.contains(&field.name().as_str()))
            .map(|(_, column)| column)
            .collect();
        let packets = batch.column_by_name("packets").unwrap();
        for row in 0..batch.num_rows() {
            let key = bytes("flow_key", row).unwrap_or_default();
            if packets.is_valid(row) {
                let record: Vec<String> = of_records.iter().map(|column| text(column, row)).collect();
                rows.records.push((key, record.join(",")));
                let timed_out = batch.column_by_name("timed_out").map(AsArray::as_boolean);
                rows.timed_out.push(timed_out.is_some_and(|column| column.value(row)));
            } else if let Some(state) = bytes("flow_state", row) {
                rows.fragments.push((part, key, state));
            } else {
                let about = batch.column_by_name("about").unwrap().as_string::<i32>().value(row);
                rows.about = Some(serde_json::from_str(about).unwrap());
            }
        }
    }
    rows
}

const STREAM: [&str; 7] = ["--app", "accounting", "--no-pin", "--flows", "-", "--flows-format", "arrow"];

/// The captures of a part, and the arguments that say which of their packets are the part's.
type PartOf = Vec<String>;

/// Returns a range of a capture.
fn range(capture: &str, (from, to): (u64, u64)) -> PartOf {
    vec![capture.to_owned(), String::from("--bytes"), format!("{from}..{to}")]
}

/// Reads a part.
fn part(of: &PartOf, how: &[&str], number: i32) -> Rows {
    let of: Vec<&str> = of.iter().map(String::as_str).collect();
    let arguments = [&["replay"], &of[..], &["-qq", "--fragments"], &STREAM[..], how].concat();
    read(&flowloom(arguments).ends(0).silent().stdout, number)
}

/// Merges fragments of the listed parts.
fn merge(folder: &Folder, list: &str, fragments: &[Fragment]) -> crate::support::Outcome {
    let parts = Int32Array::from_iter_values(fragments.iter().map(|(part, ..)| *part));
    let keys = BinaryArray::from_iter_values(fragments.iter().map(|(_, key, _)| key));
    let states = BinaryArray::from_iter_values(fragments.iter().map(|(.., state)| state));
    let batch = RecordBatch::try_from_iter([
        ("flow_state", Arc::new(states) as ArrayRef),
        ("part", Arc::new(parts)),
        ("flow_key", Arc::new(keys)),
    ])
    .unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    let list = folder.write("parts.jsonl", list.as_bytes());
    let arguments = [
        "merge", "-qq", "--fragments", "-", "--parts-list", &list, "--flows", "-", "--flows-format",
        "arrow",
    ];
    flowloom_fed(arguments, &stream.into_inner().unwrap())
}

fn listed(parts: &[(i32, Value)]) -> String {
    parts.iter().map(|(part, about)| json!({"part": part, "about": about}).to_string() + "\n").collect()
}

/// Returns the packets of some flows as a capture of Ethernet, in the order of parts.
fn packets_of(folder: &Folder, parts: &[PartOf], keys: &[Vec<u8>]) -> String {
    let keys = folder.write("keys", &keys.concat());
    let mut pcap: Vec<u8> = [0xA1B2_3C4D_u32, 0x0004_0002, 0, 0, 0, 1].map(u32::to_le_bytes).concat();
    for of in parts {
        let of: Vec<&str> = of.iter().map(String::as_str).collect();
        let arguments = [&["replay"], &of[..], &["-qq", "--packets", "-", "--packets-of", &keys]].concat();
        for batch in StreamReader::try_new(Cursor::new(flowloom(arguments).ends(0).stdout), None).unwrap() {
            let batch = batch.unwrap();
            let times = batch.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
            let wire = batch.column_by_name("wire_bytes").unwrap().as_primitive::<UInt32Type>();
            let frames = batch.column_by_name("frame").unwrap().as_binary::<i32>();
            for row in 0..batch.num_rows() {
                let (time, frame) = (u64::try_from(times.value(row)).unwrap(), frames.value(row));
                let words = [time / 1_000_000_000, time % 1_000_000_000, frame.len() as u64];
                let words = words.map(|word| u32::try_from(word).unwrap());
                pcap.extend(words.into_iter().chain([wire.value(row)]).flat_map(u32::to_le_bytes));
                pcap.extend(frame);
            }
        }
    }
    folder.write("open.pcap", &pcap)
}

/// What must be equal: the records, sorted, and three counters.
type Result = (Vec<String>, [u64; 3]);

fn whole(folder: &Folder, captures: &[&str], how: &[&str]) -> Result {
    let flows = folder.path("whole.arrows");
    let document = replay(&[captures, &["--app", "accounting", "--flows", &flows], how].concat());
    let rows = read(&std::fs::read(&flows).unwrap(), 0);
    let mut records: Vec<String> = rows.records.into_iter().map(|(_, record)| record).collect();
    records.sort();
    (records, ["packets", "flows_begun", "flows_expired"].map(|name| number(&document, name)))
}

/// Cuts a capture at bytes.
fn at_bytes(capture: &str, cuts: &[u64]) -> Vec<PartOf> {
    let size = std::fs::metadata(capture).unwrap().len();
    let mut edges: Vec<u64> = cuts.iter().map(|cut| 1 + cut % (size - 1)).collect();
    // In the header and in the last record no record begins.
    edges.extend([0, 1, size - 1, size]);
    edges.sort_unstable();
    edges.dedup();
    edges.windows(2).map(|pair| range(capture, (pair[0], pair[1]))).collect()
}

/// Reads parts, and merges what they know in groups of keys.
fn in_parts(folder: &Folder, of: &[PartOf], how: &[&str], groups: usize) -> (Result, usize) {
    let parts: Vec<Rows> = of.iter().zip(0..).map(|(of, number)| part(of, how, number)).collect();
    let abouts: Vec<(i32, Value)> =
        parts.iter().zip(0..).map(|(rows, number)| (number, rows.about.clone().unwrap())).collect();
    let mut counts = ["packets", "flows_begun", "flows_expired"]
        .map(|name| abouts.iter().map(|(_, about)| about[name].as_i64().unwrap()).sum::<i64>());
    let mut correct = |about: &Value, begun: i64, expired: i64| {
        counts[1] += begun - about["flows_joined"].as_i64().unwrap();
        counts[2] += expired + about["flows_expired"].as_i64().unwrap();
    };
    let (mut records, mut open, mut taken_back) = (Vec::new(), Vec::new(), [0, 0]);
    let fragments: Vec<Fragment> = parts.iter().flat_map(|rows| rows.fragments.clone()).collect();
    for group in 0..groups {
        let is_of = |(_, key, _): &&Fragment| {
            key.iter().map(|byte| usize::from(*byte)).sum::<usize>() % groups == group
        };
        // The order in which a shuffle brings them does not matter.
        let of_group: Vec<Fragment> = fragments.iter().rev().filter(is_of).cloned().collect();
        let merged = read(&merge(folder, &listed(&abouts), &of_group).ends(0).stdout, 0);
        records.extend(merged.records.into_iter().map(|(_, record)| record));
        open.extend(merged.fragments.into_iter().map(|(_, key, _)| key));
        correct(&merged.about.unwrap(), 0, 0);
    }
    for ((key, record), timed_out) in
        parts.into_iter().flat_map(|rows| rows.records.into_iter().zip(rows.timed_out))
    {
        if open.contains(&key) {
            taken_back[0] += 1;
            taken_back[1] += i64::from(timed_out);
        } else {
            records.push(record);
        }
    }
    if !open.is_empty() {
        for (.., state) in fragments.iter().filter(|(_, key, _)| open.contains(key)) {
            taken_back[0] += 1;
            taken_back[1] += i64::from(state[16] == 1);
        }
        let packets = packets_of(folder, of, &open);
        let mini = part(&vec![packets], how, 0);
        let mut about = mini.about.unwrap();
        let latest = abouts.iter().map(|(_, about)| about["last_ns"].as_u64()).max().unwrap();
        about["last_ns"] = json!(latest);
        let merged =
            read(&merge(folder, &listed(&[(0, about.clone())]), &mini.fragments).ends(0).stdout, 0);
        assert!(merged.fragments.is_empty(), "packets determine a flow");
        records.extend(mini.records.into_iter().chain(merged.records).map(|(_, record)| record));
        let [begun, expired] = ["flows_begun", "flows_expired"].map(|name| about[name].as_i64().unwrap());
        correct(&merged.about.unwrap(), begun - taken_back[0], expired - taken_back[1]);
    }
    records.sort();
    ((records, counts.map(|count| u64::try_from(count).unwrap())), open.len())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Records of all parts and what is merged of their fragments are the records of one run over
    /// the whole, wherever it is cut and however the keys are grouped.
    #[test]
    fn parts_and_their_merged_fragments_equal_the_whole(
        seed in 0_u32..1000,
        cuts in proptest::collection::vec(any::<u64>(), 0..7),
        groups in 1_usize..4,
        how in prop_oneof![
            Just(&[][..]),
            Just(&["--timeout", "0.01"][..]),
            Just(&["--timeout", "0.002"][..]),
            Just(&["--timeout", "0.01", "--active-timeout", "0.015"][..]),
        ],
    ) {
        let folder = Folder::new();
        let seed = seed.to_string();
        let trace = folder.trace("t.pcap", &["--flows", "150", "--packets", "6000", "--seed", &seed]);
        let (found, _) = in_parts(&folder, &at_bytes(&trace, &cuts), how, groups);
        prop_assert_eq!(found, whole(&folder, &[&trace], how));
    }

    /// The same for taps that overlap in time, cut at times: each part reads from every tap the
    /// packets of its time, or only a range of bytes that holds them. Many packets have the same
    /// time, and times go back.
    #[test]
    fn parts_of_several_taps_merge_to_one_run_over_all(
        seed in 0_u32..1000,
        count in 2_usize..5,
        cuts in proptest::collection::vec(0_u64..1000, 0..6),
        draws in proptest::collection::vec(any::<u64>(), 64),
        how in prop_oneof![
            Just(&["--timeout", "0.02"][..]),
            Just(&["--timeout", "0.004"][..]),
            Just(&["--timeout", "0.02", "--active-timeout", "0.03"][..]),
        ],
    ) {
        let folder = Folder::new();
        let seed = seed.to_string();
        let trace = folder.trace("t.pcap", &["--flows", "150", "--packets", "4000", "--seed", &seed]);
        let taps = taps(&folder, &std::fs::read(&trace).unwrap(), count, &draws);
        let paths: Vec<&str> = taps.iter().map(|tap| tap.path.as_str()).collect();
        let (found, _) = in_parts(&folder, &at_times(&taps, &cuts, &draws), how, 2);
        prop_assert_eq!(found, whole(&folder, &paths, how));
    }
}

/// A capture of some of the packets, and each record's offset, its time in microseconds, and the
/// latest time up to it.
struct Tap {
    path: String,
    records: Vec<(u64, u64, u64)>,
    bytes: u64,
}

/// Distributes the records of a classic capture over taps. Times are rounded, so that many are
/// equal, and every eleventh goes back.
fn taps(folder: &Folder, capture: &[u8], count: usize, draws: &[u64]) -> Vec<Tap> {
    let mut files = vec![capture[..24].to_vec(); count];
    let mut records = vec![Vec::<(u64, u64, u64)>::new(); count];
    let (mut at, mut number) = (24, 0);
    while at < capture.len() {
        let word = |place: usize| u32::from_le_bytes(capture[place..place + 4].try_into().unwrap());
        let end = at + 16 + word(at + 8) as usize;
        let resolution = if capture[0] == 0x4D { 1000 } else { 1 };
        let mut us = u64::from(word(at)) * 1_000_000 + u64::from(word(at + 4)) / resolution;
        us -= us % 500;
        us -= if number % 11 == 10 { 1500 } else { 0 };
        let draw = draws[number % 61] >> (number / 61 % 48) & 0xFF;
        let tap = usize::try_from(draw).unwrap() % count;
        let latest = records[tap].last().map_or(0, |(.., latest)| *latest).max(us);
        records[tap].push((files[tap].len() as u64, us, latest));
        let fraction = u32::try_from(us % 1_000_000 * resolution).unwrap();
        files[tap].extend(u32::try_from(us / 1_000_000).unwrap().to_le_bytes());
        files[tap].extend(fraction.to_le_bytes());
        files[tap].extend(&capture[at + 8..end]);
        (at, number) = (end, number + 1);
    }
    let tap = |((number, file), records): ((usize, Vec<u8>), _)| Tap {
        path: folder.write(&format!("tap{number}.pcap"), &file),
        records,
        bytes: file.len() as u64,
    };
    files.into_iter().enumerate().zip(records).map(tap).collect()
}

/// Cuts taps at times, which `cuts` are in thousandths of the whole.
fn at_times(taps: &[Tap], cuts: &[u64], draws: &[u64]) -> Vec<PartOf> {
    let times = || taps.iter().flat_map(|tap| tap.records.iter().map(|(.., latest)| *latest));
    let (first, last) = (times().min().unwrap(), times().max().unwrap());
    // Half of the cuts are at a time that packets have.
    let at = |(number, share): (usize, &u64)| {
        let us = first + 1 + (last - first) * share / 1000;
        if number % 2 == 0 { us - us % 500 } else { us }
    };
    let mut edges: Vec<Option<u64>> = cuts.iter().enumerate().map(at).map(Some).collect();
    edges.sort_unstable();
    edges.dedup();
    let edges = [&[None], &edges[..], &[None]].concat();
    let mut parts = Vec::new();
    for (number, pair) in edges.windows(2).enumerate() {
        let (mut paths, mut ranges) = (Vec::new(), Vec::new());
        for (tap, draw) in taps.iter().zip(&draws[number * 4..]) {
            paths.push(tap.path.clone());
            let begins = tap
                .records
                .iter()
                .rposition(|(_, us, latest)| us == latest && pair[0].is_some_and(|from| *latest < from));
            let ends = tap.records.iter().find(|(.., latest)| pair[1].is_some_and(|to| *latest >= to));
            let begin = begins.map_or(0, |at| tap.records[at].0);
            let end = ends.map_or(tap.bytes, |(offset, ..)| *offset);
            let is_whole = draw % 3 == 0 || begin >= end;
            let range = if is_whole { String::from("..") } else { format!("{begin}..{end}") };
            ranges.extend([String::from("--bytes"), range]);
        }
        if draws[number].is_multiple_of(2) {
            ranges.clear();
        }
        let time = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
        let from = pair[0].map(|us| [String::from("--from"), time(us)]);
        let to = pair[1].map(|us| [String::from("--to"), time(us)]);
        let of = [paths, ranges, from.into_iter().flatten().collect(), to.into_iter().flatten().collect()];
        parts.push(of.concat());
    }
    parts
}

#[test]
fn undetermined_flows_are_listed_by_key() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "20000"]);
    let how = ["--active-timeout", "0.02"];
    let (result, open) = in_parts(&folder, &at_bytes(&trace, &[1_000_000, 2_000_001]), &how, 2);
    assert!(open > 0, "an active timeout needs packets");
    assert_eq!(result.0, whole(&folder, &[&trace], &how).0);
}

#[test]
fn with_a_timeout_most_records_are_written_by_their_part() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "3000", "--packets", "20000"]);
    let size = std::fs::metadata(&trace).unwrap().len();
    let rows = part(&range(&trace, (0, size / 2)), &["--timeout", "0.001"], 0);
    assert!(
        rows.records.len() > 4 * rows.fragments.len(),
        "{} {}",
        rows.records.len(),
        rows.fragments.len()
    );
    let rows = part(&range(&trace, (0, size / 2)), &[], 0);
    assert_eq!((rows.records.len(), rows.about.unwrap()["flows_expired"].as_u64()), (0, Some(0)));
    assert!(!rows.fragments.is_empty(), "without a timeout any flow may continue");
}

#[test]
fn ranges_that_do_not_adjoin_are_refused() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "20000"]);
    let size = std::fs::metadata(&trace).unwrap().len();
    let parts: BTreeMap<i32, Value> =
        [(0, (0, size / 3)), (1, (size / 3, size / 2)), (2, (size / 2, size))]
            .map(|(number, of)| (number, part(&range(&trace, of), &[], number).about.unwrap()))
            .into();
    let list =
        |numbers: &[i32]| listed(&numbers.iter().map(|n| (*n, parts[n].clone())).collect::<Vec<_>>());
    merge(&folder, &list(&[0, 1, 2]), &[]).ends(0);
    for numbers in [&[0, 2][..], &[0, 1], &[1, 2], &[0, 1, 1, 2]] {
        merge(&folder, &list(numbers), &[]).ends(3).says(&["do not adjoin", "read this capture whole"]);
    }
    merge(&folder, &list(&[0, 1, 2]), &[(7, vec![0; 48], vec![0; 117])])
        .ends(3)
        .says(&["part 7 is not in the list"]);
    merge(&folder, &list(&[0, 1, 2]), &[(1, vec![0; 47], vec![0; 117])])
        .ends(3)
        .says(&["a flow of part 1 has a key of 47 bytes"]);
    merge(&folder, &list(&[0, 1, 2]), &[(1, vec![0; 48], vec![9; 117])])
        .ends(3)
        .says(&["unknown reason, 9"]);
    merge(&folder, "{}\n", &[]).ends(3).says(&["list of parts", "line 1"]);
}

#[test]
fn ranges_of_time_that_do_not_adjoin_are_refused() {
    let folder = Folder::new();
    let taps = ["1", "2"]
        .map(|seed| folder.trace(&format!("{seed}.pcap"), &["--packets", "3000", "--seed", seed]));
    let of = |times: &[&str]| {
        part(
            &[&taps[..], &times.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()].concat(),
            &[],
            0,
        )
        .about
        .unwrap()
    };
    let about = of(&[]);
    let middle = (about["first_ns"].as_u64().unwrap() / 2 + about["last_ns"].as_u64().unwrap() / 2) / 1000;
    let at = |us: u64| format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
    let (before, middle, after) = (at(middle - 1), at(middle), at(middle + 1));
    let first = of(&["--to", &middle]);
    let list = |second: &Value| listed(&[(0, first.clone()), (1, second.clone())]);
    merge(&folder, &list(&of(&["--from", &middle])), &[]).ends(0);
    for wrong in
        [of(&["--from", &before]), of(&["--from", &after]), of(&["--from", &middle, "--to", &after]), about]
    {
        merge(&folder, &list(&wrong), &[]).ends(3).says(&["do not adjoin", "in the order of time"]);
    }
}

#[test]
fn overlapping_captures_form_one_part() {
    let folder = Folder::new();
    let taps = ["a", "b"].map(|seed| {
        let number = if seed == "a" { "1" } else { "2" };
        folder.trace(&format!("{seed}.pcap"), &["--packets", "3000", "--seed", number])
    });
    let stream = [&["replay", &taps[0], &taps[1], "-qq", "--fragments"], &STREAM[..]].concat();
    let rows = read(&flowloom(stream).ends(0).stdout, 0);
    let about = rows.about.unwrap();
    assert_eq!((about["packets"].as_u64(), about.get("range")), (Some(6000), None));
    let merged = read(&merge(&folder, &listed(&[(0, about)]), &rows.fragments).ends(0).stdout, 0);
    let flows = folder.path("both.arrows");
    replay(&[&taps[0], &taps[1], "--app", "accounting", "--flows", &flows]);
    let sorted = |rows: Rows| {
        let mut records: Vec<String> = rows.records.into_iter().map(|(_, record)| record).collect();
        records.sort();
        records
    };
    assert_eq!(sorted(merged), sorted(read(&std::fs::read(&flows).unwrap(), 0)));
}

#[test]
fn each_packet_becomes_a_row() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "2000", "--other", "0.1"]);
    let document = replay(&[&trace]);
    let stream = flowloom(["replay", &trace, "-qq", "--packets", "-"]).ends(0).stdout;
    let (mut rows, mut decoded, mut bytes, mut latest) = (0, 0, 0, 0);
    for batch in StreamReader::try_new(Cursor::new(stream), None).unwrap() {
        let batch = batch.unwrap();
        let protocols = batch.column_by_name("protocol").unwrap();
        decoded += batch.num_rows() - protocols.null_count();
        rows += batch.num_rows() as u64;
        assert_eq!(batch.column_by_name("frame").unwrap().null_count(), batch.num_rows());
        let lengths = batch.column_by_name("wire_bytes").unwrap().as_primitive::<UInt32Type>();
        bytes += lengths.values().iter().copied().map(u64::from).sum::<u64>();
        let times = batch.column_by_name("time").unwrap().as_primitive::<TimestampNanosecondType>();
        assert!(times.values().is_sorted() && times.value(0) >= latest);
        latest = times.value(batch.num_rows() - 1);
        assert!(
            batch.column_by_name("part").is_none_or(|part| part.as_primitive_opt::<Int32Type>().is_some())
        );
    }
    let names = ["packets", "decoded", "bytes_on_wire"].map(|name| number(&document, name));
    assert_eq!([rows, decoded as u64, bytes], names);
    assert!(decoded < 2000);
}

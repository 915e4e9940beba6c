//! Sets of captures in parts: under any assumptions about record beginnings, the parts find the
//! same packets as one reader.

use std::path::{Path, PathBuf};

use flowloom_packet::{Fill, PacketBatch, PacketSource};
use flowloom_traffic::capture::{
    Boundary, CaptureError, CaptureOptions, CapturePart, CaptureParts, CaptureSet, FileSummary, Input,
    NotCuttable, Notice, PartRead, PlanError, SetOptions,
};

use crate::{Seen, block, enhanced, gzip, interface, pcap, pcap_header, pcap_record, section, write_file};

/// Everything that a reader of a set returns.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) packets: Vec<Seen>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) files: Vec<FileSummary>,
    pub(crate) error: Option<String>,
}

/// Returns the packets of a batch.
pub(crate) fn seen(batch: &PacketBatch) -> impl Iterator<Item = Seen> {
    let block = batch.block.as_ref().expect("a batch with packets has a block");
    batch.packets.iter().map(|raw| Seen {
        bytes: raw.bytes_in(block.bytes()).to_vec(),
        wire: raw.wire_bytes,
        time_ns: raw.time_ns,
        link: raw.link.0,
    })
}

/// Reads a source to its end, or to its error.
pub(crate) fn drain(source: &mut impl PacketSource) -> (Vec<Seen>, Option<String>) {
    let (mut batch, mut packets) = (PacketBatch::new(), Vec::new());
    loop {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => packets.extend(seen(&batch)),
            Ok(Fill::Starved) => panic!("nothing keeps a block"),
            Ok(Fill::End) => return (packets, None),
            Err(error) => return (packets, Some(error.to_string())),
        }
    }
}

/// Reads a set with one reader.
pub(crate) fn whole(inputs: &[Input], options: SetOptions) -> Result<Found, CaptureError> {
    let mut set = CaptureSet::open(inputs, options)?;
    let (packets, error) = drain(&mut set);
    Ok(Found { packets, notices: set.notices().to_vec(), files: set.files(), error })
}

fn position(boundary: &Boundary) -> (usize, u64) {
    (boundary.file(), boundary.offset())
}

fn read(mut part: CapturePart) -> (Vec<Seen>, PartRead) {
    let (packets, error) = drain(&mut part);
    assert_eq!(error, None);
    assert_eq!(part.packets(), packets.len() as u64);
    let end: Boundary = part.end().cloned().expect("a part that was read has an end");
    let read = part.finish();
    assert_eq!(read.end().map(position), Some(position(&end)));
    (packets, read)
}

/// The effort of reading a set in parts.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Effort {
    parts: usize,
    /// Parts read again in each round.
    again: Vec<usize>,
}

/// Reads a set in parts, in as many rounds as necessary.
fn in_parts(inputs: &[Input], parts: usize) -> Result<(Found, Effort), PlanError> {
    let plan = CaptureParts::plan(inputs, SetOptions::default(), parts)?;
    assert!((1..=parts.max(1)).contains(&plan.len()));
    let (mut packets, mut reads): (Vec<_>, Vec<_>) =
        (0..plan.len()).map(|part| read(plan.open(part).unwrap())).unzip();
    let mut effort = Effort { parts: plan.len(), again: Vec::new() };
    loop {
        let again = plan.unconfirmed(&reads);
        if again.is_empty() {
            break;
        }
        assert!(effort.again.len() < plan.len(), "each round confirms a part: {effort:?}");
        effort.again.push(again.len());
        for (part, begin) in again {
            (packets[part], reads[part]) = read(plan.open_at(part, begin).unwrap());
        }
    }
    for pair in reads.windows(2) {
        assert_eq!(pair[0].end().map(position), Some(position(pair[1].begin())));
    }
    assert_eq!(position(reads[0].begin()), (0, 0));
    let summary = plan.summary(&reads);
    assert_eq!(summary.packets, packets.iter().map(|part| part.len() as u64).sum::<u64>());
    let error = summary.check_decodable().err().map(|error| error.to_string());
    let (notices, files) = (summary.notices, summary.files);
    Ok((Found { packets: packets.concat(), notices, files, error }, effort))
}

/// Checks that a set reads the same whole and in 1 to 16 parts. Returns the effort for each number
/// of parts.
pub(crate) fn check(inputs: &[Input]) -> Vec<Effort> {
    let expected = whole(inputs, SetOptions::default());
    let mut efforts = Vec::new();
    for parts in 1..=16 {
        match (in_parts(inputs, parts), &expected) {
            (Ok((found, effort)), Ok(expected)) => {
                assert_eq!(found.packets.len(), expected.packets.len(), "{parts} parts: {effort:?}");
                assert!(found == *expected, "{parts} parts: {effort:?}\n{found:?}\n{expected:?}");
                efforts.push(effort);
            }
            (Err(PlanError::NotCuttable(_)), Ok(_)) => assert!(parts > 1),
            (Err(PlanError::Capture(found)), Err(expected)) => {
                assert_eq!(found.to_string(), expected.to_string());
            }
            (found, expected) => panic!("{parts} parts: {found:?} {expected:?}"),
        }
    }
    efforts
}

pub(crate) fn check_bytes(bytes: &[u8]) -> Vec<Effort> {
    let directory = tempfile::tempdir().unwrap();
    check(&[Input::Path(write_file(directory.path(), "capture", bytes))])
}

/// Returns a classic capture of records of this many bytes.
fn long_pcap(records: u32, record_bytes: impl Fn(u32) -> usize) -> Vec<u8> {
    let mut file = pcap_header(0xA1B2_C3D4, 1, false);
    for i in 0..records {
        let data: Vec<u8> = (0..record_bytes(i)).map(|byte| (byte as u32 * 7 + i) as u8).collect();
        file.extend(pcap_record(1_000_000 + i / 10, i % 1000, &data, 70_000, false));
    }
    file
}

/// Returns a pcapng capture, with `between` before each packet.
fn long_pcapng(packets: u32, between: impl Fn(u32) -> Vec<u8>) -> Vec<u8> {
    let mut file = [section(false), interface(1, &[], false)].concat();
    for i in 0..packets {
        file.extend(between(i));
        let data = vec![i as u8; 60 + i as usize % 900];
        let bytes = data.len() as u32;
        file.extend(enhanced(0, u64::from(i), &data, bytes, bytes, false));
    }
    file
}

#[test]
fn usual_captures_are_split_into_the_requested_parts_and_read_once() {
    for bytes in [long_pcap(3000, |i| 60 + i as usize % 1400), long_pcapng(3000, |_| Vec::new())] {
        let efforts = check_bytes(&bytes);
        let expected: Vec<Effort> = (1..=16).map(|parts| Effort { parts, again: Vec::new() }).collect();
        assert_eq!(efforts, expected);
    }
}

#[test]
fn parts_have_about_as_many_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = long_pcap(3000, |i| 60 + i as usize % 1400);
    let inputs = [Input::Path(write_file(directory.path(), "a.pcap", &bytes))];
    let plan = CaptureParts::plan(&inputs, SetOptions::default(), 4).unwrap();
    for part in 0..4 {
        let fair = bytes.len() as u64 * part / 4;
        let offset = plan.begin(part as usize).offset();
        assert!((fair..fair + 2000).contains(&offset), "part {part} begins at {offset}, not at {fair}");
    }
    let progress = plan.progress();
    (0..4).for_each(|part| drop(read(plan.open(part).unwrap())));
    assert_eq!((progress.done_bytes(), progress.total_bytes()), (bytes.len() as u64, bytes.len() as u64));
}

#[test]
fn parts_begin_at_the_first_records_after_the_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> =
        ["a.pcap", "b.pcap"].map(|name| write_file(directory.path(), name, &long_pcap(10, |_| 100))).into();
    let inputs: Vec<Input> = paths.into_iter().map(Input::Path).collect();
    let begins = |offsets: &[u64]| {
        let plan = CaptureParts::plan_at(&inputs, SetOptions::default(), offsets).unwrap();
        (0..plan.len()).map(|part| position(plan.begin(part))).collect::<Vec<_>>()
    };
    // A file has a header of 24 bytes and records of 116: 1184 bytes.
    assert_eq!(begins(&[]), [(0, 0)]);
    assert_eq!(begins(&[141, 140, 256]), [(0, 0), (0, 140), (0, 256)]);
    assert_eq!(begins(&[5000, 1184 + 30, 1184, 500]), [(0, 0), (0, 604), (1, 0), (1, 140)]);
    let none = CaptureParts::plan_at(&inputs, SetOptions::default(), &[u64::MAX]);
    assert!(matches!(none, Err(PlanError::NotCuttable(_))));
}

#[test]
fn number_of_parts_is_limited_by_boundaries_and_a_thousand() {
    let directory = tempfile::tempdir().unwrap();
    let plan = |bytes: &[u8]| {
        let inputs = [Input::Path(write_file(directory.path(), "a.pcap", bytes))];
        CaptureParts::plan(&inputs, SetOptions::default(), usize::MAX).unwrap().len()
    };
    assert_eq!(plan(&long_pcap(5, |_| 100)), 5);
    assert_eq!(plan(&long_pcap(5000, |_| 100)), 1024);
}

#[test]
fn records_inside_a_payload_are_not_records_of_the_file() {
    // Traffic of a server of captures: pieces of a capture in packets, here of 32 KiB.
    let inner = long_pcap(2000, |i| 40 + i as usize % 200);
    let inner_blocks = long_pcapng(2000, |_| Vec::new());
    let (mut classic, mut blocks) =
        (pcap_header(0xA1B2_C3D4, 1, false), [section(false), interface(1, &[], false)].concat());
    for (i, piece) in inner.chunks_exact(32 << 10).chain(inner_blocks.chunks_exact(32 << 10)).enumerate() {
        for _ in 0..4 {
            classic.extend(pcap_record(1_000_000, i as u32, piece, piece.len() as u32, false));
            let bytes = piece.len() as u32;
            blocks.extend(enhanced(0, i as u64, piece, bytes, bytes, false));
        }
    }
    // In the last packet an image would reach the end of the file, where no cut is certain.
    for i in 0..500 {
        classic.extend(pcap_record(1_000_000, i, &[7; 80], 80, false));
        blocks.extend(enhanced(0, 1, &[7; 80], 80, 80, false));
    }
    for bytes in [classic, blocks] {
        let efforts = check_bytes(&bytes);
        assert!(efforts.iter().all(|effort| effort.again.is_empty()), "{efforts:?}");
        assert_eq!(efforts.len(), 16);
    }
}

/// Returns the image of a record that covers the rest of a payload: its chain continues with the
/// surrounding record.
pub(crate) fn joining_image(payload_bytes: usize) -> Vec<u8> {
    let mut payload = vec![0xEE; payload_bytes - 100 - 16];
    payload.extend(pcap_record(1_000_000, 0, &[0xDD; 100], 70_000, false));
    payload
}

#[test]
fn embedded_records_that_join_the_outer_chain_are_detected() {
    let mut file = pcap_header(0xA1B2_C3D4, 1, false);
    for i in 0..64 {
        file.extend(pcap_record(1_000_000, i, &joining_image(8192), 70_000, false));
    }
    let efforts = check_bytes(&file);
    assert!(
        efforts.iter().any(|effort| !effort.again.is_empty()),
        "the image was never taken for a record"
    );
    assert_eq!(efforts.last().unwrap().parts, 16);
}

#[test]
fn interfaces_that_begin_in_the_middle_are_read_once_where_they_are_not_needed() {
    let declares = |i: u32| if i == 1000 { interface(101, &[], false) } else { Vec::new() };
    let efforts = check_bytes(&long_pcapng(3000, declares));
    assert!(efforts.iter().all(|effort| effort.again.is_empty()), "{efforts:?}");
    // Its packets make the later parts depend on it.
    let uses = |i: u32| match i {
        1000 => interface(101, &[], false),
        1001.. if i.is_multiple_of(5) => enhanced(1, 7, &[1; 40], 40, 40, false),
        _ => Vec::new(),
    };
    let efforts = check_bytes(&long_pcapng(3000, uses));
    let rounds: Vec<usize> = efforts.iter().map(|effort| effort.again.len()).collect();
    assert_eq!(rounds.iter().max(), Some(&1), "all of them are read again at the same time: {efforts:?}");
}

#[test]
fn a_section_in_the_middle_costs_one_round() {
    for big_endian in [false, true] {
        let mut file = long_pcapng(1500, |_| Vec::new());
        file.extend(section(big_endian));
        file.extend(interface(1, &[], big_endian));
        file.extend(interface(101, &[], big_endian));
        for i in 0..1500_u32 {
            let data = vec![i as u8; 60 + i as usize % 900];
            let bytes = data.len() as u32;
            file.extend(enhanced(i % 2, u64::from(i), &data, bytes, bytes, big_endian));
        }
        let efforts = check_bytes(&file);
        assert_eq!(efforts.len(), 16);
        let rounds: Vec<usize> = efforts.iter().map(|effort| effort.again.len()).collect();
        assert_eq!(rounds.iter().max(), Some(&1), "{efforts:?}");
    }
}

#[test]
fn sections_like_the_first_cost_nothing() {
    let part = long_pcapng(500, |_| Vec::new());
    let efforts = check_bytes(&part.repeat(6));
    assert!(efforts.iter().all(|effort| effort.again.is_empty()), "{efforts:?}");
}

#[test]
fn simple_packets_take_the_time_of_the_packet_before() {
    let simple = |i: u32| block(3, &[&60_u32.to_le_bytes()[..], &[i as u8; 60]].concat(), false);
    let efforts = check_bytes(&long_pcapng(1000, |i| simple(i).repeat(3)));
    assert!(efforts.iter().all(|effort| effort.again.is_empty()), "{efforts:?}");
    let only_simple: Vec<u8> = [section(false), interface(1, &[], false)]
        .concat()
        .into_iter()
        .chain((0..1000).flat_map(simple))
        .collect();
    let efforts = check_bytes(&only_simple);
    assert!(efforts.iter().all(|effort| effort.again.is_empty()), "{efforts:?}");
    assert_eq!(efforts.len(), 16);
}

#[test]
fn joined_captures_are_one_file_with_one_notice() {
    let small = |magic, big_endian, link| {
        let mut file = pcap_header(magic, link, big_endian);
        for i in 0..100 {
            file.extend(pcap_record(i, 5, &[i as u8; 77], 77, big_endian));
        }
        file
    };
    let file = [
        small(0xA1B2_C3D4, false, 1),
        small(0xA1B2_3C4D, false, 101),
        small(0xA1B2_C3D4, true, 1),
        small(0xA1B2_C3D4, false, 1),
        small(0xA1B2_C3D4, false, 147),
    ]
    .concat();
    check_bytes(&file);
}

#[test]
fn records_after_damage_are_ignored() {
    for whole in [long_pcap(400, |i| 20 + i as usize % 50), long_pcapng(200, |_| Vec::new())] {
        for place in (100..whole.len()).step_by(whole.len() / 23) {
            check_bytes(&whole[..place]);
            let mut damaged = whole.clone();
            damaged[place..(place + 40).min(whole.len())].fill(0xFF);
            check_bytes(&damaged);
            damaged[place..].fill(0);
            check_bytes(&damaged);
        }
    }
}

#[test]
fn several_files_are_cut_inside_and_between() {
    let directory = tempfile::tempdir().unwrap();
    let mut files: Vec<(String, Vec<u8>)> =
        (0..40).map(|i| (format!("tiny{i}.pcap"), pcap(i % 4))).collect();
    files.push((String::from("long.pcap"), long_pcap(900, |_| 500)));
    files.push((String::from("long.pcap.gz"), gzip(&long_pcap(900, |_| 400))));
    files.push((String::from("cut.pcapng"), long_pcapng(300, |_| Vec::new())[..20_000].to_vec()));
    files.push((String::from("can.pcap"), pcap_header(0xA1B2_C3D4, 190, false)));
    files.push((String::from("last.pcapng"), long_pcapng(900, |_| Vec::new())));
    let inputs: Vec<Input> =
        files.iter().map(|(name, bytes)| Input::Path(write_file(directory.path(), name, bytes))).collect();
    let efforts = check(&inputs);
    assert!(efforts.iter().all(|effort| effort.again.len() <= 1), "{efforts:?}");
    write_file(directory.path(), "notes.txt", b"no capture");
    let efforts = check(&[Input::Path(directory.path().to_path_buf()), inputs[40].clone()]);
    assert_eq!(efforts.len(), 16);
    assert!(efforts[15].parts > 8, "{efforts:?}");
}

#[test]
fn indivisible_input_has_a_reason() {
    let directory = tempfile::tempdir().unwrap();
    let plain = Input::Path(write_file(directory.path(), "a.pcap", &pcap(100)));
    let packed = Input::Path(write_file(directory.path(), "a.pcap.gz", &gzip(&pcap(100))));
    let empty = Input::Path(write_file(directory.path(), "empty.pcap", &pcap(0)));
    let why = |inputs: &[Input], options: SetOptions| match CaptureParts::plan(inputs, options, 4) {
        Err(PlanError::NotCuttable(why)) => why,
        other => panic!("{other:?}"),
    };
    let usual = SetOptions::default();
    assert!(matches!(why(&[Input::Stdin], usual), NotCuttable::Pipe { .. }));
    assert!(matches!(
        why(&[plain.clone(), Input::Path("/dev/null".into())], usual),
        NotCuttable::Pipe { .. }
    ));
    assert_eq!(why(std::slice::from_ref(&plain), SetOptions { passes: 2, ..usual }), NotCuttable::Passes);
    let compressed = why(std::slice::from_ref(&packed), usual);
    assert!(compressed.to_string().contains("a.pcap.gz is compressed"), "{compressed}");
    let read = SetOptions { capture: CaptureOptions { map: false, ..usual.capture }, ..usual };
    assert!(matches!(why(std::slice::from_ref(&plain), read), NotCuttable::NotMapped { .. }));
    assert!(matches!(why(&[empty], usual), NotCuttable::NoBoundary { .. }));
    assert_eq!(CaptureParts::plan(&[packed], usual, 1).unwrap().len(), 1);
    assert!(matches!(
        CaptureParts::plan(&[Input::Path("/nowhere".into())], usual, 4),
        Err(PlanError::Capture(CaptureError::Io { .. }))
    ));
}

#[test]
fn a_part_that_is_stopped_has_no_end_and_says_what_it_read() {
    let directory = tempfile::tempdir().unwrap();
    let inputs = [Input::Path(write_file(directory.path(), "a.pcap", &long_pcap(1000, |_| 100)))];
    let plan = CaptureParts::plan(&inputs, SetOptions::default(), 2).unwrap();
    let mut part = plan.open(0).unwrap();
    let asked = std::sync::atomic::AtomicU32::new(0);
    part.stop_when(move || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 2);
    let (packets, error) = drain(&mut part);
    assert_eq!((packets.len(), error), (64, None));
    assert!(part.end().is_none());
    let reads = [part.finish()];
    assert!(plan.unconfirmed(&reads).is_empty());
    let summary = plan.summary(&reads);
    assert_eq!((summary.packets, summary.files[0].packets, summary.notices.len()), (64, 64, 0));
    summary.check_decodable().unwrap();
}

#[test]
fn real_captures_read_the_same_in_parts() {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real captures)");
        return;
    };
    let folder = PathBuf::from(data).join("pcaps");
    let mut files = 0;
    for entry in walk(&folder) {
        let packed = entry.extension().is_some_and(|extension| extension == "zst");
        if packed {
            continue;
        }
        check(&[Input::Path(entry)]);
        files += 1;
    }
    assert!(files > 30, "only {files} files in {}", folder.display());
    check(&[Input::Path(folder.join("nasty"))]);
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

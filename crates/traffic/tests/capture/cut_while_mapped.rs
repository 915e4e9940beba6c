//! Files that are truncated, extended, replaced or removed while they are mapped. A capture ends as
//! if the truncation had happened before it was opened, or later, but not after the cut.

use std::fs::OpenOptions;

use flowloom_traffic::capture::{CaptureSet, Input, SetOptions, guard_against_truncation};

use super::*;

/// Bytes of a page on most machines. Cuts near its multiples differ.
const PAGE: u64 = 4096;

fn cut(path: &Path, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// A capture of either format, and the end of each packet record.
fn capture(next_generation: bool, packets: u32, bytes: u32) -> (Vec<u8>, Vec<u64>) {
    let mut file = if next_generation {
        [section(false), interface(1, &[], false)].concat()
    } else {
        pcap_header(0xA1B2_C3D4, 1, false)
    };
    let mut ends = Vec::new();
    for i in 0..packets {
        let data: Vec<u8> = (0..=(i * 7 % bytes)).map(|b| (b ^ i) as u8 | 1).collect();
        let captured = data.len() as u32;
        match (next_generation, i % 5) {
            (false, _) => file.extend(pcap_record(i, 1, &data, captured, false)),
            (true, 0) => file.extend(block(3, &[&captured.to_le_bytes()[..], &data].concat(), false)),
            (true, _) => file.extend(enhanced(0, u64::from(i), &data, captured, captured, false)),
        }
        ends.push(file.len() as u64);
    }
    (file, ends)
}

/// Reads batches until `packets` packets were read.
fn read_some(capture: &mut Capture, packets: usize) -> Vec<Seen> {
    let mut batch = PacketBatch::new();
    let mut seen = Vec::new();
    while seen.len() < packets && capture.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.clone().unwrap();
        seen.extend(batch.packets.iter().map(|raw| Seen {
            bytes: raw.bytes_in(block.bytes()).to_vec(),
            wire: raw.wire_bytes,
            time_ns: raw.time_ns,
            link: raw.link.0,
        }));
    }
    seen
}

/// Reads some packets, truncates the file, and continues reading. Compares the result with the
/// remaining part of the file.
fn check(next_generation: bool, packets: u32, bytes: u32, before: usize, cut_at: u64) {
    guard_against_truncation().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, ends) = capture(next_generation, packets, bytes);
    let path = write_file(directory.path(), "test", &file);
    let (whole, _) = read_all_ways(&file).unwrap();
    let case =
        format!("pcapng {next_generation}, {before} packets, then cut at {cut_at} of {}", file.len());

    let mut mapped = Capture::open(&path, CaptureOptions::default()).unwrap();
    let mut seen = read_some(&mut mapped, before);
    let yielded = seen.len();
    cut(&path, cut_at);
    seen.extend(drain(&mut mapped).unwrap());
    let left = ends.iter().filter(|&&end| end <= cut_at).count();
    assert_eq!(seen.len(), left.max(yielded), "{case}");
    assert!(seen == whole[..seen.len()], "{case}: other packets");
    assert_eq!(mapped.packets(), seen.len() as u64, "{case}");
    let Some(Notice::CutRecord { packet, offset, have, need, .. }) = mapped.notice() else {
        panic!("{case}: {:?}", mapped.notice());
    };
    let record = if left >= yielded { ends[left - 1] } else { cut_at };
    let expected = (seen.len() as u64 + 1, record, cut_at - record);
    assert_eq!((*packet, *offset, *have), expected, "{case}");
    assert!(have < need, "{case}");
}

#[test]
fn a_file_that_is_cut_while_it_is_mapped_ends_where_it_was_cut() {
    for next_generation in [false, true] {
        let (file, ends) = capture(next_generation, 2000, 300);
        let record = ends.iter().copied().find(|&end| end > 100_000).unwrap();
        let pages = (100_000_u64).next_multiple_of(PAGE);
        for before in [1, 200] {
            for cut_at in [record, record + 1, record + 20, pages - 1, pages, pages + 1, pages + PAGE / 2] {
                check(next_generation, 2000, 300, before, cut_at);
            }
        }
        // Before the last packet read, and so close to the end that no page is lost.
        check(next_generation, 2000, 300, 1900, ends[500]);
        check(next_generation, 2000, 300, 1, file.len() as u64 - 1);
    }
}

#[test]
fn a_file_that_is_cut_twice_ends_at_the_second_cut() {
    guard_against_truncation().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, ends) = capture(false, 3000, 300);
    let path = write_file(directory.path(), "test", &file);
    let mut mapped = Capture::open(&path, CaptureOptions::default()).unwrap();
    let mut seen = read_some(&mut mapped, 1).len();
    for left in [2000, 1000] {
        cut(&path, ends[left - 1] + 3);
        seen += read_some(&mut mapped, 100).len();
    }
    seen += drain(&mut mapped).unwrap().len();
    assert_eq!(seen, 1000);
    let expected = (ends[999], 3);
    assert!(
        matches!(mapped.notice(), Some(Notice::CutRecord { offset, have, .. }) if (*offset, *have) == expected),
        "{:?}",
        mapped.notice()
    );
}

#[test]
fn zeros_after_the_cut_are_not_packets() {
    // The whole capture lies in one page, so no read faults.
    for cut_at in [500, 512, 513, 1000] {
        check(false, 60, 30, 1, cut_at);
    }
}

#[test]
fn later_passes_read_what_is_left() {
    guard_against_truncation().unwrap();
    let (file, ends) = capture(false, 3000, 300);
    for (cut_at, left) in [(ends[999], 1000), (ends[999] + 7, 1000), (24, 0), (10, 0), (0, 0)] {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "test.pcap", &file);
        let options = SetOptions { passes: 3, ..SetOptions::default() };
        let mut set = CaptureSet::open(&[Input::Path(path.clone())], options).unwrap();
        let mut batch = PacketBatch::new();
        let (mut counts, mut is_cut) = ([0; 3], false);
        while flowloom_packet::PacketSource::next_batch(&mut set, &mut batch).unwrap() == Fill::Packets {
            counts[batch.pass as usize] += batch.packets.len();
            if !is_cut && batch.pass == 1 {
                cut(&path, cut_at);
                is_cut = true;
            }
        }
        assert_eq!((counts[0], counts[2]), (3000, left), "{cut_at}");
        assert!(counts[1] >= left && counts[1] < 3000, "{cut_at}: {counts:?}");
        let notices = set.notices();
        assert!(!notices.is_empty(), "{cut_at}");
        assert!(notices.iter().all(|notice| matches!(notice, Notice::CutRecord { .. })), "{notices:?}");
    }
}

#[test]
fn a_file_that_grows_is_replaced_or_removed_is_read_as_it_was_opened() {
    guard_against_truncation().unwrap();
    let (file, _) = capture(false, 3000, 300);
    let (whole, _) = read_all_ways(&file).unwrap();
    let grows = |path: &Path| {
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(&pcap_record(1, 1, &[1, 2, 3], 3, false)).unwrap();
    };
    let is_replaced = |path: &Path| {
        let other = path.with_extension("new");
        std::fs::write(&other, pcap(3)).unwrap();
        std::fs::rename(other, path).unwrap();
    };
    let is_removed = |path: &Path| std::fs::remove_file(path).unwrap();
    let changes: [&dyn Fn(&Path); 3] = [&grows, &is_replaced, &is_removed];
    for change in changes {
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "test", &file);
        let mut mapped = Capture::open(&path, CaptureOptions::default()).unwrap();
        let mut seen = read_some(&mut mapped, 1);
        change(&path);
        seen.extend(drain(&mut mapped).unwrap());
        assert!(seen == whole);
        assert_eq!(mapped.notice(), None);
    }
}

#[test]
fn several_threads_may_read_lost_pages() {
    guard_against_truncation().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (file, _) = capture(false, 30_000, 300);
    let path = write_file(directory.path(), "test", &file);
    let mut mapped = Capture::open(&path, CaptureOptions::default()).unwrap();
    let mut batch = PacketBatch::new();
    assert_eq!(mapped.next_batch(&mut batch).unwrap(), Fill::Packets);
    cut(&path, 5000);
    let block = batch.block.clone().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(block.bytes()[8192..].iter().all(|&byte| byte == 0)));
        }
    });
    drain(&mut mapped).unwrap();
    assert!(matches!(mapped.notice(), Some(Notice::CutRecord { .. })), "{:?}", mapped.notice());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 600 }))]

    #[test]
    fn capture_cut_at_any_time_and_offset_ends_at_the_cut(
        next_generation in any::<bool>(),
        packets in 40_u32..600,
        bytes in 1_u32..400,
        before in 1_usize..300,
        place in any::<prop::sample::Index>(),
    ) {
        let (file, ends) = capture(next_generation, packets, bytes);
        let first = ends[0] as usize;
        let cut_at = (first + place.index(file.len() - first)) as u64;
        // A cut after the last read has no effect.
        if before < packets as usize - 32 {
            check(next_generation, packets, bytes, before, cut_at);
        }
    }
}

#[test]
fn a_record_in_which_the_file_ends_is_no_packet_though_it_is_the_last_of_a_batch() {
    let (_, ends) = capture(false, 585, 165);
    // Batches have 32 packets.
    for cut_at in [ends[479] - 1, ends[479] - 40, ends[31] - 1, ends[63] - 1] {
        check(false, 585, 165, 1, cut_at);
    }
}

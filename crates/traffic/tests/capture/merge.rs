//! Sets of captures by time: packets are merged by the next packets of the files.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_packet::{Fill, PacketBatch, PacketSource, SharedBlock};
use flowloom_traffic::capture::{
    CaptureOptions, CaptureParts, CaptureSet, Input, NotCuttable, Notice, PlanError, SetOptions, SetOrder,
};
use proptest::prelude::*;

use crate::parts::{drain, seen, whole};
use crate::{Seen, enhanced, gzip, interface, pcap_header, pcap_record, section, write_file};

const BY_TIME: SetOptions = SetOptions {
    order: SetOrder::ByTime,
    passes: 1,
    capture: CaptureOptions { map: true, release: false, limits: LIMITS },
    names_files: false,
};
const LIMITS: flowloom_traffic::capture::UnpackLimits = flowloom_traffic::capture::UnpackLimits {
    bytes_max: 1 << 40,
    ratio_max: None,
    ratio_after_bytes: 256 << 20,
};

/// Returns a capture of packets at these microseconds. Each packet names its file.
fn capture(file: usize, times: &[u32]) -> Vec<u8> {
    let mut bytes = pcap_header(0xA1B2_C3D4, 1, false);
    for (number, time) in times.iter().enumerate() {
        let mut data = vec![file as u8; 20 + (number * 7 + file) % 90];
        data[..4].copy_from_slice(&(number as u32).to_le_bytes());
        bytes.extend(pcap_record(time / 1_000_000, time % 1_000_000, &data, 1500, false));
    }
    bytes
}

fn write_all(directory: &Path, files: &[Vec<u8>]) -> Vec<Input> {
    files
        .iter()
        .enumerate()
        .map(|(i, bytes)| Input::Path(write_file(directory, &format!("{i:04}"), bytes)))
        .collect()
}

/// Merges the packets of files by definition: the lowest next time first, and of equal times the
/// first file.
fn merged(files: Vec<Vec<Seen>>) -> Vec<Seen> {
    let mut rest: Vec<_> = files.into_iter().map(|packets| packets.into_iter().peekable()).collect();
    let mut all = Vec::new();
    loop {
        let heads = rest.iter_mut().enumerate();
        let heads = heads.filter_map(|(file, packets)| Some((packets.peek()?.time_ns, file)));
        let Some((_, file)) = heads.min() else { return all };
        all.extend(rest[file].next());
    }
}

/// Returns the packets of each file.
fn read_each(inputs: &[Input]) -> Vec<Vec<Seen>> {
    inputs
        .iter()
        .map(|input| whole(std::slice::from_ref(input), SetOptions::default()).unwrap().packets)
        .collect()
}

fn packets_by_time(inputs: &[Input]) -> (Vec<Seen>, Option<usize>) {
    let mut set = CaptureSet::open(inputs, BY_TIME).unwrap();
    let (packets, error) = drain(&mut set);
    assert_eq!(error, None);
    assert_eq!(set.packets(), packets.len() as u64);
    assert_eq!(set.progress().done_bytes(), set.progress().total_bytes());
    (packets, set.overlapped())
}

#[test]
fn packets_split_over_two_files_are_merged_into_the_original_order() {
    let directory = tempfile::tempdir().unwrap();
    let times: Vec<u32> = (0..3000).map(|i| i * 10).collect();
    let all = write_all(directory.path(), &[capture(0, &times)]);
    let packets = read_each(&all).remove(0);
    for burst in [1, 3, 7, 8, 40, 400] {
        let mut files = [pcap_header(0xA1B2_C3D4, 1, false), pcap_header(0xA1B2_C3D4, 1, false)];
        for (i, packet) in packets.iter().enumerate() {
            let time = (packet.time_ns / 1000) as u32;
            let record = pcap_record(time / 1_000_000, time % 1_000_000, &packet.bytes, 1500, false);
            files[i / burst % 2].extend(record);
        }
        for compress in [false, true] {
            let files = if compress { files.clone().map(|file| gzip(&file)) } else { files.clone() };
            let inputs = write_all(directory.path(), &files);
            let (found, overlapped) = packets_by_time(&inputs);
            assert!(found == packets, "bursts of {burst}");
            assert_eq!(overlapped, Some(2));
        }
    }
}

#[test]
fn consecutive_files_are_read_in_order_without_a_copy() {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<Vec<u8>> = (0..5_u32)
        .rev()
        .map(|i| capture(i as usize, &(i * 100..=i * 100 + 100).collect::<Vec<_>>()))
        .collect();
    let inputs = write_all(directory.path(), &files);
    // The last time of one file equals the first of the next, which was named before it, so that
    // one comes first.
    let (_, overlapped) = packets_by_time(&inputs);
    assert_eq!(overlapped, Some(5));
    let mut in_order = inputs.clone();
    in_order.reverse();
    let (found, overlapped) = packets_by_time(&in_order);
    assert_eq!(overlapped, None);
    let concat = whole(&in_order, SetOptions::default()).unwrap();
    assert!(found == concat.packets);
    let by_time = whole(&in_order, BY_TIME).unwrap();
    assert_eq!((by_time.files, by_time.notices), (concat.files, concat.notices));
    let mut set = CaptureSet::open(&in_order, BY_TIME).unwrap();
    assert!(set.paths().eq(in_order.iter().map(path_of)));
    let mut batch = PacketBatch::new();
    let mut blocks: Vec<SharedBlock> = Vec::new();
    while set.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.clone().unwrap();
        if !blocks.last().is_some_and(|last| Arc::ptr_eq(last, &block)) {
            blocks.push(block);
        }
    }
    assert_eq!(blocks.len(), 5, "one block for each file: its mapping");
}

fn path_of(input: &Input) -> &Path {
    match input {
        Input::Path(path) => path,
        Input::Stdin => panic!("a file"),
    }
}

#[test]
fn packets_may_have_the_names_of_their_files() {
    let directory = tempfile::tempdir().unwrap();
    let long = directory.path().join("x".repeat(200)).join("y".repeat(200));
    std::fs::create_dir_all(&long).unwrap();
    let mut inputs = write_all(directory.path(), &[capture(0, &[1, 4]), capture(1, &[2, 3])]);
    inputs.push(Input::Path(write_file(&long, "end", &capture(2, &[5]))));
    for order in [SetOrder::ByTime, SetOrder::Concat] {
        let options = SetOptions { order, names_files: true, ..SetOptions::default() };
        let mut set = CaptureSet::open(&inputs, options).unwrap();
        let (mut batch, mut named) = (PacketBatch::new(), 0);
        assert!(set.split(1).is_none(), "a part of a file would have no names");
        while set.next_batch(&mut batch).unwrap() != Fill::End {
            let block = batch.block.clone().unwrap();
            for packet in &batch.packets {
                let Input::Path(path) = &inputs[usize::from(packet.bytes_in(block.bytes())[4])] else {
                    panic!()
                };
                let name = packet.interface.as_str().unwrap();
                assert!(path.to_str().unwrap().ends_with(name) && name.len() <= 255);
                named += 1;
            }
        }
        assert_eq!(named, 5);
    }
}

#[test]
fn held_blocks_keep_their_contents_and_have_distinct_numbers() {
    let directory = tempfile::tempdir().unwrap();
    let files: Vec<Vec<u8>> = (0..3_usize)
        .map(|file| {
            let times: Vec<u32> =
                (0..2000_u32).filter(|i| (i / 50 % 3) as usize == file || i % 97 == file as u32).collect();
            capture(file, &times)
        })
        .collect();
    let inputs = write_all(directory.path(), &files);
    let expected = merged(read_each(&inputs));
    let mut set = CaptureSet::open(&inputs, BY_TIME).unwrap();
    let mut batch = PacketBatch::new();
    // Holds many blocks, and releases the oldest when the source has none.
    let mut held: Vec<(u64, SharedBlock, Vec<Seen>, PacketBatch)> = Vec::new();
    let mut found = Vec::new();
    loop {
        match set.next_batch(&mut batch).unwrap() {
            Fill::Packets => {
                let block = batch.block.clone().unwrap();
                if let Some((number, before, ..)) = held.last() {
                    assert_eq!(*number == batch.block_number, Arc::ptr_eq(before, &block));
                }
                let mut copy = PacketBatch::new();
                copy.packets.clone_from(&batch.packets);
                copy.block = Some(Arc::clone(&block));
                held.push((batch.block_number, block, seen(&batch).collect(), copy));
            }
            Fill::Starved => {
                assert!(held.len() > 2, "a block or two may be kept");
                let (_, _, before, copy) = held.remove(0);
                assert!(seen(&copy).eq(before.iter().cloned()));
                found.extend(before);
            }
            Fill::End => break,
        }
    }
    for (_, _, before, copy) in held {
        assert!(seen(&copy).eq(before.iter().cloned()));
        found.extend(before);
    }
    assert!(found == expected);
}

#[test]
fn many_files_that_all_overlap_are_merged() {
    for count in [64_usize, 1024] {
        let directory = tempfile::tempdir().unwrap();
        let files: Vec<Vec<u8>> = (0..count)
            .map(|file| {
                let times: Vec<u32> =
                    (0..8).map(|i| ((i * count + file * 7 % count) * 3) as u32 / 4 * 4).collect();
                let bytes = capture(file, &times);
                if file % 5 == 4 { gzip(&bytes) } else { bytes }
            })
            .collect();
        let inputs = write_all(directory.path(), &files);
        let (found, overlapped) = packets_by_time(&inputs);
        assert!(found == merged(read_each(&inputs)), "{count} files");
        assert_eq!(overlapped, Some(count));
        let (found, _) = packets_by_time(&[Input::Path(directory.path().to_path_buf())]);
        assert_eq!(found.len(), 8 * count);
        assert!(found.windows(2).all(|pair| pair[0].time_ns <= pair[1].time_ns));
    }
}

#[test]
fn an_error_of_a_file_is_noticed_and_the_others_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut cut = capture(0, &[1, 3, 5, 7]);
    cut.truncate(cut.len() - 3);
    let mut corrupt = capture(1, &[2, 4, 6, 8]);
    let at = corrupt.len() - 60;
    corrupt[at..].fill(0xFF);
    let can = {
        let mut bytes = pcap_header(0xA1B2_C3D4, 190, false);
        bytes.extend(pcap_record(0, 3, &[1; 16], 16, false));
        bytes
    };
    let inputs = write_all(directory.path(), &[cut, corrupt, can, capture(3, &[]), capture(4, &[0, 9])]);
    let pairs = |i: usize| [inputs[i].clone(), inputs[3].clone()];
    let by_time = whole(&inputs, BY_TIME).unwrap();
    let mut concat = whole(&inputs, SetOptions::default()).unwrap();
    // The empty file allows one that cannot be decoded.
    let each = (0..5).map(|i| whole(&pairs(i), SetOptions::default()).unwrap().packets).collect();
    assert!(by_time.packets == merged(each));
    let sort = |mut notices: Vec<Notice>| {
        notices.sort();
        notices
    };
    assert_eq!(sort(by_time.notices), sort(concat.notices));
    // Notices come in the order of first times; the empty file has none.
    concat
        .files
        .sort_by_key(|file| [3, 4, 0, 1, 2].iter().position(|i| file.path.ends_with(format!("{i:04}"))));
    assert_eq!(by_time.files, concat.files);
}

#[test]
fn merge_without_decodable_packets_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let can = |second: u32| {
        let mut bytes = [section(false), interface(190, &[], false)].concat();
        bytes.extend(enhanced(0, u64::from(second), &[1; 16], 16, 16, false));
        bytes
    };
    let inputs = write_all(directory.path(), &[can(2), can(1)]);
    let found = whole(&inputs, BY_TIME).unwrap();
    assert_eq!(found.packets.len(), 2);
    let error = found.error.unwrap();
    assert!(error.contains("190 (CAN)"), "{error}");
    let mut set = CaptureSet::open(&inputs, BY_TIME).unwrap();
    set.check_decodable().unwrap();
    let mut batch = PacketBatch::new();
    assert_eq!(set.next_batch(&mut batch).unwrap(), Fill::Packets);
    set.check_decodable().unwrap_err();
}

#[test]
fn passes_repeat_the_merge_and_time_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let inputs =
        write_all(directory.path(), &[capture(0, &[10, 30, 50]), gzip(&capture(1, &[20, 40, 60]))]);
    let mut set = CaptureSet::open(&inputs, SetOptions { passes: 3, ..BY_TIME }).unwrap();
    let (packets, _) = drain(&mut set);
    let times: Vec<u64> = packets.iter().map(|packet| packet.time_ns / 1000).collect();
    let pass = [10, 20, 30, 40, 50, 60];
    let gap = 50 + 50 / 6;
    assert_eq!(times[..6], pass);
    assert_eq!(times[6..12], pass.map(|time| time + gap));
    assert_eq!(packets.len(), 18);
    assert_eq!(set.files().len(), 2);
    assert_eq!(set.progress().done_bytes(), set.progress().total_bytes());
}

#[test]
fn long_packet_is_merged_between_others() {
    let directory = tempfile::tempdir().unwrap();
    let long = |time: u32| {
        let mut bytes = pcap_header(0xA1B2_C3D4, 1, false);
        for i in 0..4 {
            bytes.extend(pcap_record(0, time + i * 10, &vec![7; 100_000], 100_000, false));
        }
        bytes
    };
    let inputs = write_all(directory.path(), &[long(1), capture(1, &(0..60).collect::<Vec<_>>()), long(2)]);
    let (found, _) = packets_by_time(&inputs);
    assert!(found == merged(read_each(&inputs)));
}

#[cfg(unix)]
#[test]
fn a_pipe_takes_part_by_its_next_packet() {
    use std::io::Write;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("pipe");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    let mut inputs = write_all(directory.path(), &[capture(0, &[1, 3, 9])]);
    inputs.push(Input::Path(PathBuf::from(&path)));
    let mut set = CaptureSet::open(&inputs, BY_TIME).unwrap();
    let mut batch = PacketBatch::new();
    let mut take = |set: &mut CaptureSet| {
        let mut times = Vec::new();
        loop {
            match set.next_batch(&mut batch).unwrap() {
                Fill::Packets => times.extend(batch.packets.iter().map(|packet| packet.time_ns / 1000)),
                fill => return (times, fill),
            }
        }
    };
    assert_eq!(take(&mut set), (vec![], Fill::Starved), "its first packet has not come");
    let mut pipe = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let bytes = capture(1, &[2, 4]);
    // The second header confirms that headers have the usual length.
    let second = bytes.len() - 43 + 16;
    pipe.write_all(&bytes[..second]).unwrap();
    assert_eq!(take(&mut set), (vec![1, 2], Fill::Starved));
    pipe.write_all(&bytes[second..]).unwrap();
    assert_eq!(take(&mut set), (vec![3, 4], Fill::Starved));
    drop(pipe);
    assert_eq!(take(&mut set), (vec![9], Fill::End));
}

/// Reads files by time in parts, one after another. Returns the packets and whether the files
/// overlap.
fn in_parts(inputs: &[Input], parts: usize) -> Result<(Vec<Seen>, Option<usize>), NotCuttable> {
    let plan = match CaptureParts::plan(inputs, BY_TIME, parts) {
        Ok(plan) => plan,
        Err(PlanError::NotCuttable(why)) => return Err(why),
        Err(error) => panic!("{error}"),
    };
    let (packets, reads): (Vec<_>, Vec<_>) = (0..plan.len())
        .map(|part| {
            let mut part = plan.open(part).unwrap();
            let (packets, error) = drain(&mut part);
            assert_eq!(error, None);
            (packets, part.finish())
        })
        .unzip();
    assert!(plan.unconfirmed(&reads).is_empty(), "these files have no pitfalls");
    Ok((packets.concat(), plan.summary(&reads).overlapped()))
}

#[test]
fn only_files_that_do_not_overlap_can_be_split() {
    let directory = tempfile::tempdir().unwrap();
    let times = |from: u32| (from..from + 1000).collect::<Vec<u32>>();
    let files = [capture(0, &times(5000)), capture(1, &times(1000)), capture(2, &times(3000))];
    let inputs = write_all(directory.path(), &files);
    let overlap = CaptureParts::overlap(&inputs, SetOptions::default()).unwrap();
    assert_eq!((overlap.files, overlap.unknown), (0, 0));
    let (expected, _) = packets_by_time(&inputs);
    for parts in 1..=8 {
        let (found, overlapped) = in_parts(&inputs, parts).unwrap();
        assert!(found == expected, "{parts} parts");
        assert_eq!(overlapped, None);
    }
    let overlapping = [capture(0, &times(1500)), capture(1, &times(1000)), capture(2, &times(3000))];
    let inputs = write_all(directory.path(), &overlapping);
    assert_eq!(CaptureParts::overlap(&inputs, SetOptions::default()).unwrap().files, 2);
    assert_eq!(in_parts(&inputs, 4).unwrap_err(), NotCuttable::Overlapping { files: 2 });
}

#[test]
fn a_wrong_estimate_is_noticed_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    // A time in the middle is after the end, and a compressed file has an unknown end.
    let mut jumps: Vec<u32> = (1000..9000).collect();
    jumps[4000] = 50_000;
    let files = [capture(0, &jumps), capture(1, &(20_000..21_000).collect::<Vec<_>>())];
    let inputs = write_all(directory.path(), &files);
    assert_eq!(CaptureParts::overlap(&inputs, SetOptions::default()).unwrap().files, 0);
    let (_, overlapped) = in_parts(&inputs, 4).unwrap();
    assert_eq!(overlapped, Some(2));
    let inputs = write_all(directory.path(), &[gzip(&files[0]), gzip(&files[1])]);
    let overlap = CaptureParts::overlap(&inputs, SetOptions::default()).unwrap();
    assert_eq!((overlap.files, overlap.unknown), (0, 2));
    let (_, overlapped) = in_parts(&inputs, 2).unwrap();
    assert_eq!(overlapped, Some(2));
}

/// Times that mostly rise, with ties and steps back.
fn times() -> impl Strategy<Value = Vec<u32>> {
    let step = prop_oneof![6 => 0_i64..4, 2 => 0_i64..200, 1 => -50_i64..0];
    (0_i64..300, prop::collection::vec(step, 0..150)).prop_map(|(first, steps)| {
        steps
            .into_iter()
            .scan(first + 1000, |time, step| {
                *time = (*time + step).max(0);
                u32::try_from(*time).ok()
            })
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 100 } else { 1000 }))]

    #[test]
    fn merged_files_match_a_sorted_list(
        files in prop::collection::vec((times(), any::<bool>()), 2..9),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let bytes: Vec<Vec<u8>> = files.iter().enumerate().map(|(file, (times, compress))| {
            let bytes = capture(file, times);
            if *compress { gzip(&bytes) } else { bytes }
        }).collect();
        let inputs = write_all(directory.path(), &bytes);
        let expected = merged(read_each(&inputs));
        let (found, overlapped) = packets_by_time(&inputs);
        prop_assert!(found == expected);
        // Files that do not overlap come one after another in the order of first times.
        let mut by_first: Vec<_> = files.iter().enumerate().map(|(i, (times, _))| (times.first(), i)).collect();
        by_first.sort();
        let in_order: Vec<Input> = by_first.iter().map(|(_, i)| inputs[*i].clone()).collect();
        let concat = read_each(&in_order).concat();
        if let Ok((found, in_parts)) = in_parts(&inputs, 5) {
            prop_assert!(found == concat);
            prop_assert_eq!(in_parts.is_none(), concat == expected, "{:?}", in_parts);
        }
        prop_assert_eq!(overlapped.is_none(), concat == expected, "{:?}", overlapped);
        if files.iter().all(|(times, _)| times.is_sorted()) {
            let mut sorted = read_each(&inputs).concat();
            sorted.sort_by_key(|packet| packet.time_ns);
            prop_assert!(found == sorted);
        }
    }
}

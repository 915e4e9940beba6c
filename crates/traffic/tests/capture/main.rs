//! Captures that are complete, truncated, corrupt, compressed or hostile: every method of reading
//! yields the same packets, and nothing panics.

#![expect(clippy::cast_possible_truncation, reason = "small numbers make test bytes")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flowloom_packet::{Fill, PacketBatch, SharedBlock};
use flowloom_traffic::capture::{
    Capture, CaptureError, CaptureOptions, Notice, RECORD_BYTES_MAX, UnpackLimits,
};
use proptest::prelude::*;

use sets::notices_of;

mod any_parts;
#[cfg(target_os = "linux")]
mod cut_while_mapped;
mod details;
mod losses;
mod merge;
mod packed;
mod parts;
mod patched;
mod sets;
mod streams;
mod times;

/// A packet as a reader returned it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    bytes: Vec<u8>,
    wire: u32,
    time_ns: u64,
    link: u16,
}

fn drain(capture: &mut Capture) -> Result<Vec<Seen>, CaptureError> {
    let mut batch = PacketBatch::new();
    let mut seen = Vec::new();
    let mut before: Option<(u64, SharedBlock)> = None;
    loop {
        match capture.next_batch(&mut batch)? {
            Fill::Packets => {
                let block = batch.block.as_ref().expect("a batch with packets has a block");
                if let Some((number, before)) = before.replace((batch.block_number, Arc::clone(block))) {
                    // As long as this holds the block, the source does not refill it.
                    assert_eq!(number == batch.block_number, Arc::ptr_eq(&before, block));
                }
                seen.extend(batch.packets.iter().map(|raw| Seen {
                    bytes: raw.bytes_in(block.bytes()).to_vec(),
                    wire: raw.wire_bytes,
                    time_ns: raw.time_ns,
                    link: raw.link.0,
                }));
            }
            Fill::Starved => panic!("no block is held"),
            Fill::End => return Ok(seen),
        }
    }
}

/// Returns a few bytes at a time, as a slow pipe does.
struct Trickle<R> {
    inner: R,
    step: usize,
}

impl<R: Read> Read for Trickle<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(self.step);
        self.inner.read(&mut buffer[..count])
    }
}

fn write_file(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

fn pcap_header(magic: u32, link: u32, big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    [&word(magic)[..], &half(2), &half(4), &word(0), &word(0), &word(65_535), &word(link)].concat()
}

fn pcap_record(seconds: u32, fraction: u32, data: &[u8], wire: u32, big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let captured = u32::try_from(data.len()).unwrap();
    [&word(seconds)[..], &word(fraction), &word(captured), &word(wire), data].concat()
}

/// A classic capture of `packets` packets of rising size.
fn pcap(packets: u32) -> Vec<u8> {
    let mut file = pcap_header(0xA1B2_C3D4, 1, false);
    for i in 0..packets {
        let data: Vec<u8> = (0..20 + i % 300).map(|b| (b ^ i) as u8).collect();
        file.extend(pcap_record(i, i % 1000, &data, 400, false));
    }
    file
}

fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = u32::try_from(body.len() + 12).unwrap();
    [&word(kind)[..], &word(length), &body, &word(length)].concat()
}

fn section(big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let version = if big_endian { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
    block(0x0A0D_0D0A, &[&word(0x1A2B_3C4D)[..], &version, &[0xFF; 8]].concat(), big_endian)
}

fn interface(link: u16, options: &[u8], big_endian: bool) -> Vec<u8> {
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    block(1, &[&half(link)[..], &[0, 0], &[0; 4], options].concat(), big_endian)
}

fn enhanced(
    interface: u32,
    units: u64,
    data: &[u8],
    captured: u32,
    wire: u32,
    big_endian: bool,
) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let head =
        [word(interface), word((units >> 32) as u32), word(units as u32), word(captured), word(wire)]
            .concat();
    block(6, &[&head[..], data].concat(), big_endian)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

fn open_bytes(bytes: Vec<u8>) -> Result<Capture, CaptureError> {
    Capture::read_from(Path::new("test"), Cursor::new(bytes), CaptureOptions::default())
}

/// A reader's results: its packets, and its notices.
type Found = (Vec<Seen>, Option<Notice>, Option<Notice>);

fn read_all(capture: Result<Capture, CaptureError>) -> Option<Found> {
    let mut capture = capture.ok()?;
    let seen = drain(&mut capture).expect("memory and files have no read errors");
    Some((seen, capture.notice().cloned(), capture.joined()))
}

/// Reads the same bytes mapped, on a thread, decompressed on a thread, as a stream, and in small
/// pieces. All must agree. Returns packets and notice.
fn read_all_ways(bytes: &[u8]) -> Option<(Vec<Seen>, Option<Notice>)> {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "test", bytes);
    let mapped = read_all(Capture::open(&path, CaptureOptions::default()));
    let options = CaptureOptions { map: false, ..CaptureOptions::default() };
    assert_eq!(mapped, read_all(Capture::open(&path, options)), "read");
    for step in [usize::MAX, 1000, 7] {
        let trickle = Trickle { inner: Cursor::new(bytes.to_vec()), step };
        let streamed = read_all(Capture::read_from(&path, trickle, CaptureOptions::default()));
        assert_eq!(mapped, streamed, "read {step} bytes at a time");
    }
    if mapped.is_some() && !bytes.starts_with(&[0x1F, 0x8B]) {
        for (packing, packed) in [("gzip", gzip(bytes)), ("zstd", zstd::encode_all(bytes, 1).unwrap())] {
            std::fs::write(&path, packed).unwrap();
            let packed = read_all(Capture::open(&path, CaptureOptions::default()));
            assert_eq!(mapped, packed, "{packing}");
        }
    }
    let (seen, notice, _) = mapped?;
    Some((seen, notice))
}

#[test]
fn every_variant_of_pcap_gives_the_same_packets() {
    let magics = [(0xA1B2_C3D4_u32, false, false), (0xA1B2_3C4D, true, false), (0xA1B2_CD34, false, true)];
    for big_endian in [false, true] {
        for (magic, nanoseconds, modified) in magics {
            let mut file = pcap_header(magic, 1, big_endian);
            for i in 0..50_u32 {
                let data = vec![i as u8; 60];
                let mut record = pcap_record(i, 7, &data, 1500, big_endian);
                if modified {
                    record.splice(16..16, [0; 8]);
                }
                file.extend(record);
            }
            let (seen, notice) = read_all_ways(&file).unwrap();
            assert_eq!(notice, None);
            assert_eq!(seen.len(), 50);
            for (i, packet) in (0_u64..).zip(&seen) {
                let fraction = if nanoseconds { 7 } else { 7000 };
                assert_eq!(packet.time_ns, i * 1_000_000_000 + fraction);
                assert_eq!((packet.wire, packet.link), (1500, 1));
                assert_eq!(packet.bytes, vec![i as u8; 60]);
            }
        }
    }
}

#[test]
fn pcapng_sections_have_byte_orders_interfaces_and_clocks_of_their_own() {
    let mut file = Vec::new();
    for big_endian in [false, true] {
        let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        // if_tsresol 9, then the end of options; and a second interface counting microseconds by
        // default.
        let nanoseconds = [&half(9)[..], &half(1), &[9, 0, 0, 0], &half(0), &half(0)].concat();
        file.extend(section(big_endian));
        file.extend(interface(1, &nanoseconds, big_endian));
        file.extend(interface(101, &[], big_endian));
        file.extend(enhanced(0, 5, &[1, 2, 3], 3, 100, big_endian));
        file.extend(enhanced(1, 6, &[4, 5, 6, 7], 4, 4, big_endian));
        file.extend(block(0x0BAD, &[0; 20], big_endian)); // An unknown block is skipped.
        file.extend(block(
            3,
            &[&(if big_endian { 2_u32.to_be_bytes() } else { 2_u32.to_le_bytes() })[..], &[8, 9]].concat(),
            big_endian,
        ));
    }
    let (seen, notice) = read_all_ways(&file).unwrap();
    assert_eq!(notice, None);
    let expected = [
        Seen { bytes: vec![1, 2, 3], wire: 100, time_ns: 5, link: 1 },
        Seen { bytes: vec![4, 5, 6, 7], wire: 4, time_ns: 6000, link: 101 },
        Seen { bytes: vec![8, 9], wire: 2, time_ns: 6000, link: 1 },
    ];
    assert_eq!(seen, [&expected[..], &expected[..]].concat());
}

#[test]
fn a_big_endian_time_offset_is_read_as_such() {
    let options = [&[0, 14, 0, 8][..], &10_i64.to_be_bytes(), &[0, 0, 0, 0]].concat();
    let mut file = section(true);
    file.extend(interface(1, &options, true));
    file.extend(enhanced(0, 1, &[0], 1, 1, true));
    assert_eq!(read_all_ways(&file).unwrap().0[0].time_ns, 10_000_001_000);
}

/// An option takes four bytes, and eight times as many when it is collected: sixteen megabytes of
/// options took two hundred megabytes.
#[test]
fn a_description_that_is_nothing_but_options_is_refused_before_they_are_collected() {
    for big_endian in [false, true] {
        let packet = enhanced(0, 1, &[1], 1, 1, big_endian);
        for (bytes, fits) in [((1 << 20) - 28, true), (1 << 20, false)] {
            // Comments without bytes.
            let comment = if big_endian { [0, 1, 0, 0] } else { [1, 0, 0, 0] };
            let options = comment.repeat(bytes / 4);
            let head = section(big_endian);
            let long_head = block(0x0A0D_0D0A, &[&head[8..24], &options[..]].concat(), big_endian);
            let of_an_interface = [head, interface(1, &options, big_endian), packet.clone()].concat();
            let of_a_later_section = [section(big_endian), packet.clone(), long_head.clone()].concat();
            for file in [of_an_interface, of_a_later_section] {
                let (_, notice) = read_all_ways(&file).unwrap();
                assert_eq!(matches!(notice, Some(Notice::Corrupt { .. })), !fits, "{notice:?}");
            }
            let opened = open_bytes([long_head, interface(1, &[], big_endian), packet.clone()].concat());
            assert_eq!(opened.is_ok(), fits, "{opened:?}");
        }
    }
}

#[test]
fn captured_length_beyond_its_block_is_cut_and_counted() {
    let mut file = section(false);
    file.extend(interface(1, &[], false));
    file.extend(enhanced(0, 1, &[1, 2, 3, 4], 4_000_000_000, 64, false));
    file.extend(enhanced(0, 2, &[5, 6, 7, 8], 4, 64, false));
    let mut capture = open_bytes(file.clone()).unwrap();
    let seen = drain(&mut capture).unwrap();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].bytes, [1, 2, 3, 4]);
    assert_eq!(capture.lying_lengths(), 1);
    assert_eq!(read_all_ways(&file).unwrap().0, seen);
    let notices = notices_of("x.pcapng", &file);
    assert!(matches!(notices[..], [Notice::LyingLengths { packets: 1, .. }]), "{notices:?}");
}

#[test]
fn a_packet_of_an_undeclared_interface_has_no_known_link_type() {
    let mut file = section(false);
    file.extend(enhanced(3, 1, &[1], 1, 1, false));
    assert_eq!(read_all_ways(&file).unwrap().0[0].link, u16::MAX);
}

#[test]
fn an_obsolete_packet_block_has_half_a_word_for_its_interface() {
    for big_endian in [false, true] {
        let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        // The second interface, three drops, and more microseconds than a 32-bit word holds.
        let head = [word(5), word(7), word(2), word(60)].concat();
        let packet = block(2, &[&half(1)[..], &half(3), &head, &[8, 9]].concat(), big_endian);
        let file =
            [section(big_endian), interface(1, &[], big_endian), interface(101, &[], big_endian), packet]
                .concat();
        let (seen, notice) = read_all_ways(&file).unwrap();
        let time_ns = ((5 << 32) + 7) * 1000;
        assert_eq!((seen, notice), (vec![Seen { bytes: vec![8, 9], wire: 60, time_ns, link: 101 }], None));
    }
}

#[test]
fn a_simple_packet_has_no_more_bytes_than_its_block() {
    let simple = |wire: u32| block(3, &[&wire.to_le_bytes()[..], &[7; 8]].concat(), false);
    let file = [section(false), interface(1, &[], false), simple(1000), simple(5)].concat();
    let (seen, notice) = read_all_ways(&file).unwrap();
    let bytes: Vec<Vec<u8>> = seen.into_iter().map(|packet| packet.bytes).collect();
    assert_eq!((bytes, notice), (vec![vec![7; 8], vec![7; 5]], None));
    let mut capture = open_bytes(file).unwrap();
    drain(&mut capture).unwrap();
    assert_eq!(capture.lying_lengths(), 1, "the first says that it was captured whole");
}

#[test]
fn file_cut_at_any_byte_keeps_the_complete_packets_before_it() {
    let file = pcap(6);
    let (whole, _) = read_all_ways(&file).unwrap();
    let mut ends = vec![24];
    for packet in &whole {
        ends.push(ends.last().unwrap() + 16 + packet.bytes.len());
    }
    for cut in 24..file.len() {
        let (seen, notice) = read_all_ways(&file[..cut]).unwrap();
        let complete = ends.iter().filter(|&&end| end <= cut).count() - 1;
        assert_eq!(seen, whole[..complete], "cut at {cut}");
        if ends.contains(&cut) {
            assert_eq!(notice, None, "cut at {cut}");
        } else {
            let Some(Notice::CutRecord { packet, offset, have, .. }) = notice else {
                panic!("cut at {cut}: {notice:?}");
            };
            assert_eq!(packet, complete as u64 + 1);
            assert_eq!(offset, ends[complete] as u64);
            assert_eq!(have, (cut - ends[complete]) as u64);
        }
    }
}

#[test]
fn cut_file_of_the_modified_variant_keeps_the_complete_packets() {
    for big_endian in [false, true] {
        let (mut file, mut ends) = (pcap_header(0xA1B2_CD34, 1, big_endian), vec![24]);
        for bytes in [30, 0, 1, 30] {
            let mut record = pcap_record(7, 0, &vec![5; bytes], 30, big_endian);
            record.splice(16..16, [0; 8]);
            file.extend(record);
            ends.push(file.len());
        }
        for cut in 24..=file.len() {
            let (seen, notice) = read_all_ways(&file[..cut]).unwrap();
            assert_eq!(seen.len(), ends.iter().filter(|&&end| end <= cut).count() - 1, "cut at {cut}");
            assert_eq!(notice.is_none(), ends.contains(&cut), "cut at {cut}: {notice:?}");
        }
    }
}

#[test]
fn longest_accepted_record_is_read() {
    let directory = tempfile::tempdir().unwrap();
    for (more, seen) in [(0, 1), (1, 0)] {
        let data = vec![1; RECORD_BYTES_MAX + more];
        let file = [pcap_header(0xA1B2_C3D4, 1, false), pcap_record(1, 0, &data, 60, false)].concat();
        // Mapped, so that no buffer limits it.
        let path = write_file(directory.path(), "long.pcap", &file);
        let mut mapped = Capture::open(&path, CaptureOptions::default()).unwrap();
        assert_eq!(drain(&mut mapped).unwrap().len(), seen, "{more}");
        assert_eq!(drain(&mut open_bytes(file).unwrap()).unwrap().len(), seen, "{more}");
    }
}

/// Returns a capture of one variant with numbered packets, from `second` on.
fn variant(magic: u32, big_endian: bool, link: u32, second: u32, packets: u8) -> Vec<u8> {
    let mut file = pcap_header(magic, link, big_endian);
    for i in 0..packets {
        let mut record = pcap_record(second + u32::from(i), 0, &[i; 30], 30, big_endian);
        if magic == 0xA1B2_CD34 {
            record.splice(16..16, [0; 8]);
        }
        file.extend(record);
    }
    file
}

#[test]
fn captures_put_behind_each_other_are_all_read_whatever_their_variant() {
    let kinds = [(0xA1B2_C3D4_u32, false), (0xA1B2_C3D4, true), (0xA1B2_3C4D, false), (0xA1B2_CD34, true)];
    for (first, first_big) in kinds {
        for (second, second_big) in kinds {
            // Captures join inside a batch and between two. A second capture begins now, or in
            // 1970.
            for (packets, begin) in [(1, 1_700_000_000), (0, 1_700_000_000), (32, 1_700_000_000), (33, 0)] {
                let head = variant(first, first_big, 1, 1_600_000_000, packets);
                let tail = variant(second, second_big, 101, begin, 40);
                let last = variant(first, first_big, 1, 1_800_000_000, 3);
                let (seen, notice) = read_all_ways(&[&head[..], &tail, &last].concat()).unwrap();
                assert_eq!(notice, None);
                let times: Vec<u64> = (0..u32::from(packets))
                    .map(|i| 1_600_000_000 + i)
                    .chain((0..40).map(|i| begin + i))
                    .chain((0..3).map(|i| 1_800_000_000 + i))
                    .map(|second| u64::from(second) * 1_000_000_000)
                    .collect();
                assert_eq!(seen.iter().map(|packet| packet.time_ns).collect::<Vec<_>>(), times);
                let links: Vec<u16> = seen.iter().map(|packet| packet.link).collect();
                let (head_packets, all) = (usize::from(packets), usize::from(packets) + 43);
                assert!(links[..head_packets].iter().chain(&links[all - 3..]).all(|&link| link == 1));
                assert!(links[head_packets..all - 3].iter().all(|&link| link == 101));
                let joined = open_bytes([&head[..], &tail, &last].concat()).map(|mut capture| {
                    drain(&mut capture).unwrap();
                    assert_eq!(capture.links().len(), 2);
                    assert_eq!(capture.sections_and_interfaces(), (3, 3));
                    capture.joined()
                });
                let offset = head.len() as u64;
                let expected = Notice::Joined { path: PathBuf::from("test"), captures: 3, offset };
                assert_eq!(joined.unwrap(), Some(expected));
            }
        }
    }
}

#[test]
fn concatenated_captures_are_detected_in_every_reading_without_loss() {
    let (head, tail) = (pcap(2000), pcap(10));
    let both = [&head[..], &tail].concat();
    for (name, bytes) in [("t.pcap", both.clone()), ("t.pcap.gz", gzip(&both))] {
        let notices = notices_of(name, &bytes);
        let [notice @ Notice::Joined { captures: 2, offset, .. }] = &notices[..] else {
            panic!("{notices:?}")
        };
        assert_eq!(*offset, head.len() as u64);
        assert!(!notice.is_partial_input());
        assert!(notice.to_string().contains("mergecap"), "{notice}");
    }
    let cut = notices_of("t.pcap", &both[..both.len() - 3]);
    assert!(matches!(cut[..], [Notice::Joined { .. }, Notice::CutRecord { packet: 2010, .. }]), "{cut:?}");
}

#[test]
fn truncated_header_after_a_capture_counts_as_truncation() {
    let head = pcap(3);
    for have in 1..24 {
        let file = [&head[..], &pcap_header(0xA1B2_C3D4, 1, false)[..have]].concat();
        let (seen, notice) = read_all_ways(&file).unwrap();
        assert_eq!(seen.len(), 3);
        let Some(Notice::CutRecord { packet: 4, offset, have: found, .. }) = notice else {
            panic!("{have} bytes: {notice:?}")
        };
        assert_eq!((offset, found), (head.len() as u64, have as u64));
    }
    let (seen, notice) = read_all_ways(&[&head[..], &pcap(0)].concat()).unwrap();
    assert_eq!((seen.len(), notice), (3, None), "a capture without packets is one too");
}

#[test]
fn packets_without_bytes_are_counted() {
    let mut file = pcap_header(0xA1B2_C3D4, 101, false);
    for i in 0..100 {
        let data = vec![1; if i % 3 == 0 { 0 } else { 20 }];
        file.extend(pcap_record(i, 7, &data, i, false));
    }
    // Nearly a file header: another version, or a length on the wire.
    let mut near = pcap_header(0xA1B2_C3D4, 1, false)[..16].to_vec();
    near[4] = 3;
    file.extend(&near);
    near[4] = 2;
    near[12] = 1;
    file.extend(&near);
    let (seen, notice) = read_all_ways(&file).unwrap();
    assert_eq!((seen.len(), notice), (102, None));
    for (i, packet) in (0_u32..100).zip(&seen) {
        assert_eq!(packet.bytes.len(), if i % 3 == 0 { 0 } else { 20 });
        assert_eq!((packet.wire, packet.time_ns), (i, u64::from(i) * 1_000_000_000 + 7000));
        assert_eq!(packet.link, 101);
    }
}

#[test]
fn a_capture_of_the_other_format_behind_a_capture_is_named() {
    for big_endian in [false, true] {
        let file = [&pcap(3)[..], &section(big_endian), &interface(1, &[], big_endian)].concat();
        let (seen, notice) = read_all_ways(&file).unwrap();
        assert_eq!(seen.len(), 3);
        let why = notice.unwrap().to_string();
        assert!(why.contains("a pcapng capture begins here"), "{why}");
        for packets in [0, 3, 3000] {
            let file = [&section(big_endian)[..], &interface(1, &[], big_endian), &pcap(packets)].concat();
            let (seen, notice) = read_all_ways(&file).unwrap();
            assert_eq!(seen.len(), 0);
            let why = notice.unwrap().to_string();
            assert!(why.contains("a pcap capture begins here"), "{why}");
        }
    }
}

#[test]
fn zeros_behind_a_gzip_file_are_padding() {
    let padded = [gzip(&pcap(100)), vec![0; 5000]].concat();
    let (seen, notice) = read_all_ways(&padded).unwrap();
    assert_eq!((seen.len(), notice), (100, None));
    let (seen, notice) = read_all_ways(&[&padded[..], b"x"].concat()).unwrap();
    assert_eq!(seen.len(), 100);
    assert!(matches!(notice, Some(Notice::DamagedStream { .. })), "{notice:?}");
}

#[test]
fn implausibly_long_record_ends_the_reading_with_a_message() {
    let mut file = pcap(3);
    file.extend([0; 8]);
    file.extend(0x7FFF_FFFF_u32.to_le_bytes());
    file.extend(60_u32.to_le_bytes());
    file.extend([0; 100]);
    let (seen, notice) = read_all_ways(&file).unwrap();
    assert_eq!(seen.len(), 3);
    assert!(matches!(notice, Some(Notice::Corrupt { packet: 4, .. })), "{notice:?}");
}

#[test]
fn a_record_longer_than_the_buffer_is_read_whole() {
    let mut file = pcap(2);
    let long = vec![7; 3 << 20];
    file.extend(pcap_record(9, 9, &long, 3 << 20, false));
    file.extend(pcap_record(10, 9, &[1, 2], 2, false));
    let (seen, notice) = read_all_ways(&file).unwrap();
    assert_eq!(notice, None);
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[2].bytes, long);
}

#[test]
fn block_with_unequal_lengths_is_corrupt() {
    let mut file = section(false);
    file.extend(interface(1, &[], false));
    let mut bad = enhanced(0, 1, &[1, 2, 3, 4], 4, 4, false);
    let end = bad.len() - 1;
    bad[end] = 9;
    file.extend(bad);
    let (seen, notice) = read_all_ways(&file).unwrap();
    assert_eq!(seen.len(), 0);
    assert!(matches!(notice, Some(Notice::Corrupt { .. })));
}

#[test]
fn compressed_captures_are_recognised_by_content() {
    let file = pcap(3000);
    let (whole, _) = read_all_ways(&file).unwrap();
    let two_members = [gzip(&file[..1000]), gzip(&file[1000..])].concat();
    for packed in [gzip(&file), two_members, zstd::encode_all(&file[..], 1).unwrap()] {
        let mut capture = open_bytes(packed).unwrap();
        assert_eq!(drain(&mut capture).unwrap(), whole);
        assert_eq!(capture.notice(), None);
    }
}

#[test]
fn a_damaged_packed_stream_keeps_what_came_before() {
    let file = pcap(30_000);
    for packed in [gzip(&file), zstd::encode_all(&file[..], 1).unwrap()] {
        let mut capture = open_bytes(packed[..packed.len() * 2 / 3].to_vec()).unwrap();
        let seen = drain(&mut capture).unwrap();
        assert!(seen.len() > 1000, "{}", seen.len());
        assert!(
            matches!(capture.notice(), Some(Notice::DamagedStream { .. } | Notice::CutRecord { .. })),
            "{:?}",
            capture.notice()
        );
    }
}

#[test]
fn decompression_bomb_is_stopped_by_ratio_and_by_size() {
    let mut file = pcap_header(0xA1B2_C3D4, 1, false);
    file.resize(64 << 20, 0);
    let packed = gzip(&file);
    for limits in [
        UnpackLimits { ratio_max: Some(250), ratio_after_bytes: 1 << 20, ..UnpackLimits::default() },
        UnpackLimits { bytes_max: 8 << 20, ..UnpackLimits::default() },
    ] {
        let options = CaptureOptions { limits, ..CaptureOptions::default() };
        let mut capture =
            Capture::read_from(Path::new("bomb"), Cursor::new(packed.clone()), options).unwrap();
        let error = drain(&mut capture).map(|seen| seen.len()).unwrap_err();
        assert!(matches!(error, CaptureError::UnpackLimit { .. }), "{error}");
        assert!(error.to_string().contains("exceeds the unpack limit"));
    }
}

#[test]
fn file_that_is_not_a_capture_is_reported_with_its_type() {
    for (bytes, needle) in [
        (&b"GIF89a and more"[..], "no magic number"),
        (&[0x1F, 0x8B, 0x6E, 0x6F, 0x20][..], "does not decompress"),
        (&gzip(b"hello, this is text")[..], "neither pcap nor pcapng"),
        (&gzip(b"")[..], "gzip of nothing"),
        (&pcap(1)[..20], "has 24 bytes"),
        (&section(false)[..20], "no complete section header"),
        (b"BZh91AY&SY and more", "bzip2 -dc"),
        (b"\xFD7zXZ\0 and more", "does not decompress"),
        (b"\x04\x22\x4D\x18 and more", "does not decompress"),
        (b"PK\x03\x04 and more", "unzip -p"),
        (b"snoop\0\0\0 and more", "a capture of snoop"),
        (b"GMBU and more", "a capture of Network Monitor"),
    ] {
        let error = open_bytes(bytes.to_vec()).unwrap_err();
        assert!(matches!(error, CaptureError::NotACapture { .. }), "{error}");
        assert!(error.to_string().contains(needle), "{error}");
    }
    assert!(matches!(open_bytes(Vec::new()).unwrap_err(), CaptureError::Empty { .. }));
    let missing = Capture::open(Path::new("/nonexistent/x.pcap"), CaptureOptions::default()).unwrap_err();
    assert!(matches!(missing, CaptureError::Io { .. }));
}

#[test]
fn real_captures_have_the_packets_and_bytes_that_other_tools_count() {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real captures)");
        return;
    };
    let folder = PathBuf::from(data).join("pcaps");
    let table = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let mut files = 0;
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split('\t').collect();
        for map in [true, false] {
            let options = CaptureOptions { map, ..CaptureOptions::default() };
            let mut capture = Capture::open(&folder.join(columns[0]), options).unwrap();
            let mut batch = PacketBatch::new();
            let (mut packets, mut wire, mut captured) = (0_u64, 0_u64, 0_u64);
            while capture.next_batch(&mut batch).unwrap() == Fill::Packets {
                packets += batch.packets.len() as u64;
                wire += batch.packets.iter().map(|raw| u64::from(raw.wire_bytes)).sum::<u64>();
                captured += batch.packets.iter().map(|raw| u64::from(raw.captured_bytes)).sum::<u64>();
            }
            let ours = [packets, wire, captured].map(|number| number.to_string());
            assert_eq!(ours[..], columns[1..4], "{} (mapped: {map})", columns[0]);
        }
        files += 1;
    }
    assert_eq!(files, 41);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 200 } else { 2000 }))]

    #[test]
    fn changed_bytes_never_panic_and_every_way_of_reading_agrees(
        next_generation in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut file = if next_generation {
            let mut file = section(false);
            file.extend(interface(1, &[], false));
            for i in 0..40_u32 {
                let data = vec![i as u8; i as usize];
                file.extend(enhanced(0, u64::from(i), &data, i, i, false));
            }
            file.extend(section(true));
            file.extend(interface(1, &[], true));
            file.extend(enhanced(0, 1, &[1, 2, 3], 3, 3, true));
            file
        } else {
            pcap(40)
        };
        for (place, value) in changes {
            let place = place.index(file.len());
            file[place] = value;
        }
        file.truncate(cut.index(file.len() * 2).min(file.len()));
        read_all_ways(&file);
    }
}

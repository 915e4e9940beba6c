//! Measures the memory of merging many captures that all overlap in time, in a process of its own.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;

use flowloom_packet::{Fill, PacketBatch, PacketSource};
use flowloom_traffic::capture::{CaptureSet, Input, SetOptions, SetOrder};
use flowloom_traffic::write::{PcapOptions, PcapWriter};

const FILES: u64 = 1024;
const PACKETS: u64 = 400;
const PACKET_BYTES: u32 = 1000;

/// Returns the peak memory of this process in KiB since the last reset.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Returns the number of file descriptors at some calls and 0 at others, because counting takes a
/// while.
fn open_files(packets: u64) -> usize {
    if packets / 32 % 1000 == 7 { std::fs::read_dir("/proc/self/fd").unwrap().count() } else { 0 }
}

#[test]
fn a_thousand_files_that_overlap_take_little_memory_each() {
    for packed in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        // Links to one file with the same content, to spare the disk.
        let paths: Vec<_> =
            (0..FILES).map(|file| directory.path().join(format!("{file:04}.pcap"))).collect();
        for (file, path) in (0..).zip(&paths) {
            if file >= 16 {
                std::fs::hard_link(&paths[file % 16], path).unwrap();
                continue;
            }
            let mut writer = PcapWriter::new(Vec::new(), PcapOptions::default()).unwrap();
            for packet in 0..PACKETS {
                let time_ns = packet * 1_000_000 + file as u64 * 1000;
                writer.write(time_ns, PACKET_BYTES, &[7; PACKET_BYTES as usize]).unwrap();
            }
            let bytes = writer.finish().unwrap();
            if packed {
                let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                gzip.write_all(&bytes).unwrap();
                std::fs::write(path, gzip.finish().unwrap()).unwrap();
            } else {
                std::fs::write(path, bytes).unwrap();
            }
        }
        let inputs: Vec<Input> = paths.into_iter().map(Input::Path).collect();
        let options = SetOptions { order: SetOrder::ByTime, ..SetOptions::default() };
        // If a reset is not allowed, earlier memory counts too.
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let before = peak_kib();
        let mut set = CaptureSet::open(&inputs, options).unwrap();
        let (mut batch, mut packets, mut latest_ns, mut most_open) = (PacketBatch::new(), 0, 0, 0);
        while set.next_batch(&mut batch).unwrap() == Fill::Packets {
            for packet in &batch.packets {
                assert!(packet.time_ns >= latest_ns);
                latest_ns = packet.time_ns;
            }
            packets += batch.packets.len() as u64;
            most_open = most_open.max(open_files(packets));
        }
        assert_eq!((packets, set.overlapped()), (FILES * PACKETS, Some(1024)));
        let each_kib = (peak_kib() - before) / FILES;
        eprintln!("packed: {packed}, {each_kib} KiB for each file");
        assert!(each_kib < 300, "{each_kib} KiB for each file (packed: {packed})");
        assert!((4..64).contains(&most_open), "{most_open} file descriptors");
    }
}

//! A capture larger than the memory that a run may take.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::bytes::{pcap_header, pcap_record};
use crate::support::{Folder, Outcome, check_balance, command, flowloom, number};

/// Memory that a run may use in addition to its flow tables and records.
const ALLOWED_BYTES: u64 = 200 << 20;

/// Returns the anonymous memory of a process, which does not include the mapped capture.
fn anonymous_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

/// Runs a command, which must print less than a pipe holds. Returns its peak of anonymous memory,
/// and how many times that was looked at.
fn watched(command: &mut Command) -> (Outcome, u64, u32) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut peak, mut looks) = (0, 0);
    while child.try_wait().unwrap().is_none() {
        if let Some(bytes) = anonymous_bytes(child.id()) {
            peak = peak.max(bytes);
            looks += 1;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    (Outcome::new(command, child.wait_with_output().unwrap()), peak, looks)
}

#[test]
fn a_large_capture_is_not_held_in_memory() {
    if anonymous_bytes(std::process::id()).is_none() {
        eprintln!("skipped: this system does not say how much anonymous memory a process has");
        return;
    }
    let folder = Folder::new();
    let options = ["--flows", "10k", "--packets", "260k", "--size", "1400"];
    let plain = folder.trace("t.pcap", &options);
    let packed = folder.trace("t.pcap.zst", &options);
    assert!(std::fs::metadata(&plain).unwrap().len() > 300 << 20);
    for (path, layout) in [
        (&plain, &[][..]),
        (&plain, &["--workers", "2"]),
        (&plain, &["--no-mmap", "--workers", "2"]),
        (&packed, &["--workers", "2"]),
    ] {
        // Slow enough to be observed, but fast enough for a test.
        let base = ["replay", path, "--format", "json", "--no-pin", "--speed", "300k"];
        let (outcome, peak, looks) = watched(&mut command([&base, layout].concat()));
        let document = outcome.ends(0).json();
        check_balance(&document);
        assert_eq!(number(&document, "packets"), 260_000);
        assert!(looks > 20, "the run was looked at {looks} times");
        let allowed = ALLOWED_BYTES + number(&document["table"], "memory_bytes");
        assert!(peak < allowed, "{layout:?}: {peak} bytes of anonymous memory, {allowed} are allowed");
    }
}

/// Returns a capture of connections whose data begins with a hole, so that the rest of it waits.
fn holes(connections: u32) -> Vec<u8> {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    let mut file = pcap_header(101);
    for connection in 0..connections {
        for (sequence, flags, bytes) in [(0_u32, SYN, 0_usize), (1000, ACK, 600), (3000, ACK, 300)] {
            let length = u16::try_from(40 + bytes).unwrap().to_be_bytes();
            // Version and length, class, total length, identification, flags, lifetime, TCP,
            // checksum, addresses.
            let mut packet = vec![0x45, 0, length[0], length[1], 0, 0, 0, 0, 64, 6, 0, 0];
            packet.extend((0x0B00_0000 + connection).to_be_bytes());
            packet.extend([10, 0, 0, 1]);
            packet.extend([3, 232, 0, 80]);
            packet.extend(sequence.to_be_bytes());
            packet.extend([0, 0, 0, 0, 0x50, flags, 0xFF, 0xFF, 0, 0, 0, 0]);
            packet.resize(40 + bytes, b'x');
            let length = u32::from(u16::from_be_bytes(length));
            file.extend(pcap_record(1000 + connection / 5000, length, length, &packet));
        }
    }
    file
}

#[test]
fn fields_stay_within_the_memory_of_a_run_and_records_stay() {
    const CONNECTIONS: u64 = 20_000;
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &holes(20_000));
    let flows = folder.path("flows.csv");
    for layout in [&[][..], &["--workers", "2"], &["--layout", "pipeline", "--workers", "2"]] {
        for (memory, is_short) in [("160M", true), ("4G", false)] {
            let base = ["replay", &trace, "--fields", "all", "--flows", &flows, "--memory", memory];
            let arguments = [&base[..], &["--format", "json", "--no-pin"], layout].concat();
            let (outcome, peak, _) = watched(&mut command(arguments));
            let document = outcome.ends(0).json();
            check_balance(&document);
            assert_eq!(number(&document["table"], "refused"), 0, "{layout:?} {memory}");
            let dropped = number(&document, "fields_dropped");
            let text = std::fs::read_to_string(&flows).unwrap();
            assert_eq!(text.lines().count() as u64, 1 + CONNECTIONS, "{layout:?} {memory}");
            let marked = text.lines().filter(|line| line.contains("(no memory)")).count() as u64;
            // Three groups wait for the same bytes.
            let connections = dropped.div_ceil(3)..=dropped;
            assert!(connections.contains(&marked), "{layout:?} {memory}: {marked} {connections:?}");
            assert_eq!(dropped > CONNECTIONS, is_short, "{layout:?} {memory}: {dropped}");
            if is_short {
                assert!(peak < 160 << 20, "{layout:?}: {peak} bytes of anonymous memory");
            }
        }
    }
    let short = ["--fields", "all", "--flows", &flows, "--memory", "160M", "--no-pin"];
    let report = flowloom([&["replay", &trace], &short[..]].concat()).ends(0);
    assert!(report.text().contains("fields dropped for lack of memory, which are now (no memory)"));
}

//! A capture larger than the memory that a run may take.

use std::process::Stdio;
use std::time::Duration;

use crate::support::{Folder, Outcome, check_balance, command, number};

/// Memory that a run may use in addition to its flow tables and records.
const ALLOWED_BYTES: u64 = 200 << 20;

/// Returns the anonymous memory of a process, which does not include the mapped capture.
fn anonymous_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
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
        let mut command = command([&base, layout].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (mut peak, mut looks) = (0, 0);
        while child.try_wait().unwrap().is_none() {
            if let Some(bytes) = anonymous_bytes(child.id()) {
                peak = peak.max(bytes);
                looks += 1;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let outcome = Outcome::of(&command, child.wait_with_output().unwrap()).ends(0);
        let document = outcome.json();
        check_balance(&document);
        assert_eq!(number(&document, "packets"), 260_000);
        assert!(looks > 20, "the run was looked at {looks} times");
        let allowed = ALLOWED_BYTES + number(&document["table"], "memory_bytes");
        assert!(peak < allowed, "{layout:?}: {peak} bytes of anonymous memory, {allowed} are allowed");
    }
}

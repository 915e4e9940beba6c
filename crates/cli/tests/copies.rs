//! Copies of packets, which `--dedup` drops.

use crate::bytes::{capture, udp_frame};
use crate::support::{Folder, flowloom, number, replay};

const LAYOUTS: [&[&str]; 4] = [
    &["--layout", "inline"],
    &["--layout", "inline", "--no-mmap"],
    &["--layout", "sharded", "--workers", "2"],
    &["--layout", "pipeline", "--workers", "2"],
];

#[test]
fn copies_in_the_window_are_dropped_alike_in_every_layout() {
    let folder = Folder::new();
    // Of each packet a copy two packets later, and a late one.
    let frames: Vec<Vec<u8>> = (0..2000_u16)
        .flat_map(|at| [at, at.saturating_sub(1), at.saturating_sub(40)])
        .map(|port| udp_frame(1000 + port))
        .collect();
    let path = folder.write("copies.pcap", &capture(1, &frames));
    let bytes = |at: usize| &frames[at];
    // Counted by a search; frames are a second apart.
    let copies = |window: usize| {
        (0..frames.len())
            .filter(|&at| (at.saturating_sub(window - 1)..at).any(|other| bytes(other) == bytes(at)))
            .count()
    };
    for (window, expected) in [("5", copies(5)), ("200", copies(200)), ("6s", copies(7)), ("500ms", 0)] {
        let mut digests: Vec<String> = LAYOUTS
            .iter()
            .map(|layout| {
                let document = replay(&[&[&path, "--dedup", window], *layout].concat());
                let dropped = document["not_tracked"]["duplicate"].as_u64().unwrap_or(0);
                assert_eq!(dropped, expected as u64, "{window} {layout:?}");
                assert_eq!(number(&document, "packets"), 6000);
                document["digest"].to_string()
            })
            .collect();
        digests.dedup();
        assert_eq!(digests.len(), 1, "{window}");
        flowloom(["replay", "-q", &path, "--dedup", window, "--verify"]).ends(0);
        let inspected = flowloom(["inspect", &path, "--dedup", window, "--format", "json"]).ends(0).json();
        assert_eq!(number(&inspected, "duplicates"), expected as u64);
        assert_eq!(number(&inspected, "packets"), 6000 - expected as u64);
    }
}

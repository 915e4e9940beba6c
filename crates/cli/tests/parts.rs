//! The sharded layout, and parts that are saved and merged.

use crate::support::{Folder, flowloom, flowloom_fed, number, replay};

/// Returns the results that must not depend on the layout.
fn found(document: &serde_json::Value) -> Vec<serde_json::Value> {
    let names = [
        "digest", "packets", "processed", "flows", "flows_begun", "not_tracked", "dropped", "first_ns",
        "last_ns", "notices",
    ];
    names.iter().map(|name| document[name].clone()).collect()
}

#[test]
fn workers_on_any_input_find_what_one_thread_finds() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "20000"]);
    let packed = folder.trace("t.pcap.gz", &["--flows", "300", "--packets", "20000"]);
    let fragments = folder.trace("f.pcap", &["--packets", "20000", "--fragments", "0.2"]);
    for how in [
        &[][..],
        &["--timeout", "0.005"],
        &["--app", "accounting", "--timeout", "0.01", "--active-timeout", "0.008"],
        &["--app", "l7"],
        &["--app", "null", "--decap", "--limit", "12345"],
    ] {
        let inline = replay(&[&[trace.as_str()], how].concat());
        for workers in ["2", "3", "16"] {
            let sharded = replay(&[&[trace.as_str(), "--workers", workers, "--verify"], how].concat());
            assert_eq!(sharded["run"]["layout"], "sharded");
            assert!(number(&sharded["run"]["sharded"], "chunks") > 2, "{how:?}");
            assert_eq!(sharded["verify"]["agrees"], true, "{how:?}");
            assert_eq!(found(&sharded), found(&inline), "{how:?} {workers}");
        }
    }
    let written = |name: &str| folder.path(name);
    for how in [
        &[packed.as_str()][..],
        &[&trace, &fragments],
        &[&trace, "--passes", "2"],
        &[&fragments, "--defrag"],
        &[&fragments, "--from", "+0.01", "--to", "+0.3"],
    ] {
        let ways = [&["--layout", "inline"][..], &["--layout", "sharded", "--workers", "3"]];
        let [one, three] = ways.map(|way| {
            let to = written(way[1]);
            let document = replay(&[how, way, &["--write", &format!("{to}.pcapng")]].concat());
            let packets = std::fs::read(format!("{to}.pcapng")).unwrap();
            (found(&document), packets)
        });
        assert_eq!(one.0, three.0, "{how:?}");
        assert!(one.1 == three.1, "{how:?}: accepted packets leave in the order of the input");
    }
}

#[test]
fn filter_that_skips_many_small_packets_loses_no_later_match() {
    let folder = Folder::new();
    // Ethernet, IPv4, UDP to port 7, and at the end to port 9.
    let frame = |port: u8| {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame.extend([1, 0, 0, port, 0, 8, 0, 0]);
        frame
    };
    let mut capture = std::fs::read(folder.trace("t.pcap", &[])).unwrap()[..24].to_vec();
    for number in 0..60_000_u32 {
        let frame = frame(if number < 59_990 { 7 } else { 9 });
        let length = u32::try_from(frame.len()).unwrap();
        capture.extend([1_u32, number, length, length].map(u32::to_le_bytes).concat());
        capture.extend(frame);
    }
    let path = folder.write("small.pcap", &capture);
    for workers in ["1", "2", "4"] {
        let found = replay(&[&path, "--workers", workers, "--filter", "udp port 9"]);
        assert_eq!((number(&found, "packets"), number(&found, "passed_over")), (10, 59_990), "{workers}");
    }
    // A range of bytes and of time ends where it ends, in any layout.
    let middle = (24 + 30_000 * (16 + 42)).to_string();
    let range = format!("0..{middle}");
    let part = folder.path("a.part");
    for layout in ["inline", "sharded"] {
        let how = ["--layout", layout, "--bytes", &range, "--from", "+0", "--save-part", &part];
        assert_eq!(number(&replay(&[&[path.as_str()][..], &how].concat()), "packets"), 30_000, "{layout}");
    }
}

#[test]
fn a_long_pipe_is_read_by_all_cpus_and_gives_the_records_of_the_file() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "60000", "--flows", "500"]);
    let sorted = |name: &str| {
        let mut lines: Vec<String> =
            std::fs::read_to_string(folder.path(name)).unwrap().lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let file = folder.path("file.csv");
    let arguments = [trace.as_str(), "--app", "accounting", "--timeout", "0.01", "--flows", &file];
    let inline = replay(&[&arguments[..], &["--layout", "inline"]].concat());
    let pipe = folder.path("pipe.csv");
    let arguments =
        ["replay", "-", "--app", "accounting", "--timeout", "0.01", "--flows", &pipe, "--format", "json"];
    let document = flowloom_fed(arguments, &std::fs::read(&trace).unwrap()).ends(0).json();
    assert_eq!(found(&document), found(&inline));
    assert_eq!(sorted("pipe.csv"), sorted("file.csv"));
}

#[test]
fn parts_that_are_kept_merge_to_the_result_of_the_whole() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "20000"]);
    // The halves of the records, divided by the capture's own limit.
    let bytes = std::fs::read(&trace).unwrap();
    let mut at = 24;
    for _ in 0..9_000 {
        let captured: [u8; 4] = bytes[at + 8..at + 12].try_into().unwrap();
        at += 16 + u32::from_le_bytes(captured) as usize;
    }
    let first = folder.write("first.pcap", &bytes[..at]);
    let second = folder.write("second.pcap", &[&bytes[..24], &bytes[at..]].concat());
    for how in [&["--app", "tcp-tracker"][..], &["--app", "accounting", "--timeout", "0.005"]] {
        let whole = replay(&[&[trace.as_str()], how].concat());
        let (a, b) = (folder.path("a.part"), folder.path("b.part"));
        for (input, part, number) in [(&first, &a, "1/2"), (&second, &b, "2/2")] {
            replay(&[&[input.as_str(), "--save-part", part, "--part", number], how].concat());
        }
        let flows = folder.path("flows.csv");
        let merged = flowloom(["merge", &b, &a, "--format", "json", "--flows", &flows]).ends(0).json();
        for name in ["digest", "packets", "processed", "flows", "flows_begun", "not_tracked", "dropped"] {
            assert_eq!(merged[name], whole[name], "{name} {how:?}");
        }
        assert_ne!(whole["unknown"], serde_json::json!([]), "some packets are not IP");
        for name in ["encapsulations", "tunnel_not_followed", "unknown", "not_tracked_first"] {
            assert_eq!(merged[name], whole[name], "{name} {how:?}");
        }
        assert!(number(&merged, "flows_joined") > 0);
        let lines = std::fs::read_to_string(&flows).unwrap().lines().count() as u64;
        assert_eq!(lines, 1 + number(&whole, "flows"));
        let filtered = ["merge", &b, &a, "--format", "json", "--flows", &flows, "--where", "packets > 3"];
        let records = &flowloom(filtered).ends(0).json()["records"];
        let lines = std::fs::read_to_string(&flows).unwrap().lines().count() as u64;
        assert_eq!(lines, 1 + number(records, "written"));
        let sum = number(records, "written") + number(records, "passed_over");
        assert_eq!(sum, number(&whole, "flows"));
        assert!(number(records, "passed_over") > 0);
    }
}

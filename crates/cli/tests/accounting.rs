//! `replay --app accounting`: records with an end and a reason.

use std::collections::BTreeMap;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Folder, command, flowloom, number, replay};

#[test]
fn records_are_cut_by_both_timeouts_in_every_layout_and_the_oracle_agrees() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "5000", "--rate", "5k"]);
    let whole = replay(&[&trace]);
    let mut digests = Vec::new();
    let layouts =
        [&[][..], &["--workers", "1"], &["--workers", "3"], &["--workers", "3", "--scheduler", "lfb"]];
    for (i, layout) in layouts.iter().enumerate() {
        let flows = folder.path(&format!("{i}.jsonl"));
        let base = [trace.as_str(), "--app", "accounting", "--timeout", "0.1", "--active-timeout", "0.3"];
        let document = replay(&[&base[..], &["--verify", "--flows", &flows], layout].concat());
        assert_eq!(document["verify"]["agrees"], true, "{layout:?}");
        assert_eq!(document["run"]["active_timeout_ns"], 300_000_000);
        let records: Vec<Value> = std::fs::read_to_string(&flows)
            .unwrap()
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(records.len() as u64, number(&document, "flows"));
        assert!(records.len() as u64 > number(&whole, "flows"), "records are cut");
        let mut reasons = BTreeMap::<String, u64>::new();
        let mut ends = BTreeMap::<String, u64>::new();
        let mut packets = 0;
        for record in &records {
            *reasons.entry(record["end_reason"].as_str().unwrap().to_owned()).or_default() += 1;
            packets += number(record, "packets") + number(record, "reverse_packets");
            let (start, end) = (number(record, "start"), number(record, "end"));
            assert!(start <= end && end - start < 300_000_000, "{record}");
            let ports = (number(record, "source_port"), number(record, "destination_port"));
            // The choice of the source can affect where an idle timeout divides records.
            let mut ends_of_flow = [
                format!("{} {}", record["source"], ports.0),
                format!("{} {}", record["destination"], ports.1),
            ];
            ends_of_flow.sort();
            let vlans = (&record["vlan"], &record["customer_vlan"]);
            let key = format!("{ends_of_flow:?} {} {vlans:?}", record["protocol"]);
            if record["protocol"] == 1 || record["protocol"] == 58 {
                continue; // The identifiers of queries are not a column.
            }
            let before = ends.insert(key, end).unwrap_or(0);
            assert!(start >= before, "records of a key follow each other: {record}");
        }
        assert_eq!(packets, number(&document, "processed"));
        for reason in ["idle", "active", "end"] {
            assert!(reasons.contains_key(reason), "{reasons:?}");
        }
        digests.push((document["digest"].clone(), reasons, std::fs::read(&flows).unwrap()));
    }
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}

#[test]
fn closed_connections_end_by_a_timeout_of_their_own_in_every_layout() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "5000", "--rate", "5k"]);
    let whole = replay(&[&trace, "--app", "accounting"]);
    let mut digests = Vec::new();
    for layout in
        [&[][..], &["--workers", "2"], &["--workers", "5"], &["--workers", "2", "--scheduler", "lfb"]]
    {
        let base = [trace.as_str(), "--app", "accounting", "--closed-timeout", "0.001", "--verify"];
        let document = replay(&[&base[..], layout].concat());
        assert_eq!(document["verify"]["agrees"], true, "{layout:?}");
        assert_eq!(document["run"]["closed_timeout_ns"], 1_000_000);
        assert!(
            number(&document, "flows") > number(&whole, "flows"),
            "packets follow some closed connections"
        );
        let live = number(&document["table"], "flows_at_end");
        assert!(
            live < number(&whole["table"], "flows_at_end"),
            "closed connections leave the table: {live}"
        );
        digests.push((document["digest"].clone(), number(&document, "flows")));
    }
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]), "{digests:?}");
}

#[test]
fn records_have_the_time_stamps_of_their_packets_in_every_layout() {
    let folder = Folder::new();
    // Seconds and ports. The clock of the capture is set back, one stamp is of 2106, one packet
    // late.
    let packets = [(1000, 7), (1001, 7), (u32::MAX, 8), (1002, 9), (1002, 7), (1001, 9), (1003, 8)];
    let after = [(200, 7), (201, 5), (202, 5), (203, 5), (202, 5), (204, 7)];
    let packets = [&packets[..], &after].concat();
    let capture = |packets: &[(u32, u16)]| {
        let mut bytes = crate::bytes::pcap_header(1);
        for &(second, port) in packets {
            bytes.extend(crate::bytes::pcap_record(second, 46, 46, &crate::bytes::udp_frame(port)));
        }
        bytes
    };
    let trace = folder.write("t.pcap", &capture(&packets));
    let mut expected = BTreeMap::<u64, (u64, u64, u64)>::new();
    for &(second, port) in &packets {
        let ns = u64::from(second) * 1_000_000_000;
        let (start, end, back) = expected.entry(port.into()).or_insert((ns, ns, 0));
        *back += u64::from(ns < *end);
        (*start, *end) = (ns.min(*start), ns.max(*end));
    }
    assert_eq!(expected[&7], (200_000_000_000, 1_002_000_000_000, 2));
    let flows = folder.path("f.jsonl");
    for layout in [
        &["--no-mmap"][..],
        &["--verify"],
        &["--workers", "2"],
        &["--workers", "3", "--scheduler", "lfb"],
        &["--workers", "2", "--scheduler", "rr", "--order", "external"],
    ] {
        let document = replay(&[&[&trace, "--app", "accounting", "--flows", &flows], layout].concat());
        let records: BTreeMap<u64, (u64, u64, u64)> = std::fs::read_to_string(&flows)
            .unwrap()
            .lines()
            .map(|line| {
                let record: Value = serde_json::from_str(line).unwrap();
                let [start, end, back] = ["start", "end", "times_back"].map(|name| number(&record, name));
                (number(&record, "source_port"), (start, end, back))
            })
            .collect();
        assert_eq!(records, expected, "{layout:?}");
        assert_eq!(number(&document, "records_times_back"), 4);
    }
    // Parts know the same, where the stamps of the later one do not go back.
    let parts = [&packets[..2], &packets[3..5], &[(1004, 7), (1003, 7)]];
    let whole = folder.write("whole.pcap", &capture(&parts.concat()));
    let mut files = Vec::new();
    for (i, part) in parts.iter().enumerate() {
        let path = folder.write(&format!("{i}.pcap"), &capture(part));
        files.push(folder.path(&format!("{i}.part")));
        let number = format!("{}/3", i + 1);
        let base = ["replay", &path, "--app", "accounting", "--part", &number];
        flowloom([&base[..], &["--save-part", &files[i]]].concat()).ends(0);
    }
    let merged = folder.path("merged.csv");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    flowloom([&["merge"], &files[..], &["--flows", &merged]].concat()).ends(0);
    replay(&[&whole, "--app", "accounting", "--sort", "--flows", &flows.replace("jsonl", "csv")]);
    let read = |path: &str| std::fs::read_to_string(path).unwrap();
    assert_eq!(read(&merged), read(&flows.replace("jsonl", "csv")));
    assert!(read(&merged).contains(",end,1"), "the late packet of the last part");
}

#[test]
fn records_go_to_ipfix_too() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let (flows, again) = (folder.path("flows.ipfix"), folder.path("again.ipfix"));
    let base = [trace.as_str(), "--app", "accounting", "--sort", "--flows"];
    let document = replay(&[&base[..], &[&flows]].concat());
    replay(&[&base[..], &[&again, "--workers", "2"]].concat());
    let bytes = std::fs::read(&flows).unwrap();
    assert!(bytes == std::fs::read(&again).unwrap(), "the same records in every layout");
    // Messages: version 10, a length, and a sequence number that counts the earlier records.
    let (mut at, mut sequences) = (0, Vec::new());
    while at < bytes.len() {
        let word = |offset: usize| u16::from_be_bytes([bytes[at + offset], bytes[at + offset + 1]]);
        assert_eq!(word(0), 10);
        sequences.push(u64::from(word(8)) << 16 | u64::from(word(10)));
        at += usize::from(word(2));
    }
    assert_eq!(at, bytes.len());
    assert!(sequences.len() > 1 && sequences.is_sorted() && sequences[0] == 0, "{sequences:?}");
    assert!(*sequences.last().unwrap() < number(&document, "flows"));
}

#[test]
fn records_are_on_disk_while_the_run_lasts() {
    let folder = Folder::new();
    // About thirty seconds at this rate.
    let trace = folder.trace("t.pcap", &["--flows", "3000", "--packets", "6000", "--rate", "200"]);
    for ending in ["csv", "jsonl", "ipfix"] {
        let flows = folder.path(&format!("flows.{ending}"));
        let arguments =
            ["replay", &trace, "--app", "accounting", "--timeout", "0.1", "--speed", "x1", "-qq"];
        let mut run = command([&arguments[..], &["--flows", &flows]].concat());
        let mut run = run.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Flushed at least every second; a busy machine gets more time. The kernel may end a write
        // in its middle if a kill hits it, so the kill waits until the file rests.
        let size = || std::fs::metadata(&flows).map_or(0, |metadata| metadata.len());
        let until = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let mut before = 0;
        while (size() <= 200 || size() != before) && std::time::Instant::now() < until {
            before = size();
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        run.kill().unwrap();
        run.wait().unwrap();
        let bytes = std::fs::read(&flows).unwrap();
        assert!(bytes.len() > 200, "{ending}: {} bytes", bytes.len());
        if ending != "ipfix" {
            assert_eq!(bytes.last(), Some(&b'\n'), "whole lines");
        }
    }
}

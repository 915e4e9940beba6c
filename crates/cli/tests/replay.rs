//! `replay`: formats of the result, equal layouts, limits, passes, flow records.

use std::time::Instant;

use serde_json::Value;

use crate::bytes;
use crate::support::{Folder, check_balance, flowloom, flowloom_fed, number, replay};

#[test]
fn a_large_table_says_whether_it_got_huge_pages() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let pages = |options: &[&str]| {
        let table = replay(&[&[&trace, "--table-flows"], options].concat())["table"].take();
        (table["huge_pages_requested"].as_bool().unwrap(), table["huge_pages_obtained"].as_bool())
    };
    assert_eq!(pages(&["100"]), (false, None), "no huge page would be half full");
    assert_eq!(pages(&["100k", "--hugepages", "off"]), (false, None));
    let (requested, obtained) = pages(&["100k"]);
    let kernel_has_them = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
    assert!(requested || !kernel_has_them);
    assert!(!requested || obtained.is_some());
    let text = if requested { "huge pages" } else { "Flow table" };
    assert!(flowloom(["replay", &trace, "--table-flows", "100k"]).ends(0).text().contains(text));
}

#[test]
fn drops_at_full_rings_are_reported_by_worker() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "500", "--packets", "60k"]);
    for scheduler in ["dh", "minload", "flowpin", "lfb"] {
        let arguments = [
            "replay", &trace, "--workers", "3", "--no-pin", "--full", "drop", "--ring", "64", "--order",
            "none", "--scheduler", scheduler,
        ];
        let document = flowloom([&arguments[..], &["--format", "json"]].concat()).ends(0).json();
        check_balance(&document);
        let workers = document["workers"].as_array().unwrap();
        let rings: u64 = workers.iter().map(|worker| number(worker, "ring_full")).sum();
        let unplaced = number(&document, "unplaced");
        assert_eq!(rings + unplaced, document["dropped"]["ring_full"].as_u64().unwrap_or(0));
        assert!(if scheduler == "lfb" { rings == 0 } else { unplaced == 0 }, "{scheduler}");

        let text = flowloom([&arguments[..], &["--format", "csv"]].concat()).ends(0);
        let mut reader = csv::Reader::from_reader(&text.stdout[..]);
        let header = reader.headers().unwrap().clone();
        let row = reader.records().next().unwrap().unwrap();
        let cell = |field: &str| row[header.iter().position(|name| name == field).unwrap()].to_owned();
        let sum = |field: &str| cell(field).split(' ').map(|n| n.parse::<u64>().unwrap()).sum::<u64>();
        assert_eq!(cell("worker_full_waits").split(' ').count(), 3);
        assert_eq!(sum("worker_ring_full") + sum("unplaced"), sum("ring_full"));

        let plain = flowloom([&arguments[..], &["--format", "plain"]].concat()).ends(0);
        let told: u64 = plain
            .text()
            .lines()
            .filter(|line| line.starts_with("Worker ") || line.starts_with("Pool "))
            .filter_map(|line| {
                line.strip_suffix(" dropped")?.rsplit_once(", ")?.1.replace(' ', "").parse::<u64>().ok()
            })
            .sum();
        let dropped = plain.text().lines().find_map(|line| line.strip_prefix("Dropped     ring_full "));
        let dropped = dropped.map_or(0, |packets| packets.replace(' ', "").parse().unwrap());
        assert_eq!(told, dropped, "{}", plain.text());
    }
}

/// Every layout, seed, policy and method of reading the same packets gives the same digest.
#[test]
fn the_digest_depends_on_the_packets_alone() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let other = folder.trace("other.pcap", &["--flows", "300", "--packets", "5000", "--seed", "2"]);
    let next = folder.trace("t.pcapng", &[]);
    let packed = folder.trace("t.pcap.zst", &[]);
    let raw = std::fs::read(&trace).unwrap();
    let gzip = folder.write("t.gz", &bytes::gzip(&raw));
    let expected = replay(&[&trace]);
    let ways: &[&[&str]] = &[
        &["--workers", "1", &trace],
        &["--workers", "2", &trace],
        &["--workers", "4", &trace],
        &["--workers", "2", "--seed", "1", &trace],
        &["--workers", "2", "--seed", "2", &trace],
        &["--workers", "4", "--scheduler", "hrw", &trace],
        &["--workers", "2", "--ring", "64", &trace],
        &["--layout", "pipeline", &trace],
        &["--layout", "sharded", &trace],
        &["--seed", "7", &trace],
        &["--no-mmap", &trace],
        &["--no-mmap", "--workers", "2", &trace],
        &["--table-flows", "1", &trace],
        &["--hugepages", "off", &trace],
        &["--isa", "scalar", &trace],
        &[&gzip],
        &[&packed],
        &["--workers", "2", &packed],
        &[&next],
        &["--workers", "2", "--no-mmap", &next],
    ];
    for way in ways {
        let document = replay(way);
        for field in [
            "digest", "packets", "bytes_on_wire", "bytes_captured", "decoded", "flows", "not_tracked",
            "dropped",
        ] {
            assert_eq!(document[field], expected[field], "{field} with {way:?}");
        }
    }
    for input in [&raw, &std::fs::read(&packed).unwrap(), &std::fs::read(&next).unwrap()] {
        for way in [
            &["replay", "-", "--format", "json"][..],
            &["replay", "-", "--workers", "2", "--format", "json"],
        ] {
            let document = flowloom_fed(way, input).ends(0).silent().json();
            check_balance(&document);
            assert_eq!(document["digest"], expected["digest"], "{way:?}");
        }
    }
    assert_ne!(replay(&[&other])["digest"], expected["digest"], "other packets, other digest");
}

#[test]
fn every_scheduler_gives_equal_results_in_the_order_it_can_keep() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let expected = replay(&[&trace]);
    let keepers =
        ["hrw3", "rss", "fixed", "crc", "dst", "hrw3-2009", "flowpin", "p2c", "fbs", "rss++", "adaptive"];
    let fetchers = ["ph", "lfb", "lfb-ns", "flowpull"];
    for name in keepers.into_iter().chain(fetchers) {
        let document = replay(&["--workers", "3", "--scheduler", name, "--verify", &trace]);
        assert_eq!(document["digest"], expected["digest"], "{name}");
        assert_eq!(document["run"]["scheduler"], name);
        assert_eq!(document["run"]["order"], "internal");
    }
    for name in ["rr", "minload", "adaptive-racy", "adaptive-2009"] {
        let with = |order: &str| {
            flowloom([
                "replay", "--workers", "3", "--scheduler", name, "--order", order, "--verify", &trace,
            ])
        };
        with("external").ends(0);
    }
    let document = replay(&["--workers", "3", "--scheduler", "rr", "--order", "none", &trace]);
    assert_eq!(document["processed"], expected["processed"]);
    assert_eq!(document["flows"], expected["flows"]);
}

#[test]
fn without_order_the_oracle_compares_order_independent_results() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let rules = folder.write(
        "rules.toml",
        b"default_action = 'none'\n[[rule]]\nprotocol = 'tcp'\ndestination_ports = '0-1023'\n",
    );
    for application in [
        &["--app", "null"][..],
        &["--app", "tcp-tracker"],
        &["--app", "tcp-tracker", "--timeout", "0.01"],
        &["--app", "accounting", "--timeout", "0.01", "--active-timeout", "0.05"],
        &["--app", "l7"],
        &["--rules", &rules],
    ] {
        let run = |layout: &[&str]| replay(&[&["--verify"], application, layout, &[&trace]].concat());
        for scheduler in ["rr", "minload", "adaptive-racy", "adaptive-2009"] {
            let document = run(&["--workers", "3", "--scheduler", scheduler, "--order", "none"]);
            let verify = &document["verify"];
            assert_eq!(verify["in_order"], false, "{scheduler} {application:?}");
            assert_eq!(verify["agrees"], true, "{scheduler} {application:?}: {verify}");
            assert_eq!(verify["flows"], 300, "{scheduler} {application:?}");
        }
        // Rejected flows are noticed too: one is missing, or a later record of it was accepted and
        // lacks packets.
        let refusing = ["--workers", "3", "--scheduler", "rr", "--order", "none", "--flows-max", "30"];
        let differing =
            flowloom([&["replay", "--verify"], application, &refusing, &[&trace]].concat()).ends(1);
        differing.says(&["differs from the oracle's: flow ", "the table was full and refused flows"]);
        for layout in [&["--order", "none"][..], &["--workers", "3", "--order", "none"]] {
            assert_eq!(run(layout)["verify"]["in_order"], true, "{layout:?} keeps it");
        }
    }
}

#[test]
fn written_packets_read_back_unchanged_in_every_layout() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let expected = replay(&[&trace]);
    let decoded = expected["decoded"].as_u64().unwrap();
    let external = ["--order", "external"];
    let layouts: [&[&str]; 5] = [
        &[],
        &["--workers", "3"],
        &["--workers", "3", "--order", "external"],
        &["--workers", "3", "--scheduler", "rr", external[0], external[1]],
        &["--workers", "2", "--scheduler", "lfb", external[0], external[1]],
    ];
    let mut files = Vec::new();
    for (i, layout) in layouts.iter().enumerate() {
        let path = folder.path(&format!("written-{i}.pcapng"));
        let document = replay(&[*layout, &["--write", &path, &trace]].concat());
        assert_eq!(document["written"]["packets"], decoded);
        let again = replay(&[&path]);
        assert_eq!((&again["flows"], &again["decoded"]), (&expected["flows"], &expected["decoded"]));
        // In internal order only a flow's packets are in order, so times go back and are clamped.
        assert!(i == 1 || again["digest"] == expected["digest"], "{layout:?}");
        files.push(std::fs::read(&path).unwrap());
    }
    assert!(files[2..].iter().all(|file| *file == files[0]), "external order is the order of arrival");
    assert_eq!(files[1].len(), files[0].len());
}

#[test]
fn the_oracle_agrees_in_every_layout() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    for layout in
        [&[][..], &["--workers", "1"], &["--workers", "2"], &["--workers", "4", "--scheduler", "hrw"]]
    {
        for option in [
            &[][..],
            &["--passes", "3"],
            &["--timeout", "1"],
            &["--timeout", "0.01", "--passes", "2"],
            &["--decap"],
            &["--limit", "1234"],
            &["--app", "null"],
        ] {
            let document = replay(&[&[trace.as_str(), "--verify"], layout, option].concat());
            assert_eq!(document["verify"]["agrees"], true, "{layout:?} {option:?}");
            assert_eq!(document["verify"]["flows"], document["flows"], "{layout:?} {option:?}");
        }
    }
}

#[test]
fn flow_records_are_one_per_flow_and_add_up() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let mut all_sums = Vec::new();
    for name in ["inline.csv", "inline.jsonl", "two.csv", "two.jsonl"] {
        let flows = folder.path(name);
        let layout: &[&str] = if name.starts_with("two") { &["--workers", "2"] } else { &[] };
        let document = replay(
            &[&[trace.as_str(), "--app", "tcp-tracker", "--sort", "--flows", &flows], layout].concat(),
        );
        let text = std::fs::read_to_string(&flows).unwrap();
        let records: Vec<Value> =
            if name.contains("csv") { csv_records(&text) } else { json_records(&text) };
        assert_eq!(records.len() as u64, number(&document, "flows"), "{name}");
        let sum = |field: &str| -> u64 { records.iter().map(|record| number(record, field)).sum() };
        let packets = sum("packets") + sum("reverse_packets");
        assert_eq!(packets, number(&document, "processed"), "{name}");
        let bytes = sum("bytes") + sum("reverse_bytes");
        assert!(bytes > 0 && bytes <= number(&document, "bytes_on_wire"), "{name}");
        for record in &records {
            assert!(number(record, "first_ns") <= number(record, "last_ns"), "{record}");
            assert!(record["source"].is_string() && record["destination"].is_string(), "{record}");
        }
        all_sums.push((packets, bytes));
    }
    assert!(all_sums.windows(2).all(|pair| pair[0] == pair[1]), "{all_sums:?}");
    let same = |one: &str, other: &str| {
        std::fs::read(folder.path(one)).unwrap() == std::fs::read(folder.path(other)).unwrap()
    };
    assert!(same("inline.csv", "two.csv"), "the order of the records does not depend on the layout");
    assert!(same("inline.jsonl", "two.jsonl"));
}

fn json_records(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Parses CSV into records, with numbers for numeric columns.
fn csv_records(text: &str) -> Vec<Value> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let header = reader.headers().unwrap().clone();
    let value = |text: &str| text.parse::<u64>().map_or_else(|_| Value::from(text), Value::from);
    reader
        .records()
        .map(|row| {
            let row = row.unwrap();
            header.iter().zip(&row).map(|(name, field)| (name.to_owned(), value(field))).collect()
        })
        .collect()
}

#[test]
fn run_takes_the_time_of_its_packet_rate() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "500", "--flows", "20"]);
    for layout in [&[][..], &["--workers", "1"]] {
        let begun = Instant::now();
        let document = replay(&[&[trace.as_str(), "--speed", "1k"], layout].concat());
        let seconds = document["seconds"].as_f64().unwrap();
        assert!((0.4..5.0).contains(&seconds), "500 packets at 1000/s in {seconds} s");
        assert!(begun.elapsed().as_secs_f64() >= seconds);
    }
}

#[test]
fn run_at_recorded_pace_takes_the_recorded_time() {
    let folder = Folder::new();
    // Four packets at intervals of a second, ten times as fast.
    let trace = folder.write("t.pcap", &bytes::pcap(4));
    let seconds = replay(&[&trace, "--speed", "x10"])["seconds"].as_f64().unwrap();
    assert!((0.25..3.0).contains(&seconds), "three seconds at x10 in {seconds} s");
}

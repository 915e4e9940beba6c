//! `replay`: formats of the result, equal layouts, limits, passes, flow records.

use std::time::Instant;

use serde_json::Value;

use crate::bytes;
use crate::support::{Folder, check_balance, flowloom, flowloom_fed, no_result, number, replay};

#[test]
fn json_has_the_figures_a_program_needs() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let document = replay(&[&trace]);
    assert_eq!(document["schema"], "flowloom/replay/1");
    for field in ["packets", "bytes_on_wire", "bytes_captured", "decoded", "flows"] {
        assert!(number(&document, field) > 0, "{field}");
    }
    assert!(document["seconds"].as_f64().unwrap() > 0.0);
    assert!(document["packets_per_second"].as_f64().unwrap() > 0.0);
    assert!(document["dropped"].is_object());
    assert!(!document["digest"].as_str().unwrap().is_empty());
    assert_eq!(document["complete"], true);
    assert_eq!(document["interrupted"], false);
    assert_eq!(document["inputs"][0]["packets"], document["packets"]);
}

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
    flowloom(["replay", &trace, "--table-flows", "100k"]).ends(0).shows(&[text]);
}

#[test]
fn lines_for_people_end_with_the_verdict() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let plain = flowloom(["replay", &trace, "--format", "plain"]).ends(0).silent();
    assert!(!plain.text().contains('\u{1b}'), "plain lines have no colour");
    for part in ["Packets     5000", "Flows", "Digest", "Throughput", "tcp-tracker"] {
        assert!(plain.text().contains(part), "{part} in {}", plain.text());
    }
    let last = plain.text().lines().last().unwrap().to_owned();
    assert!(last.contains("packets/s over"), "{last}");

    let auto = flowloom(["replay", &trace]).ends(0);
    assert!(!auto.text().contains('\u{1b}'), "a pipe gets plain lines");
    let table = flowloom(["replay", &trace, "--format", "table", "--color", "always"]).ends(0);
    assert!(table.text().contains('\u{1b}'));
    let bare = flowloom(["replay", &trace, "--format", "table", "--color", "never"]).ends(0);
    assert!(!bare.text().contains('\u{1b}'));

    let quiet = flowloom(["replay", &trace, "-q"]).ends(0);
    assert_eq!(quiet.text().lines().count(), 1);
    assert!(quiet.text().contains("packets/s over"));
    assert_eq!(flowloom(["replay", &trace, "-qq"]).ends(0).silent().text(), "");
}

#[test]
fn jsonl_is_one_line_and_csv_a_header_and_a_row() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let lines = flowloom(["replay", &trace, "--format", "jsonl"]).ends(0).silent();
    assert_eq!(lines.text().lines().count(), 1);
    check_balance(&lines.json());

    let text = flowloom(["replay", &trace, "--format", "csv"]).ends(0).silent();
    let mut reader = csv::Reader::from_reader(&text.stdout[..]);
    let header = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), 1);
    for field in ["packets", "bytes_on_wire", "bytes_captured", "decoded", "flows", "digest", "not_ip"] {
        let at = header.iter().position(|name| name == field).unwrap();
        let document = lines.json();
        let expected = match &document[field] {
            Value::String(text) => text.clone(),
            Value::Null => document["not_tracked"][field].as_u64().unwrap_or(0).to_string(),
            value => value.to_string(),
        };
        assert_eq!(rows[0][at], expected, "{field}");
    }
}

#[test]
fn what_is_dropped_at_full_rings_is_told_of_each_worker() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "500", "--packets", "60k"]);
    for scheduler in ["dh", "minload", "flowpin", "lfb"] {
        let arguments = [
            "replay",
            &trace,
            "--workers",
            "3",
            "--no-pin",
            "--full",
            "drop",
            "--ring",
            "64",
            "--order",
            "none",
            "--scheduler",
            scheduler,
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
        let of = |field: &str| row[header.iter().position(|name| name == field).unwrap()].to_owned();
        let sum = |field: &str| of(field).split(' ').map(|n| n.parse::<u64>().unwrap()).sum::<u64>();
        assert_eq!(of("worker_full_waits").split(' ').count(), 3);
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
            "digest",
            "packets",
            "bytes_on_wire",
            "bytes_captured",
            "decoded",
            "flows",
            "not_tracked",
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
                "replay",
                "--workers",
                "3",
                "--scheduler",
                name,
                "--order",
                order,
                "--verify",
                &trace,
            ])
        };
        with("internal").ends(2).says(&[name, "does not keep the packets of a flow in order", "external"]);
        with("external").ends(0);
    }
    let document = replay(&["--workers", "3", "--scheduler", "rr", "--order", "none", &trace]);
    assert_eq!(document["processed"], expected["processed"]);
    assert_eq!(document["flows"], expected["flows"]);
}

#[test]
fn without_order_the_oracle_compares_what_does_not_depend_on_it() {
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
    let words = ["replay", "--workers", "3", "--scheduler", "rr", "--order", "none", "--verify", &trace];
    flowloom(words)
        .ends(0)
        .shows(&["verified except values that depend on order, 300 flows as the oracle has them"]);
}

#[test]
fn written_packets_come_back_as_they_were_in_every_layout() {
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
fn packets_that_cannot_be_written_end_the_run_with_its_result() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "20k"]);
    for layout in [&[][..], &["--workers", "2"]] {
        let arguments =
            [&["replay", "--format", "json", "--write", "/dev/full"], layout, &[&trace]].concat();
        let run = flowloom(arguments).ends(5).says(&["cannot be written", "No space left"]);
        let document = run.json();
        assert_eq!(document["balanced"], true);
        assert!(document["written"]["refused"].as_u64() > Some(0));
    }
    flowloom(["replay", "--write", "/no/such/folder/out.pcapng", &trace])
        .ends(5)
        .says(&["cannot write packets"]);
    flowloom(["replay", "--write", "-", &trace]).ends(2).says(&["needs a file"]);
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
    let words = flowloom(["replay", "--verify", &trace]).ends(0);
    assert!(words.text().lines().last().unwrap().contains("verified"), "{}", words.text());
}

#[test]
fn passes_multiply_packets_and_flows() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let once = replay(&[&trace]);
    for passes in [2_u64, 3] {
        for layout in [&[][..], &["--workers", "2"], &["--no-mmap"]] {
            let text = passes.to_string();
            let document = replay(&[&[trace.as_str(), "--passes", &text], layout].concat());
            for field in ["packets", "bytes_on_wire", "bytes_captured", "decoded", "flows"] {
                assert_eq!(number(&document, field), passes * number(&once, field), "{field} {layout:?}");
            }
            assert_eq!(no_result(&document), passes * no_result(&once));
        }
    }
}

#[test]
fn a_limit_is_exact() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    for limit in ["1", "31", "32", "33", "4999", "5000"] {
        for layout in [&[][..], &["--workers", "2"]] {
            let document = replay(&[&[trace.as_str(), "--limit", limit], layout].concat());
            assert_eq!(number(&document, "packets").to_string(), limit, "{layout:?}");
        }
    }
    let part = replay(&[&trace, "--limit", "100"]);
    assert_eq!(part["inputs"][0]["path"], trace.as_str(), "a capture read in part is named too");
    assert_eq!(part["inputs"][0]["packets"], 100);
    assert_eq!(number(&replay(&[&trace, "--limit", "1M"]), "packets"), 5000);
    assert_eq!(number(&replay(&[&trace, "--loop", "--limit", "12k"]), "packets"), 12_000);
}

#[test]
fn flows_that_a_timeout_ends_begin_again_with_a_record_of_their_own() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let whole = replay(&[&trace]);
    assert_eq!(whole["flows_begun"], whole["flows"]);
    flowloom(["replay", &trace]).ends(0).shows(&["\nFlows       300\n"]);
    let parts = replay(&[&trace, "--timeout", "0.001"]);
    let begun = number(&parts, "flows_begun");
    assert_eq!((number(&parts, "flows"), begun > 300), (begun, true), "one record each time");
    assert_eq!(begun - number(&parts, "flows_expired"), number(&parts["table"], "flows_at_end"));
    flowloom(["replay", &trace, "--timeout", "0.001"])
        .ends(0)
        .shows(&[&format!("\nFlows       {begun}   ended by timeout ")]);
}

#[test]
fn inputs_of_a_loop_are_said_as_a_whole_pass_found_them() {
    let folder = Folder::new();
    let (first, second) = (folder.trace("a.pcap", &[]), folder.trace("b.pcap", &[]));
    let document = replay(&[&first, &second, "--loop", "--limit", "10100"]);
    let inputs: Vec<u64> =
        document["inputs"].as_array().unwrap().iter().map(|input| number(input, "packets")).collect();
    assert_eq!(inputs, [5000, 5000], "the second pass has only begun");
    let document = replay(&[&first, &second, "--loop", "--limit", "9999"]);
    assert_eq!(document["inputs"][1]["packets"], 4999);
}

#[test]
fn captures_that_overlap_in_time_are_merged_or_said_to_need_it() {
    let folder = Folder::new();
    let (first, second) = (folder.trace("a.pcap", &[]), folder.trace("b.pcap", &[]));
    let merged = flowloom(["replay", &first, &second]).ends(0);
    assert!(!merged.text().contains("time goes backwards"));
    merged.shows(&["2 captures overlap in time and were merged by time"]);
    flowloom(["replay", &first, &second, "--concat"]).ends(0).shows(&[
        "time goes backwards, by ",
        " s at most",
        "mergecap",
    ]);
}

#[test]
fn a_span_of_nanoseconds_is_shown() {
    let folder = Folder::new();
    let mut file = Vec::new();
    for word in [0xA1B2_3C4D_u32, 2 | 4 << 16, 0, 0, 65_535, 1, 5, 999_999_999, 0, 60, 6, 1, 0, 60] {
        file.extend(word.to_le_bytes());
    }
    let path = folder.write("ns.pcap", &file);
    flowloom(["replay", &path]).ends(0).shows(&["Span        0.000000002 s of packet time"]);
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

#[test]
fn records_of_every_application_begin_with_source_and_destination() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let begin = "source,destination,source_port,destination_port,protocol";
    let accounting = folder.path("accounting.csv");
    replay(&[&trace, "--sort", "--flows", &accounting]);
    let ends = |path: &str| -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap();
        let row = |line: &str| line.split(',').take(5).collect::<Vec<_>>().join(",");
        text.lines().map(row).collect()
    };
    let expected = ends(&accounting);
    assert_eq!(expected[0], begin);
    for (app, has_source) in [("tcp-tracker", true), ("l7", true), ("null", false)] {
        let flows = folder.path(&format!("{app}.csv"));
        replay(&[&trace, "--app", app, "--sort", "--flows", &flows]);
        let found = ends(&flows);
        assert_eq!((&*found[0], found.len()), (begin, expected.len()), "{app}");
        assert!(!has_source || found == expected, "{app}");
    }
    let some = folder.path("some.jsonl");
    let columns = ["--columns", "low_address,packets,packets_low_to_high,source_end"];
    replay(&[&[&*trace, "--app", "tcp-tracker", "--flows", &some][..], &columns].concat());
    for record in json_records(&std::fs::read_to_string(&some).unwrap()) {
        assert_eq!(record.as_object().unwrap().len(), 4, "{record}");
        assert!(
            record["source_end"] != "low" || record["packets"] == record["packets_low_to_high"],
            "{record}"
        );
    }
    let wrong = ["replay", &trace, "--app", "null", "--flows", &some, "--columns", "packets"];
    flowloom(wrong).ends(2).says(&["--columns: unknown column 'packets'", "destination_port"]);
    let kept = std::fs::read_to_string(&some).unwrap();
    assert!(!kept.is_empty(), "a run that is refused leaves the file as it was");
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
fn no_application_still_counts_flows() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let tracked = replay(&[&trace]);
    for layout in [&[][..], &["--workers", "2"]] {
        let document = replay(&[&[trace.as_str(), "--app", "null"], layout].concat());
        assert_eq!(document["run"]["app"], "null");
        for field in ["packets", "decoded", "processed", "flows"] {
            assert_eq!(document[field], tracked[field], "{field}");
        }
    }
}

#[test]
fn several_files_and_directories_are_one_input() {
    let folder = Folder::new();
    let first = folder.trace("a.pcap", &[]);
    let second = folder.trace("b.pcapng.zst", &["--flows", "50", "--packets", "700", "--seed", "9"]);
    let sum = number(&replay(&[&first]), "packets") + number(&replay(&[&second]), "packets");
    let both = replay(&[&first, &second]);
    assert_eq!(number(&both, "packets"), sum);
    assert_eq!(both["inputs"].as_array().unwrap().len(), 2);

    folder.write("notes.txt", b"not a capture");
    let directory = folder.path("");
    let outcome = flowloom(["replay", &directory, "--format", "json"]).ends(0);
    assert_eq!(number(&outcome.json(), "packets"), sum);
    outcome.says(&["warning: ", "notes.txt is not a capture and was skipped"]);
    flowloom(["replay", &directory, "--strict", "--format", "json"]).ends(0);
}

#[test]
fn flows_beyond_the_maximum_are_not_tracked_and_counted() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &bytes::pcap(2000));
    for layout in [&[][..], &["--workers", "2"]] {
        let document = replay(&[&[trace.as_str(), "--flows-max", "64"], layout].concat());
        assert_eq!(number(&document, "packets"), 2000);
        let refused = document["not_tracked"]["table_full"].as_u64().unwrap();
        assert!(refused > 1000, "{layout:?}: {refused}");
        assert_eq!(number(&document, "flows"), 2000 - refused);
    }
}

#[test]
fn a_pace_in_packets_a_second_takes_its_time() {
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
fn a_pace_as_recorded_takes_the_recorded_time() {
    let folder = Folder::new();
    // Four packets at intervals of a second, ten times as fast.
    let trace = folder.write("t.pcap", &bytes::pcap(4));
    let seconds = replay(&[&trace, "--speed", "x10"])["seconds"].as_f64().unwrap();
    assert!((0.25..3.0).contains(&seconds), "three seconds at x10 in {seconds} s");
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = flowloom(["completions", shell]).ends(0).silent();
        for verb in ["replay", "inspect", "generate"] {
            assert!(script.text().contains(verb), "{verb} for {shell}");
        }
    }
    let folder = Folder::new();
    let directory = folder.path("man/man1");
    flowloom(["man", &directory]).ends(0).silent();
    flowloom(["man", "/dev/null"])
        .ends(5)
        .says(&["pages into /dev/null: it is not a folder; name a folder"]);
    for page in ["flowloom.1", "flowloom-replay.1", "flowloom-inspect.1", "flowloom-generate.1"] {
        let text = std::fs::read_to_string(folder.path(&format!("man/man1/{page}"))).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
}

#[test]
fn help_and_version_are_results() {
    let help = flowloom(["--help"]).ends(0);
    assert!(help.text().starts_with("Flow records, protocol labels"), "{}", help.text());
    for verb in [&[][..], &["replay"], &["inspect"], &["generate"], &["generate", "trace"]] {
        let help = flowloom([verb, &["--help"]].concat()).ends(0).silent();
        assert!(help.text().contains("Usage: flowloom"), "{verb:?}");
    }
    assert!(flowloom(["--version"]).ends(0).silent().text().starts_with("flowloom "));
}

#[test]
fn every_table_gives_the_same_flows_to_every_application() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "5000"]);
    let rules = folder.path("acl.rules");
    flowloom(["generate", "rules", "--rules", "50", "-o", &rules]).ends(0);
    for app in ["null", "tcp-tracker", "accounting", "l7", "firewall --rules"] {
        let run = |table: &str| {
            let words = format!("{trace} --table {table} --table-flows 20 --seed 1 --verify --app {app}");
            let mut words: Vec<&str> = words.split(' ').collect();
            words.extend(app.ends_with("--rules").then_some(&rules[..]));
            let document = replay(&words);
            assert_eq!(document["run"]["table"], table.split(' ').next().unwrap());
            document["digest"].clone()
        };
        let linehash = run("linehash");
        for table in ["dhash", "sighash", "chained", "direct", "dhash --signature 3"] {
            assert_eq!(run(table), linehash, "{app}, {table}");
        }
    }
}

#[test]
fn the_search_of_the_paper_counts_its_steps() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "5000"]);
    let steps = |options: &[&str]| {
        let run =
            [&[&trace[..], "--table", "dhash", "--seed", "1", "--table-flows", "300"], options].concat();
        replay(&run)["table"]["searches"]["comparisons_per_lookup"].as_f64().unwrap()
    };
    let [preferred, first] = ["on", "off"].map(|major| steps(&["--major-location", major]));
    assert!(preferred < 0.85 * first, "{preferred} {first}");
    // A miss is searched twice.
    assert!(steps(&["--signature", "4"]) > 1.1 * steps(&["--signature", "keyed"]));
}

#[test]
fn what_changes_nothing_outside_the_pipeline_is_told() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let warning = "has no effect outside the pipeline";
    let for_workers = [["--scheduler", "flowpin"], ["--full", "drop"], ["--ring", "256"]];
    for option in for_workers {
        let inline = flowloom([&["replay", &trace][..], &option].concat()).ends(0);
        inline.says(&["warning: ", option[0], warning]);
        let said = flowloom([&["replay", &trace, "--workers", "1"][..], &option].concat()).ends(0).stderr;
        assert!(!said.contains(warning), "{said}");
    }
    let said = flowloom(["replay", &trace, "--cores", "0"]).ends(0).stderr;
    assert!(!said.contains("warning"), "{said}");
    let all = flowloom([&["replay", &trace][..], &for_workers.concat()].concat()).ends(0);
    all.says(&["--scheduler, --full, --ring have no effect outside the pipeline"]);
}

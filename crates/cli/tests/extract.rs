//! `flowloom extract`: the packets of some flows.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Folder, flowloom, number, replay};

fn extract(arguments: &[&str]) -> Value {
    let outcome = flowloom([&["extract", "--format", "json"], arguments].concat()).ends(0);
    let document = outcome.json();
    if number(&document, "packets") > 0 {
        outcome.silent();
    } else {
        outcome.says(&["no packet was selected"]);
    }
    document
}

/// Returns the records of a capture, in the order of their keys.
fn records(folder: &Folder, trace: &str, options: &[&str]) -> Vec<Value> {
    let path = folder.path("records.jsonl");
    // A selection of nothing would leave earlier records.
    drop(std::fs::remove_file(&path));
    replay(&[&[trace, "--sort", "--columns", "all", "--flows", &path], options].concat());
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn extracted_packets_give_the_matching_records() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let out = folder.path("out.pcapng");
    for expression in ["total_bytes > 5k", "protocol != tcp", "packets > 3 and size_max > 200", "bytes < 0"]
    {
        // A selection of nothing would leave the packets of the expression before it.
        drop(std::fs::remove_file(&out));
        let document = extract(&[&trace, "-o", &out, "--where", expression]);
        let expected = records(&folder, &trace, &["--where", expression]);
        let found = records(&folder, &out, &[]);
        assert!(found == expected, "{expression}");
        let count = expected.len() as u64;
        assert_eq!((number(&document, "records"), number(&document, "flows")), (count, count));
        let packets = |field: &str| found.iter().map(|record| number(record, field)).sum::<u64>();
        assert_eq!(number(&document, "packets"), packets("packets") + packets("reverse_packets"));
    }
}

#[test]
fn filter_that_matches_one_packet_extracts_its_whole_flow() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let out = folder.path("out.pcapng");
    let all = records(&folder, &trace, &[]);
    // A packet of one direction.
    let port = number(all.iter().find(|record| record["protocol"] == 6).unwrap(), "source_port");
    let filter = format!("tcp src port {port}");
    extract(&[&trace, "-o", &out, "--filter", &filter]);
    let has = |record: &&Value| {
        let is_source = number(record, "source_port") == port && number(record, "packets") > 0;
        let is_answer = number(record, "destination_port") == port && number(record, "reverse_packets") > 0;
        record["protocol"] == 6 && (is_source || is_answer)
    };
    let expected: Vec<&Value> = all.iter().filter(has).collect();
    assert!(records(&folder, &out, &[]).iter().collect::<Vec<_>>() == expected, "{filter}");
    // Both conditions.
    drop(std::fs::remove_file(&out));
    let document = extract(&[&trace, "-o", &out, "--filter", &filter, "--where", "protocol == udp"]);
    assert_eq!(number(&document, "packets"), 0);
    assert!(records(&folder, &out, &[]).is_empty(), "a file without packets can be read");
}

#[test]
fn flows_are_named_by_community_id_or_ends() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let out = folder.path("out.pcapng");
    let all = records(&folder, &trace, &[]);
    let some: Vec<&Value> =
        all.iter().filter(|record| record["protocol"] == 6 && record["vlan"].is_null()).take(2).collect();
    let id = some[0]["community_id"].as_str().unwrap();
    let text = |field: &str| match some[1][field].as_str().unwrap() {
        v6 if v6.contains(':') => format!("[{v6}]"),
        v4 => v4.to_owned(),
    };
    let ends = format!(
        "tcp {}:{} {}:{}",
        text("destination"),
        some[1]["destination_port"],
        text("source"),
        some[1]["source_port"]
    );
    extract(&[&trace, "-o", &out, "--flow", id, "--flow", &ends]);
    let found = records(&folder, &out, &[]);
    let ids = |records: &[&Value]| -> BTreeSet<String> {
        records.iter().map(|record| record["community_id"].to_string()).collect()
    };
    assert_eq!(ids(&found.iter().collect::<Vec<_>>()), ids(&some));
}

#[test]
fn with_a_timeout_only_the_packets_of_records_that_match_are_written() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "30", "--packets", "3000", "--rate", "1k"]);
    let out = folder.path("out.pcapng");
    let document = extract(&[&trace, "-o", &out, "--timeout", "0.2", "--where", "packets >= 2"]);
    let expected = records(&folder, &trace, &["--timeout", "0.2", "--where", "packets >= 2"]);
    assert_eq!(number(&document, "records"), expected.len() as u64);
    let packets = |field: &str| expected.iter().map(|record| number(record, field)).sum::<u64>();
    assert_eq!(number(&document, "packets"), packets("packets") + packets("reverse_packets"));
    assert!(number(&document, "packets") < number(&document, "packets_read"));
}

#[test]
fn index_finds_the_same_packets_with_fewer_reads() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "4000", "--packets", "60k"]);
    let (index, plain, found) = (folder.path("t.idx"), folder.path("a.pcapng"), folder.path("b.pcapng"));
    let all = records(&folder, &trace, &[]);
    let mut parts_read = 0;
    for record in all.iter().filter(|record| number(record, "packets") > 1).step_by(500) {
        let id = record["community_id"].as_str().unwrap();
        let expected = extract(&[&trace, "-o", &plain, "--flow", id]);
        let document = extract(&[&trace, "-o", &found, "--flow", id, "--index", &index]);
        for field in ["packets", "flows", "bytes_captured"] {
            assert_eq!(document[field], expected[field], "{field} {record}");
        }
        assert_eq!(std::fs::read(&found).unwrap(), std::fs::read(&plain).unwrap(), "{record}");
        let figures = &document["index"];
        assert_eq!(figures["made"], parts_read == 0, "the first run makes it");
        assert!(number(figures, "parts") > 3, "{figures}");
        assert!(number(&document, "packets_read") <= number(&expected, "packets_read"));
        parts_read += number(figures, "parts_read");
    }
    let none = extract(&[&trace, "-o", &found, "--flow", "tcp 1.2.3.4:5 6.7.8.9:10", "--index", &index]);
    assert_eq!((number(&none, "packets"), number(&none["index"], "parts_read")), (0, 0));
}

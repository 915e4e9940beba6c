//! `flowloom top`: sums of records, compared with the records themselves.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::{Folder, flowloom, number, replay};

fn records(folder: &Folder, trace: &str) -> Vec<Value> {
    let path = folder.path("records.jsonl");
    replay(&[trace, "--flows", &path]);
    let text = std::fs::read_to_string(&path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn top(arguments: &[&str]) -> Value {
    flowloom([&["top", "--format", "json"], arguments].concat()).ends(0).silent().json()
}

/// Flows, packets and bytes by a name that each record has.
fn sums(records: &[Value], names: impl Fn(&Value) -> Vec<String>) -> BTreeMap<String, [u64; 3]> {
    let mut sums = BTreeMap::<String, [u64; 3]>::new();
    for record in records {
        for name in names(record) {
            let sum = sums.entry(name).or_default();
            sum[0] += 1;
            sum[1] += number(record, "packets") + number(record, "reverse_packets");
            sum[2] += number(record, "bytes") + number(record, "reverse_bytes");
        }
    }
    sums
}

fn text(record: &Value, field: &str) -> String {
    record[field].as_str().unwrap().to_owned()
}

#[test]
fn rows_are_the_sums_of_the_records() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let records = records(&folder, &trace);
    let ports = |record: &Value| match number(record, "protocol") {
        6 | 17 => format!("{}/{}", text(record, "protocol_name"), number(record, "destination_port")),
        _ => text(record, "protocol_name"),
    };
    let family = |record: &Value| if text(record, "source").contains(':') { "ipv6" } else { "ipv4" };
    let hosts = sums(&records, |record| vec![text(record, "source"), text(record, "destination")]);
    let by_port = sums(&records, |record| vec![ports(record)]);
    let protocols = sums(&records, |record| vec![text(record, "protocol_name")]);
    let layers = sums(&records, |record| {
        let family = family(record).to_owned();
        let protocol = format!("{family}/{}", text(record, "protocol_name"));
        let port = format!("{family}/{}", ports(record));
        let mut names = vec![family, protocol, port];
        names.dedup();
        names
    });
    for (by, expected) in
        [("host", &hosts), ("port", &by_port), ("protocol", &protocols), ("hierarchy", &layers)]
    {
        let mut documents = Vec::new();
        for workers in [&[][..], &["--workers", "2"]] {
            let document = top(&[&[trace.as_str(), "--by", by, "-n", "0"], workers].concat());
            let rows = document["rows"].as_array().unwrap();
            let found: BTreeMap<String, [u64; 3]> = rows
                .iter()
                .map(|row| {
                    (text(row, "name"), ["flows", "packets", "bytes"].map(|field| number(row, field)))
                })
                .collect();
            assert!(found == *expected, "{by}: {found:#?}\n{expected:#?}");
            assert_eq!(number(&document, "records"), records.len() as u64);
            documents.push(document["rows"].clone());
        }
        assert!(documents[0] == documents[1], "{by}: the same in both layouts");
    }
}

#[test]
fn conversations_have_an_initiator_a_duration_and_a_rate() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "50", "--packets", "2000", "--rate", "1k"]);
    let records = records(&folder, &trace);
    let document = top(&[&trace, "--by", "conversation", "-n", "0", "--sort", "packets"]);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), records.len(), "without timeouts a flow is one record");
    let packets: Vec<u64> = rows.iter().map(|row| number(row, "packets")).collect();
    assert!(packets.is_sorted_by(|one, other| one >= other));
    for row in rows {
        let name = text(row, "name");
        let is_it = |record: &&Value| {
            let words: Vec<&str> = name.split(' ').collect();
            let end = |address: &str, port: &str| {
                let address = match text(record, address) {
                    v6 if v6.contains(':') => format!("[{v6}]"),
                    v4 => v4,
                };
                format!("{address}:{}", number(record, port))
            };
            words[0] == text(record, "protocol_name")
                && words[1] == end("source", "source_port")
                && words[3] == end("destination", "destination_port")
        };
        let Some(record) = records.iter().find(is_it) else {
            assert!(!name.starts_with("tcp") && !name.starts_with("udp"), "{name} is no record");
            continue;
        };
        assert_eq!(number(row, "packets_sent"), number(record, "packets"), "{name}");
        assert_eq!(number(row, "bytes_received"), number(record, "reverse_bytes"), "{name}");
        let duration = number(record, "end") - number(record, "start");
        assert_eq!(number(row, "duration_ns"), duration, "{name}");
        if duration > 0 {
            let [bytes, duration] = [&row["bytes"], &row["duration_ns"]].map(|n| n.as_f64().unwrap());
            let rate = row["bits_per_second"].as_f64().unwrap();
            assert!((rate * duration / (bytes * 8e9) - 1.0).abs() < 1e-9, "{name}");
        }
    }
}

#[test]
fn sources_have_the_distinct_destinations_and_ports_of_their_records() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "200", "--packets", "4000"]);
    let mut targets: BTreeMap<String, [BTreeSet<String>; 2]> = BTreeMap::new();
    for record in records(&folder, &trace) {
        let [peers, ports] = targets.entry(text(&record, "source")).or_default();
        peers.insert(text(&record, "destination"));
        if ["tcp", "udp"].contains(&&*text(&record, "protocol_name")) {
            ports.insert(format!(
                "{}/{}",
                text(&record, "protocol_name"),
                number(&record, "destination_port")
            ));
        }
    }
    for workers in ["1", "2"] {
        let of = ["--by", "source", "--sort", "peers", "-n", "0", "--workers", workers];
        let document = top(&[&[&*trace], &of[..]].concat());
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), targets.len());
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(number(row, "peers"))));
        for row in rows {
            let [peers, ports] = &targets[&text(row, "name")];
            let found = [number(row, "peers"), number(row, "ports")];
            assert_eq!(found, [peers, ports].map(|set| set.len() as u64), "{row:#}");
            assert_eq!(row["targets_bounded"], false);
        }
    }
}

#[test]
fn rows_that_are_not_shown_are_counted() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let options = [&["-n", "3"][..], &["-n", "3", "--groups-max", "4"]];
    for (by, options) in ["conversation", "port"].into_iter().flat_map(|by| options.map(|some| (by, some)))
    {
        let document = top(&[&[trace.as_str(), "--by", by], options].concat());
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 3);
        for (field, whole) in
            [("flows", "records"), ("packets", "record_packets"), ("bytes", "record_bytes")]
        {
            let shown: u64 = rows.iter().map(|row| number(row, field)).sum();
            let others = number(&document["rest"], field) + number(&document["untold"], field);
            assert_eq!(shown + others, number(&document, whole), "{by} {options:?} {field}");
        }
        assert_eq!(number(&document["untold"], "flows") > 0, options.len() > 2);
    }
}

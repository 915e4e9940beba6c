//! `replay --fields` and `--where`: additional columns of records, and records that match.

use serde_json::Value;

use crate::support::{Folder, number, replay};

/// Determines whether a record should match.
type Test = fn(&Value) -> bool;

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn further_fields_are_written_in_every_layout_and_agree_with_the_record() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--flows", "300", "--packets", "5000", "--rate", "5k"]);
    let mut files = Vec::new();
    for (i, layout) in
        [&[][..], &["--workers", "3"], &["--workers", "2", "--scheduler", "hrw"]].iter().enumerate()
    {
        let flows = folder.path(&format!("{i}.jsonl"));
        let base = [trace.as_str(), "--sort", "--fields", "all", "--verify", "--flows", &flows];
        let document = replay(&[&base[..], layout].concat());
        assert_eq!(document["verify"]["agrees"], true, "{layout:?}");
        files.push(std::fs::read_to_string(&flows).unwrap());
        for record in lines(&flows) {
            let (packets, bytes) = (number(&record, "packets"), number(&record, "ip_bytes"));
            assert_eq!(number(&record, "size_mean"), bytes / packets, "{record}");
            let sizes = record["first_sizes"].as_str().unwrap();
            let total = packets + number(&record, "reverse_packets");
            assert_eq!(sizes.split(' ').count() as u64, total.min(20), "{record}");
            let forward: u64 = sizes.split(' ').filter_map(|size| size.parse::<u64>().ok()).sum();
            assert!(total > 20 || forward == bytes, "{record}");
            assert!(record["retransmissions"].is_u64() && record.get("gap_max").is_some(), "{record}");
        }
    }
    assert!(files.windows(2).all(|pair| pair[0] == pair[1]), "the same records in every layout");
}

#[test]
fn records_are_selected_by_an_expression_and_the_others_are_counted() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let all = folder.path("all.jsonl");
    let whole = replay(&[&trace, "--flows", &all, "--sort"]);
    assert_eq!(number(&whole["records"], "written"), number(&whole, "flows"));
    let all = lines(&all);
    let tests: [(&str, Test); 5] = [
        ("packets > 10", |record| number(record, "packets") > 10),
        ("protocol == tcp and total_bytes >= 5k", |record| {
            number(record, "protocol") == 6
                && number(record, "bytes") + number(record, "reverse_bytes") >= 5000
        }),
        ("not (protocol_name in (tcp, udp)) or destination_port == 443", |record| {
            !["tcp", "udp"].contains(&record["protocol_name"].as_str().unwrap_or_default())
                || number(record, "destination_port") == 443
        }),
        ("vlan != 7", |record| record["vlan"] != 7),
        ("bytes < 0", |_| false),
    ];
    for (expression, test) in tests {
        let expected: Vec<&Value> = all.iter().filter(|record| test(record)).collect();
        for layout in [&[][..], &["--workers", "2"], &["--sort"]] {
            let flows = folder.path("some.jsonl");
            // A selection of nothing would leave the records of the expression before it.
            drop(std::fs::remove_file(&flows));
            let base = [trace.as_str(), "--flows", &flows, "--where", expression];
            let document = replay(&[&base[..], layout].concat());
            let mut found = lines(&flows);
            assert_eq!(number(&document["records"], "written"), found.len() as u64, "{expression}");
            let sum = found.len() as u64 + number(&document["records"], "passed_over");
            assert_eq!((sum, number(&document, "flows")), (all.len() as u64, all.len() as u64));
            let order = |record: &Value| record.to_string();
            found.sort_by_key(order);
            let mut expected: Vec<Value> = expected.iter().map(|&record| record.clone()).collect();
            expected.sort_by_key(order);
            assert!(found == expected, "{expression} {layout:?}");
        }
    }
}

#[test]
fn an_expression_may_read_fields_that_are_not_written() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let (all, some) = (folder.path("all.jsonl"), folder.path("some.jsonl"));
    replay(&[&trace, "--flows", &all, "--fields", "sizes"]);
    let expected = lines(&all).iter().filter(|record| number(record, "size_max") > 1000).count();
    replay(&[&trace, "--flows", &some, "--where", "size_max > 1k"]);
    let found = lines(&some);
    assert_eq!(found.len(), expected);
    assert!(found.iter().all(|record| record.get("size_max").is_none()));
}

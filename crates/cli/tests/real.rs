//! Real captures, with figures that other tools counted. Needs `FLOWLOOM_DATA`.

use std::path::Path;

use crate::support::{Folder, number, real_captures, replay};

/// Captures on which we and the tool that counted keys differ, for reasons that the packet crate's test explains.
const EXPLAINED: [&str; 2] = ["dev_mix_ether.pcap.zst", "nasty/mpls_6in6_broken_gz.pcap.gz"];

/// A line of the table of expected figures.
struct Expected {
    path: String,
    name: String,
    packets: u64,
    bytes_on_wire: u64,
    bytes_captured: u64,
    decoded: u64,
    flows: u64,
}

fn expected(folder: &Path) -> Vec<Expected> {
    let table = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let rows = table.lines().skip(1).map(|line| {
        let columns: Vec<&str> = line.split('\t').collect();
        let count = |at: usize| columns[at].parse().unwrap();
        Expected {
            path: folder.join(columns[0]).to_str().unwrap().to_owned(),
            name: columns[0].to_owned(),
            packets: count(1),
            bytes_on_wire: count(2),
            bytes_captured: count(3),
            decoded: count(5),
            flows: count(6),
        }
    });
    rows.collect()
}

#[test]
fn real_captures_have_the_figures_that_other_tools_count() {
    let Some(folder) = real_captures() else { return };
    let files = expected(&folder);
    assert_eq!(files.len(), 41);
    let mut wrong = Vec::new();
    for file in &files {
        let document = replay(&[&file.path]);
        let mut pairs = vec![
            ("packets", file.packets),
            ("bytes_on_wire", file.bytes_on_wire),
            ("bytes_captured", file.bytes_captured),
        ];
        if !EXPLAINED.contains(&file.name.as_str()) {
            pairs.extend([("decoded", file.decoded), ("flows", file.flows)]);
        }
        for (field, theirs) in pairs {
            let ours = number(&document, field);
            if ours != theirs {
                wrong.push(format!("{}: {field} {ours}, expected {theirs}", file.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_layout_agrees_on_real_captures() {
    let Some(folder) = real_captures() else { return };
    for file in &expected(&folder) {
        for decap in [&[][..], &["--decap"]] {
            let run = |layout: &[&str]| replay(&[&[file.path.as_str()], decap, layout].concat());
            let inline = run(&["--verify"]);
            assert_eq!(inline["verify"]["agrees"], true, "{} {decap:?}", file.name);
            for workers in ["1", "2", "4"] {
                let document = run(&["--workers", workers]);
                for field in ["digest", "packets", "decoded", "flows", "dropped", "bytes_on_wire"] {
                    assert_eq!(document[field], inline[field], "{field} of {} {decap:?}", file.name);
                }
            }
        }
    }
}

#[test]
fn verdicts_and_accounts_of_real_captures_are_the_oracles_in_every_layout() {
    let Some(data) = real_captures() else { return };
    let folder = Folder::new();
    let rules = folder.write(
        "rules.toml",
        b"[[rule]]\nprotocol = 'udp'\ndestination_ports = 53\naction = 'deny'\n\
          [[rule]]\nprotocol = 'tcp'\ndestination_ports = '0-1023'\n[[rule]]\nsource = '::/0'\n\
          [[rule]]\nsource = '0.0.0.0/1'\nprotocol = 'udp'\n",
    );
    let published = data.join("../rules/fw1_1k").to_str().unwrap().to_owned();
    let (mut accepted, mut denied) = (0, 0);
    for file in &expected(&data) {
        for how in [
            &["--app", "accounting", "--timeout", "5", "--active-timeout", "20"][..],
            &["--rules", &rules, "--strict-tcp"],
            &["--rules", &rules, "--timeout", "5"],
            &["--rules", &published, "--per-packet"],
        ] {
            let run = |layout: &[&str]| replay(&[&[file.path.as_str()], how, layout].concat());
            let inline = run(&["--verify"]);
            assert_eq!(inline["verify"]["agrees"], true, "{} {how:?}", file.name);
            if !EXPLAINED.contains(&file.name.as_str()) {
                assert_eq!(number(&inline, "processed"), file.decoded, "{} {how:?}", file.name);
            }
            let two = run(&["--workers", "2"]);
            for field in ["digest", "processed", "denied", "flows"] {
                assert_eq!(two[field], inline[field], "{field} of {} {how:?}", file.name);
            }
            if how[0] == "--rules" {
                assert_eq!(two["firewall"]["top"], inline["firewall"]["top"], "{} {how:?}", file.name);
                accepted += number(&inline["firewall"]["accepted"], "packets");
                denied += number(&inline["firewall"]["denied"], "packets");
            }
        }
    }
    assert!(accepted > 100_000 && denied > 100_000, "{accepted} {denied}");
}

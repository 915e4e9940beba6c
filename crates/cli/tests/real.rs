//! Real captures, with figures that other tools counted. Needs `FLOWLOOM_DATA`.

use std::path::Path;

use crate::support::{Folder, number, real_captures, replay};

/// Captures on which Flowloom and the tool that counted keys differ, for reasons that the packet
/// crate's test explains.
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

/// A capture whose records state so many bytes on the wire that no frame can have, which sums leave
/// out: of one record of 48 bytes 4,093,509,072, of 158 others up to a megabyte each.
const IMPOSSIBLE: (&str, u64) = ("dev_mix_ether.pcap.zst", 4_131_018_256);

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
        let impossible = if file.name == IMPOSSIBLE.0 { IMPOSSIBLE.1 } else { 0 };
        let mut pairs = vec![
            ("packets", file.packets),
            ("bytes_on_wire", file.bytes_on_wire - impossible),
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

/// TCP and UDP flows where `tshark -q -z conv,tcp -z conv,udp` (4.0, without reassembly) counts as
/// many conversations.
const CONVERSATIONS: [(&str, &[&str], [usize; 2]); 11] = [
    ("many_flows_echo_gz.pcap.gz", &[], [500, 0]),
    ("pcapng_multi_if_mixed_linktype.pcapng", &[], [2, 13]),
    ("rawip.pcap", &[], [12, 8]),
    ("realistic_1kxun.pcap", &[], [98, 99]),
    ("realistic_alexa_pcapng.pcapng", &[], [121, 33]),
    ("sll.pcap", &[], [21, 0]),
    ("teredo.pcap", &[], [0, 3]),
    ("ipfrag.pcap", &["--defrag"], [2, 2]),
    ("6in4.pcap", &["--decap"], [5, 2]),
    ("erspan.pcap", &["--decap"], [5, 9]),
    ("gre_in_gre.pcap", &["--decap"], [0, 2]),
];

/// Captures for which the count differs: file, options, Flowloom's flows, and the nature of its
/// conversations.
const OTHERWISE: [(&str, &[&str], [usize; 2], &str); 7] = [
    (
        "gnutella_p2p_truncated4.pcap",
        &[],
        [151, 613],
        "137 and 613: seven refused openings are tried thrice",
    ),
    ("ipfrag.pcap", &[], [2, 3], "2 and 2: fragments behind the first are no conversation"),
    ("vlan_collisions_same_5tuple.pcap", &[], [3, 0], "1 and 0: of three VLANs"),
    ("vxlan.pcap", &[], [0, 9], "2 and 11: those of both layers"),
    ("vxlan.pcap", &["--decap"], [2, 2], "2 and 11: those of both layers"),
    ("gtp1_frag.pcap", &["--decap", "--defrag"], [1, 0], "1 and 1: those of both layers"),
    ("bigtcp_jumbo_vxlan_v4_totlen0.pcap", &[], [0, 1], "none: it reads no UDP above 64 KiB"),
];

#[test]
fn flows_equal_wiresharks_conversations_except_as_documented() {
    let Some(data) = real_captures() else { return };
    let folder = Folder::new();
    let counted =
        CONVERSATIONS.into_iter().map(|(name, options, flows)| (name, options, flows, "the same"));
    for (name, options, expected, theirs) in counted.chain(OTHERWISE) {
        let (path, flows) = (data.join("nasty").join(name), folder.path("flows.csv"));
        replay(&[&[path.to_str().unwrap(), "--flows", &flows], options].concat());
        let records = std::fs::read_to_string(flows).unwrap();
        let count = |protocol: &str| {
            records.lines().filter(|line| line.split(',').nth(4) == Some(protocol)).count()
        };
        assert_eq!([count("6"), count("17")], expected, "{name} {options:?}; tshark: {theirs}");
    }
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
                for field in
                    ["digest", "packets", "decoded", "flows", "not_tracked", "dropped", "bytes_on_wire"]
                {
                    assert_eq!(document[field], inline[field], "{field} of {} {decap:?}", file.name);
                }
            }
        }
    }
}

#[test]
fn verdicts_and_records_of_real_captures_match_the_oracle_in_every_layout() {
    let Some(data) = real_captures() else { return };
    let folder = Folder::new();
    let rules = folder.write(
        "rules.toml",
        b"default_action = 'none'\n[[rule]]\nprotocol = 'udp'\ndestination_ports = 53\naction = 'deny'\n\
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

#[test]
fn real_fragments_are_joined_alike_in_every_layout() {
    let Some(folder) = real_captures() else { return };
    // Datagrams as tshark joins them; the development mix contains attacks, which the traffic
    // crate's test explains.
    for (name, joined) in [
        ("nasty/erspan.pcap", 16),
        ("nasty/gtp1_frag.pcap", 36),
        ("nasty/ipfrag.pcap", 190),
        ("dev_mix_ether.pcap.zst", 507),
    ] {
        let path = folder.join(name).to_str().unwrap().to_owned();
        let packets = number(&replay(&[&path]), "packets");
        for decap in [&[][..], &["--decap"]] {
            let run = |layout: &[&str]| {
                replay(&[&[path.as_str(), "--defrag", "--verify"], decap, layout].concat())
            };
            let inline = run(&[]);
            assert_eq!(inline["verify"]["agrees"], true, "{name} {decap:?}");
            assert_eq!(number(&inline, "packets"), packets, "{name} {decap:?}");
            let dropped = inline["not_tracked"].as_object().unwrap();
            let fragments: u64 = dropped
                .iter()
                .filter(|(reason, _)| *reason == "reassembled" || reason.starts_with("fragment_"))
                .map(|(_, packets)| packets.as_u64().unwrap())
                .sum();
            assert!(fragments > joined, "{name} {decap:?}: {dropped:?}");
            for workers in ["1", "2", "4"] {
                let document = run(&["--workers", workers]);
                for field in
                    ["digest", "packets", "decoded", "flows", "not_tracked", "dropped", "bytes_on_wire"]
                {
                    assert_eq!(document[field], inline[field], "{field} of {name} {decap:?}");
                }
            }
        }
    }
}

#[test]
fn labels_of_real_flows_match_a_full_rescan_at_every_packet() {
    let Some(folder) = real_captures() else { return };
    let path = folder.join("dev_mix_ether.pcap.zst");
    let path = path.to_str().unwrap();
    let once = replay(&[path, "--app", "l7", "--workers", "2"]);
    let again = replay(&[path, "--app", "l7", "--l7-rescan"]);
    assert_eq!(once["digest"], again["digest"]);
    assert_eq!(once["l7"]["protocols"], again["l7"]["protocols"]);
    assert_eq!(number(&once["l7"], "directions_lost") + number(&again["l7"], "directions_lost"), 0);
    assert!(number(&again["l7"], "scanned_bytes") > number(&once["l7"], "scanned_bytes"));
    assert!(number(&once["l7"], "matched") > 7500, "{once:#}");
}

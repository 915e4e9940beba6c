//! What reports name is selected by these names.

use serde_json::Value;

use crate::bytes::{pcap_header, pcap_record};
use crate::support::{Folder, flowloom, number};

/// A packet of IPv4 over Ethernet in these VLANs.
fn frame(vlans: &[u16], protocol: u8, [from, to]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(20 + payload.len()).unwrap().to_be_bytes();
    let tags = vlans.iter().flat_map(|vlan| [&[0x81, 0][..], &vlan.to_be_bytes()].concat());
    let mut frame = [[2; 12].to_vec(), tags.collect(), vec![8, 0]].concat();
    frame.extend([69, 0, length[0], length[1], 0, 0, 0, 0, 64, protocol, 0, 0]);
    frame.extend([10, 0, 0, from, 10, 0, 0, to]);
    frame.extend(payload);
    frame
}

/// A packet of IPv6 over Ethernet.
fn frame_v6(next: u8, [from, to]: [u8; 2], payload: &[u8]) -> Vec<u8> {
    let address = |last: u8| [&[0x20, 1, 0xd, 0xb8][..], &[0; 11], &[last]].concat();
    let length = u16::try_from(payload.len()).unwrap().to_be_bytes();
    let head = [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0], &length, &[next, 64]].concat();
    [head, address(from), address(to), payload.to_vec()].concat()
}

/// A capture with flows that differ in one part of their keys each.
fn capture(folder: &Folder) -> String {
    let ports = |from: u16, to: u16| [from.to_be_bytes(), to.to_be_bytes(), [0, 8], [0, 0]].concat();
    let echo = |kind: u8, id: u8| vec![kind, 0, 0, 0, 0, id, 0, 1];
    let mut frames = Vec::new();
    let mut add = |count: usize, frame: Vec<u8>| frames.extend(std::iter::repeat_n(frame, count));
    add(1, frame(&[], 17, [1, 2], &ports(4000, 53)));
    add(2, frame(&[5], 17, [1, 2], &ports(4000, 53)));
    add(3, frame(&[5, 7], 17, [1, 2], &ports(4000, 53)));
    add(1, frame(&[5, 7, 9], 17, [1, 2], &ports(4000, 53)));
    add(4, frame(&[], 17, [2, 1], &ports(4000, 53)));
    add(1, frame(&[], 1, [1, 2], &echo(8, 7)));
    add(1, frame(&[], 1, [2, 1], &echo(0, 7)));
    add(3, frame(&[], 1, [1, 2], &echo(8, 9)));
    add(5, frame(&[], 1, [2, 1], &echo(8, 7)));
    add(6, frame(&[9], 1, [1, 2], &echo(8, 7)));
    add(2, frame(&[], 1, [1, 2], &[3, 1, 0, 0, 0, 0, 0, 0]));
    add(4, frame(&[], 1, [1, 2], &[3, 3, 0, 0, 0, 0, 0, 0]));
    add(3, frame(&[], 2, [1, 224], &[0x16, 0, 0, 0, 0, 0, 0, 0]));
    add(2, frame(&[], 47, [1, 2], &[0, 0, 8, 0, 69]));
    add(1, frame(&[], 50, [1, 2], &[0, 0, 1, 0, 0, 0, 0, 1]));
    add(2, frame(&[], 50, [1, 2], &[0, 0, 2, 0, 0, 0, 0, 1]));
    add(1, frame(&[], 253, [1, 2], &[0; 8]));
    add(2, frame(&[], 132, [1, 2], &[ports(9, 10), vec![0; 8]].concat()));
    add(2, frame_v6(58, [1, 2], &[128, 0, 0, 0, 0, 7, 0, 1]));
    add(3, frame_v6(17, [1, 2], &ports(4000, 53)));
    let length = |frame: &[u8]| u32::try_from(frame.len()).unwrap();
    let records = frames.iter().map(|frame| pcap_record(1, length(frame), length(frame), frame));
    folder.write("kinds.pcap", &[pcap_header(1), records.flatten().collect()].concat())
}

fn rows(arguments: &[&str]) -> Vec<(String, u64)> {
    let document = flowloom([&["--format", "json"], arguments].concat()).ends(0).json();
    let (rows, name, packets) = match &document["rows"] {
        Value::Null => (&document["top_flows"], "flow", "packets"),
        rows => (rows, "name", "packets"),
    };
    let name_and_packets = |row: &Value| (row[name].as_str().unwrap().to_owned(), number(row, packets));
    rows.as_array().unwrap().iter().map(name_and_packets).collect()
}

#[test]
fn each_row_of_top_and_inspect_selects_its_packets() {
    let folder = Folder::new();
    let out = folder.path("out.pcapng");
    let kinds = capture(&folder);
    let generated = folder.trace("t.pcap", &["--flows", "20", "--packets", "200"]);
    for trace in [&kinds, &generated] {
        let mut seen = 0;
        for by in ["conversation", "pair", "host", "port", "protocol", "hierarchy", "inspect"] {
            for options in [&[][..], &["--esp-spi"], &["--ignore-vlan"]] {
                let all: &[&str] = match by {
                    "inspect" => &["inspect", trace, "--top", "1000"],
                    by => &["top", trace, "-n", "0", "--by", by],
                };
                let rows = rows(&[all, options].concat());
                let mut names: Vec<_> = rows.iter().map(|(name, _)| name).collect();
                names.sort();
                names.dedup();
                assert_eq!(names.len(), rows.len(), "{by}: two rows have one name: {rows:#?}");
                for (name, packets) in rows {
                    drop(std::fs::remove_file(&out));
                    let select = ["extract", trace, "-o", &out, "--flow", &name, "--format", "json"];
                    let document = flowloom([&select, options].concat()).ends(0).json();
                    assert_eq!(number(&document, "packets"), packets, "{by} {options:?}: {name}");
                    seen += 1;
                }
            }
        }
        assert!(seen > 100, "{seen}");
    }
}

#[test]
fn a_source_and_a_row_of_compare_select_one_direction() {
    let folder = Folder::new();
    let kinds = capture(&folder);
    let out = folder.path("out.pcapng");
    let packets = |flow: &str| {
        let select = ["extract", &kinds, "-o", &out, "--flow", flow, "--format", "json"];
        number(&flowloom(select).ends(0).json(), "packets")
    };
    for (name, expected) in rows(&["top", &kinds, "--by", "source", "-n", "0"]) {
        assert_eq!(packets(&format!("source {name}")), expected, "{name}");
    }
    assert_eq!(packets("10.0.0.2 → 10.0.0.1 port 53 udp"), 4);
    assert_eq!(packets("10.0.0.1 → 10.0.0.2 port 53 udp"), 7);
    assert_eq!(packets("10.0.0.1 → 10.0.0.2 protocol 253"), 1);
    flowloom(["extract", &kinds, "-o", &out, "--flow", "dns"]).ends(2).says(&["l7_protocol == dns"]);
    let index = folder.path("kinds.idx");
    let select = ["extract", &kinds, "-o", &out, "--index", &index, "--format", "json", "--flow"];
    let indexed = |flow: &'static str| flowloom([&select[..], &[flow]].concat());
    let document = indexed("udp 10.0.0.1:4000 > 10.0.0.2:53 vlan 5/7").ends(0).json();
    assert_eq!(number(&document, "packets"), 3);
    indexed("10.0.0.1").ends(2).says(&["name one flow by protocol and both ends"]);
}

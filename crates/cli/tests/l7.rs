//! `replay --app l7`.

use serde_json::Value;

use crate::support::{Folder, flowloom, number, real_captures, replay};

/// Source host and port, destination host and port, protocol, payload.
type Packet = (u8, u16, u8, u16, u8, &'static [u8]);

/// A capture of raw IPv4 packets; TCP segments have sequence number 1.
fn capture(packets: &[Packet]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xA1B2_C3D4_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 101, 0, 0, 0]);
    for &(source, source_port, destination, destination_port, protocol, payload) in packets {
        let mut transport = Vec::new();
        transport.extend(source_port.to_be_bytes());
        transport.extend(destination_port.to_be_bytes());
        if protocol == 17 {
            transport.extend(u16::try_from(8 + payload.len()).unwrap().to_be_bytes());
            transport.extend([0, 0]);
        } else {
            transport.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0xFF, 0xFF, 0, 0, 0, 0]);
        }
        transport.extend(payload);
        let mut packet = vec![0x45, 0];
        packet.extend(u16::try_from(20 + transport.len()).unwrap().to_be_bytes());
        packet.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, 0, 0, source, 10, 0, 0, destination]);
        packet.extend(transport);
        file.extend([0; 8]);
        let length = u32::try_from(packet.len()).unwrap();
        file.extend(length.to_le_bytes());
        file.extend(length.to_le_bytes());
        file.extend(packet);
    }
    file
}

fn protocols(document: &Value) -> Vec<(&str, u64)> {
    let list = document["l7"]["protocols"].as_array().unwrap();
    list.iter().map(|row| (row["name"].as_str().unwrap(), number(row, "flows"))).collect()
}

#[test]
fn flows_are_named_alike_in_every_mode_and_by_patterns_of_ones_own() {
    let folder = Folder::new();
    let file = capture(&[
        (1, 4000, 9, 80, 6, b"GET / HTTP/1.1\r\n"),
        (2, 4001, 9, 80, 6, b"GET / HTTP/1.1\r\n"),
        (1, 4002, 9, 5060, 17, b"SIP/2.0 200 OK\r\n"),
        (1, 4003, 9, 9999, 17, b"mine, says the payload"),
    ]);
    let path = &folder.write("talk.pcap", &file);
    let plain = replay(&[path, "--app", "l7", "--verify"]);
    assert_eq!(protocols(&plain), [("http", 2), ("sip", 1)]);
    assert_eq!(number(&plain["l7"], "no_match_yet"), 1);
    assert_eq!(plain["verify"]["agrees"], true);
    for more in [
        &["--workers", "2"][..],
        &["--workers", "3", "--scheduler", "lfb"],
        &["--workers", "3", "--scheduler", "rr", "--order", "external", "--l7-rescan"],
        &["--l7-rescan"],
        &["--seed", "7", "--l7-packets", "1000"],
    ] {
        let other = replay(&[&[path.as_str(), "--app", "l7"], more].concat());
        assert_eq!(other["digest"], plain["digest"], "{more:?}");
    }
    let patterns = folder.write("mine.pat", b"mine\n^mine.+payload\n");
    let own = replay(&[path, "--app", "l7", "--patterns", &patterns]);
    assert_eq!(protocols(&own), [("mine", 1)]);
}

#[test]
fn top_sums_records_up_by_the_protocol_that_they_are_named() {
    let folder = Folder::new();
    let file = capture(&[
        (1, 4000, 9, 80, 6, b"GET / HTTP/1.1\r\n"),
        (2, 4001, 9, 80, 6, b"GET /longer HTTP/1.1\r\n"),
        (1, 4002, 9, 5060, 17, b"SIP/2.0 200 OK\r\n"),
        (1, 4003, 9, 9999, 17, b"mine, says the payload"),
    ]);
    let path = &folder.write("talk.pcap", &file);
    let top = |more: &[&str]| {
        let line = [&["top", path, "--format", "json", "--by", "l7", "--sort", "flows"][..], more].concat();
        let document = flowloom(line).ends(0).json();
        let rows = document["rows"].as_array().unwrap();
        rows.iter()
            .map(|row| (row["name"].as_str().unwrap().to_owned(), number(row, "flows")))
            .collect::<Vec<_>>()
    };
    let named = |rows: &[(&str, u64)]| {
        rows.iter().map(|(name, flows)| ((*name).to_owned(), *flows)).collect::<Vec<_>>()
    };
    let all = named(&[("http", 2), ("sip", 1), ("unidentified", 1)]);
    for more in [&[][..], &["--workers", "2"]] {
        let mut rows = top(more);
        rows.sort();
        assert_eq!(rows, all, "{more:?}");
    }
    assert_eq!(top(&["--where", "http_host != x and destination_port == 5060"]), named(&[("sip", 1)]));
    assert_eq!(top(&["--where", "l7_protocol == http and http_method == GET"]), named(&[("http", 2)]));
    let patterns = folder.write("mine.pat", b"mine\n^mine.+payload\n");
    assert_eq!(top(&["--patterns", &patterns])[0].0, "unidentified");
    flowloom(["top", path, "--patterns", &patterns]).ends(2).says(&["add --by l7"]);
}

#[test]
fn labels_are_selected_and_written_in_every_format_with_a_place_for_them() {
    let folder = Folder::new();
    let file = capture(&[
        (1, 4001, 9, 80, 6, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        (2, 4002, 9, 5060, 17, b"INVITE sip:b@example.org SIP/2.0\r\n\r\n"),
    ]);
    let path = &folder.write("talk.pcap", &file);
    for name in ["f.csv", "f.jsonl", "f.arrows", "f.parquet", "f.ipfix"] {
        let flows = &folder.path(name);
        let line = ["replay", path, "--format", "json", "--app", "l7", "--flows", flows];
        let run = flowloom([&line[..], &["--where", "l7_protocol == sip and total_packets == 1"]].concat());
        let document = run.ends(0).json();
        let records = &document["records"];
        assert_eq!((number(records, "written"), number(records, "passed_over")), (1, 1), "{name}");
        let bytes = std::fs::read(flows).unwrap();
        let has = |text: &str| bytes.windows(text.len()).any(|found| found == text.as_bytes());
        assert!(has("sip") && !has("http"), "{name}");
        assert_eq!(has("l7_confidence"), name != "f.ipfix", "{name}");
    }
    let ipfix = flowloom(["replay", path, "--app", "l7", "--flows", &folder.path("f.ipfix")]);
    ipfix.ends(0).says(&["IPFIX cannot hold l7_state, l7_confidence"]);
    let columns = ["--columns", "l7_protocol,source_port"];
    let flows = &folder.path("some.csv");
    flowloom([&["replay", path, "--app", "l7", "--flows", flows, "--sort"][..], &columns].concat()).ends(0);
    let text = std::fs::read_to_string(flows).unwrap();
    assert_eq!(text, "l7_protocol,source_port\nhttp,4001\nsip,4002\n");
}

#[test]
fn the_report_and_the_flow_file_tell_how_sure_a_label_is() {
    let folder = Folder::new();
    let file = capture(&[
        (1, 4000, 9, 80, 6, b"GET / HTTP/1.1\r\n\r\n"),
        (9, 80, 1, 4000, 6, b"HTTP/1.1 200 OK\r\n\r\n"),
        (1, 4001, 9, 80, 6, b"GET / HTTP/1.1\r\n\r\n"),
        (1, 4002, 9, 8080, 6, b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0"),
        (9, 8080, 1, 4002, 6, b"what?\r\n"),
    ]);
    let path = &folder.write("talk.pcap", &file);
    let flows = folder.path("flows.csv");
    let document = replay(&[path, "--app", "l7", "--flows", &flows]);
    let list = document["l7"]["protocols"].as_array().unwrap();
    let counts = |name: &str| {
        let row = list.iter().find(|row| row["name"] == name).unwrap();
        ["guess", "one_side", "both_sides"].map(|kind| number(row, kind))
    };
    assert_eq!((counts("http"), counts("rdp")), ([0, 1, 1], [1, 0, 0]));
    let text = std::fs::read_to_string(&flows).unwrap();
    for words in ["http,matched,both sides,2,", "http,matched,one side,1,", "rdp,matched,guess,2,"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let outcome = flowloom(["replay", path, "--app", "l7"]);
    outcome.ends(0).shows(&["both sides 1, one side 1", "guess 1"]);
}

#[test]
fn patterns_that_cannot_be_read_are_told_with_their_line() {
    let folder = Folder::new();
    let path = folder.write("bad.patterns", b"[a]\nregexp = b\n");
    let outcome = flowloom(["replay", "none.pcap", "--app", "l7", "--patterns", &path]);
    assert!(outcome.ends(3).stderr.contains("bad.patterns:2:"));
    let missing = folder.path("missing.patterns");
    let outcome = flowloom(["replay", "none.pcap", "--app", "l7", "--patterns", &missing]);
    outcome.ends(3).says(&["cannot read", "missing.patterns: No such file"]);
    for option in [&["--l7-rescan"][..], &["--l7-packets", "8"], &["--patterns", "a.pat"]] {
        let outcome = flowloom([&["replay", "none.pcap"], option].concat());
        assert!(outcome.ends(2).stderr.contains("add --app l7"), "{option:?}");
    }
}

#[test]
fn real_flows_are_named_alike_when_all_is_searched_again_at_every_packet() {
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

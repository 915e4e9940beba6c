//! `replay --fields` and `--where`: additional columns of records, and records that match.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{Folder, flowloom, number, replay};

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
fn groups_of_fields_stand_behind_the_columns() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &crate::bytes::pcap(20));
    let flows = folder.path("flows.csv");
    replay(&[&trace, "--flows", &flows, "--columns", "source,packets", "--fields", "handshake,splt"]);
    let text = std::fs::read_to_string(&flows).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next().unwrap(),
        "source,packets,first_sizes,handshake_rtt,handshake_answer,handshake_ack"
    );
    assert!(lines.all(|line| line.ends_with(",,,") && line.split(',').count() == 6), "{text}");
    let parquet = folder.path("flows.parquet");
    replay(&[&trace, "--flows", &parquet, "--fields", "sizes,splt"]);
    let bytes = std::fs::read(&parquet).unwrap();
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    assert!(bytes.ends_with(b"PAR1") && has(b"size_mean") && has(b"first_sizes") && !has(b"handshake_rtt"));
}

#[test]
fn columns_of_other_meters_have_their_names_and_values() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &crate::bytes::pcap(20));
    for (dialect, first, last, count) in
        [("cicflowmeter", "src_ip", "subflow_bwd_byts", 82), ("nfstream", "id", "content_type", 86)]
    {
        let flows = folder.path(&format!("{dialect}.csv"));
        replay(&[&trace, "--flows", &flows, "--columns", dialect]);
        let text = std::fs::read_to_string(&flows).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert_eq!((rows[0][0], rows[0][count - 1], rows[0].len()), (first, last, count));
        assert!(rows.len() > 1 && rows.iter().all(|row| row.len() == count), "{text}");
        let packets: u64 = ["tot_fwd_pkts", "tot_bwd_pkts", "bidirectional_packets"]
            .iter()
            .filter_map(|name| rows[0].iter().position(|column| column == name))
            .map(|at| rows[1..].iter().map(|row| row[at].parse::<u64>().unwrap()).sum::<u64>())
            .sum();
        assert_eq!(packets, 20, "{text}");
        // Reals are numbers in JSON, and doubles in formats with types.
        let lines_of = folder.path(&format!("{dialect}.jsonl"));
        replay(&[&trace, "--flows", &lines_of, "--columns", dialect]);
        let mean = if dialect == "nfstream" { "bidirectional_mean_ps" } else { "pkt_len_mean" };
        assert!(lines(&lines_of).iter().all(|record| record[mean].is_number()));
        for ending in ["parquet", "arrows"] {
            replay(&[
                &trace,
                "--flows",
                &folder.path(&format!("{dialect}.{ending}")),
                "--columns",
                dialect,
            ]);
        }
    }
    let null = ["replay", &trace, "--app", "tcp-tracker", "--flows", "-", "--flows-format", "csv"];
    flowloom([&null[..], &["--columns", "nfstream"]].concat())
        .ends(2)
        .says(&["--columns nfstream is for --app accounting"]);
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

#[test]
fn what_does_not_go_together_is_refused() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let flows = folder.path("f.csv");
    let refused = |arguments: &[&str], parts: &[&str]| {
        flowloom([&["replay", &trace][..], arguments].concat()).ends(2).says(parts);
    };
    let ipfix = folder.path("f.ipfix");
    refused(
        &["--flows", &ipfix, "--fields", "tcp"],
        &["--fields tcp: IPFIX cannot hold these fields", "sizes, http"],
    );
    let [eve, nf9] = ["f.eve", "f.nf9"].map(|name| folder.path(name));
    refused(
        &["--flows", &eve, "--fields", "tls,sizes"],
        &["--fields sizes: EVE cannot hold these fields", "tls, dns"],
    );
    refused(&["--flows", &nf9, "--fields", "all"], &["NetFlow v9 cannot hold", "none of them"]);
    refused(&["--flows", &ipfix, "--columns", "source"], &["--columns", "IPFIX", "fixed", ".jsonl"]);
    refused(&["--flows", &flows, "--fields", "jitter"], &["unknown group of fields 'jitter'", "handshake"]);
    refused(&["--flows", &flows, "--where", "byts > 1"], &["column 1", "unknown name 'byts'"]);
    refused(&["--flows", &flows, "--where", "bytes > 1 and"], &["column 14", "expected a comparison"]);
    refused(
        &["--flows", &flows, "--app", "tcp-tracker", "--where", "ip_byte > 1"],
        &["--where: column 1: unknown name 'ip_byte'", "tcp_state", "duration"],
    );
    refused(
        &["--flows", &flows, "--app", "null", "--fields", "tcp"],
        &["--fields is for --app accounting"],
    );
    refused(&["--flows", &flows, "--where", "verdict == deny"], &["no rules are given", "--rules"]);
    let part = folder.path("p.part");
    refused(
        &["--flows", &flows, "--fields", "tcp", "--save-part", &part],
        &["--save-part keeps no additional fields"],
    );
    let arrow = folder.path("f.arrows");
    refused(
        &["--flows", &arrow, "--fragments", "--columns", "source,tls_sni"],
        &["--fragments keeps no additional fields"],
    );
    refused(&["--where", "bytes > 1"], &["--flows"]);
}

/// Returns a capture of an HTTP request and its answer, over TCP with a handshake.
fn http_capture() -> Vec<u8> {
    let talk: [(bool, u8, u32, u32, &[u8]); 6] = [
        (true, 2, 99, 0, b""),
        (false, 18, 499, 100, b""),
        (true, 16, 100, 500, b""),
        (true, 24, 100, 500, b"GET /a HTTP/1.1\r\nHost: exam"),
        (true, 24, 127, 500, b"ple.org\r\nUser-Agent: t\x1b[1m\r\n\r\n"),
        (false, 24, 500, 157, b"HTTP/1.1 404 Not Found\r\n\r\n"),
    ];
    let mut file = [0xA1B2_C3D4_u32, 0x0004_0002, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
    for (at, (is_forward, flags, sequence, acknowledgement, payload)) in (0..).zip(talk) {
        let mut packet = vec![0_u8; 12];
        let ip_bytes = u16::try_from(40 + payload.len()).unwrap().to_be_bytes();
        packet.extend([8, 0, 0x45, 0, ip_bytes[0], ip_bytes[1], 0, 0, 0, 0, 64, 6, 0, 0]);
        let ends = [[10, 0, 0, 9], [10, 0, 0, 1]];
        let ports = [[156, 64], [0, 80]];
        let (from, to) = if is_forward { (0, 1) } else { (1, 0) };
        packet.extend([ends[from], ends[to]].concat());
        packet.extend([ports[from], ports[to]].concat());
        packet.extend([sequence, acknowledgement].map(u32::to_be_bytes).concat());
        packet.extend([0x50, flags, 255, 255, 0, 0, 0, 0]);
        packet.extend(payload);
        let bytes = u32::try_from(packet.len()).unwrap();
        file.extend([1_700_000_000, at, bytes, bytes].map(u32::to_le_bytes).concat());
        file.extend(packet);
    }
    file
}

#[test]
fn fields_of_application_protocols_are_in_every_format_that_has_a_place() {
    let folder = Folder::new();
    let trace = folder.write("http.pcap", &http_capture());
    let flows = folder.path("f.jsonl");
    for layout in [&[][..], &["--workers", "2"], &["--workers", "2", "--scheduler", "hrw"]] {
        replay(
            &[&[&*trace, "--flows", &flows, "--fields", "http,tls,rtt", "--verify"][..], layout].concat(),
        );
        let record = &lines(&flows)[0];
        assert_eq!(record["http_host"], "example.org");
        assert_eq!(record["http_user_agent"], "t\\x1b[1m");
        assert_eq!((&record["http_status"], &record["tls_sni"]), (&404.into(), &Value::Null));
        assert_eq!((&record["rtt_min"], &record["reverse_rtt_min"]), (&2000.into(), &Value::Null));
    }
    let eve = folder.path("f.eve");
    replay(&[&trace, "--flows", &eve, "--fields", "all"]);
    assert_eq!(lines(&eve)[0]["http"]["hostname"], "example.org");
    let zeek = folder.path("conn.log");
    replay(&[&trace, "--flows", &zeek, "--fields", "http"]);
    let log = std::fs::read_to_string(&zeek).unwrap();
    assert_eq!(log.lines().last().unwrap().split('\t').nth(7), Some("http"));
    let ipfix = folder.path("f.ipfix");
    replay(&[&trace, "--flows", &ipfix, "--fields", "http"]);
    let bytes = std::fs::read(&ipfix).unwrap();
    assert!(bytes.windows(12).any(|window| window == b"\x0Bexample.org"), "text after its length");
    let selected = replay(&[&trace, "--flows", &flows, "--where", "http_host == example.org"]);
    assert_eq!(number(&selected["records"], "written"), 1);
    assert!(lines(&flows)[0].get("http_host").is_none(), "the field was read and not asked for");
}

#[test]
fn fields_that_a_format_has_no_place_for_are_named() {
    let folder = Folder::new();
    let trace = folder.write("http.pcap", &http_capture());
    let ipfix = folder.path("f.ipfix");
    let ran = flowloom(["replay", &trace, "--flows", &ipfix, "--fields", "sizes"]).ends(0);
    ran.says(&["IPFIX cannot hold size_mean", "omitted"]);
}

#[test]
fn a_conn_log_has_history_and_payload_bytes() {
    let folder = Folder::new();
    // Ethernet frames of TCP: whether from the server, flags, numbers, payload bytes.
    let frame = |from_server: bool, flags: u8, sequence: u32, acknowledged: u32, bytes: usize| {
        let (from, to) =
            if from_server { ([10, 0, 0, 2], [10, 0, 0, 9]) } else { ([10, 0, 0, 9], [10, 0, 0, 2]) };
        let ports = if from_server { [80_u16, 40_000] } else { [40_000, 80] };
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(u16::try_from(40 + bytes).unwrap().to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0]);
        frame.extend([from, to].concat());
        frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
        frame.extend([sequence, acknowledged].iter().flat_map(|number| number.to_be_bytes()));
        frame.extend([0x50, flags, 32, 0, 0, 0, 0, 0]);
        frame.resize(frame.len() + bytes, b'x');
        frame
    };
    let frames = [
        frame(false, 2, 100, 0, 0),
        frame(true, 18, 500, 101, 0),
        frame(false, 16, 101, 501, 0),
        frame(false, 24, 101, 501, 10),
        frame(true, 16, 501, 111, 0),
        frame(true, 24, 501, 111, 20),
        frame(false, 17, 111, 521, 0),
        frame(true, 17, 521, 112, 0),
    ];
    let mut capture = crate::bytes::pcap_header(1);
    for (second, frame) in (1000..).zip(&frames) {
        let length = u32::try_from(frame.len()).unwrap();
        capture.extend(crate::bytes::pcap_record(second, length, length, frame));
    }
    let (trace, log) = (folder.write("t.pcap", &capture), folder.path("conn.log"));
    for layout in [&[][..], &["--workers", "2"], &["--fields", "http"]] {
        replay(&[&[&trace, "--flows", &log], layout].concat());
        let text = std::fs::read_to_string(&log).unwrap();
        let names = text.lines().find_map(|line| line.strip_prefix("#fields\t")).unwrap();
        let row = text.lines().find(|line| !line.starts_with('#')).unwrap();
        let row: BTreeMap<&str, &str> = names.split('\t').zip(row.split('\t')).collect();
        assert_eq!((row["orig_bytes"], row["resp_bytes"], row["missed_bytes"]), ("10", "20", "0"));
        assert_eq!((row["conn_state"], row["history"]), ("SF", "ShADadFf"));
        assert_eq!((row["id.orig_p"], row["service"]), ("40000", "-"));
        assert!(row["community_id"].starts_with("1:"));
    }
    // A saved part keeps no fields; its log has what accounting knows.
    let part = folder.path("t.part");
    flowloom(["replay", &trace, "--app", "accounting", "--save-part", &part]).ends(0);
    flowloom(["merge", &part, "--flows", &log]).ends(0);
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.lines().last().unwrap().contains("\tSF\t"), "{text}");
}

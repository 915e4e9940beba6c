//! Selections, sizes and sorting as an analyst writes them.

use serde_json::Value;

use crate::bytes::{pcap, pcap_header, pcap_record};
use crate::support::{Folder, flowloom, number};

/// A segment of TCP with one byte of data, or without.
fn segment([from, to]: [u8; 2], flags: u8, sequence: u32, data: &[u8]) -> Vec<u8> {
    let length = 40 + u8::try_from(data.len()).unwrap();
    let mut frame = [[2; 12].to_vec(), vec![8, 0, 69, 0, 0, length, 0, 0, 0, 0, 64, 6, 0, 0]].concat();
    frame.extend([10, 0, 0, from, 10, 0, 0, to]);
    let ports = if from < to { [156, 64, 1, 187] } else { [1, 187, 156, 64] };
    frame.extend(ports);
    frame.extend(sequence.to_be_bytes());
    frame.extend([0, 0, 0, 1, 0x50, flags, 16, 0, 0, 0, 0, 0]);
    frame.extend(data);
    frame
}

/// Connections of which one sends again and one is reset.
fn lossy(folder: &Folder) -> String {
    let mut frames = Vec::new();
    for (hosts, again, last) in [([1, 2], 2, 16), ([3, 4], 0, 4), ([5, 6], 1, 16)] {
        let back = [hosts[1], hosts[0]];
        frames.extend([segment(hosts, 2, 0, &[]), segment(back, 18, 0, &[]), segment(hosts, 16, 1, &[])]);
        frames.push(segment(hosts, 24, 1, b"xy"));
        frames.extend(std::iter::repeat_n(segment(hosts, 24, 1, b"xy"), again));
        frames.push(segment(back, last, 1, &[]));
    }
    let length = |frame: &[u8]| u32::try_from(frame.len()).unwrap();
    let each = (1..).zip(&frames);
    let records = each.map(|(second, frame)| pcap_record(second, length(frame), length(frame), frame));
    folder.write("lossy.pcap", &[pcap_header(1), records.flatten().collect()].concat())
}

fn rows(arguments: &[&str]) -> Vec<Value> {
    let document = flowloom([&["top", "--format", "json"], arguments].concat()).ends(0).json();
    document["rows"].as_array().unwrap().clone()
}

#[test]
fn top_sorts_by_what_goes_wrong() {
    let folder = Folder::new();
    let lossy = lossy(&folder);
    let names = |by: &str, sort: &str| {
        let rows = rows(&[&lossy, "--by", by, "--sort", sort]);
        let figure = |row: &Value| row[sort].as_u64().unwrap_or(0);
        assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(figure(row))), "{rows:#?}");
        let named = |row: &Value| (row["name"].as_str().unwrap().to_owned(), figure(row));
        rows.iter().map(named).filter(|(_, figure)| *figure > 0).collect::<Vec<_>>()
    };
    let row = |name: &str, figure| (name.to_owned(), figure);
    assert_eq!(names("host", "retransmissions"), [row("10.0.0.1", 2), row("10.0.0.5", 1)]);
    let pairs = [row("10.0.0.1 > 10.0.0.2", 2), row("10.0.0.5 > 10.0.0.6", 1)];
    assert_eq!(names("pair", "retransmissions"), pairs);
    assert_eq!(names("host", "resets"), [row("10.0.0.4", 1)]);
    assert_eq!(names("pair", "resets"), [row("10.0.0.3 > 10.0.0.4", 1)]);
    // The generator of the capture answers after one second, and the ACK follows after another.
    let times = rows(&[&lossy, "--by", "pair", "--sort", "latency"]);
    assert!(times.iter().all(|row| number(row, "handshake_rtt_ns") == 2_000_000_000), "{times:#?}");
    let durations = rows(&[&lossy, "--by", "pair", "--sort", "duration"]);
    assert!(durations.is_sorted_by_key(|row| std::cmp::Reverse(number(row, "duration_ns"))));
    let shown = flowloom(["top", &lossy, "--by", "pair", "--sort", "retransmissions"]).ends(0);
    assert!(shown.text().contains("sent again"), "{}", shown.text());
    flowloom(["top", &lossy, "--sort", "retransmission"])
        .ends(2)
        .says(&["retransmissions", "handshake_rtt"]);
}

#[test]
fn a_word_that_no_value_can_have_is_refused_with_the_nearest() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(3));
    let rules = folder.write("fw.ipt", b"*filter\n:INPUT DROP [0:0]\n-A INPUT -p udp -j ACCEPT\nCOMMIT\n");
    for (expression, meant) in [
        ("l7_protocol == dnss", "did you mean dns?"),
        ("l7_protocol in (dns, htpt)", "'htpt' is not a value of l7_protocol"),
        ("l7_protocol != 'nosuch protocol'", "is not a value of l7_protocol"),
        ("end_reason == finn", "did you mean fin?"),
        ("protocol == utp", "did you mean udp?"),
        ("protocol_name == TCP", "is not a value of protocol_name: did you mean tcp?"),
        ("conn_state == s00", "did you mean S0?"),
        ("verdict == denny", "did you mean deny?"),
        ("direction == sin", "did you mean syn?"),
    ] {
        flowloom(["top", &trace, "--rules", &rules, "--where", expression]).ends(2).says(&[meant]);
    }
    for expression in ["l7_protocol == dns", "l7_protocol == '-'", "l7_protocol contains dn"] {
        flowloom(["top", &trace, "--where", expression]).ends(0);
    }
}

#[test]
fn a_column_is_found_by_what_people_call_it() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(3));
    for (name, meant) in [
        ("sni", "tls_sni or quic_sni"),
        ("http host", "http_host"),
        ("ja3", "tls_ja4 or quic_ja4"),
        ("domain", "dns_query or tls_sni or http_host"),
        ("rtt", "handshake_rtt or rtt_mean"),
        ("latency", "handshake_rtt or rtt_mean"),
        ("user-agent", "http_user_agent"),
        ("ip", "address"),
        ("Duration", "duration"),
    ] {
        let said = format!("unknown column '{name}': did you mean {meant}?");
        flowloom(["replay", &trace, "--flows", "-", "--columns", name]).ends(2).says(&[&said]);
    }
    flowloom(["top", &trace, "--where", "ip == 192.0.2.1"]).ends(2).says(&["did you mean address?"]);
}

#[test]
fn a_time_outside_of_the_capture_is_answered_with_its_span() {
    let folder = Folder::new();
    // From second 1000 on.
    let trace = folder.write("t.pcap", &pcap(5));
    let out = folder.path("out.pcap");
    let before: &[&str] = &["--to", "1970-01-01T00:00:10Z"];
    let span = "from 1970-01-01T00:16:40.000Z to 1970-01-01T00:16:44.000Z";
    for times in
        [before, &["--from", "2026-01-01"], &["--from", "2026-01-01T00:00:00Z"], &["--from", "+1h"]]
    {
        for verb in [
            &["replay", &trace][..],
            &["replay", &trace, "--workers", "2"],
            &["top", &trace],
            &["extract", &trace, "-o", &out, "--filter", "udp"],
            &["extract", &trace, "-o", &out, "--where", "packets > 0"],
        ] {
            let outcome =
                flowloom([verb, times].concat()).ends(0).says(&["no packet was selected by --", span]);
            assert_eq!(outcome.stderr.matches("selected by").count(), 1, "{}", outcome.stderr);
        }
    }
    let some = flowloom(["replay", &trace, "--from", "+1", "--filter", "tcp"]).ends(0);
    assert!(!some.stderr.contains("no packet was selected by"), "{}", some.stderr);
    flowloom(["top", &trace, "--from", "2026-01"]).ends(2).says(&["is not a time"]);
    for verb in ["replay", "inspect", "top"] {
        let shown = flowloom([verb, &trace]).ends(0);
        assert_eq!(shown.text().matches(span).count(), 1, "{}", shown.text());
    }
}

#[test]
fn sizes_and_times_are_taken_as_people_write_them() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(3));
    for options in [
        &["--memory", "256MiB"][..],
        &["--memory", "256MB"],
        &["--timeout", "1h30m"],
        &["--from", "+0.5s", "--to", "+1h"],
        &["--unpack-max", "1GiB"],
        &["--where", "total_bytes < 1MiB and duration < 1h30m"],
        &["-n", "1k"],
    ] {
        flowloom([&["top", &trace], options].concat()).ends(0);
    }
    for (options, forms) in [
        (["--memory", "1XB"], "64M, 64MiB or 64MB"),
        (["--timeout", "1h30"], "5m or 1h30m"),
        (["--groups-max", "many"], "k, M, G or T"),
        (["--from", "+soon"], "+30 or +1h30m"),
    ] {
        flowloom([&["top", &trace][..], &options].concat()).ends(2).says(&[forms]);
    }
    let flows = ["replay", &trace, "--flows", "-", "--fields"];
    let heads = |fields: &str| {
        let all = flowloom([&flows[..], &[fields]].concat()).ends(0);
        all.text().lines().next().unwrap().to_owned()
    };
    assert!(heads("all,conn").contains("conn_state") && heads("conn,all") == heads("all,conn"));
}

#[test]
fn groups_that_memory_does_not_hold_are_added_up() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let small = ["top", &trace, "--by", "conversation", "--memory", "64M", "--format", "json"];
    let document = flowloom(small).ends(0).json();
    assert!(number(&document, "groups_max") < 100_000, "{}", document["groups_max"]);
    let document = flowloom(["top", &trace, "--groups-max", "7", "--format", "json"]).ends(0).json();
    assert_eq!(number(&document, "groups_max"), 7);
}

#[test]
fn rules_of_a_selection_have_the_options_of_rules() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(4));
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n\
                -A FORWARD -i eth0 -o eth1 -p udp --sport 1000:1001 -j ACCEPT\n\
                -A FORWARD -m limit --limit 1/s -j ACCEPT\nCOMMIT\n";
    let rules = folder.write("fw.ipt", text.as_bytes());
    let place = ["--rules", &rules, "--chain", "FORWARD", "--where", "verdict == accept"];
    let known = ["--in", "eth0", "--out", "eth1", "--assume", "no-match"];
    flowloom([&["top", &trace][..], &place].concat()).ends(2).says(&["--in NAME", "--assume"]);
    let document =
        flowloom([&["top", &trace, "--format", "json"][..], &place, &known].concat()).ends(0).json();
    assert_eq!(number(&document, "records"), 2);
    let out = folder.path("out.pcap");
    let select = ["extract", &trace, "-o", &out, "--format", "json"];
    let document = flowloom([&select[..], &place, &known].concat()).ends(0).json();
    assert_eq!(number(&document, "packets"), 2);
    flowloom(["top", &trace, "--rules", &rules]).ends(2).says(&["--rules is for --where"]);
}

#[test]
fn rules_that_only_pass_packets_on_are_not_unused() {
    let folder = Folder::new();
    let trace = folder.write("t.pcap", &pcap(4));
    let text = "*filter\n:INPUT ACCEPT [0:0]\n:WEB - [0:0]\n-A INPUT -p udp -j WEB\n-A INPUT -p tcp -g WEB\n\
                -A WEB -p udp --dport 53 -j RETURN\n-A WEB -p udp --dport 80 -j DROP\nCOMMIT\n";
    let rules = folder.write("fw.ipt", text.as_bytes());
    let document =
        flowloom(["classify", &trace, "--rules", &rules, "--unused", "--format", "json"]).ends(0).json();
    let (unused, passing) = (number(&document, "unused"), number(&document, "passing"));
    assert_eq!(document["unused_listed"].as_array().unwrap().len() as u64, unused);
    assert!(unused == 1 && passing > 0, "{document:#}");
    let shown = flowloom(["classify", &trace, "--rules", &rules]).ends(0);
    assert!(shown.text().contains("only pass"), "{}", shown.text());
}

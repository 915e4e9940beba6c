//! `inspect`: the contents of a capture, in agreement with `replay`.

use crate::bytes::{enhanced, pcap, pcapng_header, udp_frame};
use crate::support::{Folder, flowloom, number, replay};

#[test]
fn counts_are_those_of_replay() {
    let folder = Folder::new();
    for (name, options) in [
        ("t.pcap", &[][..]),
        ("t.pcapng.zst", &["--snaplen", "60", "--packets", "3k"]),
        ("flood.pcap.gz", &["--syn-flood", "500", "--packets", "3k"]),
    ] {
        let trace = folder.trace(name, options);
        for decap in [&[][..], &["--decap"]] {
            for limit in [&[][..], &["--limit", "777"]] {
                let rest = [decap, limit].concat();
                let replayed = replay(&[&[trace.as_str()], &rest[..]].concat());
                let base = ["inspect", &trace, "--format", "json"];
                let inspected = flowloom([&base, &rest[..]].concat()).ends(0).silent().json();
                assert_eq!(inspected["schema"], "flowloom/inspect/1");
                assert_eq!(inspected["files"][0]["path"], trace.as_str());
                for field in [
                    "packets",
                    "bytes_on_wire",
                    "bytes_captured",
                    "decoded",
                    "flows",
                    "first_ns",
                    "last_ns",
                    "time_backwards",
                    "unsupported_links",
                ] {
                    assert_eq!(inspected[field], replayed[field], "{field} of {name} with {rest:?}");
                }
                // Every packet without a key is not tracked; no packet was lost.
                assert_eq!(inspected["not_tracked"], replayed["not_tracked"], "{name} with {rest:?}");
            }
        }
    }
}

#[test]
fn layers_add_up_to_the_packets_with_a_key() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--packets", "5k", "--v6", "50%"]);
    let document = flowloom(["inspect", &trace, "--format", "json"]).ends(0).json();
    let layers = &document["layers"];
    assert_eq!(number(layers, "ipv4") + number(layers, "ipv6"), number(&document, "decoded"));
    let transports = ["tcp", "udp", "sctp", "icmp", "other_transport"].map(|name| number(layers, name));
    assert_eq!(transports.iter().sum::<u64>(), number(&document, "decoded"));
    assert!(number(layers, "ipv6") > 500);
    assert!(number(&document, "packets_per_flow_p50") <= number(&document, "packets_per_flow_p95"));
    assert!(number(&document, "size_p50") <= number(&document, "size_p95"));
    assert_eq!(document["fit"].as_array().unwrap().len(), 2);
}

#[test]
fn a_file_is_named_with_its_format_and_digest() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(3));
    let document = flowloom(["inspect", &path, "--format", "json"]).ends(0).json();
    let file = &document["files"][0];
    assert_eq!(file["path"], path.as_str());
    assert_eq!(file["format"], "pcap, little-endian, µs timestamps");
    assert_eq!(number(file, "bytes"), pcap(3).len() as u64);
    assert_eq!(file["sha256"].as_str().unwrap().len(), 64);
    assert_eq!(file["link_types"][0], "1 (Ethernet)");
}

#[test]
fn why_lists_the_reasons_with_their_first_packets() {
    let folder = Folder::new();
    let mut file = pcapng_header(&[1, 190]);
    file.extend(enhanced(0, 1, 46, &udp_frame(7)));
    file.extend(enhanced(0, 2, 10, &udp_frame(7)[..10])); // Ends inside the Ethernet header.
    file.extend(enhanced(1, 3, 46, &udp_frame(7)));
    file.extend(enhanced(0, 4, 20, &udp_frame(7)[..20])); // Ends inside the IPv4 header.
    file.extend(enhanced(1, 5, 46, &udp_frame(7)));
    let path = folder.write("t.pcapng", &file);
    let document = flowloom(["inspect", &path, "--why", "--format", "json"]).ends(0).json();
    let why = document["why"].as_array().unwrap();
    let reason = |name: &str| why.iter().find(|why| why["reason"] == name).unwrap();
    assert_eq!(reason("truncated_link")["first_packets"], serde_json::json!([2]));
    assert_eq!(reason("unsupported")["first_packets"], serde_json::json!([3, 5]));
    assert_eq!(reason("truncated_ipv4")["packets"], 1);
    let listed: u64 = why.iter().map(|why| number(why, "packets")).sum();
    let untracked = document["not_tracked"].as_object().unwrap();
    assert_eq!(listed, untracked.values().filter_map(serde_json::Value::as_u64).sum::<u64>());

    let without = flowloom(["inspect", &path]).ends(0);
    assert!(without.text().contains("--why to list reasons"), "{}", without.text());
    let with = flowloom(["inspect", &path, "--why"]).ends(0);
    for part in ["truncated_link", "first: packet 3, 5", "link type 190 (CAN): 2 packets"] {
        assert!(with.text().contains(part), "{part} in {}", with.text());
    }
}

#[test]
fn top_lists_the_largest_flows_in_order() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let document = flowloom(["inspect", &trace, "--top", "5", "--format", "json"]).ends(0).json();
    let top = document["top_flows"].as_array().unwrap();
    assert_eq!(top.len(), 5);
    let packets: Vec<u64> = top.iter().map(|flow| number(flow, "packets")).collect();
    assert!(packets.is_sorted_by(|a, b| a >= b), "{packets:?}");
    assert_eq!(packets[0], number(&document, "packets_per_flow_max"));
    let words = flowloom(["inspect", &trace, "--top", "5"]).ends(0);
    assert!(words.text().contains(top[4]["flow"].as_str().unwrap()), "{}", words.text());
    let more = flowloom(["inspect", &trace, "--top", "100000", "--format", "json"]).ends(0).json();
    assert_eq!(more["top_flows"].as_array().unwrap().len() as u64, number(&more, "flows"));
}

#[test]
fn an_idle_timeout_splits_flows() {
    let folder = Folder::new();
    // One packet per second; the flow of port 1000 occurs again after a minute.
    let mut file = pcap(60);
    file.extend(crate::bytes::pcap_record(1060, 46, 46, &udp_frame(1000)));
    let path = folder.write("t.pcap", &file);
    let flows_by = |timeout: &str| {
        let document =
            flowloom(["inspect", &path, "--timeout", timeout, "--format", "json"]).ends(0).json();
        assert_eq!(number(&document, "flows"), 60);
        number(&document, "flows_by_timeout")
    };
    assert_eq!((flows_by("10"), flows_by("100")), (61, 60));
}

#[test]
fn the_next_command_names_what_was_asked_for() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("two captures")).unwrap();
    let one = folder.write("two captures/a.pcap", &pcap(3));
    folder.write("two captures/b.pcap", &pcap(3));
    let all = folder.path("two captures");
    let next = format!("6 packets in 3 flows. Next: flowloom replay '{all}'");
    flowloom(["inspect", "-q", &all]).ends(0).shows(&[&next]);
    let next = format!("6 packets in 3 flows. Next: flowloom replay '{one}' '{one}' --decap");
    flowloom(["inspect", "-q", "--decap", &one, &one]).ends(0).shows(&[&next]);
}

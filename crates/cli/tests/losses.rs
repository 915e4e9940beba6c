//! Losses of captures, impossible lengths, copies of packets, and VLAN tags out of the key.

use crate::bytes::{block, enhanced, gzip, pcap, pcap_header, pcap_record, pcapng_header, udp_frame};
use crate::support::{Folder, flowloom, number, replay};

const LAYOUTS: [&[&str]; 4] = [
    &["--layout", "inline"],
    &["--layout", "inline", "--no-mmap"],
    &["--layout", "sharded", "--workers", "2"],
    &["--layout", "pipeline", "--workers", "2"],
];

/// Returns a frame with this VLAN tag.
fn tagged(vlan: u16, mut frame: Vec<u8>) -> Vec<u8> {
    frame.splice(12..12, [&[0x81, 0][..], &vlan.to_be_bytes()].concat());
    frame
}

/// Returns the frame of the opposite direction.
fn answer(mut frame: Vec<u8>) -> Vec<u8> {
    let (source, destination) = (frame[26..30].to_vec(), frame[30..34].to_vec());
    frame[26..30].copy_from_slice(&destination);
    frame[30..34].copy_from_slice(&source);
    let ports = [frame[36], frame[37], frame[34], frame[35]];
    frame[34..38].copy_from_slice(&ports);
    frame
}

/// Returns a classic capture of frames, one per second.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = pcap_header(1);
    for (second, frame) in (1000..).zip(frames) {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend(pcap_record(second, length, length, frame));
    }
    file
}

#[test]
fn records_name_the_capture_of_their_first_packet() {
    let folder = Folder::new();
    let frames = |hosts: &[u8]| hosts.iter().map(|host| udp_frame((*host).into())).collect::<Vec<_>>();
    let one = folder.write("one.pcap", &capture(&frames(&[1, 2])));
    let two = folder.write("two.pcap", &capture(&frames(&[3, 1, 4])));
    let flows = folder.path("flows.jsonl");
    for layout in LAYOUTS {
        for order in [&[][..], &["--concat"]] {
            replay(&[&[&one, &two, "--by-file", "--flows", &flows][..], layout, order].concat());
            let text = std::fs::read_to_string(&flows).unwrap();
            let mut files: Vec<_> = text
                .lines()
                .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["file"].clone())
                .collect();
            files.sort_by_key(ToString::to_string);
            let expected = [&one, &one, &two, &two].map(|path| serde_json::Value::from(path.as_str()));
            assert_eq!(files, expected, "{layout:?} {order:?}");
        }
    }
    flowloom(["replay", &one, "--flows", &flows, "--fields", "file"]).ends(2).says(&["--by-file"]);
}

#[test]
fn sampled_packets_are_counted_and_say_what_they_stand_for() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let packets = number(&replay(&[&trace]), "packets");
    let mut digests = Vec::new();
    for layout in LAYOUTS {
        let document = replay(&[&[trace.as_str(), "--sample", "1/10", "--verify"], layout].concat());
        let sampling = &document["sampling"];
        assert_eq!((number(sampling, "one_of"), number(sampling, "packets")), (10, packets.div_ceil(10)));
        assert_eq!(number(&document, "packets"), packets);
        assert_eq!(number(&document["not_tracked"], "not_sampled"), packets - packets.div_ceil(10));
        digests.push(document["digest"].clone());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1);
}

#[test]
fn losses_of_interfaces_stand_in_reports_and_records() {
    let folder = Folder::new();
    let mut file = pcapng_header(&[1, 1]);
    file.extend(enhanced(0, 1, 46, &udp_frame(7)));
    for (interface, received, dropped) in [(0_u32, 1000_u64, 37_u64), (1, 5, 0)] {
        let mut body = [&interface.to_le_bytes()[..], &[0; 8]].concat();
        for (code, count) in [(4_u16, received), (5, dropped), (7, 2)] {
            body.extend([&code.to_le_bytes()[..], &[8, 0], &count.to_le_bytes()].concat());
        }
        file.extend(block(5, &body));
    }
    let (path, flows) = (folder.write("drops.pcapng", &file), folder.path("flows.ipfix"));
    for layout in LAYOUTS {
        let document = replay(&[&[&path, "--flows", &flows], layout].concat());
        let losses = &document["inputs"][0]["losses"];
        assert_eq!((&losses[0]["interface"], number(&losses[0], "received")), (&"0".into(), 1000));
        assert_eq!([0, 1].map(|at| number(&losses[at], "lost")), [39, 2]);
        assert_eq!(number(&losses[0], "dropped_by_interface"), 37);
        // The last record: the number of the interface, its name, and its losses.
        assert!(std::fs::read(&flows).unwrap().ends_with(&[0, 0, 0, 1, 1, b'1', 0, 0, 0, 0, 0, 0, 0, 2]));
    }
    for verb in ["replay", "inspect"] {
        flowloom([verb, &path]).ends(0).shows(&["Lost        39 packets by the capture on interface 0"]);
    }
    let inspected = flowloom(["inspect", &path, "--format", "json"]).ends(0).json();
    assert_eq!(number(&inspected["files"][0]["losses"][0], "dropped_by_system"), 2);
    let plain = replay(&[&folder.write("plain.pcap", &pcap(3))]);
    assert!(plain["inputs"][0].get("losses").is_none());
}

#[test]
fn impossible_lengths_are_bounded_and_told() {
    let folder = Folder::new();
    let mut long = udp_frame(1000);
    long[16..18].copy_from_slice(&1400_u16.to_be_bytes());
    let mut file = pcap_header(1);
    file.extend(pcap_record(1, 46, 46, &udp_frame(1000)));
    file.extend(pcap_record(2, 46, 46, &long));
    file.extend(pcap_record(3, 46, 4_000_000_000, &udp_frame(1000)));
    file.extend(pcap_record(4, 46, 262_144, &udp_frame(1000)));
    let path = folder.write("lengths.pcap", &file);
    let flows = folder.path("flows.csv");
    for layout in LAYOUTS {
        let document = replay(
            &[&[&path, "--flows", &flows, "--columns", "bytes,ip_bytes", "--fields", "splt"], layout]
                .concat(),
        );
        let records = std::fs::read_to_string(&flows).unwrap();
        assert_eq!(records.lines().nth(1), Some("184,128,32 32 32 32"), "{layout:?}");
        assert_eq!(document["ip_beyond_frame"]["first_packets"], serde_json::json!([2]));
        assert_eq!(document["wire_impossible"]["first_packets"], serde_json::json!([3, 4]));
        assert_eq!(number(&document, "bytes_on_wire"), 262_282, "what can be");
    }
    let beyond = "IP length beyond the frame, which bounds it: 1   first: packet 2";
    let wire = "length on the wire beyond any frame, which ends with its IP packet: 2   first: packet 3";
    for verb in ["replay", "inspect"] {
        flowloom([verb, &path]).ends(0).shows(&[beyond, wire]);
    }
    for sort in ["bytes", "ip_bytes"] {
        let top =
            flowloom(["top", &path, "--sort", sort, "--format", "json"]).ends(0).says(&[beyond, wire]);
        let row = &top.json()["rows"][0];
        assert_eq!([number(row, "bytes"), number(row, "ip_bytes")], [184, 128]);
    }
    // A copy has the possible length, with the details of its packets.
    let copy = folder.path("copy.pcapng");
    for layout in LAYOUTS {
        replay(&[&[&path, "--write", &copy, "--app", "null"], layout].concat());
        assert_eq!(number(&replay(&[&copy]), "bytes_on_wire"), 184, "{layout:?}");
    }
}

#[test]
fn a_run_over_a_cut_input_is_not_complete() {
    let folder = Folder::new();
    let whole = pcap(100);
    let packed = gzip(&whole);
    for (bytes, is_complete) in [
        (&whole[..], true),
        (&whole[..whole.len() - 9], false),
        (&packed[..], true),
        (&packed[..packed.len() * 2 / 3], false),
    ] {
        let path = folder.write("t.pcap", bytes);
        assert_eq!(replay(&[&path])["complete"], is_complete, "{} bytes", bytes.len());
    }
}

#[test]
fn copies_in_the_window_are_dropped_alike_in_every_layout() {
    let folder = Folder::new();
    // Of each packet a copy two packets later, and a late one.
    let frames: Vec<Vec<u8>> = (0..2000_u16)
        .flat_map(|at| [at, at.saturating_sub(1), at.saturating_sub(40)])
        .map(|port| udp_frame(1000 + port))
        .collect();
    let path = folder.write("copies.pcap", &capture(&frames));
    let bytes = |at: usize| &frames[at];
    // Counted by a search; frames are a second apart.
    let copies = |window: usize| {
        (0..frames.len())
            .filter(|&at| (at.saturating_sub(window - 1)..at).any(|other| bytes(other) == bytes(at)))
            .count()
    };
    for (window, expected) in [("5", copies(5)), ("200", copies(200)), ("6s", copies(7)), ("500ms", 0)] {
        let mut digests: Vec<String> = LAYOUTS
            .iter()
            .map(|layout| {
                let document = replay(&[&[&path, "--dedup", window], *layout].concat());
                let dropped = document["not_tracked"]["duplicate"].as_u64().unwrap_or(0);
                assert_eq!(dropped, expected as u64, "{window} {layout:?}");
                assert_eq!(number(&document, "packets"), 6000);
                document["digest"].to_string()
            })
            .collect();
        digests.dedup();
        assert_eq!(digests.len(), 1, "{window}");
        flowloom(["replay", "-q", &path, "--dedup", window, "--verify"]).ends(0);
        let inspected = flowloom(["inspect", &path, "--dedup", window, "--format", "json"]).ends(0).json();
        assert_eq!(number(&inspected, "duplicates"), expected as u64);
        assert_eq!(number(&inspected, "packets"), 6000 - expected as u64);
    }
    flowloom(["replay", &path, "--dedup", "1"]).ends(2).says(&["from 2 to 1000000"]);
}

#[test]
fn tags_out_of_the_key_are_told_by_direction() {
    let folder = Folder::new();
    let (ask, reply) = (udp_frame(1000), answer(udp_frame(1000)));
    let flows = folder.path("flows.csv");
    for (frames, told) in [
        (vec![ask.clone(), tagged(2005, reply.clone()), ask.clone()], "2,1,,-,2005"),
        (vec![tagged(10, ask.clone()), tagged(20, reply), tagged(11, ask)], "2,1,,\"10,11\",20"),
    ] {
        let path = folder.write("tags.pcap", &capture(&frames));
        assert!(number(&replay(&[&path, "--flows", &flows]), "flows") > 1);
        for layout in LAYOUTS {
            let options =
                ["--columns", "packets,reverse_packets,vlan", "--fields", "vlan", "--ignore-vlan"];
            let document = replay(&[&[&path, "--flows", &flows], &options[..], layout].concat());
            assert_eq!(number(&document, "flows"), 1);
            assert_eq!(std::fs::read_to_string(&flows).unwrap().lines().nth(1), Some(told), "{layout:?}");
        }
    }
}

//! Tags and tunnels: the followed ones, the others, and those that the command line adds.

use serde_json::Value;

use crate::bytes::{pcap_header, pcap_record, udp_frame};
use crate::support::{Folder, flowloom};

/// Returns a UDP frame to this port that contains another frame after a VXLAN header.
fn vxlan_frame(port: u16, inner: &[u8]) -> Vec<u8> {
    let carried = [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat();
    let length = |more: usize| u16::try_from(carried.len() + more).unwrap().to_be_bytes();
    let mut frame = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4, 8, 0, 0x45, 0];
    frame.extend(length(28));
    frame.extend([0, 0, 0, 0, 64, 17, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2, 0xC0, 0]);
    frame.extend(port.to_be_bytes());
    frame.extend(length(8));
    frame.extend([0, 0]);
    frame.extend(carried);
    frame
}

/// Returns a frame with a tag of this type before its own type.
fn tagged_frame(kind: u16, frame: &[u8]) -> Vec<u8> {
    [&frame[..12], &kind.to_be_bytes(), &[0, 5], &frame[12..]].concat()
}

#[test]
fn what_is_not_followed_has_a_name_and_can_be_added() {
    let folder = Folder::new();
    let mut file = pcap_header(1);
    let mut lldp = vec![0; 12];
    lldp.extend([0x88, 0xCC, 2, 7]);
    let frames = [
        vxlan_frame(4789, &udp_frame(7)),
        vxlan_frame(8473, &udp_frame(8)),
        tagged_frame(0x9901, &udp_frame(9)),
        lldp,
    ];
    for (second, frame) in (1..).zip(&frames) {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend(pcap_record(second, length, length, frame));
    }
    let path = folder.write("tunnels.pcap", &file);
    let inspected = |options: &[&str]| {
        flowloom([&["inspect", &path, "--format", "json"], options].concat()).ends(0).json()
    };
    let plain = inspected(&[]);
    assert_eq!(plain["tunnel_not_followed"][0]["kind"], "vxlan");
    assert_eq!(plain["tunnel_not_followed"][0]["reason"], "not_asked");
    assert_eq!(plain["tunnel_not_followed"][0]["first_packets"][0], 1);
    let unknown = |document: &Value| -> Vec<String> {
        let list = document["unknown"].as_array().unwrap();
        list.iter().map(|entry| entry["what"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(unknown(&plain), ["Ethertype 0x88cc (LLDP)", "Ethertype 0x9901"]);
    assert_eq!(plain["not_tracked"]["not_ip"], 2);
    let decapsulated = inspected(&["--decap"]);
    assert_eq!(decapsulated["encapsulations"]["vxlan"]["packets"], 1);
    assert_eq!(decapsulated["tunnel_not_followed"].as_array().map(Vec::len), Some(0));
    let added = ["--decap", "--tunnel", "vxlan=8473", "--tag-type", "0x9901"];
    let all = inspected(&added);
    assert_eq!(all["encapsulations"]["vxlan"]["packets"], 2);
    assert_eq!(unknown(&all), ["Ethertype 0x88cc (LLDP)"]);
    let flows = folder.path("flows.csv");
    flowloom([&["replay", &path, "--flows", &flows, "-q"], &added[..]].concat()).ends(0);
    let flows = std::fs::read_to_string(flows).unwrap();
    assert_eq!(flows.matches("192.0.2.1").count(), 3, "{flows}");
    flowloom(["inspect", &path, "--why"]).ends(0).shows(&[
        "Not followed",
        "vxlan: not followed, --decap was not given",
        "Ethertype 0x88cc (LLDP)",
        "first: packet 4",
    ]);
    flowloom(["inspect", &path]).ends(0).shows(&["1 packet in tunnels (--decap follows them)"]);
    flowloom(["inspect", &path, "--tunnel", "vxlan=8473"]).ends(2).says(&["--decap"]);
    flowloom(["inspect", &path, "--decap", "--tunnel", "vlxan=1"])
        .ends(2)
        .says(&["unknown tunnel 'vlxan'", "vxlan"]);
    flowloom(["replay", &path, "--tag-type", "0x0800"]).ends(2).says(&["it announces ipv4"]);
    flowloom(["inspect", &path, "--tag-type", "vlan"]).ends(2).says(&["'vlan' is not an Ethertype"]);
}

#[test]
fn replay_counts_by_name_what_it_does_not_follow_alike_in_every_layout() {
    let folder = Folder::new();
    let mut ip_in_ip = vec![2, 0, 0, 0, 0, 3, 2, 0, 0, 0, 0, 4, 8, 0, 0x45, 0, 0, 52];
    ip_in_ip.extend([0, 0, 0, 0, 64, 4, 0, 0, 198, 51, 100, 1, 198, 51, 100, 2]);
    ip_in_ip.extend(&udp_frame(9)[14..]);
    let mut lldp = vec![0; 12];
    lldp.extend([0x88, 0xCC, 2, 7]);
    let frames = [
        udp_frame(7),
        tagged_frame(0x8100, &udp_frame(7)),
        vxlan_frame(4789, &udp_frame(7)),
        vxlan_frame(4789, &lldp),
        ip_in_ip,
        lldp,
        tagged_frame(0x9901, &udp_frame(9)),
    ];
    let mut file = pcap_header(1);
    for second in 0..400 {
        let frame = &frames[second % frames.len()];
        let length = u32::try_from(frame.len()).unwrap();
        file.extend(pcap_record(u32::try_from(second).unwrap(), length, length, frame));
    }
    let path = folder.write("many.pcap", &file);
    let names = ["encapsulations", "tunnel_not_followed", "unknown", "unknown_others", "not_tracked_first"];
    let replayed = |decap: &[&str], layout: &[&str]| -> Vec<Value> {
        let arguments = [&["replay", &path, "--format", "json", "--no-pin"], decap, layout].concat();
        let document = flowloom(arguments).ends(0).json();
        names.map(|name| document[name].clone()).to_vec()
    };
    for decap in [&[][..], &["--decap"]] {
        let inline = replayed(decap, &["--layout", "inline"]);
        for layout in ["sharded", "pipeline"] {
            assert_eq!(replayed(decap, &["--layout", layout, "--workers", "3"]), inline, "{layout}");
        }
        let [followed, not_followed, unknown] = [0, 1, 2].map(|i| &inline[i]);
        assert_eq!(unknown[0]["what"], "Ethertype 0x88cc (LLDP)");
        assert_eq!(unknown[0]["first_packets"], serde_json::json!([6, 13, 20, 27]));
        assert_eq!(unknown[1]["packets"], 57);
        if decap.is_empty() {
            assert_eq!(
                (&not_followed[0]["kind"], &not_followed[0]["packets"]),
                (&"ipv4".into(), &57.into())
            );
            assert_eq!(not_followed[0]["reason"], "not_asked");
            assert_eq!(followed.as_object().map(serde_json::Map::len), Some(0), "VLAN tags are usual");
        } else {
            assert_eq!(followed["vxlan"]["packets"], 57);
            assert_eq!(not_followed[0]["reason"], "not_ip");
            assert_eq!(not_followed[0]["first_packets"][0], 4);
        }
    }
    flowloom(["replay", &path])
        .ends(0)
        .shows(&["Not tracked not_ip 114", "Tunnels     57 packets in tunnels (--decap follows them)"]);
}

#[test]
fn write_keeps_what_pcapng_files_say_or_says_what_it_leaves_behind() {
    let folder = Folder::new();
    let section = [&0x1A2B_3C4D_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xFF; 8]].concat();
    let interface = [&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 4, 0][..], b"eth0", &[0, 0, 0, 0]].concat();
    let mut packet = Vec::new();
    for word in [0_u32, 0, 1, 46, 46] {
        packet.extend(word.to_le_bytes());
    }
    packet.extend(udp_frame(7));
    packet.resize(packet.len().next_multiple_of(4), 0);
    packet.extend([1, 0, 4, 0]);
    packet.extend(b"why?");
    packet.extend([2, 0, 4, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let blocks = [(0x0A0D_0D0A, &section), (1, &interface), (6, &packet)];
    let file: Vec<u8> = blocks.iter().flat_map(|(kind, body)| crate::bytes::block(*kind, body)).collect();
    let (path, out) = (folder.write("named.pcapng", &file), folder.path("w.pcapng"));
    let names = "1 interface name, 1 comment, 1 packet with flags";
    let replay = |arguments: &[&str]| flowloom(["replay", &path, "--write", &out].iter().chain(arguments));
    replay(&[]).ends(0).silent();
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    let written = std::fs::read(&out).unwrap();
    assert!(has(&written, b"eth0") && has(&written, b"why?") && has(&written, &[2, 0, 4, 0, 1, 0, 0, 0]));
    replay(&["--layout", "pipeline", "--order", "external"]).ends(0).silent();
    assert_eq!(std::fs::read(&out).unwrap(), written);
    // Unordered packets, and a format without names.
    replay(&["--layout", "pipeline"]).ends(0).says(&["does not keep", names]);
    let classic = folder.path("w.pcap");
    flowloom(["replay", &path, "--write", &classic]).ends(0).says(&["does not keep", names]);
    assert_eq!(std::fs::read(&classic).unwrap()[..4], 0xA1B2_3C4D_u32.to_le_bytes());
    for (packed, magic) in [("w.pcap.gz", &[0x1F, 0x8B][..]), ("w.pcapng.zst", &[0x28, 0xB5, 0x2F, 0xFD])] {
        let packed = folder.path(packed);
        flowloom(["replay", &path, "--write", &packed]).ends(0);
        assert!(std::fs::read(&packed).unwrap().starts_with(magic));
        flowloom(["inspect", &packed]).ends(0).shows(&["1 packet"]);
    }
}

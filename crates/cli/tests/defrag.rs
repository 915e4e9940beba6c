//! `replay --defrag`: fragments become datagrams in every layout, and every one of them is
//! accounted for.

use crate::bytes::{pcap_header, pcap_record};
use crate::support::{Folder, number, real_captures, replay};

/// A UDP datagram of 64 bytes from a port, divided into fragments of equal length.
fn fragments(port: u16, id: u16, count: u16) -> Vec<Vec<u8>> {
    let mut datagram = Vec::new();
    for half in [port, 53, 64, 0] {
        datagram.extend(half.to_be_bytes());
    }
    datagram.resize(64, 7);
    let step = 64 / usize::from(count);
    (0..count)
        .map(|i| {
            let part = &datagram[usize::from(i) * step..][..step];
            let total = u16::try_from(20 + step).unwrap();
            let field = (i * u16::try_from(step / 8).unwrap()) | (u16::from(i + 1 < count) << 13);
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
            for half in [total, id, field] {
                frame.extend(half.to_be_bytes());
            }
            frame.extend([64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
            frame.extend(part);
            frame
        })
        .collect()
}

#[test]
fn fragments_of_a_flow_are_its_packets_again() {
    let folder = Folder::new();
    let mut file = pcap_header(1);
    let mut second = 0;
    for id in 0..200 {
        for frame in fragments(1000 + id % 10, id, 4) {
            let length = u32::try_from(frame.len()).unwrap();
            file.extend(pcap_record(second / 100, length, length, &frame));
            second += 1;
        }
    }
    // A datagram that never becomes complete.
    let lone = &fragments(999, 999, 2)[0];
    file.extend(pcap_record(second / 100, 66, 66, lone));
    let path = folder.write("t.pcap", &file);

    let apart = replay(&[&path, "--verify"]);
    assert_eq!((number(&apart, "flows"), number(&apart, "processed")), (12, 801));
    for layout in [&[][..], &["--workers", "2"], &["--no-mmap"], &["--limit", "57"]] {
        let joined = replay(&[&[path.as_str(), "--defrag", "--verify"], layout].concat());
        assert_eq!(joined["verify"]["agrees"], true, "{layout:?}");
        assert_eq!(joined["run"]["defrag"], true);
        if layout == ["--limit", "57"] {
            assert_eq!((number(&joined, "processed"), number(&joined, "packets")), (57, 228));
            continue;
        }
        assert_eq!(number(&joined, "packets"), 801);
        assert_eq!((number(&joined, "flows"), number(&joined, "processed")), (10, 200));
        assert_eq!(number(&joined["not_tracked"], "reassembled"), 600);
        assert_eq!(number(&joined["not_tracked"], "fragment_incomplete"), 1);
        assert_eq!(number(&joined["inputs"][0], "packets"), 801);
    }
}

#[test]
fn what_is_held_when_a_run_ends_at_its_limit_is_counted() {
    let folder = Folder::new();
    let mut file = pcap_header(1);
    let lone = fragments(999, 999, 2).remove(0);
    for frame in std::iter::once(lone).chain((0..200).flat_map(|id| fragments(1000, id, 1))) {
        let length = u32::try_from(frame.len()).unwrap();
        file.extend(pcap_record(1, length, length, &frame));
    }
    let path = folder.write("t.pcap", &file);
    for layout in [&[][..], &["--workers", "2"], &["--no-mmap"]] {
        for limit in [1, 5, 31, 32, 33, 150] {
            let limit_text = limit.to_string();
            let base = [path.as_str(), "--defrag", "--limit", &limit_text];
            let document = replay(&[&base[..], layout].concat());
            assert_eq!(number(&document, "processed"), limit, "{layout:?}");
            assert_eq!(number(&document["not_tracked"], "fragment_incomplete"), 1, "{limit} {layout:?}");
            assert_eq!(number(&document, "packets"), limit + 1, "{layout:?}");
        }
    }
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

/// The fragments of a UDP datagram with 72 bytes over IPv6, three of them.
fn fragments_v6(id: u8) -> Vec<Vec<u8>> {
    let mut datagram = vec![0xC0, 7, 0, 53, 0, 72, 0, 0];
    datagram.resize(72, 7);
    (0..3u8)
        .map(|i| {
            let mut frame =
                vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xDD, 0x60, 0, 0, 0, 0, 32, 44, 64];
            for host in [1, 2] {
                frame.extend([0x20, 1, 0xD, 0xB8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host]);
            }
            frame.extend([17, 0, 0, (i * 24) | u8::from(i < 2), 0, 0, 0, id]);
            frame.extend(&datagram[usize::from(i) * 24..][..24]);
            frame
        })
        .collect()
}

#[test]
fn records_count_the_fragments_on_the_wire() {
    let folder = Folder::new();
    let v4 = |id: u16| fragments(1000, id, 4);
    let mut overlap = v4(4);
    overlap.insert(1, {
        let mut other = overlap[0].clone();
        *other.last_mut().unwrap() = 99;
        other
    });
    let mut twice = v4(5);
    twice.insert(2, twice[1].clone());
    let cases = [
        ("in order", v4(1), Some(4)),
        ("out of order", v4(2).into_iter().rev().collect(), Some(4)),
        ("without the first", v4(3).split_off(1), None),
        ("with an overlap", overlap, None),
        ("with a duplicate", twice, Some(5)),
        ("IPv6", fragments_v6(6), Some(3)),
        ("IPv6, out of order", [1, 2, 0].map(|i| fragments_v6(7)[i].clone()).into(), Some(3)),
    ];
    for (name, frames, packets) in cases {
        let mut file = pcap_header(1);
        for (second, frame) in (10..).zip(&frames) {
            let length = u32::try_from(frame.len()).unwrap();
            file.extend(pcap_record(second, length, length, frame));
        }
        let (path, flows) = (folder.write("t.pcap", &file), folder.path("f.csv"));
        for layout in [&[][..], &["--workers", "2"], &["--no-mmap"]] {
            let base = [&path, "--app", "accounting", "--defrag", "--flows", &flows, "--columns"];
            let columns = "packets,bytes,ip_bytes,reverse_packets,start,end";
            let document = replay(&[&base[..], &[columns, "--verify"], layout].concat());
            assert_eq!(document["verify"]["agrees"], true, "{name}, {layout:?}");
            let text = std::fs::read_to_string(&flows).unwrap();
            let records: Vec<&str> = text.lines().skip(1).collect();
            let Some(packets) = packets else {
                assert_eq!(records, [""; 0], "{name}, {layout:?}");
                continue;
            };
            assert_eq!(frames.len() as u64, packets, "{name}");
            let bytes: usize = frames.iter().map(Vec::len).sum();
            let ip_bytes = bytes - 14 * frames.len();
            let end = 10 + packets - 1;
            let expected = format!("{packets},{bytes},{ip_bytes},0,10000000000,{end}000000000");
            assert_eq!(records, [expected], "{name}, {layout:?}");
        }
    }
}

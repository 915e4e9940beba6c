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

//! Compares real captures with fragments against etherparse's pool and tshark's counts. Needs
//! `FLOWLOOM_DATA`.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};

use etherparse::SlicedPacket;
use etherparse::defrag::IpDefragPool;
use flowloom_packet::{
    DecodeOptions, DropCounts, DropReason, Fill, LinkType, PacketBatch, PacketSource, decode,
};
use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom_traffic::defrag::{Defrag, DefragLimits};

fn folder() -> Option<PathBuf> {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real captures)");
        return None;
    };
    Some(Path::new(&data).join("pcaps"))
}

fn open(path: &Path) -> CaptureSet {
    CaptureSet::open(&[Input::Path(path.to_path_buf())], SetOptions::default()).unwrap()
}

fn for_each_packet(
    source: &mut dyn PacketSource,
    mut of: impl FnMut(LinkType, &[u8]),
) -> (u64, DropCounts) {
    let mut batch = PacketBatch::new();
    let (mut packets, mut withheld) = (0, DropCounts::default());
    loop {
        let fill = source.next_batch(&mut batch).unwrap();
        withheld.merge(&source.withheld());
        match fill {
            Fill::Packets => {}
            Fill::Starved => panic!("no block is held"),
            Fill::End => return (packets, withheld),
        }
        let block = batch.block.as_ref().unwrap();
        for raw in &batch.packets {
            of(raw.link, raw.bytes_in(block.bytes()));
            packets += 1;
        }
    }
}

/// Returns the IP payloads of the datagrams that etherparse's pool joins.
fn theirs(path: &Path) -> Vec<Vec<u8>> {
    let mut pool = IpDefragPool::<(), ()>::new();
    let mut joined = Vec::new();
    for_each_packet(&mut open(path), |link, bytes| {
        if link != LinkType::ETHERNET {
            return;
        }
        let Ok(sliced) = SlicedPacket::from_ethernet(bytes) else { return };
        if let Ok(Some(whole)) = pool.process_sliced_packet(&sliced, (), ()) {
            joined.push(whole.payload);
        }
    });
    joined.sort();
    joined
}

/// Returns the IP payloads of the datagrams that this crate joins: the packets that were not in the
/// capture.
fn ours(path: &Path, decap: bool) -> (Vec<Vec<u8>>, DropCounts) {
    let mut before = std::collections::HashMap::<Vec<u8>, u64>::new();
    let (packets, _) =
        for_each_packet(&mut open(path), |_, bytes| *before.entry(bytes.to_vec()).or_default() += 1);
    let decode_options = DecodeOptions::new().with_decap(decap);
    let mut source = Defrag::new(open(path), decode_options, DefragLimits::default());
    let mut joined = Vec::new();
    let (yielded, withheld) = for_each_packet(&mut source, |link, bytes| {
        if let Some(left) = before.get_mut(bytes).filter(|left| **left > 0) {
            *left -= 1;
            return;
        }
        let headers = decode(link, bytes, DecodeOptions::default()).unwrap();
        joined.push(bytes[headers.transport_offset as usize..].to_vec());
    });
    assert_eq!(packets, yielded + withheld.total());
    joined.sort();
    (joined, withheld)
}

/// Captures, and the number of datagrams that tshark 4.0 joins in them (frames with
/// `ip.reassembled.length`).
///
/// In `dev_mix_ether.pcap.zst`, this crate joins four fewer than tshark and three fewer than
/// etherparse's pool. Two are pings of death, which have 65,528 bytes after a header of 20, more
/// than any length field can state. One is a web request in which a third fragment rewrites the
/// path in the others; tshark joins one more with overlaps.
const JOINED: [(&str, usize, usize); 5] = [
    ("dev_mix_ether.pcap.zst", 511, 507),
    ("nasty/erspan.pcap", 16, 16),
    ("nasty/gtp1_frag.pcap", 36, 36),
    ("nasty/ipfrag.pcap", 190, 190),
    ("nasty/mpls_6in6_broken_gz.pcap.gz", 0, 0),
];

#[test]
fn the_datagrams_are_those_of_a_second_pool_and_of_tshark() {
    let Some(folder) = folder() else { return };
    for (name, tshark, expected) in JOINED {
        let path = folder.join(name);
        let theirs = theirs(&path);
        for decap in [false, true] {
            let (ours, withheld) = ours(&path, decap);
            assert_eq!(ours.len(), expected, "{name}, tshark has {tshark}");
            assert!(ours.iter().all(|datagram| theirs.binary_search(datagram).is_ok()), "{name}");
            let refused: Vec<_> =
                theirs.iter().filter(|datagram| ours.binary_search(datagram).is_err()).collect();
            assert_eq!(refused.len(), theirs.len() - ours.len(), "{name}");
            let of_death = refused.iter().filter(|datagram| datagram.len() == 65_528).count();
            let overlapping = usize::from(withheld.get(DropReason::FragmentOverlap) > 0);
            assert_eq!(refused.len(), of_death + overlapping, "{name}: {withheld:?}");
        }
    }
}

//! Datagrams that are fragmented, shuffled and attacked: complete datagrams are joined, and
//! everything else is counted.

mod fragments;

use flowloom_packet::{DecodeOptions, DropReason, Fill, LinkType, PacketBatch, PacketSource, decode};
use flowloom_traffic::defrag::{Defrag, DefragLimits};
use fragments::{Datagram, Drained, Memory, Packet, Prefix, defragmented};
use proptest::prelude::*;

const PLAIN: DecodeOptions = DecodeOptions::new();

fn run(packets: &[Packet]) -> Drained {
    defragmented(packets, LinkType::ETHERNET, 32, PLAIN, DefragLimits::default())
}

/// Gives frames times one microsecond apart.
fn timed(frames: impl IntoIterator<Item = Vec<u8>>) -> Vec<Packet> {
    (1..).zip(frames).map(|(i, bytes)| Packet::new(i * 1000, bytes)).collect()
}

fn reasons(drained: &Drained) -> Vec<(DropReason, u64)> {
    drained.withheld.nonzero().collect()
}

fn query(id: u32, payload_bytes: usize) -> Datagram {
    Datagram::udp(Prefix::Ethernet, false, 0, 1, id, payload_bytes)
}

#[test]
fn a_datagram_comes_in_place_of_its_last_fragment() {
    let cut = query(7, 3000);
    let other = query(9, 100).whole();
    let fragments = cut.cut_at(&[185, 370]);
    let frames = [&fragments[0], &other, &fragments[2], &other, &fragments[1], &other];
    let packets = timed(frames.into_iter().cloned());
    let out = run(&packets);
    assert_eq!(reasons(&out), [(DropReason::Reassembled, 2)]);
    let bytes: Vec<&[u8]> = out.packets.iter().map(|packet| packet.bytes.as_slice()).collect();
    assert_eq!(bytes, [&other[..], &other, &cut.whole(), &other]);
    let wire: usize = fragments.iter().map(Vec::len).sum();
    assert_eq!((out.packets[2].time_ns, out.packets[2].wire as usize), (5000, wire));
    assert_eq!(out.packets[1], packets[3], "whole packets are as they were");
}

#[test]
fn padding_is_not_payload_and_an_atomic_fragment_is_not_a_fragment() {
    let cut = query(7, 32);
    let mut frames = cut.cut_at(&[3]);
    frames[1].resize(60, 0xEE);
    assert_eq!(run(&timed(frames)).packets[0].bytes, cut.whole());
    let atomic = Datagram::udp(Prefix::Ethernet, true, 0, 1, 7, 40);
    let frame = atomic.fragment_of(0, false, &atomic.payload);
    assert_eq!(run(&timed([frame.clone()])).packets[0].bytes, frame);
}

#[test]
fn overlap_discards_the_datagram_and_a_duplicate_only_itself() {
    for v6 in [false, true] {
        let cut = Datagram::udp(Prefix::Ethernet, v6, 0, 1, 7, 64);
        let mut frames = cut.cut_at(&[2, 4]);
        frames.insert(1, frames[0].clone());
        let out = run(&timed(frames.clone()));
        assert_eq!(reasons(&out), [(DropReason::Reassembled, 2), (DropReason::FragmentDuplicate, 1)]);
        assert_eq!(out.packets[0].bytes, cut.whole());
        // The second half of known bytes, and other bytes in place of known ones: teardrop and
        // similar attacks.
        for hostile in
            [cut.fragment_of(8, true, &cut.payload[8..24]), cut.fragment_of(0, true, &[0xAA; 16])]
        {
            frames[1] = hostile;
            let out = run(&timed(frames.clone()));
            assert_eq!(reasons(&out), [(DropReason::FragmentOverlap, 4)], "later ones too");
            assert!(out.packets.is_empty());
        }
    }
}

#[test]
fn a_last_fragment_that_comes_again_is_a_duplicate() {
    let frames = query(7, 64).cut_at(&[2, 4]);
    let out = run(&timed([2, 2, 0, 1].map(|i| frames[i].clone())));
    assert_eq!(reasons(&out), [(DropReason::Reassembled, 2), (DropReason::FragmentDuplicate, 1)]);
}

#[test]
fn zeros_over_a_gap_are_not_a_duplicate() {
    let cut = query(7, 64);
    // The second begins in the gap before the first.
    let frames = [cut.fragment_of(32, true, &[0; 8]), cut.fragment_of(24, true, &[0; 16])];
    assert_eq!(reasons(&run(&timed(frames))), [(DropReason::FragmentOverlap, 2)]);
}

#[test]
fn a_last_fragment_without_bytes_ends_its_datagram() {
    let cut = query(7, 64);
    let out = run(&timed([cut.fragment_of(0, true, &cut.payload), cut.fragment_of(64, false, &[])]));
    assert_eq!(reasons(&out), [(DropReason::Reassembled, 1)]);
    assert_eq!(out.packets[0].bytes, cut.whole());
}

#[test]
fn the_header_is_that_of_the_first_fragment() {
    let cut = query(7, 64);
    let mut frames = cut.cut_at(&[4]);
    // The other fragment took a path with more hops.
    frames[1][14 + 8] -= 3;
    for order in [[0, 1], [1, 0]] {
        let out = run(&timed(order.map(|i| frames[i].clone())));
        assert_eq!(out.packets[0].bytes, cut.whole(), "{order:?}");
    }
}

#[test]
fn a_checksum_whose_sum_overflows_twice_is_right() {
    // From 250.0.0.1 to 250.0.1.1: the header's sum exceeds 16 bits with any number.
    let between = |mut frame: Vec<u8>| {
        (frame[26], frame[30]) = (250, 250);
        frame
    };
    let sum = |frame: &[u8]| -> u32 {
        frame[14..34].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum()
    };
    let mut blank = between(query(0, 64).whole());
    blank[24..26].fill(0);
    // With this number the lower 16 bits are all ones, and the rest overflows once more.
    let cut = query(0xFFFF - (sum(&blank) & 0xFFFF), 64);
    let whole = run(&timed(cut.cut_at(&[4]).into_iter().map(between))).packets.remove(0).bytes;
    let all = sum(&whole);
    assert!(sum(&blank) > 0xFFFF && all.is_multiple_of(0xFFFF), "{all:#x} with its checksum");
}

#[test]
fn ip_packet_that_resembles_a_frame_is_read_as_ip() {
    let mut cut = query(7, 64);
    // From 8.0.0.0/16, port 0 to port 6: read as a frame it would be whole, and TCP.
    cut.payload[..4].copy_from_slice(&[0, 0, 0, 6]);
    let packets = cut.cut_at(&[4]).into_iter().map(|frame| {
        let mut packet = frame[14..].to_vec();
        packet[12..14].copy_from_slice(&[8, 0]);
        packet
    });
    let out = defragmented(&timed(packets), LinkType::RAW, 32, PLAIN, DefragLimits::default());
    assert_eq!(reasons(&out), [(DropReason::Reassembled, 1)]);
}

#[test]
fn datagrams_one_after_the_other_are_in_blocks_of_their_own() {
    let (one, two) = (query(7, 64).cut_at(&[4]), query(8, 64).cut_at(&[4]));
    let frames = timed([&one[0], &two[0], &one[1], &two[1]].map(Clone::clone));
    let mut source =
        Defrag::new(Memory::new(frames, LinkType::ETHERNET, 32), PLAIN, DefragLimits::default());
    let (mut batch, mut numbers) = (PacketBatch::new(), Vec::new());
    while source.next_batch(&mut batch).unwrap() == Fill::Packets {
        numbers.push(batch.block_number);
    }
    assert!(numbers.len() == 2 && numbers[0] != numbers[1], "{numbers:?}");
}

#[test]
fn impossible_fragment_is_malformed() {
    let cut = query(7, 64);
    let (first, rest) = (cut.fragment(0..16), cut.fragment(16..64));
    for (hostile, why) in [
        (cut.fragment_of(0, true, &cut.payload[..9]), "no multiple of eight"),
        (cut.fragment_of(65_528, true, &[1; 16]), "beyond 65,535"),
        (cut.fragment_of(65_528, false, &[1; 16]), "beyond 65,535"),
    ] {
        // Only the fragment is dropped, before the others and among them.
        for order in [[&hostile, &rest, &first], [&rest, &hostile, &first]] {
            let out = run(&timed(order.into_iter().cloned()));
            let expected = [(DropReason::Reassembled, 1), (DropReason::FragmentMalformed, 1)];
            assert_eq!(reasons(&out), expected, "{why}");
            assert_eq!(out.packets[0].bytes, cut.whole(), "{why}");
        }
    }
    for (hostile, why) in [
        (cut.fragment_of(64, true, &[1; 8]), "beyond the end"),
        (cut.fragment_of(8, false, &cut.payload[8..16]), "ends before the end"),
    ] {
        let out = run(&timed([rest.clone(), hostile]));
        assert_eq!(reasons(&out), [(DropReason::FragmentMalformed, 2)], "{why}");
    }
    // The ping of death: every fragment is valid, and the header cannot state the length of the
    // whole.
    let death = query(7, 65_535);
    let out = run(&timed(death.cut_at(&(1..46).map(|i| i * 180).collect::<Vec<_>>())));
    assert_eq!(reasons(&out), [(DropReason::FragmentMalformed, 46)]);
    let largest = query(7, 65_515);
    let out = run(&timed(largest.cut_at(&(1..46).map(|i| i * 180).collect::<Vec<_>>())));
    assert_eq!(out.packets[0].bytes, largest.whole());
}

#[test]
fn truncated_fragment_is_not_joined() {
    let cut = query(7, 64);
    let mut frames = cut.cut_at(&[4]);
    frames[0].truncate(50);
    let out = run(&timed(frames));
    assert_eq!(reasons(&out), [(DropReason::FragmentIncomplete, 1), (DropReason::FragmentTruncated, 1)]);
}

#[test]
fn fragments_of_a_datagram_arrive_within_thirty_seconds() {
    let cut = query(7, 64);
    let frames = cut.cut_at(&[2, 4]);
    let late = |gap_ns: u64| {
        let times = [1000, 2000, 1000 + gap_ns];
        let packets: Vec<Packet> =
            times.iter().zip(&frames).map(|(&time, bytes)| Packet::new(time, bytes.clone())).collect();
        reasons(&run(&packets))
    };
    assert_eq!(late(30_000_000_000), [(DropReason::Reassembled, 2)]);
    assert_eq!(
        late(30_000_000_001),
        [(DropReason::FragmentTimeout, 2), (DropReason::FragmentIncomplete, 1)]
    );
}

#[test]
fn fragment_floods_stay_within_the_limits() {
    let limits = DefragLimits { datagrams_max: 100, bytes_max: 1 << 20, ..DefragLimits::default() };
    let flood = |offset: usize, length: usize| -> Vec<Packet> {
        timed((0..5000_u32).map(|id| {
            let mut attack = query(id, 8 + length);
            attack.host = u8::try_from(id >> 16).unwrap();
            attack.fragment_of(offset, true, &attack.payload[..length])
        }))
    };
    // First fragments, tiny ones at a huge offset (each allocates 64 KiB), and tiny ones at offset
    // 0.
    for (offset, length) in [(0, 1400), (65_000, 8), (0, 8)] {
        let out = defragmented(&flood(offset, length), LinkType::ETHERNET, 32, PLAIN, limits);
        let lost = out.withheld.get(DropReason::FragmentPoolFull);
        assert!(lost >= 4900, "{lost} lost");
        assert_eq!(lost + out.withheld.get(DropReason::FragmentIncomplete), 5000);
        assert!(out.held_max <= limits.bytes_max, "{} bytes held", out.held_max);
    }
    // A valid datagram in the middle of the attack.
    let cut = query(0xFFFF, 64);
    let [first, last] = cut.cut_at(&[4]).try_into().unwrap();
    let mut packets = flood(0, 8);
    packets.insert(4000, Packet::new(4_000_001, first));
    packets.insert(4050, Packet::new(4_050_001, last));
    let out = defragmented(&packets, LinkType::ETHERNET, 32, PLAIN, limits);
    assert_eq!(out.packets[0].bytes, cut.whole());
    // One datagram with more fragments than the limit.
    let limits = DefragLimits { fragments_max: 64, ..DefragLimits::default() };
    let many = query(7, 8000);
    let frames = many.cut_at(&(1..1000).collect::<Vec<_>>());
    let out = defragmented(&timed(frames), LinkType::ETHERNET, 32, PLAIN, limits);
    assert_eq!(reasons(&out), [(DropReason::FragmentPoolFull, 1000)]);
}

#[test]
fn tunnels_are_joined_outside_and_inside() {
    let over_vxlan = |inner: &[u8], id| {
        let mut outer = query(id, 8 + 8 + inner.len());
        outer.payload[2..4].copy_from_slice(&4789_u16.to_be_bytes());
        outer.payload[8..16].copy_from_slice(&[8, 0, 0, 0, 0, 0, 42, 0]);
        outer.payload[16..].copy_from_slice(inner);
        outer
    };
    let cut = query(7, 2000);
    let zone = |bytes: &[u8]| {
        decode(LinkType::ETHERNET, bytes, DecodeOptions::new().with_decap(true)).unwrap().key
    };
    let expected = zone(&over_vxlan(&cut.whole(), 1).whole());
    let run = |frames: Vec<Vec<u8>>, decap| {
        defragmented(
            &timed(frames),
            LinkType::ETHERNET,
            32,
            DecodeOptions::new().with_decap(decap),
            DefragLimits::default(),
        )
    };
    let outer_cut = over_vxlan(&cut.whole(), 1).cut_at(&[100, 200]);
    let inner_cut: Vec<Vec<u8>> =
        (1..).zip(cut.cut_at(&[100])).map(|(id, inner)| over_vxlan(&inner, id).whole()).collect();
    let both_cut: Vec<Vec<u8>> = (1..)
        .zip(cut.cut_at(&[100]))
        .flat_map(|(id, inner)| over_vxlan(&inner, id).cut_at(&[50]))
        .collect();
    for (frames, joined) in [(outer_cut.clone(), 2), (inner_cut.clone(), 1), (both_cut, 3)] {
        let out = run(frames, true);
        assert_eq!(reasons(&out), [(DropReason::Reassembled, joined)]);
        assert_eq!(zone(&out.packets[0].bytes), expected);
        let payload = &cut.payload;
        assert!(out.packets[0].bytes.ends_with(payload));
    }
    assert_eq!(run(outer_cut, false).packets.len(), 1, "the outer header is looked at either way");
    assert_eq!(run(inner_cut, false).packets.len(), 2, "the inner one is not joined");
}

/// A datagram, its division, and by how many positions each fragment is late.
fn cut_datagram() -> impl Strategy<Value = (Datagram, Vec<usize>, Vec<u8>)> {
    let prefix = prop_oneof![
        Just(Prefix::Ethernet),
        Just(Prefix::Vlan(5)),
        Just(Prefix::QinQ),
        Just(Prefix::Mpls),
        Just(Prefix::Pppoe)
    ];
    (
        prefix,
        any::<bool>(),
        0..3_usize,
        0..4_u8,
        16..3000_usize,
        prop::collection::vec(1..370_usize, 0..12),
        prop::collection::vec(any::<u8>(), 16),
    )
        .prop_map(|(prefix, v6, options, host, bytes, cuts, late)| {
            (Datagram::udp(prefix, v6, options * 8, host, 0, bytes), cuts, late)
        })
}

proptest! {
    #[test]
    fn shuffled_fragments_are_joined(
        datagrams in prop::collection::vec(cut_datagram(), 1..24),
        batch_packets in 1..33_usize,
    ) {
        let mut expected = Vec::new();
        let mut frames = Vec::new();
        for (id, (mut datagram, cuts, late)) in datagrams.into_iter().enumerate() {
            datagram.id = u32::try_from(id).unwrap();
            expected.push(datagram.whole());
            let pieces = datagram.cut_at(&cuts);
            // An unfragmented datagram is sent unchanged, not as one fragment.
            let pieces = if pieces.len() == 1 { vec![datagram.whole()] } else { pieces };
            for (at, piece) in pieces.into_iter().enumerate() {
                frames.push((id * 8 + at + usize::from(late[at]), piece));
            }
        }
        frames.sort_by_key(|(place, _)| *place);
        let wire: usize = frames.iter().map(|(_, frame)| frame.len()).sum();
        let packets = timed(frames.into_iter().map(|(_, frame)| frame));
        let out = defragmented(&packets, LinkType::ETHERNET, batch_packets, PLAIN, DefragLimits::default());
        prop_assert_eq!(out.withheld.total(), out.withheld.get(DropReason::Reassembled));
        prop_assert_eq!(out.packets.iter().map(|packet| packet.wire as usize).sum::<usize>(), wire);
        prop_assert!(out.packets.is_sorted_by_key(|packet| packet.time_ns));
        let mut whole: Vec<Vec<u8>> = out.packets.into_iter().map(|packet| packet.bytes).collect();
        whole.sort();
        expected.sort();
        prop_assert_eq!(whole, expected);
    }

    #[test]
    fn defragmentation_counts_any_bytes(
        frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 0..64),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 0..40),
        decap in any::<bool>(),
    ) {
        // Fragments with a few changed bytes, among noise.
        let mut all: Vec<Vec<u8>> = (0..20_u32).flat_map(|id| query(id, 200).cut_at(&[5, 9, 20])).collect();
        for (which, at, value) in flips {
            let frame = which.index(all.len());
            let at = at.index(all[frame].len());
            all[frame][at] = value;
        }
        all.extend(frames);
        let limits = DefragLimits { datagrams_max: 8, bytes_max: 256 << 10, ..DefragLimits::default() };
        let out = defragmented(&timed(all), LinkType::ETHERNET, 7, DecodeOptions::new().with_decap(decap), limits);
        prop_assert!(out.held_max <= limits.bytes_max);
    }
}

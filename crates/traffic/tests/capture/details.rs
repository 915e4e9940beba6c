//! The details of pcapng files other than packets are found again for the packets that were passed
//! on.

use flowloom_traffic::capture::{CaptureOptions, DetailReader, SetOrder};
use proptest::prelude::*;

use super::{block, interface, section, write_file};

fn option(code: u16, value: &[u8], big_endian: bool) -> Vec<u8> {
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut bytes = [&half(code)[..], &half(value.len() as u16), value].concat();
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// A packet of a file: interface, time, bytes, comment, flags.
type Packet = (u32, u64, Vec<u8>, Option<String>, Option<u32>);

fn file(name: &str, packets: &[Packet], big_endian: bool) -> Vec<u8> {
    let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = section(big_endian);
    for number in 0..3 {
        let name = format!("{name}{number}");
        let options = [option(2, name.as_bytes(), big_endian), option(9, &[9], big_endian)].concat();
        file.extend(interface(1, &options, big_endian));
    }
    for (interface, time, bytes, comment, flags) in packets {
        let mut body = [
            word(*interface),
            word((time >> 32) as u32),
            word(*time as u32),
            word(bytes.len() as u32),
            word(99),
        ]
        .concat();
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        if let Some(comment) = comment {
            body.extend(option(1, comment.as_bytes(), big_endian));
        }
        if let Some(flags) = flags {
            body.extend(option(2, &word(*flags), big_endian));
        }
        file.extend(block(6, &body, big_endian));
    }
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    let names = [&half(1)[..], &half(6), &[10, 0, 0, 1, b'a', 0], &[0; 2], &[0; 4]].concat();
    file.extend(block(4, &names, big_endian));
    file.extend(block(5, &[0; 12], big_endian));
    file
}

/// The options of a packet as a little-endian file has them.
fn expected((.., comment, flags): &Packet) -> Vec<u8> {
    let comment = comment.iter().flat_map(|comment| option(1, comment.as_bytes(), false));
    let flags = flags.iter().flat_map(|flags| option(2, &flags.to_le_bytes(), false));
    comment.chain(flags).collect()
}

fn packets() -> impl Strategy<Value = Vec<Packet>> {
    let packet = (
        0..3_u32,
        0..3_u64,
        prop::collection::vec(0..3_u8, 0..4),
        prop::option::weighted(0.3, "[a-z]{0,9}"),
        prop::option::weighted(0.3, any::<u32>()),
    );
    prop::collection::vec(packet, 0..40).prop_map(|mut packets| {
        let mut time = 0;
        for packet in &mut packets {
            time += packet.1;
            packet.1 = time;
        }
        packets
    })
}

proptest! {
    #[test]
    fn delivered_packets_have_their_details(
        files in prop::collection::vec((packets(), any::<bool>()), 1..4),
        by_time in any::<bool>(),
        left_out in prop::collection::vec(any::<bool>(), 120),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        let mut all: Vec<(usize, &Packet)> = Vec::new();
        for (number, (packets, big_endian)) in files.iter().enumerate() {
            let name = format!("{number}-");
            let bytes = file(&name, packets, *big_endian);
            paths.push(write_file(directory.path(), &format!("{number}.pcapng"), &bytes));
            all.extend(packets.iter().map(|packet| (number, packet)));
        }
        let order = if by_time { SetOrder::ByTime } else { SetOrder::Concat };
        if by_time {
            all.sort_by_key(|(number, packet)| (packet.1, *number));
        }
        let mut reader = DetailReader::open(&paths, CaptureOptions::default(), order).unwrap().unwrap();
        reader.begin().unwrap();
        // A run passes on packets whose times never go back.
        let mut latest = 0;
        let times: Vec<u64> = all
            .iter()
            .map(|(_, packet)| {
                latest = latest.max(packet.1);
                latest
            })
            .collect();
        for (at, (number, packet)) in all.iter().enumerate() {
            // Equal packets are passed on alike.
            let is_alike = |other: &usize| times[*other] == times[at] && all[*other].1.2 == packet.2;
            if left_out[at] && (0..all.len()).filter(is_alike).count() == 1 {
                continue;
            }
            let found = reader.find(times[at], 99, &packet.2).unwrap().expect("the packet is there");
            prop_assert_eq!(found.options, &expected(packet)[..]);
            let index = found.interface.expect("it is declared");
            let name = format!("{number}-{}", packet.0);
            prop_assert_eq!(&reader.interfaces()[index].options, &option(2, name.as_bytes(), false));
        }
        reader.finish(&|| false).unwrap();
        let names = option(1, &[10, 0, 0, 1, b'a', 0], false);
        let blocks = reader.take_blocks();
        prop_assert_eq!(blocks.len(), files.len());
        prop_assert!(blocks.iter().all(|block| block.kind == 4 && block.body == [&names[..], &[0; 4]].concat()));
        let (left, not_found) = reader.left_behind();
        prop_assert_eq!((left.other_blocks, left.packet_options, not_found), (files.len() as u64, 0, 0));
    }

    #[test]
    fn damaged_files_have_details_up_to_the_damage(
        packets in packets(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        big_endian in any::<bool>(),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let mut bytes = file("eth", &packets, big_endian);
        for (place, value) in changes {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        let path = write_file(directory.path(), "a.pcapng", &bytes);
        let Ok(Some(mut reader)) =
            DetailReader::open(&[path], CaptureOptions::default(), SetOrder::Concat) else { return Ok(()) };
        for packet in &packets {
            if reader.find(packet.1, 99, &packet.2).is_err() {
                break;
            }
        }
        let _ = reader.finish(&|| false);
    }
}

#[test]
fn classic_captures_and_pipes_have_no_details() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "a.pcap", &super::pcap(3));
    for order in [SetOrder::ByTime, SetOrder::Concat] {
        let open =
            |path: &std::path::Path| DetailReader::open(&[path.into()], CaptureOptions::default(), order);
        assert!(open(&path).unwrap().is_none());
        assert!(open(&directory.path().join("none")).unwrap().is_none());
    }
}

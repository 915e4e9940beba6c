//! What captures say about their own losses, in every way of reading them.

use flowloom_traffic::capture::{CaptureSet, Input, InterfaceLosses, SetOptions};

use super::parts::check_bytes;
use super::*;

fn option(code: u16, value: &[u8], big_endian: bool) -> Vec<u8> {
    let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
    [&half(code)[..], &half(value.len() as u16), value].concat()
}

fn counter(code: u16, count: u64, big_endian: bool) -> Vec<u8> {
    option(code, &if big_endian { count.to_be_bytes() } else { count.to_le_bytes() }, big_endian)
}

fn statistics(interface: u32, options: &[Vec<u8>], big_endian: bool) -> Vec<u8> {
    let interface = if big_endian { interface.to_be_bytes() } else { interface.to_le_bytes() };
    block(5, &[&interface[..], &[0; 8], &options.concat()].concat(), big_endian)
}

/// Returns an enhanced packet with options, of this interface.
fn packet(interface: u32, options: &[u8], big_endian: bool) -> Vec<u8> {
    let mut body = [interface, 0, 7, 60, 60]
        .map(|word: u32| if big_endian { word.to_be_bytes() } else { word.to_le_bytes() })
        .concat();
    body.extend([9; 60]);
    body.extend(options);
    block(6, &body, big_endian)
}

/// Two sections of two interfaces, of which the first has a name.
fn capture(big_endian: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for round in 1..=2_u64 {
        bytes.extend(section(big_endian));
        bytes.extend(interface(1, &option(2, b"eth0", big_endian), big_endian));
        bytes.extend(interface(1, &[], big_endian));
        for i in 0..1000_u64 {
            let options = if i % 75 == 30 { counter(4, round, big_endian) } else { Vec::new() };
            bytes.extend(packet((i % 2) as u32, &options, big_endian));
            if i % 100 == 0 {
                let counters = [
                    counter(4, i, big_endian),
                    counter(5, i / 100 * round, big_endian),
                    counter(7, i / 50, big_endian),
                ];
                bytes.extend(statistics(0, &counters[..2 + (i % 200 / 100) as usize], big_endian));
            }
        }
    }
    bytes
}

fn losses_of(bytes: &[u8]) -> Vec<InterfaceLosses> {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "capture", bytes);
    let mut set = CaptureSet::open(&[Input::Path(path)], SetOptions::default()).unwrap();
    let mut batch = PacketBatch::new();
    while flowloom_packet::PacketSource::next_batch(&mut set, &mut batch).unwrap() == Fill::Packets {}
    set.files().remove(0).losses
}

#[test]
fn losses_are_those_of_the_blocks_in_every_way_of_reading() {
    for big_endian in [false, true] {
        let bytes = capture(big_endian);
        // Other parts are equal to one reader's summary, the losses included.
        check_bytes(&bytes);
        let [named, other] = losses_of(&bytes)[..] else { panic!() };
        assert_eq!((named.name.as_str(), named.number), (Some("eth0"), 0));
        assert_eq!((named.received, named.dropped_by_interface), (Some(1800), Some(9 + 18)));
        assert_eq!((named.dropped_by_system, named.dropped_before_packets), (Some(36), Some(7 * 3)));
        assert_eq!((named.lost(), other.number, other.lost()), (63, 1, 6 * 3));
        assert_eq!((other.name.as_str(), other.received, other.dropped_by_interface), (None, None, None));
    }
}

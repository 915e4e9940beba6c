//! Random captures in parts: blocks and records of all kinds, whole and damaged.

use flowloom_traffic::capture::Input;
use proptest::prelude::*;

use crate::parts::{check, check_bytes, joining_image};
use crate::{block, enhanced, interface, pcap_header, pcap_record, section, write_file};

/// The contents of a payload.
#[derive(Clone, Copy, Debug)]
enum Payload {
    Zeros(u16),
    Counting(u16),
    /// The image of a classic record, which the end of the packet may truncate.
    Record(u16),
    /// The image of a record whose chain continues after the packet.
    Joining,
    /// The image of blocks.
    Blocks,
}

impl Payload {
    fn bytes(self, big_endian: bool) -> Vec<u8> {
        match self {
            Self::Zeros(bytes) => vec![0; usize::from(bytes % 700)],
            Self::Counting(bytes) => (0..bytes % 700).map(|byte| byte as u8).collect(),
            Self::Record(bytes) => {
                let record = pcap_record(1000, 0, &vec![3; usize::from(bytes % 50)], 60, big_endian);
                record.repeat(usize::from(bytes % 7))
            }
            Self::Joining => joining_image(300),
            Self::Blocks => [section(big_endian), interface(1, &[], big_endian)]
                .concat()
                .into_iter()
                .chain(enhanced(0, 5, &[1; 20], 20, 20, big_endian).repeat(4))
                .collect(),
        }
    }
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        1 => any::<u16>().prop_map(Payload::Zeros),
        4 => any::<u16>().prop_map(Payload::Counting),
        1 => any::<u16>().prop_map(Payload::Record),
        1 => Just(Payload::Joining),
        1 => Just(Payload::Blocks),
    ]
}

/// The contents of a file of blocks.
#[derive(Clone, Copy, Debug)]
enum Piece {
    Section(bool),
    Interface(u16, u8),
    Enhanced(u8, Payload),
    Obsolete(u8, Payload),
    Simple(Payload),
    Lying(u8),
    Unknown(u32, Payload),
}

fn piece() -> impl Strategy<Value = Piece> {
    let kinds = prop::sample::select(vec![4_u32, 5, 10, 0xBAD, 0x4000_0BAD, 0xA1B2_C3D4, 0x8000_0001]);
    prop_oneof![
        1 => any::<bool>().prop_map(Piece::Section),
        2 => (prop::sample::select(vec![1_u16, 101, 147, 190]), 3_u8..10).prop_map(|(link, clock)| Piece::Interface(link, clock)),
        40 => (0_u8..4, payload()).prop_map(|(interface, payload)| Piece::Enhanced(interface % 3, payload)),
        3 => (0_u8..3, payload()).prop_map(|(interface, payload)| Piece::Obsolete(interface, payload)),
        6 => payload().prop_map(Piece::Simple),
        1 => (0_u8..3).prop_map(Piece::Lying),
        3 => (kinds, payload()).prop_map(|(kind, payload)| Piece::Unknown(kind, payload)),
    ]
}

fn of_pieces(pieces: &[Piece]) -> Vec<u8> {
    let mut file = [section(false), interface(1, &[], false)].concat();
    let mut big_endian = false;
    for (units, piece) in (1_u64..).zip(pieces) {
        match *piece {
            Piece::Section(order) => {
                big_endian = order;
                file.extend(section(big_endian));
            }
            Piece::Interface(link, clock) => {
                let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
                let resolution = [&half(9)[..], &half(1), &[clock, 0, 0, 0]].concat();
                file.extend(interface(link, &resolution, big_endian));
            }
            Piece::Enhanced(interface, payload) => {
                let bytes = payload.bytes(big_endian);
                let length = bytes.len() as u32;
                file.extend(enhanced(u32::from(interface), units, &bytes, length, length, big_endian));
            }
            Piece::Obsolete(interface, payload) => {
                let bytes = payload.bytes(big_endian);
                let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
                let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
                let length = word(bytes.len() as u32);
                let head =
                    [&half(u16::from(interface))[..], &half(0), &word(0), &word(units as u32)].concat();
                file.extend(block(2, &[&head[..], &length, &length, &bytes].concat(), big_endian));
            }
            Piece::Simple(payload) => {
                let bytes = payload.bytes(big_endian);
                let length = bytes.len() as u32;
                let length = if big_endian { length.to_be_bytes() } else { length.to_le_bytes() };
                file.extend(block(3, &[&length[..], &bytes].concat(), big_endian));
            }
            Piece::Lying(interface) => {
                file.extend(enhanced(u32::from(interface), units, &[9; 32], 1000, 1000, big_endian));
            }
            Piece::Unknown(kind, payload) => {
                file.extend(block(kind, &payload.bytes(big_endian), big_endian));
            }
        }
    }
    file
}

fn of_records(variant: usize, payloads: &[Payload]) -> Vec<u8> {
    let (magic, big_endian) =
        [(0xA1B2_C3D4, false), (0xA1B2_C3D4, true), (0xA1B2_3C4D, false), (0xA1B2_3C4D, true)][variant % 4];
    let mut file = pcap_header(magic, 1, big_endian);
    for (i, payload) in (0_u32..).zip(payloads) {
        let bytes = payload.bytes(big_endian);
        file.extend(pcap_record(1_000_000 + i, i, &bytes, bytes.len() as u32, big_endian));
    }
    file
}

/// The last change to a file.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Cut(prop::sample::Index),
    Change(Vec<(prop::sample::Index, u8)>),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        2 => Just(Damage::None),
        1 => any::<prop::sample::Index>().prop_map(Damage::Cut),
        1 => prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4).prop_map(Damage::Change),
    ]
}

impl Damage {
    fn apply(&self, mut file: Vec<u8>) -> Vec<u8> {
        match self {
            Self::None => {}
            Self::Cut(place) => file.truncate(place.index(file.len() + 1)),
            Self::Change(changes) => {
                for (place, value) in changes {
                    let place = place.index(file.len());
                    file[place] = *value;
                }
            }
        }
        file
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 60 } else { 600 }))]

    #[test]
    fn classic_captures_read_the_same_in_parts(
        variant in 0_usize..4,
        payloads in prop::collection::vec(payload(), 0..120),
        damage in damage(),
    ) {
        check_bytes(&damage.apply(of_records(variant, &payloads)));
    }

    #[test]
    fn blocks_read_the_same_in_parts(
        pieces in prop::collection::vec(piece(), 0..120),
        damage in damage(),
    ) {
        check_bytes(&damage.apply(of_pieces(&pieces)));
    }

    #[test]
    fn several_files_read_the_same_in_parts(
        files in prop::collection::vec(
            (any::<bool>(), prop::collection::vec(piece(), 0..30), prop::collection::vec(payload(), 0..30), damage()),
            1..8,
        ),
    ) {
        let directory = tempfile::tempdir().unwrap();
        let inputs: Vec<Input> = (0..).zip(&files).map(|(i, (is_classic, pieces, payloads, damage))| {
            let file = if *is_classic { of_records(i, payloads) } else { of_pieces(pieces) };
            Input::Path(write_file(directory.path(), &i.to_string(), &damage.apply(file)))
        }).collect();
        check(&inputs);
    }
}

//! Records of parts of a connection compose to the record of the whole, wherever it is cut.

use flowloom_engine::{Composed, FlowState};
use proptest::prelude::*;

use super::connection::{ACK, FIN, RST, SYN};
use super::segments::{Sent, records};
use super::{Accounted, Accounting};
use crate::save_state::SaveState;

/// Segments whose numbers are often equal, so that decisions based on them have both results.
fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![
        6 => Just(ACK), 2 => Just(SYN), 2 => Just(SYN | ACK), 2 => Just(FIN | ACK), 1 => Just(RST),
        1 => Just(RST | ACK), 1 => 0..0x200_u16,
    ];
    let number = || {
        prop_oneof![
            8 => (0..6_u32).prop_map(|n| n * 100),
            2 => (0..3_u32).prop_map(|n| n * 100 + 1),
            1 => (0..3_u32).prop_map(|n| n << 30),
            1 => any::<u32>(),
        ]
    };
    let window = prop_oneof![Just(0_u16), Just(50), Just(1000), Just(u16::MAX)];
    let scale = prop_oneof![2 => Just(None), 1 => (0..16_u8).prop_map(Some)];
    let gap = prop_oneof![3 => Just(0_u64), 2 => 0..4_u64, 1 => 9..13_u64];
    let gap = (gap, prop_oneof![9 => Just(None), 1 => (0..9_u64).prop_map(Some)]);
    (any::<bool>(), flags, (number(), number()), window, 0..3_u16, scale, gap).prop_map(
        |(is_back, flags, (sequence, acknowledgement), window, hundreds, scale, (gap, stamp))| Sent {
            is_back,
            flags,
            sequence,
            acknowledgement,
            window,
            payload_bytes: hundreds * 100,
            content: &[],
            scale,
            offset_words: None,
            time_ns: gap,
            stamped_ns: stamp.map(|seconds| seconds * 1_000_000_000),
        },
    )
}

pub(super) fn sequence() -> impl Strategy<Value = Vec<Sent>> {
    prop::collection::vec(sent(), 1..14).prop_map(|mut packets| {
        let mut now = 0;
        for packet in &mut packets {
            now += packet.time_ns;
            packet.time_ns = now * 1_000_000_000;
        }
        packets
    })
}

/// Returns the values of a record, and its first state of the next record.
fn shown(record: &Accounted) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut values = Vec::new();
    record.values(&mut values);
    (values, record.closed(), record.split_reason(), record.carried())
}

/// Returns the composed records of both sides of a cut, and the result of composing.
fn composed(
    app: &mut Accounting,
    mut first: Vec<Accounted>,
    mut second: Vec<Accounted>,
) -> (Vec<Accounted>, Composed) {
    let mut last = first.pop().unwrap();
    let answer = app.compose(&mut last, &mut second[0]);
    first.push(last);
    first.extend(second.into_iter().skip(usize::from(answer == Composed::Joined)));
    (first, answer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2048))]
    #[test]
    fn parts_compose_to_the_whole_or_need_the_packets(
        packets in sequence(),
        active in prop::option::of(1..9_u64),
    ) {
        let mut app = Accounting::new(active.map(|seconds| seconds * 1_000_000_000));
        let whole: Vec<_> = records(active, &packets).iter().map(shown).collect();
        for cut in 1..packets.len() {
            let (first, second) = packets.split_at(cut);
            let (parts, answer) = composed(&mut app, records(active, first), records(active, second));
            if answer != Composed::NeedsPackets {
                let parts: Vec<_> = parts.iter().map(shown).collect();
                prop_assert_eq!(&parts, &whole, "cut at {}", cut);
            }
        }
    }

    #[test]
    fn composing_is_associative(packets in sequence()) {
        let mut app = Accounting::new(None);
        let whole: Vec<_> = records(None, &packets).iter().map(shown).collect();
        for cut in 1..packets.len() {
            for other in cut + 1..packets.len() {
                let part = |range| records(None, &packets[range]);
                let (tail, answer) = composed(&mut app, part(cut..other), part(other..packets.len()));
                if answer == Composed::NeedsPackets {
                    continue;
                }
                let (parts, answer) = composed(&mut app, part(0..cut), tail);
                if answer != Composed::NeedsPackets {
                    let parts: Vec<_> = parts.iter().map(shown).collect();
                    prop_assert_eq!(&parts, &whole, "cut at {} and {}", cut, other);
                }
            }
        }
    }

    #[test]
    fn a_record_is_loaded_as_it_was_saved(packets in sequence(), active in prop::option::of(1..9_u64)) {
        for record in records(active, &packets) {
            let mut bytes = Vec::new();
            record.save(&mut bytes);
            prop_assert_eq!(bytes.len(), Accounted::BYTES);
            prop_assert_eq!(Accounted::load(&bytes), Some(record));
        }
    }

    #[test]
    fn any_bytes_decode_to_a_record_or_are_refused(bytes in prop::collection::vec(any::<u8>(), Accounted::BYTES)) {
        if let Some(record) = Accounted::load(&bytes) {
            let mut again = Vec::new();
            record.save(&mut again);
            prop_assert_eq!(again, bytes);
        }
    }
}

#[test]
fn usual_connections_compose_without_their_packets() {
    use super::segments::{back, there};
    let talk = [
        there(SYN, 99, 0).with_scale(7),
        back(SYN | ACK, 499, 100).with_scale(7),
        there(ACK, 100, 500),
        back(ACK, 500, 100),
        there(ACK, 100, 500),
        back(FIN | ACK, 500, 100),
        there(FIN | ACK, 100, 501),
        back(ACK, 501, 101),
        there(RST, 101, 0),
    ];
    for cut in 1..talk.len() {
        let (first, second) = talk.split_at(cut);
        let (_, answer) = composed(&mut Accounting::new(None), records(None, first), records(None, second));
        assert_eq!(answer, Composed::Joined, "cut at {cut}");
    }
}

#[test]
fn reset_after_the_cut_is_judged_by_earlier_packets() {
    use super::segments::{back, there};
    let talk = [there(SYN, 99, 0), back(SYN | ACK, 499, 100), there(ACK, 100, 500), back(ACK, 500, 100)];
    for (sequence, is_closed) in [(100, true), (5_000_000, false)] {
        let (records, answer) = composed(
            &mut Accounting::new(None),
            records(None, &talk),
            records(None, &[there(RST, sequence, 0), back(ACK, 500, 100)]),
        );
        assert_eq!(answer, Composed::Joined);
        assert_eq!(records[0].closed().is_some(), is_closed, "{sequence}");
    }
}

#[test]
fn reset_after_segments_of_one_side_is_judged_by_earlier_packets() {
    use super::segments::{back, there};
    let talk = [there(SYN, 99, 0), back(SYN | ACK, 499, 100), there(ACK, 100, 500), back(ACK, 500, 100)];
    // Taken alone, both are near the numbers that their side has sent; the other window is 8,192.
    for (sequence, is_closed) in [(300, true), (900_000, false)] {
        let later = [there(ACK, 100, 500), there(ACK, 100, 500), there(RST, sequence, 0)];
        for segments_before in 0..later.len() {
            let whole = [&talk[..], &later].concat();
            let (first, second) = whole.split_at(talk.len() + segments_before);
            let (parts, answer) =
                composed(&mut Accounting::new(None), records(None, first), records(None, second));
            assert_eq!(answer, Composed::Joined);
            assert_eq!(parts[0].closed().is_some(), is_closed, "{sequence}");
        }
    }
}

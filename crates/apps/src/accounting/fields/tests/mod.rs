//! Compares fields with a simple computation over a list of packets.

use flowloom_packet::{DecodeOptions, LinkType, decode};
use proptest::prelude::*;

use super::*;
use crate::accounting::connection::{ACK, FIN, RST, SYN};
use crate::accounting::laws::sequence;
use crate::accounting::segments::{Sent, back, each, there};

mod application;

fn fields<F: Fields>(packets: &[Sent]) -> F {
    let mut fields = F::default();
    each(packets, |view| fields.on_packet(view, &FieldStore::default()));
    fields
}

fn shown<F: Fields>(packets: &[Sent]) -> Vec<Value> {
    let mut values = Vec::new();
    fields::<F>(packets).values(Direction::LowToHigh, &mut values);
    values
}

#[test]
fn digest_depends_on_every_value_and_its_position() {
    let text = |text: &str| Value::from_text(Some(text.into()), false);
    let lists = [
        vec![],
        vec![Value::None],
        vec![Value::None, Value::None],
        vec![Value::Number(0), Value::None],
        vec![Value::None, Value::Number(0)],
        vec![Value::Number(u64::MAX)],
        vec![Value::Dropped],
        vec![text("ab"), text("c")],
        vec![text("a"), text("bc")],
        vec![text("a\0")],
        vec![text("a")],
        vec![text("longer than a word")],
        vec![text("longer than a work")],
    ];
    for (at, one) in lists.iter().enumerate() {
        assert!(lists[at + 1..].iter().all(|other| digest(one) != digest(other)), "{one:?}");
    }
    assert_eq!(digest(&[Value::Word("a")]), digest(&[text("a")]));
}

fn numbers(values: &[Value]) -> Vec<Option<u64>> {
    let number = |value: &Value| match value {
        Value::Number(number) => Some(*number),
        Value::None => None,
        other => panic!("{other} is no number"),
    };
    values.iter().map(number).collect()
}

/// Returns minimum, mean, maximum and deviation of integers by exact arithmetic.
fn plain(numbers: &[u64]) -> Vec<Option<u64>> {
    if numbers.is_empty() {
        return vec![None; 4];
    }
    let count = numbers.len() as u128;
    let sum: u128 = numbers.iter().map(|&number| u128::from(number)).sum();
    // count² times the variance is an integer.
    let squares: u128 = numbers.iter().map(|&number| u128::from(number).pow(2)).sum();
    let variance = (count * squares - sum * sum) / (count * count);
    let (mut deviation, mut above) = (0_u128, 1_u128 << 64);
    while above - deviation > 1 {
        let middle = deviation.midpoint(above);
        if middle * middle <= variance { deviation = middle } else { above = middle }
    }
    let least = *numbers.iter().min().unwrap();
    let largest = *numbers.iter().max().unwrap();
    vec![
        Some(least),
        Some(u64::try_from(sum / count).unwrap()),
        Some(largest),
        Some(u64::try_from(deviation).unwrap()),
    ]
}

/// Returns the times from data of one direction to its acknowledgement, segment by segment; each
/// takes a search through all packets.
fn round_trips(packets: &[Sent], is_back: bool) -> Vec<u64> {
    let is_before = |one: u32, other: u32| one != other && other.wrapping_sub(one) < 1 << 31;
    let is_read = |packet: &Sent| packet.flags & RST == 0;
    let is_data = |packet: &Sent| is_read(packet) && packet.is_back == is_back && packet.payload_bytes > 0;
    let begin = |packet: &Sent| packet.sequence.wrapping_add(u32::from(packet.flags & SYN != 0));
    let end = |packet: &Sent| begin(packet).wrapping_add(packet.payload_bytes.into());
    // The highest number before a packet, with wrapping, is found by iterating over the earlier
    // packets.
    let highest = |at: usize| {
        packets[..at].iter().filter(|packet| is_data(packet)).map(end).fold(None, |highest, end| {
            Some(highest.filter(|&highest| !is_before(highest, end)).unwrap_or(end))
        })
    };
    let is_new = |at: usize| highest(at).is_none_or(|highest| !is_before(begin(&packets[at]), highest));
    let (mut times, mut free_from) = (Vec::new(), 0);
    for at in 0..packets.len() {
        if at < free_from || !is_data(&packets[at]) || !is_new(at) {
            continue;
        }
        let timed = end(&packets[at]);
        // Until it is acknowledged, or earlier data is sent again.
        let over = (at + 1..packets.len()).find_map(|later| {
            let packet = &packets[later];
            let is_ack = packet.is_back != is_back && packet.flags & ACK != 0;
            if is_read(packet) && is_ack && !is_before(packet.acknowledgement, timed) {
                return Some((later, packet.stamp().checked_sub(packets[at].stamp())));
            }
            let is_again = is_data(packet) && !is_new(later) && is_before(begin(packet), timed);
            is_again.then_some((later, None))
        });
        let Some((later, time_ns)) = over else { break };
        times.extend(time_ns);
        free_from = later + 1;
    }
    times
}

/// Returns the packets of one direction.
fn in_direction(packets: &[Sent], is_back: bool) -> Vec<Sent> {
    packets.iter().filter(|packet| packet.is_back == is_back).copied().collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn sizes_are_those_of_a_plain_computation(packets in sequence()) {
        let sizes = |is_back| plain(&in_direction(&packets, is_back).iter().map(Sent::ip_bytes).collect::<Vec<_>>());
        prop_assert_eq!(numbers(&shown::<PacketSizes>(&packets)), [sizes(false), sizes(true)].concat());
    }

    #[test]
    fn gaps_are_those_of_a_plain_computation(packets in sequence()) {
        let gaps = |is_back| {
            let mut sorted: Vec<u64> = Vec::new();
            for packet in in_direction(&packets, is_back) {
                let at = sorted.partition_point(|&stamp| stamp <= packet.stamp());
                // Not before the two latest.
                if at + 1 >= sorted.len() {
                    sorted.insert(at, packet.stamp());
                }
            }
            plain(&sorted.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
        };
        prop_assert_eq!(numbers(&shown::<PacketGaps>(&packets)), [gaps(false), gaps(true)].concat());
    }

    #[test]
    fn first_sizes_are_those_of_the_first_packets(packets in sequence()) {
        let size = |packet: &Sent| format!("{}{}", if packet.is_back { "-" } else { "" }, packet.ip_bytes());
        let expected: Vec<String> = packets.iter().take(5).map(size).collect();
        prop_assert_eq!(shown::<FirstPackets<5>>(&packets), [Value::Text(expected.join(" ").into())]);
    }

    #[test]
    fn round_trips_of_data_match_a_search_for_each_segment(packets in sequence()) {
        let times = |is_back| plain(&round_trips(&packets, is_back));
        prop_assert_eq!(numbers(&shown::<PayloadRtt>(&packets)), [times(false), times(true)].concat());
    }
}

#[test]
fn round_trips_are_measured_on_the_handshake() {
    let at = |packet: Sent, time_ns| Sent { time_ns, ..packet };
    let talk = [
        at(there(SYN, 1, 0), 100),
        at(there(SYN, 1, 0), 1100),
        at(back(SYN | ACK, 5, 2), 1130),
        at(back(SYN | ACK, 5, 2), 1135),
        at(there(ACK, 2, 6), 1140),
        at(there(ACK, 2, 6), 9000),
    ];
    assert_eq!(numbers(&shown::<Handshake>(&talk)), [Some(40), Some(30), Some(10)]);
    assert_eq!(numbers(&shown::<Handshake>(&talk[..4])), [None, Some(30), None]);
    assert_eq!(numbers(&shown::<Handshake>(&talk[2..])), [None, None, None]);
    // The packets stand in another order in the capture.
    let late = [talk[1], talk[4], talk[2], talk[5]];
    assert_eq!(numbers(&shown::<Handshake>(&late)), [Some(40), Some(30), Some(10)]);
    let before = [talk[1], at(there(ACK, 2, 6), 1120), talk[2], talk[5]];
    assert_eq!(numbers(&shown::<Handshake>(&before)), [Some(7900), Some(30), Some(7870)]);
    let with_fin = [talk[1], talk[2], at(there(FIN | ACK, 2, 6), 1140)];
    assert_eq!(numbers(&shown::<Handshake>(&with_fin)), [Some(40), Some(30), Some(10)]);
    let refused = [at(there(SYN, 1, 0), 100), at(back(RST | ACK, 0, 2), 120)];
    assert_eq!(numbers(&shown::<Handshake>(&refused)), [None, None, None]);
}

/// Counts of the source: retransmissions, out of order, keep-alives, window probes, zero windows,
/// duplicate acknowledgements.
fn trouble(packets: &[Sent]) -> Vec<u64> {
    numbers(&shown::<TcpTrouble>(packets))[..6].iter().map(|number| number.unwrap()).collect()
}

#[test]
fn times_distinguish_retransmitted_from_reordered_segments() {
    let at = |packet: Sent, ms: u64| Sent { time_ns: ms * 1_000_000, ..packet };
    let data = |sequence: u32| Sent { payload_bytes: 100, ..there(ACK, sequence, 1) };
    let expected = |retransmissions, out_of_order| [retransmissions, out_of_order, 0, 0, 0, 0];
    assert_eq!(trouble(&[data(1), data(101), data(201)]), expected(0, 0));
    assert_eq!(trouble(&[data(1), data(101), data(1), at(data(101), 9)]), expected(1, 1));
    assert_eq!(trouble(&[data(1), data(201), data(101), data(301)]), expected(0, 1));
    assert_eq!(trouble(&[data(1), at(data(201), 5), at(data(101), 9)]), expected(1, 0), "lost before");
    assert_eq!(trouble(&[data(u32::MAX - 49), data(50), at(data(u32::MAX - 49), 3)]), expected(1, 0));
    // The round-trip time of the handshake is the limit.
    let opened = [there(SYN, 0, 0), at(back(SYN | ACK, 0, 1), 30), at(there(ACK, 1, 1), 40)];
    let opened = |ms: u64| [&opened[..], &[at(data(1), 50), at(data(201), 50), at(data(101), ms)]].concat();
    assert_eq!(trouble(&opened(89)), expected(0, 1));
    assert_eq!(trouble(&opened(90)), expected(1, 0));
    // After duplicate acknowledgements the segment was lost, whenever it comes.
    let asks = |number: u32| [back(ACK, 1, number); 3];
    let filled = [&[data(1), data(201)][..], &asks(101), &[data(101)]].concat();
    assert_eq!(trouble(&filled), expected(1, 0));
    assert_eq!(
        trouble(&[&[data(1), data(201)][..], &asks(101)[..2], &[data(101)]].concat()),
        expected(0, 1)
    );
    // Acknowledged data is sent again, even if its first copy was not captured.
    assert_eq!(trouble(&[data(1), back(ACK, 1, 401), data(301)]), expected(1, 0));
    assert_eq!(trouble(&[there(SYN, 1, 0), there(SYN, 1, 0)]), expected(1, 0));
    // Data with the SYN, and a FIN with the last acknowledgement of the handshake.
    let early = Sent { payload_bytes: 100, ..there(SYN, 0, 0) };
    assert_eq!(trouble(&[early, back(SYN | ACK, 0, 101), data(101), at(early, 9)]), expected(1, 0));
    assert_eq!(trouble(&[there(SYN, 0, 0), back(SYN | ACK, 0, 1), there(FIN | ACK, 1, 1)]), expected(0, 0));
}

#[test]
fn probes_and_duplicate_acknowledgements_are_not_retransmissions() {
    let data = |sequence: u32, bytes: u16| Sent { payload_bytes: bytes, ..there(ACK, sequence, 1) };
    let before = [data(1, 100), back(ACK, 1, 101)];
    let with = |more: &[Sent]| trouble(&[&before[..], more].concat());
    // Keep-alives, with a byte or without, and their answers.
    let alive = [data(100, 0), back(ACK, 1, 101), data(100, 1), back(ACK, 1, 101)];
    assert_eq!(with(&alive), [0, 0, 2, 0, 0, 0]);
    let turned = with(&[data(101, 0), back(ACK, 0, 101), data(101, 0), data(101, 0)]);
    assert_eq!(turned, [0, 0, 0, 0, 0, 1], "the last two answer a keep-alive");
    assert_eq!(with(&[data(100, 2)]), [0; 6], "new data behind a byte that was sent before");
    // Probes of a closed window do not advance the numbers.
    let closed = Sent { window: 0, ..back(ACK, 1, 101) };
    let probes = [closed, data(101, 1), closed, data(101, 1), closed, back(ACK, 1, 102), data(102, 9)];
    assert_eq!(with(&probes), [0, 0, 0, 2, 0, 0]);
    let closing = Sent { window: 0, ..there(ACK, 101, 1) };
    let ends = Sent { window: 0, ..there(FIN | ACK, 101, 1) };
    assert_eq!(with(&[closing, closing, ends]), [0, 0, 0, 0, 2, 0]);
}

#[test]
fn a_segment_without_an_ip_length_whose_header_is_longer_than_it_is_not_analysed() {
    let count = |words: u8| {
        let mut fields = TcpTrouble::default();
        each(&[there(SYN, 1, 0), there(SYN, 1, 0)], |view| {
            let mut bytes = view.bytes.to_vec();
            bytes[view.headers.transport_offset as usize + 12] = words << 4;
            // Offloading leaves no IP length that contradicts the header.
            bytes[4..6].fill(0);
            let headers = decode(LinkType::RAW, &bytes, DecodeOptions::default()).unwrap();
            let view = PacketView::new(&bytes, headers, view.time_ns, view.wire_bytes);
            fields.on_packet(&view, &FieldStore::default());
        });
        let mut values = Vec::new();
        fields.values(Direction::LowToHigh, &mut values);
        values == shown::<TcpTrouble>(&[])
    };
    assert!(count(15) && !count(5));
}

/// State, history, bytes of source and destination, missed bytes, and the originator.
fn conn(packets: &[Sent]) -> String {
    let values = shown::<Conn>(packets);
    values.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

#[test]
fn connections_have_the_states_and_histories_of_zeek() {
    let opened = [there(SYN, 100, 0), back(SYN | ACK, 500, 101), there(ACK, 101, 501)];
    let with = |more: &[Sent]| conn(&[&opened[..], more].concat());
    let sent = |packet: Sent, payload_bytes: u16| Sent { payload_bytes, ..packet };
    let (asks, answers) = (sent(there(ACK, 101, 501), 10), sent(back(ACK, 501, 111), 20));
    let (fin, other_fin) = (there(FIN | ACK, 111, 521), back(FIN | ACK, 521, 112));
    assert_eq!(with(&[]), "S1 ShA 0 0 0 source");
    assert_eq!(with(&[asks, answers, fin, other_fin, there(ACK, 112, 522)]), "SF ShADdFf 10 20 0 source");
    assert_eq!(with(&[asks, answers, fin]), "S2 ShADdF 10 20 0 source");
    assert_eq!(with(&[asks, answers, back(FIN | ACK, 521, 111)]), "S3 ShADdf 10 20 0 source");
    assert_eq!(with(&[asks, answers, fin, other_fin, back(RST, 522, 0)]), "SF ShADdFfr 10 20 0 source");
    assert_eq!(with(&[asks, there(RST, 111, 0)]), "RSTO ShADR 10 0 0 source");
    assert_eq!(with(&[asks, back(RST, 501, 0)]), "RSTR ShADr 10 0 0 source");
    assert_eq!(conn(&opened[..1]), "S0 S 0 0 0 source");
    assert_eq!(conn(&[opened[0], back(RST | ACK, 0, 101)]), "REJ Sr 0 0 0 source");
    assert_eq!(conn(&[opened[0], there(RST, 101, 0)]), "RSTOS0 SR 0 0 0 source");
    assert_eq!(conn(&[opened[0], there(FIN | ACK, 101, 0)]), "SH SF 0 0 0 source");
    // The opening was not captured, or only the answer to it.
    assert_eq!(conn(&[asks, answers]), "OTH Dd 10 20 0 source");
    let ways = |packets: &[Sent]| shown::<Conn>(packets)[5].to_string();
    assert_eq!(conn(&opened[1..2]), "OTH H 0 0 0 destination");
    assert_eq!(ways(&opened[1..]), "destination");
    // It was captured before the SYN.
    assert_eq!(conn(&[opened[1], opened[0], opened[2], asks]), "S1 Hs^AD 10 0 0 source");
    // Several flags.
    assert_eq!(conn(&[there(SYN | FIN, 1, 0), there(FIN | RST, 1, 0)]), "OTH QI 0 0 0 source");
    assert_eq!(conn(&[opened[0], opened[0]]), "S0 S 0 0 0 source", "a repeated SYN has no letter");
    let fin = there(FIN | ACK, 101, 501);
    assert_eq!(with(&[fin, fin, there(FIN | ACK, 102, 501)]), "S2 ShAFF 1 0 0 source");
}

#[test]
fn segment_with_an_impossible_data_offset_does_not_change_its_connection() {
    let begin = [there(SYN, 100, 0), back(SYN | ACK, 500, 101), there(ACK, 101, 501)];
    let data = |packet: Sent, payload_bytes: u16| Sent { payload_bytes, ..packet };
    let end = [
        data(there(ACK, 101, 501), 10),
        data(back(ACK, 501, 111), 20),
        there(FIN | ACK, 111, 521),
        back(FIN | ACK, 521, 112),
        there(ACK, 112, 522),
    ];
    let all = [&begin[..], &end].concat();
    let records = |packets: &[Sent]| {
        let records = crate::accounting::segments::records(None, packets);
        (records.len(), records[0].flags())
    };
    let expected = (conn(&all), records(&all), trouble(&all));
    assert_eq!((&*expected.0, expected.1.0), ("SF ShADdFf 10 20 0 source", 1));
    for words in [0, 1, 2, 3, 4, 6, 7, 15] {
        for bad in
            [back(RST, 501, 0), there(SYN, 9000, 0), there(FIN | ACK, 101, 501), back(ACK, 7777, 8888)]
        {
            for at in begin.len()..=all.len() {
                let bad = Sent { offset_words: Some(words), ..bad };
                let packets = [&all[..at], &[bad], &all[at..]].concat();
                let found = (conn(&packets), records(&packets), trouble(&packets));
                assert_eq!(found, expected, "{words} {bad:?} {at}");
            }
        }
    }
}

#[test]
fn gaps_retransmissions_and_windows_are_letters_at_powers_of_ten() {
    let opened = [there(SYN, 100, 0), back(SYN | ACK, 500, 101), there(ACK, 101, 501)];
    let with = |more: &[Sent]| conn(&[&opened[..], more].concat());
    let data = |at: u32| Sent { payload_bytes: 10, ..there(ACK, 101 + at, 501) };
    let acks = |at: u32| back(ACK, 501, 101 + at);
    assert_eq!(with(&[data(0), data(20), acks(30)]), "S1 ShADaG 30 0 10 source");
    assert_eq!(with(&[data(0), data(20), data(10), acks(30)]), "S1 ShADTa 30 0 0 source");
    assert_eq!(with(&[data(0), data(20), data(40), acks(50)]), "S1 ShADaG 50 0 20 source");
    // More blocks than are kept: what lies between the last ones counts as captured.
    let many: Vec<Sent> = (1..20).map(|nth| data(20 * nth)).chain([acks(390)]).collect();
    assert!(with(&many).starts_with("S1 ShADaG 390 0 "), "{}", with(&many));
    let again: Vec<Sent> = [data(0); 11].into_iter().chain([acks(10)]).collect();
    assert_eq!(with(&again), "S1 ShADTTa 10 0 0 source");
    let closed = Sent { window: 0, ..acks(10) };
    assert_eq!(with(&[data(0), closed, closed]), "S1 ShADaw 10 0 0 source");
    // Sequence numbers wrap.
    let near = [there(SYN, u32::MAX - 4, 0), back(SYN | ACK, 500, u32::MAX - 3)];
    let after = Sent { payload_bytes: 10, ..there(ACK, u32::MAX - 3, 501) };
    assert_eq!(conn(&[near[0], near[1], after, back(ACK, 501, 6)]), "S1 ShDa 10 0 0 source");
}

#[test]
fn an_attempt_without_an_answer_ends_after_five_seconds() {
    let states = |packets: &[Sent]| {
        let mut app = DetailedAccounting::<Conn>::default();
        let (mut shown, mut open) = (Vec::new(), Detailed::<Conn>::default());
        let state = |flow: &Detailed<Conn>| {
            let mut values = Vec::new();
            flow.fields.values(Direction::LowToHigh, &mut values);
            values[0].to_string()
        };
        each(packets, |view| {
            if let Some(next) = app.next_record(view, &mut open) {
                shown.push(state(&std::mem::replace(&mut open, next)));
            }
            app.on_packet(view, &mut open);
        });
        shown.push(state(&open));
        shown.join(" ")
    };
    let syn = there(SYN, 100, 0);
    assert_eq!(states(&[syn, syn.at(3), syn.at(5), there(ACK, 101, 501).at(6)]), "S0 OTH");
    let answered = [syn, back(SYN | ACK, 500, 101).at(4), there(ACK, 101, 501).at(60)];
    assert_eq!(states(&answered), "S1");
}

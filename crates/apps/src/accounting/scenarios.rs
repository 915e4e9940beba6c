//! Connections with known records: openings, closings, reuse and cuts.

use flowloom_flow_key::Direction::{HighToLow, LowToHigh};

use super::connection::{ACK, FIN, RST, SYN};
use super::segments::{Sent, back, records, there};
use super::{Accounted, DirectionBasis, EndReason, EndedBy, SplitReason};

const PSH: u16 = 8;

/// A handshake opened by the low end. Its numbers begin at 100, those of the high end at 500.
fn handshake() -> Vec<Sent> {
    vec![there(SYN, 100, 0), back(SYN | ACK, 500, 101), there(ACK, 101, 501)]
}

fn after_handshake(more: &[Sent]) -> Vec<Sent> {
    [&handshake()[..], more].concat()
}

fn closed(packets: &[Sent]) -> Vec<Option<EndReason>> {
    records(None, packets).iter().map(Accounted::closed).collect()
}

#[test]
fn source_sent_the_syn_or_received_the_syn_ack_or_sent_first() {
    let source = |packets: &[Sent]| {
        let records = records(None, packets);
        (records[0].source_direction(), records[0].direction_basis())
    };
    assert_eq!(source(&handshake()), (LowToHigh, DirectionBasis::Syn));
    assert_eq!(source(&handshake()[1..]), (LowToHigh, DirectionBasis::SynAck));
    assert_eq!(source(&handshake()[2..]), (LowToHigh, DirectionBasis::Arbitrary));
    assert_eq!(source(&[back(ACK, 501, 101)]), (HighToLow, DirectionBasis::Arbitrary));
    let answered_before = [back(SYN | ACK, 500, 101), there(SYN, 100, 0)];
    assert_eq!(source(&answered_before), (LowToHigh, DirectionBasis::Syn), "captured in another order");
    let data_before = [there(ACK | PSH, 101, 501), back(SYN | ACK, 500, 101)];
    assert_eq!(source(&data_before), (LowToHigh, DirectionBasis::SynAck));
    let both_open =
        [back(SYN, 500, 0), there(SYN, 100, 0), back(SYN | ACK, 500, 101), there(SYN | ACK, 100, 501)];
    assert_eq!(source(&both_open), (HighToLow, DirectionBasis::Syn), "the first of both");
    assert_eq!(records(None, &both_open).len(), 1);
}

#[test]
fn open_fin_is_an_unacknowledged_fin() {
    let open = |packets: &[Sent]| records(None, &after_handshake(packets))[0].open_fins();
    let first = there(FIN | ACK, 101, 501);
    let [second, apart] = [back(FIN | ACK, 501, 102), back(FIN | ACK, 501, 101)];
    assert_eq!(open(&[]), [false, false]);
    assert_eq!(open(&[first]), [true, false]);
    assert_eq!(open(&[first, back(ACK, 501, 102)]), [false, false]);
    assert_eq!(open(&[first, second]), [false, true], "the last acknowledgement is missing");
    assert_eq!(open(&[first, apart]), [true, true], "both close at once");
    assert_eq!(open(&[first, second, there(ACK, 102, 502)]), [false, false]);
}

#[test]
fn a_syn_with_the_same_number_is_a_retransmission() {
    for again in [
        vec![there(SYN, 100, 0), there(SYN, 100, 0), back(SYN | ACK, 500, 101), back(SYN | ACK, 500, 101)],
        after_handshake(&[there(SYN, 100, 0), back(SYN | ACK, 500, 101)]),
        // Sent twice before it is refused.
        vec![there(SYN, 100, 0), there(SYN, 100, 0), back(RST | ACK, 0, 101), back(RST | ACK, 0, 101)],
        // Captured after the packet that follows it.
        vec![there(ACK | PSH, 101, 501), there(SYN, 100, 0)],
        vec![back(ACK, 501, 101), there(SYN, 100, 0).at(10)],
        // The server answers again, with another number, to the same SYN.
        vec![there(SYN, 100, 0), back(SYN | ACK, 500, 101), back(SYN | ACK, 9500, 101)],
        // Senders that set no acknowledgement numbers.
        vec![there(SYN, 1, 0), back(SYN | ACK, 1, 0), there(ACK, 1, 0), there(ACK, 1, 0)],
    ] {
        assert_eq!(records(None, &again).len(), 1, "{again:?}");
    }
}

#[test]
fn a_syn_with_another_number_begins_a_connection() {
    let cases = [
        after_handshake(&[there(SYN, 900_000, 0)]),
        // The other side opens.
        after_handshake(&[back(SYN, 900_000, 0)]),
        // Its SYN was not captured.
        after_handshake(&[back(SYN | ACK, 777, 900_001)]),
        // The first handshake was not captured either.
        vec![there(ACK, 101, 501), back(ACK, 501, 101), there(SYN, 900_000, 0)],
        vec![there(ACK, 101, 501), back(ACK, 501, 101), back(SYN | ACK, 900_000, 4_000_000)],
        // Slightly below numbers that were sent or acknowledged long before.
        vec![there(ACK | PSH, 101, 501), there(SYN, 100, 0).at(11)],
        vec![back(ACK, 501, 101), there(SYN, 100, 0).at(11)],
        // Numbers that begin slightly above those of a closed connection.
        after_handshake(&[there(FIN | ACK, 101, 501), back(FIN | ACK, 501, 102), there(SYN, 200, 0)]),
        vec![there(RST, 9, 0), back(SYN, 7, 0)],
        // Refused and tried again, as some hosts do.
        vec![there(SYN, 100, 0), back(RST | ACK, 0, 101), there(SYN, 100, 0), back(RST | ACK, 0, 101)],
        vec![there(SYN, 100, 0), back(RST | ACK, 0, 101), there(SYN, 100, 0), back(SYN | ACK, 500, 101)],
        // A sender with constant numbers.
        after_handshake(&[there(FIN | ACK, 101, 501), back(FIN | ACK, 501, 102), there(SYN, 100, 0)]),
        after_handshake(&[there(RST | ACK, 101, 501), there(SYN, 100, 0)]),
    ];
    for packets in cases {
        let records = records(None, &packets);
        assert_eq!(records.len(), 2, "{packets:?}");
        assert_eq!(records[0].split_reason(), Some(SplitReason::NewConnection));
        let basis = records[1].direction_basis();
        assert!(basis >= DirectionBasis::SynAck, "the direction is that of the new connection");
    }
    let reused = records(None, &after_handshake(&[there(SYN, 900_000, 0)]));
    assert_eq!(EndReason::from_record(&reused[0], EndedBy::Application), EndReason::NewConnection);
    let answered = records(None, &after_handshake(&[back(SYN | ACK, 777, 900_001)]));
    assert_eq!(
        (answered[1].source_direction(), answered[1].direction_basis()),
        (LowToHigh, DirectionBasis::SynAck)
    );
    let turned = records(None, &after_handshake(&[back(SYN, 900_000, 0)]));
    assert_eq!(turned[1].source_direction(), HighToLow);
}

#[test]
fn rst_closes_only_inside_the_window() {
    let reset = Some(EndReason::Reset);
    let scaled = |more: Sent| {
        vec![
            there(SYN, 100, 0).with_scale(7),
            back(SYN | ACK, 500, 101).with_scale(7),
            there(ACK, 101, 501),
            more,
        ]
    };
    let sent = Sent { payload_bytes: 1000, ..back(ACK | PSH, 501, 101) };
    let full = Sent { window: 0, ..there(ACK, 101, 501) };
    let cases = [
        (after_handshake(&[back(RST, 501, 0)]), reset),
        (after_handshake(&[back(RST | ACK, 501 + 8191, 101)]), reset),
        (after_handshake(&[back(RST, 501 + 8192, 0)]), None),
        (after_handshake(&[back(RST, 500, 0)]), None),
        (after_handshake(&[back(RST, 3_000_000_000, 0)]), None),
        (after_handshake(&[there(RST, 101, 0)]), reset),
        (after_handshake(&[there(RST, 70_000, 0)]), None),
        // Windows are scaled if both sides have the option.
        (scaled(back(RST, 500 + (8192 << 7), 0)), reset),
        (scaled(back(RST, 501 + (8192 << 7), 0)), None),
        (
            vec![
                there(SYN, 100, 0).with_scale(7),
                back(SYN | ACK, 500, 101),
                there(ACK, 101, 501),
                back(RST, 9000, 0),
            ],
            None,
        ),
        // A closed window admits the next expected number, and data in flight.
        (after_handshake(&[full, back(RST, 501, 0)]), reset),
        (after_handshake(&[full, back(RST, 502, 0)]), None),
        (after_handshake(&[sent, full, back(RST, 1501, 0)]), reset),
        // A refused connection.
        (vec![there(SYN, 100, 0), back(RST | ACK, 0, 101)], reset),
        (vec![there(SYN, 100, 0), back(RST | ACK, 0, 102)], None),
        (vec![there(SYN, 100, 0), back(RST, 0, 0)], None),
        (vec![there(SYN, 100, 0), there(RST, 101, 0)], reset),
        // Nothing is known, or only one side.
        (vec![back(RST, 77, 0)], reset),
        (vec![there(ACK, 101, 501), there(RST, 101, 0)], reset),
        (vec![there(ACK, 101, 501), there(RST, 4_000_000, 0)], None),
    ];
    for (packets, expected) in cases {
        assert_eq!(closed(&packets), [expected], "{packets:?}");
    }
}

#[test]
fn both_fins_close_the_connection_with_their_last_acknowledgement() {
    let closing = [there(FIN | ACK, 101, 501), back(FIN | ACK, 501, 102), there(ACK, 102, 502)];
    assert_eq!(closed(&after_handshake(&closing)), [Some(EndReason::Fin)]);
    assert_eq!(closed(&after_handshake(&closing[..1])), [None]);
    // An RST behind the last acknowledgement, even a minute later, in its place, or before the FIN
    // of the other side.
    let (fin, other) = (closing[0], closing[1]);
    for more in [
        vec![fin, other, closing[2], back(RST, 502, 0).at(60)],
        vec![fin, other, there(RST, 102, 0)],
        vec![fin, other, there(RST | ACK, 102, 502), back(RST, 502, 0)],
        vec![fin, there(RST | ACK, 102, 501), other],
    ] {
        assert_eq!(closed(&after_handshake(&more)), [Some(EndReason::Fin)], "{more:?}");
    }
    assert_eq!(closed(&after_handshake(&[fin, there(RST, 102, 0)])), [Some(EndReason::Reset)]);
    assert_eq!(closed(&after_handshake(&[fin, back(RST, 501, 0)])), [Some(EndReason::Reset)]);
    assert_eq!(closed(&after_handshake(&[there(FIN | ACK, 101, 501), there(FIN | ACK, 101, 501)])), [None]);
}

#[test]
fn cut_records_keep_direction_sequence_numbers_and_fins() {
    let talk = after_handshake(&[
        there(FIN | ACK, 101, 501).at(2),
        // The record is cut here: the server sends first in the next one.
        back(ACK | PSH, 501, 102).at(11),
        back(RST, 3_000_000_000, 0).at(12),
        back(FIN | ACK, 501, 102).at(13),
        there(ACK, 102, 502).at(22),
        there(SYN, 900_000, 0).at(23),
    ]);
    let records = records(Some(10), &talk);
    let ways: Vec<_> =
        records.iter().map(|record| (record.source_direction(), record.direction_basis())).collect();
    assert_eq!(ways, [(LowToHigh, DirectionBasis::Syn); 4]);
    let reasons: Vec<_> =
        records.iter().map(|record| EndReason::from_record(record, EndedBy::Application)).collect();
    assert_eq!(reasons[..3], [EndReason::Active, EndReason::Fin, EndReason::Fin]);
    assert_eq!(EndReason::from_record(&records[3], EndedBy::EndOfInput), EndReason::EndOfInput);
    assert_eq!(
        records.iter().map(Accounted::packets).collect::<Vec<_>>(),
        [[3, 1], [0, 3], [1, 0], [1, 0]]
    );
    assert_eq!(records[1].flags(), [0, FIN | ACK | PSH | RST], "flags are those of its own packets");
}

#[test]
fn records_last_for_the_active_timeout_at_most() {
    let packets = [0, 4, 9, 10, 19, 20, 31].map(|seconds| there(ACK, 1, 1).at(seconds));
    let seconds = |ns: u64| ns / 1_000_000_000;
    let times: Vec<_> = records(Some(10), &packets)
        .iter()
        .map(|record| (seconds(record.times_ns().0), seconds(record.times_ns().1)))
        .collect();
    assert_eq!(times, [(0, 9), (10, 19), (20, 20), (31, 31)]);
}

#[test]
fn record_times_are_time_stamps_and_the_active_timeout_follows_the_run_clock() {
    let seconds = |record: &Accounted| {
        let (first_ns, last_ns) = record.times_ns();
        (first_ns / 1_000_000_000, last_ns / 1_000_000_000, record.times_back())
    };
    let stamped = |stamps: &[(u64, u64)]| {
        let packets: Vec<Sent> =
            stamps.iter().map(|&(time, stamp)| there(ACK, 1, 1).at(time).stamped(stamp)).collect();
        records(Some(10), &packets).iter().map(seconds).collect::<Vec<_>>()
    };
    assert_eq!(stamped(&[(100, 100), (101, 101), (105, 105)]), [(100, 105, 0)]);
    // Late packets, before the first and between.
    assert_eq!(stamped(&[(100, 100), (103, 103), (103, 101), (104, 104)]), [(100, 104, 1)]);
    assert_eq!(stamped(&[(100, 100), (100, 95), (104, 104)]), [(95, 104, 1)]);
    // The clock of the capture was set back before the record began, or while it lasted.
    assert_eq!(stamped(&[(1000, 40), (1003, 43)]), [(40, 43, 0)]);
    assert_eq!(stamped(&[(1000, 1000), (1000, 40), (1003, 43)]), [(40, 1000, 2)]);
    // Wrong stamps neither cut a record nor keep it.
    assert_eq!(
        stamped(&[(100, 9000), (101, 101), (109, 109), (110, 110)]),
        [(101, 9000, 2), (110, 110, 0)]
    );
    assert_eq!(stamped(&[(100, 100), (101, 9000), (109, 109), (110, 5)]), [(100, 9000, 1), (5, 5, 0)]);
}

#[test]
fn flags_are_nine_bits() {
    assert_eq!(records(None, &[there(0x1C2, 1, 0), back(0x1FF, 1, 2)])[0].flags(), [0x1C2, 0x1FF]);
}

#[test]
fn the_end_of_the_connection_comes_before_the_end_of_the_record() {
    let open = &records(None, &handshake())[0];
    let ended = [EndedBy::IdleTimeout, EndedBy::Application, EndedBy::EndOfInput];
    assert_eq!(
        ended.map(|ended| EndReason::from_record(open, ended)),
        [EndReason::Idle, EndReason::Active, EndReason::EndOfInput]
    );
    let reset = &records(None, &after_handshake(&[back(RST, 501, 0)]))[0];
    assert_eq!(ended.map(|ended| EndReason::from_record(reset, ended)), [EndReason::Reset; 3]);
}

//! Accounting against a plain one: all packets of a key in a list, cut afterwards.

use std::collections::BTreeMap;

use flowloom_apps::accounting::{Accounted, Accounting, EndReason, end_reasons};
use flowloom_engine::time::tick_of;
use flowloom_engine::{App, FlowState, FlowValue, IdleTimeout, Layout};
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_packet::{Headers, PacketView};
use flowloom_traffic::synth::MixConfig;
use proptest::prelude::*;

use crate::support::{LAYOUTS, Memory, go, values};

/// What a packet adds.
#[derive(Clone, Copy, Debug)]
struct Note {
    time_ns: u64,
    way: usize,
    bytes: u64,
    ip_bytes: u64,
    flags: u16,
}

/// Reads the length of the IP packet that a packet holds from its header.
fn ip_bytes(packet: &PacketView<'_>) -> u64 {
    let header = &packet.bytes[packet.headers.network_offset as usize..];
    let word = |at: usize| u64::from(header[at]) << 8 | u64::from(header[at + 1]);
    if header[0] >> 4 == 4 { word(2) } else { 40 + word(4) }
}

/// A record as the plain accounting has it: its values and the reason for its end.
type Record = (FlowKey, Vec<FlowValue>, EndReason);

fn is_closed(notes: &[Note]) -> Option<EndReason> {
    let fins = |way: usize| notes.iter().any(|note| note.way == way && note.flags & 1 != 0);
    if notes.iter().any(|note| note.flags & 4 != 0) {
        return Some(EndReason::Reset);
    }
    (fins(0) && fins(1)).then_some(EndReason::Fin)
}

fn summed(notes: &[Note]) -> Vec<FlowValue> {
    let of = |way: usize| notes.iter().filter(move |note| note.way == way);
    let bits = |way: usize| of(way).fold(0, |all, note| all | u64::from(note.flags));
    vec![
        FlowValue::TimeNs(notes[0].time_ns),
        FlowValue::TimeNs(notes[notes.len() - 1].time_ns),
        FlowValue::Count(of(0).count() as u64),
        FlowValue::Count(of(1).count() as u64),
        FlowValue::Count(of(0).map(|note| note.bytes).sum()),
        FlowValue::Count(of(1).map(|note| note.bytes).sum()),
        FlowValue::Count(of(0).map(|note| note.ip_bytes).sum()),
        FlowValue::Count(of(1).map(|note| note.ip_bytes).sum()),
        FlowValue::Bits(bits(0)),
        FlowValue::Bits(bits(1)),
        FlowValue::Word(["low", "high"][notes[0].way]),
    ]
}

/// Cuts the packets of each key into records.
fn plain(source: &Memory, idle_ns: Option<u64>, active_ns: Option<u64>) -> Vec<Record> {
    let mut notes: BTreeMap<FlowKey, Vec<Note>> = BTreeMap::new();
    let mut end_ns = 0;
    source.walk(|packet| {
        end_ns = packet.time_ns.max(end_ns);
        notes.entry(packet.headers.key).or_default().push(Note {
            time_ns: packet.time_ns,
            way: packet.headers.direction.index(),
            bytes: u64::from(packet.wire_bytes),
            ip_bytes: ip_bytes(packet),
            flags: packet.headers.tcp_flags,
        });
    });
    let idle = idle_ns.map(IdleTimeout::from_ns);
    let is_idle = |from: u64, to: u64| idle.is_some_and(|idle| idle.is_over(tick_of(from), tick_of(to)));
    let mut records = Vec::new();
    for (key, notes) in notes {
        let mut start = 0;
        for at in 1..=notes.len() {
            let open = &notes[start..at];
            let last = open[open.len() - 1];
            let reason = match notes.get(at) {
                None if is_idle(last.time_ns, end_ns) => EndReason::Idle,
                None => EndReason::EndOfInput,
                Some(next) if is_idle(last.time_ns, next.time_ns) => EndReason::Idle,
                Some(next) if active_ns.is_some_and(|active| next.time_ns - open[0].time_ns >= active) => {
                    EndReason::Active
                }
                Some(next) if next.flags & 0b1_0111 == 2 && is_closed(open).is_some() => EndReason::Fin,
                Some(_) => continue,
            };
            records.push((key, summed(open), is_closed(open).unwrap_or(reason)));
            start = at;
        }
    }
    records
}

fn found(
    source: &Memory,
    mode: Layout,
    idle_ns: Option<u64>,
    active_ns: Option<u64>,
) -> (Vec<Record>, String) {
    let report = go(source, mode, idle_ns, || Accounting::new(active_ns));
    let reasons = end_reasons(
        &report.flows,
        |flow| Some(flow),
        idle_ns.map(IdleTimeout::from_ns),
        report.input.last_ns,
    );
    let records = report
        .flows
        .iter()
        .zip(&reasons)
        .map(|(record, &reason)| (record.key, values(&record.state), reason))
        .collect();
    let packets: u64 = report.flows.iter().map(|record| record.state.packets().iter().sum::<u64>()).sum();
    assert_eq!(packets, report.processed(), "each packet is in one record");
    assert_eq!(report.flows.len() as u64, report.worker_totals().flows_begun);
    (records, report.digest())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn records_are_those_of_a_plain_accounting_in_every_layout(
        (flows, packets) in (1..60_u64, 1..1500_u64),
        seed: u64,
        rate_pps in 50..5_000_u64,
        idle_ms in prop::option::of(2..2_000_u64),
        active_ms in prop::option::of(1..3_000_u64),
    ) {
        let config = MixConfig { flows, packets: packets.max(flows), seed, rate_pps, ..MixConfig::default() };
        let source = Memory::of(config);
        let (idle_ns, active_ns) = (idle_ms.map(|ms| ms * 1_000_000), active_ms.map(|ms| ms * 1_000_000));
        let expected = plain(&source, idle_ns, active_ns);
        let mut digests = Vec::new();
        for mode in LAYOUTS {
            let (records, digest) = found(&source, mode, idle_ns, active_ns);
            prop_assert_eq!(&records, &expected, "{:?}", mode);
            digests.push(digest);
        }
        prop_assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    }
}

#[test]
fn every_reason_occurs_and_sums_are_those_of_the_traffic() {
    let config = MixConfig { flows: 300, packets: 9000, rate_pps: 3000, seed: 2, ..MixConfig::default() };
    let source = Memory::of(config);
    let (records, _) = found(&source, Layout::Inline, Some(300_000_000), Some(1_000_000_000));
    for reason in [EndReason::Idle, EndReason::Active, EndReason::Fin, EndReason::EndOfInput] {
        assert!(records.iter().any(|(.., found)| *found == reason), "{}", reason.name());
    }
    let (mut packets, mut bytes) = (0, 0);
    source.walk(|packet| {
        packets += 1;
        bytes += u64::from(packet.wire_bytes);
    });
    let sum = |columns: [usize; 2]| -> u64 {
        let count = |values: &[FlowValue], at: usize| match values[at] {
            FlowValue::Count(count) => count,
            _ => panic!("column {at} counts"),
        };
        records.iter().map(|(_, values, _)| columns.map(|at| count(values, at)).iter().sum::<u64>()).sum()
    };
    assert_eq!((sum([2, 3]), sum([4, 5])), (packets, bytes));
}

/// Gives TCP packets of one flow, as (from the low end, flags, seconds), and returns how many records that makes.
fn records(app: Accounting, packets: &[(bool, u16, u64)]) -> Vec<Accounted> {
    let mut app = app;
    let mut ended = Vec::new();
    let mut open = Accounted::default();
    for (at, &(from_low, tcp_flags, seconds)) in packets.iter().enumerate() {
        let (key, _) = FlowKey::from_v4(1, 2, 3, 4, 6);
        let direction = if from_low { Direction::LowToHigh } else { Direction::HighToLow };
        let mut headers = Headers::new(key, direction);
        headers.tcp_flags = tcp_flags;
        (headers.network_offset, headers.transport_offset, headers.payload_offset) = (14, 34, 54);
        let view = PacketView::new(&[], headers, seconds * 1_000_000_000, 60);
        if at > 0
            && let Some(next) = app.next_record(&view, &mut open)
        {
            ended.push(std::mem::replace(&mut open, next));
        }
        app.on_packet(&view, &mut open);
    }
    ended.push(open);
    ended
}

#[test]
fn a_connection_on_the_same_ports_is_another_record_once_the_first_was_closed() {
    let never = Accounting::new(None);
    let talk = [(true, 2, 0), (false, 18, 0), (true, 17, 1), (false, 17, 1), (true, 16, 2), (false, 2, 3)];
    let two = records(never, &talk);
    assert_eq!(two.len(), 2, "the last ACK belongs to what it acknowledges");
    assert_eq!((two[0].closed(), two[0].packets()), (Some(EndReason::Fin), [3, 2]));
    assert_eq!((two[1].closed(), two[1].way()), (None, Direction::HighToLow));
    assert_eq!(records(never, &[(true, 2, 0), (true, 2, 1), (false, 20, 1), (true, 2, 2)]).len(), 2);
    assert_eq!(records(never, &[(true, 2, 0), (true, 2, 1), (true, 17, 2), (true, 2, 9)]).len(), 1);
    assert_eq!(two[0].flags(), [19, 19]);
    for no_opening in [3, 6, 7, 18] {
        let talk = [(true, 2, 0), (false, 20, 1), (true, no_opening, 2)];
        assert_eq!(records(never, &talk).len(), 1, "{no_opening}");
    }
}

#[test]
fn records_last_for_the_active_timeout_at_most() {
    let ten = Accounting::new(Some(10_000_000_000));
    let times: Vec<(u64, u64)> = records(ten, &[0, 4, 9, 10, 19, 20, 31].map(|at| (true, 16, at)))
        .iter()
        .map(|record| (record.times_ns().0 / 1_000_000_000, record.times_ns().1 / 1_000_000_000))
        .collect();
    assert_eq!(times, [(0, 9), (10, 19), (20, 20), (31, 31)]);
}

#[test]
fn records_can_be_added_up() {
    let mut all = records(Accounting::new(Some(1)), &[(true, 16, 1), (false, 4, 2)]);
    let later = all.pop().unwrap();
    let mut sum = all.pop().unwrap();
    sum.merge(later);
    assert_eq!((sum.packets(), sum.bytes(), sum.closed()), ([1, 1], [60, 60], Some(EndReason::Reset)));
    assert_eq!((sum.ip_bytes(), sum.flags(), sum.way()), ([40, 40], [16, 4], Direction::LowToHigh));
    assert_eq!(sum.times_ns(), (1_000_000_000, 2_000_000_000));
    assert_eq!(EndReason::Reset.ipfix(), 3);
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    use EndReason::{Active, EndOfInput, Fin, Idle, Reset};
    let names = [Idle, Active, Fin, Reset, EndOfInput].map(EndReason::name);
    assert_eq!(names, ["idle", "active", "fin", "reset", "end"]);
}

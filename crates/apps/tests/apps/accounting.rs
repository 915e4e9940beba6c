//! Compares accounting with a simple computation: all packets of a key in a list, divided into
//! records afterwards.

use std::collections::BTreeMap;

use flowloom_apps::accounting::{Accounting, EndReason};
use flowloom_engine::record::Value;
use flowloom_engine::time::tick_of;
use flowloom_engine::{IdleTimeout, Layout};
use flowloom_flow_key::FlowKey;
use flowloom_packet::PacketView;
use flowloom_traffic::synth::MixConfig;
use proptest::prelude::*;

use crate::support::{LAYOUTS, Memory, go, values};

/// The fields of a packet that accounting counts.
#[derive(Clone, Copy, Debug)]
struct Note {
    time_ns: u64,
    way: usize,
    bytes: u64,
    ip_bytes: u64,
    flags: u16,
    /// Whether it is TCP.
    sequence: [u8; 4],
    /// Type and code of ICMP; 0 otherwise.
    message: u16,
}

/// Reads the length of the IP packet from its header.
fn ip_bytes(packet: &PacketView<'_>) -> u64 {
    let header = &packet.bytes[packet.headers.network_offset as usize..];
    let word = |at: usize| u64::from(header[at]) << 8 | u64::from(header[at + 1]);
    if header[0] >> 4 == 4 { word(2) } else { 40 + word(4) }
}

/// A record of the simple computation: its values and the reason for its end.
type Record = (FlowKey, Vec<Value>, EndReason);

/// Returns how the packets of a connection closed it.
fn closed(connection: &[Note]) -> Option<EndReason> {
    let fins = |way: usize| connection.iter().any(|note| note.way == way && note.flags & 1 != 0);
    if fins(0) && fins(1) {
        return Some(EndReason::Fin);
    }
    connection.iter().any(|note| note.flags & 4 != 0).then_some(EndReason::Reset)
}

/// Returns the direction of packets from the initiator of a connection, and how it was determined.
fn initiator(connection: &[Note], protocol: u8) -> (usize, &'static str) {
    let opening = |flags: u16| connection.iter().find(|note| note.flags & 0b1_0111 == flags);
    match (opening(2), opening(18)) {
        (Some(syn), _) => (syn.way, "syn"),
        (None, Some(answer)) => (1 - answer.way, "syn_ack"),
        (None, None) => (connection[0].way, if protocol == 6 { "arbitrary" } else { "first_packet" }),
    }
}

/// Returns the values of a record. Its connection may have begun before it.
fn summed(notes: &[Note], connection: &[Note], protocol: u8) -> Vec<Value> {
    let notes_of = |way: usize| notes.iter().filter(move |note| note.way == way);
    let bits = |way: usize| notes_of(way).fold(0, |all, note| all | u64::from(note.flags));
    let (source, direction) = initiator(connection, protocol);
    vec![
        Value::Number(notes[0].time_ns),
        Value::Number(notes[notes.len() - 1].time_ns),
        Value::Number(notes_of(0).count() as u64),
        Value::Number(notes_of(1).count() as u64),
        Value::Number(notes_of(0).map(|note| note.bytes).sum()),
        Value::Number(notes_of(1).map(|note| note.bytes).sum()),
        Value::Number(notes_of(0).map(|note| note.ip_bytes).sum()),
        Value::Number(notes_of(1).map(|note| note.ip_bytes).sum()),
        Value::Bits(bits(0)),
        Value::Bits(bits(1)),
        Value::Word(["low", "high"][source]),
        Value::Word(direction),
        Value::Word(closed(connection).map_or("-", EndReason::name)),
        Value::Bits(u64::from(connection[0].message)),
        Value::Number(0),
    ]
}

/// Divides the packets of each key into records.
fn plain(source: &Memory, idle_ns: Option<u64>, active_ns: Option<u64>) -> Vec<Record> {
    let mut notes: BTreeMap<FlowKey, Vec<Note>> = BTreeMap::new();
    let mut end_ns = 0;
    source.walk(|packet| {
        end_ns = packet.time_ns.max(end_ns);
        let transport = &packet.bytes[packet.headers.transport_offset as usize..];
        let is_icmp = matches!(packet.headers.key.protocol(), 1 | 58);
        notes.entry(packet.headers.key).or_default().push(Note {
            time_ns: packet.time_ns,
            way: packet.headers.direction.index(),
            bytes: u64::from(packet.wire_bytes),
            ip_bytes: ip_bytes(packet),
            flags: packet.headers.tcp_flags,
            sequence: transport[4..8].try_into().unwrap(),
            message: if is_icmp { u16::from_be_bytes([transport[0], transport[1]]) } else { 0 },
        });
    });
    let idle = idle_ns.map(IdleTimeout::from_ns);
    let is_idle = |from: u64, to: u64| idle.is_some_and(|idle| idle.is_over(tick_of(from), tick_of(to)));
    let mut records = Vec::new();
    for (key, notes) in notes {
        // The beginnings of the connection and of the record.
        let (mut begin, mut start) = (0, 0);
        for at in 1..=notes.len() {
            let (connection, open) = (&notes[begin..at], &notes[start..at]);
            let last = open[open.len() - 1];
            let is_another = |next: &Note| {
                let is_syn = |note: &Note| note.flags & 0b1_0111 == 2 && note.way == next.way;
                let is_same = |note: &Note| is_syn(note) && note.sequence == next.sequence;
                is_syn(next) && (closed(connection).is_some() || !connection.iter().any(is_same))
            };
            let reason = match notes.get(at) {
                None if is_idle(last.time_ns, end_ns) => EndReason::Idle,
                None => EndReason::EndOfInput,
                Some(next) if is_idle(last.time_ns, next.time_ns) => EndReason::Idle,
                Some(next) if is_another(next) => EndReason::NewConnection,
                Some(next) if active_ns.is_some_and(|active| next.time_ns - open[0].time_ns >= active) => {
                    EndReason::Active
                }
                Some(_) => continue,
            };
            records.push((
                key,
                summed(open, connection, key.protocol()),
                closed(connection).unwrap_or(reason),
            ));
            start = at;
            if reason != EndReason::Active {
                begin = at;
            }
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
    let records = report
        .flows
        .iter()
        .map(|record| {
            (record.key, values(&record.state), EndReason::from_record(&record.state, record.ended))
        })
        .collect();
    let packets: u64 = report.flows.iter().map(|record| record.state.packets().iter().sum::<u64>()).sum();
    assert_eq!(packets, report.processed(), "each packet is in one record");
    assert_eq!(report.flows.len() as u64, report.worker_totals().flows_begun);
    (records, report.digest())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn records_match_a_plain_accounting_in_every_layout(
        (flows, packets) in (1..60_u64, 1..1500_u64),
        seed: u64,
        rate_pps in 50..5_000_u64,
        idle_ms in prop::option::of(2..2_000_u64),
        active_ms in prop::option::of(1..3_000_u64),
    ) {
        let config = MixConfig { flows, packets: packets.max(flows), seed, rate_pps, ..MixConfig::default() };
        let source = Memory::new(config);
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
    let source = Memory::new(config);
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
        let count = |values: &[Value], at: usize| match values[at] {
            Value::Number(count) => count,
            _ => panic!("column {at} counts"),
        };
        records.iter().map(|(_, values, _)| columns.map(|at| count(values, at)).iter().sum::<u64>()).sum()
    };
    assert_eq!((sum([2, 3]), sum([4, 5])), (packets, bytes));
}

#[test]
fn every_reason_has_a_name_of_its_own() {
    let names = EndReason::ALL.map(EndReason::name);
    assert_eq!(names, ["idle", "active", "fin", "reset", "new_connection", "evicted", "end"]);
    assert_eq!(EndReason::ALL.map(EndReason::ipfix), [1, 2, 3, 3, 3, 5, 4]);
}

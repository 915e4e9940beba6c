//! IPFIX files, read by somebody else's parser.

use flowloom_apps::Accounting;
use flowloom_apps::accounting::ipfix::IpfixWriter;
use flowloom_apps::accounting::{Accounted, EndReason, end_reasons};
use flowloom_engine::{IdleTimeout, Layout};
use flowloom_flow_key::FlowKey;
use flowloom_traffic::synth::MixConfig;
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{FieldValue, NetflowPacket, NetflowParser};
use proptest::prelude::*;

use crate::support::{Memory, go};

/// A record as it should be found: its template, and each value as the bytes on the wire.
fn expected(key: &FlowKey, record: &Accounted, reason: EndReason) -> (u16, Vec<Vec<u8>>) {
    let (there, back) =
        if record.way() == flowloom_flow_key::Direction::LowToHigh { (0, 1) } else { (1, 0) };
    let (low, high) = ((key.low_address(), key.low_port()), (key.high_address(), key.high_port()));
    let (from, to) = if there == 0 { (low, high) } else { (high, low) };
    let octets = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let ms = |ns: u64| (ns / 1_000_000).to_be_bytes().to_vec();
    let mut values = vec![
        octets(from.0),
        octets(to.0),
        from.1.to_be_bytes().to_vec(),
        to.1.to_be_bytes().to_vec(),
        vec![key.protocol()],
        ms(record.times_ns().0),
        ms(record.times_ns().1),
    ];
    for way in [there, back] {
        values.push(record.packets()[way].to_be_bytes().to_vec());
        values.push(record.ip_bytes()[way].to_be_bytes().to_vec());
        values.push(record.bytes()[way].to_be_bytes().to_vec());
        values.push(record.flags()[way].to_be_bytes().to_vec());
    }
    values.push(key.zone().to_be_bytes().to_vec());
    let code = match reason {
        EndReason::Idle => 1,
        EndReason::Active => 2,
        EndReason::Fin | EndReason::Reset => 3,
        EndReason::EndOfInput => 4,
        other => panic!("a reason without a code: {other:?}"),
    };
    values.extend([vec![code], vec![1]]);
    (if from.0.is_ipv4() { 256 } else { 257 }, values)
}

/// Returns a value as it was on the wire.
fn wire(value: &FieldValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.write_be_bytes(&mut bytes).unwrap();
    bytes
}

/// Reads a file message by message; returns its records, after checking headers and templates.
fn read(mut bytes: &[u8], export_seconds: u32) -> Vec<(u16, Vec<Vec<u8>>)> {
    let mut parser = NetflowParser::default();
    let mut records = Vec::new();
    let mut is_first = true;
    while !bytes.is_empty() {
        let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        let (message, rest) = bytes.split_at(length);
        bytes = rest;
        let parsed = parser.parse_bytes(message);
        assert!(parsed.error.is_none(), "{:?}", parsed.error);
        let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else {
            panic!("one message: {parsed:?}")
        };
        assert_eq!(message.header.export_time, export_seconds);
        assert_eq!(message.header.sequence_number as usize, records.len(), "records before this message");
        for (i, set) in message.flowsets.iter().enumerate() {
            match &set.body {
                FlowSetBody::Templates(templates) => {
                    assert!(is_first && i == 0 && templates.len() == 2, "templates come first, once");
                    let fields = |i: usize| -> Vec<String> {
                        templates[i].fields.iter().map(|field| format!("{:?}", field.field_type)).collect()
                    };
                    assert!(fields(0)[0].contains("SourceIpv4address"), "{:?}", fields(0));
                    assert!(fields(1)[1].contains("DestinationIpv6address"), "{:?}", fields(1));
                    for i in 0..2 {
                        let named = |at: usize, name: &str| {
                            assert!(fields(i)[at].contains(name), "{:?}", fields(i));
                        };
                        named(8, "(OctetDeltaCount)");
                        named(9, "Layer2octetDeltaCount");
                        named(11, "ReversePacketDeltaCount");
                        named(12, "ReverseOctetDeltaCount");
                        named(16, "FlowEndReason");
                    }
                }
                FlowSetBody::Data(data) => {
                    assert!(data.padding.is_empty());
                    for record in &data.fields {
                        records.push((
                            set.header.header_id,
                            record.iter().map(|(_, value)| wire(value)).collect(),
                        ));
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        is_first = false;
    }
    records
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn another_parser_finds_every_record(
        flows in 1..600_u64,
        seed: u64,
        v6_permille in prop_oneof![Just(0_u16), Just(400), Just(1000)],
        idle_ms in prop::option::of(2..500_u64),
    ) {
        let packets = flows * 5;
        let config = MixConfig { flows, packets, seed, v6_permille, rate_pps: 2000, ..MixConfig::default() };
        let idle_ns = idle_ms.map(|ms| ms * 1_000_000);
        let report = go(&Memory::of(config), Layout::Inline, idle_ns, || Accounting::new(Some(100_000_000)));
        let last_ns = report.input.last_ns;
        let reasons =
            end_reasons(&report.flows, |flow| Some(flow), idle_ns.map(IdleTimeout::from_ns), last_ns);
        let mut writer = IpfixWriter::new(Vec::new(), last_ns);
        for (record, reason) in report.flows.iter().zip(&reasons) {
            writer.write(&record.key, &record.state, *reason).unwrap();
        }
        let file = writer.finish().unwrap();
        let expected: Vec<_> = report
            .flows
            .iter()
            .zip(&reasons)
            .map(|(record, reason)| expected(&record.key, &record.state, *reason))
            .collect();
        let found = read(&file, u32::try_from(last_ns / 1_000_000_000).unwrap());
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn messages_are_as_full_as_they_may_be() {
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    for records in [1, 100, 1000] {
        let mut writer = IpfixWriter::new(Vec::new(), 0);
        for _ in 0..records {
            writer.write(&key, &Accounted::default(), EndReason::Idle).unwrap();
        }
        let file = writer.finish().unwrap();
        let (mut lengths, mut at) = (Vec::new(), 0);
        while at < file.len() {
            lengths.push(usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]])));
            at += lengths[lengths.len() - 1];
        }
        // A record has 87 bytes, a set's header four.
        let (last, full) = lengths.split_last().expect("there is a message");
        assert!(full.iter().all(|length| (16_384 - 90..=16_384).contains(length)), "{lengths:?}");
        assert!((87..=16_384).contains(last), "{lengths:?}");
    }
}

#[test]
fn a_file_without_records_has_its_templates() {
    let file = IpfixWriter::new(Vec::new(), 7_000_000_000).finish().unwrap();
    assert_eq!(read(&file, 7).len(), 0);
    assert!(file.len() > 100);
}

/// Takes some bytes, then has no room.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let mut writer = IpfixWriter::new(Full(20_000), 0);
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    let failed = (0..1000).find_map(|_| writer.write(&key, &Accounted::default(), EndReason::Idle).err());
    assert_eq!(failed.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
    assert!(IpfixWriter::new(Full(10), 0).finish().is_err());
}

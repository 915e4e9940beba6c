//! Reads IPFIX files with an independent parser.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use flowloom_apps::accounting::{Accounted, AccountingRecord, DirectionBasis, EndReason, EndedBy};
use flowloom_apps::{Accounting, L7Flow, RecordState, TcpFlow};
use flowloom_engine::flow_table::{LineHash, TableOptions, Timeouts};
use flowloom_engine::scheduler::{DirectHash, WorkerCount};
use flowloom_engine::{Control, EngineConfig, IdleTimeout, Layout, RunReport, run};
use flowloom_export::record::{GroupSet, Row, SchemaColumn};
use flowloom_export::{CaptureLosses, IpfixWriter, RecordWriter as _, TimePrecision};
use flowloom_flow_key::{Direction, FlowKey};
use flowloom_traffic::synth::{Generated, Mix, MixConfig};
use netflow_parser::variable_versions::ipfix::FlowSetBody;
use netflow_parser::{FieldValue, NetflowPacket, NetflowParser};
use proptest::prelude::*;

fn columns() -> Vec<SchemaColumn> {
    AccountingRecord::schema().of_groups(GroupSet::ALL)
}

/// Accounts for generated packets.
fn accounted(config: MixConfig, idle_ns: Option<u64>) -> RunReport<Accounted> {
    let idle_timeout = idle_ns.map(IdleTimeout::from_ns);
    let config_of_run = EngineConfig { idle_timeout, ..EngineConfig::new(Layout::Inline) };
    let timeouts = idle_timeout.map_or(Timeouts::NEVER, IdleTimeout::for_table);
    let table = |_| LineHash::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(50_000) });
    let mut source = Generated::new(Mix::new(config).unwrap());
    let mut placement = DirectHash::new(WorkerCount::new(1).unwrap());
    let app = |_| Accounting::new(Some(100_000_000));
    run(&config_of_run, &mut source, &mut placement, table, app, &Control::default()).unwrap()
}

/// Returns a time as NTP seconds and their fraction, rounded up.
fn ntp(time_ns: u64) -> Vec<u8> {
    let fraction = (u128::from(time_ns % 1_000_000_000) << 32).div_ceil(1_000_000_000);
    let seconds = u32::try_from(time_ns / 1_000_000_000 + 2_208_988_800).unwrap();
    [seconds.to_be_bytes(), u32::try_from(fraction).unwrap().to_be_bytes()].concat()
}

/// An expected record: its template, and each value as bytes on the wire.
fn expected(key: &FlowKey, record: &Accounted, ended: EndedBy) -> (u16, Vec<Vec<u8>>) {
    let (there, back) = if record.source_direction() == Direction::LowToHigh { (0, 1) } else { (1, 0) };
    let (low, high) = ((key.low_address(), key.low_port()), (key.high_address(), key.high_port()));
    let (from, to) = if there == 0 { (low, high) } else { (high, low) };
    let is_icmp = matches!(key.protocol(), 1 | 58);
    let octets = |address: std::net::IpAddr| match address {
        std::net::IpAddr::V4(v4) => v4.octets().to_vec(),
        std::net::IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let port = |port: u16| if is_icmp { vec![0, 0] } else { port.to_be_bytes().to_vec() };
    let mut values = vec![
        octets(from.0),
        octets(to.0),
        port(from.1),
        port(to.1),
        vec![key.protocol()],
        (record.times_ns().0 / 1_000_000).to_be_bytes().to_vec(),
        (record.times_ns().1 / 1_000_000).to_be_bytes().to_vec(),
        ntp(record.times_ns().0),
        ntp(record.times_ns().1),
    ];
    for way in [back, there] {
        values.push(record.packets()[way].to_be_bytes().to_vec());
        values.push(record.ip_bytes()[way].to_be_bytes().to_vec());
        values.push(record.bytes()[way].to_be_bytes().to_vec());
        values.push(record.flags()[way].to_be_bytes().to_vec());
    }
    let message = record.icmp().unwrap_or_default();
    assert!(!is_icmp || [[0, 0], [8, 0], [128, 0], [129, 0]].contains(&message), "{message:?}");
    values.push(message.to_vec());
    let zone = key.zone();
    let [outer, inner] = if zone < 4096 { [zone, 0] } else { [zone >> 12, zone & 0xFFF] };
    values.extend([outer, outer, inner].map(|vlan| u16::try_from(vlan).unwrap().to_be_bytes().to_vec()));
    values.push(zone.to_be_bytes().to_vec());
    let code = match EndReason::from_record(record, ended) {
        EndReason::Idle => 1,
        EndReason::Active => 2,
        EndReason::Fin | EndReason::Reset => 3,
        EndReason::EndOfInput => 4,
        other => panic!("a reason without a code: {other:?}"),
    };
    let is_known = record.direction_basis() != DirectionBasis::Arbitrary;
    // No flow is divided by an index of ESP.
    values.extend([vec![code], vec![u8::from(is_known)], vec![0; 4]]);
    (if from.0.is_ipv4() { 256 } else { 257 }, values)
}

/// Returns a value as bytes on the wire.
fn wire(value: &FieldValue) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.write_be_bytes(&mut bytes).unwrap();
    bytes
}

/// Reads a file message by message, checks headers and templates, and returns the records.
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
                        named(9, "ReversePacketDeltaCount");
                        named(10, "ReverseOctetDeltaCount");
                        named(14, "(OctetDeltaCount)");
                        named(15, "Layer2octetDeltaCount");
                        named(7, "FlowStartNanoseconds");
                        named(17, "IcmpTypeCode");
                        named(18, "VlanId");
                        named(20, "Dot1qCustomerVlanId");
                        named(22, "FlowEndReason");
                        named(23, "BiflowDirection");
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
        let report = accounted(config, idle_ns);
        let last_ns = report.input.last_ns;
        let mut writer = IpfixWriter::new(Vec::new(), last_ns, &columns());
        for record in &report.flows {
            writer.write(&AccountingRecord::new(&record.key, &record.state, record.ended).row()).unwrap();
        }
        let file = writer.finish().unwrap();
        let expected: Vec<_> = report
            .flows
            .iter()
            .map(|record| expected(&record.key, &record.state, record.ended))
            .collect();
        let found = read(&file, u32::try_from(last_ns / 1_000_000_000).unwrap());
        prop_assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn messages_are_filled_up_to_the_limit() {
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::IdleTimeout).row();
    for records in [1, 100, 1000] {
        let mut writer = IpfixWriter::new(Vec::new(), 0, &columns());
        for _ in 0..records {
            writer.write(&record).unwrap();
        }
        let file = writer.finish().unwrap();
        let (mut lengths, mut at) = (Vec::new(), 0);
        while at < file.len() {
            lengths.push(usize::from(u16::from_be_bytes([file[at + 2], file[at + 3]])));
            at += lengths[lengths.len() - 1];
        }
        // A record has 95 bytes, and the header of a set four.
        let (last, full) = lengths.split_last().expect("there is a message");
        assert!(full.iter().all(|length| (16_384 - 99..=16_384).contains(length)), "{lengths:?}");
        assert!((95..=16_384).contains(last), "{lengths:?}");
    }
}

#[test]
fn a_file_without_records_has_its_templates() {
    let file = IpfixWriter::new(Vec::new(), 7_000_000_000, &columns()).finish().unwrap();
    assert_eq!(read(&file, 7).len(), 0);
    assert!(file.len() > 100);
}

#[test]
fn sampling_is_a_record_of_options_before_all_others() {
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::IdleTimeout).row();
    let mut writer = IpfixWriter::new(Vec::new(), 0, &columns());
    writer.write_sampling(100).unwrap();
    writer.write(&record).unwrap();
    let file = writer.finish().unwrap();
    let length = usize::from(u16::from_be_bytes([file[2], file[3]]));
    let mut parser = NetflowParser::default();
    let first = parser.parse_bytes(&file[..length]);
    let [NetflowPacket::IPFix(message)] = &first.packets[..] else { panic!("{first:?}") };
    let [.., FlowSetBody::OptionsData(data)] =
        &message.flowsets.iter().map(|set| set.body.clone()).collect::<Vec<_>>()[..]
    else {
        panic!("{message:?}")
    };
    let values: Vec<_> = data.fields[0].iter().map(|(_, value)| wire(value)).collect();
    let four = |number: u32| number.to_be_bytes().to_vec();
    assert_eq!(values, [four(0), four(100), vec![1], vec![0, 1], four(1), four(99)]);
    let second = parser.parse_bytes(&file[length..]);
    let [NetflowPacket::IPFix(message)] = &second.packets[..] else { panic!("{second:?}") };
    assert_eq!(message.header.sequence_number, 1, "the record of options counts");
}

#[test]
fn losses_of_interfaces_are_records_of_options() {
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::IdleTimeout).row();
    let losses: Vec<CaptureLosses> = (0..100)
        .map(|at| CaptureLosses {
            interface: at,
            name: "é".repeat(at as usize * 2 + 1),
            lost: u64::from(at) << 40,
        })
        .collect();
    for datagram_bytes in [16 << 10, 512] {
        let mut writer = IpfixWriter::new(Vec::new(), 0, &columns()).for_datagrams(datagram_bytes);
        writer.write(&record).unwrap();
        writer.write_losses(&losses).unwrap();
        writer.write(&record).unwrap();
        let file = writer.finish().unwrap();
        let (mut parser, mut bytes) = (NetflowParser::default(), &file[..]);
        let (mut sequence, mut found) = (0, 0);
        while !bytes.is_empty() {
            let length = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
            assert!(length <= datagram_bytes);
            let (message, rest) = bytes.split_at(length);
            bytes = rest;
            let parsed = parser.parse_bytes(message);
            assert!(parsed.error.is_none(), "{:?}", parsed.error);
            let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else { panic!("{parsed:?}") };
            assert_eq!(message.header.sequence_number as usize, sequence);
            for set in &message.flowsets {
                match &set.body {
                    FlowSetBody::Data(data) => sequence += data.fields.len(),
                    FlowSetBody::OptionsData(data) => {
                        for fields in &data.fields {
                            let expected = &losses[found];
                            let name = &expected.name[..expected.name.len().min(254)];
                            let values: Vec<_> = fields.iter().map(|(_, value)| wire(value)).collect();
                            assert_eq!(values[0], expected.interface.to_be_bytes());
                            assert_eq!(values[1], name.as_bytes());
                            assert_eq!(values[2], expected.lost.to_be_bytes());
                            found += 1;
                        }
                        sequence += data.fields.len();
                    }
                    _ => {}
                }
            }
        }
        assert_eq!((found, sequence), (100, 102));
    }
}

#[test]
fn times_may_be_in_microseconds() {
    let key =
        FlowKey::from_v4(1, 2, 0, 0, 1).0.with_message(0x0303, Direction::LowToHigh).with_zone(7 << 12 | 9);
    let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput).row();
    let mut writer = IpfixWriter::with_precision(Vec::new(), 0, &columns(), TimePrecision::Microseconds);
    writer.write(&record).unwrap();
    let file = writer.finish().unwrap();
    let has = |element: u16| {
        let field = [element.to_be_bytes(), 8_u16.to_be_bytes()].concat();
        file.windows(4).filter(|bytes| *bytes == field).count()
    };
    assert_eq!([154, 155, 156, 157].map(has), [2, 2, 0, 0]);
    assert!(
        file.ends_with(&[0, 7, 0, 7, 0, 9, 0, 0, 0x70, 9, 4, 0, 0, 0, 0, 0]),
        "VLANs, zone, reason, direction, SPI"
    );
}

/// Returns names and values of the record of a state.
fn read_back<F: RecordState>(state: &F) -> Vec<(String, Vec<u8>)> {
    let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 7, 443, 6);
    let mut row = Row::new(key);
    state.record_values(&key, EndedBy::EndOfInput, GroupSet::ALL, &mut row.values);
    let mut writer = IpfixWriter::new(Vec::new(), 0, &F::schema().of_groups(GroupSet::ALL));
    writer.write(&row).unwrap();
    let parsed = NetflowParser::default().parse_bytes(&writer.finish().unwrap());
    let [NetflowPacket::IPFix(message)] = &parsed.packets[..] else { panic!("one message: {parsed:?}") };
    let data = message.flowsets.iter().find_map(|set| match &set.body {
        FlowSetBody::Data(data) => data.fields.first(),
        _ => None,
    });
    data.unwrap().iter().map(|(name, value)| (format!("{name:?}"), wire(value))).collect()
}

#[test]
fn records_of_other_applications_have_the_elements_of_their_columns() {
    let tracked = read_back(&TcpFlow::default());
    let labelled = read_back(&L7Flow::default());
    for (record, count) in [(&tracked, 17), (&labelled, 9)] {
        assert_eq!(record.len(), count, "{record:?}");
        assert_eq!(record[0].1, [10, 0, 0, 1]);
        assert_eq!(record[3].1, [1, 187]);
    }
    let value = |record: &[(String, Vec<u8>)], name: &str| {
        record.iter().find(|(found, _)| found.contains(name)).map(|(_, value)| value.clone())
    };
    assert_eq!(value(&labelled, "ApplicationName"), Some(b"-".to_vec()));
    assert_eq!(value(&tracked, "ReversePacketDeltaCount"), Some(vec![0; 8]));
    assert_eq!(value(&tracked, "ApplicationName"), None);
}

/// Accepts some bytes and then returns an error.
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
    let mut writer = IpfixWriter::new(Full(20_000), 0, &columns());
    let key = FlowKey::from_v4(1, 2, 3, 4, 6).0;
    let record = AccountingRecord::new(&key, &Accounted::default(), EndedBy::IdleTimeout).row();
    let failed = (0..1000).find_map(|_| writer.write(&record).err());
    assert_eq!(failed.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
    assert!(IpfixWriter::new(Full(10), 0, &columns()).finish().is_err());
}

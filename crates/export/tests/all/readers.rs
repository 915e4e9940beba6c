//! Every format is read by an independent parser.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::net::{TcpListener, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flowloom_apps::Accounting;
use flowloom_apps::accounting::{Accounted, AccountingRecord, EndedBy};
use flowloom_engine::App;
use flowloom_export::record::{GroupSet, Row, Schema, SchemaColumn};
use flowloom_export::{
    CsvWriter, EveWriter, IpfixWriter, JsonWriter, Netflow9Writer, RecordWriter, TcpCollector,
    UdpCollector, UdpOptions, ZeekWriter,
};
use flowloom_flow_key::{FiveTuple, FlowKey};
use flowloom_packet::{Headers, PacketView};
use netflow_parser::variable_versions::v9::FlowSetBody as V9Body;
use netflow_parser::{FieldValue, NetflowPacket, NetflowParser};
use serde_json::Value;

/// Output that can be inspected while it is written.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes()).unwrap()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns the record of a TCP connection of three packets forward and two back; every third is of
/// IPv6.
fn record(number: u32) -> AccountingRecord {
    let port = 1024 + (number % 60_000) as u16;
    let [.., high, low] = number.to_be_bytes();
    let tuple = if number % 3 == 2 {
        FiveTuple::v6([low; 16], [9; 16], port, 443, 6)
    } else {
        FiveTuple::v4([10, 0, high, low], [192, 0, 2, 1], port, 443, 6)
    };
    let (key, forward): (FlowKey, _) = tuple.canonical();
    let mut flow = Accounted::default();
    let mut app = Accounting::default();
    let start_ns = 1_700_000_000_123_456_789 + u64::from(number) * 1_000_000;
    for (at, is_forward, flags) in
        [(0, true, 2), (1, false, 18), (2, true, 16), (3, true, 17), (4, false, 17)]
    {
        let mut headers = Headers::new(key, if is_forward { forward } else { forward.reversed() });
        headers.tcp_flags = flags;
        app.on_packet(&PacketView::new(&[], headers, start_ns + at * 1_000_000, 60), &mut flow);
    }
    AccountingRecord::new(&key, &flow, EndedBy::IdleTimeout)
}

fn schema() -> Schema {
    AccountingRecord::schema()
}

fn columns() -> Vec<SchemaColumn> {
    schema().of_groups(GroupSet::SHOWN)
}

fn row(number: u32) -> Row {
    record(number).row()
}

#[test]
fn csv_and_json_have_the_same_values() {
    let (csv, json) = (Shared::default(), Shared::default());
    let mut writers: [Box<dyn RecordWriter>; 2] = [
        Box::new(CsvWriter::new(csv.clone(), &columns())),
        Box::new(JsonWriter::new(json.clone(), &columns())),
    ];
    for writer in &mut writers {
        (0..50).for_each(|number| writer.write(&row(number)).unwrap());
        writer.finish().unwrap();
    }
    let (csv, json) = (csv.text(), json.text());
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let headers = reader.headers().unwrap().clone();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    assert_eq!((rows.len(), json.lines().count()), (50, 50));
    for (row, line) in rows.iter().zip(json.lines()) {
        let object: Value = serde_json::from_str(line).unwrap();
        assert_eq!(object.as_object().unwrap().len(), headers.len());
        for (name, field) in headers.iter().zip(row) {
            let same = match &object[name] {
                Value::Null => field.is_empty(),
                Value::String(text) => text == field,
                Value::Number(number) => {
                    let bits = field.strip_prefix("0x").map(|bits| u64::from_str_radix(bits, 16).unwrap());
                    number.as_u64() == bits.or_else(|| field.parse().ok())
                }
                _ => false,
            };
            assert!(same, "{name}: {field} and {}", object[name]);
        }
    }
}

#[test]
fn a_log_of_zeek_has_a_field_for_each_name() {
    let out = Shared::default();
    let mut writer = ZeekWriter::new(out.clone(), &schema(), &[]).unwrap();
    (0..9).for_each(|number| writer.write(&row(number)).unwrap());
    writer.finish().unwrap();
    let text = out.text();
    let heading =
        |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().split('\t').count() - 1;
    assert_eq!((heading("#fields"), heading("#types")), (22, 22));
    let lines: Vec<Vec<&str>> =
        text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect()).collect();
    assert_eq!(lines.len(), 9);
    for line in &lines {
        assert_eq!(line.len(), 22);
        assert_eq!((line[6], line[11], line[16], line[18]), ("tcp", "SF", "3", "2"));
        assert_eq!((line[0].len(), line[8]), (17, "0.004000"));
    }
    let mut ids: Vec<&str> = lines.iter().map(|line| line[1]).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 9);
}

#[test]
fn eve_event_names_both_endpoints() {
    let out = Shared::default();
    let mut writer = EveWriter::new(out.clone(), &schema(), &[]).unwrap();
    writer.write(&row(1)).unwrap();
    writer.finish().unwrap();
    let event: Value = serde_json::from_str(out.text().trim()).unwrap();
    assert_eq!((&event["event_type"], &event["proto"]), (&"flow".into(), &"TCP".into()));
    assert_eq!((&event["src_ip"], &event["dest_port"]), (&"10.0.0.1".into(), &443.into()));
    assert_eq!(event["flow"]["pkts_toserver"], 3);
    assert_eq!(event["flow"]["state"], "closed");
    assert_eq!((&event["tcp"]["tcp_flags"], &event["tcp"]["syn"]), (&"13".into(), &true.into()));
}

/// Returns how many data records another parser finds in datagrams or messages, and the sum of a
/// field in them.
fn count_records(messages: &[Vec<u8>]) -> usize {
    let mut parser = NetflowParser::default();
    let mut records = 0;
    for message in messages {
        for packet in parser.parse_bytes(message).packets {
            records += match packet {
                NetflowPacket::V9(v9) => v9
                    .flowsets
                    .iter()
                    .map(|set| match &set.body {
                        V9Body::Data(data) => data.fields.len(),
                        _ => 0,
                    })
                    .sum(),
                NetflowPacket::IPFix(ipfix) => ipfix
                    .flowsets
                    .iter()
                    .map(|set| match &set.body {
                        netflow_parser::variable_versions::ipfix::FlowSetBody::Data(data) => {
                            data.fields.len()
                        }
                        _ => 0,
                    })
                    .sum(),
                _ => 0,
            };
        }
    }
    records
}

/// Returns a number of a record of NetFlow v9.
fn number(value: &FieldValue) -> u64 {
    let mut bytes = Vec::new();
    value.write_be_bytes(&mut bytes).unwrap();
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Returns start and end, in milliseconds since 1970, packets and IP bytes of each record.
fn netflow9_numbers(packets: &[Vec<u8>]) -> Vec<[u64; 4]> {
    let mut parser = NetflowParser::default();
    let mut records = Vec::new();
    for packet in packets {
        for packet in parser.parse_bytes(packet).packets {
            let NetflowPacket::V9(v9) = packet else { panic!("{packet:?}") };
            let boot_ms = u64::from(v9.header.unix_secs) * 1000 - u64::from(v9.header.sys_up_time);
            for set in v9.flowsets {
                let V9Body::Data(data) = set.body else { continue };
                for record in data.fields {
                    let [start, end, packets, bytes] = [6, 7, 8, 9].map(|at| number(&record[at].1));
                    records.push([boot_ms + start, boot_ms + end, packets, bytes]);
                }
            }
        }
    }
    records
}

/// Sends records to a socket on the loopback, and returns the datagrams.
fn datagrams(write: impl FnOnce(UdpCollector)) -> Vec<Vec<u8>> {
    let socket = UdpSocket::bind(("127.0.0.1", 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let collector = UdpCollector::connect(socket.local_addr().unwrap(), UdpOptions::default()).unwrap();
    let receiver = std::thread::spawn(move || {
        let (mut all, mut buffer) = (Vec::new(), vec![0; 65_536]);
        while let Ok(bytes) = socket.recv(&mut buffer) {
            all.push(buffer[..bytes].to_vec());
        }
        all
    });
    write(collector);
    receiver.join().unwrap()
}

#[test]
fn datagrams_of_ipfix_fit_a_frame_and_carry_every_record() {
    let all = datagrams(|collector| {
        let mut writer = IpfixWriter::new(collector, 0, &columns()).for_datagrams(1400);
        (0..500).for_each(|number| RecordWriter::write(&mut writer, &row(number)).unwrap());
        RecordWriter::finish(&mut writer).unwrap();
    });
    assert!(all.len() > 16 && all.iter().all(|datagram| datagram.len() <= 1400));
    assert_eq!(count_records(&all), 500);
    // A collector that begins to listen late gets the templates soon.
    let late = count_records(&all[1..]);
    assert!(late > 0 && late < 500, "{late}");
}

#[test]
fn netflow_has_a_record_for_each_direction() {
    let all = datagrams(|collector| {
        let mut writer = Netflow9Writer::new(collector, &schema()).unwrap();
        (0..300).for_each(|number| writer.write(&row(number)).unwrap());
        writer.finish().unwrap();
    });
    assert!(all.iter().all(|datagram| datagram.len() <= 1400));
    assert_eq!(count_records(&all), 600);
}

#[test]
fn times_of_netflow_are_right_over_years_in_any_order() {
    const YEAR_NS: u64 = 365 * 24 * 3600 * 1_000_000_000;
    const WEEKS_MS: u64 = u32::MAX as u64 - 3_604_000;
    let mut expected = Vec::new();
    let all = datagrams(|collector| {
        let mut writer = Netflow9Writer::new(collector, &schema()).unwrap();
        for (i, years) in [10, 0, 10, 3, 11, 3, 3, 0, 40, 1].into_iter().enumerate() {
            let mut record = record(u32::try_from(i).unwrap());
            // The last two records last very long; their start is seven weeks before their end.
            record.start_ns -= YEAR_NS * years;
            record.end_ns -= if i < 8 { YEAR_NS * years } else { 0 };
            let [start, end] = [record.start_ns, record.end_ns].map(|ns| ns / 1_000_000);
            let times = [start.max(end - WEEKS_MS), end];
            for (packets, bytes) in
                [(record.packets, record.ip_bytes), (record.reverse_packets, record.reverse_ip_bytes)]
            {
                expected.push([times[0], times[1], packets, bytes]);
            }
            writer.write(&record.row()).unwrap();
        }
        writer.finish().unwrap();
    });
    assert_eq!(netflow9_numbers(&all), expected);
}

#[test]
fn absent_collector_is_counted_and_one_that_stops_reading_is_an_error() {
    // A port that was free a moment ago.
    let unused = UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let connect = || UdpCollector::connect(unused, UdpOptions::default()).unwrap();
    let (ipfix, netflow) = (connect(), connect());
    let counters = [ipfix.counters(), netflow.counters()];
    let ipfix = IpfixWriter::new(ipfix, 0, &columns()).for_datagrams(1400);
    let writers: [Box<dyn RecordWriter>; 2] =
        [Box::new(ipfix), Box::new(Netflow9Writer::new(netflow, &schema()).unwrap())];
    for (mut writer, counters) in writers.into_iter().zip(counters) {
        for number in 0..200 {
            writer.write(&row(number)).unwrap();
        }
        writer.finish().unwrap();
        assert!(counters.refused() > 10, "{counters:?}");
        assert_eq!((counters.sent(), counters.lost_records()), (0, 200), "{counters:?}");
    }

    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let collector = TcpCollector::connect(listener.local_addr().unwrap()).unwrap();
    let (_silent, _) = listener.accept().unwrap();
    let mut writer = IpfixWriter::new(collector, 0, &columns());
    let error =
        (0..10_000_000).find_map(|number| RecordWriter::write(&mut writer, &row(number % 1000)).err());
    assert!(
        error.unwrap().to_string().contains("has accepted no data"),
        "the buffers of a connection are finite"
    );
}

#[cfg(feature = "parquet")]
mod parquet {
    use std::fs::File;

    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::{Field, RowAccessor};
    use flowloom_export::ParquetWriter;

    use super::*;

    fn rows(path: &std::path::Path) -> (usize, u64, usize) {
        let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
        let groups = reader.num_row_groups();
        let column = columns().iter().position(|column| column.column.name == "packets").unwrap();
        let start = columns().iter().position(|column| column.column.name == "start").unwrap();
        let (mut count, mut packets) = (0, 0);
        for (number, row) in (0..).zip(reader.get_row_iter(None).unwrap()) {
            let row = row.unwrap();
            count += 1;
            packets += row.get_ulong(column).unwrap();
            let expected = record(number).start_ns;
            assert_eq!(row.get_long(start).map_or(expected, i64::cast_unsigned), expected);
        }
        (count, packets, groups)
    }

    #[test]
    fn a_file_can_be_read_after_each_flush() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.parquet");
        let mut writer = ParquetWriter::new(File::create(&path).unwrap(), &columns()).unwrap();
        writer.flush().unwrap();
        assert_eq!(rows(&path), (0, 0, 0));
        for number in 0..1000 {
            writer.write(&row(number)).unwrap();
            if number % 100 == 99 {
                writer.flush().unwrap();
                let written = number as usize + 1;
                assert_eq!(rows(&path), (written, 3 * written as u64, 1), "flushes do not make row groups");
            }
        }
        writer.finish().unwrap();
        assert_eq!(rows(&path), (1000, 3000, 1));
        drop(writer);
        assert_eq!(rows(&path).0, 1000);
    }

    #[test]
    fn times_that_the_type_does_not_hold_are_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.parquet");
        let mut writer = ParquetWriter::new(File::create(&path).unwrap(), &columns()).unwrap();
        let mut late = record(0);
        late.end_ns = u64::MAX;
        writer.write(&late.row()).unwrap();
        writer.write(&row(1)).unwrap();
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let end = columns().iter().position(|column| column.column.name == "end").unwrap();
        let is_null: Vec<bool> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| matches!(row.unwrap().get_column_iter().nth(end).unwrap().1, Field::Null))
            .collect();
        assert_eq!(is_null, [true, false]);
    }

    #[test]
    fn full_row_groups_stay_in_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("flows.parquet");
        let mut writer = ParquetWriter::new(File::create(&path).unwrap(), &columns()).unwrap();
        let row = row(0);
        for number in 0..300_000 {
            writer.write(&row).unwrap();
            if number % 70_000 == 0 {
                writer.flush().unwrap();
            }
        }
        writer.finish().unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let groups: Vec<i64> = reader
            .metadata()
            .row_groups()
            .iter()
            .map(::parquet::file::metadata::RowGroupMetaData::num_rows)
            .collect();
        assert_eq!(groups, [131_072, 131_072, 37_856]);
        assert_eq!(reader.get_row_iter(None).unwrap().count(), 300_000);
    }
}

//! Additional fields in the formats with special places for them: IPFIX, EVE and Zeek.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::Write;
use std::sync::{Arc, Mutex};

use flowloom_apps::RecordState as _;
use flowloom_apps::accounting::fields::{AllFields, Detailed, all_columns};
use flowloom_apps::accounting::{Accounted, AccountingRecord, EndedBy};
use flowloom_export::record::{Column, Group, GroupSet, Kind, Row, Schema, SchemaColumn, Value};
use flowloom_export::{CsvWriter, EveWriter, IpfixWriter, JsonWriter, RecordWriter, ZeekWriter};
use flowloom_flow_key::FlowKey;
use serde_json::Value as Json;

/// Output that can be inspected after the writer has taken it.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
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

fn schema() -> Schema {
    Detailed::<AllFields>::schema()
}

fn fields() -> Vec<SchemaColumn> {
    schema().of_groups(GroupSet::FIELDS)
}

/// Returns a row with these values of additional fields, and empty ones for the others.
fn row(named: &[(&str, Value)]) -> Row {
    let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 443, 6);
    let mut row = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput).row();
    let value = |column: &Column| {
        named.iter().find(|(name, _)| *name == column.name).map_or(Value::None, |(_, v)| v.clone())
    };
    row.values.extend(all_columns().iter().map(value));
    row
}

fn text(text: &str) -> Value {
    Value::Text(text.into())
}

#[test]
fn eve_event_has_the_objects_of_suricata() {
    let out = Shared::default();
    let mut writer = EveWriter::new(out.clone(), &schema(), &fields()).unwrap();
    let tls = row(&[
        ("tls_sni", text("example.org")),
        ("tls_alpn", text("h2,http/1.1")),
        ("size_min", Value::Number(60)),
    ]);
    let ssh = row(&[("ssh_client", text("a")), ("ssh_server", text("b_1 comment x"))]);
    let http = row(&[("http_host", text("h:81")), ("http_status", Value::Number(404))]);
    for values in [&tls, &ssh, &http, &row(&[])] {
        writer.write(values).unwrap();
    }
    let events: Vec<Json> = out.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        events[0]["tls"],
        serde_json::json!({"sni": "example.org", "client_alpns": ["h2", "http/1.1"]})
    );
    assert_eq!((&events[0]["app_proto"], events[0].get("size_min")), (&"tls".into(), None));
    assert_eq!(events[1]["ssh"]["client"]["software_version"], "a");
    assert_eq!(events[1]["ssh"]["server"]["software_version"], "b_1");
    assert_eq!(events[2]["http"], serde_json::json!({"hostname": "h", "http_port": 81, "status": 404}));
    assert!(
        ["app_proto", "tls", "http", "ssh", "dns", "quic"].iter().all(|key| events[3].get(key).is_none())
    );
}

#[test]
fn eve_protocol_name_with_a_comma_is_one_name() {
    let out = Shared::default();
    let mut writer = EveWriter::new(out.clone(), &schema(), &fields()).unwrap();
    writer.write(&row(&[("tls_alpn", text(r"a\x2cb,c,\\x2c,\\\x2c,\x00"))])).unwrap();
    let event: Json = serde_json::from_str(out.text().trim()).unwrap();
    let names = ["a,b", "c", r"\\x2c", r"\\,", r"\x00"];
    assert_eq!(event["tls"]["client_alpns"], serde_json::json!(names));
}

#[test]
fn eve_event_has_the_values_of_suricata() {
    let label = Column::new("l7_protocol", Kind::Word(&[]), "").in_group(Group::Label);
    let schema = Schema::new([schema().columns(), &[label]].concat());
    let columns = schema.of_groups([Group::Label, Group::Extra, Group::Dns].into_iter().collect());
    let out = Shared::default();
    let mut writer = EveWriter::new(out.clone(), &schema, &columns).unwrap();
    let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 53, 17);
    let mut row = AccountingRecord::new(&key, &Accounted::default(), EndedBy::EndOfInput).row();
    row.values.resize(schema.columns().len(), Value::None);
    let mut event = |values: &[(&str, Value)]| -> Json {
        let mut row = row.clone();
        for (name, value) in values {
            row.values[schema.named(name).unwrap().index] = value.clone();
        }
        writer.write(&row).unwrap();
        serde_json::from_str(out.text().lines().last().unwrap()).unwrap()
    };
    let number = Value::Number;
    let second = event(&[
        ("start", number(1_900_000_000)),
        ("end", number(2_100_000_000)),
        ("packets", number(1)),
        ("bytes", number(60)),
        ("ip_bytes", number(29)),
        ("community_id", text("1:x")),
    ]);
    let flow = &second["flow"];
    assert_eq!(
        (&flow["age"], &flow["bytes_toserver"], &flow["state"]),
        (&1.into(), &60.into(), &"new".into())
    );
    assert_eq!((&second["app_proto"], &second["community_id"]), (&"failed".into(), &"1:x".into()));
    let labelled = |name| event(&[("l7_protocol", Value::Word(name))])["app_proto"].clone();
    assert_eq!(["dns-tcp", "vnc", "-"].map(labelled), [Json::from("dns"), "rfb".into(), Json::Null]);
    let dns = event(&[
        ("dns_queries", text("a.example A;b.example AAAA;…")),
        ("dns_answers", text("a.example 60 A 192.0.2.1;. 1 TXT")),
    ]);
    let one = serde_json::json!({"rrname": "a.example", "rrtype": "A", "ttl": 60, "rdata": "192.0.2.1"});
    assert_eq!((&dns["app_proto"], &dns["dns"]["answers"][0]), (&"dns".into(), &one));
    assert_eq!(dns["dns"]["queries"][1], serde_json::json!({"rrname": "b.example", "rrtype": "AAAA"}));
    assert_eq!(
        (&dns["dns"]["queries"][2], &dns["dns"]["answers"][1]["rrtype"]),
        (&"…".into(), &"TXT".into())
    );
    let mut tcp = |there: u64, back: u64, end: &'static str| {
        let flags = [("tcp_flags", Value::Bits(there)), ("reverse_tcp_flags", Value::Bits(back))];
        let event =
            event(&[&flags[..], &[("protocol", number(6)), ("end_reason", Value::Word(end))]].concat());
        (
            event["tcp"]["state"].as_str().unwrap().to_owned(),
            event["flow"]["state"].as_str().unwrap().to_owned(),
        )
    };
    for (there, back, end, states) in [
        (0x02, 0, "end", ["syn_sent", "new"]),
        (0x02, 0x12, "end", ["syn_recv", "new"]),
        (0x1A, 0x12, "end", ["established", "established"]),
        (0x1B, 0x1A, "idle_timeout", ["close_wait", "established"]),
        (0x1A, 0x1B, "idle_timeout", ["fin_wait2", "established"]),
        (0x1B, 0x1B, "fin", ["closed", "closed"]),
        (0x02, 0x14, "reset", ["closed", "closed"]),
    ] {
        assert_eq!(tcp(there, back, end), (states[0].into(), states[1].into()), "{there:x} {back:x} {end}");
    }
    for (open_fin, state) in [("source", "time_wait"), ("destination", "last_ack"), ("both", "closing")] {
        let fin = [
            ("protocol", number(6)),
            ("end_reason", Value::Word("fin")),
            ("open_fin", Value::Word(open_fin)),
        ];
        assert_eq!(event(&fin)["tcp"]["state"], state, "{open_fin}");
    }
    let response = [
        ("dns_query", text("a")),
        ("source_port", number(53)),
        ("destination_port", number(4000)),
        ("packets", number(2)),
        ("direction", Value::Word("first_packet")),
    ];
    let response = event(&response);
    assert_eq!((&response["src_port"], &response["flow"]["pkts_toclient"]), (&4000.into(), &2.into()));
    assert_eq!(event(&[("protocol", number(50)), ("spi", number(123))])["spi"], 123);
}

#[test]
fn a_log_of_zeek_names_the_service() {
    let out = Shared::default();
    let mut writer = ZeekWriter::new(out.clone(), &schema(), &fields()).unwrap();
    writer.write(&row(&[("tls_version", text("TLS 1.3"))])).unwrap();
    writer.write(&row(&[("size_min", Value::Number(1))])).unwrap();
    let log = out.text();
    let services: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').nth(7).unwrap())
        .collect();
    assert_eq!(services, ["ssl", "-"]);
}

#[test]
fn every_format_writes_or_omits_each_group() {
    for column in all_columns() {
        let is_application = column.group.is_payload();
        let ours = ["quic_alpn", "quic_ech", "tls_ech", "dns_responses", "dns_unanswered"];
        let is_ours = ours.contains(&column.name);
        assert_eq!(EveWriter::takes(&column), is_application && !is_ours, "{}", column.name);
        let has_place = is_application || column.group == Group::Conn;
        assert_eq!(ZeekWriter::takes(&column), has_place, "{}", column.name);
    }
}

#[test]
fn control_characters_stay_on_their_line() {
    let (csv, json) = (Shared::default(), Shared::default());
    let columns = || schema().of_groups(GroupSet::SHOWN.union(GroupSet::FIELDS));
    let odd = row(&[("http_host", text("a,\"b\"\nc"))]);
    let mut writers: [Box<dyn RecordWriter>; 2] = [
        Box::new(CsvWriter::new(csv.clone(), &columns())),
        Box::new(JsonWriter::new(json.clone(), &columns())),
    ];
    for writer in &mut writers {
        writer.write(&odd).unwrap();
        writer.finish().unwrap();
    }
    let csv = csv.text();
    let mut reader = csv::Reader::from_reader(csv.as_bytes());
    let at = reader.headers().unwrap().iter().position(|name| name == "http_host").unwrap();
    assert_eq!(&reader.records().next().unwrap().unwrap()[at], "a,\"b\"\nc");
    let line: Json = serde_json::from_str(json.text().trim_end()).unwrap();
    assert_eq!(line["http_host"], "a,\"b\"\nc");
}

/// Reads messages by their templates, and returns the values that follow those of records without
/// fields. The parser of the other tests drops records with empty strings.
fn read_back(mut bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let word = |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let (mut lengths, mut records) = (Vec::new(), Vec::new());
    while !bytes.is_empty() {
        let (message, rest) = bytes.split_at(word(bytes, 2));
        bytes = rest;
        let mut sets = &message[16..];
        while !sets.is_empty() {
            let (set, rest) = sets.split_at(word(sets, 2));
            sets = rest;
            let mut at = 4;
            if word(set, 0) == 2 {
                assert_eq!(word(set, at), 256);
                lengths.clear();
                at += 4;
                for _ in 0..word(set, 6) {
                    lengths.push(word(set, at + 2));
                    at += if set[at] & 0x80 == 0 { 4 } else { 8 };
                }
                continue;
            }
            while at < set.len() {
                let mut record = Vec::new();
                for &length in &lengths {
                    let mut length = length;
                    if length == 65_535 {
                        (length, at) = (usize::from(set[at]), at + 1);
                        if length == 255 {
                            (length, at) = (word(set, at), at + 2);
                        }
                    }
                    record.push(set[at..at + length].to_vec());
                    at += length;
                }
                records.push(record.split_off(24));
            }
        }
    }
    records
}

#[test]
fn ipfix_exports_every_field_with_an_element_and_texts_of_any_length() {
    let groups = [Group::Default, Group::Internal, Group::Sizes, Group::Gaps, Group::Http, Group::Dns];
    let columns = schema().of_groups(groups.into_iter().collect());
    let is_field = |found: &&SchemaColumn| GroupSet::FIELDS.contains(found.column.group);
    let elements =
        columns.iter().filter(is_field).filter(|found| !found.column.elements.is_empty()).count();
    assert_eq!(elements, 4 + 5);
    for datagrams in [false, true] {
        let writer = IpfixWriter::new(Vec::new(), 0, &columns);
        let mut writer = if datagrams { writer.for_datagrams(0) } else { writer };
        let lengths = [0, 1, 253, 254, 255, 300];
        for length in lengths {
            let value = |column: &Column| match (column.name, column.kind) {
                ("http_status", _) => Value::Number(404),
                ("http_user_agent", _) => Value::None,
                (_, Kind::Text) => Value::Text("x".repeat(length).into()),
                _ => Value::Number(60),
            };
            let mut row = row(&[]);
            let core = row.values.len() - all_columns().len();
            row.values.truncate(core);
            row.values.extend(all_columns().iter().map(value));
            writer.write(&row).unwrap();
        }
        let bytes = writer.finish().unwrap();
        let records = read_back(&bytes);
        assert_eq!(records.len(), lengths.len());
        for (record, length) in records.iter().zip(lengths) {
            let size = 60_u64.to_be_bytes().to_vec();
            assert_eq!(record[..4], vec![size; 4]);
            let text = "x".repeat(length.min(255)).into_bytes();
            let expected = [text.clone(), text.clone(), text, Vec::new(), 404_u16.to_be_bytes().to_vec()];
            assert_eq!(record[4..], expected, "{length}");
        }
    }
}

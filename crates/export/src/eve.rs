//! Flow events in the format of Suricata's EVE log.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use flowloom_record::{Column, Row, Schema, SchemaColumn, Value, protocol_name};
use serde_json::{Value as Json, json};

use crate::RecordWriter;
use crate::flow_columns::{Flow, FlowColumns, MissingColumns};
use crate::service::Service;

/// Writes records as events of type `flow`, one JSON object per line, with the names of Suricata's
/// EVE log.
///
/// Bytes are those of IP packets. `flow_id` is derived from the flow's key and the record's start.
/// Fields of application protocols become the objects `tls`, `dns`, `http`, `quic` and `ssh` of the
/// flow event, and `app_proto`.
#[derive(Debug)]
pub struct EveWriter<W> {
    out: W,
    flow: FlowColumns,
    /// The columns of application protocols, and their places.
    services: Vec<SchemaColumn>,
    places: Vec<(usize, EvePlace)>,
}

/// A column and its position in EVE: the object, a nested object, and the key.
type EvePlace = (&'static str, &'static str, Option<&'static str>, &'static str);

const PLACES: [EvePlace; 15] = [
    ("tls_sni", "tls", None, "sni"),
    ("tls_alpn", "tls", None, "client_alpns"),
    ("tls_ja4", "tls", None, "ja4"),
    ("tls_version", "tls", None, "version"),
    ("dns_query", "dns", None, "rrname"),
    ("dns_query_type", "dns", None, "rrtype"),
    ("dns_response_code", "dns", None, "rcode"),
    ("http_method", "http", None, "http_method"),
    ("http_host", "http", None, "hostname"),
    ("http_target", "http", None, "url"),
    ("http_user_agent", "http", None, "http_user_agent"),
    ("http_status", "http", None, "status"),
    ("quic_version", "quic", None, "version"),
    ("ssh_client", "ssh", Some("client"), "software_version"),
    ("ssh_server", "ssh", Some("server"), "software_version"),
];

fn place_of(column: &Column) -> Option<EvePlace> {
    PLACES.into_iter().find(|(name, ..)| *name == column.name)
}

impl<W: Write> EveWriter<W> {
    /// Returns a writer of records with this schema. Those of `columns` that EVE [has](Self::takes)
    /// are part of the events, in addition to what every event has.
    ///
    /// # Errors
    ///
    /// The columns that EVE needs, and the schema lacks.
    pub fn new(out: W, schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        let places = columns.iter().filter_map(|found| Some((found.index, place_of(&found.column)?)));
        let services = columns.iter().filter(|found| Service::of(&found.column).is_some());
        Ok(Self {
            out,
            flow: FlowColumns::of(schema)?,
            places: places.collect(),
            services: services.copied().collect(),
        })
    }
}

impl EveWriter<()> {
    /// Returns whether EVE has a place for an additional field.
    #[must_use]
    pub fn takes(column: &Column) -> bool {
        place_of(column).is_some()
    }
}

impl<W: Write + Send> RecordWriter for EveWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        let mut event = event(row, &self.flow.read(row));
        if let Some(service) = Service::of_row(&self.services, row) {
            event["app_proto"] = service.suricata.into();
        }
        for (index, place) in &self.places {
            add(&mut event, place, row.value(*index));
        }
        serde_json::to_writer(&mut self.out, &event)?;
        self.out.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Adds an additional field to an event, if it has a value.
fn add(event: &mut Json, (name, object, inner, key): &EvePlace, value: &Value) {
    let value: Json = match value {
        Value::Text(text) if *name == "tls_alpn" => text.split(',').collect(),
        value => match (value.number(), value.text()) {
            (Some(number), _) => number.into(),
            (None, Some(text)) => text.into(),
            (None, None) => return,
        },
    };
    match inner {
        Some(inner) => event[object][inner][key] = value,
        None => event[object][key] = value,
    }
}

/// Returns a time in the format of EVE: `2026-11-25T17:00:00.000000+0000`.
fn timestamp(time_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(time_ns);
    let text = humantime::format_rfc3339_micros(time).to_string();
    text.strip_suffix('Z').map_or(text.clone(), |text| format!("{text}+0000"))
}

fn event(row: &Row, record: &Flow) -> Json {
    let [state, reason] = match record.end_reason {
        "fin" | "reset" => ["closed", "shutdown"],
        "end" => [lives(record), "shutdown"],
        "new_connection" => [lives(record), "tcp_reuse"],
        "evicted" => [lives(record), "forced"],
        _ => [lives(record), "timeout"],
    };
    let mut event = json!({
        "timestamp": timestamp(record.end_ns),
        "flow_id": crate::zeek::identity(row, record) >> 1,
        "event_type": "flow",
        "src_ip": record.source.to_string(),
        "dest_ip": record.destination.to_string(),
        "proto": protocol_name(record.protocol).map_or_else(|| record.protocol.to_string(), |name| {
            if name == "ipv6-icmp" { String::from("IPv6-ICMP") } else { name.to_ascii_uppercase() }
        }),
        "flow": {
            "pkts_toserver": record.packets,
            "pkts_toclient": record.reverse_packets,
            "bytes_toserver": record.ip_bytes,
            "bytes_toclient": record.reverse_ip_bytes,
            "start": timestamp(record.start_ns),
            "end": timestamp(record.end_ns),
            "age": (record.end_ns.saturating_sub(record.start_ns)) / 1_000_000_000,
            "state": state,
            "reason": reason,
            "alerted": false,
        },
    });
    if matches!(record.protocol, 6 | 17 | 33 | 132 | 136) {
        event["src_port"] = record.source_port.into();
        event["dest_port"] = record.destination_port.into();
    }
    let vlans: Vec<u16> = [record.vlan, record.customer_vlan].into_iter().flatten().collect();
    if !vlans.is_empty() {
        event["vlan"] = vlans.into();
    }
    if let Some([kind, code]) = record.icmp() {
        event["icmp_type"] = kind.into();
        event["icmp_code"] = code.into();
    }
    if record.protocol == 6 {
        event["tcp"] = tcp(record);
    }
    event
}

fn lives(record: &Flow) -> &'static str {
    if record.packets > 0 && record.reverse_packets > 0 { "established" } else { "new" }
}

fn tcp(record: &Flow) -> Json {
    let (to_server, to_client) = (record.tcp_flags & 0xFF, record.reverse_tcp_flags & 0xFF);
    let all = to_server | to_client;
    let mut tcp = json!({
        "tcp_flags": format!("{all:02x}"),
        "tcp_flags_ts": format!("{to_server:02x}"),
        "tcp_flags_tc": format!("{to_client:02x}"),
    });
    for (bit, name) in ["fin", "syn", "rst", "psh", "ack", "urg", "ecn", "cwr"].into_iter().enumerate() {
        if all >> bit & 1 == 1 {
            tcp[name] = true.into();
        }
    }
    tcp
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_microseconds_and_an_offset() {
        assert_eq!(timestamp(1_700_000_000_123_456_789), "2023-11-14T22:13:20.123456+0000");
    }
}

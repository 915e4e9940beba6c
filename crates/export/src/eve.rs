//! Flow events as Suricata's EVE log has them.

use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use flowloom_apps::accounting::{AccountingRecord, EndReason};
use serde_json::{Value, json};

use crate::RecordWriter;

/// Writes records as events of type `flow`, one JSON object a line, with the names of Suricata's
/// EVE log.
///
/// Bytes are those of IP packets. `flow_id` is drawn from the flow's key and the record's start.
#[derive(Debug)]
pub struct EveWriter<W> {
    out: W,
}

impl<W: Write> EveWriter<W> {
    /// Returns a writer.
    pub fn new(out: W) -> Self {
        Self { out }
    }
}

impl<W: Write + Send> RecordWriter for EveWriter<W> {
    fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, &event(record))?;
        self.out.write_all(b"\n")
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Returns a time in the format of EVE: `2026-11-25T17:00:00.000000+0000`.
fn timestamp(time_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(time_ns);
    let text = humantime::format_rfc3339_micros(time).to_string();
    text.strip_suffix('Z').map_or(text.clone(), |text| format!("{text}+0000"))
}

fn event(record: &AccountingRecord) -> Value {
    let [state, reason] = match record.end_reason {
        EndReason::Fin | EndReason::Reset => ["closed", "shutdown"],
        EndReason::EndOfInput => [lives(record), "shutdown"],
        EndReason::NewConnection => [lives(record), "tcp_reuse"],
        _ => [lives(record), "timeout"],
    };
    let mut event = json!({
        "timestamp": timestamp(record.end_ns),
        "flow_id": crate::zeek::identity(record) >> 1,
        "event_type": "flow",
        "src_ip": record.source.to_string(),
        "dest_ip": record.destination.to_string(),
        "proto": record.protocol_name().map_or_else(|| record.protocol.to_string(), |name| {
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
    let vlans: Vec<u16> = record.vlans.into_iter().flatten().collect();
    if !vlans.is_empty() {
        event["vlan"] = vlans.into();
    }
    if let Some([kind, code]) = record.icmp {
        event["icmp_type"] = kind.into();
        event["icmp_code"] = code.into();
    }
    if record.protocol == 6 {
        event["tcp"] = tcp(record);
    }
    event
}

fn lives(record: &AccountingRecord) -> &'static str {
    if record.packets > 0 && record.reverse_packets > 0 { "established" } else { "new" }
}

fn tcp(record: &AccountingRecord) -> Value {
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

//! Flow events in the format of Suricata's EVE log.

use std::io::Write;
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

use flowloom_record::{Column, Row, Schema, SchemaColumn, Value, protocol_name};
use serde_json::{Value as Json, json};

use crate::flow_columns::{Flow, FlowColumns, MissingColumns};
use crate::service::Service;
use crate::text::{TextRows, TextWriter};

/// Writes records as events of type `flow`, one JSON object per line, with the names and the
/// meaning of Suricata's EVE log.
///
/// Bytes are those of frames, and `age` is the difference of whole seconds. `flow_id` is derived
/// from the flow's key and the record's start. A flow that begins with a DNS response is of the
/// resolver's client, as for Suricata. Fields of application protocols become the objects
/// `tls`, `dns`, `http`, `quic` and `ssh` of the flow event, and `app_proto`, as does the label.
pub type EveWriter<W> = TextWriter<W, EveRows>;

/// Rows of flow events.
#[derive(Clone, Debug)]
pub struct EveRows {
    flow: FlowColumns,
    /// The columns of application protocols, and their places.
    services: Vec<SchemaColumn>,
    places: Vec<(usize, EvePlace)>,
    label: Option<usize>,
    community_id: Option<usize>,
}

/// The port of DNS.
const DNS: u16 = 53;

/// The columns of a protocol's name and of the Community ID.
const LABEL: &str = "l7_protocol";
const COMMUNITY_ID: &str = "community_id";

/// A column and its position in EVE: the object, a nested object, and the key.
type EvePlace = (&'static str, &'static str, Option<&'static str>, &'static str);

const PLACES: [EvePlace; 19] = [
    ("tls_sni", "tls", None, "sni"),
    ("tls_alpn", "tls", None, "client_alpns"),
    ("tls_ja4", "tls", None, "ja4"),
    ("tls_version", "tls", None, "version"),
    ("dns_query", "dns", None, "rrname"),
    ("dns_query_type", "dns", None, "rrtype"),
    ("dns_response_code", "dns", None, "rcode"),
    ("dns_queries", "dns", None, "queries"),
    ("dns_answers", "dns", None, "answers"),
    ("http_method", "http", None, "http_method"),
    ("http_host", "http", None, "hostname"),
    ("http_target", "http", None, "url"),
    ("http_user_agent", "http", None, "http_user_agent"),
    ("http_status", "http", None, "status"),
    ("quic_version", "quic", None, "version"),
    ("quic_sni", "quic", None, "sni"),
    ("quic_ja4", "quic", None, "ja4"),
    ("ssh_client", "ssh", Some("client"), "software_version"),
    ("ssh_server", "ssh", Some("server"), "software_version"),
];

/// Labels, and the names of their protocols in Suricata. It has no others.
const APP_PROTOCOLS: [(&str, &str); 37] = [
    ("bittorrent-dht", "bittorrent-dht"),
    ("dcerpc", "dcerpc"),
    ("dcerpc-udp", "dcerpc"),
    ("dhcp", "dhcp"),
    ("dnp3", "dnp3"),
    ("dns", "dns"),
    ("dns-tcp", "dns"),
    ("enip", "enip"),
    ("ftp", "ftp"),
    ("http", "http"),
    ("http2", "http2"),
    ("ike", "ike"),
    ("imap", "imap"),
    ("irc", "irc"),
    ("kerberos", "krb5"),
    ("kerberos-tcp", "krb5"),
    ("ldap", "ldap"),
    ("mdns", "mdns"),
    ("modbus", "modbus"),
    ("nfs", "nfs"),
    ("xmpp", "jabber"),
    ("mqtt", "mqtt"),
    ("ntp", "ntp"),
    ("pop3", "pop3"),
    ("postgresql", "pgsql"),
    ("quic", "quic"),
    ("rdp", "rdp"),
    ("sip", "sip"),
    ("smb", "smb"),
    ("smtp", "smtp"),
    ("snmp", "snmp"),
    ("ssh", "ssh"),
    ("telnet", "telnet"),
    ("tftp", "tftp"),
    ("tls", "tls"),
    ("vnc", "rfb"),
    ("websocket", "websocket"),
];

fn place_of(column: &Column) -> Option<EvePlace> {
    PLACES.into_iter().find(|(name, ..)| *name == column.name)
}

impl EveRows {
    /// Returns rows of records with this schema. Those of `columns` that EVE
    /// [has](EveWriter::takes) are part of the events, in addition to what every event has.
    ///
    /// # Errors
    ///
    /// The columns that EVE needs, and the schema lacks.
    pub fn new(schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        let places = columns.iter().filter_map(|found| Some((found.index, place_of(&found.column)?)));
        let services = columns.iter().filter(|found| Service::from_column(&found.column).is_some());
        let index = |name| columns.iter().find(|found| found.column.name == name).map(|found| found.index);
        Ok(Self {
            flow: FlowColumns::in_schema(schema)?,
            places: places.collect(),
            services: services.copied().collect(),
            label: index(LABEL),
            community_id: index(COMMUNITY_ID),
        })
    }
}

impl<W: Write> EveWriter<W> {
    /// Returns a writer of [rows](EveRows::new).
    ///
    /// # Errors
    ///
    /// The columns that EVE needs, and the schema lacks.
    pub fn new(out: W, schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        Ok(Self::of_rows(out, EveRows::new(schema, columns)?))
    }
}

impl EveWriter<()> {
    /// Returns whether EVE has a place for a column in addition to those of every record.
    #[must_use]
    pub fn takes(column: &Column) -> bool {
        matches!(column.name, LABEL | COMMUNITY_ID) || place_of(column).is_some()
    }
}

impl TextRows for EveRows {
    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        let record = self.flow.read(row);
        let label = self
            .label
            .and_then(|index| app_protocol(&record, &row.value(index).text().unwrap_or_default()));
        let app = Service::of_row(&self.services, row).map(|service| service.suricata).or(label);
        let is_response = app == Some("dns") && record.source_port == DNS && record.destination_port != DNS;
        let is_open = !matches!(record.direction, "syn" | "syn_ack");
        let record = if is_response && is_open { record.reversed() } else { record };
        let mut event = event(row, &record);
        if let Some(app) = app {
            event["app_proto"] = app.into();
        }
        if let Some(id) = self.community_id.and_then(|index| row.value(index).text()) {
            event["community_id"] = id.into();
        }
        for (index, place) in &self.places {
            add(&mut event, place, row.value(*index));
        }
        // Writing to memory cannot fail.
        let _ = serde_json::to_writer(&mut *out, &event);
        out.push(b'\n');
    }

    fn another(&self) -> Box<dyn TextRows> {
        Box::new(self.clone())
    }
}

/// Returns Suricata's name for the protocol with a label; `failed` for another one, and `None` for
/// a flow without payload.
fn app_protocol(record: &Flow, label: &str) -> Option<&'static str> {
    const HEADER_BYTES: u64 = 28;
    const PSH: u16 = 8;
    if let Some((_, name)) = APP_PROTOCOLS.iter().find(|(name, _)| *name == label) {
        return Some(name);
    }
    let has_payload = match record.protocol {
        6 => (record.tcp_flags | record.reverse_tcp_flags) & PSH != 0,
        17 => {
            record.ip_bytes + record.reverse_ip_bytes
                > (record.packets + record.reverse_packets) * HEADER_BYTES
        }
        _ => false,
    };
    has_payload.then_some("failed")
}

/// Adds an additional field to an event, if it has a value.
fn add(event: &mut Json, (name, object, inner, key): &EvePlace, value: &Value) {
    let Some(text) = value.text() else {
        if let Some(number) = value.number() {
            event[object][key] = number.into();
        }
        return;
    };
    let value: Json = match *name {
        "tls_alpn" => text.split(',').map(with_commas).collect(),
        "dns_queries" => text.split(';').map(query).collect(),
        "dns_answers" => text.split(';').map(answer).collect(),
        // The comment follows the first space.
        "ssh_client" | "ssh_server" => text.split(' ').next().into(),
        "http_host" => {
            let (host, port) = host_and_port(&text);
            if let Some(port) = port {
                event[object]["http_port"] = port.into();
            }
            host.into()
        }
        _ => text.into(),
    };
    match inner {
        Some(inner) => event[object][inner][key] = value,
        None => event[object][key] = value,
    }
}

/// Returns a name of a list with its commas, which the list escapes. A doubled backslash escapes
/// none.
fn with_commas(name: &str) -> String {
    let parts = name.split(r"\\").map(|part| part.replace(r"\x2c", ","));
    parts.collect::<Vec<_>>().join(r"\\")
}

/// Returns a question of `dns_queries` as an object, or any other text unchanged.
fn query(item: &str) -> Json {
    match item.rsplit_once(' ') {
        Some((name, kind)) => json!({"rrname": name, "rrtype": kind}),
        None => item.into(),
    }
}

/// Returns an answer of `dns_answers` as an object, or any other text unchanged.
fn answer(item: &str) -> Json {
    let mut words = item.splitn(4, ' ');
    let (Some(name), Some(ttl), Some(kind)) = (words.next(), words.next(), words.next()) else {
        return item.into();
    };
    let ttl: Option<u32> = ttl.parse().ok();
    let mut answer = json!({"rrname": name, "rrtype": kind, "ttl": ttl});
    if let Some(data) = words.next() {
        answer["rdata"] = data.into();
    }
    answer
}

/// Splits the port from the value of a `Host` header.
fn host_and_port(text: &str) -> (&str, Option<u16>) {
    let split = text.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    split.map_or((text, None), |(host, port)| (host, Some(port)))
}

/// Returns an address as Suricata writes it: all digits of IPv6.
fn address(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => address.segments().map(|word| format!("{word:04x}")).join(":"),
    }
}

/// Returns Suricata's name of an IP protocol, or its number in three digits.
fn protocol(number: u8) -> String {
    let name = match number {
        4 => "IP-in-IP",
        41 => "IPv6",
        43 => "IPv6-Route",
        44 => "IPv6-Frag",
        58 => "IPv6-ICMP",
        59 => "IPv6-NoNxt",
        60 => "IPv6-Opts",
        89 => "OSPF",
        94 => "OS",
        108 => "IPComp",
        135 => "Mobility",
        136 => "UDPLite",
        137 => "MPLS-in-IP",
        140 => "Shim6",
        143 => "Ethernet",
        _ => return protocol_name(number).map_or_else(|| format!("{number:03}"), str::to_ascii_uppercase),
    };
    name.to_owned()
}

/// Returns the type of the reply to an ICMP message, if it has one.
fn icmp_reply(protocol: u8, kind: u8) -> Option<u8> {
    match (protocol, kind) {
        // Echo; router solicitation; and those whose reply has the next number.
        (1, 8) => Some(0),
        (1, 10) => Some(9),
        (1, 13 | 15 | 17) | (58, 128 | 130 | 133 | 135 | 139) => Some(kind + 1),
        _ => None,
    }
}

/// Returns a time in the format of EVE: `2026-11-25T17:00:00.000000+0000`.
fn timestamp(time_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_nanos(time_ns);
    let text = humantime::format_rfc3339_micros(time).to_string();
    text.strip_suffix('Z').map_or(text.clone(), |text| format!("{text}+0000"))
}

fn event(row: &Row, record: &Flow) -> Json {
    const SECOND_NS: u64 = 1_000_000_000;
    let (tcp_state, state) = states(record);
    let reason = match record.end_reason {
        "fin" | "reset" | "end" => "shutdown",
        "new_connection" => "tcp_reuse",
        "evicted" => "forced",
        _ => "timeout",
    };
    let mut event = json!({
        "timestamp": timestamp(record.end_ns),
        "flow_id": crate::zeek::identity(row, record) >> 1,
        "event_type": "flow",
        "src_ip": address(record.source),
        "dest_ip": address(record.destination),
        "ip_v": if record.source.is_ipv4() { 4 } else { 6 },
        "proto": protocol(record.protocol),
        "flow": {
            "pkts_toserver": record.packets,
            "pkts_toclient": record.reverse_packets,
            "bytes_toserver": record.bytes,
            "bytes_toclient": record.reverse_bytes,
            "start": timestamp(record.start_ns),
            "end": timestamp(record.end_ns),
            "age": (record.end_ns / SECOND_NS).saturating_sub(record.start_ns / SECOND_NS),
            "state": state,
            "reason": reason,
            "alerted": false,
        },
    });
    if matches!(record.protocol, 6 | 17 | 132) {
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
        if let (Some(reply), true) = (icmp_reply(record.protocol, kind), record.reverse_packets > 0) {
            event["response_icmp_type"] = reply.into();
            event["response_icmp_code"] = 0.into();
        }
    }
    if let Some(spi) = record.spi {
        event["spi"] = spi.into();
    }
    if record.protocol == 6 {
        event["tcp"] = tcp(record, tcp_state);
    }
    event
}

/// Returns the states of the connection of TCP and of the flow, in Suricata's terms: the state of
/// the server after its own FIN, and after the client's.
fn states(record: &Flow) -> (&'static str, &'static str) {
    const FIN: u16 = 1;
    const SYN: u16 = 2;
    const RST: u16 = 4;
    const ACK: u16 = 16;
    let (there, back) = (record.tcp_flags, record.reverse_tcp_flags);
    match record.end_reason {
        _ if record.protocol != 6 => {
            let is_answered = record.packets > 0 && record.reverse_packets > 0;
            ("", if is_answered { "established" } else { "new" })
        }
        // An unacknowledged FIN is the second one.
        "fin" if (there | back) & RST == 0 => match record.open_fin {
            "destination" => ("last_ack", "closed"),
            "source" => ("time_wait", "closed"),
            "both" => ("closing", "established"),
            _ => ("closed", "closed"),
        },
        "reset" | "fin" => ("closed", "closed"),
        _ if there & SYN != 0 && back == 0 => ("syn_sent", "new"),
        _ if there & SYN != 0 && back & SYN != 0 && there & ACK == 0 => ("syn_recv", "new"),
        _ if there & FIN != 0 => ("close_wait", "established"),
        _ if back & FIN != 0 && record.open_fin.is_empty() => ("fin_wait2", "established"),
        _ if back & FIN != 0 => ("fin_wait1", "established"),
        _ => ("established", "established"),
    }
}

fn tcp(record: &Flow, state: &str) -> Json {
    let (to_server, to_client) = (record.tcp_flags & 0xFF, record.reverse_tcp_flags & 0xFF);
    let all = to_server | to_client;
    let mut tcp = json!({
        "tcp_flags": format!("{all:02x}"),
        "tcp_flags_ts": format!("{to_server:02x}"),
        "tcp_flags_tc": format!("{to_client:02x}"),
        "state": state,
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

    #[test]
    fn host_and_answer_lists_are_split() {
        assert_eq!(host_and_port("a.example:8080"), ("a.example", Some(8080)));
        assert_eq!(host_and_port("[2001:db8::1]"), ("[2001:db8::1]", None));
        assert_eq!(host_and_port("a:b"), ("a:b", None));
        assert_eq!(
            answer("a.example 30 MX 10 b.example"),
            json!({"rrname": "a.example", "rrtype": "MX", "ttl": 30, "rdata": "10 b.example"})
        );
        assert_eq!((answer("…"), query("…")), (json!("…"), json!("…")));
        assert_eq!(
            address(IpAddr::from([0x2001, 0xDB8, 0, 0, 0, 0, 0, 1])),
            "2001:0db8:0000:0000:0000:0000:0000:0001"
        );
        assert_eq!([4, 6, 58, 89, 253].map(protocol), ["IP-in-IP", "TCP", "IPv6-ICMP", "OSPF", "253"]);
    }
}

//! Zeek's `conn.log`.

use flowloom_flow_key::protocol::{TCP, UDP};
use std::borrow::Cow;
use std::io::Write;

use flowloom_record::{Column, Group, Row, Schema, SchemaColumn};

use crate::flow_columns::{Flow, FlowColumns, MissingColumns};
use crate::service::Service;
use crate::text::{TextRows, TextWriter};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

/// Fields and their types, in the order of Zeek's base scripts.
const FIELDS: [(&str, &str); 22] = [
    ("ts", "time"),
    ("uid", "string"),
    ("id.orig_h", "addr"),
    ("id.orig_p", "port"),
    ("id.resp_h", "addr"),
    ("id.resp_p", "port"),
    ("proto", "enum"),
    ("service", "string"),
    ("duration", "interval"),
    ("orig_bytes", "count"),
    ("resp_bytes", "count"),
    ("conn_state", "string"),
    ("local_orig", "bool"),
    ("local_resp", "bool"),
    ("missed_bytes", "count"),
    ("history", "string"),
    ("orig_pkts", "count"),
    ("orig_ip_bytes", "count"),
    ("resp_pkts", "count"),
    ("resp_ip_bytes", "count"),
    ("tunnel_parents", "set[string]"),
    ("community_id", "string"),
];

/// Writes records as a Zeek `conn.log`, with tabs between fields.
///
/// State, history and bytes are those of the columns of the group `conn`, and the ends are
/// exchanged where these say that the destination is the originator. Without them, history and
/// bytes are unset, and the state follows from the flags of both sides. `service` follows from
/// fields of payload, or else from the protocol label. Fields that records do not have are unset
/// (`-`) or empty: which hosts are local, and the connections of tunnels.
pub type ZeekWriter<W> = TextWriter<W, ZeekRows>;

/// Rows of a `conn.log`.
#[derive(Clone, Debug)]
pub struct ZeekRows {
    flow: FlowColumns,
    /// The columns of application protocols.
    services: Vec<SchemaColumn>,
    conn: ConnColumns,
}

impl ZeekRows {
    /// Returns rows of records with this schema. Those of `columns` that imply a service set
    /// it.
    ///
    /// # Errors
    ///
    /// The columns that the log needs, and the schema lacks.
    pub fn new(schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        let services = columns.iter().filter(|found| Service::from_column(&found.column).is_some());
        let (flow, services) = (FlowColumns::in_schema(schema)?, services.copied().collect());
        let conn = ConnColumns::in_schema(schema);
        Ok(Self { flow, services, conn })
    }
}

impl<W: Write> ZeekWriter<W> {
    /// Returns a writer of [rows](ZeekRows::new).
    ///
    /// # Errors
    ///
    /// The columns that the log needs, and the schema lacks.
    pub fn new(out: W, schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        Ok(Self::of_rows(out, ZeekRows::new(schema, columns)?))
    }
}

impl TextRows for ZeekRows {
    fn head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n",
        );
        for (heading, at) in [("#fields", 0), ("#types", 1)] {
            let names = FIELDS.map(|(name, kind)| if at == 0 { name } else { kind });
            out.extend_from_slice(format!("{heading}\t{}\n", names.join("\t")).as_bytes());
        }
    }

    fn row(&mut self, row: &Row, out: &mut Vec<u8>) {
        let record = &self.flow.read(row);
        let conn = &self.conn;
        let text = |at: Option<usize>| at.and_then(|at| row.value(at).text());
        let label = || text(conn.label).filter(|label| label != "-").map(|label| service_of(&label));
        let service =
            Service::of_row(&self.services, row).map(|service| service.zeek.into()).or_else(label);
        // ICMP has its type, and the type of its answer or its code, in the place of ports.
        let [source_port, destination_port] = match record.icmp() {
            Some([kind, code]) => [kind.into(), answer_of(record.protocol, kind).unwrap_or(code).into()],
            None if matches!(record.protocol, TCP | UDP) => [record.source_port, record.destination_port],
            None => [0; 2],
        };
        let protocol = match record.protocol {
            TCP => "tcp",
            UDP => "udp",
            1 | 58 => "icmp",
            _ => "unknown_transport",
        };
        let duration_ns = record.end_ns.saturating_sub(record.start_ns);
        let bytes = |at: Option<usize>| {
            let bytes = at.and_then(|at| row.value(at).number()).filter(|_| duration_ns > 0);
            bytes.map_or_else(|| String::from("-"), |bytes| bytes.to_string())
        };
        let mut ends = [
            (record.source, source_port, bytes(conn.bytes), record.packets, record.ip_bytes),
            (
                record.destination,
                destination_port,
                bytes(conn.reverse_bytes),
                record.reverse_packets,
                record.reverse_ip_bytes,
            ),
        ];
        if text(conn.originator).is_some_and(|end| end == "destination") {
            ends.reverse();
        }
        let [orig, resp] = ends;
        let missed = conn.missed_bytes.and_then(|at| row.value(at).number()).unwrap_or(0);
        // Writing to memory cannot fail.
        let _ = writeln!(
            out,
            "{}\t{}\t{}\t{}\t{}\t{}\t{protocol}\t{}\t{}\t{}\t{}\t{}\t-\t-\t{missed}\t{}\t{}\t{}\t{}\t{}\t(empty)\t{}",
            seconds(record.start_ns),
            uid(row, record),
            orig.0,
            orig.1,
            resp.0,
            resp.1,
            service.unwrap_or("-".into()),
            if duration_ns == 0 { String::from("-") } else { seconds(duration_ns) },
            orig.2,
            resp.2,
            text(conn.state).unwrap_or_else(|| state(record).into()),
            text(conn.history).unwrap_or("-".into()),
            orig.3,
            orig.4,
            resp.3,
            resp.4,
            text(conn.community_id).unwrap_or("-".into()),
        );
    }

    fn another(&self) -> Box<dyn TextRows> {
        Box::new(self.clone())
    }
}

impl ZeekWriter<()> {
    /// Returns whether the log has a place for an additional field, or it implies a service.
    #[must_use]
    pub fn takes(column: &Column) -> bool {
        column.group == Group::Conn || column.name == LABEL || Service::from_column(column).is_some()
    }
}

/// The column of the protocol label.
const LABEL: &str = "l7_protocol";

/// The positions of columns that records may have.
#[derive(Clone, Debug)]
struct ConnColumns {
    state: Option<usize>,
    history: Option<usize>,
    bytes: Option<usize>,
    reverse_bytes: Option<usize>,
    missed_bytes: Option<usize>,
    originator: Option<usize>,
    community_id: Option<usize>,
    label: Option<usize>,
}

impl ConnColumns {
    fn in_schema(schema: &Schema) -> Self {
        let at = |name: &str| schema.named(name).map(|found| found.index);
        Self {
            state: at("conn_state"),
            history: at("conn_history"),
            bytes: at("conn_bytes"),
            reverse_bytes: at("reverse_conn_bytes"),
            missed_bytes: at("conn_missed_bytes"),
            originator: at("conn_originator"),
            community_id: at("community_id"),
            label: at(LABEL),
        }
    }
}

/// Returns Zeek's name of a labelled protocol.
fn service_of(label: &str) -> Cow<'static, str> {
    match label {
        "tls" => "ssl".into(),
        "kerberos" => "krb".into(),
        "smb" | "smb2" => "smb".into(),
        other => other.to_ascii_lowercase().into(),
    }
}

/// Returns the type of the ICMP message that answers a type.
fn answer_of(protocol: u8, kind: u8) -> Option<u8> {
    const V4: [[u8; 2]; 5] = [[8, 0], [13, 14], [15, 16], [17, 18], [10, 9]];
    const V6: [[u8; 2]; 6] = [[128, 129], [133, 134], [135, 136], [130, 131], [139, 140], [144, 145]];
    let pairs = if protocol == 1 { &V4[..] } else { &V6[..] };
    pairs.iter().find_map(|&[ask, answer]| match kind {
        _ if kind == ask => Some(answer),
        _ if kind == answer => Some(ask),
        _ => None,
    })
}

fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

/// Returns a number of the record that is the same in every run.
pub(crate) fn identity(row: &Row, record: &Flow) -> u64 {
    // FNV-1a, 64 bits: the number identifies the record and needs no protection against attacks.
    let words = row.key.words().iter().copied().chain([record.start_ns]);
    words.flat_map(u64::to_le_bytes).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

fn uid(row: &Row, record: &Flow) -> String {
    const DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let mut number = identity(row, record);
    let mut uid = String::from("C");
    while number > 0 {
        uid.push(char::from(DIGITS[(number % 62) as usize]));
        number /= 62;
    }
    uid
}

/// Returns the state of a connection in Zeek's terms.
fn state(record: &Flow) -> &'static str {
    let (orig, resp) = (record.tcp_flags, record.reverse_tcp_flags);
    let has_answer = record.reverse_packets > 0;
    if record.protocol != TCP {
        return match (record.packets > 0, has_answer) {
            _ if record.protocol != UDP => "OTH",
            (true, true) => "SF",
            (true, false) => "S0",
            (false, _) => "SHR",
        };
    }
    let syn_ack = resp & (SYN | ACK) == SYN | ACK;
    match (orig & SYN != 0, syn_ack) {
        (true, false) if resp & RST != 0 => "REJ",
        (true, false) if orig & RST != 0 => "RSTOS0",
        (true, false) if orig & FIN != 0 && !has_answer => "SH",
        (true, false) if !has_answer => "S0",
        (false, true) if resp & RST != 0 => "RSTRH",
        (false, true) if resp & FIN != 0 && record.packets == 0 => "SHR",
        (true, true) if orig & RST != 0 => "RSTO",
        (true, true) if resp & RST != 0 => "RSTR",
        (true, true) => match (orig & FIN != 0, resp & FIN != 0) {
            (true, true) => "SF",
            (true, false) => "S2",
            (false, true) => "S3",
            (false, false) => "S1",
        },
        _ => "OTH",
    }
}

//! Zeek's `conn.log`.

use std::fmt::Write as _;
use std::io::{self, Write};

use flowloom_record::{Column, Row, Schema, SchemaColumn};

use crate::RecordWriter;
use crate::flow_columns::{Flow, FlowColumns, MissingColumns};
use crate::service::Service;

const TCP: u8 = 6;
const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;

/// Fields and their types, in the order of Zeek's base scripts.
const FIELDS: [(&str, &str); 21] = [
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
];

/// Writes records as a Zeek `conn.log`, with tabs between fields.
///
/// Fields that accounting does not know are unset (`-`): payload bytes, history, which hosts are
/// local, and the service unless additional fields imply it. `conn_state`
/// follows from the flags of both sides, not from sequence numbers.
#[derive(Debug)]
pub struct ZeekWriter<W> {
    out: W,
    line: String,
    flow: FlowColumns,
    /// The columns of application protocols.
    services: Vec<SchemaColumn>,
    is_begun: bool,
}

impl<W: Write> ZeekWriter<W> {
    /// Returns a writer of records with this schema. Those of `columns` that imply a service set
    /// it.
    ///
    /// # Errors
    ///
    /// The columns that the log needs, and the schema lacks.
    pub fn new(out: W, schema: &Schema, columns: &[SchemaColumn]) -> Result<Self, MissingColumns> {
        let services = columns.iter().filter(|found| Service::of(&found.column).is_some());
        let (flow, services) = (FlowColumns::of(schema)?, services.copied().collect());
        Ok(Self { out, line: String::new(), flow, services, is_begun: false })
    }

    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.is_begun, true) {
            return Ok(());
        }
        self.out.write_all(
            b"#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n",
        )?;
        for (heading, at) in [("#fields", 0), ("#types", 1)] {
            let names = FIELDS.map(|(name, kind)| if at == 0 { name } else { kind });
            writeln!(self.out, "{heading}\t{}", names.join("\t"))?;
        }
        Ok(())
    }
}

impl ZeekWriter<()> {
    /// Returns whether an additional field implies a service.
    #[must_use]
    pub fn takes(column: &Column) -> bool {
        Service::of(column).is_some()
    }
}

impl<W: Write + Send> RecordWriter for ZeekWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        self.begin()?;
        self.line.clear();
        let record = &self.flow.read(row);
        let service = Service::of_row(&self.services, row).map_or("-", |service| service.zeek);
        // ICMP has its type and code in the place of ports.
        let [orig_port, resp_port] = match record.icmp() {
            Some(message) => message.map(u16::from),
            None => [record.source_port, record.destination_port],
        };
        let protocol = match record.protocol {
            TCP => "tcp",
            17 => "udp",
            1 | 58 => "icmp",
            _ => "unknown_transport",
        };
        let duration_ns = record.end_ns.saturating_sub(record.start_ns);
        // Writing to a string cannot fail.
        let _ = writeln!(
            self.line,
            "{}\t{}\t{}\t{orig_port}\t{}\t{resp_port}\t{protocol}\t{service}\t{}\t-\t-\t{}\t-\t-\t0\t-\t{}\t{}\t{}\t{}\t(empty)",
            seconds(record.start_ns),
            uid(row, record),
            record.source,
            record.destination,
            if duration_ns == 0 { String::from("-") } else { seconds(duration_ns) },
            state(record),
            record.packets,
            record.ip_bytes,
            record.reverse_packets,
            record.reverse_ip_bytes,
        );
        self.out.write_all(self.line.as_bytes())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.out.flush()
    }
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

//! NetFlow version 9 (RFC 3954): one record per direction.
//!
//! ```text
//!  packet    version 9 | records | uptime ms | seconds since 1970 | packets before | source
//!  set 0     templates 256 (IPv4) and 257 (IPv6), again in each packet of index 0, 64, 128, …
//!  set 256 / 257   records
//! ```

#![expect(
    clippy::cast_possible_truncation,
    reason = "fields of the packet have 16 and 32 bits: lengths stay below a packet's, times wrap as RFC 3954 has them"
)]

use std::io;
use std::net::IpAddr;

use flowloom_record::{Row, Schema};

use crate::RecordWriter;
use crate::flow_columns::{Flow, FlowColumns, MissingColumns};
use crate::ipfix::MessageSink;

/// Maximum size of a packet: one Ethernet frame over UDP and IPv6.
const PACKET_BYTES_MAX: usize = 1400;
const HEADER_BYTES: usize = 20;
const SET_HEADER_BYTES: usize = 4;
/// Number of packets from one with templates to the next.
const TEMPLATE_EVERY: u32 = 64;
/// The exporter's stated start precedes the start of the first record by this time.
const UPTIME_MS: u64 = 3_600_000;
/// The longest time from the start of a record to its end, in milliseconds.
const SPAN_MS: u64 = u32::MAX as u64 - UPTIME_MS - 4000;

/// Fields of a record after the addresses: number and bytes (RFC 3954, 8).
const FIELDS: [(u16, u16); 10] = [
    (7, 2),  // L4_SRC_PORT
    (11, 2), // L4_DST_PORT
    (4, 1),  // PROTOCOL
    (6, 1),  // TCP_FLAGS
    (22, 4), // FIRST_SWITCHED
    (21, 4), // LAST_SWITCHED
    (2, 8),  // IN_PKTS
    (1, 8),  // IN_BYTES
    (32, 2), // ICMP_TYPE
    (58, 2), // SRC_VLAN
];

/// Writes records as packets of NetFlow v9. The reverse direction of a flow is a separate record.
///
/// Both records of a flow are in one packet.
#[derive(Debug)]
pub struct Netflow9Writer<W> {
    out: W,
    flow: FlowColumns,
    packet: Vec<u8>,
    set: Option<(usize, u16)>,
    records: u16,
    /// Flows whose records are in the packet.
    flows: u64,
    packets: u32,
    /// The exporter's stated start, in milliseconds since 1970.
    boot_ms: Option<u64>,
    latest_ms: u64,
}

impl<W: MessageSink> Netflow9Writer<W> {
    /// Returns a writer of records with this schema.
    ///
    /// # Errors
    ///
    /// The columns that NetFlow needs, and the schema lacks.
    pub fn new(out: W, schema: &Schema) -> Result<Self, MissingColumns> {
        Ok(Self {
            out,
            flow: FlowColumns::in_schema(schema)?,
            packet: Vec::new(),
            set: None,
            records: 0,
            flows: 0,
            packets: 0,
            boot_ms: None,
            latest_ms: 0,
        })
    }

    fn put(&mut self, bytes: &[u8]) {
        self.packet.extend_from_slice(bytes);
    }

    fn begin(&mut self) {
        self.packet.resize(HEADER_BYTES, 0);
        if !self.packets.is_multiple_of(TEMPLATE_EVERY) {
            return;
        }
        self.open_set(0);
        for (id, addresses) in [(256_u16, [(8_u16, 4_u16), (12, 4)]), (257, [(27, 16), (28, 16)])] {
            self.put(&id.to_be_bytes());
            self.put(&((addresses.len() + FIELDS.len()) as u16).to_be_bytes());
            for (number, bytes) in addresses.into_iter().chain(FIELDS) {
                self.put(&number.to_be_bytes());
                self.put(&bytes.to_be_bytes());
            }
            self.records += 1;
        }
    }

    fn open_set(&mut self, id: u16) {
        self.close_set();
        self.set = Some((self.packet.len(), id));
        self.put(&id.to_be_bytes());
        self.put(&[0; 2]);
    }

    fn close_set(&mut self) {
        let Some((start, _)) = self.set.take() else { return };
        // Sets end at a multiple of four bytes.
        let padded = start + (self.packet.len() - start).next_multiple_of(4);
        self.packet.resize(padded, 0);
        let length = (padded - start) as u16;
        self.packet[start + 2..start + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn send(&mut self) -> io::Result<()> {
        self.close_set();
        if self.records == 0 {
            return Ok(());
        }
        let boot_ms = self.boot_ms.unwrap_or(0);
        let seconds = self.latest_ms.div_ceil(1000);
        let uptime_ms = (seconds * 1000).saturating_sub(boot_ms) as u32;
        let header = [
            &9_u16.to_be_bytes()[..],
            &self.records.to_be_bytes(),
            &uptime_ms.to_be_bytes(),
            &(seconds as u32).to_be_bytes(),
            &self.packets.to_be_bytes(),
            &0_u32.to_be_bytes(),
        ];
        self.packet[..HEADER_BYTES].copy_from_slice(&header.concat());
        self.packets = self.packets.wrapping_add(1);
        self.records = 0;
        let sent = self.out.send(&self.packet, std::mem::take(&mut self.flows));
        self.packet.clear();
        sent
    }

    fn put_one(&mut self, record: &Flow, is_reverse: bool) -> io::Result<()> {
        let is_v4 = record.source.is_ipv4();
        let id = if is_v4 { 256 } else { 257 };
        let bytes =
            FIELDS.iter().map(|(_, bytes)| usize::from(*bytes)).sum::<usize>() + if is_v4 { 8 } else { 32 };
        let end_ms = record.end_ns / 1_000_000;
        // Times count from the start of the exporter in 32 bits, which covers seven weeks. A longer
        // record begins so long before its end.
        let start_ms = (record.start_ns / 1_000_000).max(end_ms.saturating_sub(SPAN_MS));
        let fits = |boot: u64| start_ms >= boot && end_ms - boot < u64::from(u32::MAX) - 2000;
        if self.boot_ms.is_some_and(|boot| !fits(boot)) {
            self.send()?;
            // The uptime, from this start to the latest record, also has 32 bits.
            (self.boot_ms, self.latest_ms) = (None, 0);
        }
        let boot_ms = *self.boot_ms.get_or_insert(start_ms.saturating_sub(UPTIME_MS));
        // The first record leaves space for the second.
        let has_second = !is_reverse && record.packets > 0 && record.reverse_packets > 0;
        let set_bytes = SET_HEADER_BYTES + bytes * if has_second { 2 } else { 1 } + 3;
        if self.packet.len() + set_bytes > PACKET_BYTES_MAX {
            self.send()?;
        }
        if self.packet.is_empty() {
            self.begin();
        }
        if self.set.is_none_or(|(_, open)| open != id) {
            self.open_set(id);
        }
        self.latest_ms = self.latest_ms.max(end_ms);
        let mut ends = [(record.source, record.source_port), (record.destination, record.destination_port)];
        let (mut packets, mut ip_bytes, mut flags) = (record.packets, record.ip_bytes, record.tcp_flags);
        if is_reverse {
            ends.reverse();
            (packets, ip_bytes, flags) =
                (record.reverse_packets, record.reverse_ip_bytes, record.reverse_tcp_flags);
        }
        for (address, _) in ends {
            match address {
                IpAddr::V4(v4) => self.put(&v4.octets()),
                IpAddr::V6(v6) => self.put(&v6.octets()),
            }
        }
        let message = record.icmp().map_or(0, u16::from_be_bytes);
        // Some collectors also read type and code from the port of the destination.
        let destination_port = if record.icmp().is_some() { message } else { ends[1].1 };
        self.put(&ends[0].1.to_be_bytes());
        self.put(&destination_port.to_be_bytes());
        self.put(&[record.protocol, (flags & 0xFF) as u8]);
        self.put(&((start_ms - boot_ms) as u32).to_be_bytes());
        self.put(&((end_ms - boot_ms) as u32).to_be_bytes());
        self.put(&packets.to_be_bytes());
        self.put(&ip_bytes.to_be_bytes());
        self.put(&message.to_be_bytes());
        self.put(&record.vlan.unwrap_or(0).to_be_bytes());
        self.records += 1;
        Ok(())
    }
}

impl<W: MessageSink + Send> RecordWriter for Netflow9Writer<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        let record = &self.flow.read(row);
        if record.packets > 0 {
            self.put_one(record, false)?;
        }
        if record.reverse_packets > 0 {
            self.put_one(record, true)?;
        }
        self.flows += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.packet.is_empty() {
            self.send()?;
        }
        self.out.flush_messages()
    }
}

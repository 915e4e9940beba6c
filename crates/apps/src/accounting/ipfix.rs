//! Records as IPFIX messages in a file (RFC 7011, RFC 5655), both directions in one record (RFC 5103).
//!
//! ```text
//!  message   version 10 | length | export time | records before | domain
//!  set       2: the two templates, once, in the first message
//!  set       256: records of IPv4      257: records of IPv6      as they come, in the order of their keys
//! ```
//!
//! The source of a record is whoever sent its first packet. Elements of the way back carry the reverse number of RFC 5103.
//! Bytes are those of IP packets, headers included (`octetDeltaCount`), and those on the wire (`layer2OctetDeltaCount`); times
//! are in milliseconds, which all collectors read; a flow's zone is its `ingressVRFID`. The passes of a looped capture are not
//! told apart.

use std::io::{self, Write};
use std::net::IpAddr;

use flowloom_flow_key::{Direction, FlowKey, IpFamily};

use super::{Accounted, EndReason};

/// Where a message is closed: small enough for any reader, large enough that headers do not count.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
const MESSAGE_HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATE_SET: u16 = 2;
/// The private enterprise number whose elements are the reverse of the standard ones.
const REVERSE: u32 = 29305;

/// Information elements, as IANA numbers them.
mod element {
    pub(super) const OCTET_DELTA_COUNT: u16 = 1;
    pub(super) const PACKET_DELTA_COUNT: u16 = 2;
    pub(super) const PROTOCOL_IDENTIFIER: u16 = 4;
    pub(super) const TCP_CONTROL_BITS: u16 = 6;
    pub(super) const SOURCE_TRANSPORT_PORT: u16 = 7;
    pub(super) const SOURCE_IPV4_ADDRESS: u16 = 8;
    pub(super) const DESTINATION_TRANSPORT_PORT: u16 = 11;
    pub(super) const DESTINATION_IPV4_ADDRESS: u16 = 12;
    pub(super) const SOURCE_IPV6_ADDRESS: u16 = 27;
    pub(super) const DESTINATION_IPV6_ADDRESS: u16 = 28;
    pub(super) const FLOW_END_REASON: u16 = 136;
    pub(super) const FLOW_START_MILLISECONDS: u16 = 152;
    pub(super) const FLOW_END_MILLISECONDS: u16 = 153;
    pub(super) const INGRESS_VRF_ID: u16 = 234;
    pub(super) const BIFLOW_DIRECTION: u16 = 239;
    pub(super) const LAYER2_OCTET_DELTA_COUNT: u16 = 352;
}

/// `biflowDirection`: the source is whoever began.
const INITIATOR: u8 = 1;

/// Elements of a record.
const ELEMENTS: u16 = 18;

/// Returns a family's template and the elements of its records, in order: number, bytes, whether it is of the way back.
fn template(family: IpFamily) -> (u16, [(u16, u16, bool); ELEMENTS as usize]) {
    use element::{
        BIFLOW_DIRECTION, DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT,
        FLOW_END_MILLISECONDS, FLOW_END_REASON, FLOW_START_MILLISECONDS, INGRESS_VRF_ID,
        LAYER2_OCTET_DELTA_COUNT, OCTET_DELTA_COUNT, PACKET_DELTA_COUNT, PROTOCOL_IDENTIFIER,
        SOURCE_IPV4_ADDRESS, SOURCE_IPV6_ADDRESS, SOURCE_TRANSPORT_PORT, TCP_CONTROL_BITS,
    };
    let (id, source, destination, bytes) = match family {
        IpFamily::V4 => (256, SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS, 4),
        IpFamily::V6 => (257, SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS, 16),
    };
    let elements = [
        (source, bytes, false),
        (destination, bytes, false),
        (SOURCE_TRANSPORT_PORT, 2, false),
        (DESTINATION_TRANSPORT_PORT, 2, false),
        (PROTOCOL_IDENTIFIER, 1, false),
        (FLOW_START_MILLISECONDS, 8, false),
        (FLOW_END_MILLISECONDS, 8, false),
        (PACKET_DELTA_COUNT, 8, false),
        (OCTET_DELTA_COUNT, 8, false),
        (LAYER2_OCTET_DELTA_COUNT, 8, false),
        (TCP_CONTROL_BITS, 2, false),
        (PACKET_DELTA_COUNT, 8, true),
        (OCTET_DELTA_COUNT, 8, true),
        (LAYER2_OCTET_DELTA_COUNT, 8, true),
        (TCP_CONTROL_BITS, 2, true),
        (INGRESS_VRF_ID, 4, false),
        (FLOW_END_REASON, 1, false),
        (BIFLOW_DIRECTION, 1, false),
    ];
    (id, elements)
}

/// Writes records as IPFIX messages.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::ipfix::IpfixWriter;
/// let mut writer = IpfixWriter::new(Vec::new(), 1_700_000_000_000_000_000);
/// // writer.write(&key, &record, reason)? for each record
/// let bytes = writer.finish()?;
/// assert_eq!(bytes[..2], [0, 10]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IpfixWriter<W> {
    out: W,
    message: Vec<u8>,
    /// Where the open set begins in the message, and whose it is.
    set: Option<(usize, u16)>,
    /// Records of messages that are written.
    written: u32,
    /// Records of the message in hand.
    records: u32,
    export_seconds: u32,
}

impl<W: Write> IpfixWriter<W> {
    /// Returns a writer of messages that were exported at `export_ns`, nanoseconds since 1970: the end of the run, in packet
    /// time, so that the same packets make the same file.
    pub fn new(out: W, export_ns: u64) -> Self {
        let mut writer = Self {
            out,
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            set: None,
            written: 0,
            records: 0,
            export_seconds: u32::try_from(export_ns / 1_000_000_000).unwrap_or(u32::MAX),
        };
        writer.begin();
        writer.open_set(TEMPLATE_SET);
        for family in [IpFamily::V4, IpFamily::V6] {
            let (id, elements) = template(family);
            writer.put(&id.to_be_bytes());
            writer.put(&ELEMENTS.to_be_bytes());
            for (number, bytes, is_reverse) in elements {
                writer.put(&(number | if is_reverse { 1 << 15 } else { 0 }).to_be_bytes());
                writer.put(&bytes.to_be_bytes());
                if is_reverse {
                    writer.put(&REVERSE.to_be_bytes());
                }
            }
        }
        writer
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// What `out` says when a message is full and written.
    pub fn write(&mut self, key: &FlowKey, record: &Accounted, reason: EndReason) -> io::Result<()> {
        let (id, elements) = template(key.family());
        let bytes: usize = elements.iter().map(|(_, bytes, _)| usize::from(*bytes)).sum();
        if self.message.len() + SET_HEADER_BYTES + bytes > MESSAGE_BYTES_MAX {
            self.flush_message()?;
        }
        if self.set.is_none_or(|(_, open)| open != id) {
            self.open_set(id);
        }
        let tuple = key.tuple(record.way());
        for address in [tuple.source, tuple.destination] {
            match address {
                IpAddr::V4(v4) => self.put(&v4.octets()),
                IpAddr::V6(v6) => self.put(&v6.octets()),
            }
        }
        self.put(&tuple.source_port.to_be_bytes());
        self.put(&tuple.destination_port.to_be_bytes());
        self.put(&[tuple.protocol]);
        let (first_ns, last_ns) = record.times_ns();
        self.put(&(first_ns / 1_000_000).to_be_bytes());
        self.put(&(last_ns / 1_000_000).to_be_bytes());
        let there = record.way().index();
        let back = Direction::reversed(record.way()).index();
        for way in [there, back] {
            self.put(&record.packets()[way].to_be_bytes());
            self.put(&record.ip_bytes()[way].to_be_bytes());
            self.put(&record.bytes()[way].to_be_bytes());
            self.put(&record.flags()[way].to_be_bytes());
        }
        self.put(&key.zone().to_be_bytes());
        self.put(&[reason.ipfix(), INITIATOR]);
        self.records += 1;
        Ok(())
    }

    /// Writes what is left, and returns `out`.
    ///
    /// # Errors
    ///
    /// What `out` says.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_message()?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn put(&mut self, bytes: &[u8]) {
        self.message.extend_from_slice(bytes);
    }

    /// Begins a message; its length is put in when it is written.
    fn begin(&mut self) {
        let (seconds, sequence) = (self.export_seconds.to_be_bytes(), self.written.to_be_bytes());
        let header = [[0, 10, 0, 0], seconds, sequence, [0; 4]];
        self.message.clear();
        self.put(header.as_flattened());
    }

    fn open_set(&mut self, id: u16) {
        self.close_set();
        self.set = Some((self.message.len(), id));
        self.put(&id.to_be_bytes());
        self.put(&[0; 2]);
    }

    fn close_set(&mut self) {
        if let Some((start, _)) = self.set.take() {
            let length = self.message.len() - start;
            self.put_length(start + 2, length);
        }
    }

    fn put_length(&mut self, at: usize, length: usize) {
        let length = u16::try_from(length).expect("a message is closed before it is that long");
        self.message[at..at + 2].copy_from_slice(&length.to_be_bytes());
    }

    fn flush_message(&mut self) -> io::Result<()> {
        self.close_set();
        if self.message.len() > MESSAGE_HEADER_BYTES {
            self.put_length(2, self.message.len());
            self.out.write_all(&self.message)?;
            self.written = self.written.wrapping_add(self.records);
            self.records = 0;
        }
        self.begin();
        Ok(())
    }
}

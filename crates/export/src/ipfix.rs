//! Writes records as IPFIX messages to a file (RFC 7011, RFC 5655), with both directions in one
//! record (RFC 5103).
//!
//! ```text
//!  message   version 10 | length | export time | records before | domain
//!  set       2: the two templates, in the first message, with datagrams in every sixteenth
//!  set       256: records of IPv4      257: records of IPv6      in the order of writing
//! ```
//!
//! The source of a record is the initiator of its connection, where `biflowDirection` is 1.
//! Elements of the reverse direction carry the reverse number of RFC 5103. `octetDeltaCount` counts
//! the bytes of IP packets, headers included, and `layer2OctetDeltaCount` the bytes on the wire.
//! Times are in milliseconds, and in nanoseconds or microseconds in the format of NTP [RFC 7011
//! §6.1.9]. ICMP has an element for type and code, and its ports are 0. A flow's zone is its
//! `ingressVRFID`. The records of different passes of a looped capture look the same.

use std::io::{self, Write};
use std::net::IpAddr;

use flowloom_apps::accounting::AccountingRecord;
use flowloom_apps::accounting::fields::application::text::TEXT_BYTES_MAX;
use flowloom_apps::accounting::fields::{FieldColumn, FieldValue};
use flowloom_flow_key::IpFamily;

/// The size at which a message is closed: small enough for any reader, and large enough that
/// headers do not matter.
const MESSAGE_BYTES_MAX: usize = 16 << 10;
/// The minimum limit of a message: its header, the templates and one record fit.
const MESSAGE_BYTES_MIN: usize = 512;
/// The minimum limit for records with text: four texts of 255 bytes fit.
const MESSAGE_BYTES_MIN_WITH_TEXT: usize = 1280;
const MESSAGE_HEADER_BYTES: usize = 16;
const SET_HEADER_BYTES: usize = 4;
const TEMPLATE_SET: u16 = 2;
/// The private enterprise number of the reverse elements.
const REVERSE: u32 = 29305;

/// Information elements with IANA's numbers.
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
    pub(super) const ICMP_TYPE_CODE_IPV4: u16 = 32;
    pub(super) const VLAN_ID: u16 = 58;
    pub(super) const FLOW_END_REASON: u16 = 136;
    pub(super) const ICMP_TYPE_CODE_IPV6: u16 = 139;
    pub(super) const FLOW_START_MILLISECONDS: u16 = 152;
    pub(super) const FLOW_END_MILLISECONDS: u16 = 153;
    pub(super) const FLOW_START_MICROSECONDS: u16 = 154;
    pub(super) const FLOW_END_MICROSECONDS: u16 = 155;
    pub(super) const FLOW_START_NANOSECONDS: u16 = 156;
    pub(super) const FLOW_END_NANOSECONDS: u16 = 157;
    pub(super) const INGRESS_VRF_ID: u16 = 234;
    pub(super) const BIFLOW_DIRECTION: u16 = 239;
    pub(super) const DOT1Q_VLAN_ID: u16 = 243;
    pub(super) const DOT1Q_CUSTOMER_VLAN_ID: u16 = 245;
    pub(super) const LAYER2_OCTET_DELTA_COUNT: u16 = 352;
}

/// The precision of the records' times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimePrecision {
    /// `flowStartMicroseconds` and `flowEndMicroseconds`.
    Microseconds,
    /// `flowStartNanoseconds` and `flowEndNanoseconds`.
    #[default]
    Nanoseconds,
}

impl TimePrecision {
    fn elements(self) -> [u16; 2] {
        match self {
            Self::Microseconds => [element::FLOW_START_MICROSECONDS, element::FLOW_END_MICROSECONDS],
            Self::Nanoseconds => [element::FLOW_START_NANOSECONDS, element::FLOW_END_NANOSECONDS],
        }
    }

    /// Returns a time in the format of NTP: seconds since 1900, which wrap in 2036, and their
    /// fraction. Microseconds leave the lowest eleven bits of the fraction zero. The fraction is
    /// rounded up, so that a reader that truncates gets the exact time.
    fn ntp(self, time_ns: u64) -> u64 {
        const SECOND_NS: u64 = 1_000_000_000;
        /// Seconds from 1900 to 1970.
        const EPOCH_SECONDS: u64 = 2_208_988_800;
        let (seconds, rest_ns) = (time_ns / SECOND_NS + EPOCH_SECONDS, time_ns % SECOND_NS);
        let fraction = match self {
            Self::Nanoseconds => (rest_ns << 32).div_ceil(SECOND_NS),
            Self::Microseconds => ((rest_ns / 1000) << 32).div_ceil(1_000_000).next_multiple_of(1 << 11),
        };
        seconds << 32 | fraction
    }
}

/// Takes the messages of an exporter.
///
/// Every [`Write`] is one, which receives the bytes of the messages one after another.
pub trait MessageSink {
    /// Takes a whole message that carries this number of records.
    ///
    /// # Errors
    ///
    /// Returns the error of the output.
    fn send(&mut self, message: &[u8], records: u64) -> io::Result<()>;

    /// Makes all messages so far visible to their readers.
    ///
    /// # Errors
    ///
    /// Returns the error of the output.
    fn flush_messages(&mut self) -> io::Result<()>;
}

impl<W: Write> MessageSink for W {
    fn send(&mut self, message: &[u8], _: u64) -> io::Result<()> {
        self.write_all(message)
    }

    fn flush_messages(&mut self) -> io::Result<()> {
        self.flush()
    }
}

/// Number of elements of a record without additional fields.
const ELEMENTS: u16 = 24;
/// The length of an element in a template whose records have variable lengths [RFC 7011 §7].
const VARIABLE_LENGTH: u16 = u16::MAX;

/// An additional field with an element.
#[derive(Clone, Copy, Debug)]
struct FieldElement {
    /// The position of its value among the values of a record.
    index: usize,
    number: u16,
    bytes: u16,
    is_reverse: bool,
}

impl FieldElement {
    fn of((index, column): (usize, &FieldColumn)) -> Option<Self> {
        let (number, name) = column.ipfix?;
        let bytes = match column.unit {
            "text" => VARIABLE_LENGTH,
            "number" => 2,
            _ => 8,
        };
        Some(Self { index, number, bytes, is_reverse: name.starts_with("reverse") })
    }
}

/// Returns the template of a family, and the elements of its records in order: number, bytes, and
/// whether it is a reverse element.
fn template(family: IpFamily, precision: TimePrecision) -> (u16, [(u16, u16, bool); ELEMENTS as usize]) {
    use element::{
        BIFLOW_DIRECTION, DESTINATION_IPV4_ADDRESS, DESTINATION_IPV6_ADDRESS, DESTINATION_TRANSPORT_PORT,
        DOT1Q_CUSTOMER_VLAN_ID, DOT1Q_VLAN_ID, FLOW_END_MILLISECONDS, FLOW_END_REASON,
        FLOW_START_MILLISECONDS, ICMP_TYPE_CODE_IPV4, ICMP_TYPE_CODE_IPV6, INGRESS_VRF_ID,
        LAYER2_OCTET_DELTA_COUNT, OCTET_DELTA_COUNT, PACKET_DELTA_COUNT, PROTOCOL_IDENTIFIER,
        SOURCE_IPV4_ADDRESS, SOURCE_IPV6_ADDRESS, SOURCE_TRANSPORT_PORT, TCP_CONTROL_BITS, VLAN_ID,
    };
    let (id, source, destination, bytes, icmp) = match family {
        IpFamily::V4 => (256, SOURCE_IPV4_ADDRESS, DESTINATION_IPV4_ADDRESS, 4, ICMP_TYPE_CODE_IPV4),
        IpFamily::V6 => (257, SOURCE_IPV6_ADDRESS, DESTINATION_IPV6_ADDRESS, 16, ICMP_TYPE_CODE_IPV6),
    };
    let [start, end] = precision.elements();
    let elements = [
        (source, bytes, false),
        (destination, bytes, false),
        (SOURCE_TRANSPORT_PORT, 2, false),
        (DESTINATION_TRANSPORT_PORT, 2, false),
        (PROTOCOL_IDENTIFIER, 1, false),
        (FLOW_START_MILLISECONDS, 8, false),
        (FLOW_END_MILLISECONDS, 8, false),
        (start, 8, false),
        (end, 8, false),
        // nfdump has one field for the TCP flags, and the last one counts.
        (PACKET_DELTA_COUNT, 8, true),
        (OCTET_DELTA_COUNT, 8, true),
        (LAYER2_OCTET_DELTA_COUNT, 8, true),
        (TCP_CONTROL_BITS, 2, true),
        (PACKET_DELTA_COUNT, 8, false),
        (OCTET_DELTA_COUNT, 8, false),
        (LAYER2_OCTET_DELTA_COUNT, 8, false),
        (TCP_CONTROL_BITS, 2, false),
        (icmp, 2, false),
        (VLAN_ID, 2, false),
        (DOT1Q_VLAN_ID, 2, false),
        (DOT1Q_CUSTOMER_VLAN_ID, 2, false),
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
/// // writer.write(&record)? for each AccountingRecord
/// let bytes = writer.finish()?;
/// assert_eq!(bytes[..2], [0, 10]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct IpfixWriter<W> {
    out: W,
    message: Vec<u8>,
    /// The position of the open set in the message, and its address family.
    set: Option<(usize, u16)>,
    /// Records of messages that are already written.
    written: u32,
    /// Records of the open message.
    records: u32,
    export_seconds: u32,
    precision: TimePrecision,
    fields: Vec<FieldElement>,
    message_bytes_max: usize,
    /// Messages from one with templates to the next; `None` if only the first has them.
    templates_every: Option<u32>,
    messages: u32,
}

impl<W: MessageSink> IpfixWriter<W> {
    /// Returns a writer with times in nanoseconds. The export time of its messages is `export_ns`,
    /// in nanoseconds since 1970, or the end of the latest record so far if that is later. Both are
    /// packet times, so the same packets give the same file.
    pub fn new(out: W, export_ns: u64) -> Self {
        Self::with_precision(out, export_ns, TimePrecision::default())
    }

    /// Returns a writer whose records have times of this precision.
    pub fn with_precision(out: W, export_ns: u64, precision: TimePrecision) -> Self {
        let mut writer = Self {
            out,
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            set: None,
            written: 0,
            records: 0,
            export_seconds: u32::try_from(export_ns / 1_000_000_000).unwrap_or(u32::MAX),
            precision,
            fields: Vec::new(),
            message_bytes_max: MESSAGE_BYTES_MAX,
            templates_every: None,
            messages: 0,
        };
        writer.begin();
        writer
    }

    /// Limits messages to `message_bytes_max` bytes, for datagrams: at least 512, and 1,280 with
    /// text fields. Repeats the templates in every sixteenth message: a collector may start at any
    /// time, and datagrams may be lost.
    #[must_use]
    pub fn for_datagrams(self, message_bytes_max: usize) -> Self {
        let message_bytes_max = message_bytes_max.clamp(MESSAGE_BYTES_MIN, MESSAGE_BYTES_MAX);
        Self { message_bytes_max, templates_every: Some(16), ..self }
    }

    /// Adds those additional fields that have an element ([`FieldColumn::ipfix`]) to the records,
    /// for [`write_with`](Self::write_with).
    ///
    /// # Panics
    ///
    /// Panics if a record has been written, because the templates come before it.
    #[must_use]
    pub fn with_fields(mut self, fields: &[FieldColumn]) -> Self {
        assert!(self.written == 0 && self.records == 0, "fields are part of the templates");
        self.fields = fields.iter().enumerate().filter_map(FieldElement::of).collect();
        self.set = None;
        self.begin();
        self
    }

    fn put_templates(&mut self) {
        self.open_set(TEMPLATE_SET);
        let fields: Vec<_> =
            self.fields.iter().map(|field| (field.number, field.bytes, field.is_reverse)).collect();
        let count = ELEMENTS + u16::try_from(fields.len()).expect("there are some hundred columns at most");
        for family in [IpFamily::V4, IpFamily::V6] {
            let (id, elements) = template(family, self.precision);
            self.put(&id.to_be_bytes());
            self.put(&count.to_be_bytes());
            for (number, bytes, is_reverse) in elements.into_iter().chain(fields.iter().copied()) {
                self.put(&(number | if is_reverse { 1 << 15 } else { 0 }).to_be_bytes());
                self.put(&bytes.to_be_bytes());
                if is_reverse {
                    self.put(&REVERSE.to_be_bytes());
                }
            }
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`, when a full message is written.
    pub fn write(&mut self, record: &AccountingRecord) -> io::Result<()> {
        self.write_with(record, &[])
    }

    /// Adds a record with additional fields, one value for each column of
    /// [`with_fields`](Self::with_fields). A missing value is 0 or an empty string.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`, when a full message is written.
    pub fn write_with(&mut self, record: &AccountingRecord, values: &[FieldValue]) -> io::Result<()> {
        let (id, elements) = template(record.family(), self.precision);
        let bytes: usize = elements.iter().map(|(_, bytes, _)| usize::from(*bytes)).sum();
        let texts = self.fields.iter().map(|field| {
            let text = values.get(field.index).and_then(FieldValue::as_text);
            match (field.bytes, text) {
                (VARIABLE_LENGTH, Some(text)) => 3 + text_of(text).len(),
                (VARIABLE_LENGTH, None) => 1,
                (bytes, _) => usize::from(bytes),
            }
        });
        let bytes = bytes + texts.sum::<usize>();
        let has_text = self.fields.iter().any(|field| field.bytes == VARIABLE_LENGTH);
        let least = if has_text { MESSAGE_BYTES_MIN_WITH_TEXT } else { MESSAGE_BYTES_MIN };
        if self.message.len() + SET_HEADER_BYTES + bytes > self.message_bytes_max.max(least) {
            self.flush_message()?;
        }
        if self.set.is_none_or(|(_, open)| open != id) {
            self.open_set(id);
        }
        for address in [record.source, record.destination] {
            match address {
                IpAddr::V4(v4) => self.put(&v4.octets()),
                IpAddr::V6(v6) => self.put(&v6.octets()),
            }
        }
        self.put(&record.source_port.to_be_bytes());
        self.put(&record.destination_port.to_be_bytes());
        self.put(&[record.protocol]);
        let seconds = u32::try_from(record.end_ns / 1_000_000_000).unwrap_or(u32::MAX);
        self.export_seconds = self.export_seconds.max(seconds);
        // Many collectors do not support finer times.
        for time_ns in [record.start_ns, record.end_ns] {
            self.put(&(time_ns / 1_000_000).to_be_bytes());
        }
        for time_ns in [record.start_ns, record.end_ns] {
            self.put(&self.precision.ntp(time_ns).to_be_bytes());
        }
        for (packets, ip_bytes, bytes, flags) in [
            (
                record.reverse_packets,
                record.reverse_ip_bytes,
                record.reverse_bytes,
                record.reverse_tcp_flags,
            ),
            (record.packets, record.ip_bytes, record.bytes, record.tcp_flags),
        ] {
            self.put(&packets.to_be_bytes());
            self.put(&ip_bytes.to_be_bytes());
            self.put(&bytes.to_be_bytes());
            self.put(&flags.to_be_bytes());
        }
        self.put(&record.icmp.unwrap_or_default());
        let [outer, inner] = record.vlans.map(Option::unwrap_or_default);
        for vlan in [outer, outer, inner] {
            self.put(&vlan.to_be_bytes());
        }
        self.put(&record.key.zone().to_be_bytes());
        self.put(&[record.end_reason.ipfix(), record.direction.ipfix()]);
        for at in 0..self.fields.len() {
            let FieldElement { index, bytes, .. } = self.fields[at];
            self.put_field(bytes, values.get(index).unwrap_or(&FieldValue::None));
        }
        self.records += 1;
        Ok(())
    }

    /// Writes the records of the open message.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn flush(&mut self) -> io::Result<()> {
        self.flush_message()?;
        self.out.flush_messages()
    }

    /// Writes the remaining records, and returns `out`.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush()?;
        Ok(self.out)
    }

    fn put_field(&mut self, bytes: u16, value: &FieldValue) {
        let number = if let FieldValue::Number(number) = value { *number } else { 0 };
        match (bytes, value.as_text()) {
            (VARIABLE_LENGTH, Some(text)) => {
                let text = text_of(text).as_bytes();
                match u8::try_from(text.len()) {
                    Ok(length) if length < u8::MAX => self.put(&[length]),
                    _ => self.put(&[u8::MAX, 0, u8::MAX]),
                }
                self.put(text);
            }
            (VARIABLE_LENGTH, None) => self.put(&[0]),
            (2, _) => self.put(&u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes()),
            _ => self.put(&number.to_be_bytes()),
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        self.message.extend_from_slice(bytes);
    }

    /// Begins a message. Its length is set when it is written.
    fn begin(&mut self) {
        let (seconds, sequence) = (self.export_seconds.to_be_bytes(), self.written.to_be_bytes());
        let header = [[0, 10, 0, 0], seconds, sequence, [0; 4]];
        self.message.clear();
        self.put(header.as_flattened());
        let carries_templates = match self.templates_every {
            Some(every) => self.messages.is_multiple_of(every),
            None => self.messages == 0,
        };
        if carries_templates {
            self.put_templates();
        }
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
            self.message[4..8].copy_from_slice(&self.export_seconds.to_be_bytes());
            self.out.send(&self.message, self.records.into())?;
            self.written = self.written.wrapping_add(self.records);
            self.records = 0;
            self.messages = self.messages.wrapping_add(1);
        }
        self.begin();
        Ok(())
    }
}

/// Returns the text, limited to the 255 bytes of an element.
fn text_of(text: &str) -> &str {
    let end = (0..=text.len().min(TEXT_BYTES_MAX)).rfind(|&end| text.is_char_boundary(end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_back_as_they_were() {
        let first = TimePrecision::Nanoseconds.ntp(0);
        assert_eq!(first >> 32, 2_208_988_800, "1970 in the seconds of NTP");
        for rest_ns in (0..1_000_000_000_u64).step_by(999_983).chain([1, 999, 1000, 1001, 999_999_999]) {
            let time_ns = 1_700_000_000_000_000_000 + rest_ns;
            let nanos = TimePrecision::Nanoseconds.ntp(time_ns);
            assert_eq!(((nanos & 0xFFFF_FFFF) * 1_000_000_000) >> 32, rest_ns);
            let micros = TimePrecision::Microseconds.ntp(time_ns);
            assert_eq!(((micros & 0xFFFF_FFFF) * 1_000_000) >> 32, rest_ns / 1000);
            assert_eq!(micros & 0x7FF, 0);
            assert_eq!((nanos >> 32, micros >> 32), (3_908_988_800, 3_908_988_800));
        }
    }
}

//! Writes records as IPFIX messages to a file (RFC 7011, RFC 5655), with both directions in one
//! record (RFC 5103).
//!
//! ```text
//!  message   version 10 | length | export time | records before | domain
//!  set       2: the two templates, in the first message, with datagrams in every sixteenth
//!  set       256: records of IPv4      257: records of IPv6      in the order of writing
//!  set       3: the options template, and 258: what each interface lost, at the end
//! ```
//!
//! The source of a record is the initiator of its connection, where `biflowDirection` is 1.
//! Elements of the reverse direction carry the reverse number of RFC 5103. `octetDeltaCount` counts
//! the bytes of IP packets, headers included, and `layer2OctetDeltaCount` the bytes on the wire.
//! Times are in milliseconds, and in nanoseconds or microseconds in the format of NTP [RFC 7011
//! §6.1.9]. ICMP has an element for type and code, and its ports are 0. A flow's zone is its
//! `ingressVRFID`. The records of different passes of a looped capture look the same.

mod template;

use std::io::{self, Write};

use flowloom_flow_key::IpFamily;
use flowloom_record::{Row, SchemaColumn, element};

use crate::{CaptureLosses, RecordWriter};
use template::{Template, put_text};

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
const OPTIONS_TEMPLATE_SET: u16 = 3;
/// The numbers of the templates of records of IPv4 and of IPv6.
const TEMPLATES: [u16; 2] = [256, 257];
/// The number of the options template for losses.
const LOSSES: u16 = 258;
/// Its elements with their lengths, of which the first is the scope: `ingressInterface`,
/// `interfaceName`, `ignoredPacketTotalCount`.
const LOSS_ELEMENTS: [[u16; 2]; 3] = [[10, 4], [82, u16::MAX], [164, 8]];

/// The number of the options template for sampling.
const SAMPLING: u16 = 259;
/// Its elements with their lengths, of which the first is the scope: `observationDomainId`, and
/// `samplingInterval` and `samplingAlgorithm`, which collectors read; `selectorAlgorithm`,
/// `samplingPacketInterval` and `samplingPacketSpace`, which replace them [RFC 5477 §8.2].
const SAMPLING_ELEMENTS: [[u16; 2]; 6] = [[149, 4], [34, 4], [35, 1], [304, 2], [305, 4], [306, 4]];

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

/// Writes records as IPFIX messages.
///
/// # Examples
///
/// ```
/// use flowloom_apps::accounting::AccountingRecord;
/// use flowloom_export::IpfixWriter;
/// use flowloom_export::record::GroupSet;
///
/// let columns = AccountingRecord::schema().of_groups(GroupSet::ALL);
/// let writer = IpfixWriter::new(Vec::new(), 1_700_000_000_000_000_000, &columns);
/// // writer.write(&row)? for each record
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
    /// Records of the open message, and records about the run, which only the sequence counts.
    records: u32,
    option_records: u32,
    export_seconds: u32,
    templates: [Template; 2],
    /// The position of the time of a record's last packet.
    end: Option<usize>,
    message_bytes_max: usize,
    /// Messages from one with templates to the next; `None` if only the first has them.
    templates_every: Option<u32>,
    messages: u32,
}

impl<W: MessageSink> IpfixWriter<W> {
    /// Returns a writer of those columns that have elements, with times in nanoseconds. The export
    /// time of its messages is `export_ns`, in nanoseconds since 1970, or the end of the latest
    /// record so far if that is later. Both are packet times, so the same packets give the same
    /// file.
    pub fn new(out: W, export_ns: u64, columns: &[SchemaColumn]) -> Self {
        Self::with_precision(out, export_ns, columns, TimePrecision::default())
    }

    /// Returns a writer whose records have times of this precision.
    pub fn with_precision(
        out: W,
        export_ns: u64,
        columns: &[SchemaColumn],
        precision: TimePrecision,
    ) -> Self {
        let is_end = |found: &&SchemaColumn| found.column.elements == element::END;
        let mut writer = Self {
            out,
            message: Vec::with_capacity(MESSAGE_BYTES_MAX),
            set: None,
            written: 0,
            records: 0,
            option_records: 0,
            export_seconds: u32::try_from(export_ns / 1_000_000_000).unwrap_or(u32::MAX),
            templates: [IpFamily::V4, IpFamily::V6].map(|family| Template::new(columns, family, precision)),
            end: columns.iter().find(is_end).map(|found| found.index),
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

    fn put_templates(&mut self) {
        self.open_set(TEMPLATE_SET);
        for (template, id) in self.templates.iter().zip(TEMPLATES) {
            template.put(id, &mut self.message);
        }
    }

    fn flush_all(&mut self) -> io::Result<()> {
        self.flush_message()?;
        self.out.flush_messages()
    }

    /// Writes the remaining records, and returns `out`.
    ///
    /// # Errors
    ///
    /// Returns the error of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.flush_all()?;
        Ok(self.out)
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
            self.written = self.written.wrapping_add(self.records + self.option_records);
            (self.records, self.option_records) = (0, 0);
            self.messages = self.messages.wrapping_add(1);
        }
        self.begin();
        Ok(())
    }
}

impl<W: MessageSink + Send> RecordWriter for IpfixWriter<W> {
    fn write(&mut self, row: &Row) -> io::Result<()> {
        let family = usize::from(row.key.family() == IpFamily::V6);
        let template = &self.templates[family];
        let least = if template.has_text() { MESSAGE_BYTES_MIN_WITH_TEXT } else { MESSAGE_BYTES_MIN };
        let bytes = SET_HEADER_BYTES + template.record_bytes(row);
        if self.message.len() + bytes > self.message_bytes_max.max(least) {
            self.flush_message()?;
        }
        if self.set.is_none_or(|(_, open)| open != TEMPLATES[family]) {
            self.open_set(TEMPLATES[family]);
        }
        if let Some(end_ns) = self.end.and_then(|end| row.value(end).number()) {
            let seconds = u32::try_from(end_ns / 1_000_000_000).unwrap_or(u32::MAX);
            self.export_seconds = self.export_seconds.max(seconds);
        }
        self.templates[family].put_record(row, &mut self.message);
        self.records += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flush_all()
    }

    fn write_losses(&mut self, losses: &[CaptureLosses]) -> io::Result<()> {
        for (at, one) in losses.iter().enumerate() {
            // The template, its set and that of the record have 30 bytes, and a record up to 271.
            if at == 0 || self.message.len() + 301 > self.message_bytes_max {
                self.flush_message()?;
                // The new message may begin with the other templates.
                if self.message.len() + 301 > self.message_bytes_max {
                    self.flush_message()?;
                }
                self.open_set(OPTIONS_TEMPLATE_SET);
                for word in [LOSSES, 3, 1].iter().chain(LOSS_ELEMENTS.as_flattened()) {
                    self.put(&word.to_be_bytes());
                }
                self.open_set(LOSSES);
            }
            self.put(&one.interface.to_be_bytes());
            put_text(&one.name, &mut self.message);
            self.put(&one.lost.to_be_bytes());
            self.option_records += 1;
        }
        Ok(())
    }

    /// Deterministic and systematic count-based sampling both have the number 1.
    fn write_sampling(&mut self, one_of: u32) -> io::Result<()> {
        // The template and the record with their sets have 61 bytes.
        if self.message.len() + 61 > self.message_bytes_max {
            self.flush_message()?;
        }
        self.open_set(OPTIONS_TEMPLATE_SET);
        for word in [SAMPLING, 6, 1].iter().chain(SAMPLING_ELEMENTS.as_flattened()) {
            self.put(&word.to_be_bytes());
        }
        self.open_set(SAMPLING);
        self.put(&[0; 4]);
        self.put(&one_of.to_be_bytes());
        self.put(&[1, 0, 1]);
        self.put(&1_u32.to_be_bytes());
        self.put(&one_of.saturating_sub(1).to_be_bytes());
        self.option_records += 1;
        self.flush_message()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back_as_written() {
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

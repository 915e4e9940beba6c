//! The state on which reading classic records depends, and the header of a record.

use flowloom_packet::LinkType;

/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 16;

/// Which of a record's two lengths comes first: the captured one, or the one on the wire in old
/// versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lengths {
    CapturedFirst,
    WireFirst,
    /// Versions wrote both orders; the captured length is the smaller of the two.
    Unknown,
}

impl Lengths {
    /// Returns the order of lengths in files of this version.
    pub(crate) fn of_version(major: u16, minor: u16) -> Result<Self, String> {
        match (major, minor) {
            // DG/UX wrote version 543.
            (2, ..3) | (543, _) => Ok(Self::WireFirst),
            (2, 3) => Ok(Self::Unknown),
            (2, _) => Ok(Self::CapturedFirst),
            _ => Err(format!("pcap version {major}.{minor}: only version 2 is supported")),
        }
    }

    /// Returns the captured length and the length on the wire.
    pub(crate) fn order(self, first: u32, second: u32) -> (u32, u32) {
        match self {
            Self::CapturedFirst => (first, second),
            Self::WireFirst => (second, first),
            Self::Unknown => (first.min(second), first.max(second)),
        }
    }
}

/// The fields of a file header on which reading the records depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PcapState {
    pub(crate) link: LinkType,
    pub(crate) big_endian: bool,
    pub(crate) extra_bytes: usize,
    pub(crate) lengths: Lengths,
    pub(crate) ns_per_unit: u64,
    pub(crate) snaplen: u32,
}

/// The header of one record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordHeader {
    pub(crate) seconds: u32,
    /// Microseconds or nanoseconds, according to the file header.
    pub(crate) fraction: u32,
    pub(crate) captured: u32,
    pub(crate) wire: u32,
}

impl PcapState {
    /// Bytes before the packet of each record.
    pub(crate) fn header_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.extra_bytes
    }

    /// Returns the maximum number of packet bytes of a record; 0 if the file does not state it.
    pub(crate) fn snaplen(&self) -> u32 {
        self.snaplen
    }

    /// Returns the number of time units in a second.
    pub(crate) fn units_per_second(&self) -> u64 {
        1_000_000_000 / self.ns_per_unit
    }

    /// Reads the header of the record at the start of `rest`, if all of it is there.
    pub(crate) fn header(&self, rest: &[u8]) -> Option<RecordHeader> {
        let header = rest.first_chunk::<RECORD_HEADER_BYTES>()?;
        let (captured, wire) = self.lengths.order(self.word(header, 8), self.word(header, 12));
        Some(RecordHeader { seconds: self.word(header, 0), fraction: self.word(header, 4), captured, wire })
    }

    pub(crate) fn word(&self, header: &[u8; RECORD_HEADER_BYTES], at: usize) -> u32 {
        let bytes = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }
}

//! Classic records: a file header, then a header of 16 bytes (24 in the modified variant) before
//! each packet.

use flowloom_packet::{BATCH_PACKETS, InterfaceName, LinkType, RawPacket};
use pcap_parser::{LegacyPcapBlock, PcapError, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use crate::capture::RECORD_BYTES_MAX;
use crate::capture::ahead::Ahead;
use crate::capture::format::Format;
use crate::capture::links::Links;
use crate::capture::pcap_state::{Lengths, PcapState, RECORD_HEADER_BYTES, RecordHeader};
use crate::capture::stop::{Stop, other_format};
use crate::capture::variant::{self, Answer};

/// Bytes of the file header.
pub(crate) const FILE_HEADER_BYTES: usize = 24;
/// Bytes that the modified variant puts between a record's header and its packet.
const MODIFIED_EXTRA_BYTES: usize = 8;

/// The value of a batch slot before a record is read.
const NO_PACKET: RawPacket = RawPacket {
    position: 0,
    captured_bytes: 0,
    wire_bytes: 0,
    time_ns: 0,
    link: LinkType::NULL,
    interface: InterfaceName::UNKNOWN,
};

type ParseError<'a> = pcap_parser::nom::Err<PcapError<&'a [u8]>>;

/// The state of a walk through a classic file.
#[derive(Debug)]
pub(crate) struct PcapWalk {
    /// Link types so far.
    links: Links,
    state: PcapState,
    /// Whether the records have confirmed the header length implied by the magic number.
    is_asked: bool,
}

impl PcapWalk {
    pub(crate) fn begin(
        bytes: &[u8],
        big_endian: bool,
        nanoseconds: bool,
        modified: bool,
    ) -> Result<(Self, usize), String> {
        let mut header = *bytes.first_chunk::<FILE_HEADER_BYTES>().ok_or_else(|| {
            format!("a pcap header has {FILE_HEADER_BYTES} bytes, but only {} are present", bytes.len())
        })?;
        if big_endian {
            // The parser does not support the modified variant in this byte order; the fields are
            // the same.
            header[..4].copy_from_slice(&0xA1B2_C3D4_u32.to_be_bytes());
        }
        let (_, header) =
            parse_pcap_header(&header).map_err(|error| format!("invalid pcap header: {error:?}"))?;
        let lengths = Lengths::of_version(header.version_major, header.version_minor)?;
        // The upper half of the field holds the length of a frame check sequence, not the link
        // type.
        let link = LinkType(u16::try_from(header.network.0 & 0xFFFF).unwrap_or(u16::MAX));
        let mut links = Links::default();
        links.add(link);
        let state = PcapState {
            link,
            big_endian,
            extra_bytes: if modified { MODIFIED_EXTRA_BYTES } else { 0 },
            lengths,
            ns_per_unit: if nanoseconds { 1 } else { 1000 },
            snaplen: header.snaplen,
        };
        let mut walk = Self { links, state, is_asked: false };
        walk.ask(bytes.get(FILE_HEADER_BYTES..).unwrap_or_default(), false);
        Ok((walk, FILE_HEADER_BYTES))
    }

    /// Continues from the state of another walk, which has recorded the link type of the next
    /// records.
    pub(crate) fn resume(state: PcapState) -> Self {
        Self { links: Links::default(), state, is_asked: true }
    }

    /// Derives the header length from the first records. Returns how many bytes of records it needs
    /// if they are not yet available. `last` means that nothing follows `records`.
    fn ask(&mut self, records: &[u8], last: bool) -> Option<usize> {
        match variant::extra_bytes(&self.state, self.state.extra_bytes, records, last) {
            Answer::Extra(extra_bytes) => {
                self.is_asked = true;
                self.state.extra_bytes = extra_bytes;
                None
            }
            Answer::Need(bytes) => Some(bytes),
        }
    }

    pub(crate) fn state(&self) -> PcapState {
        self.state
    }

    /// Continues with another capture, whose file header begins `bytes`. Returns the offset of its
    /// first record.
    pub(crate) fn join(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let Some(Format::Pcap { big_endian, nanoseconds, modified }) = Format::detect(bytes) else {
            return Err(String::from("not the header of another pcap capture"));
        };
        let (mut walk, start) = Self::begin(bytes, big_endian, nanoseconds, modified)?;
        walk.links = std::mem::take(&mut self.links);
        walk.links.add(walk.state.link);
        // Only the first capture of a file is checked: parts of a file do not begin with the
        // others.
        walk.state.extra_bytes = if modified { MODIFIED_EXTRA_BYTES } else { 0 };
        walk.is_asked = true;
        *self = walk;
        Ok(start)
    }

    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        from: usize,
        last: bool,
        ahead: &mut Ahead,
        out: &mut Vec<RawPacket>,
    ) -> (usize, Stop) {
        let mut at = from;
        if !self.is_asked
            && let Some(need) = self.ask(&bytes[from..], last)
        {
            return (from, Stop::More { need });
        }
        loop {
            at = self.usual_records(bytes, at, ahead, out);
            if out.len() == BATCH_PACKETS {
                return (at, Stop::Full);
            }
            match self.unusual_record(&bytes[at..]) {
                Ok(record) => {
                    at += self.header_bytes();
                    out.push(RawPacket { position: at as u64, ..record });
                }
                Err(stop) => return (at, stop),
            }
        }
    }

    /// Returns the bytes of a record before its packet.
    pub(crate) fn header_bytes(&self) -> usize {
        self.state.header_bytes()
    }

    /// Appends the records from offset `from` up to the first unusual one. Returns its offset.
    fn usual_records(
        &self,
        bytes: &[u8],
        from: usize,
        ahead: &mut Ahead,
        out: &mut Vec<RawPacket>,
    ) -> usize {
        match (self.state.lengths, self.state.big_endian, self.state.extra_bytes) {
            (Lengths::CapturedFirst, false, 0) => {
                self.records(bytes, from, ahead, out, |rest| parse_pcap_frame(rest).map(|(_, frame)| frame))
            }
            (Lengths::CapturedFirst, true, 0) => self
                .records(bytes, from, ahead, out, |rest| parse_pcap_frame_be(rest).map(|(_, frame)| frame)),
            // The library reads the modified variant in one byte order only, and does not support
            // old length fields.
            _ => self.records(bytes, from, ahead, out, |rest| self.frame(rest)),
        }
    }

    #[inline(always)]
    fn records<'a>(
        &self,
        bytes: &'a [u8],
        from: usize,
        ahead: &mut Ahead,
        out: &mut Vec<RawPacket>,
        parse: impl Fn(&'a [u8]) -> Result<LegacyPcapBlock<'a>, ParseError<'a>>,
    ) -> usize {
        let header_bytes = self.header_bytes();
        let (link, ns_per_unit) = (self.state.link, self.state.ns_per_unit);
        // Slots for a whole batch are used, and the changing state stays in registers: everything
        // waits for the offset of the next record.
        let before = out.len();
        out.resize(BATCH_PACKETS, NO_PACKET);
        let (mut at, mut lines) = (from, *ahead);
        let places = out[before..].iter_mut();
        let mut left = places.len();
        for place in places {
            match parse(&bytes[at..]) {
                // Neither empty nor too long.
                Ok(frame) if (frame.caplen as usize).wrapping_sub(1) < RECORD_BYTES_MAX => {
                    *place = RawPacket {
                        position: (at + header_bytes) as u64,
                        captured_bytes: frame.caplen,
                        wire_bytes: frame.origlen,
                        time_ns: u64::from(frame.ts_sec) * 1_000_000_000
                            + u64::from(frame.ts_usec) * ns_per_unit,
                        link,
                        interface: InterfaceName::UNKNOWN,
                    };
                    left -= 1;
                    // Uses the stated length, which is known earlier than the checked one and equal
                    // to it.
                    at += header_bytes + frame.caplen as usize;
                    lines.reach(bytes, at);
                }
                _ => break,
            }
        }
        *ahead = lines;
        out.truncate(BATCH_PACKETS - left);
        at
    }

    /// Returns the packet at the start of `rest`, which is not empty. Otherwise returns the reason:
    /// its record is incomplete, its length is invalid, or the header of another capture begins
    /// here.
    #[cold]
    fn unusual_record(&self, rest: &[u8]) -> Result<RawPacket, Stop> {
        let header_bytes = self.header_bytes();
        let Some(header) = rest.first_chunk::<RECORD_HEADER_BYTES>() else {
            return Err(Stop::More { need: header_bytes });
        };
        let word = |at: usize| self.state.word(header, at);
        let (captured, wire_bytes) = self.state.lengths.order(word(8), word(12));
        let captured = captured as usize;
        if captured > RECORD_BYTES_MAX {
            return Err(match Format::detect(header) {
                Some(Format::Pcapng) => other_format("pcapng"),
                _ => too_long(captured),
            });
        }
        if rest.len() < header_bytes + captured {
            return Err(Stop::More { need: header_bytes + captured });
        }
        if is_file_header(header) {
            return Err(match rest.len() {
                FILE_HEADER_BYTES.. => Stop::Joined,
                _ => Stop::More { need: FILE_HEADER_BYTES },
            });
        }
        let time_ns = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4)) * self.state.ns_per_unit;
        Ok(RawPacket { time_ns, wire_bytes, link: self.state.link, ..NO_PACKET })
    }

    /// Reads a record of any variant: the usual header, eight more bytes in some variants, then the
    /// packet.
    fn frame<'a>(&self, rest: &'a [u8]) -> Result<LegacyPcapBlock<'a>, ParseError<'a>> {
        let incomplete = || pcap_parser::nom::Err::Incomplete(pcap_parser::nom::Needed::Unknown);
        let RecordHeader { seconds, fraction, captured, wire } =
            self.state.header(rest).ok_or_else(incomplete)?;
        // The stated length may exceed the address space of a 32-bit machine.
        let data = rest.get(self.header_bytes()..).and_then(|data| data.get(..captured as usize));
        let data = data.ok_or_else(incomplete)?;
        Ok(LegacyPcapBlock { ts_sec: seconds, ts_usec: fraction, caplen: captured, origlen: wire, data })
    }

    pub(crate) fn links(&self) -> &[LinkType] {
        self.links.as_slice()
    }
}

/// Returns whether a record's header is the beginning of a file: a record without bytes at a very
/// unlikely time.
fn is_file_header(header: &[u8; RECORD_HEADER_BYTES]) -> bool {
    let version = match Format::detect(header) {
        Some(Format::Pcap { big_endian: true, .. }) => [0, 2, 0, 4],
        Some(Format::Pcap { big_endian: false, .. }) => [2, 0, 4, 0],
        Some(Format::Pcapng) | None => return false,
    };
    header[4..8] == version && header[8..] == [0; 8]
}

fn too_long(captured: usize) -> Stop {
    Stop::Corrupt(format!("a record states {captured} captured bytes; the limit is {RECORD_BYTES_MAX}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a capture of this version with one packet of three bytes (five on the wire), and the
    /// offset of its record.
    fn capture(big_endian: bool, modified: bool, version: [u16; 2], lengths: [u32; 2]) -> (Vec<u8>, usize) {
        let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let magic = word(if modified { 0xA1B2_CD34 } else { 0xA1B2_C3D4 });
        let mut bytes = [&magic[..], &half(version[0]), &half(version[1]), &[0; 12], &word(1)].concat();
        let start = bytes.len();
        for value in [7, 1, lengths[0], lengths[1]] {
            bytes.extend(word(value));
        }
        bytes.extend(vec![0; if modified { MODIFIED_EXTRA_BYTES } else { 0 }]);
        bytes.extend([1, 2, 3]);
        (bytes, start)
    }

    #[test]
    fn version_determines_the_order_of_the_length_fields() {
        for (big_endian, modified) in [(false, false), (true, false), (false, true), (true, true)] {
            for (version, lengths) in [
                ([2, 4], [3, 5]),
                ([2, 5], [3, 5]),
                ([2, 2], [5, 3]),
                ([2, 0], [5, 3]),
                ([543, 0], [5, 3]),
                ([2, 3], [3, 5]),
                ([2, 3], [5, 3]),
            ] {
                let (bytes, start) = capture(big_endian, modified, version, lengths);
                let begin = || PcapWalk::begin(&bytes, big_endian, false, modified).unwrap().0;
                let mut packets = Vec::new();
                let step = begin().step(&bytes, start, true, &mut Ahead::from(0), &mut packets);
                assert_eq!(step, (bytes.len(), Stop::More { need: begin().header_bytes() }));
                let expected = RawPacket {
                    position: bytes.len() as u64 - 3,
                    captured_bytes: 3,
                    wire_bytes: 5,
                    time_ns: 7_000_001_000,
                    link: LinkType::ETHERNET,
                    interface: InterfaceName::UNKNOWN,
                };
                assert_eq!(packets, [expected], "{version:?}");
                packets.clear();
                let cut = &bytes[..bytes.len() - 1];
                let step = begin().step(cut, start, true, &mut Ahead::from(0), &mut packets);
                assert_eq!((step, packets.len()), ((start, Stop::More { need: bytes.len() - start }), 0));
            }
        }
    }

    #[test]
    fn unknown_major_version_is_refused() {
        for version in [[0, 0], [1, 4], [3, 0]] {
            for big_endian in [false, true] {
                let (bytes, _) = capture(big_endian, false, version, [3, 5]);
                let why = PcapWalk::begin(&bytes, big_endian, false, false).unwrap_err();
                let [major, minor] = version;
                assert_eq!(why, format!("pcap version {major}.{minor}: only version 2 is supported"));
            }
        }
    }
}

//! Classic records: a file header, then a header of 16 bytes (24 in the modified variant) before each packet.

use flowloom_packet::{BATCH_PACKETS, LinkType, RawPacket};
use pcap_parser::{LegacyPcapBlock, PcapError, parse_pcap_frame, parse_pcap_frame_be, parse_pcap_header};

use super::RECORD_BYTES_MAX;
use super::walk::{Ahead, Stop};

/// Bytes of the file header.
pub(super) const FILE_HEADER_BYTES: usize = 24;
/// Bytes of a record's header.
const RECORD_HEADER_BYTES: usize = 16;
/// Bytes that the modified variant puts between a record's header and its packet.
const MODIFIED_EXTRA_BYTES: usize = 8;

/// What stands in a place of a batch before a record is read.
const NO_PACKET: RawPacket =
    RawPacket { position: 0, captured: 0, wire: 0, time_ns: 0, link: LinkType::NULL };

type ParseError<'a> = pcap_parser::nom::Err<PcapError<&'a [u8]>>;

/// The state of a walk through a classic file.
#[derive(Debug)]
pub(super) struct PcapWalk {
    links: [LinkType; 1],
    big_endian: bool,
    extra_bytes: usize,
    ns_per_unit: u64,
}

impl PcapWalk {
    pub(super) fn begin(
        bytes: &[u8],
        big_endian: bool,
        nanoseconds: bool,
        modified: bool,
    ) -> Result<(Self, usize), String> {
        let mut header = *bytes.first_chunk::<FILE_HEADER_BYTES>().ok_or_else(|| {
            format!("a pcap header has {FILE_HEADER_BYTES} bytes, only {} are here", bytes.len())
        })?;
        if big_endian {
            // The parser does not know the modified variant in this byte order; the fields are the same.
            header[..4].copy_from_slice(&0xA1B2_C3D4_u32.to_be_bytes());
        }
        let (_, header) =
            parse_pcap_header(&header).map_err(|error| format!("broken pcap header: {error:?}"))?;
        // The upper half of the field holds the length of a frame check sequence, not the link type.
        let link = LinkType(u16::try_from(header.network.0 & 0xFFFF).unwrap_or(u16::MAX));
        let walk = Self {
            links: [link],
            big_endian,
            extra_bytes: if modified { MODIFIED_EXTRA_BYTES } else { 0 },
            ns_per_unit: if nanoseconds { 1 } else { 1000 },
        };
        Ok((walk, FILE_HEADER_BYTES))
    }

    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        from: usize,
        ahead: &mut Ahead,
        out: &mut Vec<RawPacket>,
    ) -> (usize, Stop) {
        if self.extra_bytes != 0 {
            let big_endian = self.big_endian;
            self.records(bytes, from, ahead, out, |rest| modified_frame(rest, big_endian))
        } else if self.big_endian {
            self.records(bytes, from, ahead, out, |rest| parse_pcap_frame_be(rest).map(|(_, frame)| frame))
        } else {
            self.records(bytes, from, ahead, out, |rest| parse_pcap_frame(rest).map(|(_, frame)| frame))
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
    ) -> (usize, Stop) {
        let header_bytes = RECORD_HEADER_BYTES + self.extra_bytes;
        let (link, ns_per_unit) = (self.links[0], self.ns_per_unit);
        // Places for a whole batch, and all that changes with a record in registers: where the next record begins is what
        // everything waits for.
        let before = out.len();
        out.resize(BATCH_PACKETS, NO_PACKET);
        let (mut at, mut lines) = (from, *ahead);
        let places = out[before..].iter_mut();
        let mut left = places.len();
        for place in places {
            match parse(&bytes[at..]) {
                Ok(frame) if frame.caplen as usize <= RECORD_BYTES_MAX => {
                    *place = RawPacket {
                        position: (at + header_bytes) as u64,
                        captured: frame.caplen,
                        wire: frame.origlen,
                        time_ns: u64::from(frame.ts_sec) * 1_000_000_000
                            + u64::from(frame.ts_usec) * ns_per_unit,
                        link,
                    };
                    left -= 1;
                    // As stated, not as found, though they are the same: it is known sooner.
                    at += header_bytes + frame.caplen as usize;
                    lines.reach(bytes, at);
                }
                _ => break,
            }
        }
        *ahead = lines;
        out.truncate(BATCH_PACKETS - left);
        (at, if left == 0 { Stop::Full } else { self.unfinished(&bytes[at..], header_bytes) })
    }

    /// Says why no record could be read from `rest`: it is not all there, or its length cannot be true.
    #[cold]
    fn unfinished(&self, rest: &[u8], header_bytes: usize) -> Stop {
        let Some(length) = rest.get(8..12).and_then(|field| field.first_chunk::<4>()) else {
            return Stop::More { need: header_bytes };
        };
        let captured =
            if self.big_endian { u32::from_be_bytes(*length) } else { u32::from_le_bytes(*length) }
                as usize;
        if captured > RECORD_BYTES_MAX {
            return too_long(captured);
        }
        Stop::More { need: header_bytes + captured }
    }

    pub(super) fn links(&self) -> &[LinkType] {
        &self.links
    }
}

fn too_long(captured: usize) -> Stop {
    Stop::Corrupt(format!(
        "a record claims {captured} captured bytes, the largest that is believed has {RECORD_BYTES_MAX}"
    ))
}

/// Reads a record of the modified variant: the usual header, eight more bytes, then the packet.
fn modified_frame(rest: &[u8], big_endian: bool) -> Result<LegacyPcapBlock<'_>, ParseError<'_>> {
    if !big_endian {
        return pcap_parser::parse_pcap_frame_modified(rest).map(|(_, frame)| frame);
    }
    let incomplete = || pcap_parser::nom::Err::Incomplete(pcap_parser::nom::Needed::Unknown);
    let header = rest.first_chunk::<RECORD_HEADER_BYTES>().ok_or_else(incomplete)?;
    let word = |i: usize| u32::from_be_bytes([header[i], header[i + 1], header[i + 2], header[i + 3]]);
    let start = RECORD_HEADER_BYTES + MODIFIED_EXTRA_BYTES;
    let data = rest.get(start..start + word(8) as usize).ok_or_else(incomplete)?;
    Ok(LegacyPcapBlock { ts_sec: word(0), ts_usec: word(4), caplen: word(8), origlen: word(12), data })
}

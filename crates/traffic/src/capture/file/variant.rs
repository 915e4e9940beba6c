//! Detects classic pcap files whose records have longer headers than their magic number implies.
//!
//! Patched versions of libpcap wrote additional bytes between a record's header and its packet, but
//! kept a magic number that was already in use. Only the records reveal this: with the correct
//! length, each header leads to another plausible one.
//!
//! | magic number | more bytes | written by |
//! | --- | --- | --- |
//! | `a1b2c3d4` | 0 | libpcap |
//! | | 4 | Nokia (`editcap -F nokiapcap`) |
//! | | 8 | Red Hat 6.1 (`rh6_1pcap`) |
//! | `a1b2cd34` | 8 | the modified variant (`modpcap`) |
//! | | 12 | `SuSE` 6.3 (`suse6_3pcap`) |

//!
//! The decision depends only on the shortest beginning of the file that suffices, so a pipe that
//! delivers single bytes gives the same result as a file.

use crate::capture::RECORD_BYTES_MAX;
use crate::capture::pcap_state::{PcapState, RECORD_HEADER_BYTES, RecordHeader};

/// Number of consecutive plausible headers that confirm the header length of the magic number.
const ANNOUNCED_HEADERS: usize = 2;
/// Number of consecutive plausible headers that confirm another length.
const OTHER_HEADERS: usize = 3;
/// At the end of the file, this many whole records suffice for another length.
const OTHER_RECORDS: usize = 2;
/// Maximum number of bytes of records that are inspected.
const LOOK_AHEAD_BYTES_MAX: usize = RECORD_BYTES_MAX;
/// Maximum number of seconds between two consecutive records; in captures of rare packets, it can
/// be days.
const SECONDS_APART_MAX: u32 = 400 * 86_400;

/// The length of the chain of plausible records with a given header length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chain {
    /// All headers are plausible.
    Whole,
    /// A header is not plausible.
    Broken,
    /// The next header ends after `need` bytes, which are not available.
    Short { records: usize, need: usize },
}

/// The header length that follows from the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// This many bytes separate a record's header from its packet.
    Extra(usize),
    /// This many bytes of records are needed for a decision.
    Need(usize),
}

/// Derives the number of bytes between a record's header and its packet, for a file whose records
/// begin `rest`. The `announced` number is used unless it fails and another number does not.
///
/// `last` means that nothing follows `rest`.
pub(crate) fn extra_bytes(state: &PcapState, announced: usize, rest: &[u8], last: bool) -> Answer {
    match chain(state, announced, rest, ANNOUNCED_HEADERS, is_possible) {
        Chain::Broken => {}
        Chain::Short { need, .. } if !last && need <= LOOK_AHEAD_BYTES_MAX => return Answer::Need(need),
        Chain::Whole | Chain::Short { .. } => return Answer::Extra(announced),
    }
    let others: &[usize] = if announced == 0 { &[4, 8] } else { &[12] };
    for &extra in others {
        match chain(state, extra, rest, OTHER_HEADERS, is_plausible) {
            Chain::Short { need, .. } if need > LOOK_AHEAD_BYTES_MAX => {}
            Chain::Short { need, .. } if !last => return Answer::Need(need),
            Chain::Whole | Chain::Short { records: OTHER_RECORDS.., .. } => return Answer::Extra(extra),
            Chain::Short { .. } | Chain::Broken => {}
        }
    }
    Answer::Extra(announced)
}

fn chain(
    state: &PcapState,
    extra: usize,
    rest: &[u8],
    headers: usize,
    passes: fn(&PcapState, RecordHeader, Option<RecordHeader>) -> bool,
) -> Chain {
    let mut at = 0;
    let mut before: Option<RecordHeader> = None;
    for nth in 0..headers {
        let Some(header) = rest.get(at..).and_then(|rest| state.header(rest)) else {
            // The last record may be incomplete.
            let records = if at <= rest.len() { nth } else { nth.saturating_sub(1) };
            return Chain::Short { records, need: at + RECORD_HEADER_BYTES };
        };
        if !passes(state, header, before) {
            return Chain::Broken;
        }
        at += RECORD_HEADER_BYTES + extra + header.captured as usize;
        before = Some(header);
    }
    Chain::Whole
}

/// Returns whether a header is possible with the announced length: real files have unusual lengths
/// and times.
fn is_possible(state: &PcapState, header: RecordHeader, before: Option<RecordHeader>) -> bool {
    header.captured as usize <= RECORD_BYTES_MAX
        && u64::from(header.fraction) < state.units_per_second()
        && before.is_none_or(|before| before.seconds.abs_diff(header.seconds) <= SECONDS_APART_MAX)
}

/// Returns whether a header is plausible with another length; this test is stricter.
fn is_plausible(state: &PcapState, header: RecordHeader, before: Option<RecordHeader>) -> bool {
    header.captured > 0 && header.captured <= header.wire && is_possible(state, header, before)
}

#[cfg(test)]
mod tests {
    use flowloom_packet::RawPacket;

    use crate::capture::ahead::Ahead;
    use crate::capture::pcap::PcapWalk;

    /// Returns a file of records with this many bytes between header and packet.
    fn file(big_endian: bool, modified: bool, extra: usize, packets: usize) -> Vec<u8> {
        let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let magic: u32 = if modified { 0xA1B2_CD34 } else { 0xA1B2_C3D4 };
        let mut bytes = [&word(magic)[..], &half(2), &half(4), &[0; 8], &word(65_535), &word(1)].concat();
        for index in 0..packets {
            let length = 60 + index % 7;
            let length = u32::try_from(length).unwrap();
            for value in [1_000_000_000 + u32::try_from(index).unwrap(), 5, length, length] {
                bytes.extend(word(value));
            }
            bytes.extend(vec![0x5A; extra]);
            bytes.extend((0..length).map(|at| at.wrapping_mul(37).wrapping_add(11).to_le_bytes()[0]));
        }
        bytes
    }

    fn read(bytes: &[u8], big_endian: bool, modified: bool) -> Vec<RawPacket> {
        let (mut walk, start) = PcapWalk::begin(bytes, big_endian, false, modified).unwrap();
        let mut packets = Vec::new();
        let (end, _) = walk.step(bytes, start, true, &mut Ahead::from(0), &mut packets);
        assert_eq!(end, bytes.len());
        packets
    }

    #[test]
    fn each_length_of_header_is_recognised() {
        for big_endian in [false, true] {
            for (modified, extra) in [(false, 0), (false, 4), (false, 8), (true, 8), (true, 12)] {
                for packets in [2, 3, 30] {
                    let bytes = file(big_endian, modified, extra, packets);
                    let read = read(&bytes, big_endian, modified);
                    assert_eq!(read.len(), packets, "{extra} bytes");
                    for packet in read {
                        assert_eq!(&packet.bytes_in(&bytes)[..3], [11, 48, 85], "{extra} bytes");
                    }
                }
            }
        }
    }

    #[test]
    fn a_stream_is_recognised_wherever_its_first_piece_ends() {
        for (modified, extra) in [(false, 0), (false, 4), (false, 8), (true, 8), (true, 12)] {
            let bytes = file(false, modified, extra, 9);
            for first in 24..bytes.len() {
                let (mut walk, start) = PcapWalk::begin(&bytes[..first], false, false, modified).unwrap();
                let mut packets = Vec::new();
                let mut ahead = Ahead::from(0);
                let (at, _) = walk.step(&bytes[..first], start, false, &mut ahead, &mut packets);
                let (end, _) = walk.step(&bytes, at, true, &mut ahead, &mut packets);
                assert_eq!((end, packets.len()), (bytes.len(), 9), "{extra} bytes, cut at {first}");
            }
        }
    }

    #[test]
    fn detection_needs_a_bounded_number_of_bytes() {
        let mut bytes = file(false, false, 0, 1);
        let most = u32::try_from(super::RECORD_BYTES_MAX).unwrap();
        bytes[24 + 8..24 + 12].copy_from_slice(&most.to_le_bytes());
        let (mut walk, start) = PcapWalk::begin(&bytes, false, false, false).unwrap();
        let step = walk.step(&bytes, start, false, &mut Ahead::from(0), &mut Vec::new());
        let need = super::RECORD_HEADER_BYTES + super::RECORD_BYTES_MAX;
        assert_eq!(step, (start, crate::capture::stop::Stop::More { need }));
    }

    #[test]
    fn damaged_pcap_file_keeps_its_detected_variant() {
        let mut bytes = file(false, false, 0, 9);
        let second = 24 + 16 + 60;
        bytes[second + 8..second + 12].fill(0xEE);
        let (mut walk, start) = PcapWalk::begin(&bytes, false, false, false).unwrap();
        let mut packets = Vec::new();
        let (at, _) = walk.step(&bytes, start, true, &mut Ahead::from(0), &mut packets);
        assert_eq!((at, packets.len()), (second, 1));
    }
}

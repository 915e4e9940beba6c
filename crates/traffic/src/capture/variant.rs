//! Classic pcap files whose records have longer headers than their magic number announces.
//!
//! Patched versions of libpcap wrote more bytes between a record's header and its packet, and kept
//! a magic number that was in use. Only the records show it: with the right length each header
//! leads to another plausible one.
//!
//! | magic number | more bytes | written by |
//! | --- | --- | --- |
//! | `a1b2c3d4` | 0 | libpcap |
//! | | 4 | Nokia (`editcap -F nokiapcap`) |
//! | | 8 | Red Hat 6.1 (`rh6_1pcap`) |
//! | `a1b2cd34` | 8 | the modified variant (`modpcap`) |
//! | | 12 | `SuSE` 6.3 (`suse6_3pcap`) |

use super::RECORD_BYTES_MAX;
use super::pcap_state::{PcapState, RecordHeader};

/// The most records that are checked.
const RECORDS_MAX: usize = 16;
/// Records that must follow each other for a length that the magic number does not announce.
const RECORDS_MIN: usize = 2;
/// The most seconds between two consecutive records; captures of rare packets have days.
const SECONDS_APART_MAX: u32 = 400 * 86_400;

/// How far the records of a file lead with one header length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Chain {
    records: usize,
    /// A header was not plausible.
    is_broken: bool,
}

/// Returns the number of bytes between a record's header and its packet, for a file whose records
/// begin `rest`. Returns `None` if too few of them are there. The `announced` number stays unless
/// it fails and another one does not.
pub(super) fn extra_bytes(state: &PcapState, announced: usize, rest: &[u8]) -> Option<usize> {
    let usual = chain(state, announced, rest, is_possible);
    if !usual.is_broken {
        return (usual.records >= RECORDS_MIN).then_some(announced);
    }
    let others: &[usize] = if announced == 0 { &[4, 8] } else { &[12] };
    let fits = |&extra: &usize| {
        let other = chain(state, extra, rest, is_plausible);
        !other.is_broken && other.records >= RECORDS_MIN && other.records > usual.records
    };
    Some(others.iter().copied().find(fits).unwrap_or(announced))
}

fn chain(
    state: &PcapState,
    extra: usize,
    rest: &[u8],
    passes: fn(&PcapState, RecordHeader, Option<RecordHeader>) -> bool,
) -> Chain {
    let (mut at, mut records) = (0, 0);
    let mut before: Option<RecordHeader> = None;
    while records < RECORDS_MAX
        && let Some(header) = rest.get(at..).and_then(|rest| state.header(rest))
    {
        if !passes(state, header, before) {
            return Chain { records, is_broken: true };
        }
        at += 16 + extra + header.captured as usize;
        if at > rest.len() {
            break;
        }
        records += 1;
        before = Some(header);
    }
    Chain { records, is_broken: false }
}

/// Returns whether a header may be of the announced kind: real files have odd lengths and times.
fn is_possible(state: &PcapState, header: RecordHeader, before: Option<RecordHeader>) -> bool {
    header.captured as usize <= RECORD_BYTES_MAX
        && u64::from(header.fraction) < state.units_per_second()
        && before.is_none_or(|before| before.seconds.abs_diff(header.seconds) <= SECONDS_APART_MAX)
}

/// Returns whether a header looks like one of another kind, for which the test is stricter.
fn is_plausible(state: &PcapState, header: RecordHeader, before: Option<RecordHeader>) -> bool {
    header.captured > 0 && header.captured <= header.wire && is_possible(state, header, before)
}

#[cfg(test)]
mod tests {
    use flowloom_packet::RawPacket;

    use super::super::ahead::Ahead;
    use super::super::pcap::PcapWalk;

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
        let (end, _) = walk.step(bytes, start, &mut Ahead::from(0), &mut packets);
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
    fn a_stream_that_begins_with_a_few_bytes_is_recognised_later() {
        let bytes = file(false, false, 4, 9);
        let (mut walk, start) = PcapWalk::begin(&bytes[..32], false, false, false).unwrap();
        let mut packets = Vec::new();
        let (at, _) = walk.step(&bytes[..32], start, &mut Ahead::from(0), &mut packets);
        assert_eq!((at, packets.len()), (start, 0));
        let (end, _) = walk.step(&bytes, at, &mut Ahead::from(0), &mut packets);
        assert_eq!((end, packets.len()), (bytes.len(), 9));
    }

    #[test]
    fn a_damaged_file_of_the_usual_kind_stays_what_it_is() {
        let mut bytes = file(false, false, 0, 9);
        let second = 24 + 16 + 60;
        bytes[second + 8..second + 12].fill(0xEE);
        let (mut walk, start) = PcapWalk::begin(&bytes, false, false, false).unwrap();
        let mut packets = Vec::new();
        let (at, _) = walk.step(&bytes, start, &mut Ahead::from(0), &mut packets);
        assert_eq!((at, packets.len()), (second, 1));
    }
}

//! Finds the beginning of a record from an arbitrary offset in a file.
//!
//! Neither format marks the beginning of a record, so the search looks for a *chain*: a plausible
//! record header, which leads to the next header, which is plausible too, and so on. A payload may
//! contain images of records (for example, a capture of captures sent over a network), but such a
//! chain breaks where the surrounding packet ends. The search accepts a chain that is longer than
//! the longest usual packet, or that reaches the end of the file.
//!
//! The result is an assumption. [`CaptureParts`](crate::capture::CaptureParts) reads on from there
//! and verifies it.
//!
//! A search reads the headers of about 128 KiB of records, which are a few pages. It stops after
//! [`WINDOW_BYTES`] or [`HEADERS_MAX`] headers.

use crate::capture::RECORD_BYTES_MAX;
use crate::capture::format::Format;
use crate::capture::open::WalkPosition;
use crate::capture::pcap_state::{PcapState, RecordHeader};
use crate::capture::pcapng::{BlockHeader, BlockOrder, section_header_bytes};
use crate::capture::stop::Stop;
use crate::capture::walk::{Walk, WalkState};

/// Number of bytes after the starting offset in which a record must begin.
const WINDOW_BYTES: usize = 1 << 20;
/// Maximum number of headers read in one search: one per byte of the window, and as many again for
/// chains.
const HEADERS_MAX: u32 = 2 << 20;
/// Maximum number of headers read in all searches of a plan, which takes half a second.
const HEADERS_OF_PLAN_MAX: u32 = 64 << 20;
/// Number of bytes that a chain must cover: more than a packet built by offloading, which may
/// contain its own chain.
const CHAIN_BYTES: usize = 128 << 10;
/// Minimum number of records of a chain, unless it reaches the end of the file.
const CHAIN_RECORDS: u32 = 8;
/// Number of whole records that a chain needs before a record that the end of the file truncates.
const CHAIN_RECORDS_CUT: u32 = 3;
/// Number of bytes at the start of a file that contain the descriptions before the first packet.
const DESCRIPTIONS_BYTES: usize = 4 << 20;
/// Maximum number of seconds between consecutive records, in either direction: twelve days.
const GAP_SECONDS_MAX: u32 = 1 << 20;
/// Bytes by which the captured length may exceed the length on the wire: headers that adapters add.
const EXTRA_BYTES_MAX: u32 = 64;
/// A smaller snap length counts as this one: some writers exceed the limit in their header.
const SNAPLEN_MIN: u32 = 65_535;

/// The remaining cost of searches: a hostile file may contain any number of long chains that
/// eventually break.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    headers: u32,
}

impl Default for Budget {
    fn default() -> Self {
        Self { headers: HEADERS_OF_PLAN_MAX }
    }
}

/// The description at the beginning of a file.
#[derive(Debug)]
pub(crate) struct FileHead {
    /// The reading state before the first packet.
    state: WalkState,
    /// The offset of the first record, or of the first packet block.
    first: usize,
}

impl FileHead {
    /// Reads the beginning of a file. Returns `None` if it is not a capture.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (mut walk, start) = Walk::begin(Format::detect(bytes)?, bytes).ok()?;
        let end = bytes.len().min(DESCRIPTIONS_BYTES);
        let mut at = start;
        while let Some(header) = walk.block_header(&bytes[at..end]) {
            let length = if header.is_section() {
                section_header_bytes(&bytes[at..end])
            } else {
                header.length as usize
            };
            let Some(next) = at.checked_add(length).filter(|next| *next <= end) else { break };
            let mut packets = Vec::new();
            if header.is_packet() || length == 0 {
                break;
            }
            match walk.step(&bytes[..next], at, false, &mut packets) {
                (reached, Stop::More { .. }) if reached == next && packets.is_empty() => at = reached,
                _ => break,
            }
        }
        Some(Self { state: walk.state_at(&[], 0), first: at })
    }

    /// Returns the offset of the first record, or of the first packet block.
    pub(crate) fn first(&self) -> usize {
        self.first
    }

    /// Returns whether the file is pcapng.
    pub(crate) fn is_of_blocks(&self) -> bool {
        matches!(self.state, WalkState::Pcapng(_))
    }

    /// Returns the reading state at `at`, if neither sections nor interfaces began since the first
    /// packet.
    pub(crate) fn state_at(&self, bytes: &[u8], at: usize) -> WalkState {
        self.state.clone().before(bytes.get(at..).unwrap_or_default())
    }

    /// Returns the head of the rest of a file from a record on.
    pub(crate) fn at(place: &WalkPosition) -> Self {
        Self { state: place.state.clone(), first: usize::try_from(place.offset).unwrap_or(usize::MAX) }
    }

    /// Returns an offset, `from` or a later one, at which a record seems to begin.
    pub(crate) fn record_from(&self, bytes: &[u8], from: usize, budget: &mut Budget) -> Option<usize> {
        self.record_by_chain(bytes, from, CHAIN_BYTES, budget)
    }

    /// Returns such an offset after a short look, for a caller that soon sees a wrong one.
    pub(crate) fn record_soon_from(&self, bytes: &[u8], from: usize, budget: &mut Budget) -> Option<usize> {
        self.record_by_chain(bytes, from, 0, budget)
    }

    fn record_by_chain(
        &self,
        bytes: &[u8],
        from: usize,
        chain_bytes: usize,
        budget: &mut Budget,
    ) -> Option<usize> {
        let headers = HEADERS_MAX.min(budget.headers);
        let mut chain = Chain { bytes, bytes_min: chain_bytes, headers_left: headers };
        let found = self.find(&mut chain, from);
        budget.headers -= headers - chain.headers_left;
        found
    }

    fn find(&self, chain: &mut Chain<'_>, from: usize) -> Option<usize> {
        let bytes = chain.bytes;
        let from = from.max(self.first);
        let end = bytes.len().min(from.saturating_add(WINDOW_BYTES));
        match &self.state {
            WalkState::Pcap(state) => (from..end).find(|&at| chain.holds_records(*state, at)),
            WalkState::Pcapng(state) => {
                let aligned = || (from.next_multiple_of(4)..end).step_by(4);
                let orders = [state.big_endian, !state.big_endian];
                let mut block_from = |big_endian, is_first: fn(BlockHeader) -> bool| {
                    let order = BlockOrder { big_endian };
                    aligned().find(|&at| {
                        order.header(&bytes[at..]).is_some_and(is_first) && chain.holds_blocks(order, at)
                    })
                };
                // A packet with its own time depends on less state than a simple packet.
                let timed = |header: BlockHeader| header.has_time() || header.is_section();
                block_from(orders[0], timed)
                    .or_else(|| block_from(orders[1], timed))
                    .or_else(|| block_from(orders[0], BlockHeader::is_packet))
                    .or_else(|| block_from(orders[1], BlockHeader::is_packet))
            }
        }
    }
}

/// Follows chains through a file.
struct Chain<'a> {
    bytes: &'a [u8],
    /// Bytes that a chain must cover.
    bytes_min: usize,
    /// Headers that the search may still read.
    headers_left: u32,
}

impl Chain<'_> {
    /// Returns whether the search may read the next header.
    fn goes_on(&mut self) -> bool {
        self.headers_left = self.headers_left.saturating_sub(1);
        self.headers_left > 0
    }

    /// Returns whether a chain of classic records begins at `start`.
    fn holds_records(&mut self, state: PcapState, start: usize) -> bool {
        let (mut at, mut records, mut before) = (start, 0, None);
        while self.goes_on() {
            let rest = &self.bytes[at..];
            if rest.is_empty() {
                return records > 0;
            }
            let Some(header) = state.header(rest) else { return records >= CHAIN_RECORDS_CUT };
            if !is_plausible(state, header, before) {
                return false;
            }
            let length = state.header_bytes() + header.captured as usize;
            if rest.len() < length {
                return records >= CHAIN_RECORDS_CUT;
            }
            (at, records, before) = (at + length, records + 1, Some(header.seconds));
            if records >= CHAIN_RECORDS && at - start >= self.bytes_min {
                return true;
            }
        }
        false
    }

    /// Returns whether a chain of blocks begins at `start`.
    fn holds_blocks(&mut self, order: BlockOrder, start: usize) -> bool {
        let mut order = order;
        let (mut at, mut blocks) = (start, 0);
        while self.goes_on() {
            let rest = &self.bytes[at..];
            if rest.is_empty() {
                return blocks > 0;
            }
            let Some(mut header) = order.header(rest) else { return blocks >= CHAIN_RECORDS_CUT };
            if header.is_section() {
                match rest[8..12] {
                    [0x4D, 0x3C, 0x2B, 0x1A] => order.big_endian = false,
                    [0x1A, 0x2B, 0x3C, 0x4D] => order.big_endian = true,
                    _ => return false,
                }
                let Some(reread) = order.header(rest) else { return false };
                header = reread;
            }
            let length = header.length as usize;
            if !is_plausible_block(header) {
                return false;
            }
            let Some(block) = rest.get(..length) else { return blocks >= CHAIN_RECORDS_CUT };
            let ends_as_it_begins = order.word_at(block, length - 4) == Some(header.length);
            let fits = !header.has_time()
                || order.word_at(block, 20).is_some_and(|captured| captured as usize <= length - 32);
            if !ends_as_it_begins || !fits {
                return false;
            }
            (at, blocks) = (at + length, blocks + 1);
            if blocks >= CHAIN_RECORDS && at - start >= self.bytes_min {
                return true;
            }
        }
        false
    }
}

/// Returns whether this may be the header of a record whose predecessor has the second `before`.
fn is_plausible(state: PcapState, header: RecordHeader, before: Option<u32>) -> bool {
    let longest = match state.snaplen() {
        0 => u32::MAX,
        snaplen => snaplen.max(SNAPLEN_MIN),
    };
    let RecordHeader { seconds, fraction, captured, wire } = header;
    // Records of packets without bytes are valid but look like zeros, so they do not count as a
    // beginning.
    wire > 0
        && wire as usize <= RECORD_BYTES_MAX
        && captured <= longest
        && captured <= wire + EXTRA_BYTES_MAX
        && u64::from(fraction) < state.units_per_second()
        && before.is_none_or(|before| seconds.abs_diff(before) <= GAP_SECONDS_MAX)
}

/// Returns whether this may be the header of a block, by its length and its type.
fn is_plausible_block(header: BlockHeader) -> bool {
    /// The largest type of the standard and of its reserved numbers.
    const KIND_MAX: u32 = 0x0FFF;
    /// The first type for local use.
    const LOCAL_KIND_MIN: u32 = 0x8000_0000;
    /// Custom blocks that a program must not copy if it changes the file.
    const CUSTOM: u32 = 0x4000_0BAD;
    let length = header.length;
    let length_min = if header.has_time() { 32 } else { 12 };
    length.is_multiple_of(4)
        && length >= length_min
        && length as usize <= RECORD_BYTES_MAX
        && (matches!(header.kind, 1..=KIND_MAX | LOCAL_KIND_MIN.. | CUSTOM) || header.is_section())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use flowloom_packet::LinkType;

    use super::*;
    use crate::capture::pcapng::tests::INTERFACES_COPIED;
    use crate::write::{Interface, PcapOptions, PcapWriter, PcapngWriter};

    /// Returns a capture of each format, and the offsets of its records.
    fn captures(packets: u64, packet: impl Fn(u64) -> Vec<u8>) -> [(Vec<u8>, Vec<usize>); 2] {
        let interface = Interface { link: LinkType::ETHERNET, ..Interface::default() };
        let mut pcap = PcapWriter::new(Vec::new(), PcapOptions::default()).unwrap();
        let mut pcapng = PcapngWriter::new(Vec::new(), vec![interface]).unwrap();
        let (mut classic, mut blocks) = (vec![24], Vec::new());
        for i in 0..packets {
            let bytes = packet(i);
            pcap.write(i * 1000, 3000, &bytes).unwrap();
            pcapng.write(0, i * 1000, 3000, &bytes).unwrap();
            classic.push(classic.last().unwrap() + 16 + bytes.len());
            blocks.push(32 + bytes.len().next_multiple_of(4));
        }
        let pcapng = pcapng.finish().unwrap();
        let first = pcapng.len() - blocks.iter().sum::<usize>();
        let blocks = blocks.iter().scan(first, |at, bytes| {
            let begin = *at;
            *at += bytes;
            Some(begin)
        });
        let blocks = blocks.collect();
        classic.pop();
        [(pcap.finish().unwrap(), classic), (pcapng, blocks)]
    }

    #[test]
    fn next_record_is_found_from_any_offset() {
        for (bytes, records) in
            captures(300, |i| (0..40 + i % 700).map(|byte| (byte * i).to_le_bytes()[0]).collect())
        {
            let head = FileHead::parse(&bytes).unwrap();
            assert_eq!(head.first, records[0]);
            for from in 0..bytes.len() {
                let expected = records.iter().copied().find(|record| *record >= from);
                assert_eq!(head.record_from(&bytes, from, &mut Budget::default()), expected, "from {from}");
            }
        }
    }

    #[test]
    fn zeros_and_noise_contain_no_record() {
        let noise = |i: u64| {
            (0..3000).map(|byte| (i * 3000 + byte).wrapping_mul(0x9E37_79B9).to_le_bytes()[2]).collect()
        };
        for packet in [&(|_| vec![0_u8; 3000]) as &dyn Fn(u64) -> Vec<u8>, &noise] {
            for (mut bytes, records) in captures(40, packet) {
                let head = FileHead::parse(&bytes).unwrap();
                for pair in records.windows(2) {
                    assert_eq!(
                        head.record_from(&bytes, pair[0] + 1, &mut Budget::default()),
                        Some(pair[1])
                    );
                }
                let last = records[records.len() - 1];
                assert_eq!(head.record_from(&bytes, last + 1, &mut Budget::default()), None);
                bytes.truncate(last + 3000);
                assert_eq!(head.record_from(&bytes, last + 1, &mut Budget::default()), None, "cut");
            }
        }
    }

    #[test]
    fn reading_the_head_of_a_file_copies_no_interfaces() {
        let interface = || Interface { link: LinkType::ETHERNET, ..Interface::default() };
        for interfaces in [1, 1000] {
            let interfaces = (0..interfaces).map(|_| interface()).collect();
            let mut writer = PcapngWriter::new(Vec::new(), interfaces).unwrap();
            writer.write(0, 1000, 60, &[1; 60]).unwrap();
            writer.add_interface(interface()).unwrap();
            let bytes = writer.finish().unwrap();
            let copied = || INTERFACES_COPIED.with(Cell::get);
            let before = copied();
            let head = FileHead::parse(&bytes).unwrap();
            assert_eq!(copied(), before);
            // The boundaries of all parts share one list.
            let states = [head.state_at(&bytes, 1), head.state_at(&bytes, 2)];
            let mut walks = states.map(|state| Walk::resume(state, head.first));
            walks[0].step(&bytes, head.first, true, &mut Vec::new());
            assert!(copied() - before <= 1000, "a part copies the list once if it declares more");
        }
    }

    #[test]
    fn boundary_search_ends_at_its_limit() {
        // Chains of records without bytes that all break at the end.
        let mut bytes = captures(0, |_| Vec::new())[0].0.clone();
        let record = [[5, 0, 0, 0], [5, 0, 0, 0], [0; 4], [5, 0, 0, 0]].concat();
        bytes.extend(record.repeat(WINDOW_BYTES / 16));
        let chain = bytes.len();
        for at in (chain - CHAIN_BYTES / 2..chain).step_by(4096) {
            bytes[at] = 0xFF;
            bytes[at + 1] = 0xFF;
        }
        bytes.extend(vec![0xFF; WINDOW_BYTES]);
        let head = FileHead::parse(&bytes).unwrap();
        let mut search = Chain { bytes: &bytes, bytes_min: CHAIN_BYTES, headers_left: 100 };
        let WalkState::Pcap(state) = &head.state else { panic!("a classic capture") };
        assert!(!search.holds_records(*state, 24), "no headers are left");
        assert_eq!(search.headers_left, 0);
        let mut budget = Budget { headers: 100 };
        assert_eq!(head.record_from(&bytes, 25, &mut budget), None, "the plan has none left");
        assert_eq!(budget.headers, 0);
        assert_eq!(head.record_from(&bytes, chain - CHAIN_BYTES / 2, &mut Budget::default()), None);
    }
}

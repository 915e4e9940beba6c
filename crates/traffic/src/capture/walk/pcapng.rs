//! Blocks: sections with their own byte order, and interfaces with their own link type and clock.
//!
//! This module reads packet blocks field by field: the library's parser would collect the options
//! of each block in a vector, which allocates per packet. The library parses section headers and
//! interface descriptions, which occur once.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, InterfaceName, LinkType, RawPacket};
use pcap_parser::pcapng::{
    Block, OptionCode, PcapNGOption, SectionHeaderBlock, parse_block_be, parse_block_le,
    parse_sectionheaderblock,
};

use super::ahead::Ahead;
use super::clock::Clock;
use super::links::Links;
use super::stop::{Stop, other_format};
use crate::capture::losses::{InterfaceLosses, Losses};
use crate::capture::{RECORD_BYTES_MAX, annotations::Words, details::Details, format::Format};

const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;
const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block without a body.
pub(crate) const BLOCK_BYTES_MIN: usize = 12;

/// Maximum number of interfaces of a section. A larger number would be an attack on memory.
const INTERFACES_MAX: usize = 1 << 16;

/// Maximum length in bytes of the description of a section or an interface: sixteen of the longest
/// comments. The library collects its options in a vector that takes at least eight bytes per byte
/// of the options.
pub(crate) const DESCRIPTION_BYTES_MAX: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    link: LinkType,
    name: InterfaceName,
    snaplen: u32,
    clock: Clock,
}

impl Interface {
    /// The interface of packets whose interface was not declared.
    const UNDECLARED: Self = Self {
        link: LinkType::UNDECLARED,
        name: InterfaceName::UNKNOWN,
        snaplen: 0,
        clock: Clock::DEFAULT,
    };
}

/// The section state on which reading blocks depends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PcapngState {
    pub(crate) big_endian: bool,
    /// The interfaces of the section, which the states of a file share unless they differ.
    interfaces: Arc<Vec<Interface>>,
    /// Time of the previous packet, which a simple packet inherits.
    last_time_ns: u64,
    /// A section header comes next, so the previous section has no effect.
    is_before_section: bool,
}

/// How a walk's results depend on what came before, and how later results depend on the walk.
#[expect(clippy::struct_excessive_bools, reason = "four independent facts")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Effects {
    /// A section (or another classic capture) began, so earlier interfaces have no effect on later
    /// blocks.
    pub(crate) has_section: bool,
    /// There was a packet with its own time.
    pub(crate) has_time: bool,
    /// More interfaces declared before would have changed the results.
    pub(crate) needs_interfaces: bool,
    /// Another time of the previous packet would have changed the results.
    pub(crate) needs_time: bool,
}

impl PcapngState {
    /// Returns the state before the next section header.
    pub(crate) fn before_section(self) -> Self {
        Self { last_time_ns: self.last_time_ns, is_before_section: true, ..Self::default() }
    }

    /// Returns whether a walk from this state found what a walk from `truth` would have found.
    /// `effects` are those of the walk.
    pub(crate) fn stands_for(&self, truth: &Self, effects: Effects) -> bool {
        self.big_endian == truth.big_endian
            && self.is_before_section == truth.is_before_section
            && (Arc::ptr_eq(&truth.interfaces, &self.interfaces)
                || truth.interfaces.starts_with(&self.interfaces))
            && (!effects.needs_interfaces || truth.interfaces.len() == self.interfaces.len())
            && (!effects.needs_time || truth.last_time_ns == self.last_time_ns)
    }

    /// Returns this state, in which a walk ended, as it would be if the walk had begun in `truth`
    /// instead of `assumed`.
    pub(crate) fn rebased(mut self, assumed: &Self, truth: &Self, effects: Effects) -> Self {
        if !effects.has_section && !self.is_before_section {
            let declared = self.interfaces.get(assumed.interfaces.len()..).unwrap_or_default();
            self.interfaces = if declared.is_empty() {
                Arc::clone(&truth.interfaces)
            } else {
                Arc::new([&truth.interfaces[..], declared].concat())
            };
            self.big_endian = truth.big_endian;
        }
        if !effects.has_time {
            self.last_time_ns = truth.last_time_ns;
        }
        self
    }
}

/// The byte order of a section's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockOrder {
    pub(crate) big_endian: bool,
}

impl BlockOrder {
    /// Reads the first words of the block at the start of `rest`, if they are there.
    pub(crate) fn header(self, rest: &[u8]) -> Option<BlockHeader> {
        let head = rest.first_chunk::<12>()?;
        Some(BlockHeader { kind: self.word_at(head, 0)?, length: self.word_at(head, 4)? })
    }

    /// Reads the word at offset `at`, if it is there.
    pub(crate) fn word_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let word = *bytes.get(at..)?.first_chunk::<4>()?;
        Some(if self.big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) })
    }
}

/// The head of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockHeader {
    pub(crate) kind: u32,
    /// Bytes of the whole block.
    pub(crate) length: u32,
}

impl BlockHeader {
    /// Returns whether the block is a packet with its own time.
    pub(crate) fn has_time(self) -> bool {
        matches!(self.kind, ENHANCED_PACKET | OBSOLETE_PACKET)
    }

    /// The state of a walk through blocks.
    pub(crate) fn is_packet(self) -> bool {
        self.has_time() || self.kind == SIMPLE_PACKET
    }

    pub(crate) fn is_section(self) -> bool {
        self.kind == SECTION_HEADER
    }
}

/// The state of a walk through blocks.
#[derive(Debug)]
pub(crate) struct PcapngWalk {
    big_endian: bool,
    interfaces: Arc<Vec<Interface>>,
    links: Links,
    last_time_ns: u64,
    effects: Effects,
    lying_lengths: u64,
    clamped_times: u64,
    losses: Losses,
    sections: u64,
    interfaces_seen: u64,
    /// The details of the capture other than its packets, if requested.
    details: Option<Box<Details>>,
}

impl PcapngWalk {
    pub(crate) fn begin(bytes: &[u8]) -> Result<Self, String> {
        check_description(section_header_bytes(bytes))?;
        let (_, section) = parse_sectionheaderblock(bytes)
            .map_err(|_| String::from("pcapng magic number, but no complete section header after it"))?;
        check_version(&section)?;
        Ok(Self::resume(PcapngState::default()))
    }

    /// Continues from the state of another walk.
    pub(crate) fn resume(state: PcapngState) -> Self {
        let PcapngState { big_endian, interfaces, last_time_ns, is_before_section: _ } = state;
        Self {
            big_endian,
            interfaces,
            links: Links::default(),
            last_time_ns,
            effects: Effects::default(),
            lying_lengths: 0,
            clamped_times: 0,
            losses: Losses::default(),
            sections: 0,
            interfaces_seen: 0,
            details: None,
        }
    }

    /// From now on, collects the details of the capture other than its packets.
    pub(crate) fn note_details(&mut self) {
        self.details = Some(Box::default());
    }

    pub(crate) fn details(&mut self) -> Option<&mut Details> {
        self.details.as_deref_mut()
    }

    pub(crate) fn order(&self) -> BlockOrder {
        BlockOrder { big_endian: self.big_endian }
    }

    pub(crate) fn state(&self) -> PcapngState {
        PcapngState {
            big_endian: self.big_endian,
            interfaces: Arc::clone(&self.interfaces),
            last_time_ns: self.last_time_ns,
            is_before_section: false,
        }
    }

    pub(crate) fn effects(&self) -> Effects {
        self.effects
    }

    /// Returns the block that contains `position`, starting at the beginning of an earlier block.
    /// If the end of a block is lost, that block has no end.
    #[cold]
    pub(crate) fn block_of_packet(&self, bytes: &[u8], from: usize, position: usize) -> Range<usize> {
        let mut at = from;
        while let Some(head) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let stated = [head[4], head[5], head[6], head[7]];
            // A section may have changed the byte order in between.
            let lengths = [self.word(stated), self.word(stated).swap_bytes()].map(|length| length as usize);
            let length = lengths.into_iter().find(|length| {
                (BLOCK_BYTES_MIN..=RECORD_BYTES_MAX).contains(length)
                    && bytes.get(at + length - 4..at + length) == Some(&stated)
            });
            match length {
                Some(length) if position < at + length => return at..at + length,
                Some(length) => at += length,
                None => break,
            }
        }
        at..usize::MAX
    }

    pub(crate) fn links(&self) -> &[LinkType] {
        self.links.as_slice()
    }

    pub(crate) fn lying_lengths(&self) -> u64 {
        self.lying_lengths
    }

    pub(crate) fn clamped_times(&self) -> u64 {
        self.clamped_times
    }

    pub(crate) fn losses(&self) -> &Losses {
        &self.losses
    }

    pub(crate) fn sections_and_interfaces(&self) -> (u64, u64) {
        (self.sections, self.interfaces_seen)
    }

    fn word(&self, bytes: [u8; 4]) -> u32 {
        Words { big_endian: self.big_endian }.word(bytes)
    }

    /// Returns word `index` of a block's body.
    #[inline]
    fn field(&self, body: &[u8], index: usize) -> Option<u32> {
        body.get(index * 4..)?.first_chunk::<4>().map(|field| self.word(*field))
    }

    pub(crate) fn step(
        &mut self,
        bytes: &[u8],
        from: usize,
        ahead: &mut Ahead,
        out: &mut Vec<RawPacket>,
    ) -> (usize, Stop) {
        let mut at = from;
        while out.len() < BATCH_PACKETS {
            let rest = &bytes[at..];
            let Some(head) = rest.first_chunk::<12>() else { return (at, Stop::More { need: 12 }) };
            let mut kind = self.word([head[0], head[1], head[2], head[3]]);
            if kind == SECTION_HEADER || kind.swap_bytes() == SECTION_HEADER {
                kind = SECTION_HEADER;
                match [head[8], head[9], head[10], head[11]] {
                    [0x4D, 0x3C, 0x2B, 0x1A] => self.big_endian = false,
                    [0x1A, 0x2B, 0x3C, 0x4D] => self.big_endian = true,
                    other => {
                        return (
                            at,
                            Stop::Corrupt(format!("unknown section byte-order mark {other:02x?}")),
                        );
                    }
                }
            }
            let length = self.word([head[4], head[5], head[6], head[7]]) as usize;
            if length < 12 {
                return (at, Stop::Corrupt(format!("a block of {length} bytes is too short")));
            }
            if length > RECORD_BYTES_MAX {
                let why = format!("a block states {length} bytes; the limit is {RECORD_BYTES_MAX}");
                return (at, other_capture(head).unwrap_or(Stop::Corrupt(why)));
            }
            let Some(block) = rest.get(..length) else { return (at, Stop::More { need: length }) };
            if self.word([block[length - 4], block[length - 3], block[length - 2], block[length - 1]])
                as usize
                != length
            {
                let why = format!("a block of {length} bytes does not end with its length");
                return (at, other_capture(head).unwrap_or(Stop::Corrupt(why)));
            }
            if let Err(why) = self.block(kind, block, at, out) {
                return (at, Stop::Corrupt(why));
            }
            at += length;
            ahead.reach(bytes, at);
        }
        (at, Stop::Full)
    }

    /// Reads one whole block that begins at offset `at`.
    #[inline]
    fn block(
        &mut self,
        kind: u32,
        block: &[u8],
        at: usize,
        out: &mut Vec<RawPacket>,
    ) -> Result<(), String> {
        let body = &block[8..block.len() - 4];
        let words = Words { big_endian: self.big_endian };
        match kind {
            ENHANCED_PACKET | OBSOLETE_PACKET => {
                let (Some(first), Some(high), Some(low), Some(captured), Some(wire)) = (
                    self.field(body, 0),
                    self.field(body, 1),
                    self.field(body, 2),
                    self.field(body, 3),
                    self.field(body, 4),
                ) else {
                    return Err(format!(
                        "a packet block of {} bytes is too short for its header",
                        block.len()
                    ));
                };
                // The obsolete block has a 16-bit interface and a drop count in its first word.
                let interface = match (kind, self.big_endian) {
                    (ENHANCED_PACKET, _) => first,
                    (_, true) => first >> 16,
                    (_, false) => first & 0xFFFF,
                };
                let begin = 20 + (captured as usize).saturating_add(3) / 4 * 4;
                if self.details.is_some() {
                    self.note_packet(Some(interface), at + 8, begin, body.len());
                }
                if begin < body.len() {
                    self.note_losses(interface, InterfaceLosses::of_options(words, body, begin));
                }
                if kind == OBSOLETE_PACKET {
                    let drops = if self.big_endian { first & 0xFFFF } else { first >> 16 };
                    self.note_losses(interface, InterfaceLosses::of_obsolete(drops));
                }
                let interface = self.interfaces.get(interface as usize).copied();
                let interface = interface.unwrap_or_else(|| self.undeclared());
                let units = u64::from(high) << 32 | u64::from(low);
                let time_ns = interface.clock.exact_nanoseconds(units).unwrap_or_else(|| {
                    self.clamped_times += 1;
                    interface.clock.nanoseconds(units)
                });
                self.effects.has_time = true;
                self.packet(at + 28, captured, body.len() - 20, wire, time_ns, interface, out);
            }
            SIMPLE_PACKET => {
                let Some(wire) = self.field(body, 0) else {
                    return Err(String::from("a simple packet block is too short for its length"));
                };
                // The block has neither interface nor time, so it gets the first interface and the
                // time of the previous packet.
                let interface = self.interfaces.first().copied().unwrap_or_else(|| self.undeclared());
                let captured = if interface.snaplen == 0 { wire } else { wire.min(interface.snaplen) };
                if self.details.is_some() {
                    self.note_packet(Some(0), at + 8, body.len(), body.len());
                }
                self.effects.needs_time |= !self.effects.has_time;
                self.packet(at + 12, captured, body.len() - 4, wire, self.last_time_ns, interface, out);
            }
            SECTION_HEADER => {
                check_description(block.len())?;
                let (_, section) = parse_sectionheaderblock(block)
                    .map_err(|e| format!("invalid section header: {e:?}"))?;
                check_version(&section)?;
                self.interfaces = Arc::default();
                self.losses.section();
                self.effects.has_section = true;
                self.sections += 1;
                if let Some(details) = &mut self.details {
                    details.section(body, self.big_endian);
                }
            }
            INTERFACE_DESCRIPTION => self.interface(block)?,
            // Names and secrets, which the engine does not need.
            _ => {
                if let (STATISTICS, Some(interface)) = (kind, self.field(body, 0)) {
                    let found = InterfaceLosses::of_statistics(words, body);
                    self.note_losses(interface, Some(found));
                }
                if let Some(details) = &mut self.details {
                    details.block(kind, body, self.big_endian);
                }
            }
        }
        Ok(())
    }

    /// Records a packet of a block whose body begins at offset `at`; its options are at
    /// `begin..end` of the body.
    #[cold]
    fn note_packet(&mut self, interface: Option<u32>, at: usize, begin: usize, end: usize) {
        let begin = begin.min(end);
        let options = ((at + begin) as u64, u32::try_from(end - begin).unwrap_or(0));
        if let Some(details) = &mut self.details {
            details.packet(interface, options, self.big_endian);
        }
    }

    /// Records what a block says about the losses of an interface.
    #[cold]
    fn note_losses(&mut self, interface: u32, found: Option<InterfaceLosses>) {
        let Some(found) = found else { return };
        let name = self.interfaces.get(interface as usize).map(|declared| declared.name);
        if name.is_none() {
            self.undeclared();
        }
        self.losses.note(name.map(|_| interface), name.unwrap_or_default(), found);
    }

    #[inline]
    #[expect(clippy::too_many_arguments, reason = "the fields of one record, each used once")]
    fn packet(
        &mut self,
        position: usize,
        captured: u32,
        space: usize,
        wire: u32,
        time_ns: u64,
        interface: Interface,
        out: &mut Vec<RawPacket>,
    ) {
        let mut captured = captured;
        if captured as usize > space {
            captured = u32::try_from(space).unwrap_or(u32::MAX);
            self.lying_lengths += 1;
        }
        self.last_time_ns = time_ns;
        out.push(RawPacket {
            position: position as u64,
            captured_bytes: captured,
            wire_bytes: wire,
            time_ns,
            link: interface.link,
            interface: interface.name,
        });
    }

    /// Returns the interface of a packet whose interface was not declared.
    #[cold]
    fn undeclared(&mut self) -> Interface {
        self.effects.needs_interfaces |= !self.effects.has_section;
        Interface::UNDECLARED
    }

    #[cold]
    fn interface(&mut self, block: &[u8]) -> Result<(), String> {
        check_description(block.len())?;
        self.effects.needs_interfaces |= !self.effects.has_section;
        let parsed = if self.big_endian { parse_block_be(block) } else { parse_block_le(block) };
        let Ok((_, Block::InterfaceDescription(description))) = parsed else {
            return Err(format!("an interface description of {} bytes cannot be read", block.len()));
        };
        if self.interfaces.len() >= INTERFACES_MAX {
            return Err(format!("a section declares more than {INTERFACES_MAX} interfaces"));
        }
        let link = LinkType(u16::try_from(description.linktype.0).unwrap_or(u16::MAX));
        #[cfg(test)]
        if Arc::get_mut(&mut self.interfaces).is_none() {
            tests::INTERFACES_COPIED.with(|copied| copied.set(copied.get() + self.interfaces.len()));
        }
        Arc::make_mut(&mut self.interfaces).push(Interface {
            link,
            name: name_of(&description.options),
            snaplen: description.snaplen,
            clock: Clock::from_options(&description.options, self.big_endian),
        });
        self.interfaces_seen += 1;
        self.links.add(link);
        if let Some(details) = &mut self.details {
            details.interface(&block[8..block.len() - 4], link, self.big_endian);
        }
        Ok(())
    }
}

/// Returns the name among an interface's options.
fn name_of(options: &[PcapNGOption<'_>]) -> InterfaceName {
    let name = options
        .iter()
        .take_while(|option| option.code != OptionCode::EndOfOpt)
        .find(|option| option.code == OptionCode::IfName);
    // The value may be longer than the name by its padding.
    let text = name.and_then(|name| {
        let value = name.value.get(..usize::from(name.len))?;
        Some(std::str::from_utf8(value).ok()?.trim_end_matches('\0'))
    });
    text.map_or(InterfaceName::UNKNOWN, InterfaceName::new)
}

/// Returns the stated length of the section header at the start of a capture.
pub(crate) fn section_header_bytes(prefix: &[u8]) -> usize {
    let (Some(length), Some(mark)) = (prefix.get(4..8), prefix.get(8..12)) else { return 28 };
    let words = Words { big_endian: mark == [0x1A, 0x2B, 0x3C, 0x4D] };
    words.word([length[0], length[1], length[2], length[3]]) as usize
}

/// Refuses descriptions that are too long to be valid.
fn check_description(bytes: usize) -> Result<(), String> {
    if bytes <= DESCRIPTION_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "the description of a section or an interface has {bytes} bytes; the limit is \
         {DESCRIPTION_BYTES_MAX}"
    ))
}

/// Rejects sections of another major version, whose blocks may have any meaning.
fn check_version(section: &SectionHeaderBlock<'_>) -> Result<(), String> {
    match section.major_version {
        1 => Ok(()),
        major => {
            Err(format!("pcapng version {major}.{}: only version 1 is supported", section.minor_version))
        }
    }
}

/// Returns an error that names the classic capture that begins in place of a block.
#[cold]
pub(crate) fn other_capture(head: &[u8]) -> Option<Stop> {
    matches!(Format::detect(head), Some(Format::Pcap { .. })).then(|| other_format("pcap"))
}

#[cfg(test)]
pub(in crate::capture) mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        /// Interfaces that were copied because a state shared their list, on this thread.
        pub(crate) static INTERFACES_COPIED: Cell<usize> = const { Cell::new(0) };
    }

    #[test]
    fn clocks_count_in_any_resolution() {
        assert_eq!(Clock::new(6, 0).nanoseconds(1_500_000), 1_500_000_000);
        assert_eq!(Clock::new(9, 0).nanoseconds(7), 7);
        assert_eq!(Clock::new(3, 0).nanoseconds(1_001), 1_001_000_000);
        assert_eq!(Clock::new(0x8A, 0).nanoseconds(512), 500_000_000);
        assert_eq!(Clock::new(9, 2).nanoseconds(5), 2_000_000_005);
        assert_eq!(Clock::new(9, -2).nanoseconds(3_000_000_000), 1_000_000_000);
    }

    #[test]
    fn extreme_clock_resolutions_saturate() {
        assert_eq!(Clock::new(0, i64::MAX).nanoseconds(u64::MAX), u64::MAX);
        assert_eq!(Clock::new(6, i64::MIN).nanoseconds(5), 0);
        assert_eq!(Clock::new(0x7F, 0).nanoseconds(u64::MAX), 1_844_674_407);
        assert!(Clock::new(0xFF, 0).nanoseconds(u64::MAX) < 3_000_000_000);
    }

    #[test]
    fn a_clock_is_described_before_the_end_of_the_options() {
        const END: &[u8] = &[0; 4];
        for big_endian in [false, true] {
            let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let seconds = |value: i64| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let clock = |options: &[&[u8]]| {
                let options = options.concat();
                let length = word(u32::try_from(20 + options.len()).unwrap());
                let block =
                    [&word(1)[..], &length, &half(1), &half(0), &word(0), &options, &length].concat();
                let mark = word(0x1A2B_3C4D);
                let version = [half(1), half(0)].concat();
                let section =
                    [&word(SECTION_HEADER)[..], &word(28), &mark, &version, &[0xFF; 8], &word(28)].concat();
                let mut walk = PcapngWalk::begin(&section).unwrap();
                let bytes = [section, block].concat();
                let step = walk.step(&bytes, 0, &mut Ahead::from(0), &mut Vec::new());
                assert_eq!(step, (bytes.len(), Stop::More { need: 12 }));
                walk.interfaces[0].clock
            };
            let nanoseconds = [&half(9)[..], &half(1), &[9, 0, 0, 0]].concat();
            let earlier = [&half(14)[..], &half(8), &seconds(-2)].concat();
            assert_eq!(clock(&[]), Clock::new(6, 0));
            assert_eq!(clock(&[&nanoseconds, &earlier, END]), Clock::new(9, -2));
            assert_eq!(clock(&[&nanoseconds, &earlier]), Clock::new(9, -2), "no end");
            assert_eq!(clock(&[&nanoseconds, END, &earlier]), Clock::new(9, 0));
            assert_eq!(clock(&[END, &nanoseconds, &earlier, END]), Clock::new(6, 0));
        }
    }

    #[test]
    fn a_section_of_another_major_version_is_not_read() {
        for big_endian in [false, true] {
            let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
            let section = |major: u8| {
                let version = if big_endian { [0, major, 0, 0] } else { [major, 0, 0, 0] };
                [word(SECTION_HEADER), word(28), word(0x1A2B_3C4D), version, [0xFF; 4], [0xFF; 4], word(28)]
                    .concat()
            };
            let why = String::from("pcapng version 2.0: only version 1 is supported");
            assert_eq!(PcapngWalk::begin(&section(2)).unwrap_err(), why);
            let mut walk = PcapngWalk::begin(&section(1)).unwrap();
            let bytes = [section(1), section(2)].concat();
            let step = walk.step(&bytes, 0, &mut Ahead::from(0), &mut Vec::new());
            assert_eq!(step, (28, Stop::Corrupt(why)), "what comes before it is read");
            assert_eq!(walk.sections_and_interfaces(), (1, 0));
        }
    }
}

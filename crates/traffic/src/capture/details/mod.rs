//! The details of a pcapng file other than its packets, in the form in which another file repeats
//! them.
pub mod annotations;
pub(in crate::capture) mod detail_reader;
pub(in crate::capture) mod losses;

use flowloom_packet::LinkType;

/// The block of names.
pub(crate) const NAMES: u32 = 4;
/// The block of secrets for decryption.
pub(crate) const SECRETS: u32 = 10;

/// Maximum number of bytes of options and blocks that are held at a time.
const BYTES_MAX: usize = 16 << 20;
/// Maximum number of interfaces that are distinguished.
const INTERFACES_MAX: usize = 1 << 20;
/// The options of an interface that describe how its time stamps count. A written file has its own
/// time options.
const TIME_OPTIONS: [u16; 2] = [9, 14];
/// The numbers of an interface: its speeds.
const INTERFACE_NUMBERS: [u16; 3] = [8, 16, 17];
/// The numbers of a packet: flags, drops, identifier, queue.
const PACKET_NUMBERS: [u16; 4] = [2, 4, 5, 6];
/// The custom options, which begin with an enterprise number.
const CUSTOM: [u16; 4] = [2988, 2989, 19372, 19373];

/// An interface as its capture describes it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct InterfaceDetails {
    /// Link type of its packets.
    pub link: LinkType,
    /// Its options, encoded little-endian: name, description, comment and others, without those
    /// of its time stamps.
    pub options: Vec<u8>,
    /// Its number in its section.
    pub(crate) number: u32,
}

/// A block that is neither a section, an interface nor a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DetailBlock {
    /// The type of the block.
    pub kind: u32,
    /// Its body, little-endian.
    pub body: Vec<u8>,
}

/// The details of a packet other than its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PacketContext {
    /// The number of the interface in the capture. `None` for an interface that was not declared.
    pub(crate) interface: Option<usize>,
    /// The offset of its options in the block of the batch, and their length.
    pub(crate) options: (u64, u32),
    pub(crate) big_endian: bool,
}

/// The details that a walk has found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Details {
    /// The options of all section headers.
    pub(crate) section_options: Vec<u8>,
    /// The interfaces of all sections.
    pub(crate) interfaces: Vec<InterfaceDetails>,
    /// The blocks that have not been taken.
    pub(crate) blocks: Vec<DetailBlock>,
    /// The packets of the latest batch.
    pub(crate) packets: Vec<PacketContext>,
    /// The number of the section's first interface.
    first: usize,
    held: usize,
    /// Number of blocks that are not kept: statistics, custom and unknown blocks, and those beyond
    /// the limit.
    pub(crate) blocks_left: u64,
    /// Number of options that are not kept: invalid ones, and those beyond the limit.
    pub(crate) options_left: u64,
}

impl Details {
    /// Returns whether `bytes` more bytes may be held.
    fn holds(&mut self, bytes: usize) -> bool {
        let fits = self.held + bytes <= BYTES_MAX;
        if fits {
            self.held += bytes;
        }
        fits
    }

    /// Returns options in little-endian order if they may be held.
    fn kept(&mut self, kind: OptionsOf, options: &[u8], big_endian: bool) -> Vec<u8> {
        let mut kept = Vec::new();
        self.options_left += append_options(kind, options, big_endian, &mut kept);
        if self.holds(kept.len()) {
            return kept;
        }
        self.options_left += 1;
        Vec::new()
    }

    pub(crate) fn section(&mut self, body: &[u8], big_endian: bool) {
        self.first = self.interfaces.len();
        let options = body.get(16..).unwrap_or_default();
        let kept = self.kept(OptionsOf::Section, options, big_endian);
        self.section_options.extend(kept);
    }

    pub(crate) fn interface(&mut self, body: &[u8], link: LinkType, big_endian: bool) {
        let options = self.kept(OptionsOf::Interface, body.get(8..).unwrap_or_default(), big_endian);
        if self.interfaces.len() == INTERFACES_MAX {
            self.options_left += 1;
            return;
        }
        let number = u32::try_from(self.interfaces.len() - self.first).unwrap_or(u32::MAX);
        self.interfaces.push(InterfaceDetails { link, options, number });
    }

    /// Records a packet of an interface of the section; its options begin at `position`.
    pub(crate) fn packet(&mut self, interface: Option<u32>, options: (u64, u32), big_endian: bool) {
        let number = interface.map(|number| self.first + number as usize);
        let interface = number.filter(|number| *number < self.interfaces.len());
        self.packets.push(PacketContext { interface, options, big_endian });
    }

    /// Records another block.
    pub(crate) fn block(&mut self, kind: u32, body: &[u8], big_endian: bool) {
        let body = match kind {
            NAMES => names(body, big_endian),
            SECRETS => secrets(body, big_endian),
            _ => None,
        };
        match body {
            Some(body) if self.holds(body.len() + 32) => self.blocks.push(DetailBlock { kind, body }),
            _ => self.blocks_left += 1,
        }
    }

    /// Takes the blocks found so far.
    pub(crate) fn take_blocks(&mut self) -> Vec<DetailBlock> {
        let blocks = std::mem::take(&mut self.blocks);
        self.held -= blocks.iter().map(|block| block.body.len() + 32).sum::<usize>();
        blocks
    }
}

/// The block that options belong to, which determines the meaning of their codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OptionsOf {
    Section,
    Interface,
    Packet,
    Names,
}

/// Appends options, encoded little-endian and without their end, to `out`. Returns how many options
/// it omits because they are invalid.
pub(crate) fn append_options(kind: OptionsOf, options: &[u8], big_endian: bool, out: &mut Vec<u8>) -> u64 {
    let half =
        |bytes: [u8; 2]| if big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) };
    let mut rest = options;
    while let Some((&[a, b, c, d], behind)) = rest.split_first_chunk::<4>() {
        let (code, length) = (half([a, b]), half([c, d]));
        if code == 0 {
            return 0;
        }
        let Some(value) = behind.get(..usize::from(length)) else { return 1 };
        rest = behind.get(usize::from(length).next_multiple_of(4)..).unwrap_or_default();
        if kind == OptionsOf::Interface && TIME_OPTIONS.contains(&code) {
            continue;
        }
        out.extend_from_slice(&code.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        let begin = out.len();
        out.extend_from_slice(value);
        if big_endian {
            let numbers: &[u16] = match kind {
                OptionsOf::Interface => &INTERFACE_NUMBERS,
                OptionsOf::Packet => &PACKET_NUMBERS,
                OptionsOf::Section | OptionsOf::Names => &[],
            };
            let number = if CUSTOM.contains(&code) {
                value.len().min(4)
            } else if numbers.contains(&code) {
                value.len()
            } else {
                0
            };
            out[begin..begin + number].reverse();
        }
        out.resize(out.len().next_multiple_of(4), 0);
    }
    u64::from(!rest.is_empty())
}

/// Returns a block of names, little-endian. `None` if it is invalid.
fn names(body: &[u8], big_endian: bool) -> Option<Vec<u8>> {
    if !big_endian {
        return Some(body.to_vec());
    }
    let mut out = Vec::with_capacity(body.len());
    let mut rest = body;
    loop {
        let (&[a, b, c, d], behind) = rest.split_first_chunk::<4>()?;
        let (kind, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&length.to_le_bytes());
        let bytes = usize::from(length).next_multiple_of(4);
        // The addresses are in network order in both cases.
        out.extend_from_slice(behind.get(..bytes)?);
        rest = &behind[bytes..];
        if kind == 0 {
            break;
        }
    }
    append_ended(rest, &mut out);
    Some(out)
}

/// Returns a block of secrets, little-endian. Returns `None` if it is invalid.
fn secrets(body: &[u8], big_endian: bool) -> Option<Vec<u8>> {
    let (head, _) = body.split_first_chunk::<8>()?;
    let mut out = body.to_vec();
    if big_endian {
        out[..4].reverse();
        out[4..8].reverse();
        let length = u32::from_be_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let end = 8 + length.checked_next_multiple_of(4)?;
        let options = body.get(end..)?;
        out.truncate(end);
        append_ended(options, &mut out);
    }
    Some(out)
}

/// Appends big-endian options without numbers, and their end.
fn append_ended(options: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    append_options(OptionsOf::Names, options, true, out);
    if out.len() > begin {
        out.extend_from_slice(&[0; 4]);
    }
}

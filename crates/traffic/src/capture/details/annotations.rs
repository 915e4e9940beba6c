//! Counts the contents of a pcapng file other than its packets: names, comments, flags. Readers of
//! packets ignore these contents, and a file written from the packets omits them. A program that
//! copies packets can therefore report what it omits.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::capture::RECORD_BYTES_MAX;
use crate::capture::format::{Packing, SNIFF_BYTES};
use crate::capture::unpack::{UnpackLimits, unpack};

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const SECRETS: u32 = 10;

/// Counts of the contents of a pcapng file other than its packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Annotations {
    /// Interfaces with a name.
    pub interface_names: u64,
    /// Interfaces with a description.
    pub interface_descriptions: u64,
    /// Comments of sections, interfaces and packets.
    pub comments: u64,
    /// Packets with flags, such as their direction.
    pub packet_flags: u64,
    /// Other options of packets, such as hashes and counts of drops.
    pub packet_options: u64,
    /// Blocks of names, statistics and secrets.
    pub other_blocks: u64,
}

impl Annotations {
    /// Returns the counts of a file, which are zero for a file that is not a pcapng. A packed file
    /// is unpacked within `limits`.
    ///
    /// # Errors
    ///
    /// Returns an error when the file cannot be read or unpacked.
    pub fn of_file(path: &Path, limits: UnpackLimits) -> io::Result<Self> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(path)?);
        let mut prefix = Vec::new();
        Read::take(&mut file, SNIFF_BYTES as u64).read_to_end(&mut prefix)?;
        let packing = Packing::detect(&prefix);
        let whole = io::Cursor::new(prefix).chain(file);
        match packing {
            Some(packing) => {
                Self::read(unpack(packing, whole, &Arc::new(AtomicU64::new(0)), limits, 1 << 16)?)
            }
            None => Self::read(whole),
        }
    }

    /// Returns the counts of a file's bytes, up to the first invalid block.
    ///
    /// # Errors
    ///
    /// Returns an error when reading fails. The end of the input is not an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_traffic::capture::Annotations;
    /// use flowloom_traffic::write::{Interface, PcapngWriter};
    /// let eth0 = Interface { name: Some("eth0".into()), ..Interface::default() };
    /// let file = PcapngWriter::new(Vec::new(), vec![eth0])?.finish()?;
    /// assert_eq!(Annotations::read(&file[..])?.to_string(), "1 interface name");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn read(mut reader: impl Read) -> io::Result<Self> {
        let mut found = Self::default();
        let mut big_endian = None;
        let mut body = Vec::new();
        loop {
            let mut head = [0; 12];
            if !filled(&mut reader, &mut head)? {
                return Ok(found);
            }
            let [kind, length, mark] =
                [0, 4, 8].map(|at| [head[at], head[at + 1], head[at + 2], head[at + 3]]);
            if u32::from_le_bytes(kind) == SECTION {
                big_endian = match mark {
                    [0x4D, 0x3C, 0x2B, 0x1A] => Some(false),
                    [0x1A, 0x2B, 0x3C, 0x4D] => Some(true),
                    _ => None,
                };
            }
            // The first block is not a section: this is not a pcapng file, or the section has an
            // unknown byte order.
            let Some(big_endian) = big_endian else { return Ok(found) };
            let words = Words { big_endian };
            let length = words.word(length) as usize;
            if !(12..=RECORD_BYTES_MAX).contains(&length) || !length.is_multiple_of(4) {
                return Ok(found);
            }
            // The first word of the body was read with the block's head. The last word of the block
            // repeats the length.
            body.clear();
            body.extend_from_slice(&mark);
            let rest = length - 12;
            if Read::take(&mut reader, rest as u64).read_to_end(&mut body)? < rest {
                return Ok(found);
            }
            body.truncate(length.saturating_sub(12));
            found.block(words, words.word(kind), &body);
        }
    }

    fn block(&mut self, words: Words, kind: u32, body: &[u8]) {
        match kind {
            SECTION => {
                self.comments += words.options(body, 16).filter(|(code, _)| *code == 1).count() as u64;
            }
            INTERFACE => {
                for (code, _) in words.options(body, 8) {
                    match code {
                        1 => self.comments += 1,
                        2 => self.interface_names += 1,
                        3 => self.interface_descriptions += 1,
                        _ => {}
                    }
                }
            }
            ENHANCED_PACKET => {
                let captured = body
                    .get(12..16)
                    .map_or(0, |field| words.word([field[0], field[1], field[2], field[3]]) as usize);
                for (code, _) in words.options(body, 20 + captured.next_multiple_of(4)) {
                    match code {
                        1 => self.comments += 1,
                        2 => self.packet_flags += 1,
                        _ => self.packet_options += 1,
                    }
                }
            }
            NAMES | STATISTICS | SECRETS => self.other_blocks += 1,
            _ => {}
        }
    }

    /// Returns whether the file contains only packets.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds the counts of another file.
    pub fn merge(&mut self, other: &Self) {
        self.interface_names += other.interface_names;
        self.interface_descriptions += other.interface_descriptions;
        self.comments += other.comments;
        self.packet_flags += other.packet_flags;
        self.packet_options += other.packet_options;
        self.other_blocks += other.other_blocks;
    }
}

impl std::fmt::Display for Annotations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let parts = [
            (self.interface_names, "interface name", "interface names"),
            (self.interface_descriptions, "interface description", "interface descriptions"),
            (self.comments, "comment", "comments"),
            (self.packet_flags, "packet with flags", "packets with flags"),
            (self.packet_options, "other packet option", "other packet options"),
            (
                self.other_blocks,
                "block of names, statistics or secrets",
                "blocks of names, statistics or secrets",
            ),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|(count, ..)| *count > 0)
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        f.write_str(&parts.join(", "))
    }
}

/// Numbers in the byte order of a section.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    pub(crate) big_endian: bool,
}

impl Words {
    #[inline]
    pub(crate) fn word(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn half(self, bytes: [u8; 2]) -> u16 {
        if self.big_endian { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) }
    }

    /// Returns the number of eight bytes in an option.
    pub(crate) fn counter(self, value: &[u8]) -> Option<u64> {
        let value = *value.first_chunk()?;
        Some(if self.big_endian { u64::from_be_bytes(value) } else { u64::from_le_bytes(value) })
    }

    /// Returns the options of a block's body from an offset on, up to their end or to an option
    /// that exceeds the body.
    pub(crate) fn options(self, body: &[u8], from: usize) -> impl Iterator<Item = (u16, &[u8])> {
        let mut rest = body.get(from..).unwrap_or_default();
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first_chunk::<4>()?;
            let (code, length) =
                (self.half([head[0], head[1]]), usize::from(self.half([head[2], head[3]])));
            let value = behind.get(..length)?;
            rest = behind.get(length.next_multiple_of(4)..).unwrap_or_default();
            (code != 0).then_some((code, value))
        })
    }
}

/// Fills a buffer. Returns `false` if the input ends before the buffer is full.
fn filled(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(kind: u32, body: &[u8], big_endian: bool) -> Vec<u8> {
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut padded = body.to_vec();
        padded.resize(body.len().next_multiple_of(4), 0);
        let length = word(u32::try_from(padded.len() + 12).unwrap());
        [&word(kind)[..], &length, &padded, &length].concat()
    }

    fn option(code: u16, value: &[u8], big_endian: bool) -> Vec<u8> {
        let half = |value: u16| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut bytes = [&half(code)[..], &half(u16::try_from(value.len()).unwrap()), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn file(big_endian: bool) -> Vec<u8> {
        let word = |value: u32| if big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let option = |code, value: &[u8]| option(code, value, big_endian);
        let section =
            [&word(0x1A2B_3C4D)[..], &[0; 12], &option(1, b"of the section"), &option(4, b"by")].concat();
        let interface =
            [&[0; 8][..], &option(2, b"eth0"), &option(3, b"uplink"), &option(9, &[9])].concat();
        let packet = |options: &[u8]| {
            [&[0; 12][..], &word(5), &word(5), &[7, 7, 7, 7, 7, 0, 0, 0], options].concat()
        };
        [
            block(SECTION, &section, big_endian),
            block(INTERFACE, &interface, big_endian),
            block(ENHANCED_PACKET, &packet(&[]), big_endian),
            block(ENHANCED_PACKET, &packet(&[option(1, b"why?"), option(2, &[1; 4])].concat()), big_endian),
            block(
                ENHANCED_PACKET,
                &packet(&[option(5, &[0; 8]), option(0, &[]), option(1, b"!")].concat()),
                big_endian,
            ),
            block(NAMES, &[0; 4], big_endian),
        ]
        .concat()
    }

    #[test]
    fn each_kind_is_counted_in_both_byte_orders() {
        let expected = Annotations {
            interface_names: 1,
            interface_descriptions: 1,
            comments: 2,
            packet_flags: 1,
            packet_options: 1,
            other_blocks: 1,
        };
        for big_endian in [false, true] {
            assert_eq!(Annotations::read(&file(big_endian)[..]).unwrap(), expected);
        }
        let mut twice = expected;
        twice.merge(&expected);
        assert_eq!(Annotations::read(&[file(false), file(true)].concat()[..]).unwrap(), twice);
        assert_eq!(
            expected.to_string(),
            "1 interface name, 1 interface description, 2 comments, 1 packet with flags, 1 other packet option, \
             1 block of names, statistics or secrets"
        );
        assert!(Annotations::default().is_empty() && !expected.is_empty());
    }

    #[test]
    fn annotations_are_counted_up_to_the_damage() {
        let whole = file(false);
        for length in 0..whole.len() {
            Annotations::read(&whole[..length]).unwrap();
        }
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xFF;
            Annotations::read(&damaged[..]).unwrap();
        }
        assert_eq!(Annotations::read(&b"neither pcap nor pcapng"[..]).unwrap(), Annotations::default());
    }
}

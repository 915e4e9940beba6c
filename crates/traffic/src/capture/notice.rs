//! What a reader of the result should know about the input: nothing is skipped silently.

use std::path::PathBuf;

/// Something in a capture that did not stop the run, but should be known.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Notice {
    /// The capture ends inside a record; the whole packets before it were used.
    CutRecord {
        /// The file.
        path: PathBuf,
        /// Number of the packet that is cut, counted from 1.
        packet: u64,
        /// Where its record begins, in bytes from the start of the (unpacked) file.
        offset: u64,
        /// Bytes of the record that are there.
        have: u64,
        /// Bytes it should have.
        need: u64,
    },
    /// A record or block contradicts itself; the packets before it were used.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Number of the next packet, counted from 1.
        packet: u64,
        /// Where the record begins, in bytes from the start of the (unpacked) file.
        offset: u64,
        /// What is wrong.
        why: String,
    },
    /// Packets state more captured bytes than their blocks hold; they were cut to fit.
    LyingLengths {
        /// The file.
        path: PathBuf,
        /// Such packets.
        packets: u64,
    },
    /// A file holds several classic captures, one behind the other as `cat` leaves them; all were used.
    Joined {
        /// The file.
        path: PathBuf,
        /// Captures in it.
        captures: u64,
        /// Where the second begins, in bytes from the start of the (unpacked) file.
        offset: u64,
    },
    /// The compressed stream is damaged or ends early; the packets before were used.
    DamagedStream {
        /// The file.
        path: PathBuf,
        /// Number of the next packet, counted from 1.
        packet: u64,
        /// What the decompressor said.
        why: String,
    },
    /// A file among several in which nothing can be decoded.
    Undecodable {
        /// The file.
        path: PathBuf,
        /// Its link types, in words.
        links: String,
    },
    /// A file of a directory that is not a capture.
    NotACapture {
        /// The file.
        path: PathBuf,
    },
}

impl Notice {
    /// Returns the notice with so many more packets before the place that it tells of.
    pub(super) fn behind(mut self, packets: u64) -> Self {
        match &mut self {
            Self::CutRecord { packet, .. }
            | Self::Corrupt { packet, .. }
            | Self::DamagedStream { packet, .. } => {
                *packet += packets;
            }
            _ => {}
        }
        self
    }

    /// Says whether part of an input could not be used, which the strict take for an error.
    pub fn is_partial_input(&self) -> bool {
        !matches!(self, Self::NotACapture { .. } | Self::Joined { .. })
    }
}

impl std::fmt::Display for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::CutRecord { path, packet, offset, have, need } => write!(
                f,
                "{} ends inside packet {packet} (byte {offset} of the file: {have} of {need} bytes present)\n  \
                 {}",
                path.display(),
                before(*packet)
            ),
            Self::Corrupt { path, packet, offset, why } => write!(
                f,
                "{} is corrupt at byte {offset}, before packet {packet}: {why}\n  \
                 {}",
                path.display(),
                before(*packet)
            ),
            Self::LyingLengths { path, packets } => write!(
                f,
                "{} is corrupt: {} more captured bytes than the record holds\n  what is there was used",
                path.display(),
                if *packets == 1 {
                    String::from("a packet states")
                } else {
                    format!("{packets} packets state")
                }
            ),
            Self::Joined { path, captures, offset } => write!(
                f,
                "{} is {captures} captures one behind the other, the second from byte {offset} on\n  \
                 the packets of all were used in this order; mergecap joins captures by time",
                path.display()
            ),
            Self::DamagedStream { path, packet, why } => write!(
                f,
                "{} does not unpack beyond packet {}: {why}\n  {}",
                path.display(),
                packet - 1,
                before(*packet)
            ),
            Self::Undecodable { path, links } => write!(
                f,
                "no interface of {} can be decoded: link type {links}\n  its packets are counted as unsupported",
                path.display()
            ),
            Self::NotACapture { path } => write!(f, "{} is not a capture and was left out", path.display()),
        }
    }
}

/// Says what became of the packets before number `packet`.
fn before(packet: u64) -> String {
    match packet {
        0 | 1 => String::from("no packet could be read before it"),
        2 => String::from("the packet before it was used"),
        _ => format!("the {} whole packets before it were used", packet - 1),
    }
}

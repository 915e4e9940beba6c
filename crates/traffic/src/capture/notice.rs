//! Notices about the input; nothing is skipped silently.

use std::path::PathBuf;

/// An irregularity in a capture that did not stop the run.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Notice {
    /// The capture ends inside a record. The complete packets before it were used.
    CutRecord {
        /// The file.
        path: PathBuf,
        /// Number of the truncated packet, counted from 1.
        packet: u64,
        /// Offset of its record, in bytes from the start of the unpacked file.
        offset: u64,
        /// Bytes of the record that are in the file.
        have: u64,
        /// Size of the whole record in bytes.
        need: u64,
    },
    /// A record or block is invalid. The packets before it were used.
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Number of the next packet, counted from 1.
        packet: u64,
        /// Offset of the record, in bytes from the start of the unpacked file.
        offset: u64,
        /// The reason.
        why: String,
    },
    /// The stated captured lengths of packets exceed their blocks. The packets were truncated to
    /// fit.
    LyingLengths {
        /// The file.
        path: PathBuf,
        /// Number of these packets.
        packets: u64,
    },
    /// Packets state times before 1970 or after 2554. They have the nearest time in this range, so
    /// times and durations of their records are wrong.
    ClampedTimes {
        /// The file.
        path: PathBuf,
        /// Number of these packets.
        packets: u64,
    },
    /// A file holds several concatenated classic captures. All were used.
    Joined {
        /// The file.
        path: PathBuf,
        /// Number of captures.
        captures: u64,
        /// Offset of the second one, in bytes from the start of the unpacked file.
        offset: u64,
    },
    /// The compressed stream is damaged or ends early. The packets before were used.
    DamagedStream {
        /// The file.
        path: PathBuf,
        /// Number of the next packet, counted from 1.
        packet: u64,
        /// The error of the decompressor.
        why: String,
    },
    /// One of several files has no packets that can be decoded.
    Undecodable {
        /// The file.
        path: PathBuf,
        /// The names of its link types.
        links: String,
    },
    /// A file of a directory is not a capture.
    NotACapture {
        /// The file.
        path: PathBuf,
    },
    /// A file of a directory may not be read, or is gone.
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: String,
    },
}

impl Notice {
    /// Returns the notice with its packet numbers increased by the packets of earlier readers.
    pub(crate) fn behind(mut self, packets: u64) -> Self {
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

    /// Returns whether part of an input was not used, which strict mode treats as an error.
    pub fn is_partial_input(&self) -> bool {
        !matches!(self, Self::NotACapture { .. } | Self::Joined { .. } | Self::ClampedTimes { .. })
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
                "{} is corrupt: {} more captured bytes than the record contains\n  the available bytes \
                 were used",
                path.display(),
                if *packets == 1 {
                    String::from("a packet states")
                } else {
                    format!("{packets} packets state")
                }
            ),
            Self::ClampedTimes { path, packets } => write!(
                f,
                "{} of {} a time before 1970 or after 2554\n  the nearest time in this range was used, so \
                 times and durations of their records are wrong",
                if *packets == 1 { String::from("a packet") } else { format!("{packets} packets") },
                format_args!("{} {}", path.display(), if *packets == 1 { "states" } else { "state" }),
            ),
            Self::Joined { path, captures, offset } => write!(
                f,
                "{} consists of {captures} concatenated captures; the second begins at byte {offset}\n  \
                 the packets of all captures were used in this order; mergecap joins captures by time",
                path.display()
            ),
            Self::DamagedStream { path, packet, why } => write!(
                f,
                "{} cannot be unpacked beyond packet {}: {why}\n  {}",
                path.display(),
                packet - 1,
                before(*packet)
            ),
            Self::Undecodable { path, links } => write!(
                f,
                "no interface of {} can be decoded: link type {links}\n  its packets are counted as unsupported",
                path.display()
            ),
            Self::NotACapture { path } => write!(f, "{} is not a capture and was skipped", path.display()),
            Self::Unreadable { path, why } => write!(f, "{} was skipped: {why}", path.display()),
        }
    }
}

/// Describes the use of the packets before number `packet`.
fn before(packet: u64) -> String {
    match packet {
        0 | 1 => String::from("no packet before it could be read"),
        2 => String::from("the packet before it was used"),
        _ => format!("the {} complete packets before it were used", packet - 1),
    }
}

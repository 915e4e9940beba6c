//! Requirements on a payload in addition to its expression: lengths and checksums.
//!
//! A condition is evaluated only after the expression has matched, so it adds no cost to other
//! payloads. It reads a field at a fixed offset. For a stream, the first [`HEAD_BYTES`] bytes and
//! the number of bytes so far are available. For a datagram, all captured bytes and its length are
//! available.

/// Bytes at the beginning of a stream that conditions can read.
pub const HEAD_BYTES: usize = 20;

/// Encoding of a number in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Number {
    /// An unsigned number of 1 to 4 bytes, the most significant byte first.
    Big {
        /// Length in bytes.
        bytes: u8,
    },
    /// An unsigned number of 1 to 4 bytes, the least significant byte first.
    Little {
        /// Length in bytes.
        bytes: u8,
    },
    /// The size of a BER element, including tag and length, given by its definite length (X.690
    /// §8.1.3). The offset is that of the tag.
    Ber,
}

/// The size of a record, computed from a number in it: `number * times + plus` bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Size {
    /// Encoding of the number.
    pub number: Number,
    /// Offset of the number in the record.
    pub at: u16,
    /// Bytes per unit of the number.
    pub times: u16,
    /// Bytes that the number does not include; negative if it counts bytes before the record.
    pub plus: i16,
}

/// A checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Checksum {
    /// The Internet checksum of a range that includes the checksum field (RFC 1071).
    Internet,
    /// The cyclic redundancy check of DNP3. Its two bytes, the lower one first, end the range (IEEE
    /// 1815 §9.2.4.1.6).
    Dnp,
    /// The sum of the bytes is a multiple of 256 (IPMI 2.0 §13.8).
    Sum,
}

/// A requirement on a payload in addition to its expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Condition {
    /// For a datagram, the size equals its length. For a stream, at least this many bytes have
    /// arrived, so that its first record is complete.
    Length(Size),
    /// For a datagram, records follow each other from an offset, and the last one ends at the end
    /// of the datagram. For a stream, the first record is complete.
    Records {
        /// Offset of the first record.
        from: u16,
        /// Size of each record; offsets count from the beginning of the record.
        size: Size,
    },
    /// The checksum of a range is correct.
    Checksum {
        /// Checksum algorithm.
        kind: Checksum,
        /// Offset of the first byte of the range.
        from: u16,
        /// Length of the range in bytes.
        bytes: u16,
    },
    /// One of the flow's ports is a usual port of the pattern.
    UsualPort,
}

/// The known part of a payload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload<'a> {
    /// The first bytes of the payload.
    pub(crate) bytes: &'a [u8],
    /// Length of the payload; for a stream, its length so far.
    pub(crate) total_bytes: u64,
    /// Whether more bytes may follow.
    pub(crate) stream: bool,
}

/// Result of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Truth {
    Holds,
    Fails,
    /// The result depends on missing bytes.
    Unknown,
}

use Truth::{Fails, Holds, Unknown};

impl Condition {
    /// Checks the condition. For a datagram that the capture has truncated, a condition holds
    /// unless the captured bytes contradict it.
    pub(crate) fn check(&self, payload: &Payload<'_>, usual_port: bool) -> Truth {
        let verdict = match *self {
            Self::UsualPort => return if usual_port { Holds } else { Fails },
            Self::Length(size) => length(size, payload),
            Self::Records { from, size } => records(usize::from(from), size, payload),
            Self::Checksum { kind, from, bytes } => {
                let end = usize::from(from) + usize::from(bytes);
                match payload.bytes.get(usize::from(from)..end) {
                    Some(range) if kind.is_right(range) => Holds,
                    Some(_) => Fails,
                    None => payload.missing(end as u64),
                }
            }
        };
        if verdict == Unknown && !payload.stream { Holds } else { verdict }
    }

    /// Returns how many bytes at the beginning of a stream the condition reads.
    pub(crate) fn head_bytes(&self) -> usize {
        match *self {
            Self::Length(size) => size.end(),
            Self::Records { from, size } => usize::from(from) + size.end(),
            Self::Checksum { from, bytes, .. } => usize::from(from) + usize::from(bytes),
            Self::UsualPort => 0,
        }
    }

    /// Returns how many bits of a random payload the condition decides.
    pub(crate) fn bits(&self) -> u32 {
        match self {
            Self::Length(size) | Self::Records { size, .. } => match size.number {
                Number::Big { bytes } | Number::Little { bytes } => 8 * u32::from(bytes),
                Number::Ber => 8,
            },
            Self::Checksum { kind: Checksum::Sum, .. } => 8,
            Self::Checksum { .. } => 16,
            Self::UsualPort => 0,
        }
    }
}

impl Payload<'_> {
    /// Returns the result for a field that ends at offset `end`, after the last known byte.
    fn missing(&self, end: u64) -> Truth {
        if self.stream || end <= self.total_bytes { Unknown } else { Fails }
    }
}

impl Size {
    /// Returns the end of the bytes that the number occupies.
    fn end(self) -> usize {
        usize::from(self.at)
            + match self.number {
                Number::Big { bytes } | Number::Little { bytes } => usize::from(bytes),
                // The tag, and the longest length that is supported.
                Number::Ber => 6,
            }
    }

    /// Returns the size of the record at offset `from`.
    fn read(self, from: usize, payload: &Payload<'_>) -> Result<u64, Truth> {
        let begin = from + usize::from(self.at);
        let number = |begin: usize, bytes: u8, little: bool| {
            let end = begin + usize::from(bytes);
            let Some(field) = payload.bytes.get(begin..end) else {
                return Err(payload.missing(end as u64));
            };
            let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
            Ok(if little { field.iter().rev().fold(0, append) } else { field.iter().fold(0, append) })
        };
        let number = match self.number {
            Number::Big { bytes } => number(begin, bytes, false)?,
            Number::Little { bytes } => number(begin, bytes, true)?,
            Number::Ber => match number(begin + 1, 1, false)? {
                short @ 0..=0x7f => short + 2,
                long @ 0x81..=0x84 => {
                    let bytes = (long & 7) as u8;
                    number(begin + 2, bytes, false)? + 2 + u64::from(bytes)
                }
                _ => return Err(Fails),
            },
        };
        let size = number * u64::from(self.times);
        size.checked_add_signed(i64::from(self.plus)).filter(|&size| size > 0).ok_or(Fails)
    }
}

fn length(size: Size, payload: &Payload<'_>) -> Truth {
    match size.read(0, payload) {
        Ok(size) if payload.stream => {
            if size <= payload.total_bytes {
                Holds
            } else {
                Unknown
            }
        }
        Ok(size) if size == payload.total_bytes => Holds,
        Ok(_) => Fails,
        Err(verdict) => verdict,
    }
}

fn records(from: usize, size: Size, payload: &Payload<'_>) -> Truth {
    let mut at = from as u64;
    if at > payload.total_bytes {
        return payload.missing(at);
    }
    while at < payload.total_bytes || payload.stream {
        let Ok(begin) = usize::try_from(at) else { return Fails };
        // Each step advances by at least one byte, because a size of zero is invalid.
        at = match size.read(begin, payload) {
            Ok(size) => at + size,
            Err(verdict) => return verdict,
        };
        if payload.stream {
            return if at <= payload.total_bytes { Holds } else { Unknown };
        }
    }
    if at == payload.total_bytes { Holds } else { Fails }
}

impl Checksum {
    fn is_right(self, range: &[u8]) -> bool {
        match self {
            Self::Internet => {
                let sum: u64 = range
                    .chunks(2)
                    .map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |&low| u64::from(low)))
                    .sum();
                // The sum of at most 2^15 words, not all of which are zero.
                sum > 0 && sum.is_multiple_of(0xffff)
            }
            Self::Dnp => match range.split_last_chunk() {
                Some((data, &check)) => crc_dnp(data) == u16::from_le_bytes(check),
                None => false,
            },
            Self::Sum => range.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)) == 0,
        }
    }
}

/// Returns the CRC of DNP3: the reflected polynomial 0x3d65, inverted at the end.
fn crc_dnp(data: &[u8]) -> u16 {
    let mut crc = 0_u16;
    for &byte in data {
        crc ^= u16::from(byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0xa6bc } else { 0 };
        }
    }
    !crc
}

#[cfg(test)]
mod tests {
    use super::*;

    const U16_AT_2: Size = Size { number: Number::Big { bytes: 2 }, at: 2, times: 1, plus: 0 };

    fn datagram(bytes: &[u8], total: usize) -> Payload<'_> {
        Payload { bytes, total_bytes: total as u64, stream: false }
    }

    fn stream(bytes: &[u8], total: usize) -> Payload<'_> {
        Payload { bytes, total_bytes: total as u64, stream: true }
    }

    #[test]
    fn a_length_is_that_of_the_datagram_or_within_the_stream() {
        let length = Condition::Length(U16_AT_2);
        let bytes = [1, 0, 0, 6, 9, 9];
        assert_eq!(length.check(&datagram(&bytes, 6), false), Holds);
        assert_eq!(length.check(&datagram(&bytes, 7), false), Fails);
        assert_eq!(
            length.check(&datagram(&bytes[..3], 3), false),
            Fails,
            "the field is not in the datagram"
        );
        assert_eq!(
            length.check(&datagram(&bytes[..3], 6), false),
            Holds,
            "the capture has cut the datagram"
        );
        assert_eq!(length.check(&stream(&bytes[..3], 3), false), Unknown);
        assert_eq!(length.check(&stream(&bytes[..5], 5), false), Unknown);
        assert_eq!(length.check(&stream(&bytes, 6), false), Holds);
        assert_eq!(length.check(&stream(&bytes, 700), false), Holds);
    }

    #[test]
    fn numbers_are_read_in_their_form() {
        let read = |number, times, plus, bytes: &[u8]| {
            Size { number, at: 0, times, plus }.read(0, &datagram(bytes, bytes.len()))
        };
        assert_eq!(read(Number::Big { bytes: 3 }, 1, 4, &[1, 2, 3]), Ok(0x0001_0207));
        assert_eq!(read(Number::Little { bytes: 3 }, 2, -1, &[1, 2, 3]), Ok(0x0006_0401));
        assert_eq!(read(Number::Big { bytes: 1 }, 1, -1, &[0]), Err(Fails));
        assert_eq!(read(Number::Big { bytes: 1 }, 1, 0, &[0]), Err(Fails));
        assert_eq!(read(Number::Ber, 1, 0, &[0x30, 0x05]), Ok(7));
        assert_eq!(read(Number::Ber, 1, 0, &[0x30, 0x82, 1, 2]), Ok(0x106));
        assert_eq!(read(Number::Ber, 1, 0, &[0x30, 0x80, 0, 0]), Err(Fails));
        assert_eq!(read(Number::Ber, 1, 0, &[0x30, 0x84, 0, 0]), Err(Fails));
    }

    #[test]
    fn records_end_where_the_datagram_ends() {
        let size = Size { number: Number::Big { bytes: 1 }, at: 1, times: 1, plus: 0 };
        let records = Condition::Records { from: 2, size };
        assert_eq!(records.check(&datagram(&[7, 7, 1, 3, 9, 2, 2], 7), false), Holds);
        assert_eq!(records.check(&datagram(&[7, 7, 1, 3, 9, 2, 3], 7), false), Fails);
        assert_eq!(
            records.check(&datagram(&[7, 7, 1, 3, 9, 2, 0], 7), false),
            Fails,
            "no step is over nothing"
        );
        assert_eq!(records.check(&datagram(&[7, 7, 1, 3, 9, 2], 6), false), Fails);
        assert_eq!(records.check(&datagram(&[7, 7], 2), false), Holds);
        assert_eq!(records.check(&datagram(&[7], 1), false), Fails);
        assert_eq!(records.check(&datagram(&[7, 7, 1, 3], 9), false), Holds, "as far as it was captured");
        assert_eq!(records.check(&stream(&[7, 7, 1, 3], 4), false), Unknown);
        assert_eq!(records.check(&stream(&[7, 7, 1, 3, 0], 5), false), Holds);
    }

    #[test]
    fn checksums_are_those_of_the_specifications() {
        // The example of RFC 1071 §3, with its checksum.
        assert!(Checksum::Internet.is_right(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7, 0x22, 0x0d]));
        assert!(!Checksum::Internet.is_right(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7, 0x22, 0x0e]));
        assert!(!Checksum::Internet.is_right(&[0; 20]));
        // A request for link status.
        assert!(Checksum::Dnp.is_right(&[5, 0x64, 5, 0xc0, 1, 0, 0, 4, 0xe9, 0x21]));
        assert_eq!(crc_dnp(b"123456789"), 0xea82);
        assert!(Checksum::Sum.is_right(&[0x20, 0x18, 0xc8]) && !Checksum::Sum.is_right(&[0x20, 0x18]));
        assert!(!Checksum::Dnp.is_right(&[1]));
    }
}

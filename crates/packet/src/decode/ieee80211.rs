//! 802.11 data frames, plain or behind a radiotap header.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
const HEADER_BYTES: usize = 24;
const TYPE_DATA: u8 = 2;

impl Layers<'_> {
    /// Skips a radiotap header, heeding its flag for padded 802.11 headers.
    pub(super) fn radiotap(self) -> Decoded {
        let header = self.take::<8>(0, CUT)?;
        let length = usize::from(u16::from_le_bytes([header[2], header[3]]));
        if header[0] != 0 || length < 8 {
            return Err(DropReason::MalformedLink);
        }
        let present = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        // Bit 31 announces one more word of presence bits.
        let mut words_end = 8;
        let mut more = present;
        while more >> 31 == 1 && words_end < length {
            more = u32::from_le_bytes(*self.take::<4>(words_end, CUT)?);
            words_end += 4;
        }
        let mut align = 1;
        if present & 2 != 0 {
            // The flags come after the 64-bit time stamp, if there is one.
            let at = if present & 1 != 0 { words_end.next_multiple_of(8) + 8 } else { words_end };
            if at < length && self.take::<1>(at, CUT)?[0] & 0x20 != 0 {
                align = 4;
            }
        }
        self.ieee80211(length, align)
    }

    /// Decodes an 802.11 frame whose header is padded to a multiple of `align` bytes.
    pub(super) fn ieee80211(self, at: usize, align: usize) -> Decoded {
        let control = self.take::<2>(at, CUT)?;
        let (kind, subtype, flags) = (control[0] >> 2 & 3, control[0] >> 4, control[1]);
        if control[0] & 3 != 0 {
            return Err(DropReason::MalformedLink);
        }
        if kind != TYPE_DATA || subtype & 4 != 0 {
            return Err(DropReason::NotIp); // Management, control, or data without data.
        }
        let header = self.take::<HEADER_BYTES>(at, CUT)?;
        if flags & 0x40 != 0 {
            return Err(DropReason::Encrypted);
        }
        if header[22] & 0xF != 0 {
            return Err(DropReason::NotIp); // A later fragment of a frame: its beginning had the headers.
        }
        let mut length = HEADER_BYTES;
        if flags & 3 == 3 {
            length += 6; // Between two access points: a fourth address.
        }
        let mut aggregate = false;
        if subtype & 8 != 0 {
            aggregate = self.take::<1>(at + length, CUT)?[0] & 0x80 != 0;
            length += 2;
            if flags & 0x80 != 0 {
                length += 4; // High-throughput control.
            }
        }
        let mut at = at + length.next_multiple_of(align);
        if aggregate {
            at += 14; // Of an aggregate the first packet counts: addresses and length before its link control.
        }
        self.llc(at)
    }
}

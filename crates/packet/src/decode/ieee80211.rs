//! 802.11 data frames of access points and meshes, with or without a radiotap header.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
const HEADER_BYTES: usize = 24;
const TYPE_DATA: u8 = 2;
const MESH_CONTROL_BYTES: usize = 6;

impl Layers<'_> {
    /// Skips a radiotap header. Its flags indicate whether the 802.11 header is padded.
    pub(super) fn radiotap(self, start: usize) -> Decoded {
        let header = self.take::<8>(start, CUT)?;
        let length = usize::from(u16::from_le_bytes([header[2], header[3]]));
        if header[0] != 0 || length < 8 {
            return Err(DropReason::MalformedLink);
        }
        let present = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        // Bit 31 announces one more word of presence bits.
        let mut words_end = 8;
        let mut more = present;
        while more >> 31 == 1 && words_end < length {
            more = u32::from_le_bytes(*self.take::<4>(start + words_end, CUT)?);
            words_end += 4;
        }
        let mut align = 1;
        if present & 2 != 0 {
            // The flags follow the 64-bit time stamp, if there is one.
            let at = if present & 1 != 0 { words_end.next_multiple_of(8) + 8 } else { words_end };
            if at < length && self.take::<1>(start + at, CUT)?[0] & 0x20 != 0 {
                align = 4;
            }
        }
        self.ieee80211(start + length, align)
    }

    /// Decodes an 802.11 frame whose header is padded to a multiple of `align` bytes.
    pub(super) fn ieee80211(self, at: usize, align: usize) -> Decoded {
        let control = *self.take::<2>(at, CUT)?;
        self.ieee80211_with(control, at, align)
    }

    /// Decodes an 802.11 frame with a frame control from the caller, because a tunnel may carry its
    /// bytes in another order.
    pub(super) fn ieee80211_with(self, control: [u8; 2], at: usize, align: usize) -> Decoded {
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
            return Err(DropReason::NotIp); // A later fragment of a frame; the first one has the headers.
        }
        let mut length = HEADER_BYTES;
        if flags & 3 == 3 {
            length += 6; // Between two access points: a fourth address.
        }
        let (mut aggregate, mut mesh) = (false, false);
        if subtype & 8 != 0 {
            let quality = self.take::<2>(at + length, CUT)?;
            aggregate = quality[0] & 0x80 != 0;
            // Between stations of a mesh: hop by hop with four addresses, or to a group. In other
            // frames the bit is part of a duration.
            mesh = quality[1] & 1 != 0 && (flags & 3 == 3 || flags & 3 == 2 && header[4] & 1 != 0);
            length += 2;
            if flags & 0x80 != 0 {
                length += 4; // High-throughput control.
            }
        }
        let mut at = at + length.next_multiple_of(align);
        if aggregate {
            at += 14; // In an aggregate the first packet counts: addresses and length precede its link control.
        }
        if mesh {
            at += self.mesh_control_bytes(at)?;
        }
        self.llc(at)
    }

    /// Returns the length of the mesh control at an offset: flags, time to live, number, and at
    /// most two addresses. It is 0 if the flags are invalid, as the first byte of link control is.
    fn mesh_control_bytes(self, at: usize) -> Result<usize, DropReason> {
        Ok(match self.take::<1>(at, CUT)?[0] {
            addresses @ 0..=2 => MESH_CONTROL_BYTES + 6 * usize::from(addresses),
            _ => 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, on, plain, ports, query};
    use super::*;
    use crate::link::LinkType;

    const SNAP: [u8; 8] = [0xAA, 0xAA, 3, 0, 0, 0, 8, 0];

    /// Returns a frame with `more` bytes between the fixed header and the link control.
    fn frame(control: [u8; 2], more: &[u8]) -> Vec<u8> {
        on(&[&control[..], &[0; 22], more, &SNAP].concat(), &query())
    }

    fn read(frame: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(plain(LinkType::IEEE802_11, frame))
    }

    #[test]
    fn header_length_follows_from_its_flags() {
        assert_eq!(read(&frame([0x08, 1], &[])), QUERY);
        assert_eq!(read(&frame([0x88, 1], &[0; 2])), QUERY, "quality of service");
        assert_eq!(read(&frame([0x88, 0x81], &[0; 6])), QUERY, "and high-throughput control");
        assert_eq!(read(&frame([0x08, 3], &[0; 6])), QUERY, "four addresses");
        assert_eq!(read(&frame([0x88, 0x83], &[0; 12])), QUERY, "all of them");
        let aggregate = [&[0x80, 0][..], &[0; 14]].concat();
        assert_eq!(read(&frame([0x88, 1], &aggregate)), QUERY, "the first of an aggregate");
    }

    #[test]
    fn mesh_header_follows_the_quality_of_service_field() {
        // After the fourth address; in an aggregate, after the addresses of the first packet.
        let mesh =
            |quality: u8, more: &[u8]| frame([0x88, 3], &[&[0; 6], &[quality, 1][..], more].concat());
        assert_eq!(read(&mesh(0, &[0, 31, 1, 0, 0, 0])), QUERY);
        assert_eq!(
            read(&mesh(0, &[&[1, 31, 1, 0, 0, 0][..], &[2; 6]].concat())),
            QUERY,
            "one more address"
        );
        assert_eq!(read(&mesh(0, &[&[2, 31, 1, 0, 0, 0][..], &[2; 12]].concat())), QUERY, "two more");
        assert_eq!(
            read(&mesh(0x80, &[&[0; 14], &[0, 31, 1, 0, 0, 0][..]].concat())),
            QUERY,
            "an aggregate"
        );
        let mut group = frame([0x88, 2], &[0, 1, 0, 31, 1, 0, 0, 0]);
        group[4] = 0xFF;
        assert_eq!(read(&group), QUERY, "to all");
        for length in 26..32 {
            assert_eq!(read(&group[..length]), Err(CUT), "{length} bytes");
        }
        assert_eq!(read(&mesh(0, &[])), QUERY, "the bit, but link control where the mesh's flags would be");
        assert_eq!(
            read(&frame([0x88, 2], &[0, 1])),
            QUERY,
            "of an access point the bit is part of a number"
        );
        assert_eq!(read(&frame([0x88, 1], &[0, 1])), QUERY, "and so of a station");
    }

    #[test]
    fn unreadable_frame_has_a_reason() {
        assert_eq!(read(&frame([0x08, 0x41], &[])), Err(DropReason::Encrypted));
        assert_eq!(read(&frame([0x80, 0], &[])), Err(DropReason::NotIp), "a beacon");
        assert_eq!(read(&frame([0x48, 1], &[])), Err(DropReason::NotIp), "no data");
        assert_eq!(read(&frame([0x09, 1], &[])), Err(DropReason::MalformedLink));
        let mut later = frame([0x08, 1], &[]);
        later[22] = 1;
        assert_eq!(read(&later), Err(DropReason::NotIp), "a later fragment");
        assert_eq!(read(&frame([0x08, 1], &[])[..23]), Err(CUT));
        assert_eq!(read(&frame([0x88, 1], &[])[..24]), Err(CUT));
        assert_eq!(read(&[0x08]), Err(CUT));
    }

    #[test]
    fn radiotap_words_and_padding_are_skipped() {
        let read =
            |header: &[u8], frame: &[u8]| ports(plain(LinkType::IEEE802_11_RADIOTAP, &on(header, frame)));
        let usual = frame([0x08, 1], &[]);
        assert_eq!(read(&[0, 0, 8, 0, 0, 0, 0, 0], &usual), QUERY);
        assert_eq!(read(&[0, 0, 12, 0, 0, 0, 0, 0x80, 0, 0, 0, 0], &usual), QUERY, "one more word");
        // With quality of service, the header has 26 bytes, which the flag pads to 28.
        let padded = frame([0x88, 1], &[0; 4]);
        assert_eq!(read(&[0, 0, 9, 0, 2, 0, 0, 0, 0x20], &padded), QUERY);
        let after_time =
            [&[0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0][..], &[0; 4], &[0; 8], &[0x20]].concat();
        assert_eq!(read(&after_time, &padded), QUERY, "the time stamp is aligned to eight bytes");
        let unpadded = frame([0x88, 1], &[0; 2]);
        assert_eq!(
            read(&[0, 0, 9, 0, 2, 0, 0, 0, 0x10], &unpadded),
            QUERY,
            "flags, but not that of padding"
        );
        // The header ends before its flags. The next byte belongs to the frame and is not read as
        // flags.
        let four_addresses = frame([0x28, 3], &[0; 6]);
        assert_eq!(read(&[0, 0, 8, 0, 2, 0, 0, 0], &four_addresses), QUERY, "flags announced and missing");
        assert_eq!(read(&[1, 0, 8, 0, 0, 0, 0, 0], &usual), Err(DropReason::MalformedLink));
        assert_eq!(read(&[0, 0, 7, 0, 0, 0, 0, 0], &usual), Err(DropReason::MalformedLink));
        assert_eq!(read(&[0, 0, 8, 0], &[]), Err(CUT));
        assert_eq!(read(&[0, 0, 99, 0, 0, 0, 0, 0x80], &[]), Err(CUT));
    }
}

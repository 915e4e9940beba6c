//! Headers that switches put before a frame inside their own fabric: tags other than VLAN tags, and
//! whole Ethernet headers.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;

impl Layers<'_> {
    /// Skips a provider's backbone tag (802.1ah): a service ID, which separates customers as a VLAN
    /// does, followed by the customer's whole frame.
    pub(super) fn backbone_tag(mut self, at: usize) -> Decoded {
        let tag = self.take::<4>(at, CUT)?;
        self.zone = self.zone.mixed(u32::from_be_bytes([0, tag[1], tag[2], tag[3]]));
        self.deeper()?.ethernet(at + 4)
    }

    /// Skips Cisco's metadata: a version, a count, as many options of four bytes, then another
    /// type.
    pub(super) fn cisco_metadata(self, at: usize) -> Decoded {
        let header = self.take::<2>(at, CUT)?;
        // Switches write 1 for both. Captures contain zeros too, but with one option.
        let at = at + 2 + usize::from(header[1].max(1)) * 4;
        let ether_type = self.half(at, CUT)?;
        self.deeper()?.ether_type(ether_type, at + 2)
    }

    /// Skips Arista's time stamp. Its version indicates whether it has 64 bits or 48.
    pub(super) fn arista_time(self, at: usize) -> Decoded {
        let header = self.take::<4>(at, CUT)?;
        let stamp_bytes = match (header[1], header[3] >> 4) {
            (1, 1) => 8,
            (1, 2) => 6,
            _ => return Err(DropReason::NotIp),
        };
        let at = at + 4 + stamp_bytes;
        let ether_type = self.half(at, CUT)?;
        self.deeper()?.ether_type(ether_type, at + 2)
    }

    /// Skips a tag of a Realtek switch, whose first bits distinguish its two forms.
    pub(super) fn realtek(self, at: usize) -> Decoded {
        let tag_bytes = match self.take::<2>(at, CUT)? {
            [first, _] if first >> 4 == 0xA => 2,
            [0x04, _] => 6,
            _ => return Err(DropReason::NotIp),
        };
        let ether_type = self.half(at + tag_bytes, CUT)?;
        self.deeper()?.ether_type(ether_type, at + tag_bytes + 2)
    }

    /// Decodes a frame with a Marvell switch tag after its addresses. If the host's frame had a
    /// VLAN tag, the switch tag replaces it and has its ID.
    pub(super) fn marvell(mut self, at: usize, tag_at: usize) -> Decoded {
        const TAGGED: u8 = 0x20;
        let tag = self.take::<4>(at + tag_at, CUT)?;
        if tag[0] & TAGGED != 0 {
            self.enter_vlan(u16::from_be_bytes([tag[2], tag[3]]));
        }
        let at = at + tag_at + 4;
        let ether_type = self.half(at, CUT)?;
        self.deeper()?.ether_type(ether_type, at + 2)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, on, plain, ports, query, tag};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn frame_is_found_after_the_fabric_header() {
        let read = |bytes: &[u8]| ports(plain(LinkType::ETHERNET, bytes));
        let host = ethernet(0x0800, &query());
        assert_eq!(read(&ethernet(0x8903, &on(&[0, 0x60], &host))), QUERY);
        assert_eq!(
            read(&ethernet(0x8926, &on(&[0; 4], &tag(11, 0x0800, &query()))[..])),
            Err(DropReason::NotIp)
        );
        assert_eq!(read(&ethernet(0x8926, &on(&[0, 0, 0, 0, 0x81, 0], &tag(11, 0x0800, &query())))), QUERY);
        assert_eq!(read(&ethernet(0x8903, &[0])), Err(DropReason::TruncatedLink));
        assert_eq!(read(&ethernet(0x8926, &[0; 5])), Err(DropReason::TruncatedLink));
    }

    #[test]
    fn a_backbone_service_is_a_zone() {
        let read = |service| {
            let frame = ethernet(0x88E7, &on(&[0, 0, 0, service], &ethernet(0x0800, &query())));
            plain(LinkType::ETHERNET, &frame).unwrap().key.zone()
        };
        assert!(read(1) != 0 && read(2) != 0);
        assert_ne!(read(1), read(2));
        assert_eq!(plain(LinkType::ETHERNET, &ethernet(0x88E7, &[0; 3])), Err(DropReason::TruncatedLink));
    }
}

//! What switches put in front of a frame inside their own fabric: tags that are no VLAN, and whole Ethernet headers.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;

impl Layers<'_> {
    /// Skips Cisco's `FabricPath`: a forwarding tag and time to live, then the host's whole frame.
    pub(super) fn fabric_path(self, at: usize) -> Decoded {
        self.take::<2>(at, CUT)?;
        self.deeper()?.ethernet(at + 2)
    }

    /// Skips a VN tag (802.1BR's ancestor): the ports of a virtual switch, then another type.
    pub(super) fn vn_tag(self, at: usize) -> Decoded {
        let tag = self.take::<6>(at, CUT)?;
        self.deeper()?.ether_type(u16::from_be_bytes([tag[4], tag[5]]), at + 6)
    }

    /// Skips a provider's backbone tag (802.1ah): a service's number, which parts customers as a VLAN does, then the
    /// customer's whole frame.
    pub(super) fn backbone_tag(mut self, at: usize) -> Decoded {
        let tag = self.take::<4>(at, CUT)?;
        self.zone = self.zone.mixed(u32::from_be_bytes([0, tag[1], tag[2], tag[3]]));
        self.deeper()?.ethernet(at + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, on, plain, ports, query, tag};
    use crate::link::LinkType;
    use crate::reason::DropReason;

    #[test]
    fn a_frame_is_found_behind_the_fabric() {
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

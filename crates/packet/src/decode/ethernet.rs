//! Ethernet II and 802.3 with LLC/SNAP, and whatever an Ethernet type announces.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const HEADER_BYTES: usize = 14;
/// Type fields up to here are lengths of 802.3 frames.
const LENGTH_MAX: u16 = 1500;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86DD;
pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
const MPLS: [u16; 2] = [0x8847, 0x8848];
const VLAN: [u16; 4] = [0x8100, 0x88A8, 0x9100, 0x9200];
const PPPOE_SESSION: u16 = 0x8864;
const BACKBONE: u16 = 0x88E7;
const FABRIC_PATH: u16 = 0x8903;
const VN_TAG: u16 = 0x8926;

impl Layers<'_> {
    pub(super) fn ethernet(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, DropReason::TruncatedLink)?;
        self.ether_type(u16::from_be_bytes([header[12], header[13]]), at + HEADER_BYTES)
    }

    /// Decodes what an Ethernet type announces.
    pub(super) fn ether_type(self, ether_type: u16, at: usize) -> Decoded {
        match ether_type {
            IPV4 => self.ipv4(at),
            IPV6 => self.ipv6(at),
            _ if VLAN.contains(&ether_type) => self.vlan(at),
            _ if MPLS.contains(&ether_type) => self.mpls(at),
            PPPOE_SESSION => self.pppoe(at),
            BACKBONE => self.backbone_tag(at),
            FABRIC_PATH => self.fabric_path(at),
            VN_TAG => self.vn_tag(at),
            0..=LENGTH_MAX => self.llc(at),
            _ => Err(DropReason::NotIp),
        }
    }

    /// Decodes from a logical link control header on.
    pub(super) fn llc(self, at: usize) -> Decoded {
        match self.take::<3>(at, DropReason::TruncatedLink)? {
            // A subnetwork access point: an organisation, and a type in its numbering.
            [0xAA, 0xAA, 0x03] => {
                let snap = self.take::<5>(at + 3, DropReason::TruncatedLink)?;
                let ether_type = u16::from_be_bytes([snap[3], snap[4]]);
                match snap[..3] {
                    // Ethernet's own numbers, also for bridged 802.1H frames.
                    [0, 0, 0 | 0xF8] if ether_type > LENGTH_MAX => {
                        self.deeper()?.ether_type(ether_type, at + 8)
                    }
                    _ => Err(DropReason::NotIp),
                }
            }
            [0x06, 0x06, 0x03] => self.ipv4(at + 3),
            _ => Err(DropReason::NotIp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, on, plain, ports, query};
    use crate::link::LinkType;
    use crate::reason::DropReason;

    #[test]
    fn types_lengths_and_access_points_are_told_apart() {
        let read =
            |ether_type, inner: &[u8]| ports(plain(LinkType::ETHERNET, &ethernet(ether_type, inner)));
        assert_eq!(read(0x0800, &query()), QUERY);
        assert_eq!(read(0x0806, &[0; 46]), Err(DropReason::NotIp));
        assert_eq!(read(40, &on(&[0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &query())), QUERY);
        assert_eq!(read(40, &on(&[0xAA, 0xAA, 3, 0, 0, 0xF8, 8, 0], &query())), QUERY);
        assert_eq!(read(40, &on(&[0xAA, 0xAA, 3, 0, 0, 0x0C, 0x20, 0], &query())), Err(DropReason::NotIp));
        assert_eq!(
            read(40, &on(&[0xAA, 0xAA, 3, 0, 0, 0, 0, 35, 6, 6, 3], &query())),
            Err(DropReason::NotIp),
            "a length is no type behind an access point"
        );
        assert_eq!(
            read(40, &on(&[0xAA, 0xAA, 3, 0, 0, 0, 5, 0xDC, 6, 6, 3], &query())),
            Err(DropReason::NotIp),
            "nor is the longest length"
        );
        assert_eq!(read(35, &on(&[6, 6, 3], &query())), QUERY);
        assert_eq!(read(38, &[0x42, 0x42, 3, 0, 0]), Err(DropReason::NotIp));
        assert_eq!(read(38, &[0xAA]), Err(DropReason::TruncatedLink));
        assert_eq!(read(38, &[0xAA, 0xAA, 3, 0]), Err(DropReason::TruncatedLink));
        assert_eq!(plain(LinkType::ETHERNET, &[0; 13]), Err(DropReason::TruncatedLink));
        assert_eq!(plain(LinkType::CAN20B, &[0; 99]), Err(DropReason::Unsupported));
    }
}

//! Ethernet II and 802.3 with LLC/SNAP, and the headers that an Ethertype announces.

use super::layers::{Decoded, Layers};
use super::table;
use super::trace::Unknown;
use crate::drop_reason::DropReason;

const HEADER_BYTES: usize = 14;
/// The largest type field that is the length of an 802.3 frame.
pub(super) const LENGTH_MAX: u16 = 1500;

pub(super) const IPV4: u16 = 0x0800;
pub(super) const IPV6: u16 = 0x86DD;
pub(super) const TRANSPARENT_ETHERNET: u16 = 0x6558;
const VLAN: u16 = 0x8100;

impl Layers<'_> {
    pub(super) fn ethernet(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, DropReason::TruncatedLink)?;
        self.ether_type(u16::from_be_bytes([header[12], header[13]]), at + HEADER_BYTES)
    }

    /// Decodes the header that an Ethertype announces.
    pub(super) fn ether_type(self, ether_type: u16, at: usize) -> Decoded {
        match ether_type {
            IPV4 => self.ipv4(at),
            IPV6 => self.ipv6(at),
            VLAN if self.trace.is_none() => self.vlan(at),
            0..=LENGTH_MAX => self.llc(at),
            _ => self.unusual_type(ether_type, at),
        }
    }

    /// Decodes the header that an Ethertype of the table or of the options announces.
    #[cold]
    fn unusual_type(self, ether_type: u16, at: usize) -> Decoded {
        if let Some(entry) = table::of_ether_type(ether_type) {
            return self.enter(entry, at);
        }
        if self.options.custom.is_some_and(|custom| custom.tag_types().contains(&ether_type)) {
            return self.vlan(at);
        }
        self.not_ip(Unknown::EtherType(ether_type))
    }

    /// Decodes a bridged frame, which ATM pads with two bytes before it.
    pub(super) fn bridged(self, at: usize) -> Decoded {
        let padded = !self.is_ethernet(at) && self.is_ethernet(at + 2);
        self.deeper()?.ethernet(if padded { at + 2 } else { at })
    }

    /// Decodes from a logical link control header on.
    pub(super) fn llc(self, at: usize) -> Decoded {
        match self.take::<3>(at, DropReason::TruncatedLink)? {
            // A subnetwork access point: an organisation, and a type in its numbering.
            [0xAA, 0xAA, 0x03] => {
                let snap = self.take::<5>(at + 3, DropReason::TruncatedLink)?;
                let ether_type = u16::from_be_bytes([snap[3], snap[4]]);
                match snap[..3] {
                    // The protocol number is an Ethertype, as it is in bridged 802.1H frames.
                    [0, 0, 0 | 0xF8] if ether_type > LENGTH_MAX => {
                        self.deeper()?.ether_type(ether_type, at + 8)
                    }
                    // A bridged Ethernet frame, with or without its check sequence [RFC 2684 §5.2].
                    [0, 0x80, 0xC2] if matches!(ether_type, 1 | 7) => self.bridged(at + 8),
                    _ => self.not_ip(Unknown::Snap {
                        organisation: [snap[0], snap[1], snap[2]],
                        kind: ether_type,
                    }),
                }
            }
            [0x06, 0x06, 0x03] => self.ipv4(at + 3),
            // ISO's network layer identifiers [RFC 2684 §5.1].
            [0xFE, 0xFE, 0x03] => match self.take::<1>(at + 3, DropReason::TruncatedLink)?[0] {
                0xCC => self.ipv4(at + 4),
                0x8E => self.ipv6(at + 4),
                _ => self.not_ip(Unknown::LinkControl(0xFEFE)),
            },
            &[destination, source, _] => {
                self.not_ip(Unknown::LinkControl(u16::from_be_bytes([destination, source])))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, on, plain, ports, query};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn types_lengths_and_access_points_are_distinguished() {
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

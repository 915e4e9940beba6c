//! Wide area links: Cisco's HDLC, Frame Relay, ATM.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
/// Maximum length of a Frame Relay address, in bytes.
const ADDRESS_BYTES_MAX: usize = 4;
const UNNUMBERED: u8 = 0x03;

impl Layers<'_> {
    /// Decodes a frame of Cisco's HDLC: address, control, and an Ethertype.
    pub(super) fn cisco_hdlc(self, at: usize) -> Decoded {
        let ether_type = self.half(at + 2, CUT)?;
        self.ether_type(ether_type, at + 4)
    }

    /// Decodes a Frame Relay frame in the form of RFC 2427, or in Cisco's form with an Ethertype
    /// after the address.
    pub(super) fn frame_relay(self, at: usize) -> Decoded {
        let end = at + ADDRESS_BYTES_MAX;
        let mut at = at;
        // The last byte of an address is odd.
        while self.take::<1>(at, CUT)?[0] & 1 == 0 {
            at += 1;
            if at == end {
                return Err(DropReason::MalformedLink);
            }
        }
        at += 1;
        if self.take::<1>(at, CUT)?[0] != UNNUMBERED {
            let ether_type = self.half(at, CUT)?;
            return self.ether_type(ether_type, at + 2);
        }
        at += 1;
        // A zero byte pads the header to whole words.
        if self.take::<1>(at, CUT)?[0] == 0 {
            at += 1;
        }
        match self.take::<1>(at, CUT)?[0] {
            0xCC => self.ipv4(at + 1),
            0x8E => self.ipv6(at + 1),
            0x80 => {
                let snap = self.take::<5>(at + 1, CUT)?;
                match snap[..3] {
                    [0, 0, 0] => self.ether_type(u16::from_be_bytes([snap[3], snap[4]]), at + 6),
                    [0, 0x80, 0xC2] if matches!(snap[4], 1 | 7) => self.bridged(at + 6),
                    _ => Err(DropReason::NotIp),
                }
            }
            _ => Err(DropReason::NotIp),
        }
    }

    /// Decodes a packet of RFC 1483, with or without logical link control.
    pub(super) fn atm(self, at: usize) -> Decoded {
        match self.take::<1>(at, CUT)?[0] {
            first if first >> 4 == 4 => self.ipv4(at),
            first if first >> 4 == 6 && self.is_ip(at) == Some(6) => self.ipv6(at),
            _ => self.llc(at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ipv6, on, plain, ports, query, udp};
    use super::*;
    use crate::link::LinkType;

    fn read(link: LinkType, header: &[u8], carried: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(plain(link, &on(header, carried)))
    }

    #[test]
    fn cisco_hdlc_has_an_ethernet_type() {
        assert_eq!(read(LinkType::C_HDLC, &[0x0F, 0, 8, 0], &query()), QUERY);
        assert_eq!(read(LinkType::C_HDLC, &[0x8F, 0, 0x88, 0x47, 0, 1, 1, 64], &query()), QUERY, "a label");
        assert_eq!(read(LinkType::C_HDLC, &[0x8F, 0, 0x80, 0x35], &[0; 18]), Err(DropReason::NotIp));
        assert_eq!(read(LinkType::C_HDLC, &[0x0F, 0, 8], &[]), Err(CUT));
    }

    #[test]
    fn frame_relay_has_two_forms_and_three_lengths() {
        let six = ipv6(17, &udp(1000, 53, b"ask?"));
        assert_eq!(read(LinkType::FRELAY, &[0x18, 0x41, 3, 0xCC], &query()), QUERY);
        assert_eq!(read(LinkType::FRELAY, &[0x18, 0x41, 3, 0x8E], &six), QUERY);
        assert_eq!(read(LinkType::FRELAY, &[0x18, 0x40, 0x40, 0x41, 3, 0xCC], &query()), QUERY);
        assert_eq!(read(LinkType::FRELAY, &[0x18, 0x41, 3, 0, 0x80, 0, 0, 0, 8, 0], &query()), QUERY);
        assert_eq!(read(LinkType::FRELAY, &[0x18, 0x41, 8, 0], &query()), QUERY, "Cisco's");
        assert_eq!(read(LinkType::FRELAY, &[0, 1, 3, 8], &[0; 20]), Err(DropReason::NotIp), "signalling");
        assert_eq!(read(LinkType::FRELAY, &[0; 5], &[]), Err(DropReason::MalformedLink));
    }

    #[test]
    fn atm_may_lack_a_header() {
        assert_eq!(read(LinkType::ATM_RFC1483, &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &query()), QUERY);
        assert_eq!(read(LinkType::ATM_RFC1483, &[], &query()), QUERY);
        assert_eq!(read(LinkType::ATM_RFC1483, &[0xFE, 0xFE, 3], &[0; 9]), Err(DropReason::NotIp));
    }
}

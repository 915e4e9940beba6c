//! The point-to-point protocol: bare, in HDLC framing, and over Ethernet.

use super::layers::{Decoded, Layers};
use super::table::MULTILINK;
use super::trace::Unknown;
use crate::drop_reason::DropReason;

const PPPOE_BYTES: usize = 6;

impl Layers<'_> {
    /// Decodes a session frame of PPP over Ethernet.
    pub(super) fn pppoe(self, at: usize) -> Decoded {
        let header = self.take::<PPPOE_BYTES>(at, DropReason::TruncatedPppoe)?;
        if header[0] != 0x11 {
            return Err(DropReason::MalformedPppoe);
        }
        if header[1] != 0 {
            return Err(DropReason::NotIp); // Discovery.
        }
        self.deeper()?.ppp(at + PPPOE_BYTES)
    }

    /// Decodes a frame with or without address and control bytes, and with a protocol field of one
    /// or two bytes.
    pub(super) fn ppp(self, at: usize) -> Decoded {
        let cut = DropReason::TruncatedPppoe;
        let at = match self.take::<2>(at, cut)? {
            // The all-stations address with unnumbered control, or Cisco's addresses, which an
            // Ethertype follows.
            [0xFF, 0x03] | [0x0F | 0x8F, 0x00] => at + 2,
            _ => at,
        };
        let first = self.take::<1>(at, cut)?[0];
        // The low byte of every protocol number is odd and the high byte even, so an odd first byte
        // is a compressed field.
        let (protocol, at) =
            if first & 1 == 1 { (u16::from(first), at + 1) } else { (self.half(at, cut)?, at + 2) };
        match protocol {
            0x0021 | 0x0800 => self.ipv4(at),
            0x0057 | 0x86DD => self.ipv6(at),
            0x0281 | 0x0283 => self.mpls(at),
            0x003D => self.deeper()?.enter(MULTILINK, at),
            // Bridging: flags, the kind of the medium, then an Ethernet frame [RFC 3518 §4.2].
            0x0031 if self.take::<2>(at, cut)?[1] == 1 => self.deeper()?.ethernet(at + 2),
            0x0053 | 0x0055 => Err(DropReason::Encrypted),
            _ => self.not_ip(Unknown::Ppp(protocol)),
        }
    }

    /// Decodes a fragment of multilink PPP, if it is the first of its frame.
    pub(super) fn multilink(self, at: usize) -> Decoded {
        const BEGINS: u8 = 0x80;
        let cut = DropReason::TruncatedPppoe;
        if self.take::<2>(at, cut)?[0] & BEGINS == 0 {
            return Err(DropReason::NotIp);
        }
        // Both ends agree in advance on sequence numbers of 24 or 12 bits, so the following bytes
        // decide.
        let [long, short] = [at + 4, at + 2];
        if self.is_ppp(short) && !self.is_ppp(long) { self.ppp(short) } else { self.ppp(long) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, ipv6, on, plain, ports, query, udp};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn address_control_and_protocol_may_be_compressed() {
        let read = |header: &[u8]| ports(plain(LinkType::PPP, &on(header, &query())));
        for header in [&[0xFF, 3, 0, 0x21][..], &[0xFF, 3, 0x21], &[0, 0x21], &[0x21], &[0x0F, 0, 8, 0]] {
            assert_eq!(read(header), QUERY, "{header:?}");
        }
        assert_eq!(ports(plain(LinkType::PPP, &on(&[0x57], &ipv6(17, &udp(1000, 53, b""))))), QUERY);
        assert_eq!(read(&[0x02, 0x81, 0, 1, 1, 64]), QUERY, "under a label");
        assert_eq!(read(&[0xC0, 0x21]), Err(DropReason::NotIp));
        assert_eq!(read(&[0, 0x53]), Err(DropReason::Encrypted));
        assert_eq!(plain(LinkType::PPP, &[0xFF]), Err(DropReason::TruncatedPppoe));
        assert_eq!(plain(LinkType::PPP, &[0xFF, 3]), Err(DropReason::TruncatedPppoe));
    }

    #[test]
    fn only_sessions_over_ethernet_carry_packets() {
        let read =
            |header: &[u8]| ports(plain(LinkType::ETHERNET, &ethernet(0x8864, &on(header, &query()))));
        assert_eq!(read(&[0x11, 0, 0, 1, 0, 34, 0, 0x21]), QUERY);
        assert_eq!(read(&[0x11, 9, 0, 0, 0, 0]), Err(DropReason::NotIp));
        assert_eq!(read(&[0x21, 0, 0, 1, 0, 34, 0, 0x21]), Err(DropReason::MalformedPppoe));
        assert_eq!(
            ports(plain(LinkType::ETHERNET, &ethernet(0x8864, &[0x11, 0]))),
            Err(DropReason::TruncatedPppoe)
        );
        assert_eq!(
            plain(LinkType::ETHERNET, &ethernet(0x8863, &[0x11, 9, 0, 0, 0, 0])),
            Err(DropReason::NotIp)
        );
        assert_eq!(
            ports(plain(LinkType::PPP_ETHER, &on(&[0x11, 0, 0, 1, 0, 34, 0, 0x21], &query()))),
            QUERY
        );
    }
}

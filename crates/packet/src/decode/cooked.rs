//! Link layers that the capturing system creates: Linux "cooked" headers and the BSD loopback.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const SLL_BYTES: usize = 16;
const SLL2_BYTES: usize = 20;
/// Linux's protocol numbers for frames without an Ethernet type.
const LLC: u16 = 0x0004;
const NULL_BYTES: usize = 4;
const AF_INET: u32 = 2;
const ETHER_IPV4: u32 = 0x0800;
const ETHER_IPV6: u32 = 0x86DD;
/// The address family of IPv6 on Linux, NetBSD and OpenBSD, FreeBSD, and macOS.
const AF_INET6: [u32; 4] = [10, 24, 28, 30];

impl Layers<'_> {
    pub(super) fn linux_sll(self, at: usize) -> Decoded {
        let header = self.take::<SLL_BYTES>(at, DropReason::TruncatedLink)?;
        self.cooked(u16::from_be_bytes([header[14], header[15]]), at + SLL_BYTES)
    }

    pub(super) fn linux_sll2(self, at: usize) -> Decoded {
        let header = self.take::<SLL2_BYTES>(at, DropReason::TruncatedLink)?;
        self.cooked(u16::from_be_bytes([header[0], header[1]]), at + SLL2_BYTES)
    }

    fn cooked(self, protocol: u16, at: usize) -> Decoded {
        match protocol {
            LLC => self.llc(at),
            0..=0x05FF => Err(DropReason::NotIp),
            ether_type => self.ether_type(ether_type, at),
        }
    }

    pub(super) fn loopback(self, at: usize) -> Decoded {
        let header = *self.take::<NULL_BYTES>(at, DropReason::TruncatedLink)?;
        // The family is in the byte order of the capturing machine; OpenBSD's variant is always
        // big-endian. Some systems write two bytes of it, or an Ethertype in its place.
        let word = u32::from_le_bytes(header).min(u32::from_be_bytes(header));
        let half =
            if header[2..] == [0; 2] { u16::from_be_bytes([header[0], header[1]]).into() } else { word };
        let at = at + NULL_BYTES;
        for family in [word, half] {
            match family {
                AF_INET | ETHER_IPV4 => return self.ipv4(at),
                ETHER_IPV6 => return self.ipv6(at),
                _ if AF_INET6.contains(&family) => return self.ipv6(at),
                _ => {}
            }
        }
        match u16::try_from(word) {
            Ok(ether_type) if ether_type >= 0x600 => self.ether_type(ether_type, at),
            _ => Err(DropReason::NotIp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ipv6, on, plain, ports, query, tag, udp};
    use super::*;
    use crate::link::LinkType;

    fn sll(protocol: u16, inner: &[u8]) -> Vec<u8> {
        on(&[&[0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0][..], &protocol.to_be_bytes()].concat(), inner)
    }

    fn sll2(protocol: u16, inner: &[u8]) -> Vec<u8> {
        on(&[&protocol.to_be_bytes()[..], &[0; 18]].concat(), inner)
    }

    #[test]
    fn both_cooked_headers_name_their_protocol() {
        for (link, frame) in
            [(LinkType::LINUX_SLL, sll as fn(u16, &[u8]) -> Vec<u8>), (LinkType::LINUX_SLL2, sll2)]
        {
            let read = |protocol, inner: &[u8]| ports(plain(link, &frame(protocol, inner)));
            assert_eq!(read(0x0800, &query()), QUERY);
            assert_eq!(read(0x8100, &tag(5, 0x0800, &query())), QUERY);
            assert_eq!(read(LLC, &on(&[0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &query())), QUERY);
            assert_eq!(read(1, &query()), Err(DropReason::NotIp));
            assert_eq!(read(0x0806, &query()), Err(DropReason::NotIp));
            assert_eq!(plain(link, &frame(0x0800, &[])[1..]), Err(DropReason::TruncatedLink));
        }
    }

    #[test]
    fn the_loopback_family_is_read_in_both_byte_orders() {
        let six = ipv6(17, &udp(1000, 53, b"ask?"));
        let read = |family: [u8; 4], inner: &[u8]| ports(plain(LinkType::NULL, &on(&family, inner)));
        assert_eq!(read(2_u32.to_le_bytes(), &query()), QUERY);
        assert_eq!(read(2_u32.to_be_bytes(), &query()), QUERY);
        for family in AF_INET6 {
            assert_eq!(read(family.to_le_bytes(), &six), QUERY);
            assert_eq!(read(family.to_be_bytes(), &six), QUERY);
        }
        for ether_type in [[0, 0, 8, 0], [8, 0, 0, 0], [0, 8, 0, 0], [0, 2, 0, 0]] {
            assert_eq!(read(ether_type, &query()), QUERY, "{ether_type:?}");
        }
        for ether_type in [[0, 0, 0x86, 0xDD], [0x86, 0xDD, 0, 0], [0xDD, 0x86, 0, 0], [0, 30, 0, 0]] {
            assert_eq!(read(ether_type, &six), QUERY, "{ether_type:?}");
        }
        assert_eq!(read([0, 0, 0x81, 0], &tag(5, 0x0800, &query())), QUERY);
        assert_eq!(read([0, 0, 8, 6], &query()), Err(DropReason::NotIp));
        assert_eq!(read(7_u32.to_le_bytes(), &query()), Err(DropReason::NotIp));
        assert_eq!(plain(LinkType::LOOP, &[0, 0, 2]), Err(DropReason::TruncatedLink));
    }
}

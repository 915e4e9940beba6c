//! Networks that pass a token: FDDI and Token Ring, with logical link control after their
//! addresses, and ARCNET.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
const FDDI_BYTES: usize = 13;
const TOKEN_RING_BYTES: usize = 14;

/// ARCNET's types of IP [RFC 1201], and of IP without a fragment header [RFC 1051].
const ARCNET_IPV4: u8 = 212;
const ARCNET_IPV6: u8 = 196;
const ARCNET_OLD_IPV4: u8 = 240;

impl Layers<'_> {
    /// Decodes an ARCNET frame: two addresses, `unused` bytes, then the type and the flag and
    /// number of a fragment. An exception header, with the flag 255, repeats these.
    pub(super) fn arcnet(self, at: usize, unused: usize) -> Decoded {
        let type_at = at + 2 + unused;
        let kind = self.take::<1>(type_at, CUT)?[0];
        if kind == ARCNET_OLD_IPV4 {
            return self.ipv4(type_at + 1);
        }
        if !matches!(kind, ARCNET_IPV4 | ARCNET_IPV6) {
            return Err(DropReason::NotIp);
        }
        let mut flag_at = type_at + 1;
        if self.take::<3>(flag_at, CUT)?[0] == 0xFF {
            flag_at += 4;
        }
        // Only frames of a whole packet and those of first fragments, with odd flags, have its
        // header.
        let flag = self.take::<3>(flag_at, CUT)?[0];
        match (kind, flag != 0 && flag & 1 == 0) {
            (_, true) => Err(DropReason::NotIp),
            (ARCNET_IPV4, _) => self.ipv4(flag_at + 3),
            _ => self.ipv6(flag_at + 3),
        }
    }

    pub(super) fn fddi(self, at: usize) -> Decoded {
        let control = self.take::<FDDI_BYTES>(at, CUT)?[0];
        // Other frames manage the ring.
        if control & 0xF0 == 0x50 { self.llc(at + FDDI_BYTES) } else { Err(DropReason::NotIp) }
    }

    pub(super) fn token_ring(self, at: usize) -> Decoded {
        let header = self.take::<TOKEN_RING_BYTES>(at, CUT)?;
        if header[1] & 0xC0 != 0x40 {
            return Err(DropReason::NotIp);
        }
        // The sender's first bit announces a source route, which begins with its length.
        let is_routed = header[8] & 0x80 != 0;
        let route_bytes =
            if is_routed { usize::from(self.take::<1>(at + TOKEN_RING_BYTES, CUT)?[0] & 0x1F) } else { 0 };
        self.llc(at + TOKEN_RING_BYTES + route_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ipv6, on, plain, ports, query, udp};
    use super::*;
    use crate::link::LinkType;

    #[test]
    fn arcnet_carries_ip_behind_a_fragment_header_or_without() {
        let six = ipv6(17, &udp(1000, 53, b"ask?"));
        for (link, unused) in [(LinkType::ARCNET, &[][..]), (LinkType(129), &[0, 0])] {
            let read =
                |head: &[u8], packet: &[u8]| ports(plain(link, &[&[1, 2], unused, head, packet].concat()));
            assert_eq!(read(&[240], &query()), QUERY);
            assert_eq!(read(&[212, 0, 0, 7], &query()), QUERY);
            assert_eq!(read(&[212, 3, 0, 7], &query()), QUERY, "the first of two");
            assert_eq!(read(&[212, 2, 0, 7], &query()), Err(DropReason::NotIp), "the second");
            assert_eq!(read(&[212, 0xFF, 0xFF, 0xFF, 212, 0, 0, 7], &query()), QUERY);
            assert_eq!(read(&[196, 0, 0, 7], &six), QUERY);
            assert_eq!(read(&[213, 0, 0, 7], &query()), Err(DropReason::NotIp), "ARP");
            assert_eq!(read(&[212, 0], &[]), Err(CUT));
        }
    }

    const SNAP: [u8; 8] = [0xAA, 0xAA, 3, 0, 0, 0, 8, 0];

    #[test]
    fn token_ring_and_fddi_carry_llc() {
        let packet = on(&SNAP, &query());
        let fddi = |control| ports(plain(LinkType::FDDI, &on(&on(&[control], &[2; 12]), &packet)));
        assert_eq!(fddi(0x50), QUERY);
        assert_eq!(fddi(0x41), Err(DropReason::NotIp), "station management");
        let ring = |head: &[u8]| ports(plain(LinkType::TOKEN_RING, &on(head, &packet)));
        assert_eq!(ring(&on(&[0x10, 0x40], &[2; 12])), QUERY);
        let routed =
            [&[0x10, 0x40, 2, 2, 2, 2, 2, 2, 0x82, 2, 2, 2, 2, 2][..], &[6, 0, 1, 2, 3, 4]].concat();
        assert_eq!(ring(&routed), QUERY);
        assert_eq!(ring(&[0x10; 14]), Err(DropReason::NotIp), "management");
    }
}

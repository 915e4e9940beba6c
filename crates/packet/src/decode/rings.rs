//! Ring networks: FDDI and Token Ring, with logical link control after their addresses.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
const FDDI_BYTES: usize = 13;
const TOKEN_RING_BYTES: usize = 14;

impl Layers<'_> {
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
    use super::super::frames::{QUERY, on, plain, ports, query};
    use super::*;
    use crate::link::LinkType;

    const SNAP: [u8; 8] = [0xAA, 0xAA, 3, 0, 0, 0, 8, 0];

    #[test]
    fn rings_carry_logical_link_control() {
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

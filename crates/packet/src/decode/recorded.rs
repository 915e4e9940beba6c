//! Headers that capture cards and routers put before each packet: ERF, Juniper, `SunATM`, SLIP, PPP
//! with a direction, IP over `InfiniBand`.

use super::layers::{Decoded, Layers};
use super::table;
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
/// Maximum number of ERF extension headers that the decoder follows. Cards write two or three.
const EXTENSIONS_MAX: usize = 16;

impl Layers<'_> {
    /// Decodes an ERF record. Its type announces the header after the record's header and
    /// extensions.
    pub(super) fn erf(self, at: usize) -> Decoded {
        const EXTENDED: u8 = 0x80;
        let kind = self.take::<16>(at, CUT)?[8];
        let mut at = at + 16;
        let mut more = kind & EXTENDED != 0;
        let mut followed = 0;
        while more {
            more = self.take::<8>(at, CUT)?[0] & EXTENDED != 0;
            at += 8;
            followed += 1;
            if followed > EXTENSIONS_MAX {
                return Err(DropReason::Depth);
            }
        }
        match kind & !EXTENDED {
            1 | 10 | 15 | 19 => self.hdlc_or_ppp(at),
            5 | 17 => self.hdlc_or_ppp(at + 4),
            2 | 11 | 16 | 20 => self.ethernet(at + 2),
            3 | 4 | 18 => self.atm(at + 4),
            7 | 9 | 12 => self.atm(at + 8),
            22 => self.ipv4(at),
            23 => self.ipv6(at),
            _ => Err(DropReason::NotIp),
        }
    }

    /// Decodes Cisco's HDLC or PPP, according to the address.
    fn hdlc_or_ppp(self, at: usize) -> Decoded {
        match self.take::<2>(at, CUT)? {
            [0x0F | 0x8F, _] => self.cisco_hdlc(at),
            _ => self.ppp(at),
        }
    }

    /// Decodes a packet of a Juniper router: a magic number and flags, with optional extensions and
    /// cookie.
    pub(super) fn juniper(self, at: usize) -> Decoded {
        const NO_LINK_LAYER: u8 = 0x02;
        const EXTENDED: u8 = 0x80;
        let header = self.take::<4>(at, CUT)?;
        if header[..3] != *b"MGC" {
            return Err(DropReason::MalformedLink);
        }
        let at =
            at + 4 + if header[3] & EXTENDED != 0 { 2 + usize::from(self.half(at + 4, CUT)?) } else { 0 };
        if header[3] & NO_LINK_LAYER != 0 {
            // The address family precedes the packet.
            return self.ip_by_version(at + 4, CUT);
        }
        self.take::<1>(at, CUT)?;
        // Link layer and cookie length depend on the interface card, so the first offset that fits
        // is used.
        let found = self.first_of([0, 2, 4, 6, 8].map(|cookie| at + cookie));
        if found != Err(DropReason::NotIp) {
            return found;
        }
        for at in [0, 2, 4, 6, 8].map(|cookie| at + cookie) {
            match self.bytes.get(at..) {
                Some([0xAA, 0xAA, 3, ..]) => return self.llc(at),
                Some([0x0F | 0x8F, 0, 0x08, 0x00, ..] | [0x0F | 0x8F, 0, 0x86, 0xDD, ..]) => {
                    return self.cisco_hdlc(at);
                }
                // A PPPoE session after its Ethertype.
                Some([0x88, 0x64, 0x11, ..]) => return self.pppoe(at + 2),
                Some([first, second, 3, 0xCC | 0x8E, ..]) if first & 1 == 0 && second & 1 == 1 => {
                    return self.frame_relay(at);
                }
                _ => {}
            }
        }
        Err(DropReason::NotIp)
    }

    /// Decodes a packet of `SunATM`: flags with the kind of traffic, the circuit, then a header by
    /// that kind.
    pub(super) fn sun_atm(self, at: usize) -> Decoded {
        match self.take::<4>(at, CUT)?[0] & 0xF {
            // LAN emulation: the sender's number, then an Ethernet frame.
            1 => self.ethernet(at + 6),
            2 => self.llc(at + 4),
            _ => Err(DropReason::NotIp),
        }
    }

    /// Decodes a packet from a serial line. Its header holds the direction and the compression.
    pub(super) fn serial_line(self, at: usize, header_bytes: usize) -> Decoded {
        match self.take::<1>(at, CUT)?[0] {
            0 | 1 => self.ip_by_version(at + header_bytes, CUT),
            _ => self.ip_by_version(at, CUT),
        }
    }

    /// Decodes PPP after a direction byte, which may replace the address byte.
    pub(super) fn ppp_with_direction(self, at: usize) -> Decoded {
        match self.take::<2>(at, CUT)? {
            [0 | 1, 0x03] => self.ppp(at + 2),
            _ => self.ppp(at + 1),
        }
    }

    /// Decodes IP over `InfiniBand`: an Ethertype and two reserved bytes, after the 40 bytes of
    /// addresses that some captures have.
    pub(super) fn ip_over_infiniband(self, at: usize) -> Decoded {
        let reserved = self.take::<4>(at, CUT)?;
        let is_plain = reserved[2..] == [0, 0]
            && match u16::from_be_bytes([reserved[0], reserved[1]]) {
                0x0800 => self.is_ip(at + 4) == Some(4),
                0x86DD => self.is_ip(at + 4) == Some(6),
                0x0806 => true,
                other => table::of_ether_type(other).is_some(),
            };
        let at = if is_plain { at } else { at + 40 };
        let ether_type = self.half(at, CUT)?;
        self.ether_type(ether_type, at + 4)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, ipv6, on, plain, ports, query, udp};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    fn read(link: u16, bytes: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(plain(LinkType(link), bytes))
    }

    fn erf(kind: u8, inner: &[u8]) -> Vec<u8> {
        on(&[0, 0, 0, 0, 0, 0, 0, 0, kind, 4, 0, 0, 0, 0, 0, 0], inner)
    }

    #[test]
    fn record_type_selects_the_content() {
        let frame = ethernet(0x0800, &query());
        let padded = on(&[0, 0], &frame);
        for kind in [2, 11, 16, 20] {
            assert_eq!(read(197, &erf(kind, &padded)), QUERY);
        }
        assert_eq!(read(197, &erf(0x82, &on(&[0, 0, 0, 0, 0, 0, 0, 1], &padded))), QUERY);
        assert_eq!(read(175, &erf(2, &padded)), QUERY);
        for kind in [1, 10] {
            assert_eq!(read(197, &erf(kind, &on(&[0x0F, 0, 8, 0], &query()))), QUERY);
            assert_eq!(read(176, &erf(kind, &on(&[0xFF, 3, 0, 0x21], &query()))), QUERY);
        }
        assert_eq!(read(197, &erf(4, &on(&[0, 0, 2, 0, 0xAA, 0xAA, 3, 0, 0, 0, 8, 0], &query()))), QUERY);
        assert_eq!(read(197, &erf(23, &ipv6(17, &udp(1000, 53, b"ask?")))), QUERY);
        assert_eq!(read(197, &erf(21, &padded)), Err(DropReason::NotIp), "InfiniBand");
        assert_eq!(read(197, &erf(0x82, &[0x80; 400])), Err(DropReason::Depth), "extensions without end");
        assert_eq!(read(197, &erf(0x82, &[0x80; 20])), Err(DropReason::TruncatedLink));
    }

    #[test]
    fn juniper_cookie_may_have_several_lengths() {
        let frame = ethernet(0x0800, &query());
        let ppp = on(&[0xFF, 3, 0, 0x21], &query());
        for cookie in [0, 2, 4, 8] {
            for inner in [&query(), &frame, &ppp, &on(&[0x0F, 0, 8, 0], &query())] {
                let bytes = on(&on(b"MGC\x01", &vec![0x77; cookie]), inner);
                assert_eq!(read(178, &bytes), QUERY, "{cookie}");
            }
        }
        let extended = on(b"MGC\x81\x00\x06\x01\x04\x01\x02\x03\x04", &frame);
        assert_eq!(read(178, &extended), QUERY);
        assert_eq!(read(178, &on(b"XYZ\x00", &frame)), Err(DropReason::MalformedLink));
        assert_eq!(read(178, b"MGC\x80\xFF\xFF"), Err(DropReason::TruncatedLink));
        assert_eq!(read(178, &on(b"MGC\x00", &[0xEE; 60])), Err(DropReason::NotIp));
    }

    #[test]
    fn directions_and_circuits_are_skipped() {
        assert_eq!(read(204, &on(&[0, 0xFF, 3, 0, 0x21], &query())), QUERY);
        assert_eq!(read(204, &on(&[1, 0x21], &query())), QUERY, "compressed fields");
        assert_eq!(read(166, &on(&[1, 3, 0, 0x21], &query())), QUERY);
        assert_eq!(read(204, &[1]), Err(DropReason::TruncatedLink));
        let frame = ethernet(0x0800, &query());
        assert_eq!(read(123, &on(&[0x01, 0, 0, 32, 0, 9], &frame)), QUERY, "LAN emulation");
        assert_eq!(read(123, &on(&[0x06, 0, 0, 5], &frame)), Err(DropReason::NotIp), "signalling");
        assert_eq!(read(8, &on(&[0; 16], &query())), QUERY);
        assert_eq!(read(242, &on(&[8, 0, 0, 0], &query())), QUERY);
        assert_eq!(read(242, &on(&[0x60; 40], &on(&[8, 0, 0, 0], &query()))), QUERY);
    }
}

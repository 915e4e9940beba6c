//! Tunnels over UDP that carry frames of access points, sniffers and brokers: TZSP, CAPWAP, AYIYA,
//! and generic UDP encapsulation.

use super::layers::{Decoded, Layers};
use super::table;
use crate::drop_reason::DropReason;
use crate::link::LinkType;

const CUT: DropReason = DropReason::TruncatedTunnel;
/// Maximum number of TZSP fields that are read. Ten kinds are defined.
const TAGS_MAX: usize = 32;

impl Layers<'_> {
    /// Skips a TZSP header and its tagged fields, which end with tag 1.
    pub(super) fn tzsp(self, at: usize) -> Decoded {
        let header = self.take::<4>(at, CUT)?;
        // Received packets and packets to send. Other types carry no packet.
        if header[0] != 1 || header[1] > 1 {
            return self.message();
        }
        let mut at = at + 4;
        for _ in 0..TAGS_MAX {
            match self.take::<1>(at, CUT)?[0] {
                0 => at += 1,
                1 => {
                    return match u16::from_be_bytes([header[2], header[3]]) {
                        1 => self.ethernet(at + 1),
                        18 => self.ieee80211(at + 1, 1),
                        119 | 127 => self.prism(at + 1),
                        _ => Err(DropReason::NotIp),
                    };
                }
                _ => at += 2 + usize::from(self.take::<2>(at, CUT)?[1]),
            }
        }
        Err(DropReason::MalformedTunnel)
    }

    /// Decodes the data channel of CAPWAP.
    pub(super) fn capwap(self, at: usize) -> Decoded {
        const NATIVE: u8 = 0x01;
        const LATER_FRAGMENT: u8 = 0x80;
        const KEEP_ALIVE: u8 = 0x08;
        let header = self.take::<8>(at, CUT)?;
        match header[0] {
            0x00 => {}
            0x01 => return Err(DropReason::Encrypted), // DTLS.
            _ => return Err(DropReason::MalformedTunnel),
        }
        let bytes = usize::from(header[1] >> 3) * 4;
        let fragment_offset = u16::from_be_bytes([header[6], header[7]]) >> 3;
        if bytes < 8 {
            return Err(DropReason::MalformedTunnel);
        }
        if header[3] & KEEP_ALIVE != 0 {
            return self.message();
        }
        if header[3] & LATER_FRAGMENT != 0 && fragment_offset != 0 {
            return Err(DropReason::NotIp);
        }
        if header[2] & NATIVE == 0 {
            return self.ethernet(at + bytes);
        }
        // Some access points send the two bytes of the frame control in reverse order.
        let [first, second] = *self.take::<2>(at + bytes, CUT)?;
        let is_data = |byte: u8| byte & 0x0F == 0x08;
        let control = if !is_data(first) && is_data(second) { [second, first] } else { [first, second] };
        self.ieee80211_with(control, at + bytes, 1)
    }

    /// Decodes "anything in anything". Its first two bytes contain the lengths of identity and
    /// signature.
    pub(super) fn ayiya(self, at: usize) -> Decoded {
        const FORWARD: u8 = 1;
        let header = self.take::<8>(at, CUT)?;
        let identity = 1 << usize::from(header[0] >> 4);
        let signature = usize::from(header[1] >> 4) * 4;
        if header[2] & 0xF != FORWARD {
            return self.message();
        }
        self.by_protocol(header[3], at + 8 + identity + signature)
    }

    /// Decodes generic UDP encapsulation: a header with an IP protocol number, or an IP packet
    /// without a header.
    pub(super) fn gue(self, at: usize) -> Decoded {
        const CONTROL: u8 = 0x20;
        let first = self.take::<1>(at, CUT)?[0];
        match first >> 6 {
            0 if first & CONTROL == 0 => {
                let header = self.take::<4>(at, CUT)?;
                self.by_protocol(header[1], at + 4 + usize::from(first & 0x1F) * 4)
            }
            0 => self.message(),
            1 => self.ip_by_version(at, CUT),
            _ => Err(DropReason::MalformedTunnel),
        }
    }

    /// Decodes the header that an IP protocol number announces, without an IP header before it.
    fn by_protocol(self, protocol: u8, at: usize) -> Decoded {
        match table::of_protocol(protocol) {
            Some(entry) => self.deeper()?.enter(entry, at),
            None => Err(DropReason::NotIp),
        }
    }

    /// Decodes a packet of Apple's packet tap, whose header holds its length and a link type.
    pub(super) fn pktap(self, at: usize) -> Decoded {
        const LENGTH_MAX: usize = 4096;
        let header = self.take::<12>(at, DropReason::TruncatedLink)?;
        let word = |at: usize, order: fn([u8; 4]) -> u32| {
            order([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        // The length is in the byte order of the capturing machine, and small.
        let order = if word(0, u32::from_le_bytes) <= word(0, u32::from_be_bytes) {
            u32::from_le_bytes
        } else {
            u32::from_be_bytes
        };
        let bytes = word(0, order) as usize;
        if !(12..=LENGTH_MAX).contains(&bytes) {
            return Err(DropReason::MalformedLink);
        }
        match (word(4, order), u16::try_from(word(8, order))) {
            (1, Ok(link)) => self.deeper()?.link(LinkType(link), at + bytes),
            _ => Err(DropReason::NotIp),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, ipv6, on, plain, ports, query, udp};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    fn read(port: u16, bytes: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(inner(LinkType::RAW, &ipv4(17, &udp(40_000, port, bytes))))
    }

    #[test]
    fn tagged_fields_are_skipped_to_their_end() {
        let frame = ethernet(0x0800, &query());
        let outer = Ok((40_000, 37_008));
        assert_eq!(read(37_008, &on(&[1, 0, 0, 1, 0, 0, 10, 1, 5, 11, 2, 6, 7, 1], &frame)), QUERY);
        assert_eq!(read(37_008, &on(&[1, 4, 0, 1, 1], &frame)), outer, "a keep-alive");
        assert_eq!(read(37_008, &on(&[2, 0, 0, 1, 1], &frame)), outer, "another version");
        assert_eq!(read(37_008, &on(&[1, 0, 0, 1], &[0; 200])), outer, "without end");
        assert_eq!(read(37_008, &[1, 0, 0, 1, 10, 250, 1]), outer, "a tag that leads out");
    }

    #[test]
    fn length_fields_of_capwap_and_ayiya_are_used() {
        let frame = ethernet(0x0800, &query());
        let outer = Ok((40_000, 5247));
        assert_eq!(read(5247, &on(&[0, 0x10, 2, 0, 0, 0, 0, 0], &frame)), QUERY);
        assert_eq!(read(5247, &on(&[0, 0x20, 2, 0x10, 0, 0, 0, 0, 6, 1, 2, 3, 4, 5, 6, 0], &frame)), QUERY);
        assert_eq!(read(5247, &on(&[0, 0x10, 2, 0x80, 0, 1, 0, 0], &frame)), QUERY, "a first fragment");
        assert_eq!(read(5247, &on(&[0, 0x10, 2, 0x80, 0, 1, 0, 8], &frame)), outer, "a later one");
        assert_eq!(read(5247, &on(&[0, 0x10, 2, 0x08, 0, 0, 0, 0], &frame)), outer, "a keep-alive");
        assert_eq!(read(5247, &on(&[1, 0, 0, 0, 23, 254, 253, 0], &frame)), outer, "DTLS");
        assert_eq!(read(5247, &on(&[0, 0x08, 2, 0, 0, 0, 0, 0], &frame)), outer, "too short for a header");
        let six = ipv6(17, &udp(1000, 53, b"ask?"));
        let header = on(&[0x04, 0x02, 0x11, 41, 0, 0, 0, 0], &[1]);
        assert_eq!(read(5072, &on(&header, &six)), QUERY, "an identity of one byte, no signature");
        assert_eq!(read(5072, &on(&[0xF4, 0x52, 0x11, 41, 0, 0, 0, 0], &six)), Ok((40_000, 5072)));
        assert_eq!(read(5072, &on(&[0x04, 0x02, 0x12, 41, 0, 0, 0, 0, 1], &six)), Ok((40_000, 5072)));
    }

    #[test]
    fn packettap_header_selects_the_link_type() {
        let tap = |length: [u8; 4], link: [u8; 4], kind: [u8; 4], inner: &[u8]| {
            let bytes = on(&[length, kind, link].concat(), &on(&[0; 8], inner));
            ports(plain(LinkType(258), &bytes))
        };
        let frame = ethernet(0x0800, &query());
        assert_eq!(tap([20, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], &frame), QUERY);
        assert_eq!(tap([0, 0, 0, 20], [0, 0, 0, 1], [0, 0, 0, 1], &frame), QUERY);
        assert_eq!(tap([20, 0, 0, 0], [12, 0, 0, 0], [1, 0, 0, 0], &query()), QUERY);
        assert_eq!(tap([20, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], &frame), Err(DropReason::NotIp));
        assert_eq!(tap([4, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0], &frame), Err(DropReason::MalformedLink));
        assert_eq!(tap([20, 0, 0, 0], [190, 0, 0, 0], [1, 0, 0, 0], &frame), Err(DropReason::Unsupported));
    }
}

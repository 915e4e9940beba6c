//! Whole Ethernet frames inside other headers (TRILL, batman-adv, `EtherIP`, pseudowires), and IP
//! in PIM and WCCP.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedLink;
const TUNNEL_CUT: DropReason = DropReason::TruncatedTunnel;

/// Packet types of batman-adv, version 15.
mod batman {
    pub(super) const VERSION: u8 = 15;
    pub(super) const BROADCAST: u8 = 0x01;
    pub(super) const UNICAST: u8 = 0x40;
    pub(super) const UNICAST_FOUR_ADDRESSES: u8 = 0x42;
}

impl Layers<'_> {
    /// Skips a TRILL header with its options. The host's frame follows.
    pub(super) fn trill(self, at: usize) -> Decoded {
        let header = self.take::<6>(at, CUT)?;
        if header[0] >> 6 != 0 {
            return Err(DropReason::MalformedLink);
        }
        let option_words = usize::from(header[0] & 7) << 2 | usize::from(header[1] >> 6);
        self.deeper()?.ethernet(at + 6 + option_words * 4)
    }

    /// Skips a header of a batman-adv mesh. The mesh's own messages and fragments of frames carry
    /// no frame.
    pub(super) fn batman(self, at: usize) -> Decoded {
        let [kind, version] = *self.take::<2>(at, CUT)?;
        let bytes = match (version, kind) {
            (batman::VERSION, batman::UNICAST) => 10,
            (batman::VERSION, batman::UNICAST_FOUR_ADDRESSES) => 18,
            (batman::VERSION, batman::BROADCAST) => 14,
            _ => return Err(DropReason::NotIp),
        };
        self.deeper()?.ethernet(at + bytes)
    }

    pub(super) fn ether_ip(self, at: usize) -> Decoded {
        match self.take::<2>(at, TUNNEL_CUT)?[0] >> 4 {
            3 => self.ethernet(at + 2),
            _ => Err(DropReason::MalformedTunnel),
        }
    }

    /// Decodes the packet in a PIM register message, unless the message is a null register.
    pub(super) fn pim_register(self, at: usize) -> Decoded {
        const NULL_REGISTER: u8 = 0x40;
        let header = self.take::<8>(at, TUNNEL_CUT)?;
        if header[0] != 0x21 || header[4] & NULL_REGISTER != 0 {
            return self.message();
        }
        self.ip_by_version(at + 8, TUNNEL_CUT)
    }

    /// Decodes a redirected packet: after four bytes in version 2 of WCCP, directly in version 1.
    pub(super) fn wccp(self, at: usize) -> Decoded {
        self.take::<4>(at, TUNNEL_CUT)?;
        match self.is_ip(at) {
            Some(_) => self.ip_by_version(at, TUNNEL_CUT),
            None => self.ip_by_version(at + 4, TUNNEL_CUT),
        }
    }

    /// Decodes an Ethernet frame under MPLS labels, after a control word if there is one.
    pub(super) fn pseudowire(self, at: usize) -> Decoded {
        let word = self.take::<4>(at, DropReason::TruncatedMpls)?;
        // A station's address may begin with four zero bits as a control word does: a valid frame
        // decides.
        if word[0] >> 4 != 0 || !self.is_ethernet(at + 4) && self.is_ethernet(at) {
            return if self.is_ethernet(at) { self.ethernet(at) } else { Err(DropReason::NotIp) };
        }
        self.ethernet(at + 4)
    }

    /// Decodes an Ethernet frame or an 802.11 frame, depending on the bytes.
    pub(super) fn ethernet_or_wireless(self, at: usize) -> Decoded {
        if self.is_ethernet(at) { self.ethernet(at) } else { self.ieee80211(at, 1) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, on, plain, ports, query};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn mesh_messages_are_not_frames() {
        let frame = ethernet(0x0800, &query());
        let read = |header: &[u8]| ports(plain(LinkType::ETHERNET, &ethernet(0x4305, &on(header, &frame))));
        assert_eq!(read(&[0x40, 15, 50, 1, 2, 0, 0, 0, 0, 1]), QUERY);
        assert_eq!(read(&[0x40, 14, 50, 1, 2, 0, 0, 0, 0, 1]), Err(DropReason::NotIp), "another version");
        assert_eq!(
            read(&[0x00, 15, 50, 1, 2, 0, 0, 0, 0, 1]),
            Err(DropReason::NotIp),
            "an originator's message"
        );
        assert_eq!(plain(LinkType::ETHERNET, &ethernet(0x4305, &[0x40])), Err(DropReason::TruncatedLink));
    }

    #[test]
    fn options_of_trill_are_skipped() {
        let read = |words: usize| {
            let [high, low] = u16::try_from(words << 6 | 9).unwrap().to_be_bytes();
            let header = on(&[high, low, 0, 1, 0, 2], &vec![7; words * 4]);
            let frame = on(&header, &ethernet(0x8100, &on(&[0, 5, 8, 0], &query())));
            ports(plain(LinkType::ETHERNET, &ethernet(0x22F3, &frame)))
        };
        for words in [0, 1, 3, 4, 31] {
            assert_eq!(read(words), QUERY, "{words} words");
        }
        let next = ethernet(0x22F3, &[0x40, 0, 0, 1, 0, 2]);
        assert_eq!(plain(LinkType::ETHERNET, &next), Err(DropReason::MalformedLink));
    }

    #[test]
    fn null_register_message_of_pim_is_not_followed() {
        let read = |header: &[u8]| ports(inner(LinkType::RAW, &ipv4(103, &on(header, &query()))));
        assert_eq!(read(&[0x21, 0, 0, 0, 0x80, 0, 0, 0]), QUERY, "a border bit");
        assert_eq!(read(&[0x21, 0, 0, 0, 0x40, 0, 0, 0]), Ok((0, 0)));
        assert_eq!(read(&[0x20, 0, 0, 0, 0, 0, 0, 0]), Ok((0, 0)), "a hello");
    }
}

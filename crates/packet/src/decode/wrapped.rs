//! Headers that the capturing tool puts before each packet: PPI, Prism and AVS, and packet filter
//! logs.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;
use crate::link::LinkType;

const CUT: DropReason = DropReason::TruncatedLink;
/// Longer headers are invalid: the longest known header has about three hundred bytes.
const HEADER_BYTES_MAX: usize = 4096;
/// The attribute of a netfilter log that holds the packet.
const NFLOG_PAYLOAD: u16 = 9;
/// Maximum number of netfilter log attributes that are read. The kernel writes about fifteen.
const NFLOG_ATTRIBUTES_MAX: usize = 32;
/// The end of OpenBSD's header of decrypted packets: address family, security association, flags.
const ENC_BYTES: usize = 12;

impl Layers<'_> {
    /// Skips a per-packet information header, which states the link type.
    pub(super) fn ppi(self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        let length = usize::from(u16::from_le_bytes([header[2], header[3]]));
        if header[0] != 0 || length < 8 {
            return Err(DropReason::MalformedLink);
        }
        let link = u16::try_from(u32::from_le_bytes([header[4], header[5], header[6], header[7]]));
        self.deeper()?.link(link.map_err(|_| DropReason::Unsupported).map(LinkType)?, at + length)
    }

    /// Skips a Prism header, or an AVS header, which its first number announces.
    pub(super) fn prism(self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        let field = [header[4], header[5], header[6], header[7]];
        let length = match header {
            [0x80, 0x21, 0x10, ..] => u32::from_be_bytes(field),
            // The number is in the byte order of the capturing machine.
            _ => u32::from_be_bytes(field).min(u32::from_le_bytes(field)),
        } as usize;
        if !(8..=HEADER_BYTES_MAX).contains(&length) {
            return Err(DropReason::MalformedLink);
        }
        self.ieee80211(at + length, 1)
    }

    /// Skips a header of BSD's packet filter log. Its first byte is its length without padding.
    pub(super) fn pflog(self, at: usize) -> Decoded {
        let length = usize::from(self.take::<1>(at, CUT)?[0]).next_multiple_of(4);
        if length < 48 {
            return Err(DropReason::MalformedLink);
        }
        self.ip_by_version(at + length, CUT)
    }

    /// Finds the packet among the attributes of a netfilter log.
    pub(super) fn nflog(self, at: usize) -> Decoded {
        let header = self.take::<4>(at, CUT)?;
        if header[1] != 0 {
            return Err(DropReason::MalformedLink);
        }
        let mut at = at + 4;
        for _ in 0..NFLOG_ATTRIBUTES_MAX {
            let attribute = *self.take::<4>(at, CUT)?;
            // The number is in the byte order of the capturing machine. Types are small, so the
            // position of the zero byte shows the order.
            let big_endian = attribute[2] == 0 && attribute[3] != 0;
            let word = |low: u8, high: u8| {
                if big_endian { u16::from_be_bytes([low, high]) } else { u16::from_le_bytes([low, high]) }
            };
            let (length, kind) = (word(attribute[0], attribute[1]), word(attribute[2], attribute[3]));
            if length < 4 {
                return Err(DropReason::MalformedLink);
            }
            if kind == NFLOG_PAYLOAD {
                return self.ip_by_version(at + 4, CUT);
            }
            at += usize::from(length).next_multiple_of(4);
        }
        Err(DropReason::MalformedLink)
    }

    /// Skips the header before a packet that enters or leaves encryption.
    pub(super) fn enc(self, at: usize) -> Decoded {
        self.take::<ENC_BYTES>(at, CUT)?;
        self.ip_by_version(at + ENC_BYTES, CUT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, on, plain, ports, query};
    use super::*;

    fn read(link: LinkType, bytes: &[u8]) -> Result<(u16, u16), DropReason> {
        ports(plain(link, bytes))
    }

    /// Returns a frame of 802.11 data with the query.
    fn wireless() -> Vec<u8> {
        let header = on(&[0x08, 0x02], &[0; 22]);
        on(&on(&header, &[0xAA, 0xAA, 3, 0, 0, 0, 8, 0]), &query())
    }

    #[test]
    fn per_packet_information_selects_the_link_type() {
        let header = |link: u8| on(&[0, 0, 20, 0, link, 0, 0, 0], &[7; 12]);
        assert_eq!(read(LinkType::PPI, &on(&header(105), &wireless())), QUERY);
        assert_eq!(read(LinkType::PPI, &on(&header(1), &ethernet(0x0800, &query()))), QUERY);
        assert_eq!(read(LinkType::PPI, &on(&header(147), &query())), Err(DropReason::Unsupported));
        assert_eq!(read(LinkType::PPI, &on(&[0, 0, 4, 0], &wireless())), Err(DropReason::MalformedLink));
        assert_eq!(read(LinkType::PPI, &header(105)[..7]), Err(CUT));
    }

    #[test]
    fn prism_and_avs_headers_are_skipped_by_their_length() {
        let prism = |length: [u8; 4]| on(&on(&[0x44, 0, 0, 0], &length), &[0; 136]);
        for link in [LinkType::IEEE802_11_PRISM, LinkType::IEEE802_11_AVS] {
            assert_eq!(read(link, &on(&prism([144, 0, 0, 0]), &wireless())), QUERY);
            assert_eq!(read(link, &on(&prism([0, 0, 0, 144]), &wireless())), QUERY);
            let avs = on(&[0x80, 0x21, 0x10, 1, 0, 0, 0, 64], &[0; 56]);
            assert_eq!(read(link, &on(&avs, &wireless())), QUERY);
            assert_eq!(read(link, &on(&prism([9, 9, 9, 9]), &wireless())), Err(DropReason::MalformedLink));
        }
    }

    #[test]
    fn pflog_header_is_followed_by_the_packet() {
        let pflog = on(&[61, 2, 1, 0], &[0; 60]);
        assert_eq!(read(LinkType::PFLOG, &on(&pflog, &query())), QUERY);
        assert_eq!(read(LinkType::PFLOG, &on(&[3], &query())), Err(DropReason::MalformedLink));
        assert_eq!(read(LinkType::ENC, &on(&[0; 12], &query())), QUERY);
        let little = [2, 0, 0, 5, 8, 0, 1, 0, 8, 0, 1, 0, 5, 0, 10, 0, 0x41, 0, 0, 0, 44, 0, 9, 0];
        assert_eq!(read(LinkType::NFLOG, &on(&little, &query())), QUERY);
        let big = [2, 0, 0, 5, 0, 8, 0, 1, 8, 0, 1, 0, 1, 44, 0, 9];
        assert_eq!(read(LinkType::NFLOG, &on(&big, &query())), QUERY);
        let endless = on(&[2, 0, 0, 5], &[4, 0, 1, 0].repeat(40));
        assert_eq!(read(LinkType::NFLOG, &endless), Err(DropReason::MalformedLink));
        assert_eq!(read(LinkType::NFLOG, &little[..14]), Err(CUT));
    }
}

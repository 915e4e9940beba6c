//! Headers that announce their payload by the protocol numbers of service chaining: NSH, VXLAN-GPE,
//! LISP.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const CUT: DropReason = DropReason::TruncatedTunnel;

impl Layers<'_> {
    /// Skips a network service header: a base header, a path header, and context headers whose
    /// length the base states.
    pub(super) fn service_header(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        let words = usize::from(header[1] & 0x3F);
        if header[0] >> 6 != 0 || words < 2 {
            return Err(DropReason::MalformedLink);
        }
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        self.deeper()?.service_next(header[3], at + words * 4)
    }

    /// Decodes the header that a service chaining number announces.
    fn service_next(self, next: u8, at: usize) -> Decoded {
        match next {
            1 => self.ipv4(at),
            2 => self.ipv6(at),
            3 => self.ethernet(at),
            4 => self.enter(super::table::of_ether_type(0x894F).ok_or(DropReason::NotIp)?, at),
            5 => self.mpls(at),
            _ => Err(DropReason::NotIp),
        }
    }

    /// Decodes VXLAN-GPE. Without its protocol field, an Ethernet frame follows.
    pub(super) fn vxlan_gpe(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        // The version must be 0, and at least one of the two fields must be present.
        if header[0] & 0x30 != 0 || header[0] & 0x0C == 0 {
            return Err(DropReason::MalformedTunnel);
        }
        self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        self.service_next(if header[0] & 0x04 != 0 { header[3] } else { 3 }, at + 8)
    }

    /// Decodes LISP data: an IP packet, or the header that a field announces if a flag is set.
    pub(super) fn lisp(mut self, at: usize) -> Decoded {
        let header = self.take::<8>(at, CUT)?;
        if header[0] & 0x08 != 0 {
            self.zone = self.zone.mixed(u32::from_be_bytes([0, header[4], header[5], header[6]]));
        }
        if header[0] & 0x04 != 0 {
            return self.service_next(header[3], at + 8);
        }
        self.ip_by_version(at + 8, CUT)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, ipv4, on, plain, ports, query, udp};
    use crate::drop_reason::DropReason;
    use crate::link::LinkType;

    #[test]
    fn service_path_forms_a_zone_and_its_length_is_used() {
        let frame = |header: &[u8]| ethernet(0x894F, &on(header, &query()));
        let read = |header: &[u8]| plain(LinkType::ETHERNET, &frame(header));
        let path = |last| [0x0F, 0xC2, 2, 1, 0, 0, last, 255];
        assert_eq!(ports(read(&path(1))), QUERY);
        assert_ne!(read(&path(1)).map(|one| one.key), read(&path(2)).map(|two| two.key));
        assert_eq!(read(&[0x0F, 0xC1, 2, 1, 0, 0, 1, 255]), Err(DropReason::MalformedLink));
        assert_eq!(read(&[0x4F, 0xC2, 2, 1, 0, 0, 1, 255]), Err(DropReason::MalformedLink));
        assert_eq!(read(&[0x0F, 0xC2, 2, 9, 0, 0, 1, 255]), Err(DropReason::NotIp));
    }

    #[test]
    fn flags_select_the_optional_fields() {
        let read = |port, header: &[u8], carried: &[u8]| {
            ports(inner(LinkType::RAW, &ipv4(17, &udp(40_000, port, &on(header, carried)))))
        };
        let frame = ethernet(0x0800, &query());
        assert_eq!(read(4790, &[8, 0, 0, 9, 0, 0, 7, 0], &frame), QUERY, "no field, so Ethernet");
        assert_eq!(read(4790, &[0x3C, 0, 0, 1, 0, 0, 7, 0], &query()), Ok((40_000, 4790)), "a version");
        assert_eq!(read(4341, &[0xC0, 1, 2, 3, 0, 0, 0, 1], &query()), QUERY, "a nonce");
        assert_eq!(read(4341, &[0x0C, 0, 0, 1, 0, 0, 7, 0], &query()), QUERY, "an instance, and a field");
    }
}

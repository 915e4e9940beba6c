//! VLAN tags, stacked to any depth.

use super::layers::{Decoded, Layers};
use crate::drop_reason::DropReason;

const TAG_BYTES: usize = 4;

impl Layers<'_> {
    /// Adds a VLAN with the ID in the lower bits of a tag's control information.
    pub(super) fn enter_vlan(&mut self, id: u16) {
        self.vlans = self.vlans.inside_vlan(id);
        if !self.options.ignore_vlan {
            self.zone = self.zone.inside_vlan(id);
        }
    }

    /// Decodes after a tag's type field: the tag's control information, then another type.
    pub(super) fn vlan(mut self, at: usize) -> Decoded {
        let tag = self.take::<TAG_BYTES>(at, DropReason::TruncatedVlan)?;
        self.enter_vlan(u16::from_be_bytes([tag[0], tag[1]]));
        let ether_type = u16::from_be_bytes([tag[2], tag[3]]);
        self.deeper()?.ether_type(ether_type, at + TAG_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{ethernet, ipv6, plain, query, tag, udp};
    use super::super::zone::{MIXED, Zone};
    use super::super::{DecodeOptions, decode, decode_layered};
    use super::*;
    use crate::link::LinkType;

    #[test]
    fn up_to_two_vlan_ids_are_kept_and_deeper_ones_hashed() {
        let one = Zone::default().inside_vlan(5);
        assert_eq!(one.value(), 5);
        let two = one.inside_vlan(7);
        assert_eq!(two.value(), 5 << 12 | 7);
        let three = two.inside_vlan(9);
        assert!(three.value() & MIXED != 0);
        assert_ne!(three, two.inside_vlan(8));
        assert_ne!(Zone::default().mixed(5), one);
    }

    #[test]
    fn priority_tag_is_not_a_vlan() {
        assert_eq!(Zone::default().inside_vlan(0xE000), Zone::default());
        assert_eq!(Zone::default().inside_vlan(0xE005).value(), 5);
    }

    #[test]
    fn ignored_tags_are_reported_but_not_in_the_key() {
        let options = DecodeOptions::new().with_ignore_vlan(true);
        let one = tag(5, 0x0800, &query());
        let (two, six) = (tag(7, 0x8100, &one), tag(9, 0x86DD, &ipv6(17, &udp(1, 2, b""))));
        let untagged = plain(LinkType::ETHERNET, &ethernet(0x0800, &query())).unwrap();
        for (frame, vlans) in [
            (ethernet(0x0800, &query()), 0),
            (ethernet(0x8100, &one), 5),
            (ethernet(0x88A8, &two), 7 << 12 | 5),
        ] {
            let headers = decode(LinkType::ETHERNET, &frame, options).unwrap();
            assert_eq!(decode_layered(LinkType::ETHERNET, &frame, options), Ok(headers));
            assert_eq!((headers.key, headers.vlans), (untagged.key, vlans));
            assert_eq!(plain(LinkType::ETHERNET, &frame).map(|headers| headers.vlans), Ok(vlans));
        }
        let six = decode(LinkType::ETHERNET, &ethernet(0x8100, &six), options).unwrap();
        assert_eq!((six.key.zone(), six.vlans), (0, 9));
    }

    #[test]
    fn vlan_tags_are_read_up_to_the_depth_limit() {
        let zone = |bytes: &[u8]| plain(LinkType::ETHERNET, bytes).map(|headers| headers.key.zone());
        let one = tag(5, 0x0800, &query());
        let two = tag(7, 0x8100, &one);
        let three = tag(9, 0x8100, &two);
        assert_eq!(zone(&ethernet(0x8100, &one)), Ok(5));
        assert_eq!(zone(&ethernet(0x88A8, &two)), Ok(7 << 12 | 5));
        assert!(zone(&ethernet(0x9100, &three)).unwrap() & MIXED != 0);
        assert_eq!(zone(&ethernet(0x8100, &tag(0xE000, 0x8100, &one))), Ok(5), "a priority tag");
        let mut deep = query();
        for level in 0..17 {
            deep = tag(1, if level == 0 { 0x0800 } else { 0x8100 }, &deep);
        }
        assert_eq!(zone(&ethernet(0x8100, &deep)), Err(DropReason::Depth));
        assert_eq!(zone(&ethernet(0x8100, &deep[4..])).map(|zone| zone & MIXED), Ok(MIXED));
        assert_eq!(zone(&ethernet(0x8100, &[0, 5, 8])), Err(DropReason::TruncatedVlan));
    }
}

//! A stack of MPLS labels. Only the first four bits after the stack indicate what follows.

use super::layers::{Decoded, Layers};
use super::table::PSEUDOWIRE;
use super::trace::Unknown;
use crate::drop_reason::DropReason;

const LABEL_BYTES: usize = 4;
const BOTTOM: u8 = 1;
/// Maximum number of labels that the decoder follows. They do not count as nested headers, because
/// skipping one costs almost nothing.
const LABELS_MAX: usize = 64;

impl Layers<'_> {
    pub(super) fn mpls(self, at: usize) -> Decoded {
        let layers = self.deeper()?;
        let stack_end = at + LABELS_MAX * LABEL_BYTES;
        let mut at = at;
        loop {
            if at == stack_end {
                return Err(DropReason::Depth);
            }
            let label = layers.take::<LABEL_BYTES>(at, DropReason::TruncatedMpls)?;
            at += LABEL_BYTES;
            if label[2] & BOTTOM != 0 {
                break;
            }
        }
        match layers.take::<1>(at, DropReason::TruncatedMpls)?[0] >> 4 {
            4 => layers.ipv4(at),
            6 => layers.ipv6(at),
            // A pseudowire carries Ethernet, and counts as a tunnel.
            _ if layers.options.decap => layers.deeper_by_tunnel()?.enter(PSEUDOWIRE, at),
            first => layers.not_ip(Unknown::UnderLabels(first)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::frames::{QUERY, ethernet, inner, on, plain, ports, query};
    use super::*;
    use crate::link::LinkType;

    fn stacked(labels: usize, under: &[u8]) -> Vec<u8> {
        let mut stack = [0, 1, 0, 64].repeat(labels);
        stack[labels * LABEL_BYTES - 2] |= BOTTOM;
        ethernet(0x8847, &on(&stack, under))
    }

    #[test]
    fn first_nibble_below_the_bottom_label_decides() {
        let read = |labels, under: &[u8]| ports(plain(LinkType::ETHERNET, &stacked(labels, under)));
        assert_eq!(read(1, &query()), QUERY);
        assert_eq!(read(LABELS_MAX, &query()), QUERY);
        assert_eq!(read(LABELS_MAX + 1, &query()), Err(DropReason::Depth));
        assert_eq!(read(1, &[0x70, 0, 0, 0]), Err(DropReason::NotIp));
        assert_eq!(read(2, &[]), Err(DropReason::TruncatedMpls));
        assert_eq!(
            ports(plain(LinkType::ETHERNET, &ethernet(0x8848, &[0, 1, 0, 64]))),
            Err(DropReason::TruncatedMpls)
        );
    }

    #[test]
    fn pseudowire_is_followed_like_a_tunnel() {
        let wire = stacked(1, &on(&[0; 4], &ethernet(0x0800, &query())));
        assert_eq!(plain(LinkType::ETHERNET, &wire), Err(DropReason::NotIp));
        assert_eq!(ports(inner(LinkType::ETHERNET, &wire)), QUERY);
    }
}

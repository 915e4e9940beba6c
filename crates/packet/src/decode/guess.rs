//! Guesses the header at an offset where no field announces it.

use super::ethernet::{IPV4, IPV6, LENGTH_MAX};
use super::layers::{Decoded, Layers};
use super::table;
use crate::drop_reason::DropReason;

/// Ethertypes without a table entry that are common in Ethernet frames.
const OTHER_USUAL: [u16; 4] = [0x0806, 0x8035, 0x88CC, 0x8863];

impl Layers<'_> {
    /// Returns the version of the IP packet that may begin at an offset.
    pub(super) fn is_ip(&self, at: usize) -> Option<u8> {
        let rest = self.bytes.get(at..)?;
        let &first = rest.first()?;
        match first >> 4 {
            4 => {
                let header = rest.first_chunk::<20>()?;
                let header_bytes = u16::from(first & 0xF) * 4;
                let total = u16::from_be_bytes([header[2], header[3]]);
                (header_bytes >= 20 && (total == 0 || total >= header_bytes)).then_some(4)
            }
            6 => {
                let header = rest.first_chunk::<40>()?;
                // The addresses of a packet are neither both unspecified nor equal.
                (header[8..24] != header[24..40]).then_some(6)
            }
            _ => None,
        }
    }

    /// Returns whether an Ethernet frame may begin at an offset: whether its type field matches the
    /// bytes after it.
    pub(super) fn is_ethernet(&self, at: usize) -> bool {
        let Ok(ether_type) = self.half(at + 12, DropReason::TruncatedLink) else { return false };
        match ether_type {
            IPV4 => self.is_ip(at + 14) == Some(4),
            IPV6 => self.is_ip(at + 14) == Some(6),
            0..=LENGTH_MAX => self.take::<3>(at + 14, DropReason::TruncatedLink).is_ok_and(|control| {
                matches!(control, [0xAA, 0xAA, 3] | [0x42, 0x42, 3] | [0xFE, 0xFE, 3])
            }),
            _ => table::of_ether_type(ether_type).is_some() || OTHER_USUAL.contains(&ether_type),
        }
    }

    /// Returns whether a PPP frame that carries IP may begin at an offset.
    pub(super) fn is_ppp(&self, at: usize) -> bool {
        let Some(rest) = self.bytes.get(at..) else { return false };
        match rest {
            [0xFF, 0x03, 0x00, 0x21 | 0x57, ..] => self.is_ip(at + 4).is_some(),
            [0xFF, 0x03, 0x21 | 0x57, ..] => self.is_ip(at + 3).is_some(),
            [0x00, 0x21 | 0x57, ..] => self.is_ip(at + 2).is_some(),
            [0x21 | 0x57, ..] => self.is_ip(at + 1).is_some(),
            _ => false,
        }
    }

    /// Decodes from the first of several offsets at which a well-known header may begin.
    pub(super) fn first_of(self, offsets: impl IntoIterator<Item = usize>) -> Decoded {
        for at in offsets {
            if self.is_ip(at).is_some() {
                return self.ip_by_version(at, DropReason::TruncatedTunnel);
            }
            if self.is_ppp(at) {
                return self.ppp(at);
            }
            if self.is_ethernet(at) {
                return self.ethernet(at);
            }
        }
        Err(DropReason::NotIp)
    }
}

#[cfg(test)]
mod tests {
    use super::super::DecodeOptions;
    use super::super::frames::{ethernet, ipv6, on, query, udp};
    use super::*;

    #[test]
    fn guesses_need_more_than_one_byte() {
        let at = |bytes: &[u8]| {
            let layers = Layers::new(bytes, DecodeOptions::new(), None);
            (layers.is_ip(0), layers.is_ppp(0), layers.is_ethernet(0))
        };
        assert_eq!(at(&query()), (Some(4), false, false));
        assert_eq!(at(&ipv6(17, &udp(1, 2, b""))), (Some(6), false, false));
        assert_eq!(at(&on(&[0xFF, 3, 0, 0x21], &query())), (None, true, false));
        assert_eq!(at(&ethernet(0x0800, &query())), (None, false, true));
        assert_eq!(at(&ethernet(0x0800, &[0x60; 60])), (None, false, false));
        assert_eq!(at(&[0x45; 10]), (None, false, false));
        assert_eq!(at(&[0x41; 40]), (None, false, false), "a header of four bytes");
        assert_eq!(at(&[]), (None, false, false));
    }
}

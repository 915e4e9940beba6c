//! Link layers that the capturing system made up: Linux "cooked" headers and the BSD loopback.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const SLL_BYTES: usize = 16;
const SLL2_BYTES: usize = 20;
/// Linux's protocol numbers for frames without an Ethernet type.
const LLC: u16 = 0x0004;
const NULL_BYTES: usize = 4;
const AF_INET: u32 = 2;
/// The number of IPv6 differs between systems: Linux, NetBSD and OpenBSD, FreeBSD, macOS.
const AF_INET6: [u32; 4] = [10, 24, 28, 30];

impl Layers<'_> {
    pub(super) fn linux_sll(self) -> Decoded {
        let header = self.take::<SLL_BYTES>(0, DropReason::TruncatedLink)?;
        self.cooked(u16::from_be_bytes([header[14], header[15]]), SLL_BYTES)
    }

    pub(super) fn linux_sll2(self) -> Decoded {
        let header = self.take::<SLL2_BYTES>(0, DropReason::TruncatedLink)?;
        self.cooked(u16::from_be_bytes([header[0], header[1]]), SLL2_BYTES)
    }

    fn cooked(self, protocol: u16, at: usize) -> Decoded {
        match protocol {
            LLC => self.llc(at),
            0..=0x05FF => Err(DropReason::NotIp),
            ether_type => self.ether_type(ether_type, at),
        }
    }

    pub(super) fn loopback(self) -> Decoded {
        let header = *self.take::<NULL_BYTES>(0, DropReason::TruncatedLink)?;
        // In the byte order of the capturing machine; OpenBSD's variant is always big-endian.
        let family = u32::from_le_bytes(header).min(u32::from_be_bytes(header));
        match family {
            AF_INET => self.ipv4(NULL_BYTES),
            _ if AF_INET6.contains(&family) => self.ipv6(NULL_BYTES),
            _ => Err(DropReason::NotIp),
        }
    }
}

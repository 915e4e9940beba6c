//! The point-to-point protocol: by itself, in HDLC framing, and over Ethernet.

use super::layers::{Decoded, Layers};
use crate::reason::DropReason;

const PPPOE_BYTES: usize = 6;

impl Layers<'_> {
    /// Decodes a session frame of PPP over Ethernet.
    pub(super) fn pppoe(self, at: usize) -> Decoded {
        let header = self.take::<PPPOE_BYTES>(at, DropReason::TruncatedPppoe)?;
        if header[0] != 0x11 {
            return Err(DropReason::MalformedPppoe);
        }
        if header[1] != 0 {
            return Err(DropReason::NotIp); // Discovery.
        }
        self.deeper()?.ppp(at + PPPOE_BYTES)
    }

    /// Decodes a frame with or without address and control bytes, with a protocol field of one or two bytes.
    pub(super) fn ppp(self, at: usize) -> Decoded {
        let cut = DropReason::TruncatedPppoe;
        let at = match self.take::<2>(at, cut)? {
            // Everybody, unnumbered; or Cisco's addresses, behind which an Ethernet type follows.
            [0xFF, 0x03] | [0x0F | 0x8F, 0x00] => at + 2,
            _ => at,
        };
        let first = self.take::<1>(at, cut)?[0];
        // The low byte of every protocol number is odd, the high one even: an odd first byte is a compressed field.
        let (protocol, at) =
            if first & 1 == 1 { (u16::from(first), at + 1) } else { (self.half(at, cut)?, at + 2) };
        match protocol {
            0x0021 | 0x0800 => self.ipv4(at),
            0x0057 | 0x86DD => self.ipv6(at),
            0x0281 | 0x0283 => self.mpls(at),
            0x0053 | 0x0055 => Err(DropReason::Encrypted),
            _ => Err(DropReason::NotIp),
        }
    }
}

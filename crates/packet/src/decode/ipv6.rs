//! IPv6 with its chain of extension headers.

use flowloom_flow_key::FlowKey;

use super::layers::{Decoded, Layers};
use super::transport::Network;
use crate::reason::DropReason;

const HEADER_BYTES: usize = 40;
/// Extension headers that are followed.
const EXTENSIONS_MAX: usize = 8;
const CUT: DropReason = DropReason::TruncatedIpv6;

const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT_HEADER: u8 = 59;

impl Layers<'_> {
    /// Decodes from an IPv6 header on.
    ///
    /// A payload length of 0 announces a jumbo payload, or is left by offloading: then the packet is as long as its
    /// record.
    pub(super) fn ipv6(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, CUT)?;
        if header[0] >> 4 != 6 {
            return Err(DropReason::MalformedIpv6);
        }
        let end = match usize::from(u16::from_be_bytes([header[4], header[5]])) {
            0 => self.bytes.len(),
            length => at + HEADER_BYTES + length,
        };
        let address = |from: usize| {
            let mut octets = [0; 16];
            octets.copy_from_slice(&header[from..from + 16]);
            u128::from_be_bytes(octets)
        };
        let (source, destination) = (address(8), address(24));
        let mut protocol = header[6];
        let mut next_at = at + HEADER_BYTES;
        let mut later_fragment = false;
        for followed in 0.. {
            let length = match protocol {
                // Mobility and host identity are messages, not wrappings, when nothing follows them.
                135 | 139 if self.take::<1>(next_at, CUT)?[0] == NO_NEXT_HEADER => break,
                // Hop by hop, routing, destination, mobility, host identity, shim.
                0 | 43 | 60 | 135 | 139 | 140 => {
                    let extension = self.take::<2>(next_at, CUT)?;
                    protocol = extension[0];
                    (usize::from(extension[1]) + 1) * 8
                }
                AUTHENTICATION => {
                    let extension = self.take::<2>(next_at, CUT)?;
                    protocol = extension[0];
                    (usize::from(extension[1]) + 2) * 4
                }
                FRAGMENT => {
                    let extension = self.take::<8>(next_at, CUT)?;
                    protocol = extension[0];
                    later_fragment = u16::from_be_bytes([extension[2], extension[3]]) & 0xFFF8 != 0;
                    8
                }
                _ => break,
            };
            if followed == EXTENSIONS_MAX {
                return Err(DropReason::Depth);
            }
            next_at += length;
            if later_fragment {
                break; // What follows is the middle of something.
            }
        }
        if next_at > self.bytes.len() {
            return Err(CUT);
        }
        let network =
            Network { at, transport_at: next_at, end, protocol, later_fragment, icmp_echo: [128, 129] };
        self.transport(network, |source_port, destination_port| {
            FlowKey::from_v6(source, destination, source_port, destination_port, protocol)
        })
    }
}

//! IPv4: the header validated, fragments told apart.

use flowloom_flow_key::FlowKey;

use super::layers::{Decoded, Layers};
use super::transport::Network;
use crate::reason::DropReason;

const HEADER_BYTES: usize = 20;
const OFFSET_MASK: u16 = 0x1FFF;

impl Layers<'_> {
    /// Decodes from an IPv4 header on.
    ///
    /// A total length of 0 is what offloading leaves in packets above 64 KiB: then the packet is as long as its
    /// record. The header checksum is not a reason to refuse: see [`checksum`](crate::checksum).
    pub(super) fn ipv4(self, at: usize) -> Decoded {
        let header = self.take::<HEADER_BYTES>(at, DropReason::TruncatedIpv4)?;
        let header_bytes = usize::from(header[0] & 0xF) * 4;
        if header[0] >> 4 != 4 || header_bytes < HEADER_BYTES {
            return Err(DropReason::MalformedIpv4);
        }
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let end = match total {
            0 => self.bytes.len(),
            _ if total < header_bytes => return Err(DropReason::MalformedIpv4),
            _ => at + total,
        };
        let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & OFFSET_MASK;
        let source = u32::from_be_bytes([header[12], header[13], header[14], header[15]]);
        let destination = u32::from_be_bytes([header[16], header[17], header[18], header[19]]);
        if at + header_bytes > self.bytes.len() {
            return Err(DropReason::TruncatedIpv4);
        }
        let network = Network {
            at,
            transport_at: at + header_bytes,
            end,
            protocol: header[9],
            later_fragment: fragment_offset != 0,
            icmp_echo: [8, 0],
        };
        self.transport(network, |source_port, destination_port| {
            FlowKey::from_v4(source, destination, source_port, destination_port, header[9])
        })
    }
}

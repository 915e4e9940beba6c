//! A decoded packet: where its headers begin, and its flow's key.

use flowloom_flow_key::{Direction, FiveTuple, FlowKey};

/// What the decoder found. Offsets count from the first captured byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The flow: canonical five-tuple and zone. The pass is the engine's to set.
    pub key: FlowKey,
    /// Which way the packet goes.
    pub direction: Direction,
    /// TCP flags (FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128); 0 where there is no TCP header, or
    /// where it is cut before its flags.
    pub tcp_flags: u8,
    /// The packet is a fragment other than the first: the key has no ports.
    pub later_fragment: bool,
    /// Offset of the IP header that gave the key.
    pub network_offset: u32,
    /// Offset of the transport header (after options and extension headers).
    pub transport_offset: u32,
    /// Offset of the transport payload. Clamped to what was captured.
    pub payload_offset: u32,
    /// Bytes of transport payload that the IP length promises, whether captured or not; padding is not payload.
    pub payload_bytes: u32,
}

impl Headers {
    /// Returns the five-tuple as on the wire.
    pub fn tuple(&self) -> FiveTuple {
        self.key.tuple(self.direction)
    }
}

/// A decoded packet with its bytes.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// The captured bytes, from the link layer on.
    pub bytes: &'a [u8],
    /// What the decoder found in them.
    pub headers: Headers,
    /// Nanoseconds since 1970, never going backwards within a run.
    pub time_ns: u64,
    /// Bytes the packet had on the wire.
    pub wire_bytes: u32,
}

impl<'a> PacketView<'a> {
    /// Returns the captured part of the transport payload, without link-layer padding.
    pub fn payload(&self) -> &'a [u8] {
        let start = (self.headers.payload_offset as usize).min(self.bytes.len());
        let end = start.saturating_add(self.headers.payload_bytes as usize).min(self.bytes.len());
        &self.bytes[start..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DecodeOptions, LinkType, decode};

    #[test]
    fn the_payload_ends_where_the_ip_packet_or_the_record_ends() {
        let mut bytes = vec![0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        bytes.extend([3, 0xE8, 0, 53, 0, 12, 0, 0]);
        bytes.extend(b"ask?padding");
        let payload = |bytes: &[u8]| {
            let headers = decode(LinkType::RAW, bytes, DecodeOptions::default()).unwrap();
            PacketView { bytes, headers, time_ns: 0, wire_bytes: 32 }.payload().to_vec()
        };
        assert_eq!(payload(&bytes), b"ask?");
        assert_eq!(payload(&bytes[..30]), b"as");
        assert_eq!(payload(&bytes[..28]), b"");
        assert_eq!(payload(&bytes[..24]), b"", "behind the ports all may be cut");
    }
}

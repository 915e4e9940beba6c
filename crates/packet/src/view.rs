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

//! Random packets between a few hosts, so that connections begin, end and repeat.

use proptest::prelude::*;

use crate::support::Memory;

/// Payloads: the first bytes of several protocols, and data of no protocol.
const PAYLOADS: [&[u8]; 9] = [
    b"",
    b"",
    b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n",
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03",
    b"neither of them",
    b"HTTP/1.1 400 Bad Request\r\n\r\n",
    b"\x03\0\0\x13\x0e\xe0\0\0\0\0\0\x01\0\x08\0\x03\0\0\0",
    b"\x03\0\0\x13\x0e\xd0\0\0\x12\x34\0\x02\x09\x08\0\x02\0\0\0",
];

/// One packet between a few hosts.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    host: u8,
    port: u8,
    from_low: bool,
    protocol: u8,
    flags: u8,
    payload: usize,
    sequence: u32,
    gap_ms: u64,
    back_ms: u64,
}

impl Sent {
    fn frame(&self) -> Vec<u8> {
        let payload = PAYLOADS[self.payload];
        let transport = if self.protocol == 6 { 20 } else { 8 };
        let ip_bytes = u16::try_from(20 + transport + payload.len()).unwrap();
        let mut frame = vec![0_u8; 14 + 20 + transport];
        frame[12] = 8;
        frame[14] = 0x45;
        frame[16..18].copy_from_slice(&ip_bytes.to_be_bytes());
        (frame[22], frame[23]) = (64, self.protocol);
        let (low, high) = ([10, 0, 0, self.host], [192, 168, 0, 1]);
        let (low_port, high_port) = ((4000 + u16::from(self.port)).to_be_bytes(), 80_u16.to_be_bytes());
        let (from, to) = if self.from_low { (low, high) } else { (high, low) };
        let (from_port, to_port) =
            if self.from_low { (low_port, high_port) } else { (high_port, low_port) };
        frame[26..30].copy_from_slice(&from);
        frame[30..34].copy_from_slice(&to);
        frame[34..36].copy_from_slice(&from_port);
        frame[36..38].copy_from_slice(&to_port);
        if self.protocol == 6 {
            frame[38..42].copy_from_slice(&self.sequence.to_be_bytes());
            frame[46] = 0x50;
            frame[47] = self.flags;
        } else {
            frame[38..40].copy_from_slice(&(ip_bytes - 20).to_be_bytes());
        }
        frame.extend_from_slice(payload);
        frame
    }
}

pub(crate) fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![
        6 => Just(16_u8), 2 => Just(2), 2 => Just(18), 2 => Just(17), 1 => Just(4),
        1 => Just(0), 1 => Just(1), 1 => Just(19), 1 => Just(3), 1 => any::<u8>(),
    ];
    let protocol = prop_oneof![5 => Just(6_u8), 1 => Just(17)];
    let gap = prop_oneof![6 => 0..20_u64, 1 => 0..3_000_u64];
    let back = prop_oneof![12 => Just(0_u64), 1 => 0..500_u64];
    ((0..2_u8, 0..2_u8, any::<bool>(), protocol), (flags, 0..PAYLOADS.len(), 0..60_u32, gap, back))
        .prop_map(|((host, port, from_low, protocol), (flags, payload, sequence, gap_ms, back_ms))| Sent {
            host,
            port,
            from_low,
            protocol,
            flags,
            payload,
            sequence,
            gap_ms,
            back_ms,
        })
}

pub(crate) fn memory(packets: &[Sent]) -> Memory {
    let mut now_ms = 1_000_000;
    let frames = packets.iter().map(|packet| {
        now_ms += packet.gap_ms;
        ((now_ms - packet.back_ms) * 1_000_000, packet.frame())
    });
    Memory::of_frames(frames, usize::MAX)
}

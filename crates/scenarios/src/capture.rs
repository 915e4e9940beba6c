//! Capture files with times in nanoseconds.

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The time stamp, in nanoseconds since 1970.
    pub stamp_ns: u64,
    /// The bytes of the frame, before a snap length cuts them.
    pub bytes: Vec<u8>,
}

/// Returns a classic pcap file.
pub(crate) fn pcap(packets: &[Packet], snap_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    words(&mut out, &[0xA1B2_3C4D, 4 << 16 | 2, 0, 0, snap_bytes as u32, 1]);
    for packet in packets {
        let kept = &packet.bytes[..packet.bytes.len().min(snap_bytes)];
        let (seconds, rest) = (packet.stamp_ns / 1_000_000_000, packet.stamp_ns % 1_000_000_000);
        words(&mut out, &[seconds as u32, rest as u32, kept.len() as u32, packet.bytes.len() as u32]);
        out.extend(kept);
    }
    out
}

/// Returns a pcapng file.
pub(crate) fn pcapng(packets: &[Packet], snap_bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    words(&mut out, &[0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]);
    // Option 9 is the resolution of time stamps: 10^-9.
    words(&mut out, &[1, 32, 1, snap_bytes as u32, 1 << 16 | 9, 9, 0, 32]);
    for packet in packets {
        let mut kept = packet.bytes[..packet.bytes.len().min(snap_bytes)].to_vec();
        let (kept_bytes, wire_bytes) = (kept.len() as u32, packet.bytes.len() as u32);
        kept.resize(kept.len().next_multiple_of(4), 0);
        let length = 32 + kept.len() as u32;
        let (high, low) = ((packet.stamp_ns >> 32) as u32, packet.stamp_ns as u32);
        words(&mut out, &[6, length, 0, high, low, kept_bytes, wire_bytes]);
        out.extend(kept);
        words(&mut out, &[length]);
    }
    out
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
}

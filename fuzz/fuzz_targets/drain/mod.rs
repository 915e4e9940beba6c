//! Checks that all capture targets share.

use std::io::{self, Cursor, Read};
use std::path::Path;

use flowloom_packet::{BATCH_PACKETS, Fill, PacketBatch};
use flowloom_traffic::capture::{Capture, CaptureError, CaptureOptions, Notice, UnpackLimits};

/// Returns a few bytes at a time, and every other time nothing, like a slow pipe.
struct Trickle {
    bytes: Cursor<Vec<u8>>,
    step: usize,
    /// Number of reads that waited for their bytes; the header is read without a pause.
    waited: usize,
    is_silent: bool,
}

impl Read for Trickle {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.is_silent = !self.is_silent && self.waited == 0;
        if self.is_silent {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.waited = self.waited.saturating_sub(1);
        let length = buffer.len().min(self.step);
        self.bytes.read(&mut buffer[..length])
    }
}

/// The results of a reader: packets, a sum over their bytes and times, and properties of the input.
type Found = (u64, u64, Option<Notice>);

/// Reads a capture to its end and checks the guarantees of readers, in one piece and in many.
pub fn drain(bytes: Vec<u8>) {
    // A record has at least sixteen bytes, so there cannot be more packets than bytes, including
    // unpacked ones.
    let limits = UnpackLimits { bytes_max: 4 << 20, ratio_max: Some(100), ratio_after_bytes: 1 << 20 };
    let packets_max = bytes.len() as u64 + limits.bytes_max;
    let options = CaptureOptions { map: false, limits, ..CaptureOptions::default() };
    let step = 1 + bytes.first().map_or(0, |&byte| usize::from(byte));
    let waited = 2 + (64 + bytes.len() / 2) / step;
    let trickle = Trickle { bytes: Cursor::new(bytes.clone()), step, waited, is_silent: true };
    // In a damaged compressed file, the packets before the damage depend on the pieces.
    let is_plain =
        !matches!(bytes[..], [0x1F, 0x8B, ..] | [_, 0xB5, 0x2F, 0xFD, ..] | [_, 0x2A, 0x4D, 0x18, ..]);
    let path = Path::new("fuzz");
    let whole = Capture::read_from(path, Cursor::new(bytes), options).map(|c| read(c, packets_max));
    let pieces = Capture::read_from(path, trickle, options).map(|c| read(c, packets_max));
    match (whole, pieces) {
        // The header is longer than the limit of waiting.
        (_, Err(CaptureError::Io { .. })) => {}
        (Ok(whole), Ok(pieces)) if is_plain => assert_eq!(whole, pieces, "in one piece, and in many"),
        (Ok(_), Err(error)) | (Err(error), Ok(_)) if is_plain => {
            panic!("a capture in one way only: {error}")
        }
        _ => {}
    }
}

/// Reads to the end; `None` if a limit is exceeded.
fn read(mut capture: Capture, packets_max: u64) -> Option<Found> {
    let mut batch = PacketBatch::new();
    let (mut packets, mut sum, mut starved) = (0, 0_u64, 0);
    let is_whole = loop {
        match capture.next_batch(&mut batch) {
            Ok(Fill::Packets) => starved = 0,
            Ok(Fill::Starved) => {
                starved += 1;
                assert!(starved < 1 << 24, "no more data arrives");
                continue;
            }
            Ok(Fill::End) => break true,
            Err(_) => break false,
        }
        assert!(!batch.packets.is_empty() && batch.packets.len() <= BATCH_PACKETS);
        let block = batch.block.as_ref().expect("a batch with packets has a block");
        for packet in &batch.packets {
            let end = packet.position + u64::from(packet.captured_bytes);
            assert!(end <= block.bytes().len() as u64, "a packet lies in its block");
            for &byte in packet.bytes_in(block.bytes()) {
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(byte));
            }
            sum = sum.wrapping_add(packet.time_ns);
        }
        packets += batch.packets.len() as u64;
        assert!(packets <= packets_max, "more packets than bytes");
    };
    assert_eq!(capture.packets(), packets);
    assert!(matches!(capture.next_batch(&mut batch), Ok(Fill::End)), "an end is permanent");
    assert!(batch.packets.is_empty() && batch.block.is_none());
    is_whole.then(|| (packets, sum, capture.notice().cloned()))
}

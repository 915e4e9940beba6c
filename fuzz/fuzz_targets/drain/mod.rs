//! What every capture target holds a reader to.

use std::io::Cursor;
use std::path::Path;

use flowloom_packet::{BATCH_PACKETS, Fill, PacketBatch};
use flowloom_traffic::capture::{Capture, CaptureOptions, UnpackLimits};

/// Reads a capture to its end and holds it to what readers rely on.
pub fn drain(bytes: Vec<u8>) {
    // A record has sixteen bytes at least: there cannot be more packets than bytes, unpacked ones counted.
    let limits = UnpackLimits { bytes_max: 4 << 20, ratio_max: 100, ratio_after_bytes: 1 << 20 };
    let packets_max = bytes.len() as u64 + limits.bytes_max;
    let options = CaptureOptions { map: false, limits };
    let Ok(mut capture) = Capture::read_from(Path::new("fuzz"), Cursor::new(bytes), options) else {
        return;
    };
    let mut batch = PacketBatch::new();
    let mut packets = 0;
    loop {
        match capture.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => panic!("nobody holds a block"),
            Ok(Fill::End) | Err(_) => break,
        }
        assert!(!batch.packets.is_empty() && batch.packets.len() <= BATCH_PACKETS);
        let block = batch.block.as_ref().expect("a batch with packets has a block");
        for packet in &batch.packets {
            let end = packet.position + u64::from(packet.captured_bytes);
            assert!(end <= block.bytes().len() as u64, "a packet lies in its block");
        }
        packets += batch.packets.len() as u64;
        assert!(packets <= packets_max, "more packets than bytes");
    }
    assert_eq!(capture.packets(), packets);
    assert!(matches!(capture.next_batch(&mut batch), Ok(Fill::End)), "an end stays one");
    assert!(batch.packets.is_empty() && batch.block.is_none());
}

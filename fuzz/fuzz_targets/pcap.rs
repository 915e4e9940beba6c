//! Any bytes as a classic capture: read to an end, within their blocks, whatever the records claim.
//!
//! The first byte chooses the variant whose header is put before the rest, so that most inputs get as far as
//! the records; a few go in as they are.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use flowloom_packet::{BATCH_PACKETS, Fill, PacketBatch};
use flowloom_traffic::capture::{Capture, CaptureOptions, UnpackLimits};
use libfuzzer_sys::fuzz_target;

/// Magic numbers: microseconds, nanoseconds, and the modified variant with eight more bytes a record.
const MAGICS: [u32; 3] = [0xA1B2_C3D4, 0xA1B2_3C4D, 0xA1B2_CD34];

/// Returns the file header that a choice stands for; one choice in four has none.
fn header(choice: u8) -> Vec<u8> {
    let Some(&magic) = MAGICS.get(usize::from(choice % 4)) else { return Vec::new() };
    let word = |value: u32| if choice & 4 == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    let half = |value: u16| if choice & 4 == 0 { value.to_le_bytes() } else { value.to_be_bytes() };
    let link = u32::from(choice >> 3);
    [&word(magic)[..], &half(2), &half(4), &word(0), &word(0), &word(65_535), &word(link)].concat()
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    let mut bytes = header(choice);
    bytes.extend(rest);
    drain(bytes);
});

/// Reads a capture to its end and holds it to what readers rely on.
fn drain(bytes: Vec<u8>) {
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
            let end = packet.position + u64::from(packet.captured);
            assert!(end <= block.bytes().len() as u64, "a packet lies in its block");
        }
        packets += batch.packets.len() as u64;
        assert!(packets <= packets_max, "more packets than bytes");
    }
    assert_eq!(capture.packets(), packets);
    assert!(matches!(capture.next_batch(&mut batch), Ok(Fill::End)), "an end stays one");
    assert!(batch.packets.is_empty() && batch.block.is_none());
}

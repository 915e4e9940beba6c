//! Compressed captures: ratios that are not a decompression bomb, and formats other than gzip and
//! zstd.

use std::io::{Cursor, Write as _};
use std::path::Path;

use flowloom_traffic::capture::{Capture, CaptureOptions, CaptureSet, Input, SetOptions, UnpackLimits};

use crate::{drain, gzip, pcap};

#[test]
fn repeated_packet_is_not_a_decompression_bomb() {
    let mut file = pcap(1);
    let record = file[24..].to_vec();
    while file.len() < 48 << 20 {
        file.extend_from_slice(&record);
    }
    let packed = gzip(&file);
    assert!(file.len() / packed.len() > 250, "{} to {}", file.len(), packed.len());
    // The size after which a ratio applies is far below that of the file.
    let limits = UnpackLimits { ratio_after_bytes: 1 << 20, ..UnpackLimits::default() };
    let options = CaptureOptions { limits, ..CaptureOptions::default() };
    let mut capture = Capture::read_from(Path::new("many.pcap.gz"), Cursor::new(packed), options).unwrap();
    assert_eq!(drain(&mut capture).unwrap().len(), (file.len() - 24) / record.len());
}

/// Returns bytes packed with xz, and with lz4.
fn packed_otherwise(bytes: &[u8]) -> [(&'static str, Vec<u8>); 2] {
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(1)).unwrap();
    xz.write_all(bytes).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::with_frame_info(
        lz4_flex::frame::FrameInfo::new().block_checksums(true).content_checksum(true),
        Vec::new(),
    );
    lz4.write_all(bytes).unwrap();
    [("xz", xz.finish().unwrap()), ("lz4", lz4.finish().unwrap())]
}

#[test]
fn xz_and_lz4_are_unpacked() {
    let file = pcap(5000);
    let halves = file.split_at(file.len() / 2);
    let joined = [packed_otherwise(halves.0), packed_otherwise(halves.1)];
    for (at, (name, packed)) in packed_otherwise(&file).into_iter().enumerate() {
        let read = |bytes: Vec<u8>| {
            Capture::read_from(Path::new("packed"), Cursor::new(bytes), CaptureOptions::default())
        };
        let mut capture = read(packed.clone()).unwrap();
        assert_eq!(drain(&mut capture).unwrap().len(), 5000, "{name}");
        assert!(capture.notice().is_none(), "{name}: {:?}", capture.notice());
        let parts = [&joined[0][at].1[..], &joined[1][at].1].concat();
        assert_eq!(drain(&mut read(parts).unwrap()).unwrap().len(), 5000, "{name} of two streams");
        // A file that is truncated in its first block yields nothing.
        match read(packed[..packed.len() / 2].to_vec()) {
            Ok(mut cut) => {
                let found = drain(&mut cut).unwrap().len();
                assert!(found < 5000 && cut.notice().is_some(), "{name}: {found}, {:?}", cut.notice());
            }
            Err(error) => assert!(error.to_string().contains("does not decompress"), "{name}: {error}"),
        }
        for place in [packed.len() / 3, packed.len() * 2 / 3] {
            let mut damaged = packed.clone();
            damaged[place] ^= 0x55;
            // The error may come at once or later, but the file never yields other packets.
            if let Ok(mut capture) = read(damaged)
                && let Ok(packets) = drain(&mut capture)
            {
                assert!(packets.len() < 5000 || capture.notice().is_some(), "{name}");
            }
        }
    }
}

#[test]
fn separate_thread_reads_pipes_and_decompresses() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain.pcap");
    std::fs::write(&plain, pcap(3)).unwrap();
    let packed = folder.path().join("named-as-plain.pcap");
    std::fs::write(&packed, gzip(&pcap(3))).unwrap();
    for (paths, expected) in [(vec![&plain], false), (vec![&packed], true), (vec![&plain, &packed], true)] {
        let inputs: Vec<Input> = paths.iter().map(|path| Input::Path((*path).clone())).collect();
        let set = CaptureSet::open(&inputs, SetOptions::default()).unwrap();
        assert_eq!(set.is_read_apart(), expected, "{paths:?}");
    }
}

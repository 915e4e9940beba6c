//! Streams in pieces of any size: records across pieces, silence between pieces, and blocks that
//! remain in use.

use std::collections::VecDeque;
use std::io;

use super::*;

/// Returns pieces of the listed sizes repeatedly, with silence before those of odd size.
struct Pieces {
    bytes: Cursor<Vec<u8>>,
    sizes: Vec<usize>,
    next: usize,
    was_silent: bool,
}

impl Pieces {
    fn new(bytes: Vec<u8>, sizes: Vec<usize>) -> Self {
        Self { bytes: Cursor::new(bytes), sizes, next: 0, was_silent: true }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes[self.next % self.sizes.len()];
        // The reader waits for the header.
        if size % 2 == 1 && !self.was_silent && self.bytes.position() > 64 {
            self.was_silent = true;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.was_silent = false;
        self.next += 1;
        let count = buffer.len().min(size.max(1));
        self.bytes.read(&mut buffer[..count])
    }
}

/// A capture of records of these sizes.
fn capture(next_generation: bool, sizes: &[u32]) -> Vec<u8> {
    let mut file = if next_generation {
        [section(false), interface(1, &[], false)].concat()
    } else {
        pcap_header(0xA1B2_C3D4, 1, false)
    };
    for (i, &size) in (0_u32..).zip(sizes) {
        let data: Vec<u8> = (0..size).map(|byte| (byte ^ i ^ byte >> 8) as u8).collect();
        if next_generation {
            file.extend(enhanced(0, u64::from(i), &data, size, size, false));
        } else {
            file.extend(pcap_record(i, 1, &data, size, false));
        }
    }
    file
}

/// Reads a capture as an engine does whose workers hold the last `held` blocks. Returns the
/// packets, and how often the stream was starved.
fn drain_holding(capture: &mut Capture, held: usize) -> (Vec<Seen>, u64) {
    let mut batch = PacketBatch::new();
    let mut blocks: VecDeque<SharedBlock> = VecDeque::new();
    let (mut seen, mut starved) = (Vec::new(), 0);
    loop {
        match capture.next_batch(&mut batch).unwrap() {
            Fill::Packets => {
                let block = batch.block.as_ref().unwrap();
                seen.extend(batch.packets.iter().map(|raw| Seen {
                    bytes: raw.bytes_in(block.bytes()).to_vec(),
                    wire: raw.wire_bytes,
                    time_ns: raw.time_ns,
                    link: raw.link.0,
                }));
                blocks.push_back(Arc::clone(block));
                if blocks.len() > held {
                    blocks.pop_front();
                }
            }
            Fill::Starved => {
                starved += 1;
                assert!(batch.packets.is_empty() && batch.block.is_none());
                blocks.pop_front();
            }
            Fill::End => return (seen, starved),
        }
    }
}

fn size() -> impl Strategy<Value = u32> {
    // Usual packets, packets as long as the free space before a piece, and packets longer than a
    // piece.
    prop_oneof![20 => 0_u32..1500, 3 => 65_000_u32..66_500, 1 => 200_000_u32..600_000]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 30 } else { 300 }))]

    #[test]
    fn pieces_of_any_size_give_the_same_packets_whatever_is_held(
        next_generation in any::<bool>(),
        sizes in prop::collection::vec(size(), 1..300),
        pieces in prop::collection::vec(prop_oneof![1_usize..100, 1000_usize..400_000], 1..20),
        held in 0_usize..40,
        cut in 0_usize..2000,
    ) {
        let mut file = capture(next_generation, &sizes);
        let header = capture(next_generation, &[]).len();
        file.truncate(file.len().saturating_sub(cut).max(header));
        let directory = tempfile::tempdir().unwrap();
        let path = write_file(directory.path(), "test", &file);
        let (mapped, notice, _) = read_all(Capture::open(&path, CaptureOptions::default())).unwrap();
        let check = |capture: Result<Capture, CaptureError>, way: &str| {
            let mut capture = capture.unwrap();
            let (seen, _) = drain_holding(&mut capture, held);
            assert!(seen == mapped, "{way}: other packets");
            assert_eq!(capture.notice(), notice.as_ref(), "{way}");
        };
        let pipe = Pieces::new(file.clone(), pieces);
        check(Capture::read_from(&path, pipe, CaptureOptions::default()), "pipe");
        let options = CaptureOptions { map: false, ..CaptureOptions::default() };
        check(Capture::open(&path, options), "thread");
        std::fs::write(&path, zstd::encode_all(&file[..], 1).unwrap()).unwrap();
        check(Capture::open(&path, CaptureOptions::default()), "zstd");
    }
}

#[test]
fn a_stream_whose_blocks_are_all_held_starves_and_goes_on_when_they_are_released() {
    let file = capture(false, &vec![1000; 12_000]);
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "test", &file);
    for map in [true, false] {
        let options = CaptureOptions { map, ..CaptureOptions::default() };
        let mut capture = Capture::open(&path, options).unwrap();
        let (seen, starved) = drain_holding(&mut capture, usize::MAX);
        assert_eq!(seen.len(), 12_000);
        assert_eq!(starved > 0, !map, "a mapping has one block only");
    }
    // Long records have their own blocks, and there are fewer of these.
    let file = capture(false, &[3_000_000; 12]);
    let pipe = Pieces::new(file, vec![100_000]);
    let mut capture = Capture::read_from(&path, pipe, CaptureOptions::default()).unwrap();
    let (seen, starved) = drain_holding(&mut capture, usize::MAX);
    assert_eq!(seen.len(), 12);
    assert!(starved > 0);
}

#[test]
fn limits_are_kept_and_typed_whichever_thread_unpacks() {
    let file = capture(false, &vec![1000; 12_000]);
    let directory = tempfile::tempdir().unwrap();
    for (name, packed) in [("gzip", gzip(&file)), ("zstd", zstd::encode_all(&file[..], 1).unwrap())] {
        let path = write_file(directory.path(), name, &packed);
        for limits in [
            UnpackLimits { bytes_max: 4 << 20, ..UnpackLimits::default() },
            UnpackLimits { ratio_max: Some(3), ratio_after_bytes: 4 << 20, ..UnpackLimits::default() },
        ] {
            let options = CaptureOptions { limits, ..CaptureOptions::default() };
            let captures = [
                Capture::open(&path, options).unwrap(),
                Capture::read_from(&path, Cursor::new(packed.clone()), options).unwrap(),
            ];
            for mut capture in captures {
                let error = drain(&mut capture).map(|seen| seen.len()).unwrap_err();
                let CaptureError::UnpackLimit { unpacked_bytes, .. } = error else { panic!("{error}") };
                assert!((4 << 20..5 << 20).contains(&unpacked_bytes), "{name}: {unpacked_bytes}");
                // The packets before the limit were used.
                assert!(capture.packets() > 3000, "{name}: {}", capture.packets());
            }
        }
    }
}

#[test]
fn damage_is_found_behind_the_packets_before_it_whichever_thread_unpacks() {
    let file = capture(false, &vec![1000; 3000]);
    let directory = tempfile::tempdir().unwrap();
    let mut bad_gzip = gzip(&file);
    let middle = bad_gzip.len() / 2;
    bad_gzip[middle..middle + 20].fill(0xFF);
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let half = file.len() / 2;
    for (name, packed, packets) in [
        ("cut gzip", gzip(&file)[..gzip(&file).len() - 9].to_vec(), Some(3000)),
        ("damaged gzip", bad_gzip, None),
        ("cut zstd", zstd(&file)[..zstd(&file).len() - 3].to_vec(), None),
        ("garbage behind a frame", [&zstd(&file)[..], b"garbage"].concat(), Some(3000)),
        ("two frames", [zstd(&file[..half]), zstd(&file[half..])].concat(), Some(3000)),
        ("two members", [gzip(&file[..half]), gzip(&file[half..])].concat(), Some(3000)),
    ] {
        let path = write_file(directory.path(), name, &packed);
        let by_thread = read_all(Capture::open(&path, CaptureOptions::default())).unwrap();
        let inline = read_all(Capture::read_from(&path, Cursor::new(packed), CaptureOptions::default()));
        assert!(by_thread == inline.unwrap(), "{name}");
        let (seen, notice, _) = by_thread;
        assert_eq!(seen.len(), packets.unwrap_or(seen.len()), "{name}");
        assert_eq!(
            matches!(notice, Some(Notice::DamagedStream { .. })),
            !name.starts_with("two"),
            "{name}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_capture_that_is_dropped_early_ends_its_thread() {
    // Names are truncated to fifteen bytes. Other tests have such threads too; those of this
    // capture end, so that the number falls to its earlier value.
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let names =
            tasks.filter_map(|task| std::fs::read_to_string(task.unwrap().path().join("comm")).ok());
        names.filter(|name| name.starts_with("capture-")).count()
    };
    let file = capture(false, &vec![1000; 60_000]);
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes, map) in [
        ("mapped", file.clone(), true),
        ("read", file.clone(), false),
        ("zstd", zstd::encode_all(&file[..], 1).unwrap(), true),
    ] {
        let path = write_file(directory.path(), name, &bytes);
        let options = CaptureOptions { map, ..CaptureOptions::default() };
        let mut captures: Vec<Capture> = (0..20).map(|_| Capture::open(&path, options).unwrap()).collect();
        let mut batch = PacketBatch::new();
        for batches in [1, 100] {
            for capture in &mut captures {
                for _ in 0..batches {
                    assert_eq!(capture.next_batch(&mut batch).unwrap(), Fill::Packets);
                }
            }
            if batches == 1 {
                assert!(threads() < 20, "{name}: the first packets were looked at, {} threads", threads());
            }
        }
        // A thread has its name from its first run on.
        let begun = std::time::Instant::now();
        while threads() < 20 {
            assert!(begun.elapsed().as_secs() < 60, "{name}: {} threads", threads());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(captures);
        assert!(threads() < 20, "{name}: {}", threads());
    }
}

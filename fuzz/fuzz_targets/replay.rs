//! Arbitrary bytes as a capture through the whole engine: read, joined, decoded, looked up,
//! tracked, reported.
//!
//! Every packet is accounted for, nothing panics, and two workers find the same flows as one
//! thread. The first byte selects the options of the run, the second the header that precedes the
//! rest.
#![no_main]

use std::io::Cursor;
use std::path::Path;

use flowloom_apps::TcpTracker;
use flowloom_engine::{Control, Cores, EngineConfig, Fault, Layout, run};
use flowloom_flow_key::FlowHasher;
use flowloom_flow_table::{LineHash, TableOptions};
use flowloom_packet::{
    BATCH_PACKETS, DecodeOptions, DropCounts, Fill, PacketBatch, PacketSource, SourceError,
};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::capture::{Capture, CaptureOptions, UnpackLimits};
use flowloom_traffic::defrag::{Defrag, DefragLimits};
use libfuzzer_sys::fuzz_target;

/// A capture in memory, as a source; it counts the packets that it yields.
struct InMemory {
    capture: Capture,
}

impl PacketSource for InMemory {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.capture.next_batch(batch).map_err(|error| SourceError(Box::new(error)));
        assert!(batch.packets.len() <= BATCH_PACKETS);
        fill
    }

    fn withheld(&mut self) -> DropCounts {
        DropCounts::default()
    }
}

/// Returns the header of a classic capture with a link type, or nothing for raw input.
fn header(choice: u8) -> Vec<u8> {
    let links = [1_u32, 101, 113, 0, 9, 105, 127, 276];
    let Some(link) = links.get(usize::from(choice % 16)) else { return Vec::new() };
    let words = [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, *link];
    words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect()
}

/// Runs the engine. Returns the number of packets and the digest of the flows; `None` if the input
/// is not a capture.
fn outcome(bytes: &[u8], options: u8, mode: Layout) -> Option<(u64, String)> {
    let limits = UnpackLimits { bytes_max: 4 << 20, ratio_max: Some(100), ratio_after_bytes: 1 << 20 };
    let reading = CaptureOptions { map: false, limits, ..CaptureOptions::default() };
    let capture = Capture::read_from(Path::new("fuzz"), Cursor::new(bytes.to_vec()), reading).ok()?;
    let source = InMemory { capture };
    let mut config = EngineConfig::new(mode);
    config.cores = Cores::Unpinned;
    config.hasher = FlowHasher::with_seed(1);
    config.ring_slots = 64;
    config.decode = DecodeOptions::new().with_decap(options & 1 != 0);
    let limits = DefragLimits { datagrams_max: 4, bytes_max: 256 << 10, ..DefragLimits::default() };
    let mut source: Box<dyn PacketSource + Send> = if options & 2 != 0 {
        Box::new(Defrag::new(source, config.decode, limits))
    } else {
        Box::new(source)
    };
    let mut placement = DirectHash::new(WorkerCount::new(mode.workers()).expect("one or two"));
    let table = |_| LineHash::try_new(&TableOptions::for_flows(4096));
    let report = run(&config, &mut *source, &mut placement, table, |_| TcpTracker, &Control::default())
        .expect("nothing of the input keeps a run from starting");
    assert!(report.is_balanced(), "{report:?}");
    assert!(!report.interrupted);
    assert!(matches!(report.fault, None | Some(Fault::Source { .. })), "{:?}", report.fault);
    Some((report.input.packets, report.digest()))
}

fuzz_target!(|input: &[u8]| {
    let Some((&[options, choice], rest)) = input.split_first_chunk() else { return };
    let mut bytes = header(choice);
    bytes.extend_from_slice(rest);
    let inline = outcome(&bytes, options, Layout::Inline);
    // Threads are expensive, so only one input in sixteen runs a second time.
    if options & 0xF0 == 0x10 {
        assert_eq!(outcome(&bytes, options, Layout::Pipeline { workers: 2 }), inline);
    }
});

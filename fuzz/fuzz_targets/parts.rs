//! Arbitrary bytes as a capture in parts: independent of the assumptions about where records begin,
//! the parts find the same packets as one reader.
//!
//! The first byte is the number of parts, and the second selects the prefix of the rest: nothing,
//! the header of a classic capture, or a section with an interface. It also selects whether the
//! rest is repeated, which creates chains of records.
#![no_main]

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use flowloom_packet::{Fill, LinkType, PacketBatch, PacketSource};
use flowloom_traffic::capture::{
    CaptureParts, CaptureSet, FileSummary, Input, Notice, PartRead, PlanError, SetOptions,
};
use libfuzzer_sys::fuzz_target;

/// A packet: its bytes, its length on the wire, its time, its link type.
type Seen = (Vec<u8>, u32, u64, LinkType);

/// Packets, notices, files, and errors.
type Found = (Vec<Seen>, Vec<Notice>, Vec<FileSummary>, Option<String>);

/// Returns the file to which inputs are written, because parts must be in mapped files.
fn file() -> &'static Path {
    static FILE: OnceLock<PathBuf> = OnceLock::new();
    FILE.get_or_init(|| std::env::temp_dir().join(format!("flowloom-fuzz-parts-{}", std::process::id())))
}

fn drain(source: &mut impl PacketSource) -> (Vec<Seen>, Option<String>) {
    let (mut batch, mut seen) = (PacketBatch::new(), Vec::new());
    loop {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => panic!("nothing keeps a block"),
            Ok(Fill::End) => return (seen, None),
            Err(error) => return (seen, Some(error.to_string())),
        }
        let block = batch.block.as_ref().expect("a batch with packets has a block");
        seen.extend(batch.packets.iter().map(|packet| {
            let bytes = packet.bytes_in(block.bytes()).to_vec();
            (bytes, packet.wire_bytes, packet.time_ns, packet.link)
        }));
    }
}

fn whole(input: &Input) -> Option<Found> {
    let mut set = CaptureSet::open(std::slice::from_ref(input), SetOptions::default()).ok()?;
    let (seen, error) = drain(&mut set);
    Some((seen, set.notices().to_vec(), set.files(), error))
}

fn in_parts(input: &Input, parts: usize) -> Option<Found> {
    let plan = match CaptureParts::plan(std::slice::from_ref(input), SetOptions::default(), parts) {
        Ok(plan) => plan,
        Err(PlanError::NotCuttable(_)) => {
            CaptureParts::plan(std::slice::from_ref(input), SetOptions::default(), 1).ok()?
        }
        Err(_) => return None,
    };
    let read = |part: usize, begin: Option<_>| -> (Vec<Seen>, PartRead) {
        let opened = match begin {
            Some(begin) => plan.open_at(part, begin),
            None => plan.open(part),
        };
        let mut opened = opened.expect("the file is still there");
        let (seen, error) = drain(&mut opened);
        assert_eq!(error, None);
        (seen, opened.finish())
    };
    let (mut seen, mut reads): (Vec<_>, Vec<_>) = (0..plan.len()).map(|part| read(part, None)).unzip();
    for round in 0.. {
        let again = plan.unconfirmed(&reads);
        if again.is_empty() {
            break;
        }
        assert!(round < plan.len(), "each round confirms a part");
        for (part, begin) in again {
            (seen[part], reads[part]) = read(part, Some(begin));
        }
    }
    let summary = plan.summary(&reads);
    let error = summary.check_decodable().err().map(|error| error.to_string());
    Some((seen.concat(), summary.notices, summary.files, error))
}

fn word(value: u32) -> [u8; 4] {
    value.to_le_bytes()
}

fuzz_target!(|input: &[u8]| {
    let Some((&[parts, choice], rest)) = input.split_first_chunk() else { return };
    let mut bytes: Vec<u8> = match choice % 4 {
        0 => Vec::new(),
        1 => [0xA1B2_C3D4, 0x0004_0002, 0, 0, 65_535, 1].iter().flat_map(|value| word(*value)).collect(),
        _ => {
            let section = [0x0A0D_0D0A, 28, 0x1A2B_3C4D, 1, u32::MAX, u32::MAX, 28]
                .iter()
                .flat_map(|value| word(*value));
            let interface = [1, 20, 1, 0, 20].iter().flat_map(|value| word(*value));
            section.chain(interface).collect()
        }
    };
    bytes.extend(rest.repeat(1 + usize::from(choice >> 4)));
    std::fs::write(file(), &bytes).expect("a temporary file can be written");
    let input = Input::Path(file().to_path_buf());
    assert_eq!(in_parts(&input, 1 + usize::from(parts % 16)), whole(&input));
});

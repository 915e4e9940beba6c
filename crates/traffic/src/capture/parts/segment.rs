//! Segments of a mapped capture, which several threads read at the same time.
//!
//! ```text
//!  file      |  read by next_batch  |  segment 0  |  segment 1  |  segment 2 ...
//!                                   ^             ^             ^
//!                                   known         assumed: where a record seems to begin
//! ```
//!
//! Neither format marks the beginning of a record, so a segment ends where a record *seems* to
//! begin and reads every record that begins before. When it is taken back, its real end is compared
//! with the assumption. Only the time depends on the assumptions, never the result: a segment that
//! began at a wrong place does not count, and reading goes on from the real end.

use std::any::Any;
use std::path::PathBuf;

use flowloom_packet::{Fill, PacketBatch, PacketSource, Segment, SourceError};

use crate::capture::boundary::{Budget, FileHead};
use crate::capture::error::CaptureError;
use crate::capture::map::Mapping;
use crate::capture::open::{Capture, WalkPosition};
#[cfg(target_os = "linux")]
use crate::capture::read_ahead::ReadAhead;
use crate::capture::summary::FileRead;

/// Wrong assumptions after which a file is read in order. Each costs the work of a few segments.
const WRONG_MAX: u32 = 8;

/// A part of a mapped capture between two places.
pub(crate) struct CaptureSegment {
    begin: WalkPosition,
    capture: Capture,
}

impl CaptureSegment {
    /// Returns how many packets were read.
    pub(crate) fn packets(&self) -> u64 {
        self.capture.packets()
    }

    /// Returns the offset up to which the file was read.
    pub(crate) fn taken_bytes(&self) -> u64 {
        self.capture.taken_bytes()
    }
}

impl PacketSource for CaptureSegment {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        PacketSource::next_batch(&mut self.capture, batch)
    }
}

impl Segment for CaptureSegment {
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

/// A mapped capture that is read in segments.
#[derive(Debug)]
pub(crate) struct Splitter {
    path: PathBuf,
    mapping: Mapping,
    /// The end of the last segment that was right.
    known: WalkPosition,
    /// The summary of the records up to there.
    read: FileRead,
    /// Where the next segment begins, if the assumptions are right.
    next: WalkPosition,
    budget: Budget,
    wrong: u32,
    /// Segments that were split off and not taken back.
    open: usize,
    #[cfg(target_os = "linux")]
    read_ahead: Option<ReadAhead>,
}

/// What taking a segment back has shown.
pub(crate) enum Rejoined {
    /// Its packets are the next ones.
    Right,
    /// Its packets are the next ones, and the last of the file.
    Last(Box<FileRead>),
    Wrong,
}

impl Splitter {
    /// Continues a mapped capture, unless it is read in order for another reason.
    pub(crate) fn new(capture: &Capture) -> Option<Self> {
        let (mapping, known) = capture.mapped_place()?;
        let read = FileRead::new(capture);
        #[cfg(target_os = "linux")]
        let from = usize::try_from(known.offset).unwrap_or(usize::MAX);
        Some(Self {
            path: capture.path().to_path_buf(),
            mapping: mapping.clone(),
            next: known.clone(),
            known,
            read,
            budget: Budget::default(),
            wrong: 0,
            open: 0,
            // If no thread starts, the kernel reads ahead as it does by itself.
            #[cfg(target_os = "linux")]
            read_ahead: ReadAhead::start(mapping.clone(), from..mapping.block().bytes().len().max(from))
                .ok(),
        })
    }

    /// Splits off the records that begin in the next `bytes` bytes.
    pub(crate) fn split(&mut self, bytes: u64) -> Option<CaptureSegment> {
        if self.wrong >= WRONG_MAX {
            return None;
        }
        let all = self.mapping.block().bytes();
        let from = usize::try_from(self.next.offset.checked_add(bytes)?).ok()?;
        let head = FileHead::at(&self.next);
        let end = head.record_soon_from(all, from, &mut self.budget)?;
        let begin = self.next.clone();
        let mapping = self.mapping.with_own_block();
        let capture = Capture::segment(&self.path, mapping, Some(begin.clone()), Some(end as u64)).ok()?;
        self.next = WalkPosition { offset: end as u64, state: head.state_at(all, end) };
        #[cfg(target_os = "linux")]
        if let Some(read_ahead) = &self.read_ahead {
            read_ahead.walked_to(end);
        }
        self.open += 1;
        Some(CaptureSegment { begin, capture })
    }

    /// Takes a segment back.
    pub(crate) fn rejoin(&mut self, segment: &CaptureSegment) -> Rejoined {
        let CaptureSegment { begin, capture } = segment;
        let effects = capture.effects();
        let is_right =
            begin.offset == self.known.offset && begin.state.stands_for(&self.known.state, effects);
        if !is_right {
            self.wrong += 1;
            self.next = self.known.clone();
            self.open = 0;
            return Rejoined::Wrong;
        }
        self.open -= 1;
        self.read.append(FileRead::new(capture));
        let Some(WalkPosition { offset, state }) = capture.left_off() else {
            return Rejoined::Last(Box::new(self.read.clone()));
        };
        let state = state.clone().rebased(&begin.state, &self.known.state, effects);
        self.known = WalkPosition { offset: *offset, state };
        Rejoined::Right
    }

    /// Returns the summary of the records read so far.
    pub(crate) fn read(&self) -> &FileRead {
        &self.read
    }

    /// Returns the offset up to which the file was read.
    pub(crate) fn offset(&self) -> u64 {
        self.known.offset
    }

    /// Returns a reader of the rest of the file.
    pub(crate) fn rest(&self) -> Result<Capture, CaptureError> {
        Capture::segment(&self.path, self.mapping.clone(), Some(self.known.clone()), None)
    }
}

#[cfg(test)]
mod tests {
    use flowloom_packet::RawPacket;

    use crate::capture::{CaptureSet, Input, SetOptions};
    use crate::write::{Interface, PcapOptions, PcapWriter, PcapngWriter};

    use super::*;

    fn read(source: &mut (impl PacketSource + ?Sized), packets: &mut Vec<RawPacket>) -> Fill {
        let mut batch = PacketBatch::new();
        loop {
            match source.next_batch(&mut batch).unwrap() {
                Fill::Packets => packets.extend_from_slice(&batch.packets),
                other => return other,
            }
        }
    }

    /// Reads a capture in segments of `bytes`, up to three at a time, of which the first is read
    /// last. Returns its packets, and how many segments were right and wrong.
    fn in_segments(set: &mut CaptureSet, bytes: u64) -> (Vec<RawPacket>, [usize; 2]) {
        let (mut packets, mut counts) = (Vec::new(), [0; 2]);
        let mut batch = PacketBatch::new();
        loop {
            let mut open: Vec<_> = std::iter::from_fn(|| set.split(bytes)).take(3).collect();
            if open.is_empty() {
                match set.next_batch(&mut batch).unwrap() {
                    Fill::Packets => packets.extend_from_slice(&batch.packets),
                    _ => return (packets, counts),
                }
            }
            let reads: Vec<_> = open
                .iter_mut()
                .rev()
                .map(|segment| {
                    let mut packets = Vec::new();
                    read(segment, &mut packets);
                    packets
                })
                .collect();
            for (segment, read) in open.into_iter().zip(reads.into_iter().rev()) {
                if !set.rejoin(segment) {
                    counts[1] += 1;
                    break;
                }
                counts[0] += 1;
                packets.extend(read);
            }
        }
    }

    fn captures(packet: impl Fn(u64) -> Vec<u8>) -> [Vec<u8>; 2] {
        let interface = Interface::default();
        let mut pcap = PcapWriter::new(Vec::new(), PcapOptions::default()).unwrap();
        let mut pcapng = PcapngWriter::new(Vec::new(), vec![interface]).unwrap();
        for i in 0..2000 {
            let bytes = packet(i);
            pcap.write(i * 1000, 3000, &bytes).unwrap();
            pcapng.write(0, i * 1000, 3000, &bytes).unwrap();
        }
        [pcap.finish().unwrap(), pcapng.finish().unwrap()]
    }

    /// Compares reading in segments with reading in order. Returns the numbers of right and wrong
    /// segments.
    fn check(bytes: &[u8], segment_bytes: u64) -> [usize; 2] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap");
        std::fs::write(&path, bytes).unwrap();
        let open = || CaptureSet::open(&[Input::Path(path.clone())], SetOptions::default()).unwrap();
        let (mut one, mut split) = (open(), open());
        let mut expected = Vec::new();
        read(&mut one, &mut expected);
        let (packets, counts) = in_segments(&mut split, segment_bytes);
        assert_eq!(packets, expected);
        assert_eq!(split.files(), one.files());
        assert_eq!(split.notices(), one.notices());
        assert_eq!(split.packets(), one.packets());
        assert_eq!(split.progress().done_bytes(), one.progress().done_bytes());
        counts
    }

    #[test]
    fn segments_have_the_packets_and_the_summary_of_one_reader() {
        for bytes in captures(|i| (0..40 + i % 700).map(|byte| (byte * i).to_le_bytes()[0]).collect()) {
            for segment_bytes in [1, 1000, 50_000] {
                let [right, wrong] = check(&bytes, segment_bytes);
                // A payload may look like a few records.
                assert!(right > 3 && wrong < WRONG_MAX as usize, "{segment_bytes}: {right} {wrong}");
            }
            // The last record is cut, a record has an impossible length, and there is a joint.
            check(&bytes[..bytes.len() - 7], 50_000);
            let mut damaged = bytes.clone();
            let middle = damaged.len() / 2;
            damaged[middle..middle + 4000].fill(0xFF);
            check(&damaged, 20_000);
            check(&[&bytes[..], &bytes].concat(), 20_000);
        }
    }

    #[test]
    fn a_range_of_a_capture_is_read_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.pcap");
        std::fs::write(&path, &captures(|_| vec![7; 60])[0]).unwrap();
        let ranges = [Some(24..24 + 76 * 500)];
        let open = CaptureSet::open_ranges(&[Input::Path(path)], &ranges, SetOptions::default());
        let mut set = open.unwrap();
        let (packets, segments) = in_segments(&mut set, 1000);
        assert_eq!((packets.len(), segments), (500, [0, 0]));
    }

    #[test]
    fn a_capture_of_captures_is_read_in_order_after_some_wrong_assumptions() {
        let inner = captures(|_| vec![7; 60])[0][24..1200].to_vec();
        for bytes in captures(|_| inner.clone()) {
            let [_, wrong] = check(&bytes, 5000);
            assert!(wrong <= WRONG_MAX as usize, "{wrong}");
        }
    }
}

//! Merges captures that overlap in time into one source in the order of time stamps.
//!
//! ```text
//!  a.pcap   1  2     5  6  7                     1 2 3 4 are copied into one block
//!  b.pcap         3                   30 31      5 6 7 … and 30 31 … are passed on
//!  c.pcap            4
//! ```
//!
//! The next packet is the one with the least time among the next packets of all files. Of equal
//! times, the file that was named first comes first. A file keeps its own order: if its time goes
//! back, the packet comes at once.
//!
//! A batch holds packets of one block. A batch contains packets of one block. If files alternate,
//! packets are copied into blocks of the merge.
//!
//! A file is opened when the time of its first packet is reached, and closed at its end. Captures
//! that do not overlap are read one after another, in the order of time. The time of a pipe's first
//! packet cannot be read in advance. A pipe is therefore opened at the beginning, and the merge
//! yields nothing until the pipe's first packet has arrived, and whenever the pipe is silent later.
//!
//! # Memory
//!
//! The first [`MAPPED_FILES`] simultaneously open files are read like single files. Each additional
//! file takes no file descriptor and no thread, but at most two buffers of 128 KiB. A compressed
//! file also takes the memory of its decompressor: 0.1 MiB for gzip, and for zstd the window of the
//! file, which is 2 MiB at the default level of `zstd` and 8 MiB at level 19. 1024 overlapping
//! files of 1 KiB records were measured to take 90 MiB uncompressed and 230 MiB in gzip. A record
//! that is longer than a buffer takes additional memory of its own length while it is read, at most
//! [`RECORD_BYTES_MAX`](crate::capture::RECORD_BYTES_MAX).
//!
//! More than [`OPEN_FILES_MAX`] overlapping files, or more than [`OPEN_PACKED_MAX`] overlapping
//! compressed files, are an error.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use flowloom_packet::{BATCH_PACKETS, Fill, PacketBatch, RawPacket};

use crate::capture::copies::{Copied, Copies};
use crate::capture::error::CaptureError;
use crate::capture::members::{Member, Opened, Opener};
use crate::capture::open::Capture;
use crate::capture::opening::Opening;
use crate::capture::set_progress::SetProgress;
use crate::capture::stream::Reading;
use crate::capture::summary::{FileRead, FileSummary, SummaryBuilder};

/// Minimum number of consecutive packets of one file that are passed on without a copy.
const RUN_PACKETS: usize = 8;
/// Maximum number of files that are mapped, or read by a thread, at the same time. Additional files
/// are read with little memory.
const MAPPED_FILES: usize = 8;
/// Maximum number of files that may be open at the same time.
const OPEN_FILES_MAX: usize = 4096;
/// Maximum number of compressed files that may be open at the same time.
const OPEN_PACKED_MAX: usize = 1024;

/// The key that orders files: the time of the next packet, then their index in the set.
type Key = (u64, usize);

/// The context of a merge.
#[derive(Debug)]
pub(crate) struct Context<'a> {
    pub(crate) members: &'a mut [Member],
    pub(crate) opener: &'a Opener,
    pub(crate) summary: &'a mut SummaryBuilder,
    pub(crate) progress: &'a SetProgress,
}

/// An open file with its next packets.
#[derive(Debug)]
struct OpenFile {
    capture: Capture,
    batch: PacketBatch,
    /// Packets of the batch that the merge has taken.
    taken: usize,
    taken_bytes: u64,
    /// Its index in the order of first times.
    rank: usize,
    /// Whether it is compressed.
    is_packed: bool,
    /// Whether its packets and those of another file overlap in time.
    overlaps: bool,
}

impl OpenFile {
    fn new(capture: Capture, rank: usize) -> Self {
        let is_packed = capture.is_packed();
        Self {
            capture,
            batch: PacketBatch::new(),
            taken: 0,
            taken_bytes: 0,
            rank,
            is_packed,
            overlaps: false,
        }
    }

    /// Returns the next packets.
    fn rest(&self) -> &[RawPacket] {
        &self.batch.packets[self.taken..]
    }

    /// Moves the next `run` packets to `batch`, which is empty, without a copy.
    fn pass_on(&mut self, run: usize, batch: &mut PacketBatch) {
        let is_all = run == self.rest().len();
        if is_all {
            batch.ahead = self.batch.ahead.clone();
        }
        if is_all && self.taken == 0 {
            std::mem::swap(&mut batch.packets, &mut self.batch.packets);
            batch.block = self.batch.block.take();
        } else {
            batch.packets.extend_from_slice(&self.rest()[..run]);
            batch.block.clone_from(&self.batch.block);
            self.taken += run;
        }
    }
}

/// Merges the files of a set.
#[derive(Debug)]
pub(crate) struct Merge {
    /// All files by first time.
    schedule: Vec<Key>,
    /// How many files of the schedule were opened.
    begun: usize,
    /// A pipe whose header has not arrived, and its index in the schedule.
    opening: Option<(usize, Opening)>,
    /// The open files, each at its index.
    open: Vec<Option<Box<OpenFile>>>,
    open_files: usize,
    open_packed: usize,
    /// The next packets of open files.
    heads: BinaryHeap<Reverse<Key>>,
    /// A file whose next packet is unknown.
    unknown: Option<usize>,
    /// The file of the latest packet.
    latest: Option<usize>,
    /// Files of the first pass that overlap another.
    overlapping: usize,
    is_first_pass: bool,
    /// The file whose block was passed on last, and the block number that it got.
    passed_on: Option<(usize, u64)>,
    copies: Copies,
    /// The error after the packets that were yielded.
    failed: Option<CaptureError>,
}

impl Merge {
    pub(crate) fn new(members: &[Member]) -> Self {
        let mut schedule: Vec<Key> =
            members.iter().map(|member| member.first_ns.unwrap_or(0)).zip(0..).collect();
        schedule.sort_unstable();
        Self {
            schedule,
            begun: 0,
            opening: None,
            open: members.iter().map(|_| None).collect(),
            open_files: 0,
            open_packed: 0,
            heads: BinaryHeap::new(),
            unknown: None,
            latest: None,
            overlapping: 0,
            is_first_pass: true,
            passed_on: None,
            copies: Copies::default(),
            failed: None,
        }
    }

    /// Begins another pass with the first file, once all files have ended.
    pub(crate) fn restart(&mut self) {
        debug_assert!(self.open_files == 0, "a pass ends after its last file");
        self.is_first_pass = false;
        (self.begun, self.latest, self.passed_on) = (0, None, None);
    }

    /// Returns the indexes of the files in the order of their first times.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> {
        self.schedule.iter().map(|(_, index)| *index)
    }

    /// Returns how many files overlap another one, as far as the files have been read.
    pub(crate) fn overlapping(&self) -> usize {
        self.overlapping
    }

    /// Returns whether a file was not started, or its header has not arrived.
    pub(crate) fn is_some_unknown(&self) -> bool {
        self.begun < self.schedule.len() || self.opening.is_some()
    }

    /// Returns the open files, with their indexes in the order of first times.
    pub(crate) fn open_files(&self) -> impl Iterator<Item = (usize, FileSummary)> {
        self.open.iter().flatten().map(|file| (file.rank, FileSummary::new(&file.capture)))
    }

    /// Returns the open captures.
    pub(crate) fn captures(&self) -> impl Iterator<Item = &Capture> {
        self.open.iter().flatten().map(|file| &file.capture)
    }

    /// Fills a batch with the next packets of all files. [`Fill::End`] is the end of the pass.
    pub(crate) fn next(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut PacketBatch,
    ) -> Result<Fill, CaptureError> {
        batch.packets.clear();
        batch.block = None;
        batch.ahead = 0..0;
        let fill = self.failed.take().map_or_else(|| self.gather(context, batch), Err);
        if self.copies.finish(batch) {
            // Yield the packets before the error first.
            self.failed = fill.err();
            self.passed_on = None;
            return Ok(Fill::Packets);
        }
        fill
    }

    /// Copies packets until a batch is full, or passes on the packets of one file.
    fn gather(&mut self, context: &mut Context<'_>, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
        loop {
            let ready = self.find_next(context)?;
            if ready != Fill::Packets {
                return Ok(ready);
            }
            let Some(Reverse((_, index))) = self.heads.pop() else { return Ok(Fill::End) };
            let bound = self.bound();
            let file = self.open[index].as_mut().expect("the file of a head is open");
            let rest = &file.batch.packets[file.taken..];
            let run = rest.iter().take_while(|packet| (packet.time_ns, index) < bound).count().max(1);
            // The last batch of a longer run may be short.
            let goes_on = self.latest == Some(index) && file.taken == 0 && run == rest.len();
            let copied = match &file.batch.block {
                Some(block) if run < RUN_PACKETS && !goes_on => {
                    self.copies.take_in(&rest[..run], block.bytes(), batch)
                }
                _ => Copied::None,
            };
            let fill = match copied {
                Copied::Packets(packets) => {
                    file.taken += packets;
                    None
                }
                Copied::NoBlock => Some(Fill::Starved),
                // Yield the copied packets first.
                Copied::None if self.copies.is_filling() => Some(Fill::Packets),
                Copied::None => {
                    file.pass_on(run, batch);
                    let number = Some((index, file.batch.block_number));
                    batch.block_number += u64::from(self.passed_on != number);
                    self.passed_on = number;
                    Some(Fill::Packets)
                }
            };
            let next = file.rest().first().map(|packet| packet.time_ns);
            match next {
                Some(time_ns) => self.heads.push(Reverse((time_ns, index))),
                None => self.unknown = Some(index),
            }
            if fill != Some(Fill::Starved) {
                self.note_latest(index);
            }
            match fill {
                Some(fill) => return Ok(fill),
                None if batch.packets.len() == BATCH_PACKETS => return Ok(Fill::Packets),
                None => {}
            }
        }
    }

    /// Returns the least key among the other files.
    fn bound(&self) -> Key {
        let waiting = self.schedule.get(self.begun).copied();
        let head = self.heads.peek().map(|Reverse(head)| *head);
        waiting.into_iter().chain(head).min().unwrap_or((u64::MAX, usize::MAX))
    }

    /// Records the file of a packet. The previous file overlaps it, unless that file has ended.
    #[inline]
    fn note_latest(&mut self, index: usize) {
        let Some(latest) = self.latest.replace(index).filter(|latest| *latest != index) else { return };
        if self.open[latest].is_some() {
            for file in [latest, index] {
                if let Some(file) = &mut self.open[file]
                    && !std::mem::replace(&mut file.overlaps, true)
                {
                    self.overlapping += usize::from(self.is_first_pass);
                }
            }
        }
    }

    /// Determines the least key. Returns `Packets` when it is known, or when there is none.
    fn find_next(&mut self, context: &mut Context<'_>) -> Result<Fill, CaptureError> {
        loop {
            if let Some(index) = self.unknown {
                let file = self.open[index].as_mut().expect("a file is closed when it has ended");
                let fill = context.opener.next_batch(&mut file.capture, &mut file.batch)?;
                file.taken = 0;
                let taken_bytes = file.capture.taken_bytes();
                context.progress.add(taken_bytes.saturating_sub(file.taken_bytes));
                file.taken_bytes = taken_bytes;
                match (fill, file.rest().first()) {
                    (Fill::Packets, Some(next)) => self.heads.push(Reverse((next.time_ns, index))),
                    (Fill::End, _) => self.close(index, context),
                    (Fill::Starved | Fill::Packets, _) => return Ok(Fill::Starved),
                }
                self.unknown = None;
            } else if let Some((rank, mut opening)) = self.opening.take() {
                match opening.poll() {
                    Ok(Some(capture)) => self.begin(rank, capture)?,
                    Ok(None) => {
                        self.opening = Some((rank, opening));
                        return Ok(Fill::Starved);
                    }
                    // The pipe was abandoned before its first byte, so its format stays unknown.
                    Err(_) if context.opener.give_up.is_stopped() => {
                        self.opening = Some((rank, opening));
                        return Ok(Fill::End);
                    }
                    Err(error) => return Err(error),
                }
            } else {
                let Some(key) = self.schedule.get(self.begun) else { return Ok(Fill::Packets) };
                if self.heads.peek().is_some_and(|Reverse(head)| head < key) {
                    return Ok(Fill::Packets);
                }
                let rank = self.begun;
                let reading =
                    if self.open_files < MAPPED_FILES { Reading::OwnThread } else { Reading::Frugal };
                match context.members[key.1].open(context.opener, reading)? {
                    Opened::Capture(mut capture) => {
                        if context.opener.releases {
                            capture.release_behind();
                        }
                        self.begin(rank, *capture)?;
                    }
                    Opened::Pipe(opening) => self.opening = Some((rank, *opening)),
                }
                self.begun += 1;
            }
        }
    }

    /// Adds a file that was opened, with its index in the schedule.
    fn begin(&mut self, rank: usize, capture: Capture) -> Result<(), CaptureError> {
        let file = OpenFile::new(capture, rank);
        let packed = self.open_packed + usize::from(file.is_packed);
        for (open, files_max) in [(self.open_files + 1, OPEN_FILES_MAX), (packed, OPEN_PACKED_MAX)] {
            if open > files_max {
                return Err(CaptureError::TooManyOpen {
                    path: file.capture.path().to_path_buf(),
                    files_max,
                });
            }
        }
        let (_, index) = self.schedule[rank];
        self.open_packed = packed;
        self.open_files += 1;
        self.open[index] = Some(Box::new(file));
        self.unknown = Some(index);
        Ok(())
    }

    /// Adds a file that has ended to the summary.
    fn close(&mut self, index: usize, context: &mut Context<'_>) {
        let Some(file) = self.open[index].take() else { return };
        let OpenFile { capture, rank, is_packed, .. } = *file;
        self.open_files -= 1;
        self.open_packed -= usize::from(is_packed);
        let read = FileRead::new(&capture);
        let is_stopped = context.opener.give_up.is_stopped();
        context.summary.add_at(rank, if is_stopped { read.without_notice() } else { read });
    }
}

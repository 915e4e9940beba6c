//! One part of a set of captures, as a source.

use std::sync::Arc;

use flowloom_packet::{Fill, PacketBatch, PacketSource, SourceError};

use crate::capture::error::CaptureError;
use crate::capture::open::Capture;
use crate::capture::patient::GiveUp;
use crate::capture::pcapng::Effects;
use crate::capture::plan::{Boundary, Plan};
use crate::capture::set_progress::SetProgress;
use crate::capture::summary::FileRead;

/// A source that reads one part of a set of captures.
/// [`CaptureParts`](crate::capture::CaptureParts) creates parts, and has an example.
///
/// It yields the packets that a [`CaptureSet`](crate::capture::CaptureSet) yields between two
/// boundaries, in other batches. Where the set would fail, the part fails, and later parts are
/// ignored.
#[derive(Debug)]
pub struct CapturePart {
    plan: Arc<Plan>,
    begin: Boundary,
    /// Records from here on belong to the next part.
    limit: Boundary,
    end: Option<Boundary>,
    current: Option<Capture>,
    /// The open file, or the next one.
    file: usize,
    /// Number of bytes of the current file that count as read.
    taken_bytes: u64,
    /// Times of the first and the latest packet of the current file.
    times: Option<(u64, u64)>,
    files: Vec<PartFile>,
    packets: u64,
    progress: Option<Arc<SetProgress>>,
    give_up: GiveUp,
}

/// What a part has read of one file.
#[derive(Clone, Debug)]
pub(crate) struct PartFile {
    pub(crate) file: usize,
    pub(crate) read: FileRead,
    /// Whether the file has ended, or cannot be read further.
    pub(crate) is_over: bool,
    pub(crate) effects: Effects,
    /// Times of its first and its latest packet, if the plan needs them and there are packets.
    pub(crate) times: Option<(u64, u64)>,
}

/// The results of a part, without its packets.
#[derive(Clone, Debug)]
pub struct PartRead {
    pub(crate) begin: Boundary,
    pub(crate) end: Option<Boundary>,
    pub(crate) files: Vec<PartFile>,
    packets: u64,
}

impl PartRead {
    /// Returns the boundary at which the part began.
    pub fn begin(&self) -> &Boundary {
        &self.begin
    }

    /// Returns the actual end of the part, or `None` if it was stopped before.
    pub fn end(&self) -> Option<&Boundary> {
        self.end.as_ref()
    }

    /// Returns how many packets it yielded.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

impl CapturePart {
    pub(crate) fn new(
        plan: Arc<Plan>,
        part: usize,
        begin: Boundary,
        progress: Option<Arc<SetProgress>>,
    ) -> Result<Self, CaptureError> {
        let limit = plan.limit(part);
        let mut part = Self {
            plan,
            file: begin.file(),
            begin,
            limit,
            end: None,
            current: None,
            taken_bytes: 0,
            times: None,
            files: Vec::new(),
            packets: 0,
            progress,
            give_up: GiveUp::default(),
        };
        if part.begin.position() >= part.limit.position() {
            // An earlier part has read everything of this part.
            part.end = Some(part.begin.clone());
        } else {
            part.open_file()?;
        }
        Ok(part)
    }

    /// Calls `stopped` before each batch. When it returns `true`, the part ends there and has no
    /// [`end`](Self::end).
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + Send + Sync + 'static) {
        self.give_up = GiveUp::when(stopped);
    }

    /// Returns the boundary at which the part begins.
    pub fn begin(&self) -> &Boundary {
        &self.begin
    }

    /// Returns the actual end of the part after it has ended; `None` before, or if it was stopped.
    pub fn end(&self) -> Option<&Boundary> {
        self.end.as_ref()
    }

    /// Returns how many packets were yielded.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the results of the part, as far as it was read.
    #[must_use]
    pub fn finish(mut self) -> PartRead {
        if let Some(capture) = self.current.take() {
            self.close(&capture, false);
        }
        let Self { begin, end, files, packets, .. } = self;
        PartRead { begin, end, files, packets }
    }

    /// Opens the next file.
    fn open_file(&mut self) -> Result<(), CaptureError> {
        let member = &self.plan.files[self.file];
        let place = self.begin.place.clone().filter(|_| self.file == self.begin.file());
        let limit = (self.file == self.limit.file()).then(|| self.limit.offset());
        self.taken_bytes = place.as_ref().map_or(0, |place| place.offset);
        let capture = match &member.mapping {
            Some(mapping) => {
                Capture::mapped_between(member.path(), mapping.with_own_block(), place, limit)?
            }
            None => {
                Capture::open_unless_pipe(member.path(), self.plan.options.capture)?.map_err(|_pipe| {
                    let why = "it was a regular file when the parts were planned, and is none now";
                    CaptureError::Io {
                        path: member.path().to_path_buf(),
                        source: std::io::Error::other(why),
                    }
                })?
            }
        };
        self.current = Some(capture);
        Ok(())
    }

    /// Records the summary of the current file.
    fn close(&mut self, capture: &Capture, is_over: bool) {
        self.files.push(PartFile {
            file: self.file,
            read: FileRead::new(capture),
            is_over,
            effects: capture.effects(),
            times: self.times.take(),
        });
    }

    fn next(&mut self, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
        loop {
            if self.give_up.is_stopped()
                && let Some(capture) = self.current.take()
            {
                self.close(&capture, false);
            }
            let Some(capture) = &mut self.current else {
                let is_stopped = self.end.is_none() && self.files.last().is_some_and(|file| !file.is_over);
                if self.end.is_none() && !is_stopped {
                    if self.file < self.limit.file()
                        || self.limit.offset() > 0 && self.file == self.limit.file()
                    {
                        self.open_file()?;
                        continue;
                    }
                    self.end = Some(Boundary::start_of(self.file));
                }
                batch.packets.clear();
                batch.block = None;
                batch.ahead = 0..0;
                return Ok(Fill::End);
            };
            let fill = capture.next_batch(batch)?;
            let taken_bytes = capture.taken_bytes();
            if let Some(progress) = &self.progress {
                progress.add(taken_bytes - self.taken_bytes.min(taken_bytes));
            }
            self.taken_bytes = taken_bytes;
            match fill {
                Fill::Starved => return Ok(Fill::Starved),
                Fill::Packets => {
                    self.packets += batch.packets.len() as u64;
                    if self.plan.is_by_time {
                        let (first_ns, last_ns) = self.times.unwrap_or((batch.packets[0].time_ns, 0));
                        let latest =
                            batch.packets.iter().fold(last_ns, |last, packet| last.max(packet.time_ns));
                        self.times = Some((first_ns, latest));
                    }
                    return Ok(Fill::Packets);
                }
                Fill::End => {
                    let Some(capture) = self.current.take() else { continue };
                    let left_off = capture.left_off().cloned();
                    self.close(&capture, left_off.is_none());
                    match left_off {
                        Some(place) => self.end = Some(Boundary::inside(self.file, place)),
                        None => self.file += 1,
                    }
                }
            }
        }
    }
}

impl PacketSource for CapturePart {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.next(batch).map_err(|error| SourceError(Box::new(error)))
    }
}

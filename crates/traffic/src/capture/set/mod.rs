//! Several captures as one source: files in order or merged by time, directories by first time
//! stamp, any number of passes.
pub(in crate::capture) mod merge;
pub(in crate::capture) mod overlap;
pub(in crate::capture) mod set_options;
pub(in crate::capture) mod set_progress;
pub(in crate::capture) mod summary;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use flowloom_packet::{Fill, PacketBatch, PacketSource, Segment, SourceError};

use super::background;
use super::error::CaptureError;
use super::format::{Packing, SNIFF_BYTES};
use super::members::{Member, MemberRange, Members, Opened, Opener, first_of};
use super::merge::{Context, Merge};
use super::notice::Notice;
use super::open::{Capture, read_up_to};
use super::opening::Opening;
use super::parts::{NotCuttable, PlanError, range_of};
use super::patient::GiveUp;
use super::segment::{CaptureSegment, Rejoined, Splitter};
use super::set_options::{Input, SetOptions, SetOrder};
use super::set_progress::SetProgress;
use super::stream::Reading;
use super::summary::{FileRead, FileSummary, SummaryBuilder};

/// Maximum number of files whose mappings and descriptors are kept for the next pass. Additional
/// files are opened again.
const MAPPINGS_KEPT: usize = 256;

/// A source that reads captures one after another, or [merges them by time](SetOrder::ByTime).
///
/// # Examples
///
/// ```no_run
/// use flowloom_packet::{Fill, PacketBatch, PacketSource};
/// use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
///
/// let inputs = [Input::Path("edge.pcapng.zst".into())];
/// let mut set = CaptureSet::open(&inputs, SetOptions::default())?;
/// let mut batch = PacketBatch::new();
/// let mut packets = 0;
/// loop {
///     match set.next_batch(&mut batch)? {
///         Fill::Packets => packets += batch.packets.len(),
///         // A pipe is silent now.
///         Fill::Starved => {}
///         Fill::End => break,
///     }
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CaptureSet {
    members: Vec<Member>,
    options: SetOptions,
    opener: Opener,
    /// The merge of several inputs by time.
    merge: Option<Box<Merge>>,
    current: Option<Capture>,
    /// The open file, while it is read in segments; then `current` is `None`.
    splitter: Option<Box<Splitter>>,
    /// The summary of the segments of the open file.
    before: Option<FileRead>,
    /// Whether the open file is read in order to its end.
    is_in_order: bool,
    /// The next input, a pipe whose header has not arrived.
    opening: Option<Opening>,
    next_member: usize,
    pass: u32,
    /// Nanoseconds added to each time of this pass.
    shift_ns: u64,
    first_ns: u64,
    last_ns: u64,
    packets_of_pass: u64,
    packets: u64,
    summary: SummaryBuilder,
    /// The files of the first pass, when it has ended.
    whole_pass: Vec<FileSummary>,
    progress: Arc<SetProgress>,
    done_bytes: u64,
}

impl CaptureSet {
    /// Opens a set. It opens every regular file immediately, so that errors show before the run.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] for the first input that cannot be read, is not a capture, or
    /// cannot be decoded at all.
    pub fn open(inputs: &[Input], options: SetOptions) -> Result<Self, CaptureError> {
        background::remember_cpus();
        Ok(Self::of_members(Members::list(inputs, options)?, options))
    }

    /// Opens a set that reads of each file the records that begin in a range of its bytes, or all
    /// of them where there is none. `ranges` are those of `inputs`, which are files.
    ///
    /// A range begins and ends as that of [`CaptureParts::range`](super::CaptureParts::range).
    ///
    /// # Errors
    ///
    /// Returns [`PlanError::NotCuttable`] for a file that cannot be read in ranges, and
    /// [`PlanError::Capture`] for the errors of [`open`](Self::open).
    ///
    /// # Panics
    ///
    /// Panics unless there are as many ranges as inputs.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_packet::{Fill, PacketBatch, PacketSource};
    /// use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
    /// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
    /// # let directory = tempfile::tempdir()?;
    /// # let taps = ["a", "b"].map(|tap| directory.path().join(tap));
    /// # for tap in &taps {
    /// #     let file = std::fs::File::create(tap)?;
    /// #     let mut writer = PcapWriter::new(file, PcapOptions::default())?;
    /// #     for second in 0..10 {
    /// #         writer.write(second * 1_000_000_000, 60, &[0; 60])?;
    /// #     }
    /// #     writer.finish()?;
    /// # }
    /// // Records of 76 bytes follow a header of 24 bytes.
    /// let inputs = taps.map(Input::Path);
    /// let ranges = [Some(100..252), None];
    /// let mut set = CaptureSet::open_ranges(&inputs, &ranges, SetOptions::default())?;
    /// let (mut batch, mut packets) = (PacketBatch::new(), 0);
    /// while set.next_batch(&mut batch)? != Fill::End {
    ///     packets += batch.packets.len();
    /// }
    /// assert_eq!(packets, 2 + 10);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_ranges(
        inputs: &[Input],
        ranges: &[Option<Range<u64>>],
        options: SetOptions,
    ) -> Result<Self, PlanError> {
        assert_eq!(inputs.len(), ranges.len(), "a range for each input");
        background::remember_cpus();
        let mut members = Members::list(inputs, options)?;
        if members.list.len() != inputs.len() {
            let folder = inputs.iter().find_map(|input| match input {
                Input::Path(path) if path.is_dir() => Some(path.clone()),
                _ => None,
            });
            return Err(NotCuttable::NoBoundary { path: folder.unwrap_or_default() }.into());
        }
        for (file, bytes) in ranges.iter().enumerate() {
            let Some(bytes) = bytes else { continue };
            let [begin, end] = range_of(&mut members.list, file, options, bytes.clone())?;
            let is_empty = begin.position() >= end.position();
            let limit = (is_empty || end.file() == file).then(|| if is_empty { 0 } else { end.offset() });
            let member = &mut members.list[file];
            member.range = Some(MemberRange { begin: begin.place.filter(|_| !is_empty), limit });
            let opener = Opener {
                options: options.capture,
                give_up: GiveUp::default(),
                keeps_mappings: true,
                releases: false,
                names_files: false,
            };
            if let Opened::Capture(mut capture) = member.open(&opener, Reading::OwnThread)? {
                member.first_ns = Some(first_of(&mut capture)?);
            }
        }
        Ok(Self::of_members(members, options))
    }

    fn of_members(members: Members, options: SetOptions) -> Self {
        let progress = Arc::new(SetProgress::of_bytes(members.total_bytes(options.passes)));
        let Members { list: members, notices } = members;
        let is_merged = options.order == SetOrder::ByTime && members.len() > 1;
        let opener = Opener {
            options: options.capture,
            give_up: GiveUp::default(),
            keeps_mappings: options.passes > 1 && members.len() <= MAPPINGS_KEPT,
            releases: options.passes == 1 && options.capture.release,
            names_files: options.names_files,
        };
        Self {
            merge: is_merged.then(|| Box::new(Merge::new(&members))),
            members,
            options,
            opener,
            current: None,
            splitter: None,
            before: None,
            is_in_order: false,
            opening: None,
            next_member: 0,
            pass: 0,
            shift_ns: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            packets_of_pass: 0,
            packets: 0,
            summary: SummaryBuilder::new(notices),
            whole_pass: Vec::new(),
            progress,
            done_bytes: 0,
        }
    }

    /// Calls `stopped` repeatedly while a pipe is silent. Once that returns `true`, the pipe counts
    /// as ended there. A silent pipe returns [`Fill::Starved`], with or without `stopped`, even
    /// before its header has arrived.
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + Send + Sync + 'static) {
        self.opener.give_up = GiveUp::when(stopped);
    }

    /// Returns the counters for a progress bar.
    pub fn progress(&self) -> Arc<SetProgress> {
        Arc::clone(&self.progress)
    }

    /// Returns the notices about the inputs. They are complete once the source has ended.
    pub fn notices(&self) -> &[Notice] {
        self.summary.notices()
    }

    /// Returns the files in reading order after a whole pass. During the first pass, it returns the
    /// files begun so far, including the last one as far as it was read.
    pub fn files(&self) -> Vec<FileSummary> {
        if !self.whole_pass.is_empty() {
            return self.whole_pass.clone();
        }
        match &self.merge {
            Some(merge) => self.summary.files_with(merge.open_files()),
            None => {
                self.summary.files_with(self.open_read().map(|read| (usize::MAX, read.summary)).into_iter())
            }
        }
    }

    /// Returns the summary of the open file.
    fn open_read(&self) -> Option<FileRead> {
        if let Some(splitter) = &self.splitter {
            return Some(splitter.read().clone());
        }
        self.current.as_ref().map(|capture| self.read_of(capture))
    }

    /// Returns the summary of a file whose rest `capture` reads.
    fn read_of(&self, capture: &Capture) -> FileRead {
        let rest = FileRead::new(capture);
        self.before.clone().map_or(rest.clone(), |mut read| {
            read.append(rest);
            read
        })
    }

    /// Fails if nothing that was read can be decoded, and no input remains that was not begun. Call
    /// it if you stop before the end; at the end, the source fails for the same reason.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError::NothingDecodable`] for the first input whose link type is not
    /// decoded.
    pub fn check_decodable(&self) -> Result<(), CaptureError> {
        let (is_some_unknown, merged) = match &self.merge {
            Some(merge) => (merge.is_some_unknown(), Some(merge.captures())),
            None => (self.next_member < self.members.len() || self.opening.is_some(), None),
        };
        if is_some_unknown {
            return Ok(());
        }
        let open = self.open_read();
        let open = open.iter().map(|read| (read.summary.path.as_path(), read.summary.links.as_slice()));
        let merged = merged.into_iter().flatten().map(|capture| (capture.path(), capture.links()));
        self.summary.check_decodable(open.chain(merged))
    }

    /// Returns how many inputs overlap another one in time, as far as the set was read. `None` if
    /// none does, or if the set is not read [by time](SetOrder::ByTime).
    pub fn overlapped(&self) -> Option<usize> {
        self.merge.as_ref().map(|merge| merge.overlapping()).filter(|files| *files > 0)
    }

    /// Returns how many packets were yielded, over all passes. A run that stops early may leave
    /// some packets of the last batch unused; they belong to the last file.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the paths of the set in reading order; standard input is called by that name.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let merged = self.merge.iter().flat_map(|merge| merge.order());
        let concat = if self.merge.is_some() { 0..0 } else { 0..self.members.len() };
        merged.chain(concat).map(|index| self.members[index].path())
    }

    /// Returns the bytes of plain captures on disk, an upper limit for sizing tables. `None` if an
    /// input is a pipe.
    pub fn bytes_on_disk(&self) -> Option<u64> {
        self.members
            .iter()
            .map(|member| match &member.input {
                Input::Stdin => None,
                Input::Path(path) => {
                    std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file).map(|m| m.len())
                }
            })
            .sum()
    }

    /// Returns whether a thread of its own reads or unpacks an input: a pipe, or a compressed
    /// capture. It looks at the first few inputs.
    pub fn is_read_apart(&self) -> bool {
        const LOOKED_AT: usize = 16;
        self.members.iter().take(LOOKED_AT).any(|member| match &member.input {
            Input::Stdin => true,
            Input::Path(path) => {
                let is_file = std::fs::metadata(path).is_ok_and(|found| found.is_file());
                let head = || read_up_to(&mut std::fs::File::open(path)?, SNIFF_BYTES);
                !is_file || head().is_ok_and(|head| Packing::detect(&head).is_some())
            }
        })
    }

    /// Opens the next capture, or continues opening it. Returns `Packets` when it is open,
    /// `Starved` while it is a pipe whose header has not arrived, and `End` when there is none.
    fn open_next(&mut self) -> Result<Fill, CaptureError> {
        if let Some(mut opening) = self.opening.take() {
            return match opening.poll() {
                Ok(Some(capture)) => {
                    self.current = Some(capture);
                    Ok(Fill::Packets)
                }
                Ok(None) => {
                    self.opening = Some(opening);
                    Ok(Fill::Starved)
                }
                // The pipe was abandoned before its first byte, so its format stays unknown.
                Err(_) if self.opener.give_up.is_stopped() => {
                    self.opening = Some(opening);
                    Ok(Fill::End)
                }
                Err(error) => Err(error),
            };
        }
        if self.next_member == self.members.len() && !self.next_pass() {
            return Ok(Fill::End);
        }
        let member = &mut self.members[self.next_member];
        self.next_member += 1;
        match member.open(&self.opener, Reading::OwnThread)? {
            Opened::Capture(mut capture) => {
                if self.opener.releases {
                    capture.release_behind();
                }
                self.current = Some(*capture);
            }
            Opened::Pipe(opening) => {
                self.opening = Some(*opening);
                return self.open_next();
            }
        }
        Ok(Fill::Packets)
    }

    /// Begins another pass, with times later by the span of the set plus the mean gap between its
    /// packets. Returns `false` if no packets were found, or nothing can be decoded.
    fn next_pass(&mut self) -> bool {
        let again = self.options.passes == u32::MAX || self.pass + 1 < self.options.passes;
        if !again || !self.summary.is_decodable() || self.packets_of_pass == 0 {
            return false;
        }
        let span = self.last_ns.saturating_sub(self.first_ns);
        let gap = (span / self.packets_of_pass.max(1)).max(1);
        self.shift_ns = self.shift_ns.saturating_add(span).saturating_add(gap);
        self.pass = self.pass.wrapping_add(1);
        self.next_member = 0;
        if let Some(merge) = &mut self.merge {
            merge.restart();
        }
        self.packets_of_pass = 0;
        let files = self.summary.take_files();
        if self.whole_pass.is_empty() {
            self.whole_pass = files;
        }
        true
    }

    /// Adds a capture that has ended to the summary.
    fn finish(&mut self, capture: &Capture) {
        let read = self.read_of(capture);
        self.close(read, capture.taken_bytes());
    }

    /// Adds a file that has ended after so many bytes.
    fn close(&mut self, read: FileRead, bytes: u64) {
        self.summary.add(if self.opener.give_up.is_stopped() { read.without_notice() } else { read });
        self.done_bytes += bytes;
        self.before = None;
        self.is_in_order = false;
    }

    /// Reads the rest of a file in order that was read in segments.
    fn read_rest(&mut self) -> Result<(), CaptureError> {
        if let Some(splitter) = self.splitter.take() {
            self.current = Some(splitter.rest()?);
            self.before = Some(splitter.read().clone());
            self.is_in_order = true;
        }
        Ok(())
    }

    /// Measures the span of the first pass, and moves the times of later passes after it.
    fn shift_times(&mut self, batch: &mut PacketBatch) {
        if self.pass > 0 {
            for packet in &mut batch.packets {
                packet.time_ns = packet.time_ns.saturating_add(self.shift_ns);
            }
        } else if self.options.passes > 1 {
            for packet in &batch.packets {
                self.first_ns = self.first_ns.min(packet.time_ns);
                self.last_ns = self.last_ns.max(packet.time_ns);
            }
        }
    }

    /// Counts the packets of a batch, and sets the fields that depend on the pass.
    fn account(&mut self, batch: &mut PacketBatch) {
        batch.pass = self.pass;
        self.packets_of_pass += batch.packets.len() as u64;
        self.packets += batch.packets.len() as u64;
        self.shift_times(batch);
    }

    /// Reads the next packets by time.
    fn next_merged(&mut self, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
        loop {
            let Self { members, opener, summary, progress, merge: Some(merge), .. } = self else {
                return Ok(Fill::End);
            };
            match merge.next(&mut Context { members, opener, summary, progress }, batch)? {
                Fill::Packets => {
                    self.account(batch);
                    return Ok(Fill::Packets);
                }
                Fill::Starved => return Ok(Fill::Starved),
                // If the source was stopped before a header arrived, the format stays unknown.
                Fill::End if merge.is_some_unknown() => return Ok(Fill::End),
                Fill::End if self.next_pass() => {}
                Fill::End => {
                    self.summary.check_decodable(std::iter::empty())?;
                    return Ok(Fill::End);
                }
            }
        }
    }

    fn next(&mut self, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
        if self.merge.is_some() {
            return self.next_merged(batch);
        }
        self.read_rest()?;
        loop {
            let Some(capture) = &mut self.current else {
                let opened = self.open_next()?;
                if opened == Fill::Packets {
                    continue;
                }
                batch.packets.clear();
                batch.block = None;
                if opened == Fill::Starved {
                    return Ok(Fill::Starved);
                }
                if self.opening.is_none() {
                    self.summary.check_decodable(std::iter::empty())?;
                }
                return Ok(Fill::End);
            };
            let fill = self.opener.next_batch(capture, batch)?;
            self.progress.set_done(self.done_bytes + capture.taken_bytes());
            match fill {
                Fill::Starved => return Ok(Fill::Starved),
                Fill::Packets => {
                    self.account(batch);
                    return Ok(Fill::Packets);
                }
                Fill::End => {
                    if let Some(capture) = self.current.take() {
                        self.finish(&capture);
                    }
                }
            }
        }
    }
}

impl PacketSource for CaptureSet {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.next(batch).map_err(|error| SourceError(Box::new(error)))
    }

    /// Splits mapped captures that are read once, one after another.
    fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
        let is_plain = self.merge.is_none()
            && self.options.passes == 1
            && !self.opener.releases
            && !self.opener.names_files;
        if !is_plain || self.is_in_order {
            return None;
        }
        if self.splitter.is_none() {
            self.splitter = Some(Box::new(Splitter::new(self.current.as_ref()?)?));
            self.current = None;
        }
        let segment = self.splitter.as_mut()?.split(bytes)?;
        Some(Box::new(segment))
    }

    fn rejoin(&mut self, segment: Box<dyn Segment>) -> bool {
        let (Ok(segment), Some(splitter)) =
            (segment.into_any().downcast::<CaptureSegment>(), &mut self.splitter)
        else {
            return false;
        };
        let rejoined = splitter.rejoin(&segment);
        let offset = splitter.offset();
        if let Rejoined::Wrong = rejoined {
            return false;
        }
        self.packets += segment.packets();
        self.packets_of_pass += segment.packets();
        self.progress.set_done(self.done_bytes + offset);
        if let Rejoined::Last(read) = rejoined {
            self.splitter = None;
            self.close(*read, segment.taken_bytes());
            self.progress.set_done(self.done_bytes);
        }
        true
    }
}

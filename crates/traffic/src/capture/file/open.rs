//! One capture: recognised by its content, mapped if possible, and otherwise read as a stream.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_packet::{Fill, LinkType, PacketBatch, PacketSource, SourceError};

use crate::capture::background;
use crate::capture::details::Details;
use crate::capture::error::CaptureError;
use crate::capture::format::{Format, Packing, SNIFF_BYTES};
use crate::capture::losses::Losses;
use crate::capture::map::Mapping;
use crate::capture::mapped::{Mapped, MappedFill};
use crate::capture::notice::Notice;
use crate::capture::patient::{self, GiveUp, Patient};
use crate::capture::reopened::Reopened;
use crate::capture::stop::Stop;
use crate::capture::stream::{Reading, Stream, StreamEnd, StreamFill};
use crate::capture::unpack::{Counting, LimitBroken, UnpackLimits, unpack};
use crate::capture::walk::{Joints, Walk, WalkState};
use crate::capture::{pcap, pcapng};

/// How captures are opened.
///
/// Any version may add fields, so end a literal with `..CaptureOptions::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CaptureOptions {
    /// Map plain files instead of reading them.
    pub map: bool,
    /// Unmap the parts of a set's files that were read, if the set is read once. It costs a few
    /// percent of the time. Otherwise the pages count as memory of the process until the file ends,
    /// although the system can take them back.
    pub release: bool,
    /// Limits on unpacking compressed captures.
    pub limits: UnpackLimits,
}

impl Default for CaptureOptions {
    fn default() -> Self {
        Self { map: true, release: false, limits: UnpackLimits::default() }
    }
}

/// An open capture, which yields its packets in batches. It can be used as a source directly;
/// [`CaptureSet`](crate::capture::CaptureSet) reads any number of captures.
///
/// # Examples
///
/// A capture in memory, for example from a network or in a test:
///
/// ```
/// use std::io::Cursor;
/// use flowloom_traffic::capture::{Capture, CaptureOptions};
/// use flowloom_traffic::packet::{Fill, PacketBatch};
/// use flowloom_traffic::write::{PcapOptions, PcapWriter};
/// let mut writer = PcapWriter::new(Vec::new(), PcapOptions::default())?;
/// writer.write(1_500_000_000, 60, &[0; 60])?;
/// let bytes = writer.finish()?;
/// let (path, options) = ("written.pcap".as_ref(), CaptureOptions::default());
/// let mut capture = Capture::read_from(path, Cursor::new(bytes), options)?;
/// let mut batch = PacketBatch::new();
/// assert_eq!((capture.next_batch(&mut batch)?, batch.packets.len()), (Fill::Packets, 1));
/// assert_eq!(capture.next_batch(&mut batch)?, Fill::End);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Capture {
    path: PathBuf,
    format: Format,
    packing: Option<Packing>,
    walk: Walk,
    body: Body,
    /// Bytes of the file on disk that were read so far.
    taken_bytes: Arc<AtomicU64>,
    notice: Option<Notice>,
    /// The boundary at which it stopped at a limit.
    left_off: Option<WalkPosition>,
}

/// A position in a file, with the reading state there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WalkPosition {
    pub(crate) offset: u64,
    pub(crate) state: WalkState,
}

#[derive(Debug)]
enum Body {
    Mapped(Mapped),
    Stream(Stream),
    Done,
}

impl Capture {
    /// Opens the capture at `path`. It waits for the header of a pipe. If the pipe is silent later,
    /// it returns [`Fill::Starved`].
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] when the file cannot be read, is empty, or is no capture.
    pub fn open(path: &Path, options: CaptureOptions) -> Result<Self, CaptureError> {
        Self::open_unless_pipe(path, options)?.or_else(|pipe| {
            let pipe = Patient::new(pipe, GiveUp::default());
            let asks_again = pipe.asks_again();
            let capture = Self::read_from(path, pipe, options)?;
            asks_again.store(true, Ordering::Relaxed);
            Ok(capture)
        })
    }

    /// Opens the capture at `path`, or a pipe whose header may not have arrived.
    pub(crate) fn open_unless_pipe(
        path: &Path,
        options: CaptureOptions,
    ) -> Result<Result<Self, File>, CaptureError> {
        Self::open_to_read(path, options, Reading::OwnThread)
    }

    /// Opens the capture at `path`, or a pipe whose header may not have arrived. It maps the file
    /// if possible and otherwise reads it according to `reading`. One of many files is not mapped
    /// and takes no file descriptor.
    pub(crate) fn open_to_read(
        path: &Path,
        options: CaptureOptions,
        reading: Reading,
    ) -> Result<Result<Self, File>, CaptureError> {
        let io = |source| CaptureError::Io { path: path.to_path_buf(), source };
        background::remember_cpus();
        let mut file = patient::open(path).map_err(io)?;
        let metadata = file.metadata().map_err(io)?;
        if metadata.is_dir() {
            return Err(io(io::Error::new(io::ErrorKind::IsADirectory, "is a directory")));
        }
        if !metadata.is_file() {
            return Ok(Err(file));
        }
        let mut prefix = read_up_to(&mut file, SNIFF_BYTES).map_err(io)?;
        if reading == Reading::Frugal {
            let rest = Reopened::new(path, &metadata, prefix.len() as u64);
            return Self::stream(path, prefix, rest, reading, options).map(Ok);
        }
        if let (true, Some(format)) = (options.map, Format::detect(&prefix)) {
            read_header(&mut file, format, &mut prefix).map_err(io)?;
            // If the file system cannot map the file, it is read as a stream.
            if let Ok(mapping) = file.try_clone().and_then(|file| Mapping::new(file, &prefix)) {
                return Self::mapped(path, mapping).map(Ok);
            }
        }
        Self::stream(path, prefix, file, reading, options).map(Ok)
    }

    /// Opens a capture from `inner`. Messages name it `path`.
    ///
    /// The thread that requests batches also reads and decompresses, because `inner` may be a pipe
    /// that has no data for now. [`Capture::open`] reads and decompresses files on a separate
    /// thread.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Capture::open`].
    pub fn read_from(
        path: &Path,
        inner: impl Read + Send + 'static,
        options: CaptureOptions,
    ) -> Result<Self, CaptureError> {
        Self::read_by(path, inner, Reading::Inline, options)
    }

    /// Opens a capture from `inner`, read according to `reading`.
    pub(crate) fn read_by(
        path: &Path,
        mut inner: impl Read + Send + 'static,
        reading: Reading,
        options: CaptureOptions,
    ) -> Result<Self, CaptureError> {
        let prefix = read_up_to(&mut inner, SNIFF_BYTES)
            .map_err(|source| CaptureError::Io { path: path.to_path_buf(), source })?;
        Self::stream(path, prefix, inner, reading, options)
    }

    /// Opens a mapped capture again, for another pass.
    pub(crate) fn mapped(path: &Path, mapping: Mapping) -> Result<Self, CaptureError> {
        Self::mapped_between(path, mapping, None, None)
    }

    /// Opens a range of a mapped capture: from `begin`, or its first record, to the last record
    /// that begins before offset `limit`, or to its end.
    pub(crate) fn mapped_between(
        path: &Path,
        mapping: Mapping,
        begin: Option<WalkPosition>,
        limit: Option<u64>,
    ) -> Result<Self, CaptureError> {
        let mut capture = Self::segment(path, mapping, begin, limit)?;
        if let Body::Mapped(mapped) = &mut capture.body
            && (limit.is_some() || mapped.offset() > mapped.mapping().head().len())
        {
            mapped.release_behind(0);
        }
        Ok(capture)
    }

    /// Opens a range of a mapped capture, whose pages stay mapped behind the walk.
    pub(crate) fn segment(
        path: &Path,
        mapping: Mapping,
        begin: Option<WalkPosition>,
        limit: Option<u64>,
    ) -> Result<Self, CaptureError> {
        let head = mapping.head();
        let format = recognise(path, head, None)?;
        let (walk, start) = match begin {
            Some(WalkPosition { offset, state }) => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                (Walk::resume(state, start), start)
            }
            None => Walk::begin(format, head).map_err(|why| not_a_capture(path, head, why))?,
        };
        let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let mapped = Mapped::new(mapping, start, limit);
        Ok(Self {
            path: path.to_path_buf(),
            format,
            packing: None,
            walk,
            body: Body::Mapped(mapped),
            taken_bytes: Arc::default(),
            notice: None,
            left_off: None,
        })
    }

    fn stream(
        path: &Path,
        prefix: Vec<u8>,
        inner: impl Read + Send + 'static,
        reading: Reading,
        options: CaptureOptions,
    ) -> Result<Self, CaptureError> {
        if prefix.is_empty() {
            return Err(CaptureError::Empty { path: path.to_path_buf() });
        }
        let taken_bytes = Arc::new(AtomicU64::new(0));
        let packing = Packing::detect(&prefix);
        let Some(packing) = packing else {
            taken_bytes.store(prefix.len() as u64, Ordering::Relaxed);
            let inner = Counting::new(inner, Arc::clone(&taken_bytes));
            return Self::unpacked(path, None, prefix, inner, reading, taken_bytes);
        };
        let damaged = |why: io::Error| {
            not_a_capture(
                path,
                &prefix,
                format!("{} header, but the content does not decompress ({why})", packing.name()),
            )
        };
        let joined = io::Cursor::new(prefix.clone()).chain(inner);
        let buffer_bytes = if reading == Reading::Frugal { 32 << 10 } else { 128 << 10 };
        let mut inner =
            unpack(packing, joined, &taken_bytes, options.limits, buffer_bytes).map_err(damaged)?;
        let unpacked = read_up_to(&mut inner, SNIFF_BYTES).map_err(damaged)?;
        if unpacked.is_empty() {
            return Err(not_a_capture(path, &prefix, format!("{} of nothing", packing.name())));
        }
        Self::unpacked(path, Some(packing), unpacked, inner, reading, taken_bytes)
    }

    fn unpacked(
        path: &Path,
        packing: Option<Packing>,
        mut prefix: Vec<u8>,
        mut inner: impl Read + Send + 'static,
        reading: Reading,
        taken_bytes: Arc<AtomicU64>,
    ) -> Result<Self, CaptureError> {
        let format = recognise(path, &prefix, packing)?;
        read_header(&mut inner, format, &mut prefix)
            .map_err(|source| CaptureError::Io { path: path.to_path_buf(), source })?;
        let (walk, start) =
            Walk::begin(format, &prefix).map_err(|why| not_a_capture(path, &prefix, why))?;
        let stream = Stream::new(prefix, start, inner, reading);
        Ok(Self {
            path: path.to_path_buf(),
            format,
            packing,
            walk,
            body: Body::Stream(stream),
            taken_bytes,
            notice: None,
            left_off: None,
        })
    }

    /// Unmaps the pages that were read, except the last ones, which other threads may still read.
    pub(crate) fn release_behind(&mut self) {
        const KEPT_BYTES: usize = 8 << 20;
        if let Body::Mapped(mapped) = &mut self.body {
            mapped.release_behind(KEPT_BYTES);
        }
    }

    /// From now on, collects the details of a pcapng capture other than its packets.
    pub(crate) fn note_details(&mut self) {
        self.walk.note_details();
    }

    /// Returns the collected details of a pcapng capture.
    pub(crate) fn details(&mut self) -> Option<&mut Details> {
        self.walk.details()
    }

    /// Replaces the contents of `batch` by the next packets. A new block gets the next block
    /// number.
    ///
    /// # Errors
    ///
    /// Returns an error when reading fails or an unpack limit is exceeded.
    pub fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
        batch.packets.clear();
        batch.ahead = 0..0;
        if let Some(details) = self.walk.details() {
            details.packets.clear();
        }
        match &mut self.body {
            Body::Done => {
                batch.block = None;
                Ok(Fill::End)
            }
            Body::Mapped(mapped) => {
                let fill = mapped.fill(&mut self.walk, batch);
                let offset = mapped.offset() as u64;
                self.taken_bytes.store(offset, Ordering::Relaxed);
                if let MappedFill::Packets = fill {
                    return Ok(Fill::Packets);
                }
                batch.block = None;
                match fill {
                    MappedFill::Packets => {}
                    MappedFill::End(stop) => {
                        if stop == Stop::Limit {
                            let bytes = mapped.mapping().block().bytes();
                            let state = self.walk.state_at(bytes, mapped.offset());
                            self.left_off = Some(WalkPosition { offset, state });
                        }
                        self.stopped(stop, offset);
                    }
                    MappedFill::Error(error) => {
                        self.body = Body::Done;
                        return self.failed(error);
                    }
                }
                Ok(Fill::End)
            }
            Body::Stream(stream) => {
                // The pool reclaims buffers that have no other holder.
                batch.block = None;
                match stream.fill(&mut self.walk, batch) {
                    StreamFill::Packets => Ok(Fill::Packets),
                    StreamFill::Starved => Ok(Fill::Starved),
                    StreamFill::End(StreamEnd::Stop(stop)) => {
                        let offset = stream.offset();
                        self.stopped(stop, offset);
                        Ok(Fill::End)
                    }
                    StreamFill::End(StreamEnd::Error(error)) => {
                        self.body = Body::Done;
                        self.failed(error)
                    }
                }
            }
        }
    }

    fn stopped(&mut self, stop: Stop, offset: u64) {
        self.body = Body::Done;
        let (path, packet) = (self.path.clone(), self.walk.packets() + 1);
        self.notice = match stop {
            Stop::Cut { have, need } => {
                Some(Notice::CutRecord { path, packet, offset, have: have as u64, need: need as u64 })
            }
            Stop::Corrupt(why) => Some(Notice::Corrupt { path, packet, offset, why }),
            Stop::Full | Stop::More { .. } | Stop::Joined | Stop::Limit | Stop::End => None,
        };
    }

    fn failed(&mut self, error: io::Error) -> Result<Fill, CaptureError> {
        let path = self.path.clone();
        if let Some(broken) = error.get_ref().and_then(|inner| inner.downcast_ref::<LimitBroken>()) {
            return Err(CaptureError::UnpackLimit {
                path,
                packed_bytes: broken.packed_bytes,
                unpacked_bytes: broken.unpacked_bytes,
                limit: broken.limit.clone(),
            });
        }
        if self.packing.is_none() {
            return Err(CaptureError::Io { path, source: error });
        }
        let packet = self.walk.packets() + 1;
        self.notice = Some(Notice::DamagedStream { path, packet, why: error.to_string() });
        Ok(Fill::End)
    }

    /// Returns the notices about the input, once it has ended.
    pub fn notice(&self) -> Option<&Notice> {
        self.notice.as_ref()
    }

    /// Returns the path under which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Describes the format: `pcap, little-endian, ns timestamps (zstd)`.
    pub fn describe(&self) -> String {
        let format = self.format.describe();
        self.packing.map_or(format.clone(), |packing| format!("{format} ({})", packing.name()))
    }

    /// Returns the distinct link types declared so far.
    pub fn links(&self) -> &[LinkType] {
        self.walk.links()
    }

    /// Returns the number of packets yielded.
    pub fn packets(&self) -> u64 {
        self.walk.packets()
    }

    /// Returns how many packets stated a captured length that exceeds their record. They were
    /// truncated to fit.
    pub fn lying_lengths(&self) -> u64 {
        self.walk.lying_lengths()
    }

    /// Returns how many packets stated a time before 1970 or after 2554. They have the nearest time
    /// in this range.
    pub fn clamped_times(&self) -> u64 {
        self.walk.clamped_times()
    }

    /// Returns the notice about concatenated captures in this file, if there are any.
    pub fn joined(&self) -> Option<Notice> {
        self.walk.joints().notice(&self.path)
    }

    pub(crate) fn losses(&self) -> Losses {
        self.walk.losses()
    }

    pub(crate) fn joints(&self) -> Joints {
        self.walk.joints()
    }

    /// Returns how many sections and interfaces the capture has declared so far.
    pub fn sections_and_interfaces(&self) -> (u64, u64) {
        self.walk.sections_and_interfaces()
    }

    /// Returns how many bytes of the file on disk were read so far.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Returns the boundary at which it stopped, if it stopped at its limit.
    pub(crate) fn left_off(&self) -> Option<&WalkPosition> {
        self.left_off.as_ref()
    }

    /// Returns how its results depend on what came before its first record.
    pub(crate) fn effects(&self) -> pcapng::Effects {
        self.walk.effects()
    }

    /// Returns whether it is compressed.
    pub(crate) fn is_packed(&self) -> bool {
        self.packing.is_some()
    }

    /// Returns the mapping of a mapped capture that has not ended and is read to its end, and how
    /// far it was read.
    pub(crate) fn mapped_place(&self) -> Option<(&Mapping, WalkPosition)> {
        let Body::Mapped(mapped) = &self.body else { return None };
        if mapped.is_limited() {
            return None;
        }
        let (mapping, offset) = (mapped.mapping(), mapped.offset());
        let state = self.walk.state_at(mapping.block().bytes(), offset);
        Some((mapping, WalkPosition { offset: offset as u64, state }))
    }

    /// Returns the mapping of a mapped capture, for another pass.
    pub(crate) fn mapping(&self) -> Option<&Mapping> {
        match &self.body {
            Body::Mapped(mapped) => Some(mapped.mapping()),
            _ => None,
        }
    }
}

impl PacketSource for Capture {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        Self::next_batch(self, batch).map_err(|error| SourceError(Box::new(error)))
    }
}

fn recognise(path: &Path, bytes: &[u8], packing: Option<Packing>) -> Result<Format, CaptureError> {
    if bytes.is_empty() {
        return Err(CaptureError::Empty { path: path.to_path_buf() });
    }
    Format::detect(bytes).ok_or_else(|| {
        let why = match packing {
            Some(packing) => format!("the content of the {} is neither pcap nor pcapng", packing.name()),
            None => foreign(bytes).unwrap_or_else(|| String::from("no magic number of a capture format")),
        };
        not_a_capture(path, bytes, why)
    })
}

/// Describes a file of another known format, and how it can be read.
fn foreign(bytes: &[u8]) -> Option<String> {
    let packed = |name: &str, tool: &str| Some(format!("this is {name}; unpack it first: {tool} FILE"));
    let capture = |name: &str| Some(format!("this is {name}; editcap -F pcapng converts it"));
    match bytes {
        [b'B', b'Z', b'h', ..] => packed("bzip2", "bzip2 -dc"),
        [b'P', b'K', 3, 4, ..] => packed("a zip archive", "unzip -p"),
        [b's', b'n', b'o', b'o', b'p', 0, 0, 0, ..] => capture("a capture of snoop"),
        [b'G', b'M', b'B', b'U', ..] => capture("a capture of Network Monitor"),
        _ => None,
    }
}

fn not_a_capture(path: &Path, bytes: &[u8], why: String) -> CaptureError {
    let first: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    CaptureError::NotACapture { path: path.to_path_buf(), first_bytes: first.join(" "), why }
}

/// Reads until `prefix` has the whole file header or section header, or the input ends.
fn read_header(reader: &mut impl Read, format: Format, prefix: &mut Vec<u8>) -> io::Result<()> {
    let header_bytes = match format {
        Format::Pcap { .. } => pcap::FILE_HEADER_BYTES,
        Format::Pcapng => pcapng::section_header_bytes(prefix).min(pcapng::DESCRIPTION_BYTES_MAX),
    };
    if header_bytes > prefix.len() {
        prefix.extend(read_up_to(reader, header_bytes - prefix.len())?);
    }
    Ok(())
}

/// Reads until `count` bytes are there or the input ends.
pub(crate) fn read_up_to(reader: &mut impl Read, count: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(count.min(64 << 10));
    reader.take(count as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

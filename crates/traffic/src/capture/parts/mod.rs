//! Divides a set of captures into consecutive parts, so that several threads can read it at the
//! same time.
//!
//! ```text
//!  files     |  a.pcap        |  b.pcapng            |  c.pcap.gz |
//!  parts     |  0     |  1       |  2        |  3                 |
//!                     ^          ^           ^
//!                     assumed boundaries: where a record seems to begin
//! ```
//!
//! Plain files may be divided internally, compressed files only between each other. The beginning
//! of a record in the middle of a file is not marked, so the [plan](CaptureParts::plan) makes an
//! assumption, and each part reports where it really [ended](super::PartRead::end). A part reads
//! every record that begins before the assumed beginning of the next part. If it ends exactly
//! there, in the state that the next part assumed, both parts have read what one reader would have
//! read. Otherwise the next part is [read again](CaptureParts::unconfirmed) from the end of the
//! previous part. Therefore only the time depends on the assumptions, never the result.
//!
//! # The assumed state of pcapng
//!
//! How a packet block is read depends on the section and the interfaces before it. The plan assumes
//! those described before the first packet of the file, which is right for nearly all files. A
//! later interface needs no second reading, unless a later part has packets of it or describes more
//! interfaces. A section that begins in the middle of a part does not require that the part is read
//! again. All later parts are read again at the same time: the state at the end of a part shows
//! what the next parts should have assumed.
//!
//! # Costs
//!
//! A cut reads the headers of about 128 KiB of records, which are a few pages. A part takes the
//! memory of one [`Capture`]. In pcapng, all boundaries share the list of the interfaces before the
//! first packet. A boundary after further interfaces takes 24 bytes per interface of its section.
pub(in crate::capture) mod boundary;
pub(in crate::capture) mod confirm;
pub(in crate::capture) mod part;
pub(in crate::capture) mod plan;
pub mod segment;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::boundary::{Budget, FileHead};
use super::error::CaptureError;
use super::members::{Member, Members};
use super::open::{Capture, WalkPosition};
use super::overlap::{Overlap, estimate, sort_by_first_time};
use super::part::CapturePart;
use super::plan::{Boundary, Plan};
use super::set_options::{Input, SetOptions, SetOrder};
use super::set_progress::SetProgress;

/// The reason why a set of captures cannot be read in parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCuttable {
    /// Standard input or a named pipe, whose later bytes have not arrived.
    #[error("{} is a pipe, which can only be read sequentially", path.display())]
    Pipe {
        /// The pipe, or `standard input`.
        path: PathBuf,
    },
    /// The set is read several times, and each pass continues the previous one.
    #[error("the input is read several times, one pass after another")]
    Passes,
    /// The set is one compressed file.
    #[error("{} is compressed and can only be unpacked sequentially", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },
    /// The set is one file that is not mapped.
    #[error("{} is not mapped and can only be read sequentially", path.display())]
    NotMapped {
        /// The file.
        path: PathBuf,
    },
    /// Files overlap in time and must be [merged](SetOrder::ByTime).
    #[error("{files} files overlap in time and are merged by one reader")]
    Overlapping {
        /// Number of files that overlap another, according to their first and last packets.
        files: usize,
    },
    /// A range of a pcapng file: its blocks depend on the blocks before the range.
    #[error("{} is pcapng, whose blocks depend on the blocks before them", path.display())]
    Blocks {
        /// Path of the file.
        path: PathBuf,
    },
    /// The search found no beginning of a record inside the file.
    #[error("{} cannot be divided: it is too short, or its records are too long or unusual", path.display())]
    NoBoundary {
        /// Path of the file; of several files, the largest.
        path: PathBuf,
    },
}

/// The reason why a set of captures has no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It cannot be read at all; [`CaptureSet::open`](super::CaptureSet::open) returns the same
    /// error.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// One reader must read it: a [`CaptureSet`](super::CaptureSet).
    #[error(transparent)]
    NotCuttable(#[from] NotCuttable),
}

/// A set of captures, divided into parts.
///
/// # Examples
///
/// In this example, four threads read a capture and together obtain the result of one reader:
///
/// ```
/// use flowloom_traffic::capture::{CaptureParts, CapturePart, Input, PartRead, SetOptions};
/// use flowloom_traffic::packet::{Fill, PacketBatch, PacketSource};
/// # use flowloom_traffic::synth::{Generate, Sample};
/// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("campus.pcap");
/// # let mut campus = Sample::named("campus").expect("a sample").generator();
/// # let mut frame = Vec::new();
/// # let mut writer = PcapWriter::new(std::fs::File::create(&path)?, PcapOptions::default())?;
/// # while let Some(meta) = campus.next_into(&mut frame) {
/// #     writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
/// # }
/// # writer.finish()?;
///
/// fn read(mut part: CapturePart) -> PartRead {
///     let mut batch = PacketBatch::new();
///     while part.next_batch(&mut batch).expect("a file that can be read") != Fill::End {
///         // Packets go here.
///     }
///     part.finish()
/// }
///
/// let plan = CaptureParts::plan(&[Input::Path(path.into())], SetOptions::default(), 4)?;
/// let mut reads = std::thread::scope(|scope| {
///     let parts = (0..plan.len()).map(|k| plan.open(k));
///     let parts: Vec<CapturePart> = parts.collect::<Result<_, _>>()?;
///     let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| read(part))).collect();
///     let reads = threads.into_iter().map(|thread| thread.join().unwrap());
///     Ok::<_, Box<dyn std::error::Error>>(reads.collect::<Vec<_>>())
/// })?;
/// loop {
///     let again = plan.unconfirmed(&reads);
///     if again.is_empty() {
///         break;
///     }
///     // The earlier results of these parts do not count.
///     for (k, begin) in again {
///         reads[k] = read(plan.open_at(k, begin)?);
///     }
/// }
/// let summary = plan.summary(&reads);
/// summary.check_decodable()?;
/// assert_eq!((plan.len(), summary.files[0].packets), (4, 6000));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct CaptureParts {
    plan: Arc<Plan>,
}

impl CaptureParts {
    /// Maximum number of parts of a set. Each part takes a search.
    pub const PARTS_MAX: usize = 1024;

    /// Estimates how the files of a set overlap in time, from their first packets and their last 64
    /// KiB.
    ///
    /// If times go back inside a file, the estimate may be wrong.
    /// [`SetSummary::overlapped`](super::SetSummary::overlapped) and
    /// [`CaptureSet::overlapped`](super::CaptureSet::overlapped) are exact after the run. Pipes
    /// count as unknown.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`CaptureSet::open`](super::CaptureSet::open).
    pub fn overlap(inputs: &[Input], options: SetOptions) -> Result<Overlap, CaptureError> {
        let options = SetOptions { order: SetOrder::ByTime, ..options };
        let mut members = Members::list(inputs, options)?.list;
        sort_by_first_time(&mut members);
        estimate(&members, options.capture)
    }

    /// Divides a set of captures into at most `parts` consecutive parts of about equal bytes, and
    /// at most 1024.
    ///
    /// The files are those of [`CaptureSet::open`](super::CaptureSet::open), in the same order.
    /// There are fewer parts if no record seems to begin near a cut.
    ///
    /// [By time](SetOrder::ByTime), files that do not overlap are read one after another, in the
    /// order of their first times. The plan [estimates](Self::overlap) whether they overlap. Call
    /// [`SetSummary::overlapped`](super::SetSummary::overlapped) at the end to verify that they did
    /// not.
    ///
    /// # Errors
    ///
    /// Returns [`PlanError::Capture`] for inputs that cannot be read; [`PlanError::NotCuttable`] if
    /// `parts` is more than one and the set cannot be divided.
    pub fn plan(inputs: &[Input], options: SetOptions, parts: usize) -> Result<Self, PlanError> {
        Self::of_cuts(inputs, options, Cuts::Equal(parts))
    }

    /// Divides a set of captures near given offsets: a part begins at each offset, or at the first
    /// record after it.
    ///
    /// Offsets count the bytes of all files in reading order, and may be in any order. If several
    /// offsets lead to the same record, a single part begins there. Offsets after the last record,
    /// and all part boundaries after the first 1023, have no effect.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`plan`](Self::plan).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_traffic::capture::{CaptureParts, Input, SetOptions};
    /// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("ten.pcap");
    /// # let mut writer = PcapWriter::new(std::fs::File::create(&path)?, PcapOptions::default())?;
    /// # for second in 0..10 {
    /// #     writer.write(second * 1_000_000_000, 60, &[0; 60])?;
    /// # }
    /// # writer.finish()?;
    /// // Records of 76 bytes follow a header of 24 bytes.
    /// let (inputs, options) = ([Input::Path(path)], SetOptions::default());
    /// let plan = CaptureParts::plan_at(&inputs, options, &[100, 150, 170])?;
    /// assert_eq!((plan.len(), plan.begin(1).offset(), plan.begin(2).offset()), (3, 100, 176));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn plan_at(inputs: &[Input], options: SetOptions, offsets: &[u64]) -> Result<Self, PlanError> {
        Self::of_cuts(inputs, options, Cuts::Near(offsets))
    }

    fn of_cuts(inputs: &[Input], options: SetOptions, cuts: Cuts<'_>) -> Result<Self, PlanError> {
        let is_cut = match cuts {
            Cuts::Equal(parts) => parts > 1,
            Cuts::Near(offsets) => !offsets.is_empty(),
        };
        let members = Members::list(inputs, options)?;
        if let Some(pipe) = members.list.iter().find(|member| member.bytes.is_none()) {
            return Err(NotCuttable::Pipe { path: pipe.path().to_path_buf() }.into());
        }
        if options.passes > 1 {
            return Err(NotCuttable::Passes.into());
        }
        let progress = Arc::new(SetProgress::of_bytes(members.total_bytes(1)));
        let Members { list: mut files, notices } = members;
        let is_by_time = options.order == SetOrder::ByTime && files.len() > 1;
        if is_by_time {
            sort_by_first_time(&mut files);
            let overlap = estimate(&files, options.capture)?;
            if overlap.files > 0 && is_cut {
                return Err(NotCuttable::Overlapping { files: overlap.files }.into());
            }
        }
        let begins = cut(&mut files, options, cuts)?;
        if begins.len() == 1 && is_cut {
            return Err(reason(&files, options).into());
        }
        let end = Boundary::start_of(files.len());
        Ok(Self { plan: Arc::new(Plan { files, options, is_by_time, notices, begins, end, progress }) })
    }

    /// Plans one part: the records of a classic capture that begin in a range of its bytes.
    ///
    /// The part begins at the first record that seems to begin in the range, and ends before the
    /// first one that seems to begin behind it. Ranges that adjoin yield each record once if each
    /// part [ended](super::PartRead::end) where the next one [begins](Self::begin), which the
    /// caller compares by [`Boundary::token`]. Ranges of a file may be read by processes that share
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capture`] for an input that cannot be read; [`PlanError::NotCuttable`] for
    /// pcapng, and for what is compressed, a pipe, or not mapped.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_traffic::capture::{CaptureParts, Input, SetOptions};
    /// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("ten.pcap");
    /// # let mut writer = PcapWriter::new(std::fs::File::create(&path)?, PcapOptions::default())?;
    /// # for second in 0..10 {
    /// #     writer.write(second * 1_000_000_000, 60, &[0; 60])?;
    /// # }
    /// # writer.finish()?;
    /// // Records of 76 bytes follow a header of 24 bytes.
    /// let options = SetOptions::default();
    /// let plan = |range| CaptureParts::range(Input::Path(path.clone()), options, range);
    /// let (first, second) = (plan(0..150)?, plan(150..784)?);
    /// assert_eq!((first.len(), first.end().offset(), second.begin(0).offset()), (1, 176, 176));
    /// assert_eq!(first.end().token(), second.begin(0).token());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn range(input: Input, options: SetOptions, bytes: Range<u64>) -> Result<Self, PlanError> {
        let members = Members::list(&[input], options)?;
        let progress = Arc::new(SetProgress::of_bytes(members.total_bytes(1)));
        let Members { list: mut files, notices } = members;
        let path = files.first().map(|file| file.path().to_path_buf()).unwrap_or_default();
        if files.len() != 1 {
            return Err(NotCuttable::NoBoundary { path }.into());
        }
        let [begin, end] = range_of(&mut files, 0, options, bytes)?;
        let begins = vec![begin];
        Ok(Self {
            plan: Arc::new(Plan { files, options, is_by_time: false, notices, begins, end, progress }),
        })
    }

    /// Returns the assumed end of the last part.
    pub fn end(&self) -> &Boundary {
        &self.plan.end
    }

    /// Returns the number of parts, at least one.
    #[expect(clippy::len_without_is_empty, reason = "there is always a part")]
    pub fn len(&self) -> usize {
        self.plan.begins.len()
    }

    /// Returns the assumed beginning of a part.
    ///
    /// # Panics
    ///
    /// Panics if there is no part with this index.
    pub fn begin(&self, part: usize) -> &Boundary {
        &self.plan.begins[part]
    }

    /// Opens a part at its assumed beginning.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError`] when its first file cannot be read any more.
    ///
    /// # Panics
    ///
    /// Panics if there is no part with this index.
    pub fn open(&self, part: usize) -> Result<CapturePart, CaptureError> {
        let progress = Some(Arc::clone(&self.plan.progress));
        CapturePart::new(Arc::clone(&self.plan), part, self.plan.begins[part].clone(), progress)
    }

    /// Opens a part again at a boundary that [`unconfirmed`](Self::unconfirmed) returned. Its bytes
    /// do not count as [progress](Self::progress) again.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open).
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`open`](Self::open), and if the boundary belongs to another
    /// plan.
    pub fn open_at(&self, part: usize, begin: Boundary) -> Result<CapturePart, CaptureError> {
        assert!(part < self.len(), "part {part} of {}", self.len());
        let file = self.plan.files.get(begin.file());
        let is_known = begin.place.is_none() || file.is_some_and(|file| file.mapping.is_some());
        assert!(is_known, "a boundary inside a file that this plan does not divide");
        CapturePart::new(Arc::clone(&self.plan), part, begin, None)
    }

    /// Returns the counters for a progress bar.
    pub fn progress(&self) -> Arc<SetProgress> {
        Arc::clone(&self.plan.progress)
    }

    /// Returns the paths of the set in reading order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.plan.files.iter().map(Member::path)
    }

    /// Returns the bytes of the set on disk, an upper limit for sizing tables.
    pub fn bytes_on_disk(&self) -> u64 {
        self.plan.files.iter().filter_map(|file| file.bytes).sum()
    }

    pub(crate) fn shared(&self) -> &Plan {
        &self.plan
    }
}

/// Returns where a range of the bytes of a classic capture begins and ends, and maps the file.
pub(crate) fn range_of(
    files: &mut [Member],
    file: usize,
    options: SetOptions,
    bytes: Range<u64>,
) -> Result<[Boundary; 2], PlanError> {
    let path = files[file].path().to_path_buf();
    if files[file].bytes.is_none() {
        return Err(NotCuttable::Pipe { path }.into());
    }
    let mut search = Search::default();
    let begin = boundary_from(files, file, bytes.start, options, &mut search)?;
    let end = boundary_from(files, file, bytes.end.max(bytes.start), options, &mut search)?;
    if files[file].mapping.is_none() {
        return Err(reason(&files[file..=file], options).into());
    }
    if search.head.is_some_and(|(_, head)| head.is_of_blocks()) {
        return Err(NotCuttable::Blocks { path }.into());
    }
    Ok([begin, end])
}

/// Where to cut a set.
#[derive(Clone, Copy, Debug)]
enum Cuts<'a> {
    /// Into this many parts of about equal bytes.
    Equal(usize),
    /// Near these offsets.
    Near(&'a [u64]),
}

impl Cuts<'_> {
    /// Returns the offsets at which to cut a set of `total` bytes, in ascending order.
    fn offsets(self, total: u64) -> Vec<u64> {
        let mut offsets: Vec<u64> = match self {
            Self::Equal(parts) => {
                let parts = parts.min(CaptureParts::PARTS_MAX) as u64;
                let offset = |part| u128::from(total) * u128::from(part) / u128::from(parts);
                let is_below = "a share of the bytes is not more than all of them";
                (1..parts).map(|part| u64::try_from(offset(part)).expect(is_below)).collect()
            }
            Self::Near(offsets) => offsets.to_vec(),
        };
        offsets.sort_unstable();
        offsets.truncate(CaptureParts::PARTS_MAX - 1);
        offsets
    }
}

/// State that the planner keeps from one search to the next.
#[derive(Debug, Default)]
struct Search {
    /// The beginning of the file that was searched last, and the file's index.
    head: Option<(usize, FileHead)>,
    budget: Budget,
}

/// Returns the beginnings of the parts. Files that are cut inside are mapped.
fn cut(files: &mut [Member], options: SetOptions, cuts: Cuts<'_>) -> Result<Vec<Boundary>, CaptureError> {
    let bytes_of = |file: &Member| file.bytes.unwrap_or(0);
    let total: u64 = files.iter().map(bytes_of).sum();
    let mut begins = vec![Boundary::start_of(0)];
    let (mut file, mut bytes_before) = (0, 0);
    let mut search = Search::default();
    for goal in cuts.offsets(total) {
        while file < files.len() && bytes_before + bytes_of(&files[file]) <= goal {
            bytes_before += bytes_of(&files[file]);
            file += 1;
        }
        if file == files.len() {
            break;
        }
        let boundary = boundary_from(files, file, goal - bytes_before, options, &mut search)?;
        let is_further = begins.last().is_some_and(|last| last.position() < boundary.position());
        if is_further && boundary.file() < files.len() {
            begins.push(boundary);
        }
    }
    Ok(begins)
}

/// Returns the boundary at or after an offset of a file: where a record seems to begin, else the
/// beginning or the end of the file.
fn boundary_from(
    files: &mut [Member],
    file: usize,
    offset: u64,
    options: SetOptions,
    search: &mut Search,
) -> Result<Boundary, CaptureError> {
    let bytes = files[file].bytes.unwrap_or(0);
    Ok(match place_from(&mut files[file], file, offset, options, search)? {
        _ if offset == 0 => Boundary::start_of(file),
        Some(place) => Boundary::inside(file, place),
        None if offset <= bytes / 2 => Boundary::start_of(file),
        None => Boundary::start_of(file + 1),
    })
}

/// Returns the offset at or after `offset` where a record seems to begin, if the file can be cut.
fn place_from(
    member: &mut Member,
    file: usize,
    offset: u64,
    options: SetOptions,
    search: &mut Search,
) -> Result<Option<WalkPosition>, CaptureError> {
    if member.mapping.is_none() {
        let capture = match Capture::open_unless_pipe(member.path(), options.capture)? {
            Ok(capture) => capture,
            Err(_pipe) => return Ok(None),
        };
        member.mapping = capture.mapping().cloned();
    }
    let Some(mapping) = &member.mapping else { return Ok(None) };
    let bytes = mapping.block().bytes();
    let Search { head, budget } = search;
    if head.as_ref().is_none_or(|(known, _)| *known != file) {
        *head = FileHead::parse(bytes).map(|head| (file, head));
    }
    let (Some((_, head)), Ok(from)) = (head, usize::try_from(offset)) else { return Ok(None) };
    Ok(head
        .record_from(bytes, from, budget)
        // The beginning of the file lies before the first record.
        .filter(|at| *at > head.first())
        .map(|at| WalkPosition { offset: at as u64, state: head.state_at(bytes, at) }))
}

/// Returns why a set has only one part.
fn reason(files: &[Member], options: SetOptions) -> NotCuttable {
    let largest = files.iter().max_by_key(|file| file.bytes);
    let path = largest.map(|file| file.path().to_path_buf()).unwrap_or_default();
    match largest {
        Some(file) if file.mapping.is_none() && !options.capture.map => NotCuttable::NotMapped { path },
        Some(file) if file.mapping.is_none() => NotCuttable::Compressed { path },
        _ => NotCuttable::NoBoundary { path },
    }
}

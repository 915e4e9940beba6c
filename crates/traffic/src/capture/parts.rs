//! A set of captures cut into consecutive parts, so that several threads read it at the same time.
//!
//! ```text
//!  files     |  a.pcap        |  b.pcapng            |  c.pcap.gz |
//!  parts     |  0     |  1       |  2        |  3                 |
//!                     ^          ^           ^
//!                     assumed boundaries: where a record seems to begin
//! ```
//!
//! Plain files are cut inside, compressed ones only between each other. Where a record begins in the middle of a file
//! is not marked, so the [plan](CaptureParts::plan) assumes it, and each part says where it really
//! [ended](super::PartRead::end). A part reads every record that begins before the next part's assumed begin; when it ends
//! exactly there, in the state that the next part assumed, both have read what one reader would have read. Otherwise the
//! next part is [read again](CaptureParts::unconfirmed) from where the one before it ended. So the result never depends
//! on the assumptions, only the time does.
//!
//! # The assumed state of pcapng
//!
//! How a packet block is read depends on the section and the interfaces before it. The plan assumes those described
//! before the first packet of the file, which is right for nearly all files. Interfaces that begin later need no second
//! reading, unless a later part has packets of them or describes more; nor do sections that begin in the middle, in the
//! part where they begin. Parts behind are read again, all of them at the same time: the state that a part ends in says
//! what the next ones should have assumed.
//!
//! # Costs
//!
//! A cut costs the headers of some 128 KiB of records, a few pages. A part costs the memory of one [`Capture`], a
//! boundary in pcapng 24 bytes for each interface of its section.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::boundary::{Budget, FileHead};
use super::error::CaptureError;
use super::members::{Member, Members};
use super::notice::Notice;
use super::open::{Capture, Place};
use super::overlap::{estimate, sort_by_first_time};
use super::part::CapturePart;
use super::set::{Input, SetOptions, SetOrder, SetProgress};

/// The most parts of a set: each takes a search, and its first file a descriptor.
const PARTS_MAX: usize = 1024;

/// Why a set of captures is not read in parts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCuttable {
    /// Standard input or a named pipe: what comes later is not there yet.
    #[error("{} is a pipe, which is read from front to back", path.display())]
    Pipe {
        /// The pipe, or `standard input`.
        path: PathBuf,
    },
    /// The set is read several times, and each pass continues the one before.
    #[error("the input is read several times, each pass behind the one before")]
    Passes,
    /// The set is one compressed file.
    #[error("{} is compressed, and is unpacked from front to back", path.display())]
    Compressed {
        /// The file.
        path: PathBuf,
    },
    /// The set is one file that is not mapped.
    #[error("{} is not mapped, and is read from front to back", path.display())]
    NotMapped {
        /// The file.
        path: PathBuf,
    },
    /// Files overlap in time and are to be [merged](SetOrder::ByTime).
    #[error("{files} files overlap in time, and are merged by one reader")]
    Overlapping {
        /// The files that overlap another, as far as their first and last packets tell.
        files: usize,
    },
    /// No record was found to begin in the middle.
    #[error("{} has no place to be cut: it is too short, or its records are too long or unusual", path.display())]
    NoBoundary {
        /// The file, the largest of several.
        path: PathBuf,
    },
}

/// Why a set of captures has no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// It cannot be read at all, as [`CaptureSet::open`](super::CaptureSet::open) says too.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// It has to be read by one reader, a [`CaptureSet`](super::CaptureSet).
    #[error(transparent)]
    NotCuttable(#[from] NotCuttable),
}

/// A place in a set of captures where one part ends and the next begins, with what reading depends on there.
#[derive(Clone, Debug)]
pub struct Boundary {
    file: usize,
    /// `None` where the file begins.
    pub(super) place: Option<Place>,
}

impl Boundary {
    pub(super) fn start_of(file: usize) -> Self {
        Self { file, place: None }
    }

    pub(super) fn inside(file: usize, place: Place) -> Self {
        Self { file, place: Some(place) }
    }

    /// Returns the index of the file in the set. At the end of the set it is the number of files.
    pub fn file(&self) -> usize {
        self.file
    }

    /// Returns the bytes before it in the file.
    pub fn offset(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.offset)
    }

    /// Returns what boundaries are ordered by.
    pub(super) fn position(&self) -> (usize, u64) {
        (self.file, self.offset())
    }
}

/// A set of captures, cut into parts.
///
/// # Examples
///
/// Four threads read a capture, and together they find what one reader finds:
///
/// ```
/// use flowloom_traffic::capture::{CaptureParts, CapturePart, Input, PartRead, SetOptions};
/// use flowloom_traffic::packet::{Fill, PacketBatch, PacketSource};
/// # use flowloom_traffic::synth::{Generate, Sample};
/// # use flowloom_traffic::write::{PcapOptions, PcapWriter};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("campus.pcap");
/// # let (mut campus, mut frame) = (Sample::named("campus").expect("a sample").generator(), Vec::new());
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
///     let parts: Vec<CapturePart> = (0..plan.len()).map(|k| plan.open(k)).collect::<Result<_, _>>()?;
///     let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| read(part))).collect();
///     Ok::<_, Box<dyn std::error::Error>>(threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>())
/// })?;
/// loop {
///     let again = plan.unconfirmed(&reads);
///     if again.is_empty() {
///         break;
///     }
///     // What these parts found counts no more.
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

/// What all parts of a set share.
#[derive(Debug)]
pub(super) struct Plan {
    /// The files. Those that are cut inside are mapped.
    pub(super) files: Vec<Member>,
    pub(super) options: SetOptions,
    /// There are several files, which must not overlap in time.
    pub(super) is_by_time: bool,
    pub(super) notices: Vec<Notice>,
    /// Where each part is assumed to begin.
    pub(super) begins: Vec<Boundary>,
    pub(super) progress: Arc<SetProgress>,
}

impl Plan {
    /// Returns where the part behind `part` is assumed to begin: `part` reads what begins before.
    pub(super) fn limit(&self, part: usize) -> Boundary {
        self.begins.get(part + 1).cloned().unwrap_or_else(|| Boundary::start_of(self.files.len()))
    }
}

impl CaptureParts {
    /// Cuts a set of captures into at most `parts` consecutive parts of about as many bytes each, and at most 1024.
    ///
    /// The files are those of [`CaptureSet::open`](super::CaptureSet::open), in the same order. There are fewer parts
    /// where no record seems to begin near a cut.
    ///
    /// To be read [by time](SetOrder::ByTime), files that do not overlap are read one behind the other, in the order of their
    /// first times. Whether they overlap is [estimated](Self::overlap) now; that they did not, is to be asked
    /// of [`SetSummary::overlapped`](super::SetSummary::overlapped) at the end.
    ///
    /// # Errors
    ///
    /// [`PlanError::Capture`] for inputs that cannot be read; [`PlanError::NotCuttable`] where more than one part was
    /// asked for and there would be one.
    pub fn plan(inputs: &[Input], options: SetOptions, parts: usize) -> Result<Self, PlanError> {
        Self::of_cuts(inputs, options, Cuts::Equal(parts))
    }

    /// Cuts a set of captures near given offsets: at each, or at the first record found behind it, a part begins.
    ///
    /// Offsets count the bytes of all files in reading order, and may be in any order. Those that lead to the same record
    /// make one cut; those behind the last record, or behind the first 1023, make none.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
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
    /// // Behind a header of 24 bytes are records of 76.
    /// let plan = CaptureParts::plan_at(&[Input::Path(path)], SetOptions::default(), &[100, 150, 170])?;
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
        let members = Members::of(inputs, options)?;
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
        Ok(Self { plan: Arc::new(Plan { files, options, is_by_time, notices, begins, progress }) })
    }

    /// Returns how many parts there are, one at least.
    #[expect(clippy::len_without_is_empty, reason = "there is always a part")]
    pub fn len(&self) -> usize {
        self.plan.begins.len()
    }

    /// Returns where a part is assumed to begin.
    ///
    /// # Panics
    ///
    /// Where there is no part of this index.
    pub fn begin(&self, part: usize) -> &Boundary {
        &self.plan.begins[part]
    }

    /// Opens a part where it is assumed to begin.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] when its first file cannot be read any more.
    ///
    /// # Panics
    ///
    /// Where there is no part of this index.
    pub fn open(&self, part: usize) -> Result<CapturePart, CaptureError> {
        let progress = Some(Arc::clone(&self.plan.progress));
        CapturePart::new(Arc::clone(&self.plan), part, self.plan.begins[part].clone(), progress)
    }

    /// Opens a part at a boundary that [`unconfirmed`](Self::unconfirmed) gave, to read it again. Its bytes do not count as
    /// [progress](Self::progress) once more.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    ///
    /// # Panics
    ///
    /// As [`open`](Self::open), and where the boundary is of another plan.
    pub fn open_at(&self, part: usize, begin: Boundary) -> Result<CapturePart, CaptureError> {
        assert!(part < self.len(), "part {part} of {}", self.len());
        let file = self.plan.files.get(begin.file());
        let is_known = begin.place.is_none() || file.is_some_and(|file| file.mapping.is_some());
        assert!(is_known, "a boundary inside of a file that this plan does not cut");
        CapturePart::new(Arc::clone(&self.plan), part, begin, None)
    }

    /// Returns the counters that a progress bar reads.
    pub fn progress(&self) -> Arc<SetProgress> {
        Arc::clone(&self.plan.progress)
    }

    /// Returns the paths of the set in reading order.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.plan.files.iter().map(Member::path)
    }

    /// Returns how many bytes the set has on disk, as a bound for sizing tables.
    pub fn bytes_on_disk(&self) -> u64 {
        self.plan.files.iter().filter_map(|file| file.bytes).sum()
    }

    pub(super) fn shared(&self) -> &Plan {
        &self.plan
    }
}

/// Where a set is to be cut.
#[derive(Clone, Copy, Debug)]
enum Cuts<'a> {
    /// Into this many parts of about as many bytes each.
    Equal(usize),
    /// Near these offsets.
    Near(&'a [u64]),
}

impl Cuts<'_> {
    /// Returns the offsets to cut a set of `total` bytes at, ascending.
    fn offsets(self, total: u64) -> Vec<u64> {
        let mut offsets: Vec<u64> = match self {
            Self::Equal(parts) => {
                let parts = parts.min(PARTS_MAX) as u64;
                let offset = |part| u128::from(total) * u128::from(part) / u128::from(parts);
                let is_below = "a share of the bytes is not more than all of them";
                (1..parts).map(|part| u64::try_from(offset(part)).expect(is_below)).collect()
            }
            Self::Near(offsets) => offsets.to_vec(),
        };
        offsets.sort_unstable();
        offsets.truncate(PARTS_MAX - 1);
        offsets
    }
}

/// What is kept from one search to the next.
#[derive(Debug, Default)]
struct Search {
    /// The beginning of the file that was searched last, and its index.
    head: Option<(usize, FileHead)>,
    budget: Budget,
}

/// Returns where parts begin. Files that are cut inside are mapped.
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
        let offset = goal - bytes_before;
        let boundary = match place_from(&mut files[file], file, offset, options, &mut search)? {
            _ if offset == 0 => Boundary::start_of(file),
            Some(place) => Boundary::inside(file, place),
            None if offset <= bytes_of(&files[file]) / 2 => Boundary::start_of(file),
            None => Boundary::start_of(file + 1),
        };
        let is_further = begins.last().is_some_and(|last| last.position() < boundary.position());
        if is_further && boundary.file() < files.len() {
            begins.push(boundary);
        }
    }
    Ok(begins)
}

/// Returns where a record seems to begin at `offset` of a file or behind it, if it is one that can be cut.
fn place_from(
    member: &mut Member,
    file: usize,
    offset: u64,
    options: SetOptions,
    search: &mut Search,
) -> Result<Option<Place>, CaptureError> {
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
        *head = FileHead::of(bytes).map(|head| (file, head));
    }
    let (Some((_, head)), Ok(from)) = (head, usize::try_from(offset)) else { return Ok(None) };
    Ok(head
        .record_from(bytes, from, budget)
        // In front of the first record is the beginning of the file.
        .filter(|at| *at > head.first())
        .map(|at| Place { offset: at as u64, state: head.state_at(bytes, at) }))
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

//! Several captures as one source: files in order, directories by first timestamp, any number of passes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_packet::{Fill, LinkType, PacketBatch, PacketSource, SourceError};

use super::background;
use super::error::{CaptureError, list};
use super::map::Mapping;
use super::notice::Notice;
use super::open::{Capture, CaptureOptions};
use super::opening::Opening;
use super::patient::{GiveUp, Patient};
use super::stream::Reading;

/// What standard input is called in reports.
const STDIN: &str = "standard input";
/// The most files taken from one directory: more would hold too many names in memory.
const FILES_MAX: usize = 1 << 20;

/// Where a capture comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// Standard input.
    Stdin,
    /// A file, a pipe, or a directory, which stands for all captures in it.
    Path(PathBuf),
}

impl Input {
    /// Returns the input a command-line argument names; `-` is standard input.
    pub fn from_argument(argument: &Path) -> Self {
        if argument.as_os_str() == "-" { Self::Stdin } else { Self::Path(argument.to_path_buf()) }
    }
}

/// How a set of captures is read.
///
/// Fields may be added in any version: a literal ends with `..SetOptions::default()`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetOptions {
    /// How each capture is opened.
    pub capture: CaptureOptions,
    /// How often the whole set is read; `u32::MAX` stands for ever.
    pub passes: u32,
}

impl Default for SetOptions {
    fn default() -> Self {
        Self { capture: CaptureOptions::default(), passes: 1 }
    }
}

/// How far a set was read, for a progress bar on another thread.
#[derive(Debug, Default)]
pub struct SetProgress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl SetProgress {
    /// Returns the bytes read so far (as they lie on disk), over all passes.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes to be read over all passes; 0 where that is not known (a pipe, for ever).
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }
}

/// One file of a set, as far as it is known.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileSummary {
    /// Its path, or `standard input`.
    pub path: PathBuf,
    /// Format, in words.
    pub format: String,
    /// Link types, each once.
    pub links: Vec<LinkType>,
    /// Sections.
    pub sections: u64,
    /// Interfaces.
    pub interfaces: u64,
    /// Packets read from it in one pass.
    pub packets: u64,
    /// Packets whose stated captured length does not fit into their record.
    pub lying_lengths: u64,
}

impl FileSummary {
    /// Returns the summary of an input that is no file, such as an interface: of no section, and with no packet read yet.
    #[must_use]
    pub fn of_interface(name: impl Into<PathBuf>, format: String, link: LinkType) -> Self {
        Self {
            path: name.into(),
            format,
            links: vec![link],
            sections: 0,
            interfaces: 1,
            packets: 0,
            lying_lengths: 0,
        }
    }

    fn of(capture: &Capture) -> Self {
        let (sections, interfaces) = capture.sections_and_interfaces();
        Self {
            path: capture.path().to_path_buf(),
            format: capture.describe(),
            links: capture.links().to_vec(),
            sections,
            interfaces,
            packets: capture.packets(),
            lying_lengths: capture.lying_lengths(),
        }
    }
}

#[derive(Debug)]
struct Member {
    input: Input,
    /// The mapping, kept for the next pass.
    mapping: Option<Mapping>,
}

/// A source that reads captures one after the other.
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
///         // A pipe says nothing for the moment.
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
    give_up: GiveUp,
    current: Option<Capture>,
    /// The next one, a pipe whose header has not come.
    opening: Option<Opening>,
    next_member: usize,
    pass: u32,
    /// Nanoseconds added to each time of this pass.
    shift_ns: u64,
    first_ns: u64,
    last_ns: u64,
    packets_of_pass: u64,
    packets: u64,
    notices: Vec<Notice>,
    /// What later passes need not say again.
    noticed: BTreeSet<Notice>,
    /// Files of this pass that have ended.
    files: Vec<FileSummary>,
    /// Files of the first pass, when it has ended.
    whole_pass: Vec<FileSummary>,
    progress: Arc<SetProgress>,
    done_bytes: u64,
    decodable_members: usize,
    undecodable: Option<(PathBuf, Vec<LinkType>)>,
}

impl CaptureSet {
    /// Opens a set: every regular file is looked at now, so that a mistake shows before the run.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] for the first input that cannot be read, is no capture, or cannot be decoded at all.
    pub fn open(inputs: &[Input], options: SetOptions) -> Result<Self, CaptureError> {
        background::remember_cpus();
        let mut members = Vec::new();
        let mut notices = Vec::new();
        let mut total_bytes = Some(0_u64);
        if inputs.iter().filter(|input| **input == Input::Stdin).count() > 1
            || (inputs.contains(&Input::Stdin) && options.passes > 1)
        {
            return Err(CaptureError::ReadOnce { path: STDIN.into() });
        }
        let several = inputs.len() > 1;
        for input in inputs {
            let Input::Path(path) = input else {
                members.push(Member { input: input.clone(), mapping: None });
                total_bytes = None;
                continue;
            };
            let metadata = std::fs::metadata(path)
                .map_err(|source| CaptureError::Io { path: path.clone(), source })?;
            if metadata.is_dir() {
                for (path, bytes) in captures_of(path, options.capture, FILES_MAX, &mut notices)? {
                    members.push(Member { input: Input::Path(path), mapping: None });
                    total_bytes = total_bytes.map(|total| total + bytes);
                }
            } else {
                if metadata.is_file() {
                    let capture = Capture::open(path, options.capture)?;
                    let links = capture.links();
                    if !several && !links.is_empty() && !links.iter().any(|link| link.is_supported()) {
                        return Err(CaptureError::NothingDecodable {
                            path: path.clone(),
                            links: links.to_vec(),
                        });
                    }
                    total_bytes = total_bytes.map(|total| total + metadata.len());
                } else {
                    if options.passes > 1 {
                        return Err(CaptureError::ReadOnce { path: path.clone() });
                    }
                    total_bytes = None;
                }
                members.push(Member { input: input.clone(), mapping: None });
            }
        }
        let total = match (total_bytes, options.passes) {
            (Some(bytes), passes) if passes != u32::MAX => bytes.saturating_mul(u64::from(passes.max(1))),
            _ => 0,
        };
        Ok(Self {
            members,
            options,
            give_up: GiveUp::default(),
            current: None,
            opening: None,
            next_member: 0,
            pass: 0,
            shift_ns: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            packets_of_pass: 0,
            packets: 0,
            notices,
            noticed: BTreeSet::new(),
            files: Vec::new(),
            whole_pass: Vec::new(),
            progress: Arc::new(SetProgress {
                done_bytes: AtomicU64::new(0),
                total_bytes: AtomicU64::new(total),
            }),
            done_bytes: 0,
            decodable_members: 0,
            undecodable: None,
        })
    }

    /// Asks `stopped` again and again while a pipe says nothing: once it says so, the pipe counts as ended where it is. A pipe that is silent
    /// is [`Fill::Starved`], with or without it, also one whose header has not come.
    pub fn stop_when(&mut self, stopped: impl Fn() -> bool + Send + Sync + 'static) {
        self.give_up = GiveUp::when(stopped);
    }

    /// Returns the counters that a progress bar reads.
    pub fn progress(&self) -> Arc<SetProgress> {
        Arc::clone(&self.progress)
    }

    /// Returns what is to be known about the inputs; complete once the source has ended.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Returns the files in reading order as a whole pass finds them; in the first pass, those reached, the last as far as it was
    /// read.
    pub fn files(&self) -> Vec<FileSummary> {
        if !self.whole_pass.is_empty() {
            return self.whole_pass.clone();
        }
        self.files.iter().cloned().chain(self.current.as_ref().map(FileSummary::of)).collect()
    }

    /// Fails where nothing of what was read can be decoded and no input is left that was not begun, nor a pipe whose header has not come: for
    /// who stops before the end, which fails for the same reason.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NothingDecodable`] for the first input of a link type that is not decoded.
    pub fn check_decodable(&self) -> Result<(), CaptureError> {
        let is_some_unknown = self.next_member < self.members.len() || self.opening.is_some();
        if self.decodable_members > 0 || is_some_unknown {
            return Ok(());
        }
        let links = self.current.as_ref().map(Capture::links).filter(|links| !links.is_empty());
        let current = match links {
            Some(links) if links.iter().any(|link| link.is_supported()) => return Ok(()),
            links => self.current.as_ref().zip(links).map(|(capture, links)| (capture.path(), links)),
        };
        let first = self.undecodable.as_ref().map(|(path, links)| (path.as_path(), links.as_slice()));
        match first.or(current) {
            Some((path, links)) => {
                Err(CaptureError::NothingDecodable { path: path.to_path_buf(), links: links.to_vec() })
            }
            None => Ok(()),
        }
    }

    /// Returns how many packets were yielded, over all passes. A run that stops early may leave some of the last
    /// batch unused; they are the last file's.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Returns the paths of the set in reading order; standard input has its name in words.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.members.iter().map(|member| match &member.input {
            Input::Stdin => Path::new(STDIN),
            Input::Path(path) => path.as_path(),
        })
    }

    /// Returns how many bytes of plain capture the set has on disk, as a bound for sizing tables: `None` where an
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

    /// Opens the next capture, or goes on with it: `Packets` when it is open, `Starved` while it is a pipe whose header has not come,
    /// `End` when there is none.
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
                // Nothing came before it was given up: what it is stays unknown.
                Err(_) if self.give_up.is_stopped() => {
                    self.opening = Some(opening);
                    Ok(Fill::End)
                }
                Err(error) => Err(error),
            };
        }
        if self.next_member == self.members.len() && !self.next_pass() {
            return Ok(Fill::End);
        }
        let options = self.options.capture;
        let member = &mut self.members[self.next_member];
        self.next_member += 1;
        let (path, pipe) = match (&member.input, &member.mapping) {
            (Input::Stdin, _) => {
                let path = Path::new(STDIN);
                let stdin = Patient::stdin_until(self.give_up.clone())
                    .map_err(|source| CaptureError::Io { path: path.to_path_buf(), source })?;
                if stdin.is_file() {
                    self.current = Some(Capture::read_by(path, stdin, Reading::OwnThread, options)?);
                    return Ok(Fill::Packets);
                }
                (path, stdin)
            }
            (Input::Path(path), Some(mapping)) => {
                self.current = Some(Capture::mapped(path, mapping.clone())?);
                return Ok(Fill::Packets);
            }
            (Input::Path(path), None) => match Capture::open_unless_pipe(path, options)? {
                Ok(capture) => {
                    if self.options.passes > 1 {
                        member.mapping = capture.mapping().cloned();
                    }
                    self.current = Some(capture);
                    return Ok(Fill::Packets);
                }
                Err(pipe) => (path.as_path(), Patient::new(pipe, self.give_up.clone())),
            },
        };
        self.opening = Some(Opening::new(path, pipe, options));
        self.open_next()
    }

    /// Begins another pass, later by the span of the set and the mean gap between its packets. There is none where nothing was found, or
    /// nothing that can be decoded.
    fn next_pass(&mut self) -> bool {
        let again = self.options.passes == u32::MAX || self.pass + 1 < self.options.passes;
        if !again || self.decodable_members == 0 || self.packets_of_pass == 0 {
            return false;
        }
        let span = self.last_ns.saturating_sub(self.first_ns);
        let gap = (span / self.packets_of_pass.max(1)).max(1);
        self.shift_ns = self.shift_ns.saturating_add(span).saturating_add(gap);
        self.pass = self.pass.wrapping_add(1);
        self.next_member = 0;
        self.packets_of_pass = 0;
        let files = std::mem::take(&mut self.files);
        if self.whole_pass.is_empty() {
            self.whole_pass = files;
        }
        true
    }

    /// Notes what is to be known, once.
    fn note(&mut self, notice: Notice) {
        if self.noticed.insert(notice.clone()) {
            self.notices.push(notice);
        }
    }

    /// Puts a capture that has ended into the books.
    fn finish(&mut self, capture: &Capture) {
        // Where a pipe was given up is no damage.
        let notice = capture.notice().filter(|_| !self.give_up.is_stopped()).cloned();
        let lying = (capture.lying_lengths() > 0).then(|| Notice::LyingLengths {
            path: capture.path().to_path_buf(),
            packets: capture.lying_lengths(),
        });
        for notice in capture.joined().into_iter().chain(notice).chain(lying) {
            self.note(notice);
        }
        let links = capture.links();
        if !links.is_empty() && !links.iter().any(|link| link.is_supported()) {
            if self.undecodable.is_none() {
                self.undecodable = Some((capture.path().to_path_buf(), links.to_vec()));
            }
            let notice = Notice::Undecodable { path: capture.path().to_path_buf(), links: list(links) };
            self.note(notice);
        } else {
            self.decodable_members += 1;
        }
        self.files.push(FileSummary::of(capture));
        self.done_bytes += capture.taken_bytes();
    }

    /// Measures the span of the first pass, and moves the times of later ones behind it.
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

    fn next(&mut self, batch: &mut PacketBatch) -> Result<Fill, CaptureError> {
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
                return match self.undecodable.take() {
                    Some((path, links)) if self.decodable_members == 0 && self.opening.is_none() => {
                        Err(CaptureError::NothingDecodable { path, links })
                    }
                    _ => Ok(Fill::End),
                };
            };
            let fill = capture.next_batch(batch)?;
            self.progress.done_bytes.store(self.done_bytes + capture.taken_bytes(), Ordering::Relaxed);
            match fill {
                Fill::Starved => return Ok(Fill::Starved),
                Fill::Packets => {
                    batch.pass = self.pass;
                    self.packets_of_pass += batch.packets.len() as u64;
                    self.packets += batch.packets.len() as u64;
                    self.shift_times(batch);
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
}

/// Returns the captures of a directory with their sizes, by first timestamp, then by name.
fn captures_of(
    directory: &Path,
    options: CaptureOptions,
    files_max: usize,
    notices: &mut Vec<Notice>,
) -> Result<Vec<(PathBuf, u64)>, CaptureError> {
    let io = |source| CaptureError::Io { path: directory.to_path_buf(), source };
    let (mut files, mut folders) = (Vec::new(), 0);
    for entry in std::fs::read_dir(directory).map_err(io)? {
        let path = entry.map_err(io)?.path();
        if path.is_file() {
            if files.len() == files_max {
                return Err(CaptureError::TooManyFiles { path: directory.to_path_buf(), files_max });
            }
            files.push(path);
        } else {
            folders += usize::from(path.is_dir());
        }
    }
    let looked_at = files.len();
    let mut captures = Vec::new();
    for path in files {
        match first_time(&path, options) {
            Ok(first_ns) => captures.push((first_ns, path)),
            Err(CaptureError::NotACapture { .. } | CaptureError::Empty { .. }) => {
                notices.push(Notice::NotACapture { path });
            }
            Err(error) => return Err(error),
        }
    }
    if captures.is_empty() {
        return Err(CaptureError::NoCaptures { path: directory.to_path_buf(), files: looked_at, folders });
    }
    captures.sort();
    notices.sort_by_key(ToString::to_string);
    Ok(captures
        .into_iter()
        .map(|(_, path)| {
            let bytes = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            (path, bytes)
        })
        .collect())
}

/// Returns the time of a capture's first packet; one without packets comes first.
fn first_time(path: &Path, options: CaptureOptions) -> Result<u64, CaptureError> {
    let mut capture = Capture::open(path, options)?;
    let mut batch = PacketBatch::new();
    capture.next_batch(&mut batch)?;
    Ok(batch.packets.first().map_or(0, |packet| packet.time_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_of_more_files_than_are_taken_is_refused_and_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..3 {
            // A classic capture without packets.
            let mut header = vec![0xD4, 0xC3, 0xB2, 0xA1, 2, 0, 4, 0];
            header.extend([0; 8]);
            header.extend([0, 0, 1, 0, 1, 0, 0, 0]);
            std::fs::write(folder.path().join(format!("{number}.pcap")), header).unwrap();
        }
        let captures = |most| captures_of(folder.path(), CaptureOptions::default(), most, &mut Vec::new());
        assert_eq!(captures(3).unwrap().len(), 3);
        let refused = captures(2).unwrap_err();
        assert!(matches!(refused, CaptureError::TooManyFiles { files_max: 2, .. }), "{refused}");
        assert!(refused.to_string().contains("more than 2 files"), "{refused}");
    }
}

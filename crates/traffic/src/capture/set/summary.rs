//! The summary of a set of captures: its files, and the notices about them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flowloom_packet::LinkType;

use crate::capture::error::{CaptureError, list};
use crate::capture::links::Links;
use crate::capture::losses::{InterfaceLosses, Losses};
use crate::capture::notice::Notice;
use crate::capture::open::Capture;
use crate::capture::walk::Joints;

/// The properties of one file of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileSummary {
    /// The path, or `standard input`.
    pub path: PathBuf,
    /// Description of the format.
    pub format: String,
    /// The distinct link types.
    pub links: Vec<LinkType>,
    /// Number of sections.
    pub sections: u64,
    /// Number of interfaces.
    pub interfaces: u64,
    /// Packets read in one pass.
    pub packets: u64,
    /// Packets whose stated captured length exceeds their record.
    pub lying_lengths: u64,
    /// Packets whose stated time is before 1970 or after 2554.
    pub clamped_times: u64,
    /// What its interfaces lost, as far as it says.
    pub losses: Vec<InterfaceLosses>,
}

impl FileSummary {
    /// Returns the summary of an input that is not a file, such as an interface, with no section
    /// and no packets so far.
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
            clamped_times: 0,
            losses: Vec::new(),
        }
    }

    pub(crate) fn new(capture: &Capture) -> Self {
        let (sections, interfaces) = capture.sections_and_interfaces();
        Self {
            path: capture.path().to_path_buf(),
            format: capture.describe(),
            links: capture.links().to_vec(),
            sections,
            interfaces,
            packets: capture.packets(),
            lying_lengths: capture.lying_lengths(),
            clamped_times: capture.clamped_times(),
            losses: capture.losses().sums(),
        }
    }
}

/// The summary of one file, from its only reader or from one of several.
#[derive(Clone, Debug)]
pub(crate) struct FileRead {
    pub(crate) summary: FileSummary,
    joints: Joints,
    losses: Losses,
    /// The reason why reading stopped before the end of the file.
    notice: Option<Notice>,
}

impl FileRead {
    pub(crate) fn new(capture: &Capture) -> Self {
        Self {
            summary: FileSummary::new(capture),
            joints: capture.joints(),
            losses: capture.losses(),
            notice: capture.notice().cloned(),
        }
    }

    /// Adds the summary of the next range of the same file.
    pub(crate) fn append(&mut self, later: Self) {
        let summary = &mut self.summary;
        let packets_before = summary.packets;
        let mut links = Links::default();
        summary.links.iter().chain(&later.summary.links).for_each(|link| links.add(*link));
        summary.links = links.as_slice().to_vec();
        summary.sections += later.summary.sections;
        summary.interfaces += later.summary.interfaces;
        summary.packets += later.summary.packets;
        summary.lying_lengths += later.summary.lying_lengths;
        summary.clamped_times += later.summary.clamped_times;
        self.losses.append(later.losses);
        summary.losses = self.losses.sums();
        self.joints = self.joints.and(later.joints);
        self.notice = later.notice.map(|notice| notice.behind(packets_before));
    }

    /// Clears the reason for an early end, because the stop was requested.
    pub(crate) fn without_notice(self) -> Self {
        Self { notice: None, ..self }
    }
}

/// Collects the summaries of a set's files, in the order in which they end.
#[derive(Clone, Debug, Default)]
pub(crate) struct SummaryBuilder {
    notices: Vec<Notice>,
    /// Notices about files that were read. Later passes, and files that are named twice, do not
    /// repeat them.
    noticed: BTreeSet<Notice>,
    /// Files of this pass that have ended, each with its index in the reading order.
    files: Vec<(usize, FileSummary)>,
    decodable_files: usize,
    undecodable: Option<(PathBuf, Vec<LinkType>)>,
}

impl SummaryBuilder {
    /// Returns a builder with the `notices` of planning the set.
    pub(crate) fn new(notices: Vec<Notice>) -> Self {
        Self { notices, ..Self::default() }
    }

    fn note(&mut self, notice: Notice) {
        if self.noticed.insert(notice.clone()) {
            self.notices.push(notice);
        }
    }

    /// Adds a file that has ended, after those before.
    pub(crate) fn add(&mut self, read: FileRead) {
        self.add_at(self.files.last().map_or(0, |(rank, _)| rank + 1), read);
    }

    /// Adds a file that has ended, with its index in the reading order.
    pub(crate) fn add_at(&mut self, rank: usize, read: FileRead) {
        let FileRead { summary, joints, notice, losses: _ } = read;
        let lying = (summary.lying_lengths > 0)
            .then(|| Notice::LyingLengths { path: summary.path.clone(), packets: summary.lying_lengths });
        let clamped = (summary.clamped_times > 0)
            .then(|| Notice::ClampedTimes { path: summary.path.clone(), packets: summary.clamped_times });
        let notices = joints.notice(&summary.path).into_iter().chain(notice).chain(lying);
        for notice in notices.chain(clamped) {
            self.note(notice);
        }
        if is_undecodable(&summary.links) {
            self.undecodable.get_or_insert_with(|| (summary.path.clone(), summary.links.clone()));
            let links = list(&summary.links);
            self.note(Notice::Undecodable { path: summary.path.clone(), links });
        } else {
            self.decodable_files += 1;
        }
        let place = self.files.partition_point(|(other, _)| *other < rank);
        self.files.insert(place, (rank, summary));
    }

    /// Returns the notices so far.
    pub(crate) fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// Returns the ended and the open files, each with its index in the reading order.
    pub(crate) fn files_with(&self, open: impl Iterator<Item = (usize, FileSummary)>) -> Vec<FileSummary> {
        let mut files: Vec<_> = self.files.iter().cloned().chain(open).collect();
        files.sort_by_key(|(rank, _)| *rank);
        files.into_iter().map(|(_, summary)| summary).collect()
    }

    /// Takes the summaries of completed files, for another pass.
    pub(crate) fn take_files(&mut self) -> Vec<FileSummary> {
        std::mem::take(&mut self.files).into_iter().map(|(_, summary)| summary).collect()
    }

    /// Returns whether some file that has ended can be decoded, at least in part.
    pub(crate) fn is_decodable(&self) -> bool {
        self.decodable_files > 0
    }

    /// Fails if no ended file, nor a file in `open` (path and link types so far), can be decoded.
    pub(crate) fn check_decodable<'a>(
        &self,
        open: impl Iterator<Item = (&'a Path, &'a [LinkType])>,
    ) -> Result<(), CaptureError> {
        if self.is_decodable() {
            return Ok(());
        }
        let mut first = self.undecodable.clone();
        for (path, links) in open.filter(|(_, links)| !links.is_empty()) {
            if !is_undecodable(links) {
                return Ok(());
            }
            first.get_or_insert_with(|| (path.to_path_buf(), links.to_vec()));
        }
        first.map_or(Ok(()), |(path, links)| Err(CaptureError::NothingDecodable { path, links }))
    }
}

/// Returns whether link types are known, and none of them is decoded.
pub(crate) fn is_undecodable(links: &[LinkType]) -> bool {
    !links.is_empty() && !links.iter().any(|link| link.is_supported())
}

//! Checks whether parts that were read at the same time equal what one reader would have read, and
//! combines their results.

use std::path::PathBuf;

use flowloom_packet::LinkType;

use crate::capture::error::CaptureError;
use crate::capture::notice::Notice;
use crate::capture::open::WalkPosition;
use crate::capture::overlap::{Times, overlapping};
use crate::capture::part::PartRead;
use crate::capture::parts::CaptureParts;
use crate::capture::pcapng::Effects;
use crate::capture::plan::Boundary;
use crate::capture::summary::{FileRead, FileSummary, SummaryBuilder};

/// The combined results of the parts of a set.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetSummary {
    /// Notices about the inputs.
    pub notices: Vec<Notice>,
    /// The files that were begun, in reading order.
    pub files: Vec<FileSummary>,
    /// Number of packets of all parts.
    pub packets: u64,
    /// The first file, if nothing can be decoded.
    undecodable: Option<(PathBuf, Vec<LinkType>)>,
    overlapping: usize,
}

impl SetSummary {
    /// Fails if nothing in the whole set can be decoded, as a
    /// [`CaptureSet`](crate::capture::CaptureSet) does at its end.
    ///
    /// # Errors
    ///
    /// Returns [`CaptureError::NothingDecodable`] for the first file whose link type is not
    /// decoded.
    pub fn check_decodable(&self) -> Result<(), CaptureError> {
        match self.undecodable.clone() {
            Some((path, links)) => Err(CaptureError::NothingDecodable { path, links }),
            None => Ok(()),
        }
    }
}

impl SetSummary {
    /// Returns how many files overlap in time although the plan read them [by
    /// time](crate::capture::SetOrder::ByTime), one after another. `None` if no files overlap.
    /// Packets of overlapping files were not in order of time; a
    /// [`CaptureSet`](crate::capture::CaptureSet) merges them.
    pub fn overlapped(&self) -> Option<usize> {
        Some(self.overlapping).filter(|files| *files > 0)
    }
}

impl CaptureParts {
    /// Returns which parts did not read what one reader would have read, and the boundary where
    /// each must begin.
    ///
    /// `reads` holds the results of the parts in order. Results of parts that are not returned are
    /// correct. Replace each of the others by the result of [`open_at`](Self::open_at), and call
    /// this again until it returns nothing. After it was read again, the first returned part is
    /// correct, so there are at most as many rounds as parts. The other parts begin at the most
    /// likely boundary, so that all can be read at the same time. A part that was stopped before
    /// its end confirms no other part.
    ///
    /// # Panics
    ///
    /// Panics if there are more reads than parts.
    pub fn unconfirmed(&self, reads: &[PartRead]) -> Vec<(usize, Boundary)> {
        assert!(reads.len() <= self.len(), "{} reads of {} parts", reads.len(), self.len());
        let mut again = Vec::new();
        let mut truth = self.begin(0).clone();
        for (part, read) in reads.iter().enumerate() {
            let end = if read.follows(&truth) {
                read.end_behind(&truth)
            } else {
                again.push((part, truth.clone()));
                Some(self.probable_end(part, read, &truth))
            };
            match end {
                Some(end) => truth = end,
                None => break,
            }
        }
        again
    }

    /// Returns the combined results of parts that are all confirmed: what a
    /// [`CaptureSet`](crate::capture::CaptureSet) reports after the same packets.
    pub fn summary(&self, reads: &[PartRead]) -> SetSummary {
        let mut summary = SummaryBuilder::new(self.shared().notices.clone());
        let mut open: Option<(usize, FileRead)> = None;
        let mut files_begun = 0;
        for file in reads.iter().flat_map(|read| &read.files) {
            files_begun = files_begun.max(file.file + 1);
            let read = match open.take() {
                Some((index, mut read)) if index == file.file => {
                    read.append(file.read.clone());
                    read
                }
                Some((_, read)) => {
                    summary.add(read);
                    file.read.clone()
                }
                None => file.read.clone(),
            };
            if file.is_over {
                summary.add(read);
            } else {
                open = Some((file.file, read));
            }
        }
        let open = open.map(|(_, read)| read.summary);
        let check =
            summary.check_decodable(open.iter().map(|file| (file.path.as_path(), file.links.as_slice())));
        let files = summary.files_with(open.into_iter().map(|file| (usize::MAX, file)));
        let undecodable = match check {
            // Files that were not begun may have any link type.
            Err(CaptureError::NothingDecodable { path, links })
                if files_begun == self.shared().files.len() =>
            {
                Some((path, links))
            }
            _ => None,
        };
        let packets = reads.iter().map(PartRead::packets).sum();
        let overlapping = overlapping(&self.times(reads));
        SetSummary { notices: summary.notices().to_vec(), files, packets, undecodable, overlapping }
    }

    /// Returns the times of the files that have packets, where the plan needs them.
    fn times(&self, reads: &[PartRead]) -> Vec<Times> {
        let mut files: Vec<(usize, Times)> = Vec::new();
        for file in reads.iter().flat_map(|read| &read.files) {
            let Some((first_ns, last_ns)) = file.times else { continue };
            match files.last_mut() {
                Some((index, times)) if *index == file.file => times.last_ns = times.last_ns.max(last_ns),
                _ => {
                    let named = self.shared().files[file.file].named;
                    files.push((file.file, Times { named, first_ns, last_ns }));
                }
            }
        }
        files.into_iter().map(|(_, times)| times).collect()
    }

    /// Returns the likely end of a part that is read again from `truth`.
    fn probable_end(&self, part: usize, read: &PartRead, truth: &Boundary) -> Boundary {
        let limit = self.shared().limit(part);
        if truth.position() >= limit.position() {
            return truth.clone();
        }
        if read.end.as_ref().is_some_and(|end| end.position() == limit.position())
            && let Some(end) = read.end_behind(truth)
        {
            return end;
        }
        let mapping = self.shared().files.get(limit.file()).and_then(|file| file.mapping.as_ref());
        match (&limit.place, &truth.place, mapping) {
            (Some(WalkPosition { offset, .. }), Some(WalkPosition { state, .. }), Some(mapping))
                if truth.file() == limit.file() =>
            {
                let rest = usize::try_from(*offset).ok().and_then(|at| mapping.block().bytes().get(at..));
                let state = state.clone().before(rest.unwrap_or_default());
                Boundary::inside(limit.file(), WalkPosition { offset: *offset, state })
            }
            _ => limit,
        }
    }
}

impl PartRead {
    /// Returns whether one reader in state `truth` would have continued as this part did.
    fn follows(&self, truth: &Boundary) -> bool {
        if self.begin.position() != truth.position() {
            return false;
        }
        match (&self.begin.place, &truth.place) {
            (Some(assumed), Some(truth)) => assumed.state.stands_for(&truth.state, self.first_effects()),
            (assumed, truth) => assumed.is_none() && truth.is_none(),
        }
    }

    /// Returns how the results in the part's first file depend on what came before.
    fn first_effects(&self) -> Effects {
        self.files
            .first()
            .filter(|first| first.file == self.begin.file())
            .map_or_else(Effects::default, |first| first.effects)
    }

    /// Returns the boundary at which the part ended, in the state of a reader that began in the
    /// state of `truth`.
    fn end_behind(&self, truth: &Boundary) -> Option<Boundary> {
        let end = self.end.clone()?;
        if end.file() != self.begin.file() {
            return Some(end);
        }
        Some(match (&end.place, &self.begin.place, &truth.place) {
            (Some(place), Some(begin), Some(truth)) => {
                let state = place.state.clone().rebased(&begin.state, &truth.state, self.first_effects());
                Boundary::inside(end.file(), WalkPosition { offset: place.offset, state })
            }
            _ => end,
        })
    }
}

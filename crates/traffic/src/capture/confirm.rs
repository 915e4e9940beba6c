//! Whether parts that were read at the same time are what one reader would have read, and what they found together.

use std::path::PathBuf;

use flowloom_packet::LinkType;

use super::error::CaptureError;
use super::notice::Notice;
use super::open::Place;
use super::overlap::{Times, overlapping};
use super::part::PartRead;
use super::parts::{Boundary, CaptureParts};
use super::pcapng::Effects;
use super::summary::{FileRead, FileSummary, SummaryBuilder};

/// What the parts of a set found together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SetSummary {
    /// What is to be known about the inputs.
    pub notices: Vec<Notice>,
    /// The files that were begun, in reading order.
    pub files: Vec<FileSummary>,
    /// Packets of all parts.
    pub packets: u64,
    /// The first file, where nothing can be decoded.
    undecodable: Option<(PathBuf, Vec<LinkType>)>,
    overlapping: usize,
}

impl SetSummary {
    /// Fails where nothing of the whole set can be decoded, as a [`CaptureSet`](super::CaptureSet) does at its end.
    ///
    /// # Errors
    ///
    /// [`CaptureError::NothingDecodable`] for the first file of a link type that is not decoded.
    pub fn check_decodable(&self) -> Result<(), CaptureError> {
        match self.undecodable.clone() {
            Some((path, links)) => Err(CaptureError::NothingDecodable { path, links }),
            None => Ok(()),
        }
    }
}

impl SetSummary {
    /// Returns how many files overlap in time, although they were planned to be read [by
    /// time](super::SetOrder::ByTime) and one behind the other; `None` where none does. Then the packets did not come by
    /// time: a [`CaptureSet`](super::CaptureSet) merges them.
    pub fn overlapped(&self) -> Option<usize> {
        Some(self.overlapping).filter(|files| *files > 0)
    }
}

impl CaptureParts {
    /// Returns which parts did not read what one reader would have read, and from where each is to be read again.
    ///
    /// `reads` are what the parts found, in order; of those that are not returned it stands. Each is to be replaced by what
    /// [`open_at`](Self::open_at) finds, and the question is asked anew until nothing is returned. The first part returned
    /// is right after it was read again, so that is after as many rounds as there are parts at most. The others begin where
    /// they probably do, so that all are read at the same time. A part that was left before its end confirms no other.
    ///
    /// # Panics
    ///
    /// Where there are more reads than parts.
    pub fn unconfirmed(&self, reads: &[PartRead]) -> Vec<(usize, Boundary)> {
        assert!(reads.len() <= self.len(), "{} reads of {} parts", reads.len(), self.len());
        let mut again = Vec::new();
        let mut truth = Boundary::start_of(0);
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

    /// Returns what parts that are all confirmed found together: what a [`CaptureSet`](super::CaptureSet) says after the
    /// same packets.
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
            // What was not begun may be of any link type.
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

    /// Returns the times of the files that have packets, where they are to be known.
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

    /// Returns where a part that is to be read again from `truth` will probably end.
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
            (Some(Place { offset, .. }), Some(Place { state, .. }), Some(mapping))
                if truth.file() == limit.file() =>
            {
                let rest = usize::try_from(*offset).ok().and_then(|at| mapping.block().bytes().get(at..));
                let state = state.clone().before(rest.unwrap_or_default());
                Boundary::inside(limit.file(), Place { offset: *offset, state })
            }
            _ => limit,
        }
    }
}

impl PartRead {
    /// Says whether one reader that came to `truth` would have gone on as this part did.
    fn follows(&self, truth: &Boundary) -> bool {
        if self.begin.position() != truth.position() {
            return false;
        }
        match (&self.begin.place, &truth.place) {
            (Some(assumed), Some(truth)) => assumed.state.stands_for(&truth.state, self.first_effects()),
            (assumed, truth) => assumed.is_none() && truth.is_none(),
        }
    }

    /// Returns how what the part found in its first file depends on what came before.
    fn first_effects(&self) -> Effects {
        self.files
            .first()
            .filter(|first| first.file == self.begin.file())
            .map_or_else(Effects::default, |first| first.effects)
    }

    /// Returns where the part ended, in the state of a reader that began in that of `truth`.
    fn end_behind(&self, truth: &Boundary) -> Option<Boundary> {
        let end = self.end.clone()?;
        if end.file() != self.begin.file() {
            return Some(end);
        }
        Some(match (&end.place, &self.begin.place, &truth.place) {
            (Some(place), Some(begin), Some(truth)) => {
                let state = place.state.clone().rebased(&begin.state, &truth.state, self.first_effects());
                Boundary::inside(end.file(), Place { offset: place.offset, state })
            }
            _ => end,
        })
    }
}

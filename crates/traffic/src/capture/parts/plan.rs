//! The plan for dividing a set of captures into parts: the files, and where parts begin.

use std::sync::Arc;

use crate::capture::members::Member;
use crate::capture::notice::Notice;
use crate::capture::open::WalkPosition;
use crate::capture::set_options::SetOptions;
use crate::capture::set_progress::SetProgress;

/// A position in a set of captures where one part ends and the next begins, with the reading state
/// there.
#[derive(Clone, Debug)]
pub struct Boundary {
    pub(crate) file: usize,
    /// `None` at the beginning of a file.
    pub(crate) place: Option<WalkPosition>,
}

impl Boundary {
    pub(crate) fn start_of(file: usize) -> Self {
        Self { file, place: None }
    }

    pub(crate) fn inside(file: usize, place: WalkPosition) -> Self {
        Self { file, place: Some(place) }
    }

    /// Returns the index of the file in the set. At the end of the set, it is the number of files.
    pub fn file(&self) -> usize {
        self.file
    }

    /// Returns the bytes before the boundary in the file.
    pub fn offset(&self) -> u64 {
        self.place.as_ref().map_or(0, |place| place.offset)
    }

    /// Returns a text that is the same for two boundaries in one classic capture exactly if reading
    /// goes on from both in the same way. Processes that read
    /// [ranges](crate::capture::CaptureParts::range) of it compare their beginnings and ends by it.
    #[must_use]
    pub fn token(&self) -> String {
        match &self.place {
            None => format!("{}:0", self.file),
            Some(WalkPosition { offset, state }) => format!("{}:{offset}:{}", self.file, state.token()),
        }
    }

    /// Returns the key that orders boundaries.
    pub(crate) fn position(&self) -> (usize, u64) {
        (self.file, self.offset())
    }
}

/// The data that all parts of a set share.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The files. Files that are divided internally are mapped.
    pub(crate) files: Vec<Member>,
    pub(crate) options: SetOptions,
    /// Whether there are several files, which must not overlap in time.
    pub(crate) is_by_time: bool,
    pub(crate) notices: Vec<Notice>,
    /// The assumed beginnings of the parts.
    pub(crate) begins: Vec<Boundary>,
    /// The assumed end of the last part.
    pub(crate) end: Boundary,
    pub(crate) progress: Arc<SetProgress>,
}

impl Plan {
    /// Returns the assumed beginning of the part after `part`, which is the limit of `part`.
    pub(crate) fn limit(&self, part: usize) -> Boundary {
        self.begins.get(part + 1).unwrap_or(&self.end).clone()
    }
}

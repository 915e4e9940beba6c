//! The result of loading a trace.

use flowloom::tcb_cache::Access;

use crate::exit::Failure;
use crate::render::simulate::tcb_cache::TraceFigures;

/// A loaded trace.
pub(super) struct Loaded {
    pub(super) accesses: Vec<Access>,
    pub(super) figures: TraceFigures,
    /// Records that could not be used.
    pub(super) skipped: u64,
    /// Whether keys are other identifiers than addresses and ports.
    pub(super) foreign: bool,
    /// The reason why nothing was loaded, if it is not that the run was stopped.
    pub(super) fault: Option<Failure>,
}

/// The reason why nothing was loaded.
#[derive(Debug)]
pub(super) enum Unloaded {
    /// The input ended too early to be used. If the run was stopped, that is the cause.
    TooLittle(Failure),
    /// Anything else.
    Failed(Failure),
}

impl From<Failure> for Unloaded {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

//! How a stage that cannot go on ends the others.

use crate::sync::{AtomicBool, Ordering};

/// Set once by the first stage that fails: the input stage takes nothing more.
#[derive(Debug, Default)]
pub(crate) struct Halt(AtomicBool);

impl Halt {
    pub(crate) fn halt(&self) {
        // Release: who sees it may take for granted that the failed stage does nothing more.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

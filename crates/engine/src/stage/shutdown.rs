//! How a failed stage ends the other stages.

use crate::sync::{AtomicBool, Ordering};

/// The first stage that fails sets it; the input stage then takes no further packets.
#[derive(Debug, Default)]
pub(crate) struct Halt(AtomicBool);

impl Halt {
    pub(crate) fn halt(&self) {
        // Release: a thread that reads `true` sees all effects of the failed stage.
        self.0.store(true, Ordering::Release);
    }

    pub(crate) fn is_halted(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

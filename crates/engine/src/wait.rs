//! What a thread does when its ring is full or empty: spin briefly, then give the CPU away.

use crossbeam_utils::Backoff;

/// Spins a while, then yields. Spinning for ever would starve the other side on a machine with few cores.
#[derive(Debug, Default)]
pub(crate) struct Wait {
    backoff: Backoff,
}

impl Wait {
    /// Waits a little, longer from call to call.
    pub(crate) fn snooze(&self) {
        self.backoff.snooze();
    }

    /// Says that there was something to do.
    pub(crate) fn reset(&self) {
        self.backoff.reset();
    }
}

//! What a thread does when its ring is full or empty: spin briefly, then give the CPU away, then sleep for a moment.

use std::cell::Cell;
use std::time::Duration;

/// How often a thread gives its CPU away in a row before it sleeps.
const YIELDS: u32 = 256;
/// How long it then sleeps: with more threads than CPUs, threads that only yield take turns at doing nothing.
const NAP: Duration = Duration::from_micros(50);

/// Spins a while, then yields, then sleeps in short naps. Spinning for ever would starve the other side on a machine with few cores.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    backoff: crossbeam_utils::Backoff,
    yields: Cell<u32>,
}

impl Backoff {
    /// Waits a little, longer from call to call.
    pub(crate) fn snooze(&self) {
        if self.backoff.is_completed() {
            self.yields.set(self.yields.get().saturating_add(1));
        }
        if self.yields.get() < YIELDS {
            self.backoff.snooze();
        } else {
            std::thread::sleep(NAP);
        }
    }

    /// Says that there was something to do.
    pub(crate) fn reset(&self) {
        self.backoff.reset();
        self.yields.set(0);
    }
}

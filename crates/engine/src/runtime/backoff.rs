//! What a thread does when its ring is full or empty: it spins briefly, then yields the CPU, then
//! sleeps for a moment.

use std::cell::Cell;
use std::time::Duration;

/// How often in a row a thread yields before it sleeps.
const YIELDS: u32 = 256;
/// The length of a sleep. With more threads than CPUs, threads that only yield would keep the CPUs
/// busy without work.
const NAP: Duration = Duration::from_micros(50);

/// Spins, then yields, then sleeps in short naps. Spinning without end would starve the other
/// threads on a machine with few cores.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    backoff: crossbeam_utils::Backoff,
    yields: Cell<u32>,
}

impl Backoff {
    /// Waits, and longer with each call.
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

    /// Starts again with short waits. Call it after work was done.
    pub(crate) fn reset(&self) {
        self.backoff.reset();
        self.yields.set(0);
    }
}

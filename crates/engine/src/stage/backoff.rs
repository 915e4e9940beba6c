//! The waiting of a thread whose ring is full or empty: it spins briefly, then yields the CPU, then
//! sleeps briefly.

use std::cell::Cell;
use std::time::Duration;

/// Number of consecutive yields before a thread sleeps.
const YIELDS: u32 = 256;
/// The length of a sleep. With more threads than CPUs, threads that only yield would keep the CPUs
/// busy without doing work.
const NAP: Duration = Duration::from_micros(50);

/// Spins, then yields, then sleeps in short naps. Endless spinning would starve the other threads
/// on a machine with few cores.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    backoff: crossbeam_utils::Backoff,
    yields: Cell<u32>,
}

impl Backoff {
    /// Waits, longer with each call.
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

    /// Starts again with short waits. Call it after doing work.
    pub(crate) fn reset(&self) {
        self.backoff.reset();
        self.yields.set(0);
    }
}

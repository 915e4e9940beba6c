//! How another thread watches a run and stops it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Shared between a run and whoever started it: a stop request in, progress out.
#[derive(Debug, Default)]
pub struct Control {
    stop: AtomicBool,
    packets: AtomicU64,
}

impl Control {
    /// Asks the run to stop: the source is not asked again, what is in the rings is processed, the report is balanced.
    pub fn stop(&self) {
        // Relaxed: nothing else is published with it; the input stage looks once a batch.
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Says whether a stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Returns how many packets were taken from the source so far; lags behind by up to a batch.
    pub fn packets(&self) -> u64 {
        self.packets.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, packets: u64) {
        self.packets.store(packets, Ordering::Relaxed);
    }
}

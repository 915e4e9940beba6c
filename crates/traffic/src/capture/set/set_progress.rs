//! The progress of reading a set of captures.

use std::sync::atomic::{AtomicU64, Ordering};

/// The progress of reading a set, for a progress bar on another thread.
#[derive(Debug, Default)]
pub struct SetProgress {
    done_bytes: AtomicU64,
    total_bytes: AtomicU64,
}

impl SetProgress {
    /// Returns the progress of a set of `total` bytes; 0 if unknown.
    pub(crate) fn of_bytes(total_bytes: u64) -> Self {
        Self { done_bytes: AtomicU64::new(0), total_bytes: AtomicU64::new(total_bytes) }
    }

    /// Counts bytes as read.
    pub(crate) fn add(&self, bytes: u64) {
        self.done_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Sets the bytes read so far.
    pub(crate) fn set_done(&self, bytes: u64) {
        self.done_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the bytes read so far (as on disk), over all passes.
    pub fn done_bytes(&self) -> u64 {
        self.done_bytes.load(Ordering::Relaxed)
    }

    /// Returns the bytes to be read over all passes; 0 if unknown (a pipe, or an endless number of
    /// passes).
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes.load(Ordering::Relaxed)
    }
}

//! What a worker has completed: written by it once a chunk, read by the input stage.

use crate::sync::{AtomicU64, Ordering};

/// Two counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Publishes how many packets are completed, and how many bytes they had.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        // Release pairs with the Acquire in `packets`: who sees the count sees what the packets did.
        self.packets.store(packets, Ordering::Release);
    }

    pub(crate) fn packets(&self) -> u64 {
        // Acquire pairs with the Release in `publish`.
        self.packets.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

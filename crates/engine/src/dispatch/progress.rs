//! What a worker has completed: written by workers once a chunk, read by the input stage.

use crate::sync::{AtomicU64, Ordering};

/// Two counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Publishes how many packets are completed, and their bytes. Only one thread calls it.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        // Release pairs with the Acquire in `packets`: a thread that sees the count sees what the packets did.
        self.packets.store(packets, Ordering::Release);
    }

    /// Adds completed packets and their bytes, where several workers complete the packets of one.
    pub(crate) fn add(&self, packets: u64, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Release, as above; an addition continues the release sequence of earlier ones.
        self.packets.fetch_add(packets, Ordering::Release);
    }

    pub(crate) fn packets(&self) -> u64 {
        // Acquire pairs with the Release in `publish` and `add`.
        self.packets.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

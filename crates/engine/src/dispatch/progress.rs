//! The number of packets that a worker has completed. Workers write it once per chunk, and the
//! input stage reads it.

use crate::sync::{AtomicU64, Ordering};

/// Two counters that only increase.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Publishes the number of completed packets and their bytes. Only one thread calls it.
    pub(crate) fn publish(&self, packets: u64, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
        // Release pairs with the Acquire in `packets`: a thread that reads the count sees the
        // effects of these packets.
        self.packets.store(packets, Ordering::Release);
    }

    /// Adds completed packets and their bytes, for packets that were sent to one worker and
    /// completed by several.
    pub(crate) fn add(&self, packets: u64, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        // Release, as above. An addition continues the release sequence of earlier additions.
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

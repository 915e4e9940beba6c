//! A number that all tables of a run may use up together.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many records may still be kept, or flows may still begin.
#[derive(Clone, Debug)]
pub(crate) struct Budget(Arc<AtomicU64>);

impl Budget {
    pub(crate) fn new(count: u64) -> Self {
        Self(Arc::new(AtomicU64::new(count)))
    }

    /// Takes one, if one is left.
    pub(crate) fn take(&self) -> bool {
        // Relaxed: the number guards no other data.
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Gives some back.
    pub(crate) fn give_back(&self, count: u64) {
        if count > 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }
}

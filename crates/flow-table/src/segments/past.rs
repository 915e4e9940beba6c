//! Counters of segments that are no more.

use crate::table::TableStats;

/// Counters of segments that were freed.
#[derive(Debug, Default)]
pub(super) struct PastCounts {
    inserted: u64,
    removed: u64,
    evicted: u64,
    expired: u64,
    list_length_max: u32,
}

impl PastCounts {
    pub(super) fn stats(&self) -> TableStats {
        let Self { inserted, removed, evicted, expired, list_length_max } = *self;
        TableStats { inserted, removed, evicted, expired, list_length_max, ..TableStats::default() }
    }

    pub(super) fn add(&mut self, stats: TableStats) {
        self.inserted += stats.inserted;
        self.removed += stats.removed;
        self.evicted += stats.evicted;
        self.expired += stats.expired;
        self.list_length_max = self.list_length_max.max(stats.list_length_max);
    }
}

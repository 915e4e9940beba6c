//! Counters and memory sizes of a table, for reports.

use flowloom_cpu::pages::PageReport;

use crate::probe::Counts;
#[cfg(doc)]
use crate::table::{FlowTable, Full};

/// Counters of a table since it was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TableStats {
    /// Current number of flows.
    pub len: u32,
    /// Flows that were inserted.
    pub inserted: u64,
    /// Flows that were removed by the caller, [`FlowTable::drain`] included.
    pub removed: u64,
    /// Flows that were evicted.
    pub evicted: u64,
    /// Flows that expired.
    pub expired: u64,
    /// Flows that were refused as [`Full`].
    pub refused: u64,
    /// Flows that are currently outside their bucket (conflict list, stash).
    pub displaced: u32,
    /// Displaced flows in a list or stash; the others are in another bucket.
    pub stashed: u32,
    /// Length that the longest conflict list has ever had.
    pub list_length_max: u32,
    /// States in the pool.
    pub pool_size: u32,
    /// Segments of a growing table; 1 for any other.
    pub segments: u32,
    /// Maximum delay of the removal of a flow after its deadline, in ticks, if `expire` is called
    /// often enough.
    pub granule_ticks: u64,
    /// Steps of all searches, of a table that counts them.
    pub searches: Option<Counts>,
}

impl TableStats {
    /// Returns the sums of the counters of two parts of one table.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            len: self.len + other.len,
            inserted: self.inserted + other.inserted,
            removed: self.removed + other.removed,
            evicted: self.evicted + other.evicted,
            expired: self.expired + other.expired,
            refused: self.refused + other.refused,
            displaced: self.displaced + other.displaced,
            stashed: self.stashed + other.stashed,
            list_length_max: self.list_length_max.max(other.list_length_max),
            pool_size: self.pool_size + other.pool_size,
            segments: self.segments + other.segments,
            granule_ticks: self.granule_ticks.max(other.granule_ticks),
            searches: match (self.searches, other.searches) {
                (Some(one), Some(other)) => Some(one.and(other)),
                (one, other) => one.or(other),
            },
        }
    }
}

/// Memory of a table in bytes. It is reserved, not resident memory: untouched pages cost nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct MemoryReport {
    /// Bytes that a lookup reads before it knows the flow: the signatures.
    pub index_bytes: u64,
    /// Keys, times and values.
    pub state_bytes: u64,
    /// Conflict lists, or other overflow structures.
    pub list_bytes: u64,
    /// The timer wheel; 0 when no class has a timeout.
    pub wheel_bytes: u64,
    /// Pages of index and states.
    pub pages: PageReport,
}

impl MemoryReport {
    /// Returns all bytes.
    pub fn total_bytes(&self) -> u64 {
        self.index_bytes + self.state_bytes + self.list_bytes + self.wheel_bytes
    }

    /// Returns the bytes of the lookup structure: everything except keys, times and values.
    pub fn lookup_bytes(&self) -> u64 {
        self.index_bytes + self.list_bytes
    }

    /// Returns the sums of the bytes of two parts of one table.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            index_bytes: self.index_bytes + other.index_bytes,
            state_bytes: self.state_bytes + other.state_bytes,
            list_bytes: self.list_bytes + other.list_bytes,
            wheel_bytes: self.wheel_bytes + other.wheel_bytes,
            pages: self.pages.and(other.pages),
        }
    }
}

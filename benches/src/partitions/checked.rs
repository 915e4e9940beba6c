//! Counts of the check.

/// Counts of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of cuts.
    pub cuts: u64,
    /// Number of parts that began elsewhere than assumed, or later in time, and were read again.
    pub parts_reread: u64,
    /// Number of flows that were processed again because their summaries do not compose.
    pub flows_reprocessed: u64,
    /// Number of cases with generated captures.
    pub generated: u64,
    /// Number of cases with given captures.
    pub given: u64,
    /// Number of given captures.
    pub captures: u64,
}

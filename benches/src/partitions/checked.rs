//! Counts of the check.

/// Counts of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Cuts.
    pub cuts: u64,
    /// Parts that began elsewhere than assumed, or later in time, and were read again.
    pub parts_reread: u64,
    /// Flows that were processed again, because their summaries do not compose.
    pub flows_reprocessed: u64,
    /// Cases on generated captures.
    pub generated: u64,
    /// Cases on given captures.
    pub given: u64,
    /// Number of given captures.
    pub captures: u64,
}

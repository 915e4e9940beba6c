//! Counts of the check.

/// Counts of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Number of cuts: boundaries between two chunks.
    pub cuts: u64,
    /// Number of lists of packets that another thread than the shard's own has processed.
    pub lists_moved: u64,
    /// Number of cases with generated captures.
    pub generated: u64,
    /// Number of cases with given captures.
    pub given: u64,
    /// Number of given captures.
    pub captures: u64,
}

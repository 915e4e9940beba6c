//! What several items fill tables with.

use flowloom::flow_key::hash::fold::split_mix;

/// Flows of File-3, the greatest of [DHASH Tab. II].
pub(super) const FILE_3_FLOWS: u32 = 1_048_576;

/// Buckets of the paper's table [DHASH §V-A].
pub(super) const BUCKETS: u32 = 100_000;

/// Returns a number of flows, and the buckets that keep the paper's load with it.
pub(super) fn scaled(divisor: u32) -> (u32, u32) {
    (FILE_3_FLOWS / divisor, BUCKETS / divisor)
}

/// Returns so many hashes, each a key as well.
pub(super) fn hashes(count: u32, seed: u64) -> Vec<u64> {
    let mut state = seed;
    (0..count).map(|_| split_mix(&mut state)).collect()
}

//! The sizes of a [`LineHash`](super::LineHash) with some options.

use super::layout::{Counts, LANES, Line};
use crate::conflict::ConflictLists;
use crate::options::TableOptions;
use crate::state::States;

/// Number of lines that share one list of the stash.
pub(super) const LINES_PER_LIST: u32 = 8;

/// Minimum number of states after those of lanes: a mask of lanes has 32 bits, and each bit must
/// name a state for every line.
const SPARE: u32 = u32::BITS - LANES;

/// The sizes of a table with some options.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) lines: u32,
    pub(super) lists: u32,
    pub(super) pool: u32,
}

impl Sizes {
    /// The sizes of a table that allocates nothing.
    pub(super) const NONE: Self = Self { lines: 0, lists: 0, pool: 0 };

    pub(super) fn new(options: &TableOptions) -> Self {
        // 22.5 flows per line.
        let usual = (u64::from(options.flows) * 2).div_ceil(u64::from(LANES) * 3 / 2);
        let lines = options.buckets.unwrap_or(u32::try_from(usual).unwrap_or(u32::MAX)).max(1);
        let pool = options.pool.unwrap_or(options.flows / 1000 + 64);
        Self { lines, lists: lines.div_ceil(LINES_PER_LIST), pool }
    }

    /// Returns the number of states.
    pub(super) fn places(self) -> u64 {
        u64::from(self.lines) * u64::from(LANES) + u64::from(self.pool.max(SPARE))
    }

    /// Returns the bytes that a table of keys `K` and values `V` reserves.
    pub(super) fn bytes<K: Copy, V>(self, options: &TableOptions) -> u64 {
        u64::from(self.lines) * (size_of::<Line>() + size_of::<Counts>()) as u64
            + ConflictLists::bytes_needed(u64::from(self.lists), u64::from(self.pool))
            + States::<K, V>::bytes_needed(self.places(), &options.timeouts)
    }
}

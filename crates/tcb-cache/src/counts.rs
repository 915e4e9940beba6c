//! Counters of a simulation.

use core::ops::{Add, Sub};

/// Counts of one run. `accesses = hits + misses` always holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Number of accesses.
    pub accesses: u64,
    /// Accesses that found their line, including those by auxiliary functions.
    pub hits: u64,
    /// Hits that only the auxiliary functions found.
    pub auxiliary_hits: u64,
    /// Accesses that did not find their line.
    pub misses: u64,
    /// Lines that were evicted for other lines.
    pub evictions: u64,
    /// Lines that moved within the cache to free a place.
    pub moves: u64,
    /// Lines that were dropped because their session ended.
    pub closed: u64,
    /// Misses that were not filled because they ended their session.
    pub not_filled: u64,
}

impl Counts {
    /// Returns misses per access, or 0 without accesses.
    #[must_use]
    pub fn miss_ratio(&self) -> f64 {
        if self.accesses == 0 { 0.0 } else { self.misses as f64 / self.accesses as f64 }
    }

    /// Returns the share of hits that the auxiliary functions found, or 0 without hits.
    #[must_use]
    pub fn auxiliary_share(&self) -> f64 {
        if self.hits == 0 { 0.0 } else { self.auxiliary_hits as f64 / self.hits as f64 }
    }
}

impl Sub for Counts {
    type Output = Self;

    /// Returns the counts since `earlier`.
    fn sub(self, earlier: Self) -> Self {
        Self {
            accesses: self.accesses - earlier.accesses,
            hits: self.hits - earlier.hits,
            auxiliary_hits: self.auxiliary_hits - earlier.auxiliary_hits,
            misses: self.misses - earlier.misses,
            evictions: self.evictions - earlier.evictions,
            moves: self.moves - earlier.moves,
            closed: self.closed - earlier.closed,
            not_filled: self.not_filled - earlier.not_filled,
        }
    }
}

impl Add for Counts {
    type Output = Self;

    /// Returns the sum, for example over several caches.
    fn add(self, other: Self) -> Self {
        Self {
            accesses: self.accesses + other.accesses,
            hits: self.hits + other.hits,
            auxiliary_hits: self.auxiliary_hits + other.auxiliary_hits,
            misses: self.misses + other.misses,
            evictions: self.evictions + other.evictions,
            moves: self.moves + other.moves,
            closed: self.closed + other.closed,
            not_filled: self.not_filled + other.not_filled,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_zero_accesses_are_zero_and_counts_subtract() {
        assert_eq!((Counts::default().miss_ratio(), Counts::default().auxiliary_share()), (0.0, 0.0));
        let some = Counts { accesses: 8, hits: 6, auxiliary_hits: 3, misses: 2, ..Counts::default() };
        assert_eq!((some.miss_ratio(), some.auxiliary_share()), (0.25, 0.5));
        assert_eq!(some + some - some, some);
        let counts = |from: u64| Counts {
            accesses: from,
            hits: from + 1,
            auxiliary_hits: from + 2,
            misses: from + 3,
            evictions: from + 4,
            moves: from + 5,
            closed: from + 6,
            not_filled: from + 7,
        };
        let twice = counts(10) + counts(10);
        assert_eq!([twice.accesses, twice.evictions, twice.not_filled], [20, 28, 34]);
        assert_eq!(twice - counts(10), counts(10));
    }
}

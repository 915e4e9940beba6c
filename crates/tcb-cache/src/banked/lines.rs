//! The lines of a cache: their keys and the times of their last access.
//!
//! ```text
//! line = (bank · sets + set) · ways + way
//! ```
//!
//! `B` and `W` fix banks and ways at compile time, so that loops over them are unrolled; 0 means
//! that they are set at run time.

use crate::access::Access;
use crate::clock::EMPTY;
use crate::geometry::Geometry;

#[derive(Clone, Debug)]
pub(crate) struct Lines<const B: usize, const W: usize> {
    /// The session of each line; [`Access::NO_KEY`] in empty ones.
    pub(crate) keys: Vec<u64>,
    /// The time of each line's last access; [`EMPTY`] in empty ones.
    pub(crate) ages: Vec<u64>,
    banks: usize,
    sets: usize,
    ways: usize,
}

impl<const B: usize, const W: usize> Lines<B, W> {
    pub(crate) fn new(geometry: Geometry) -> Self {
        let lines = geometry.lines() as usize;
        let (banks, ways) = (geometry.banks() as usize, geometry.ways() as usize);
        assert!(
            (B == 0 || B == banks) && (W == 0 || W == ways),
            "the shape is the one that the cache \
            was built for"
        );
        Self {
            keys: vec![Access::NO_KEY; lines],
            ages: vec![EMPTY; lines],
            banks,
            sets: geometry.sets() as usize,
            ways,
        }
    }

    #[inline(always)]
    pub(crate) fn banks(&self) -> usize {
        if B == 0 { self.banks } else { B }
    }

    #[inline(always)]
    pub(crate) fn ways(&self) -> usize {
        if W == 0 { self.ways } else { W }
    }

    /// Returns the first line of the set that `lanes` selects in a bank.
    #[inline(always)]
    pub(crate) fn base(&self, lanes: u64, bank: usize) -> usize {
        let set = (lanes >> (16 * bank)) as usize & 0xFFFF;
        (bank * self.sets + set) * self.ways()
    }

    /// Returns the first line of the set that a line is in.
    #[inline(always)]
    pub(crate) fn base_of(&self, line: usize) -> usize {
        line - line % self.ways()
    }

    /// Returns the line with a key, among the sets in `lanes`.
    #[inline(always)]
    pub(crate) fn find(&self, lanes: u64, key: u64) -> Option<usize> {
        for bank in 0..self.banks() {
            let base = self.base(lanes, bank);
            let set = &self.keys[base..base + self.ways()];
            let mut found = usize::MAX;
            for (way, resident) in set.iter().enumerate() {
                if *resident == key {
                    found = way;
                }
            }
            if found != usize::MAX {
                return Some(base + found);
            }
        }
        None
    }

    /// Returns the oldest line of the set that begins at `base`, or its first empty line.
    #[inline(always)]
    pub(crate) fn oldest(&self, base: usize) -> usize {
        let set = &self.ages[base..base + self.ways()];
        let mut best = (set[0], 0);
        for (way, age) in set.iter().enumerate().skip(1) {
            if *age < best.0 {
                best = (*age, way);
            }
        }
        base + best.1
    }

    /// Returns whether a line is empty.
    #[inline(always)]
    pub(crate) fn is_empty(&self, line: usize) -> bool {
        self.ages[line] == EMPTY
    }

    /// Empties a line.
    #[inline(always)]
    pub(crate) fn clear(&mut self, line: usize) {
        self.keys[line] = Access::NO_KEY;
        self.ages[line] = EMPTY;
    }
}

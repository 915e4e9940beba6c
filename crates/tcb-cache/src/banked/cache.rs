//! Looks up, fills and drops lines; the policy selects the victim.

use crate::access::Access;
use crate::clock::Clock;
use crate::counts::Counts;
use crate::geometry::Geometry;
use crate::index::Indexing;
use crate::simulator::Simulator;

use super::lines::Lines;
use super::miss::Miss;

/// Selects the line to evict.
pub(crate) trait Replacement: core::fmt::Debug + Send {
    /// Whether a search continues in the auxiliary sets.
    const AUXILIARY: bool = false;
    /// Whether a hit renews a line's age.
    const TOUCHED_BY_HITS: bool = true;
    /// Whether [`Replacement::searched`] is called.
    const SEES_SEARCHES: bool = false;

    /// Called when a search looks into the set that begins at `base`.
    #[inline(always)]
    fn searched(&mut self, _base: usize) {}

    /// Records a hit.
    #[inline(always)]
    fn hit(&mut self, _line: usize) {}

    /// Records that a line was emptied because its session ended.
    #[inline(always)]
    fn closed(&mut self, _line: usize) {}

    /// Returns the line to fill, after moving other lines if the policy requires it. Called before
    /// the fill.
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize;
}

/// A cache of banks, sets and ways, with a replacement policy.
#[derive(Clone, Debug)]
pub(crate) struct Banked<R, const B: usize, const W: usize> {
    lines: Lines<B, W>,
    index: Indexing,
    clock: Clock,
    counts: Counts,
    drops_closed: bool,
    policy: R,
}

impl<R: Replacement, const B: usize, const W: usize> Banked<R, B, W> {
    pub(crate) fn new(geometry: Geometry, index: Indexing, drops_closed: bool, policy: R) -> Self {
        Self {
            lines: Lines::new(geometry),
            index,
            clock: Clock::default(),
            counts: Counts::default(),
            drops_closed,
            policy,
        }
    }

    #[inline(always)]
    fn hit(&mut self, line: usize, access: Access) {
        self.counts.hits += 1;
        if self.drops_closed && access.closes() {
            self.counts.closed += 1;
            self.lines.clear(line);
            self.policy.closed(line);
            return;
        }
        if R::TOUCHED_BY_HITS {
            self.lines.ages[line] = self.clock.now();
        }
        self.policy.hit(line);
    }

    #[inline(always)]
    fn access(&mut self, access: Access) {
        let key = access.key();
        self.clock.advance(access.time_ms());
        let primary = self.index.primary(key);
        if R::SEES_SEARCHES {
            for bank in 0..self.lines.banks() {
                self.policy.searched(self.lines.base(primary, bank));
            }
        }
        if let Some(line) = self.lines.find(primary, key) {
            return self.hit(line, access);
        }
        let mut auxiliary = 0;
        if R::AUXILIARY {
            auxiliary = self.index.auxiliary(key);
            if let Some(line) = self.lines.find(auxiliary, key) {
                self.counts.auxiliary_hits += 1;
                return self.hit(line, access);
            }
        }
        self.counts.misses += 1;
        if self.drops_closed && access.closes() {
            self.counts.not_filled += 1;
            return;
        }
        let line = self.policy.place(&mut Miss {
            key,
            primary,
            auxiliary,
            clock: self.clock,
            index: &self.index,
            lines: &mut self.lines,
            counts: &mut self.counts,
        });
        self.counts.evictions += u64::from(!self.lines.is_empty(line));
        self.lines.keys[line] = key;
        self.lines.ages[line] = self.clock.now();
    }
}

impl<R: Replacement, const B: usize, const W: usize> Simulator for Banked<R, B, W> {
    fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.access(*access);
        }
        self.counts.accesses += accesses.len() as u64;
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn resident(&self) -> Vec<u64> {
        self.lines.keys.iter().copied().filter(|key| *key != Access::NO_KEY).collect()
    }
}

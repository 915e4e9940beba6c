//! The data about a miss that a replacement policy can use.

use crate::clock::Clock;
use crate::counts::Counts;
use crate::index::Indexing;

use super::lines::Lines;

/// A miss to be served.
pub(crate) struct Miss<'a, const B: usize, const W: usize> {
    pub(crate) key: u64,
    /// The sets of the banks' own functions.
    pub(crate) primary: u64,
    /// The sets of the auxiliary functions if the policy uses them, or 0.
    pub(crate) auxiliary: u64,
    pub(crate) clock: Clock,
    pub(crate) index: &'a Indexing,
    pub(crate) lines: &'a mut Lines<B, W>,
    pub(crate) counts: &'a mut Counts,
}

impl<const B: usize, const W: usize> Miss<'_, B, W> {
    /// Returns the first line of the candidate set in a bank.
    #[inline(always)]
    pub(crate) fn base(&self, bank: usize) -> usize {
        self.lines.base(self.primary, bank)
    }

    /// Returns the oldest candidate of a bank.
    #[inline(always)]
    pub(crate) fn oldest_in(&self, bank: usize) -> usize {
        self.lines.oldest(self.base(bank))
    }

    /// Returns the oldest of all candidates, or the first empty one.
    #[inline(always)]
    pub(crate) fn oldest(&self) -> usize {
        let mut best = self.oldest_in(0);
        for bank in 1..self.lines.banks() {
            let line = self.oldest_in(bank);
            if self.lines.ages[line] < self.lines.ages[best] {
                best = line;
            }
        }
        best
    }

    /// Returns whether a line is ON.
    #[inline(always)]
    pub(crate) fn is_on(&self, line: usize) -> bool {
        self.clock.is_on(self.lines.ages[line])
    }

    /// Returns how many lines of the candidate set in a bank are ON.
    #[inline(always)]
    pub(crate) fn on_count(&self, bank: usize) -> usize {
        let base = self.base(bank);
        (base..base + self.lines.ways()).filter(|&line| self.is_on(line)).count()
    }

    /// Returns the candidates that satisfy a predicate, bank by bank, and their number.
    #[inline(always)]
    pub(crate) fn candidates(&self) -> impl Iterator<Item = usize> {
        let ways = self.lines.ways();
        let bases: [usize; 4] =
            core::array::from_fn(|bank| if bank < self.lines.banks() { self.base(bank) } else { 0 });
        (0..self.lines.banks()).flat_map(move |bank| bases[bank]..bases[bank] + ways)
    }

    /// Returns the first empty candidate.
    #[inline(always)]
    pub(crate) fn first_empty(&self) -> Option<usize> {
        self.candidates().find(|&line| self.lines.is_empty(line))
    }

    /// Moves a line to the place of another one, and leaves its own place empty.
    #[inline]
    pub(crate) fn relocate(&mut self, from: usize, to: usize) {
        self.counts.moves += 1;
        self.counts.evictions += u64::from(!self.lines.is_empty(to));
        self.lines.keys[to] = self.lines.keys[from];
        self.lines.ages[to] = self.lines.ages[from];
        self.lines.clear(from);
    }
}

//! TCB(Access): evicts from the bank whose candidate set had fewer accesses [TCBCACHE §4.4, Fig.
//! 14].
//!
//! The paper does not define an access to a set. Read literally, every search looks into the sets
//! of both banks and is an access to each of them: [`Counted::Searches`]. A set's count is then its
//! popularity, and the policy has no influence on it. [`Counted::Uses`] counts only hits and fills,
//! which balances the banks. Counts never restart. If counts are equal, the left bank evicts;
//! within a bank, the oldest line is evicted.

use super::cache::Replacement;
use super::miss::Miss;

/// The events that count as an access to a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Counted {
    /// Every search, because it looks into the set.
    #[default]
    Searches,
    /// Hits and fills.
    Uses,
}

#[derive(Clone, Debug)]
pub(crate) struct AccessCount {
    counted: Counted,
    counts: Vec<u64>,
    ways: usize,
}

impl AccessCount {
    pub(crate) fn new(counted: Counted, lines: usize, ways: usize) -> Self {
        Self { counted, counts: vec![0; lines / ways], ways }
    }
}

impl Replacement for AccessCount {
    const SEES_SEARCHES: bool = true;

    #[inline(always)]
    fn searched(&mut self, base: usize) {
        if self.counted == Counted::Searches {
            self.counts[base / self.ways] += 1;
        }
    }

    #[inline(always)]
    fn hit(&mut self, line: usize) {
        if self.counted == Counted::Uses {
            self.counts[line / self.ways] += 1;
        }
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let mut best = (u64::MAX, 0);
        for bank in 0..miss.lines.banks() {
            let count = self.counts[miss.base(bank) / self.ways];
            if count < best.0 {
                best = (count, bank);
            }
        }
        let line = miss.oldest_in(best.1);
        if self.counted == Counted::Uses {
            self.counts[line / self.ways] += 1;
        }
        line
    }
}

//! The first half of the speculative policy, *no-migrate* [TCBCACHE §3.4]: the bank with fewer ON
//! lines evicts.
//!
//! Within the bank the oldest line is evicted; an empty line counts as OFF and as oldest.

use super::cache::Replacement;
use super::miss::Miss;

/// The bank that evicts if both have the same number of ON lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tie {
    /// The left one, as in the paper, which chooses it "for simplicity". If all lines are ON, this
    /// fills only one bank.
    #[default]
    Left,
    /// The bank whose oldest line is older.
    Older,
    /// The banks alternate, which takes one bit of state for the whole cache.
    RoundRobin,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FewerOn {
    tie: Tie,
    turn: usize,
}

impl FewerOn {
    pub(crate) fn new(tie: Tie) -> Self {
        Self { tie, turn: 0 }
    }

    /// Returns the oldest line of the bank that evicts.
    #[inline(always)]
    pub(crate) fn choose<const B: usize, const W: usize>(&mut self, miss: &Miss<'_, B, W>) -> usize {
        let banks = miss.lines.banks();
        let first = match self.tie {
            Tie::RoundRobin => self.turn % banks,
            Tie::Left | Tie::Older => 0,
        };
        let mut best = (miss.on_count(first), miss.oldest_in(first));
        let mut tied = false;
        for step in 1..banks {
            let bank = (first + step) % banks;
            let (on, line) = (miss.on_count(bank), miss.oldest_in(bank));
            tied = on == best.0 || (tied && on > best.0);
            let older = self.tie == Tie::Older && miss.lines.ages[line] < miss.lines.ages[best.1];
            if on < best.0 || (on == best.0 && older) {
                best = (on, line);
            }
        }
        // The turn passes on only if it was needed.
        self.turn = (self.turn + usize::from(tied)) % banks;
        best.1
    }
}

impl Replacement for FewerOn {
    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        self.choose(miss)
    }
}

//! The speculative policy [TCBCACHE §3.4, Fig. 11] keeps ON lines: it moves one if the victim would
//! be ON.
//!
//! The victim is that of *no-migrate*. If the victim is ON, so are all lines of its set, because
//! the victim is the oldest. A line is migratable if its auxiliary sets contain a line that is OFF
//! or empty; its own set does not count. A random migratable line moves to the place of the oldest
//! such line, and the new session takes its place. If no line is migratable, the victim is evicted.

use crate::random::Random;

use super::cache::Replacement;
use super::fewer_on::{FewerOn, Tie};
use super::miss::Miss;

#[derive(Clone, Debug)]
pub(crate) struct Speculative {
    choice: FewerOn,
    random: Random,
    /// Lines that can be moved, and their targets; kept to avoid allocations.
    migratable: Vec<(u32, u32)>,
}

impl Speculative {
    pub(crate) fn new(tie: Tie, seed: u64) -> Self {
        Self { choice: FewerOn::new(tie), random: Random::new(seed), migratable: Vec::with_capacity(64) }
    }

    /// Frees a line of the set at `base` by moving it; returns `None` if no line is migratable.
    #[inline(never)]
    fn migrate<const B: usize, const W: usize>(
        &mut self,
        miss: &mut Miss<'_, B, W>,
        base: usize,
    ) -> Option<usize> {
        self.migratable.clear();
        for line in base..base + miss.lines.ways() {
            let lanes = miss.index.auxiliary(miss.lines.keys[line]);
            let mut best: Option<usize> = None;
            for bank in 0..miss.lines.banks() {
                let there = miss.lines.base(lanes, bank);
                if there == base {
                    continue;
                }
                // The oldest line of a set is OFF if any line is.
                let oldest = miss.lines.oldest(there);
                let older = best.is_none_or(|best| miss.lines.ages[oldest] < miss.lines.ages[best]);
                if older && !miss.is_on(oldest) {
                    best = Some(oldest);
                }
            }
            if let Some(to) = best {
                self.migratable.push((line as u32, to as u32));
            }
        }
        if self.migratable.is_empty() {
            return None;
        }
        let (from, to) = self.migratable[self.random.below(self.migratable.len() as u64) as usize];
        miss.relocate(from as usize, to as usize);
        Some(from as usize)
    }
}

impl Replacement for Speculative {
    const AUXILIARY: bool = true;

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let victim = self.choice.choose(miss);
        if !miss.is_on(victim) {
            return victim;
        }
        let base = miss.lines.base_of(victim);
        self.migrate(miss, base).unwrap_or(victim)
    }
}

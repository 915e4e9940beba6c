//! FlowLRU for hardware: eight bits of age per line.
//!
//! The age counts periods since the last access and stops at 255. The length of a period, in hits
//! and fills, is a sixteenth of the number of lines: 32 for 512 lines. Hardware can maintain it
//! like the paper's Lifetime array [TCBCACHE §3.3], by a sweep per period, or by comparing with a
//! running number. Lines of the same age are ordered by bank and way. Everything else is as in
//! [`flow_lru`](super::flow_lru).

use super::cache::Replacement;
use super::lines::Lines;
use super::miss::Miss;

/// The age at which counting stops; the next higher value marks an empty line.
const AGE_MAX: u64 = 255;

/// Number of periods per cache length, which is one hit or fill per line.
const PERIODS_PER_LINES: usize = 16;

#[derive(Clone, Debug)]
pub(crate) struct FlowLruCoarse {
    /// The period of each line's last access.
    periods: Vec<u64>,
    uses: u64,
    uses_per_period: u64,
}

/// Returns the number of hits and fills in a period.
pub(crate) fn uses_per_period(lines: usize) -> u64 {
    (lines / PERIODS_PER_LINES).max(1) as u64
}

impl FlowLruCoarse {
    pub(crate) fn new(lines: usize) -> Self {
        Self { periods: vec![0; lines], uses: 0, uses_per_period: uses_per_period(lines) }
    }

    #[inline(always)]
    fn period(&self) -> u64 {
        self.uses / self.uses_per_period
    }

    #[inline(always)]
    fn age<const B: usize, const W: usize>(&self, lines: &Lines<B, W>, line: usize) -> u64 {
        if lines.is_empty(line) { AGE_MAX + 1 } else { (self.period() - self.periods[line]).min(AGE_MAX) }
    }

    /// Returns the age and place of the first of the oldest lines of a set.
    #[inline(always)]
    fn oldest<const B: usize, const W: usize>(&self, lines: &Lines<B, W>, base: usize) -> (u64, usize) {
        let mut best = (self.age(lines, base), base);
        for line in base + 1..base + lines.ways() {
            let age = self.age(lines, line);
            if age > best.0 {
                best = (age, line);
            }
        }
        best
    }
}

impl Replacement for FlowLruCoarse {
    const AUXILIARY: bool = true;

    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.uses += 1;
        self.periods[line] = self.period();
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        self.uses += 1;
        let mut victim = self.oldest(miss.lines, miss.base(0));
        for bank in 1..miss.lines.banks() {
            let other = self.oldest(miss.lines, miss.base(bank));
            if other.0 > victim.0 {
                victim = other;
            }
        }
        let (age, line) = victim;
        if age <= AGE_MAX {
            let home = miss.lines.base_of(line);
            let key = miss.lines.keys[line];
            let mut best = (age, None);
            for lanes in [miss.index.primary(key), miss.index.auxiliary(key)] {
                for bank in 0..miss.lines.banks() {
                    let there = miss.lines.base(lanes, bank);
                    let (age, line) = self.oldest(miss.lines, there);
                    if there != home && age > best.0 {
                        best = (age, Some(line));
                    }
                }
            }
            if let Some(to) = best.1 {
                self.periods[to] = self.periods[line];
                miss.relocate(line, to);
            }
        }
        self.periods[line] = self.period();
        line
    }
}

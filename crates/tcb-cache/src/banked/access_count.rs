//! TCB(Access): the bank whose candidate set was accessed less [TCBCACHE §4.4, Fig. 14].
//!
//! A set's count is of all hits and fills since the beginning; ties go left. Within a bank the oldest line goes.

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Debug)]
pub(crate) struct AccessCount {
    counts: Vec<u64>,
    ways: usize,
}

impl AccessCount {
    pub(crate) fn new(lines: usize, ways: usize) -> Self {
        Self { counts: vec![0; lines / ways], ways }
    }
}

impl Replacement for AccessCount {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.counts[line / self.ways] += 1;
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
        self.counts[line / self.ways] += 1;
        line
    }
}

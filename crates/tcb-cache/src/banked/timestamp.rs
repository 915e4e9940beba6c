//! TCB(n): LRU by time stamps of n bits that count accesses and wrap [TCBCACHE §3.4, §4.4, Fig.
//! 14].
//!
//! The paper does not state how stamps are compared. In a plain comparison, a line that was last
//! touched before the counter wrapped looks young. If their distances to the counter are compared,
//! a line looks young only if 2ⁿ accesses have passed since.

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Debug)]
pub(crate) struct Timestamp {
    stamps: Vec<u32>,
    counter: u32,
    mask: u32,
    by_distance: bool,
}

impl Timestamp {
    /// Returns the policy with stamps of `bits` bits, 1 to 32.
    pub(crate) fn new(lines: usize, bits: u32, by_distance: bool) -> Self {
        Self { stamps: vec![0; lines], counter: 0, mask: u32::MAX >> (32 - bits.clamp(1, 32)), by_distance }
    }

    /// Returns a number that is lower for lines that count as older.
    #[inline(always)]
    fn youth(&self, line: usize) -> u32 {
        let stamp = self.stamps[line];
        if self.by_distance { self.mask - (self.counter.wrapping_sub(stamp) & self.mask) } else { stamp }
    }

    #[inline(always)]
    fn stamp(&mut self, line: usize) {
        self.stamps[line] = self.counter;
        self.counter = self.counter.wrapping_add(1) & self.mask;
    }
}

impl Replacement for Timestamp {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.stamp(line);
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let line = miss.first_empty().unwrap_or_else(|| {
            let mut candidates = miss.candidates();
            let mut best = candidates.next().expect("a set has a way");
            for line in candidates {
                if self.youth(line) < self.youth(best) {
                    best = line;
                }
            }
            best
        });
        self.stamp(line);
        line
    }
}

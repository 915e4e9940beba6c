//! Enhanced not recently used: the pseudo-LRU that the paper's multiple-hash schemes use [TCBCACHE
//! §2.3, §4.1].
//!
//! Each line has a reference bit, which every access sets. The victim is a random candidate whose
//! bit is clear; if all bits are set, they are cleared first. The paper refers to another paper for
//! the rule; this is one interpretation.

use crate::random::Random;

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Debug)]
pub(crate) struct Enru {
    used: Vec<bool>,
    random: Random,
}

impl Enru {
    pub(crate) fn new(lines: usize, seed: u64) -> Self {
        Self { used: vec![false; lines], random: Random::new(seed) }
    }
}

impl Replacement for Enru {
    #[inline(always)]
    fn hit(&mut self, line: usize) {
        self.used[line] = true;
    }

    #[inline(always)]
    fn closed(&mut self, line: usize) {
        self.used[line] = false;
    }

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let line = miss.first_empty().unwrap_or_else(|| {
            let mut clear = miss.candidates().filter(|&line| !self.used[line]).count();
            if clear == 0 {
                for line in miss.candidates() {
                    self.used[line] = false;
                    clear += 1;
                }
            }
            let chosen = self.random.below(clear as u64) as usize;
            let mut unused = miss.candidates().filter(|&line| !self.used[line]);
            unused.nth(chosen).expect("the drawn number is below the count")
        });
        self.used[line] = true;
        line
    }
}

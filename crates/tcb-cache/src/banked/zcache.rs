//! Relocation as in a zcache: the victim is the oldest line that one exchange can reach.
//!
//! First-level candidates are the lines of the session's own and auxiliary sets. Second-level
//! candidates are the lines of the other sets that each first-level candidate may be in. If the
//! oldest candidate is of the second level, the first-level line moves to its place and frees its
//! own. With two banks of four ways, these are 16 lines of the first level and up to 192 of the
//! second.

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Zcache;

impl Replacement for Zcache {
    const AUXILIARY: bool = true;

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let ways = miss.lines.ways();
        let mut best = (u64::MAX, 0, None);
        for lanes in [miss.primary, miss.auxiliary] {
            for bank in 0..miss.lines.banks() {
                let line = miss.lines.oldest(miss.lines.base(lanes, bank));
                if miss.lines.ages[line] < best.0 {
                    best = (miss.lines.ages[line], line, None);
                }
            }
        }
        if miss.lines.is_empty(best.1) {
            return best.1;
        }
        for lanes in [miss.primary, miss.auxiliary] {
            for bank in 0..miss.lines.banks() {
                let base = miss.lines.base(lanes, bank);
                for first in base..base + ways {
                    let key = miss.lines.keys[first];
                    for lanes in [miss.index.primary(key), miss.index.auxiliary(key)] {
                        for bank in 0..miss.lines.banks() {
                            let there = miss.lines.base(lanes, bank);
                            if there == base {
                                continue;
                            }
                            let line = miss.lines.oldest(there);
                            if miss.lines.ages[line] < best.0 {
                                best = (miss.lines.ages[line], line, Some(first));
                            }
                        }
                    }
                }
            }
        }
        let (_, line, through) = best;
        through.map_or(line, |first| {
            miss.relocate(first, line);
            first
        })
    }
}

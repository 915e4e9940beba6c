//! FlowLRU: Flowloom's alternative to the speculative policy.
//!
//! Unlike the paper's policy, FlowLRU compares banks by age rather than by the number of ON lines,
//! saves a line whether or not it is ON, and makes no random choice. The victim is the oldest
//! candidate. If its other sets contain an older line, the victim moves to the place of that line,
//! which is evicted. Sessions that end leave immediately, because the cache sees FIN and RST.
//!
//! ```text
//! v = oldest of the session's own sets              8 lines
//! d = oldest of the other sets of v                12 lines
//! d older than v, or empty:  v moves over d;  the session takes v's place
//! ```
//!
//! A miss therefore evicts the oldest of about 20 lines. New sessions enter their own sets, where
//! the first search finds them. Only lines that were once the oldest of eight need a search by the
//! auxiliary functions.

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowLru;

impl Replacement for FlowLru {
    const AUXILIARY: bool = true;

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let victim = miss.oldest();
        if miss.lines.is_empty(victim) {
            return victim;
        }
        let home = miss.lines.base_of(victim);
        let key = miss.lines.keys[victim];
        let mut best = (miss.lines.ages[victim], None);
        for lanes in [miss.index.primary(key), miss.index.auxiliary(key)] {
            for bank in 0..miss.lines.banks() {
                let there = miss.lines.base(lanes, bank);
                let line = miss.lines.oldest(there);
                if there != home && miss.lines.ages[line] < best.0 {
                    best = (miss.lines.ages[line], Some(line));
                }
            }
        }
        if let Some(to) = best.1 {
            miss.relocate(victim, to);
        }
        victim
    }
}

//! Least recently used, over all candidates: the true LRU, which is expensive to build over several
//! banks [TCBCACHE §3.4].

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Lru;

impl Replacement for Lru {
    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        miss.oldest()
    }
}

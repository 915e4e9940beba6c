//! First in, first out, over all candidates: a hit does not change a line's age.

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Fifo;

impl Replacement for Fifo {
    const TOUCHED_BY_HITS: bool = false;

    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        miss.oldest()
    }
}

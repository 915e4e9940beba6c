//! TCB(RR): the banks evict alternately, each one its oldest line [TCBCACHE §4.4, Fig. 14].

use super::cache::Replacement;
use super::miss::Miss;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundRobin {
    next: usize,
}

impl Replacement for RoundRobin {
    #[inline(always)]
    fn place<const B: usize, const W: usize>(&mut self, miss: &mut Miss<'_, B, W>) -> usize {
        let bank = self.next;
        self.next = if bank + 1 == miss.lines.banks() { 0 } else { bank + 1 };
        miss.oldest_in(bank)
    }
}

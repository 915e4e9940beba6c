//! Belady's MIN over the whole cache: evicts the line whose next use is latest.

use std::collections::BTreeSet;

use crate::access::Access;
use crate::counts::Counts;

use super::NextUses;

/// The cache, with its lines in the order of their next uses. The cost is logarithmic in the number
/// of lines, per access.
#[derive(Clone, Debug)]
pub(crate) struct Min {
    /// Next use, and the position of the last use as a tie-breaker, because several lines are never
    /// used again.
    lines: BTreeSet<(u32, u32)>,
    capacity: usize,
    drops_closed: bool,
    position: usize,
    /// Positions of expected next uses: an access at such a position is a hit.
    counts: Counts,
    awaited: Vec<bool>,
}

impl Min {
    pub(crate) fn new(lines: usize, accesses: usize, drops_closed: bool) -> Self {
        Self {
            lines: BTreeSet::new(),
            capacity: lines,
            drops_closed,
            position: 0,
            counts: Counts::default(),
            awaited: vec![false; accesses],
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Processes additional accesses; `uses` must have been computed from them.
    pub(crate) fn run(&mut self, accesses: &[Access], uses: &NextUses) {
        for access in accesses {
            let position = self.position;
            self.position += 1;
            let next = uses.after(position);
            let ends = self.drops_closed && access.closes();
            self.counts.accesses += 1;
            if self.awaited[position] {
                self.counts.hits += 1;
                self.lines.pop_first().expect("the line that is used now has the earliest next use");
                self.counts.closed += u64::from(ends);
            } else {
                self.counts.misses += 1;
                self.counts.not_filled += u64::from(ends);
                if !ends && self.lines.len() == self.capacity {
                    self.counts.evictions += 1;
                    let (victim, _) = self.lines.pop_last().expect("a full cache has at least one line");
                    if let Some(awaited) = self.awaited.get_mut(victim as usize) {
                        *awaited = false;
                    }
                }
            }
            if !ends {
                self.lines.insert((next, position as u32));
                if let Some(awaited) = self.awaited.get_mut(next as usize) {
                    *awaited = true;
                }
            }
        }
    }
}

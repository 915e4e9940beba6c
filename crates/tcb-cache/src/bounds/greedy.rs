//! A near-optimal bound for banks: evicts the candidate whose next use is latest.
//!
//! With one bank, this is MIN in each set, and optimal. With several banks, the place of a line
//! affects which lines can stay later. The greedy choice is close to the optimum but not a bound.

use crate::access::Access;
use crate::counts::Counts;
use crate::geometry::Geometry;
use crate::index::Indexing;

use super::NextUses;

#[derive(Clone, Debug)]
pub(crate) struct Greedy {
    geometry: Geometry,
    index: Indexing,
    keys: Vec<u64>,
    /// The next use of each line; never for empty lines.
    next: Vec<u32>,
    drops_closed: bool,
    position: usize,
    counts: Counts,
}

impl Greedy {
    pub(crate) fn new(geometry: Geometry, index: Indexing, drops_closed: bool) -> Self {
        let lines = geometry.lines() as usize;
        Self {
            geometry,
            index,
            keys: vec![Access::NO_KEY; lines],
            next: vec![NextUses::NEVER; lines],
            drops_closed,
            position: 0,
            counts: Counts::default(),
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Processes additional accesses; `uses` must have been computed from them.
    pub(crate) fn run(&mut self, accesses: &[Access], uses: &NextUses) {
        for access in accesses {
            let next = uses.after(self.position);
            self.position += 1;
            self.access(*access, next);
        }
        self.counts.accesses += accesses.len() as u64;
    }

    fn access(&mut self, access: Access, next: u32) {
        let (sets, ways) = (self.geometry.sets() as usize, self.geometry.ways() as usize);
        let lanes = self.index.primary(access.key());
        let ends = self.drops_closed && access.closes();
        // The candidate with the latest next use; an empty one takes precedence.
        let mut best = (0, 0);
        for bank in 0..self.geometry.banks() as usize {
            let set = (lanes >> (16 * bank)) as usize & 0xFFFF;
            let base = (bank * sets + set) * ways;
            for line in base..base + ways {
                if self.keys[line] == access.key() {
                    self.counts.hits += 1;
                    self.next[line] = next;
                    if ends {
                        self.counts.closed += 1;
                        self.keys[line] = Access::NO_KEY;
                        self.next[line] = NextUses::NEVER;
                    }
                    return;
                }
                let empty = self.keys[line] == Access::NO_KEY;
                let far = u64::from(self.next[line]) + u64::from(empty) + 1;
                if far > best.0 {
                    best = (far, line);
                }
            }
        }
        self.counts.misses += 1;
        if ends {
            self.counts.not_filled += 1;
            return;
        }
        let line = best.1;
        self.counts.evictions += u64::from(self.keys[line] != Access::NO_KEY);
        self.keys[line] = access.key();
        self.next[line] = next;
    }
}

//! ARC: keys used once and keys used more often have separate LRU lists, each with a list of
//! evicted keys. A miss on an evicted key increases the share of its side.

use super::queues::Queues;
use super::{Eviction, Full};

const ONCE: usize = 0;
const OFTEN: usize = 1;
const LOST_ONCE: usize = 2;
const LOST_OFTEN: usize = 3;

#[derive(Clone, Debug)]
pub(crate) struct Arc {
    queues: Queues<4>,
    lines: usize,
    /// Target number of lines for keys that were used once.
    target: usize,
}

impl Arc {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queues: Queues::new(2 * lines + 1), lines, target: 0 }
    }

    fn replace(&mut self, asked_for_lost_often: bool) {
        let once = self.queues.len(ONCE);
        let from_once = once > 0 && (once > self.target || (asked_for_lost_often && once == self.target));
        let (from, to) =
            if from_once || self.queues.len(OFTEN) == 0 { (ONCE, LOST_ONCE) } else { (OFTEN, LOST_OFTEN) };
        let node = self.queues.back(from);
        self.queues.move_to(to, node);
    }

    fn residents(&self) -> usize {
        self.queues.len(ONCE) + self.queues.len(OFTEN)
    }
}

impl Full for Arc {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queues.find(key) else { return false };
        if self.queues.queue_of(node) >= LOST_ONCE {
            return false;
        }
        self.queues.move_to(OFTEN, node);
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let (lost_once, lost_often) = (self.queues.len(LOST_ONCE), self.queues.len(LOST_OFTEN));
        let full = self.residents() == self.lines;
        if let Some(node) = self.queues.find(key) {
            let was_often = self.queues.queue_of(node) == LOST_OFTEN;
            if was_often {
                self.target = self.target.saturating_sub((lost_once / lost_often).max(1));
            } else {
                self.target = (self.target + (lost_often / lost_once).max(1)).min(self.lines);
            }
            if full {
                self.replace(was_often);
            }
            self.queues.move_to(OFTEN, node);
            return full.into();
        }
        let once_side = self.queues.len(ONCE) + lost_once;
        if once_side == self.lines {
            if lost_once > 0 {
                self.queues.pop(LOST_ONCE);
                if full {
                    self.replace(false);
                }
            } else if full {
                self.queues.pop(ONCE);
            }
        } else if full {
            if self.residents() + lost_once + lost_often >= 2 * self.lines {
                self.queues.pop(LOST_OFTEN);
            }
            self.replace(false);
        }
        self.queues.push(ONCE, key);
        full.into()
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.queues.find(key) {
            self.queues.remove(node);
        }
    }

    fn resident(&self) -> Vec<u64> {
        self.queues.keys(ONCE).chain(self.queues.keys(OFTEN)).collect()
    }
}

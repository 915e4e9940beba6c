//! 2Q, the full version: keys that were used once wait in a FIFO of a quarter of the lines. A key
//! that is used again after it left the FIFO enters an LRU queue, if the memory of half as many
//! keys as lines still contains it.

use super::queues::Queues;
use super::{Eviction, Full};

const ONCE: usize = 0;
const OFTEN: usize = 1;
const GHOST: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct TwoQ {
    queues: Queues<3>,
    lines: usize,
    once_max: usize,
    ghosts_max: usize,
}

impl TwoQ {
    pub(crate) fn new(lines: usize) -> Self {
        let (once_max, ghosts_max) = ((lines / 4).max(1), (lines / 2).max(1));
        Self { queues: Queues::new(lines + ghosts_max + 1), lines, once_max, ghosts_max }
    }

    fn evict(&mut self) {
        let queues = &mut self.queues;
        if queues.len(ONCE) > self.once_max || queues.len(OFTEN) == 0 {
            let node = queues.back(ONCE);
            queues.move_to(GHOST, node);
            if queues.len(GHOST) > self.ghosts_max {
                queues.pop(GHOST);
            }
        } else {
            queues.pop(OFTEN);
        }
    }
}

impl Full for TwoQ {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queues.find(key) else { return false };
        match self.queues.queue_of(node) {
            OFTEN => self.queues.move_to(OFTEN, node),
            GHOST => return false,
            _ => {}
        }
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let ghost = self.queues.find(key);
        if let Some(node) = ghost {
            self.queues.remove(node);
        }
        let full = self.queues.len(ONCE) + self.queues.len(OFTEN) == self.lines;
        if full {
            self.evict();
        }
        self.queues.push(if ghost.is_some() { OFTEN } else { ONCE }, key);
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

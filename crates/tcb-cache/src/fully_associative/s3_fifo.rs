//! S3-FIFO (Yang et al., SOSP 2023): new keys enter a small queue. Keys that are used twice there
//! move to the main queue; the others leave a ghost entry.
//!
//! The small queue has a tenth of the lines, and there are nine ghost entries for ten lines. A key
//! with a ghost entry enters the main queue immediately. Uses are counted up to 3. For each counted
//! use, a key at the back of the main queue stays for another round. Until the cache is full, keys
//! that do not fit into the small queue fill the main one. An eviction that starts in the small
//! queue ends there, unless all of its keys move. The hits are those of libCacheSim 0.3.5 with its
//! default parameters.

use super::queues::Queues;
use super::{Eviction, Full};

const SMALL: usize = 0;
const MAIN: usize = 1;
const GHOST: usize = 2;
const USES_MAX: u8 = 3;
/// A key with this many uses moves from the small queue to the main one.
const USES_TO_STAY: u8 = 2;

#[derive(Clone, Debug)]
pub(crate) struct S3Fifo {
    queues: Queues<3>,
    lines: usize,
    small_max: usize,
    ghosts_max: usize,
    has_evicted: bool,
}

impl S3Fifo {
    pub(crate) fn new(lines: usize) -> Self {
        let small_max = (lines / 10).max(1);
        let ghosts_max = (lines * 9 / 10).max(1);
        let queues = Queues::new(lines + ghosts_max + 1);
        Self { queues, lines, small_max, ghosts_max, has_evicted: false }
    }

    fn evict(&mut self) {
        let queues = &mut self.queues;
        let from_small = queues.len(SMALL) >= self.small_max || queues.len(MAIN) == 0;
        while from_small && queues.len(SMALL) > 0 {
            let node = queues.back(SMALL);
            let uses = queues.mark(node);
            queues.set_mark(node, 0);
            if uses >= USES_TO_STAY {
                queues.move_to(MAIN, node);
                continue;
            }
            queues.move_to(GHOST, node);
            if queues.len(GHOST) > self.ghosts_max {
                queues.pop(GHOST);
            }
            return;
        }
        loop {
            let node = queues.back(MAIN);
            let uses = queues.mark(node);
            if uses == 0 {
                queues.pop(MAIN);
                return;
            }
            queues.set_mark(node, uses - 1);
            queues.move_to(MAIN, node);
        }
    }
}

impl Full for S3Fifo {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queues.find(key) else { return false };
        if self.queues.queue_of(node) == GHOST {
            return false;
        }
        let uses = self.queues.mark(node);
        self.queues.set_mark(node, (uses + 1).min(USES_MAX));
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        // A ghost entry counts if it exists when the key arrives, before the eviction.
        let ghost = self.queues.find(key);
        if let Some(node) = ghost {
            self.queues.remove(node);
        }
        let full = self.queues.len(SMALL) + self.queues.len(MAIN) == self.lines;
        if full {
            self.has_evicted = true;
            self.evict();
        }
        let fills_main = !self.has_evicted && self.queues.len(SMALL) >= self.small_max;
        self.queues.push(if ghost.is_some() || fills_main { MAIN } else { SMALL }, key);
        full.into()
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.queues.find(key) {
            self.queues.remove(node);
        }
    }

    fn resident(&self) -> Vec<u64> {
        self.queues.keys(SMALL).chain(self.queues.keys(MAIN)).collect()
    }
}

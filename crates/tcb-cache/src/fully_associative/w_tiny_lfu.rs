//! W-TinyLFU: a window with a hundredth of the lines, under LRU. A key that leaves the window
//! enters the rest only if a sketch estimates more uses for it than for the victim there. The rest
//! is an LRU in two parts, four fifths of which are protected.
//!
//! The sketch counts every access, as in the paper (Einziger et al., ACM Transactions on Storage,
//! 2017): four-bit counters, which are halved after ten accesses per line. libCacheSim's variant
//! counts accesses to the rest and insertions only, in a Bloom filter with unlimited counters, so
//! that its misses differ.

use super::queues::Queues;
use super::sketch::Sketch;
use super::{Eviction, Full};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;

#[derive(Clone, Debug)]
pub(crate) struct WTinyLfu {
    queues: Queues<3>,
    sketch: Sketch,
    lines: usize,
    window_max: usize,
    protected_max: usize,
}

impl WTinyLfu {
    pub(crate) fn new(lines: usize) -> Self {
        let window_max = (lines / 100).max(1);
        let protected_max = (lines - window_max) * 4 / 5;
        Self {
            queues: Queues::new(lines + 1),
            sketch: Sketch::new(lines),
            lines,
            window_max,
            protected_max,
        }
    }
}

impl Full for WTinyLfu {
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queues.find(key) else { return false };
        self.sketch.add(key);
        match self.queues.queue_of(node) {
            WINDOW => self.queues.move_to(WINDOW, node),
            _ => self.queues.move_to(PROTECTED, node),
        }
        if self.queues.len(PROTECTED) > self.protected_max {
            let node = self.queues.back(PROTECTED);
            self.queues.move_to(PROBATION, node);
        }
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        self.sketch.add(key);
        self.queues.push(WINDOW, key);
        let mut evicted = 0;
        if self.queues.len(WINDOW) > self.window_max {
            let main = self.queues.len(PROBATION) + self.queues.len(PROTECTED);
            let candidate = self.queues.back(WINDOW);
            if main < self.lines - self.window_max {
                self.queues.move_to(PROBATION, candidate);
            } else {
                let side = if self.queues.len(PROBATION) > 0 { PROBATION } else { PROTECTED };
                evicted = 1;
                if self.queues.len(side) == 0 {
                    // In a cache of one line, the window is the whole cache.
                    self.queues.remove(candidate);
                } else {
                    let victim = self.queues.back(side);
                    let frequency = |node| self.sketch.estimate(self.queues.key(node));
                    if frequency(candidate) > frequency(victim) {
                        self.queues.remove(victim);
                        self.queues.move_to(PROBATION, candidate);
                    } else {
                        self.queues.remove(candidate);
                    }
                }
            }
        }
        evicted
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.queues.find(key) {
            self.queues.remove(node);
        }
    }

    fn resident(&self) -> Vec<u64> {
        [WINDOW, PROBATION, PROTECTED].into_iter().flat_map(|queue| self.queues.keys(queue)).collect()
    }
}

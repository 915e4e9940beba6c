//! SIEVE: a queue in order of arrival. A hand moves from the back to the front, clears the visited
//! bits on its way, and evicts the first key whose bit is clear. Unlike in CLOCK, a key that is not
//! evicted stays in its place.

use super::queues::{END, Queues};
use super::{Eviction, Full};

#[derive(Clone, Debug)]
pub(crate) struct Sieve {
    queue: Queues<1>,
    hand: u32,
    lines: usize,
}

impl Sieve {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queue: Queues::new(lines + 1), hand: END, lines }
    }

    fn take_out(&mut self, node: u32) {
        if self.hand == node {
            self.hand = self.queue.newer(node);
        }
        self.queue.remove(node);
    }
}

impl Full for Sieve {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queue.find(key) else { return false };
        self.queue.set_mark(node, 1);
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.queue.len(0) == self.lines;
        if full {
            loop {
                let node = if self.hand == END { self.queue.back(0) } else { self.hand };
                if self.queue.mark(node) == 0 {
                    self.hand = node;
                    self.take_out(node);
                    break;
                }
                self.queue.set_mark(node, 0);
                self.hand = self.queue.newer(node);
            }
        }
        self.queue.push(0, key);
        full.into()
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.queue.find(key) {
            self.take_out(node);
        }
    }

    fn resident(&self) -> Vec<u64> {
        self.queue.keys(0).collect()
    }
}

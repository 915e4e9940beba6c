//! CLOCK: first in, first out, but a key that was used since the hand last passed stays for another
//! round.

use super::queues::{END, Queues};
use super::{Eviction, Full};

#[derive(Clone, Debug)]
pub(crate) struct Clock {
    queue: Queues<1>,
    lines: usize,
}

impl Clock {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queue: Queues::new(lines + 1), lines }
    }
}

impl Full for Clock {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queue.find(key) else { return false };
        self.queue.set_mark(node, 1);
        true
    }

    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.queue.len(0) == self.lines;
        if full {
            let mut hand = self.queue.back(0);
            while hand != END && self.queue.mark(hand) == 1 {
                self.queue.set_mark(hand, 0);
                self.queue.move_to(0, hand);
                hand = self.queue.back(0);
            }
            self.queue.pop(0);
        }
        self.queue.push(0, key);
        full.into()
    }

    fn close(&mut self, key: u64) {
        if let Some(node) = self.queue.find(key) {
            self.queue.remove(node);
        }
    }

    fn resident(&self) -> Vec<u64> {
        self.queue.keys(0).collect()
    }
}

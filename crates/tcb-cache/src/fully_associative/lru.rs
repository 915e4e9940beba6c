//! Least recently used.

use super::queues::Queues;
use super::{Eviction, Full};

#[derive(Clone, Debug)]
pub(crate) struct FullLru {
    queue: Queues<1>,
    lines: usize,
}

impl FullLru {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queue: Queues::new(lines + 1), lines }
    }
}

impl Full for FullLru {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queue.find(key) else { return false };
        self.queue.move_to(0, node);
        true
    }

    #[inline(always)]
    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.queue.len(0) == self.lines;
        if full {
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

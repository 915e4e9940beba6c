//! First in, first out.

use super::queues::Queues;
use super::{Eviction, Full};

#[derive(Clone, Debug)]
pub(crate) struct FullFifo {
    queue: Queues<1>,
    lines: usize,
}

impl FullFifo {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queue: Queues::new(lines + 1), lines }
    }
}

impl Full for FullFifo {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        self.queue.find(key).is_some()
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

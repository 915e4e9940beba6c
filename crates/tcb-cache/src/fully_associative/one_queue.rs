//! One queue of keys, from which a policy evicts the oldest.

use super::queues::Queues;
use super::{Eviction, Full};

/// What a policy of one queue does on a hit, and before the oldest key is evicted.
pub(crate) trait Order: core::fmt::Debug + Send {
    fn hit(queue: &mut Queues<1>, node: u32);

    fn before_eviction(queue: &mut Queues<1>) {
        let _ = queue;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct OneQueue<O> {
    queue: Queues<1>,
    lines: usize,
    order: core::marker::PhantomData<O>,
}

impl<O> OneQueue<O> {
    pub(crate) fn new(lines: usize) -> Self {
        Self { queue: Queues::new(lines + 1), lines, order: core::marker::PhantomData }
    }
}

impl<O: Order> Full for OneQueue<O> {
    #[inline(always)]
    fn hit(&mut self, key: u64) -> bool {
        let Some(node) = self.queue.find(key) else { return false };
        O::hit(&mut self.queue, node);
        true
    }

    #[inline(always)]
    fn fill(&mut self, key: u64) -> Eviction {
        let full = self.queue.len(0) == self.lines;
        if full {
            O::before_eviction(&mut self.queue);
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

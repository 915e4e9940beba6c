//! The protocol of `AF_XDP` rings, independent of their memory.
//!
//! ```text
//!   consumed │ full: the consumer's    │ free: the producer's      │
//!            └ consumer index          └ producer index            └ consumer index + size
//! ```
//!
//! One side produces and the other consumes. One side writes each index, which grows forever and
//! wraps around at 2³². The producer publishes entries with its index, and the consumer returns
//! them with its own.

/// An index that the other side reads.
pub(crate) trait Index {
    /// Returns the index. Everything that the other side did before it stored the index is visible.
    fn load(&self) -> u32;

    /// Sets the index, and makes earlier writes visible to the other side.
    fn store(&self, value: u32);
}

impl Index for std::sync::atomic::AtomicU32 {
    #[inline(always)]
    fn load(&self) -> u32 {
        Self::load(self, std::sync::atomic::Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, value: u32) {
        Self::store(self, value, std::sync::atomic::Ordering::Release);
    }
}

/// This process's side of a ring in which it produces.
#[derive(Debug)]
pub(crate) struct Producing {
    size: u32,
    produced: u32,
    /// The other side's index when last read.
    consumed: u32,
}

impl Producing {
    /// Returns the side of an empty ring with this many entries, a power of two.
    pub(crate) fn new(size: u32) -> Self {
        debug_assert!(size.is_power_of_two(), "indices wrap");
        Self { size, produced: 0, consumed: 0 }
    }

    /// Returns the index of the next entry to write, if the ring has a free one.
    #[inline]
    pub(crate) fn reserve(&mut self, consumer: &impl Index) -> Option<u32> {
        if self.produced.wrapping_sub(self.consumed) == self.size {
            self.consumed = consumer.load();
            if self.produced.wrapping_sub(self.consumed) == self.size {
                return None;
            }
        }
        let place = self.produced & (self.size - 1);
        self.produced = self.produced.wrapping_add(1);
        Some(place)
    }

    /// Publishes all entries that were reserved and written.
    #[inline]
    pub(crate) fn publish(&self, producer: &impl Index) {
        producer.store(self.produced);
    }
}

/// This process's side of a ring in which it consumes.
#[derive(Debug)]
pub(crate) struct Consuming {
    size: u32,
    consumed: u32,
    /// The other side's index when last read.
    produced: u32,
}

impl Consuming {
    /// Returns the side of an empty ring with this many entries, a power of two.
    pub(crate) fn new(size: u32) -> Self {
        debug_assert!(size.is_power_of_two(), "indices wrap");
        Self { size, consumed: 0, produced: 0 }
    }

    /// Returns the index of the next entry to read, if the ring has one.
    #[inline]
    pub(crate) fn take(&mut self, producer: &impl Index) -> Option<u32> {
        if self.consumed == self.produced {
            self.produced = producer.load();
            if self.consumed == self.produced {
                return None;
            }
        }
        let place = self.consumed & (self.size - 1);
        self.consumed = self.consumed.wrapping_add(1);
        Some(place)
    }

    /// Returns all entries that were taken and read.
    #[inline]
    pub(crate) fn release(&self, consumer: &impl Index) {
        consumer.store(self.consumed);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::sync::atomic::AtomicU32;

    proptest! {
        #[test]
        fn a_ring_is_a_queue_of_its_size(
            start: u32, shift in 0_u32..5, steps in prop::collection::vec((0_u8..4, 1_u32..20), 1..200)
        ) {
            let size = 1 << shift;
            let (producer, consumer) = (AtomicU32::new(start), AtomicU32::new(start));
            let mut ours = Producing { size, produced: start, consumed: start };
            let mut theirs = Consuming { size, consumed: start, produced: start };
            let mut slots = vec![0_u64; size as usize];
            let (mut written, mut published, mut taken) = (VecDeque::new(), VecDeque::new(), 0);
            let mut next = 0_u64;
            for (step, count) in steps {
                match step {
                    0 => for _ in 0..count {
                        let is_full = written.len() + published.len() + taken == size as usize;
                        let Some(place) = ours.reserve(&consumer) else {
                            prop_assert!(is_full);
                            break;
                        };
                        prop_assert!(!is_full);
                        slots[place as usize] = next;
                        written.push_back(next);
                        next += 1;
                    },
                    1 => {
                        ours.publish(&producer);
                        published.append(&mut written);
                    }
                    2 => for _ in 0..count {
                        let entry = theirs.take(&producer).map(|place| slots[place as usize]);
                        prop_assert_eq!(entry, published.pop_front());
                        taken += usize::from(entry.is_some());
                    },
                    _ => {
                        theirs.release(&consumer);
                        taken = 0;
                    }
                }
            }
        }
    }
}

#[cfg(loom)]
#[cfg(test)]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicU32, Ordering};

    impl Index for AtomicU32 {
        fn load(&self) -> u32 {
            Self::load(self, Ordering::Acquire)
        }

        fn store(&self, value: u32) {
            Self::store(self, value, Ordering::Release);
        }
    }

    #[derive(Default)]
    struct Shared {
        producer: AtomicU32,
        consumer: AtomicU32,
        /// Accesses are relaxed, so a side sees a write only if the indices order the two. An entry
        /// that was read is 0.
        slots: [AtomicU32; 2],
    }

    #[test]
    fn indices_alone_transfer_ownership_of_entries() {
        const ENTRIES: u32 = 3;
        loom::model(|| {
            let shared = Arc::new(Shared::default());
            let kernel = Arc::clone(&shared);
            let thread = loom::thread::spawn(move || {
                let mut side = Producing::new(2);
                for entry in 1..=ENTRIES {
                    let place = loop {
                        match side.reserve(&kernel.consumer) {
                            Some(place) => break place,
                            None => loom::thread::yield_now(),
                        }
                    };
                    let slot = &kernel.slots[place as usize];
                    assert_eq!(slot.load(Ordering::Relaxed), 0, "the entry before was not read yet");
                    slot.store(entry, Ordering::Relaxed);
                    side.publish(&kernel.producer);
                }
            });
            let mut side = Consuming::new(2);
            for entry in 1..=ENTRIES {
                let place = loop {
                    match side.take(&shared.producer) {
                        Some(place) => break place,
                        None => loom::thread::yield_now(),
                    }
                };
                let slot = &shared.slots[place as usize];
                assert_eq!(slot.load(Ordering::Relaxed), entry, "the entry was not written yet");
                slot.store(0, Ordering::Relaxed);
                side.release(&shared.consumer);
            }
            thread.join().unwrap();
        });
    }
}

//! A pool of a fixed number of items (windows or buffers) that flows lease.
//!
//! A flow may end without notice, so the pool does not wait for leases to return. When all items
//! are leased, it reclaims the oldest one, whose lease is then void.

use std::num::NonZeroU32;

/// A lease of an item: the item's index, and the generation of the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    index: u32,
    /// It is never 0, so that an `Option` of a lease takes no more space than a lease.
    generation: NonZeroU32,
}

#[derive(Debug)]
struct Slot<T> {
    item: T,
    generation: NonZeroU32,
    leased: bool,
}

/// Items of one kind. The pool creates them on first use and then keeps them.
#[derive(Debug)]
pub(super) struct Pool<T> {
    slots: Vec<Slot<T>>,
    slots_max: usize,
    free: Vec<u32>,
    next: usize,
    reclaimed: u64,
}

impl<T> Pool<T> {
    pub(super) fn new(slots_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            slots_max: slots_max.min(1 << 20),
            free: Vec::new(),
            next: 0,
            reclaimed: 0,
        }
    }

    /// Returns how often the pool reclaimed an item whose lease was still valid.
    pub(super) fn reclaimed(&self) -> u64 {
        self.reclaimed
    }

    /// Returns whether the lease is still valid.
    pub(super) fn has(&self, lease: Option<Lease>) -> bool {
        lease.is_some_and(|lease| {
            self.slots
                .get(lease.index as usize)
                .is_some_and(|slot| slot.leased && slot.generation == lease.generation)
        })
    }

    /// Returns the leased item. If `lease` is empty, it leases an item and clears it. Returns
    /// `None` if the lease is void or the pool has no slots.
    pub(super) fn get(
        &mut self,
        lease: &mut Option<Lease>,
        make: impl FnOnce() -> T,
        clear: impl FnOnce(&mut T),
    ) -> Option<&mut T> {
        if let Some(held) = *lease {
            return self
                .slots
                .get_mut(held.index as usize)
                .filter(|slot| slot.leased && slot.generation == held.generation)
                .map(|slot| &mut slot.item);
        }
        let index = self.choose(make)?;
        let slot = self.slots.get_mut(index as usize)?;
        slot.generation = slot.generation.checked_add(1).unwrap_or(NonZeroU32::MIN);
        slot.leased = true;
        clear(&mut slot.item);
        *lease = Some(Lease { index, generation: slot.generation });
        Some(&mut slot.item)
    }

    fn choose(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.slots.len() < self.slots_max {
            self.slots.push(Slot { item: make(), generation: NonZeroU32::MIN, leased: false });
            return u32::try_from(self.slots.len() - 1).ok();
        }
        if self.slots.is_empty() {
            return None;
        }
        // All items are leased, roughly in the order of their slots.
        let index = self.next;
        self.next = (self.next + 1) % self.slots.len();
        self.reclaimed += 1;
        u32::try_from(index).ok()
    }

    /// Returns whether the lease is valid and its item is `empty`.
    pub(super) fn is_empty_now(&self, lease: Option<Lease>, empty: impl FnOnce(&T) -> bool) -> bool {
        self.has(lease)
            && lease
                .and_then(|lease| self.slots.get(lease.index as usize))
                .is_some_and(|slot| empty(&slot.item))
    }

    /// Ends the lease, and returns the item to the pool if the lease was valid.
    pub(super) fn give_back(&mut self, lease: &mut Option<Lease>) {
        if self.has(*lease)
            && let Some(held) = *lease
        {
            self.slots[held.index as usize].leased = false;
            self.free.push(held.index);
        }
        *lease = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_item_is_reclaimed_and_its_lease_is_void() {
        let mut pool: Pool<Vec<u8>> = Pool::new(2);
        let mut tickets = [None; 3];
        for (mark, lease) in (0..).zip(&mut tickets) {
            pool.get(lease, Vec::new, Vec::clear).expect("there is a slot").push(mark);
        }
        assert_eq!(pool.reclaimed(), 1);
        assert!(!pool.has(tickets[0]) && pool.has(tickets[1]) && pool.has(tickets[2]));
        assert_eq!(pool.get(&mut tickets[0].clone(), Vec::new, Vec::clear), None);
        assert_eq!(pool.get(&mut tickets[2], Vec::new, Vec::clear), Some(&mut vec![2]));
        pool.give_back(&mut tickets[1]);
        assert_eq!(tickets[1], None);
        let mut fresh = None;
        assert_eq!(pool.get(&mut fresh, Vec::new, Vec::clear), Some(&mut vec![]), "cleared");
        assert_eq!(pool.reclaimed(), 1, "there was a free one");
    }

    #[test]
    fn items_are_reclaimed_one_after_another() {
        let mut pool: Pool<Vec<u8>> = Pool::new(3);
        let mut tickets = [None; 8];
        for lease in &mut tickets {
            assert!(pool.get(lease, Vec::new, Vec::clear).is_some());
        }
        assert_eq!(
            tickets.map(|lease| pool.has(lease)),
            [false, false, false, false, false, true, true, true]
        );
    }

    #[test]
    fn empty_pool_lends_nothing() {
        let mut pool: Pool<Vec<u8>> = Pool::new(0);
        assert_eq!(pool.get(&mut None, Vec::new, Vec::clear), None);
    }
}

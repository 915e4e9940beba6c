//! The maximum number of flows of a table.

use core::mem;

use super::sync::{AtomicUsize, Ordering};

/// Counts flows up to a maximum. A table without a maximum counts nothing, because all writers
/// would contend for the counter.
#[derive(Debug)]
pub(super) struct Limit {
    taken: AtomicUsize,
    max: Option<usize>,
}

impl Limit {
    pub(super) fn new(max: Option<usize>) -> Self {
        Self { taken: AtomicUsize::new(0), max }
    }

    /// Reserves space for a flow, if there is any.
    #[inline]
    pub(super) fn reserve(&self) -> Option<Reservation<'_>> {
        if let Some(max) = self.max {
            let one_more = |taken: usize| (taken < max).then_some(taken + 1);
            self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more).ok()?;
        }
        Some(Reservation(self))
    }

    /// Gives back the space of removed flows.
    #[inline]
    pub(super) fn give_back(&self, flows: usize) {
        if self.max.is_some() {
            self.taken.fetch_sub(flows, Ordering::Relaxed);
        }
    }
}

/// Space for a flow, given back when it is dropped without [`keep`](Self::keep): the caller's code
/// runs before the flow is in the table, and may panic.
#[derive(Debug)]
#[must_use]
pub(super) struct Reservation<'l>(&'l Limit);

impl Reservation<'_> {
    /// Leaves the space to the flow, which is now in the table.
    #[inline]
    pub(super) fn keep(self) {
        mem::forget(self);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.0.give_back(1);
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_space_is_released_unless_kept() {
        let limit = Limit::new(Some(2));
        limit.reserve().unwrap().keep();
        for _ in 0..3 {
            assert!(limit.reserve().is_some());
        }
        limit.reserve().unwrap().keep();
        assert!(limit.reserve().is_none());
        limit.give_back(1);
        assert!(limit.reserve().is_some());
        let without = Limit::new(None);
        assert!((0..10).all(|_| without.reserve().is_some()));
    }
}

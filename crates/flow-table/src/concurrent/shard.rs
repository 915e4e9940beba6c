//! A part of a table with a lock for its writers.
//!
//! ```text
//!  current ──▶ index ── next ──▶ larger or smaller index, while entries move
//! ```
//!
//! Each operation that takes the lock moves the entries of a few lines. An entry is inserted into
//! the next index before it leaves the current one. A reader that does not find a key in an index,
//! and then sees no next index, therefore knows that the key was absent.

#![expect(unsafe_code, reason = "published values are retired")]

use core::iter;

use crossbeam_epoch::Guard;

use flowloom_flow_key::TableHash;

use super::index::{Found, Index, LANES, Vacancy};
use super::link::{Freed, Link, Published};
use super::load::{LINES_PER_WRITE, flows_before_growth, lines_of_next};
use super::node::Node;
use super::sync::{AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::error::BuildError;
use crate::table::TableStats;

/// A part of a table.
///
/// All guards passed to its methods belong to the collector of its table.
#[repr(align(128))]
pub(super) struct Shard<K, V> {
    current: Link<Index<K, V>>,
    len: AtomicUsize,
    lock: Mutex<Progress>,
}

/// State that only writers know.
#[derive(Debug, Default)]
struct Progress {
    /// Lines of the current index whose entries have moved; `None` if there is no next index.
    moved_lines: Option<usize>,
    /// The number of the next flow.
    number: u64,
    /// The line at which expiry continues.
    hand: usize,
    removed: u64,
    expired: u64,
    refused: u64,
}

impl<K, V> Shard<K, V> {
    /// Returns a shard without flows.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Index::try_new`].
    pub(super) fn try_new(lines: usize) -> Result<Self, BuildError> {
        Ok(Self {
            current: Link::to(Published::new(Index::try_new(lines)?)),
            len: AtomicUsize::new(0),
            lock: Mutex::new(Progress::default()),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    /// Returns the current index.
    #[inline(always)]
    pub(super) fn index<'g>(&self, guard: &'g Guard) -> &'g Index<K, V> {
        self.current.load(guard).expect("a shard has an index from its beginning")
    }

    /// Returns the number of flows that it takes before it opens a larger index.
    pub(super) fn capacity(&self, guard: &Guard) -> usize {
        let current = self.index(guard);
        flows_before_growth(current.next.load(guard).unwrap_or(current).line_count())
    }

    /// Returns its counters. Waits for the lock.
    pub(super) fn stats(&self) -> TableStats {
        let progress = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Progress { removed, expired, refused, .. } = *progress;
        // Each table has at most 2³⁰ flows.
        let len = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let inserted = u64::from(len) + removed + expired;
        TableStats { len, inserted, removed, expired, refused, segments: 1, ..TableStats::default() }
    }

    /// Returns the bytes of its indexes.
    pub(super) fn index_bytes(&self, guard: &Guard) -> u64 {
        let current = self.index(guard);
        current.bytes() + current.next.load(guard).map_or(0, Index::bytes)
    }

    /// Returns the node of a hash that matches the wanted key.
    #[inline(always)]
    pub(super) fn find<'g>(
        &self,
        hash: TableHash,
        guard: &'g Guard,
        is_wanted: impl Fn(&Node<K, V>) -> bool,
    ) -> Option<&'g Node<K, V>> {
        let mut index = self.index(guard);
        loop {
            if let Some(found) = index.find::<false>(hash, guard, &is_wanted) {
                return Some(found.node);
            }
            index = index.next.load(guard)?;
        }
    }

    /// Waits for the lock.
    #[inline(always)]
    pub(super) fn write<'g>(&'g self, lines_min: usize, guard: &'g Guard) -> Writer<'g, K, V> {
        // A panic of the caller's code leaves the shard unchanged: it runs before a change, in the
        // comparison of a key or to make a value.
        let progress = self.lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let current = self.current.load_own(guard).expect("a shard has an index from its beginning");
        Writer { shard: self, current, next: current.next.load_own(guard), progress, lines_min, guard }
    }
}

impl<K, V> Drop for Shard<K, V> {
    fn drop(&mut self) {
        // SAFETY: with exclusive access there is no reader, so no guard is needed.
        let guard = unsafe { crossbeam_epoch::unprotected() };
        let first = self.current.published();
        // SAFETY: an index that a link leads to was not retired, and is freed after this.
        let here = |index: &Published<Index<K, V>>| unsafe { index.get(guard) };
        let indexes: Vec<_> = iter::successors(first, |index| here(index).next.published()).collect();
        let mut freed_last = indexes.iter().copied();
        // SAFETY: no reader is left, and nothing follows a link after the nodes are freed.
        let _freed_last = unsafe { Freed::new(&mut freed_last) };
        let mut nodes = indexes.iter().flat_map(|index| here(index).nodes());
        // SAFETY: no reader is left, and each node has one link.
        drop(unsafe { Freed::new(&mut nodes) });
    }
}

/// The owner of a shard's lock. Dropping it moves the entries of a few lines.
pub(super) struct Writer<'g, K, V> {
    shard: &'g Shard<K, V>,
    current: &'g Index<K, V>,
    next: Option<&'g Index<K, V>>,
    progress: MutexGuard<'g, Progress>,
    lines_min: usize,
    guard: &'g Guard,
}

impl<K, V> Drop for Writer<'_, K, V> {
    #[inline]
    fn drop(&mut self) {
        self.advance();
    }
}

/// Space for a new flow in the index that takes it.
pub(super) struct Space<'g, K, V> {
    index: &'g Index<K, V>,
    vacancy: Vacancy,
}

/// A position in one of the indexes of a shard.
pub(super) struct Place<'g, K, V> {
    index: &'g Index<K, V>,
    found: Found<'g, K, V>,
}

impl<'g, K, V> Place<'g, K, V> {
    pub(super) fn node(&self) -> &'g Node<K, V> {
        self.found.node
    }
}

impl<'g, K, V> Writer<'g, K, V> {
    #[inline(always)]
    pub(super) fn find(
        &self,
        hash: TableHash,
        is_wanted: impl Fn(&Node<K, V>) -> bool,
    ) -> Option<Place<'g, K, V>> {
        [Some(self.current), self.next].into_iter().flatten().find_map(|index| {
            let found = index.find::<true>(hash, self.guard, &is_wanted)?;
            Some(Place { index, found })
        })
    }

    /// Counts a flow that was refused.
    pub(super) fn refuse(&mut self) {
        self.progress.refused += 1;
    }

    /// Returns a number that no flow of the shard has had.
    pub(super) fn number(&mut self) -> u64 {
        self.progress.number += 1;
        self.progress.number
    }

    /// Returns space for a new flow. No space is left if the index is full and memory for a larger
    /// one could not be allocated.
    #[inline(always)]
    pub(super) fn space(&mut self, hash: TableHash) -> Option<Space<'g, K, V>> {
        self.space_now(hash).or_else(|| self.space_of_larger(hash))
    }

    #[inline(always)]
    fn space_now(&self, hash: TableHash) -> Option<Space<'g, K, V>> {
        let index = self.next.unwrap_or(self.current);
        Some(Space { index, vacancy: index.vacancy(hash)? })
    }

    #[cold]
    fn space_of_larger(&mut self, hash: TableHash) -> Option<Space<'g, K, V>> {
        self.advance();
        self.space_now(hash)
    }

    /// Inserts a node whose key is absent into the space for its hash, which the preceding call
    /// returned. Returns the node.
    #[inline(always)]
    pub(super) fn enter(&mut self, space: &Space<'g, K, V>, node: Node<K, V>) -> &'g Node<K, V> {
        let hash = node.hash;
        let node = Published::new(node);
        space.index.enter(&space.vacancy, node, hash);
        self.shard.len.fetch_add(1, Ordering::Relaxed);
        // SAFETY: only the owner of the lock retires nodes, and has not retired this one.
        unsafe { node.get(self.guard) }
    }

    /// Replaces the node at a position with one of the same key, and returns the new node.
    pub(super) fn replace(&mut self, place: &Place<'g, K, V>, node: Node<K, V>) -> &'g Node<K, V> {
        let node = Published::new(node);
        if let Some(before) = place.index.replace(&place.found, node) {
            // SAFETY: the only link to the node leads to another one now; see `Shard` for the
            // guards.
            unsafe { before.retire(self.guard) };
        }
        // SAFETY: as in `enter`.
        unsafe { node.get(self.guard) }
    }

    /// Removes the node at a position; it stays readable as long as the guard is held.
    pub(super) fn leave(&mut self, place: &Place<'g, K, V>) {
        if let Some(node) = place.index.leave(&place.found, place.found.node.hash) {
            // SAFETY: the only link to the node was cleared: an entry that moves leaves its former
            // index before the lock is released. See `Shard` for the guards.
            unsafe { node.retire(self.guard) };
            self.shard.len.fetch_sub(1, Ordering::Relaxed);
            self.progress.removed += 1;
        }
    }

    /// Removes all nodes, and returns their number.
    pub(super) fn leave_all(&mut self) -> usize {
        let before = self.shard.len();
        for index in [Some(self.current), self.next].into_iter().flatten() {
            for line in 0..index.line_count() {
                for found in index.entries_of(line, self.guard).into_iter().flatten() {
                    self.leave(&Place { index, found });
                }
            }
        }
        before - self.shard.len()
    }

    /// Moves the entries of a few lines, and starts to move to another index if the load requires
    /// one.
    #[inline]
    fn advance(&mut self) {
        if self.next.is_none() {
            let (flows, lines) = (self.shard.len(), self.current.line_count());
            let Some(lines) = lines_of_next(flows, lines, self.lines_min) else { return };
            self.resize(lines);
        }
        self.advance_lines();
    }

    #[inline(never)]
    fn advance_lines(&mut self) {
        let (Some(next), Some(from)) = (self.next, self.progress.moved_lines) else { return };
        let to = (from + LINES_PER_WRITE).min(self.current.line_count());
        for line in from..to {
            for found in self.current.entries_of(line, self.guard).into_iter().flatten() {
                let hash = found.node.hash;
                let Some(node) = self.current.published_at(&found) else { continue };
                let Some(vacancy) = next.vacancy(hash) else {
                    // `lines_of_next` rules it out. The entry would stay, and be found, until
                    // others leave.
                    debug_assert!(false, "the next index has space for all entries");
                    self.progress.moved_lines = Some(line);
                    return;
                };
                next.enter(&vacancy, node, hash);
                self.current.leave(&found, hash);
            }
        }
        self.progress.moved_lines = Some(to);
        if to == self.current.line_count() {
            self.arrive(next);
        }
    }

    /// Makes the next index the current one.
    fn arrive(&mut self, next: &'g Index<K, V>) {
        let (former, new) = (self.shard.current.published(), self.current.next.published());
        self.shard.current.set(new);
        if let Some(former) = former {
            // SAFETY: the shard's link leads to the next index now, and there is no other. See
            // `Shard` for the guards.
            unsafe { former.retire(self.guard) };
        }
        (self.current, self.next) = (next, None);
        (self.progress.moved_lines, self.progress.hand) = (None, 0);
    }

    /// Opens another index, if there is memory for it.
    #[cold]
    fn resize(&mut self, lines: usize) {
        let Ok(next) = Index::try_new(lines) else { return };
        let next = Published::new(next);
        self.current.next.set(Some(next));
        // SAFETY: only the owner of the lock retires indexes, and has not retired this one.
        self.next = Some(unsafe { next.get(self.guard) });
        self.progress.moved_lines = Some(0);
    }

    /// Examines up to `budget` flows from where the last call ended, and removes those that
    /// `is_due` selects. Returns how many it examined, and whether it reached the end of the shard.
    pub(super) fn age(
        &mut self,
        budget: usize,
        is_due: impl Fn(&Node<K, V>) -> bool,
        removed: &mut Vec<&'g Node<K, V>>,
    ) -> (usize, bool) {
        let mut looked_at = 0;
        while self.next.is_some() {
            // A walk for expiry covers one index.
            if looked_at >= budget {
                return (looked_at, false);
            }
            self.advance();
            looked_at += LANES * LINES_PER_WRITE;
        }
        while looked_at < budget && self.progress.hand < self.current.line_count() {
            for found in self.current.entries_of(self.progress.hand, self.guard).into_iter().flatten() {
                looked_at += 1;
                if is_due(found.node) {
                    removed.push(found.node);
                    self.leave(&Place { index: self.current, found });
                    self.progress.removed -= 1;
                    self.progress.expired += 1;
                }
            }
            self.progress.hand += 1;
        }
        let is_end = self.progress.hand == self.current.line_count();
        if is_end {
            self.progress.hand = 0;
        }
        (looked_at, is_end)
    }

    /// Returns all nodes.
    pub(super) fn nodes(&self) -> Vec<&'g Node<K, V>> {
        let mut nodes = Vec::with_capacity(self.shard.len());
        for index in [Some(self.current), self.next].into_iter().flatten() {
            for line in 0..index.line_count() {
                nodes.extend(
                    index.entries_of(line, self.guard).into_iter().flatten().map(|found| found.node),
                );
            }
        }
        nodes
    }
}

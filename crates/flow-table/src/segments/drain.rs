//! Emptying the oldest segment before its flows end.

use flowloom_flow_key::TableHash;

use super::{Growing, SEGMENTS_MAX};
use crate::table::{Cursor, FlowId, FlowTable, TableKey};

/// Flows of a segment that is not worth making smaller.
const FEW_FLOWS: u32 = 1024;

/// The result of one call of [`Growing::drain_oldest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Drained {
    /// Flows that moved and have a new id.
    pub moved: u32,
    /// Whether an older segment remains and can be emptied further; `false` if the newest has
    /// refused all remaining flows.
    pub more: bool,
}

impl<K: TableKey, V, T: FlowTable<K, V>> Growing<K, V, T> {
    /// Gives memory back after most flows have ended: opens a segment with an eighth more space
    /// than the flows need, unless the newest has about that size, and moves the flows into it.
    ///
    /// Examines no more than `budget` flows; call it again while [`Drained::more`]. Each flow that
    /// moves gets a new id, as in [`drain_oldest`](Growing::drain_oldest), which also describes
    /// `hash`. Afterwards the table takes at most 1.3 times the memory of one built for these
    /// flows, or for a thousand if that is more.
    ///
    /// Nothing moves if there is no memory for the further segment.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn shrink(
        &mut self,
        budget: u32,
        hash: impl FnMut(&K) -> TableHash,
        on_move: impl FnMut(FlowId, FlowId),
    ) -> Drained {
        let with_an_eighth = |flows: u32| flows.saturating_add(flows / 8).min(self.options.flows);
        let wanted = with_an_eighth(self.len()).max(self.first_flows.min(FEW_FLOWS));
        if self.newest.flows > with_an_eighth(wanted) {
            if self.count() == SEGMENTS_MAX || self.open(wanted).is_err() {
                return Drained::default();
            }
            // The table grows again from here.
            self.largest = wanted;
        } else if !self.open_for_all() {
            return Drained::default();
        }
        self.drain_oldest(budget, hash, on_move)
    }

    /// Moves flows of the oldest segment into the newest, so that the oldest can be freed before
    /// its flows end.
    ///
    /// Examines no more than `budget` flows, so the time of a call is bounded; call it again while
    /// [`Drained::more`]. Each flow that moves gets a new id: `on_move` receives the old and the
    /// new one. Class, value and time move with it. A table stores no hashes, so `hash` must return
    /// the hash that the caller uses for lookups of a key.
    ///
    /// Nothing moves while there is only one segment, or no space in the newest. A flow that the
    /// newest segment refuses, because a list is at its cap, stays and is tried again after all
    /// others.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn drain_oldest(
        &mut self,
        budget: u32,
        mut hash: impl FnMut(&K) -> TableHash,
        mut on_move: impl FnMut(FlowId, FlowId),
    ) -> Drained {
        let (mut outcome, mut looked_at) = (Drained::default(), 0);
        while looked_at < budget {
            let Self { newest, older, .. } = self;
            let Some(oldest) = older.first_mut() else { return outcome };
            if newest.table.len() >= newest.table.capacity() {
                return outcome;
            }
            let Some((id, next)) = oldest.table.next_live(self.drained_to) else {
                let is_refused = self.drained == 0 && !oldest.table.is_empty();
                (self.drained_to, self.drained) = (Cursor::default(), 0);
                self.retire();
                return Drained { more: !self.older.is_empty() && !is_refused, ..outcome };
            };
            let (class, seen) = (oldest.table.class_of(id), oldest.table.last_seen(id));
            let (class, seen) = (class.unwrap_or_default(), seen.unwrap_or_default());
            let Some(key) = oldest.table.key_of(id) else { return outcome };
            let hash = hash(&key);
            self.drained_to = next;
            looked_at += 1;
            // A flow leaves its slot only when the newest segment has one for it. If the newest
            // refuses it because a list is at its cap, or if the caller's hash or comparison
            // panics, the flow stays.
            let make = || oldest.table.remove(id).expect("it was just met").1;
            if let Ok(entry) = newest.table.entry_with(key, hash, class, seen, make) {
                if !entry.is_new {
                    // Only if a key was inserted with different hashes.
                    drop(oldest.table.remove(id));
                }
                self.moved += 1;
                self.drained += 1;
                outcome.moved += 1;
                on_move(oldest.names.outer(id), newest.names.outer(entry.id));
            }
        }
        self.retire();
        outcome.more = !self.older.is_empty();
        outcome
    }

    /// Opens a segment for all flows if the newest has too little space for them, with up to twice
    /// the space that they need, as the limit allows. Returns whether there is one.
    pub(crate) fn open_for_all(&mut self) -> bool {
        if self.older.is_empty() || self.len() <= self.newest.flows {
            return true;
        }
        let wanted = self.newest.flows.max(self.len().saturating_mul(2)).min(self.options.flows);
        self.count() < SEGMENTS_MAX && self.open(wanted).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CLASS, OPTIONS, growing, hash};
    use super::*;
    use crate::table::Tick;
    use alloc::vec::Vec;

    #[test]
    fn the_oldest_segment_can_be_emptied_in_bounded_steps() {
        let mut table = growing(OPTIONS).unwrap();
        let mut ids: Vec<_> =
            (0..120).map(|key| table.insert(key, hash(key), key * 3, CLASS, Tick(key)).unwrap()).collect();
        let before = table.stats();
        assert_eq!(before.segments, 3);
        let (mut calls, mut more) = (0, true);
        while more {
            let mut moves = Vec::new();
            let drained = table.drain_oldest(7, |&key| hash(key), |old, new| moves.push((old, new)));
            assert!(drained.moved <= 7 && moves.len() == drained.moved as usize);
            for (old, new) in moves {
                let known = ids.iter_mut().find(|id| **id == old).expect("an id that was given");
                *known = new;
                assert_eq!(table.get(old), None, "the old name is no more");
            }
            (more, calls) = (drained.more, calls + 1);
            assert!(calls < 30, "it ends");
        }
        let after = table.stats();
        assert_eq!((after.segments, after.len), (1, 120));
        assert_eq!(
            (after.inserted, after.removed),
            (before.inserted, before.removed),
            "no flow came or went"
        );
        for (key, &id) in (0..120).zip(&ids) {
            assert_eq!((table.lookup(&key, hash(key)), table.get(id)), (Some(id), Some(&(key * 3))));
            assert_eq!(table.last_seen(id), Some(Tick(key)));
        }
        // Their time continues from when they were last seen.
        let mut gone = 0;
        table.expire(Tick(200), 1000, &mut |_, _, _| gone += 1);
        assert_eq!(gone, 120);
    }
}

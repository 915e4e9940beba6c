//! Emptying the oldest segment sooner than its flows end.

use super::Growing;
use crate::error::BuildError;
use crate::table::{Cursor, FlowId, FlowTable, TableKey};

/// What one call of [`Growing::drain_oldest`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Drained {
    /// Flows that have another id now.
    pub moved: u32,
    /// There is an older segment still, and room to empty it into.
    pub more: bool,
}

impl<K, V, T, F> Growing<K, V, T, F>
where
    K: TableKey,
    T: FlowTable<K, V>,
    F: FnMut(u32) -> Result<T, BuildError>,
{
    /// Moves flows of the oldest segment into the newest, so that the oldest can be given back before its flows end.
    ///
    /// Looks at no more than `budget` flows, so the time of a call is bounded; call again while [`Drained::more`]. Each flow
    /// that moved gets another id: `on_move` hears of the old one and the new one. Class, value and time go with it.
    /// A table does not keep hashes, so `hash` must give for a key what the caller looks it up with: what it was inserted with,
    /// or what is used since [`rekey`](Growing::rekey).
    ///
    /// Nothing moves while there is one segment, or no room in the newest.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn drain_oldest(
        &mut self,
        budget: u32,
        mut hash: impl FnMut(&K) -> u64,
        mut on_move: impl FnMut(FlowId, FlowId),
    ) -> Drained {
        let mut outcome = Drained::default();
        while self.segments.len() > 1 && outcome.moved < budget {
            let newest = self.newest();
            if newest.table.len() >= newest.table.capacity() {
                return outcome;
            }
            let oldest = &mut self.segments[0];
            let Some((id, next)) = oldest.table.next_live(self.drained_to) else {
                self.drained_to = Cursor::default();
                self.retire();
                return Drained { more: self.segments.len() > 1, ..outcome };
            };
            self.drained_to = next;
            let (class, seen) = (oldest.table.class_of(id), oldest.table.last_seen(id));
            let Some((key, value)) = oldest.table.remove(id) else { continue };
            let old = oldest.outer(id);
            let (class, seen) = (class.unwrap_or_default(), seen.unwrap_or_default());
            self.moved += 1;
            outcome.moved += 1;
            let now = hash(&key);
            let mut value = Some(value);
            let mut make = || value.take().expect("one segment takes the flow");
            // The newest may refuse for a list at its cap; the slot that was left is there in any case.
            for number in [self.segments.len() - 1, 0] {
                let hash = self.hash_in(&self.segments[number], &key, now);
                let segment = &mut self.segments[number];
                if let Ok(entry) = segment.table.entry_with(key, hash, class, seen, &mut make) {
                    on_move(old, segment.outer(entry.id));
                    break;
                }
            }
        }
        self.retire();
        outcome.more = self.segments.len() > 1;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{CLASS, LIMITS, build, hash};
    use super::*;
    use crate::table::Tick;
    use alloc::vec::Vec;

    #[test]
    fn the_oldest_segment_can_be_emptied_in_bounded_steps() {
        let mut table = Growing::try_new(LIMITS, build).unwrap();
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
            "nobody came or went"
        );
        for (key, &id) in (0..120).zip(&ids) {
            assert_eq!((table.lookup(&key, hash(key)), table.get(id)), (Some(id), Some(&(key * 3))));
            assert_eq!(table.last_seen(id), Some(Tick(key)));
        }
        // Their time goes on from when they were seen.
        let mut gone = 0;
        table.expire(Tick(200), 1000, &mut |_, _, _| gone += 1);
        assert_eq!(gone, 120);
    }
}

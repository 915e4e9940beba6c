//! Changes the hash of a table while it is in use.
//!
//! ```text
//!  before     hash A ──▶ │ older, A │ newest, A │
//!  rekey      hash B ──▶ │ older, A │ older, A  │ newest, B │   new flows; older segments use A
//!  drained    hash B ──▶                        │ newest, B │      A is forgotten
//! ```
//!
//! A flow's hash determines its position, so under another hash the flow must move, and gets a new
//! id. Flows move as they do when an old segment is drained: gradually, at the caller's pace, with
//! each change reported. Until then a lookup finds the flow at its old position.

use alloc::sync::Arc;

use super::{BuildSegment, Growing, SEGMENTS_MAX, Segment};
use crate::table::{FlowTable, Full, FullReason, TableKey};
use flowloom_flow_key::TableHash;

/// The previous hash of the callers.
pub(super) type FormerHash<K> = Arc<dyn Fn(&K) -> TableHash + Send + Sync>;

impl<K, V, T, F> Growing<K, V, T, F>
where
    K: TableKey,
    T: FlowTable<K, V>,
    F: BuildSegment<T>,
{
    /// Changes to another hash: from now on callers pass hashes with a new secret, and `former`
    /// computes the hash that they passed before.
    ///
    /// Use it when you suspect a flood by an attacker who knows the secret: flows refused as
    /// [`FullReason::ListCap`], or [`list_length_max`](crate::TableStats::list_length_max) and
    /// [`stashed`](crate::TableStats::stashed) far above their values for random keys. Another
    /// segment opens, as large as the newest and with space for all flows; new flows go there.
    /// Existing flows stay and keep their ids. A key that is not in the newest segment is looked up
    /// with the former hash, which costs one more hash and one more lookup.
    /// [`drain_oldest`](Growing::drain_oldest) moves them, with bounded work per call. Until then
    /// the table takes the memory of both. You may rekey again before that.
    ///
    /// It allocates, as growing does. A table without flows does not change.
    ///
    /// # Errors
    ///
    /// Returns [`FullReason::Memory`] if no segment can be opened: because of limits, memory, or
    /// twelve open segments, whose number draining reduces. Nothing has changed then, and callers
    /// must continue with their hash.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_key::FlowHasher;
    /// use flowloom_flow_table::segments::GrowthLimits;
    /// use flowloom_flow_table::{FlowTable, Growing, LineHash, LineHashConfig, Tick, TimeoutClass};
    ///
    /// let limits = GrowthLimits { first_flows: 100, flows_max: 1000, memory_max_bytes: 1 << 30 };
    /// let build = |flows| LineHash::<[u64; 2], ()>::try_new(&LineHashConfig::for_flows(flows));
    /// let mut table = Growing::try_new(limits, build)?;
    /// let (known, fresh) = (FlowHasher::random(), FlowHasher::random());
    /// let hash = known.hash_words(&[1, 2]).table;
    /// let id = table.insert([1, 2], hash, (), TimeoutClass(0), Tick(0))?;
    ///
    /// table.rekey(move |key: &[u64; 2]| known.hash_words(key).table)?;
    /// assert_eq!(table.lookup(&[1, 2], fresh.hash_words(&[1, 2]).table), Some(id));
    /// let mut moved = Vec::new();
    /// let hash = |key: &_| fresh.hash_words(key).table;
    /// while table.drain_oldest(32, hash, |old, new| moved.push((old, new))).more {}
    /// assert!(!table.is_rekeying());
    /// assert_eq!(moved, [(id, table.lookup(&[1, 2], fresh.hash_words(&[1, 2]).table).unwrap())]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rekey(&mut self, former: impl Fn(&K) -> TableHash + Send + Sync + 'static) -> Result<(), Full> {
        if self.is_empty() {
            return Ok(());
        }
        if !self.open_beside() {
            return Err(Full { reason: FullReason::Memory });
        }
        let former: FormerHash<K> = Arc::new(former);
        for segment in &mut self.older {
            // Flows that were not drained since an earlier rekey have an even older hash.
            segment.former.get_or_insert_with(|| Arc::clone(&former));
        }
        Ok(())
    }

    /// Returns whether any flow may still be at a position from a former hash. Once this is false,
    /// the table has dropped that hash.
    pub fn is_rekeying(&self) -> bool {
        self.older.iter().any(|segment| segment.former.is_some())
    }

    /// Opens a segment for all flows if the newest has too little space for them; returns whether
    /// there is one.
    pub(crate) fn open_for_all(&mut self) -> bool {
        self.older.is_empty() || self.len() <= self.newest.flows || self.open_beside()
    }

    /// Opens a segment as large as the newest, with up to twice the space that all flows need, as
    /// the limit allows. Returns whether it succeeded.
    fn open_beside(&mut self) -> bool {
        let wanted = self.newest.flows.max(self.len().saturating_mul(2)).min(self.limits.flows_max);
        self.count() < SEGMENTS_MAX && self.open(wanted).is_ok()
    }
}

impl<K, T> Segment<K, T> {
    /// Returns the hash of a key in this segment.
    #[inline]
    pub(super) fn hash_in(&self, key: &K, hash: TableHash) -> TableHash {
        self.former.as_ref().map_or(hash, |former| former(key))
    }
}

#[cfg(test)]
mod tests {
    use super::super::GrowthLimits;
    use super::super::tests::{CLASS, LIMITS, build, hash};
    use super::*;
    use crate::error::BuildError;
    use crate::linehash::{LineHash, LineHashConfig};
    use crate::table::{FlowId, Tick};
    use alloc::vec;
    use alloc::vec::Vec;

    /// The hash with a secret.
    fn under(secret: u64) -> impl Fn(&u64) -> TableHash + Send + Sync + Copy + 'static {
        move |&key| hash(key ^ secret << 32)
    }

    /// Looks up keys one by one and all at once.
    fn found<T: FlowTable<u64, u64>>(
        table: &T,
        keys: &[u64],
        by: impl Fn(&u64) -> TableHash,
    ) -> Vec<Option<FlowId>> {
        let hashes: Vec<TableHash> = keys.iter().map(&by).collect();
        for &hash in &hashes {
            table.prefetch(hash);
        }
        let mut ids = vec![FlowId::new(9, 9); keys.len()];
        table.lookup_batch(keys, &hashes, &mut ids);
        for ((key, &hash), &id) in keys.iter().zip(&hashes).zip(&ids) {
            assert_eq!(table.lookup(key, hash), id, "{key}");
        }
        ids
    }

    #[test]
    fn flows_are_found_under_the_new_hash_before_and_after_they_move() {
        let mut table = Growing::try_new(LIMITS, build).unwrap();
        let (first, second) = (under(1), under(2));
        let keys: Vec<u64> = (0..90).collect();
        let mut ids: Vec<FlowId> = keys
            .iter()
            .map(|key| table.insert(*key, first(key), key * 3, CLASS, Tick(0)).unwrap())
            .collect();
        let segments = table.stats().segments;
        table.rekey(first).unwrap();
        assert!(table.is_rekeying());
        assert_eq!((table.stats().segments, table.len()), (segments + 1, 90));
        let known: Vec<_> = ids.iter().copied().map(Some).collect();
        assert_eq!(found(&table, &keys, second), known, "ids stay");
        // Flows are inserted, found and removed, wherever they are.
        let new = table.insert(1000, second(&1000), 7, CLASS, Tick(0)).unwrap();
        let entry = table.entry_with(5, second(&5), CLASS, Tick(0), || unreachable!()).unwrap();
        assert_eq!((entry.is_new, entry.id), (false, ids[5]));
        assert_eq!(table.remove_key(&6, second(&6)), Some(18));
        assert_eq!(table.remove_key(&1000, second(&1000)), Some(7));
        assert_eq!((table.get(new), table.get(ids[6])), (None, None));
        let budget = if cfg!(miri) { 45 } else { 10 };
        let (mut more, mut calls) = (true, 0);
        while more {
            let moved = |old: FlowId, new: FlowId| {
                *ids.iter_mut().find(|id| **id == old).expect("an id that was given") = new;
            };
            let drained = table.drain_oldest(budget, second, moved);
            assert!(drained.moved <= budget);
            (more, calls) = (drained.more, calls + 1);
            assert!(calls < 50, "it ends");
            let there = keys.iter().zip(&ids).map(|(key, id)| (*key != 6).then_some(*id));
            assert_eq!(found(&table, &keys, second), there.collect::<Vec<_>>(), "after {calls} calls");
        }
        assert!(!table.is_rekeying());
        assert_eq!((table.stats().segments, table.len()), (1, 89));
        assert_eq!(table.get(ids[80]), Some(&240));
    }

    #[test]
    fn turning_again_and_again_takes_no_more_places_and_gives_no_id_twice() {
        let mut table = Growing::try_new(LIMITS, build).unwrap();
        let mut ids: Vec<FlowId> = Vec::new();
        let turns = if cfg!(miri) { 4 } else { 40 };
        for key in 0..30_u64 {
            ids.push(table.insert(key, under(0)(&key), key, CLASS, Tick(0)).unwrap());
        }
        for turn in 0..turns {
            table.rekey(under(turn)).unwrap();
            while table.drain_oldest(100, under(turn + 1), |_, new| ids.push(new)).more {}
            assert_eq!((table.len(), table.stats().segments), (30, 1), "turn {turn}");
        }
        ids.sort_unstable();
        ids.dedup();
        assert!(ids.len() as u64 >= 30 * (turns + 1), "{} ids", ids.len());
        let one = build(60).unwrap().slot_count();
        assert!(table.slot_count() <= 3 * one, "{} slots, {one} a segment", table.slot_count());
    }

    #[test]
    fn a_table_that_cannot_open_a_segment_stays_as_it_is() {
        let one = build(10).unwrap().memory().total_bytes();
        let limits = GrowthLimits { memory_max_bytes: one, ..LIMITS };
        let mut table = Growing::try_new(limits, build).unwrap();
        table.rekey(under(1)).expect("no flow to move");
        assert!(!table.is_rekeying());
        let id = table.insert(1, under(1)(&1), 1, CLASS, Tick(0)).unwrap();
        assert_eq!(table.rekey(under(1)), Err(Full { reason: FullReason::Memory }));
        assert!(!table.is_rekeying());
        assert_eq!(table.lookup(&1, under(1)(&1)), Some(id));
    }

    /// Segments of 2000 flows.
    const WIDE: GrowthLimits =
        GrowthLimits { first_flows: 2000, flows_max: 2000, memory_max_bytes: u64::MAX };

    fn line_hash(flows: u32) -> Result<LineHash<u64, u64>, BuildError> {
        LineHash::try_new(&LineHashConfig::for_flows(flows))
    }

    /// The hash of all keys of a flood.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "as hashes are called")]
    fn known(_: &u64) -> TableHash {
        TableHash::from_mixed(0x1234_5678_9ABC_DEF0)
    }

    #[test]
    fn a_flood_that_knows_the_hash_ends_with_it() {
        let mut table = Growing::try_new(WIDE, line_hash).unwrap();
        // Line, alternates and a list of 64 fill; after that, the flood is rejected, and so is any
        // other flow of its line.
        let count = if cfg!(miri) { 220 } else { 1000 };
        let outcomes = (0..count).map(|key| table.insert(key, known(&key), key, CLASS, Tick(0)));
        let reasons = outcomes.filter_map(|outcome| outcome.err().map(|refused| refused.reason));
        let refused = reasons.filter(|reason| *reason == FullReason::ListCap).count();
        assert!(refused as u64 + 200 > count, "{refused} of {count}");
        table.rekey(known).unwrap();
        for key in 0..count {
            table.insert(key, under(9)(&key), key, CLASS, Tick(0)).expect("space for all");
        }
        while table.drain_oldest(64, under(9), |_, _| {}).more {}
        let stats = table.stats();
        assert_eq!((u64::from(stats.len), stats.stashed, stats.segments), (count, 0, 1));
    }

    #[test]
    fn flows_that_the_newest_refuses_stay_and_a_loop_over_all_ends() {
        let mut table = Growing::try_new(WIDE, line_hash).unwrap();
        let fill = |table: &mut Growing<_, _, _, _>, keys: core::ops::Range<u64>| {
            keys.filter(|key| table.insert(*key, known(key), *key, CLASS, Tick(0)).is_ok()).count()
        };
        let older = fill(&mut table, 0..200);
        table.rekey(known).unwrap();
        let newer = fill(&mut table, 200..400);
        assert!(older == newer && older < 200, "{older} and {newer}");
        // One flow of the newest segment ends, so one of the oldest can move.
        assert_eq!(table.remove_key(&200, known(&200)), Some(200));
        let (mut calls, mut moved) = (0, 0);
        while table.drain_oldest(7, known, |_, _| moved += 1).more {
            calls += 1;
            assert!(calls < 100, "it ends");
        }
        assert_eq!((moved, table.stats().segments, table.len() as usize), (1, 2, older + newer - 1));
        assert_eq!((0..200).filter(|key| table.lookup(key, known(key)).is_some()).count(), older);
    }
}

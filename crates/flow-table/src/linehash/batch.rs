//! The lookup of many keys at once, as a pipeline.
//!
//! ```text
//!  key   i + DEPTH             i + STATES_AHEAD                i
//!        its line is asked for its line is compared with its  its state is compared with its key
//!                              signature, its state asked for
//! ```
//!
//! If the caller has prefetched the lines, the first step is already done, and the second precedes
//! the third by [`PREFETCHED_STATES_AHEAD`] keys.
//!
//! Lines and states are prefetched into the second-level cache, because there are many of them and
//! [the first level seems to track few lines in flight](prefetch::read_later). On Zen 4 this halves
//! the time of hits in batches of 256 at a million and at eight million flows, and misses take 0.7
//! to 1.05 and 0.4 times as long; at 65,536 flows batches of 256 take 0.9 to 1.0 times as long, and
//! batches of 32 take 0.8 to 1.2 times as long.
//!
//! A batch of any length runs in blocks of [`BLOCK`]. The intermediate result of a key is stored
//! where its id will be, so the stages pass data only through the caller's memory. The few flows
//! that may be outside their home line leave the pipeline for a list of strays, so that no key
//! waits for a second line. Adding to the list takes no branch, because no branch predictor could
//! learn it in a table that is fuller than three quarters or long in use. With a branch, misses
//! take 0.96 times as long in a new table, 1.02 times after several turnovers, and 1.3 times when
//! lines are 86 per cent full.

use core::cell::Cell;
use core::ops::Range;

use flowloom_cpu::pages::{Fractions, Generation};
use flowloom_cpu::prefetch;

use super::layout::{Filter, Line, LinePlace, Way, state_of};
use super::table::LineHash;
use crate::arch::{Kernel, Lanes};
use crate::state::slab::Tenants;
use crate::table::{FlowId, TableKey};
use flowloom_flow_key::TableHash;

/// Keys between the prefetch of a line and its comparison. At eight million flows on Zen 4, a miss
/// takes 8.6 ns with 32 and 6.9 ns with 64.
const LINES_AHEAD: usize = 64;

/// Keys between the prefetch of a state and its comparison. At a million flows, Zen 4 takes 9.3 ns
/// per key with 64, 8.8 ns with 96 and 8.5 ns with 160; Zen 5, prefetching into the first level,
/// takes 7.6 ns with 64 and 7.2 ns with 96.
const STATES_AHEAD: usize = 96;

/// The same distance if the caller has prefetched the lines. At a million flows, Zen 4 takes 9.7 ns
/// per hit with 64, 9.1 ns with 112 and 8.8 ns with 160, and 4.8, 4.9 and 5.0 ns per miss; at 4,096
/// flows a miss takes 3.9, 3.9 and 4.1 ns.
const PREFETCHED_STATES_AHEAD: usize = 160;

/// Keys between the two ends of the pipeline.
const DEPTH: usize = LINES_AHEAD + STATES_AHEAD;

/// Returns the number of keys between the ends of the pipeline, and between the last two steps.
const fn distances(prefetched: bool) -> (usize, usize) {
    if prefetched { (PREFETCHED_STATES_AHEAD, PREFETCHED_STATES_AHEAD) } else { (DEPTH, STATES_AHEAD) }
}

/// Number of keys that share a list of strays: as many as a byte can number.
const BLOCK: usize = 256;

/// Number of strays that are looked up at once.
const ROUND: usize = 32;

/// A pipelined lookup of many keys. `PREFETCHED` states whether the caller has prefetched the
/// lines.
pub(super) struct FindBatch<'a, K, V, F, const PREFETCHED: bool> {
    pub(super) table: &'a LineHash<K, V>,
    pub(super) keys: &'a [K],
    pub(super) hashes: &'a [TableHash],
    pub(super) ids: &'a mut [Option<FlowId>],
    /// Called with the values of found flows and their numbers in the batch.
    pub(super) on_flow: F,
}

/// Keys of a block that leave the pipeline, by number: those that are not in their home line but
/// may be elsewhere, and those whose signature belongs to another flow. A key is in at most one of
/// the two lists.
struct Apart<'a> {
    numbers: &'a mut [u8; BLOCK],
    count: usize,
}

impl Apart<'_> {
    /// Notes a key if `really`, without a branch.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a block's keys are numbered by a byte")]
    fn note(&mut self, number: usize, really: bool) {
        self.numbers[usize::from(self.count as u8)] = number as u8;
        self.count += usize::from(really);
    }

    /// Returns the noted keys from a position on, at most `most`.
    #[inline(always)]
    fn some(&self, from: usize, most: usize) -> &[u8] {
        let noted = &self.numbers[..self.count.min(BLOCK)];
        let rest = noted.get(from..).unwrap_or_default();
        &rest[..rest.len().min(most)]
    }
}

/// The parts of a table that the pipeline reads. Behind a reference, they would be loaded again for
/// every key.
struct Pipeline<'a, K, V> {
    lines: Fractions<'a, Line>,
    states: Tenants<'a, K, V>,
    /// States per line, loaded from the table, which takes fewer instructions than the constant.
    line_states: u32,
    /// Number of keys of the batch before the block.
    before: usize,
}

impl<K, V> Clone for Pipeline<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Pipeline<'_, K, V> {}

impl<'a, K: TableKey, V> Pipeline<'a, K, V> {
    /// Returns the parts; `None` for a table without lines.
    #[inline(always)]
    fn new(table: &'a LineHash<K, V>, before: usize) -> Option<Self> {
        let lines = Fractions::new(&table.lines)?;
        Some(Self { lines, states: table.states.tenants(), line_states: table.line_states, before })
    }

    /// Prefetches the home line of a key.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "lines are counted in 32 bits")]
    fn fetch(self, hash: TableHash) {
        let lines = self.lines.as_slice();
        let near = LinePlace::near_line_of(hash, lines.len() as u32);
        prefetch::read_later(lines.as_ptr().cast::<u8>().wrapping_add(near));
    }

    /// Compares a home line with a signature, and prefetches the state that matches. Without a
    /// match the flow does not exist or is elsewhere.
    #[inline(always)]
    fn compare<L: Lanes>(
        self,
        lanes: L,
        number: usize,
        hash: TableHash,
        id: &Cell<Option<FlowId>>,
        apart: &mut Apart<'_>,
    ) {
        let (home, line) = self.lines.at((hash.bits() >> 32) as u32);
        let signature = LinePlace::signature_of(hash);
        let matching = lanes.equal_lanes(line, signature);
        if matching == 0 {
            id.set(None);
            apart.note(number, line.may_be_elsewhere(hash));
        } else {
            let slot = home * self.line_states + matching.trailing_zeros();
            self.states.prefetch_later(slot);
            id.set(Some(FlowId::from_parts(slot, Generation::FIRST)));
        }
    }

    /// Compares a key with the state that matched, and passes the value on if the keys are equal.
    #[inline(always)]
    fn verify(
        self,
        number: usize,
        key: &K,
        id: &Cell<Option<FlowId>>,
        apart: &mut Apart<'_>,
        on_flow: &mut impl FnMut(usize, &V),
    ) {
        let Some(candidate) = id.get() else { return };
        let found = self.states.verify_value(candidate.slot(), key);
        match found {
            Some((_, value)) => on_flow(self.before + number, value),
            None => apart.note(number, true),
        }
        id.set(found.map(|(id, _)| id));
    }
}

/// The pipeline while it is full.
struct Steady<'a, 'f, K, V, F, const PREFETCHED: bool> {
    pipeline: Pipeline<'a, K, V>,
    keys: &'a [K],
    hashes: &'a [TableHash],
    ids: &'a [Cell<Option<FlowId>>],
    apart: Apart<'a>,
    on_flow: &'f mut F,
}

impl<'a, K, V, F, const PREFETCHED: bool> Kernel for Steady<'a, '_, K, V, F, PREFETCHED>
where
    K: TableKey,
    F: FnMut(usize, &V),
{
    type Output = Apart<'a>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Apart<'a> {
        let Self { pipeline, keys, hashes, ids, mut apart, on_flow } = self;
        // Slices of equal length, so that one bounds check suffices.
        let (depth, states_ahead) = distances(PREFETCHED);
        let Some((_, coming)) = hashes.split_at_checked(depth) else { return apart };
        let count = coming.len();
        let (here, here_ids) = (&hashes[states_ahead..][..count], &ids[states_ahead..][..count]);
        let (going, going_ids) = (&keys[..count], &ids[..count]);
        for number in 0..count {
            if !PREFETCHED {
                pipeline.fetch(coming[number]);
            }
            pipeline.compare(lanes, states_ahead + number, here[number], &here_ids[number], &mut apart);
            pipeline.verify(number, &going[number], &going_ids[number], &mut apart, on_flow);
        }
        apart
    }
}

/// Keys that are only compared with their lines: the first keys, and all keys of short blocks.
struct Compare<'a, K, V> {
    pipeline: Pipeline<'a, K, V>,
    /// The number of the first key.
    first: usize,
    hashes: &'a [TableHash],
    ids: &'a [Cell<Option<FlowId>>],
    apart: Apart<'a>,
}

impl<'a, K: TableKey, V> Kernel for Compare<'a, K, V> {
    type Output = Apart<'a>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Apart<'a> {
        let Self { pipeline, first, hashes, ids, mut apart } = self;
        for (number, (&hash, id)) in (first..).zip(hashes.iter().zip(ids)) {
            pipeline.compare(lanes, number, hash, id, &mut apart);
        }
        apart
    }
}

/// Keys that are only compared with their states: the last keys.
struct Verify<'a, 'f, K, V, F> {
    pipeline: Pipeline<'a, K, V>,
    /// The number of the first key.
    first: usize,
    keys: &'a [K],
    ids: &'a [Cell<Option<FlowId>>],
    apart: Apart<'a>,
    on_flow: &'f mut F,
}

impl<'a, K: TableKey, V, F: FnMut(usize, &V)> Kernel for Verify<'a, '_, K, V, F> {
    type Output = Apart<'a>;

    #[inline(always)]
    fn run<L: Lanes>(self, _lanes: L) -> Apart<'a> {
        let Self { pipeline, first, keys, ids, mut apart, on_flow } = self;
        for (number, (key, id)) in (first..).zip(keys.iter().zip(ids)) {
            pipeline.verify(number, key, id, &mut apart, on_flow);
        }
        apart
    }
}

/// A block of keys.
struct Block<'a, K, V> {
    table: &'a LineHash<K, V>,
    /// Number of keys of the batch before the block.
    before: usize,
    keys: &'a [K],
    hashes: &'a [TableHash],
    /// The state whose signature matched; after the key comparison, the answer.
    ids: &'a [Cell<Option<FlowId>>],
}

impl<'a, K: TableKey, V> Block<'a, K, V> {
    /// Compares several keys with their lines.
    #[inline(always)]
    fn compare<'b, L: Lanes>(
        &self,
        lanes: L,
        pipeline: Pipeline<'b, K, V>,
        some: Range<usize>,
        apart: Apart<'b>,
    ) -> Apart<'b>
    where
        'a: 'b,
    {
        if some.is_empty() {
            return apart;
        }
        let (first, hashes, ids) = (some.start, &self.hashes[some.clone()], &self.ids[some]);
        lanes.apart(Compare { pipeline, first, hashes, ids, apart })
    }

    /// Compares several keys with their states.
    #[inline(always)]
    fn verify<'b, L: Lanes>(
        &self,
        lanes: L,
        pipeline: Pipeline<'b, K, V>,
        some: Range<usize>,
        apart: Apart<'b>,
        on_flow: &mut impl FnMut(usize, &V),
    ) -> Apart<'b>
    where
        'a: 'b,
    {
        let (first, keys, ids) = (some.start, &self.keys[some.clone()], &self.ids[some]);
        lanes.apart(Verify { pipeline, first, keys, ids, apart, on_flow })
    }

    #[inline(always)]
    fn run<L: Lanes, const PREFETCHED: bool>(&self, lanes: L, on_flow: &mut impl FnMut(usize, &V)) {
        let Self { table, before, keys, hashes, ids } = *self;
        let Some(pipeline) = Pipeline::new(table, before) else {
            return ids.iter().for_each(|id| id.set(None));
        };
        let mut apart = Apart { numbers: &mut [0; BLOCK], count: 0 };
        let count = hashes.len();
        let (depth, states_ahead) = distances(PREFETCHED);
        if !PREFETCHED {
            for &hash in &hashes[..count.min(depth)] {
                pipeline.fetch(hash);
            }
        }
        apart = self.compare(lanes, pipeline, 0..count.min(states_ahead), apart);
        let steady = count.saturating_sub(depth);
        if steady != 0 {
            let on_flow = &mut *on_flow;
            apart =
                lanes.apart(Steady::<_, _, _, PREFETCHED> { pipeline, keys, hashes, ids, apart, on_flow });
        }
        apart = self.compare(lanes, pipeline, (states_ahead + steady).min(count)..count, apart);
        // The strays' memory accesses overlap with those of the last keys of the block.
        let strays = apart.some(0, ROUND).len();
        self.ask(apart.some(0, strays));
        let half = steady + (count - steady) / 2;
        apart = self.verify(lanes, pipeline, steady..half, apart, on_flow);
        let candidates = self.compare_strays(lanes, apart.some(0, strays));
        apart = self.verify(lanes, pipeline, half..count, apart, on_flow);
        self.verify_strays(lanes, apart.some(0, strays), &candidates, on_flow);
        let mut done = strays;
        while done < apart.count {
            let numbers = apart.some(done, ROUND);
            self.ask(numbers);
            let candidates = self.compare_strays(lanes, numbers);
            self.verify_strays(lanes, numbers, &candidates, on_flow);
            done += ROUND;
        }
    }

    /// Prefetches the lines that may contain strays.
    #[inline(always)]
    fn ask(&self, numbers: &[u8]) {
        let Self { table, hashes, .. } = *self;
        for &number in numbers {
            let hash = hashes[usize::from(number)];
            let place = table.place_of_hash(hash);
            for way in [Way::First, Way::Second] {
                prefetch::read_later_at(
                    &table.lines,
                    place.alternate(hash, table.line_count(), way) as usize,
                );
            }
        }
    }

    /// Compares these lines, prefetches the states that match, and returns them.
    #[inline(always)]
    fn compare_strays<L: Lanes>(&self, lanes: L, numbers: &[u8]) -> [Option<u32>; ROUND] {
        let Self { table, hashes, .. } = *self;
        let mut candidates = [None; ROUND];
        for (candidate, &number) in candidates.iter_mut().zip(numbers) {
            let hash = hashes[usize::from(number)];
            let place = table.place_of_hash(hash);
            let first = place.alternate(hash, table.line_count(), Way::First);
            let second = place.alternate(hash, table.line_count(), Way::Second);
            let matching = table.lanes_with(lanes, first, place.signature);
            let other = table.lanes_with(lanes, second, place.signature);
            let (line, matching) = if matching == 0 { (second, other) } else { (first, matching) };
            if matching != 0 {
                let slot = state_of(line, matching.trailing_zeros());
                table.states.prefetch_later(slot);
                *candidate = Some(slot);
            }
        }
        candidates
    }

    /// Compares their keys, and searches the stash for those that may be there.
    #[inline(always)]
    fn verify_strays<L: Lanes>(
        &self,
        lanes: L,
        numbers: &[u8],
        candidates: &[Option<u32>; ROUND],
        on_flow: &mut impl FnMut(usize, &V),
    ) {
        let Self { table, before, keys, hashes, ids } = *self;
        for (&number, &candidate) in numbers.iter().zip(candidates) {
            let number = usize::from(number);
            let (key, hash) = (&keys[number], hashes[number]);
            let found = if let Some(slot) = candidate {
                table.states.verify(slot, key)
            } else {
                let LinePlace { home, signature } = table.place_of_hash(hash);
                let stashed = table.lines.get(home as usize).is_some_and(Filter::may_have_stashed);
                if !stashed && table.lanes_with(lanes, home, signature) == 0 {
                    continue;
                }
                None
            };
            let found = found.or_else(|| table.find_anywhere(key, hash));
            if let Some(value) = found.and_then(|id| table.states.get(id)) {
                on_flow(before + number, value);
            }
            ids[number].set(found);
        }
    }
}

/// Hashes whose states the kernel prefetches.
pub(super) struct AskStates<'a, K, V> {
    pub(super) table: &'a LineHash<K, V>,
    pub(super) hashes: &'a [TableHash],
}

impl<K: TableKey, V> Kernel for AskStates<'_, K, V> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { table, hashes } = self;
        let Some(pipeline) = Pipeline::new(table, 0) else { return };
        for hashes in hashes.chunks(BLOCK) {
            let mut apart = Apart { numbers: &mut [0; BLOCK], count: 0 };
            for (number, &hash) in hashes.iter().enumerate() {
                pipeline.compare(lanes, number, hash, &Cell::new(None), &mut apart);
            }
            let block = Block { table, before: 0, keys: &[], hashes, ids: &[] };
            let mut done = 0;
            while done < apart.count {
                let numbers = apart.some(done, ROUND);
                block.ask(numbers);
                block.compare_strays(lanes, numbers);
                done += ROUND;
            }
        }
    }
}

impl<K, V, F, const PREFETCHED: bool> Kernel for FindBatch<'_, K, V, F, PREFETCHED>
where
    K: TableKey,
    F: FnMut(usize, &V),
{
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { table, keys, hashes, ids, mut on_flow } = self;
        let ids = Cell::from_mut(ids).as_slice_of_cells();
        let mut before = 0;
        for ((keys, hashes), ids) in keys.chunks(BLOCK).zip(hashes.chunks(BLOCK)).zip(ids.chunks(BLOCK)) {
            let block = Block { table, before, keys, hashes, ids };
            block.run::<L, PREFETCHED>(lanes, &mut on_flow);
            before += BLOCK;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TableOptions;
    use crate::arch::Backend;
    use crate::table::{FlowTable, Tick, TimeoutClass};
    use alloc::vec;
    use alloc::vec::Vec;
    use flowloom_cpu::features::Isa;
    use flowloom_flow_key::hash::fold::split_mix;

    /// Looks up numbers, every other one of which is a flow, in a batch and one by one.
    fn compare(hash_of: impl Fn(u64) -> TableHash, flows: u64, batch: usize) {
        for isa in Isa::available() {
            let config = TableOptions {
                isa: Some(isa),
                buckets: Some(8),
                pool: Some(400),
                list_cap: Some(400),
                ..TableOptions::for_flows(600)
            };
            let mut table = LineHash::<u64, u64>::try_new(&config).unwrap();
            for number in 0..flows {
                table.insert(2 * number, hash_of(2 * number), number, TimeoutClass(0), Tick(0)).unwrap();
            }
            let keys: Vec<u64> = (0..batch as u64).collect();
            let hashes: Vec<TableHash> = keys.iter().map(|&key| hash_of(key)).collect();
            let mut ids = vec![FlowId::new(7, 7); keys.len()];
            table.prefetch_states(&hashes);
            table.lookup_batch(&keys, &hashes, &mut ids);
            let mut shown = vec![None; keys.len()];
            table.lookup_batch_values(&keys, &hashes, &mut ids.clone(), |place, &value| {
                assert_eq!(shown[place].replace(value), None, "{isa}: {place} of {batch} is shown twice");
            });
            let (mut prefetched, mut found) = (vec![None; keys.len()], ids.clone());
            table.lookup_batch_prefetched(&keys, &hashes, &mut found, |place, &value| {
                assert_eq!(
                    prefetched[place].replace(value),
                    None,
                    "{isa}: {place} of {batch} is shown twice"
                );
            });
            assert_eq!((found, &prefetched), (ids.clone(), &shown), "{isa}: {batch} that were asked for");
            for (((key, &hash), &id), shown) in keys.iter().zip(&hashes).zip(&ids).zip(shown) {
                assert_eq!(id, table.lookup(key, hash), "{isa}: {key} of {flows} flows, batch {batch}");
                assert_eq!(id.is_some(), key % 2 == 0 && *key < 2 * flows, "{isa}: {key} of {flows}");
                assert_eq!(shown, id.map(|_| key / 2), "{isa}: {key} of {flows}");
            }
        }
    }

    #[test]
    fn a_batch_of_any_length_finds_what_single_lookups_find() {
        let ends = |at: usize| [at - 1, at, at + 1];
        let lengths = [0, 1, 32, 300, 513].into_iter();
        for batch in
            lengths.chain([STATES_AHEAD, PREFETCHED_STATES_AHEAD, DEPTH, BLOCK].into_iter().flat_map(ends))
        {
            if cfg!(miri)
                && ![0, STATES_AHEAD + 1, PREFETCHED_STATES_AHEAD + 1, DEPTH + 1, BLOCK + 1]
                    .contains(&batch)
            {
                continue;
            }
            compare(hash_of, 150, batch);
        }
    }

    /// Looks up flows that are at home. Returns how many leave the pipeline nevertheless.
    struct AtHome<'a>(&'a LineHash<u64, u64>, &'a [u64]);

    impl Kernel for AtHome<'_> {
        type Output = usize;

        fn run<L: Lanes>(self, lanes: L) -> usize {
            let Self(table, keys) = self;
            let pipeline = Pipeline::new(table, 0).unwrap();
            let mut apart = Apart { numbers: &mut [0; BLOCK], count: 0 };
            for (number, &key) in keys.iter().enumerate() {
                let id = Cell::new(None);
                pipeline.compare(lanes, number, hash_of(key), &id, &mut apart);
                pipeline.verify(number, &key, &id, &mut apart, &mut |_, _| {});
            }
            apart.count
        }
    }

    fn hash_of(number: u64) -> TableHash {
        TableHash::from_mixed(split_mix(&mut number.clone()))
    }

    #[test]
    fn flow_in_its_home_line_is_found_without_further_reads() {
        for isa in Isa::available() {
            let config = TableOptions {
                isa: Some(isa),
                buckets: Some(8),
                pool: Some(400),
                ..TableOptions::for_flows(400)
            };
            let mut table = LineHash::<u64, u64>::try_new(&config).unwrap();
            let keys: Vec<u64> = (0..40).collect();
            for &key in &keys {
                table.insert(key, hash_of(key), key, TimeoutClass(0), Tick(0)).unwrap();
            }
            let backend = Backend::new(isa).unwrap();
            assert_eq!(backend.run(AtHome(&table, &keys)), 0, "{isa}");
        }
    }

    #[test]
    fn batches_of_only_false_matches_or_only_displaced_flows_are_found() {
        let (flows, batch) = if cfg!(miri) { (100, 60) } else { (300, 600) };
        // With a single hash, line, alternates and stash are full of flows with one signature.
        compare(|_| TableHash::from_mixed(0x1234_5678_9ABC_DEF0), flows, batch);
        // With one line and distinct signatures, a key that is not at home is searched for
        // elsewhere.
        compare(|number| TableHash::from_mixed((number << 1) & 0x7FFF | 0x1_0000), flows, batch);
    }
}

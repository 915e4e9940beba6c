//! DHash as the paper describes it: three procedures, slot by slot, with counts.
//!
//! Signature and major location are type parameters, so every row of [DHASH Tab. IV] and [DHASH
//! Tab. V] is a type; [`SignatureAlgorithm`](super::signature::SignatureAlgorithm) and an optional
//! major location are chosen at run time. The counts go to a [`Probe`].
//!
//! * *Find* [DHASH §III-D.1, Fig. 2]: from the major location to the end, wrap, up to the slot
//!   before; compare the key of each signature that matches; then search the conflict list; then,
//!   for signatures that swap halves with the direction, repeat the search with swapped halves.
//! * *Add* [DHASH §III-D.2]: the first empty slot in the same order, else a pool state and a list
//!   element.
//! * *Delete* [DHASH §III-D.3]: clear the slot, or return the state to the pool and unlink it.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use flowloom_cpu::pages::{HugePages, PageReport};
use flowloom_flow_key::TableHash;

use super::layout::{SLOTS_PER_BUCKET, state_of};
use super::major_location::{Folded, MajorLocation};
use super::signature::{Keyed, Signature, non_zero};
use super::table::DHash;
use crate::error::BuildError;
use crate::indexed::Indexed;
use crate::options::TableOptions;
use crate::probe::{Counts, NoProbe, Probe};
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// Whether a search visits the conflict list of its bucket.
pub trait ListSearch {
    /// Whether a search visits the list.
    const VISITS: bool;
}

/// Searches visit the list, as in the paper.
#[derive(Clone, Copy, Debug, Default)]
pub struct Searched;

impl ListSearch for Searched {
    const VISITS: bool = true;
}

/// Searches ignore the lists, so flows in lists are never found. This is a planted mistake, for
/// experiments that must detect it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Skipped;

impl ListSearch for Skipped {
    const VISITS: bool = false;
}

/// The paper's table. See the [module](self).
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::dhash::major_location::FirstSlot;
/// use flowloom_flow_table::dhash::signature::{Algorithm4, Session};
/// use flowloom_flow_table::dhash::ReferenceDHash;
/// use flowloom_flow_table::TableOptions;
/// use flowloom_flow_table::probe::Counts;
/// use flowloom_flow_table::{FlowTable, Tick, TimeoutClass};
///
/// let config = TableOptions::for_flows(100);
/// let mut table = ReferenceDHash::<Session, (), Algorithm4, FirstSlot>::try_new(&config)?;
/// let session = Session { source: 1, destination: 2, source_port: 3, destination_port: 4 };
/// table.insert(session, TableHash::default(), (), TimeoutClass(0), Tick(0))?;
///
/// let mut counts = Counts::default();
/// assert!(table.find_counting(&session.reversed(), TableHash::default(), &mut counts).is_some());
/// assert_eq!(counts.comparisons, 17, "sixteen in vain, then the swapped signature at once");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReferenceDHash<K, V, S = Keyed, M = Folded, L = Searched> {
    table: DHash<K, V>,
    signature: S,
    major: M,
    counts: Option<Cell<Counts>>,
    lists_searched: PhantomData<L>,
}

impl<K: TableKey, V, S: Signature<K>, M: MajorLocation, L: ListSearch> ReferenceDHash<K, V, S, M, L> {
    /// Returns an empty table; it ignores the instruction set of the options.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError>
    where
        S: Default,
        M: Default,
    {
        Self::with(options, S::default(), M::default())
    }

    /// Returns an empty table whose strategies are values, such as those that a user selects.
    ///
    /// # Errors
    ///
    /// As [`try_new`](Self::try_new).
    pub fn with(options: &TableOptions, signature: S, major: M) -> Result<Self, BuildError> {
        let options = TableOptions { isa: None, huge_pages: HugePages::No, ..*options };
        let table = DHash::try_new(&options)?;
        Ok(Self { table, signature, major, counts: None, lists_searched: PhantomData })
    }

    /// Returns the table, which from now on counts the steps of all searches in
    /// [`TableStats::searches`].
    #[must_use]
    pub fn counting(self) -> Self {
        Self { counts: Some(Cell::default()), ..self }
    }

    /// Returns the flow of a key, and reports each step to `probe`.
    pub fn find_counting(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        let signature = non_zero(self.signature.raw(key, hash));
        let mut found = self.search(key, hash, signature, probe);
        if found.is_none() && self.signature.is_swapped_by_direction() {
            found = self.search(key, hash, signature.rotate_left(16), probe);
        }
        probe.done(found.is_some());
        found
    }

    /// Searches bucket and list for one form of the signature.
    fn search(&self, key: &K, hash: TableHash, signature: u32, probe: &mut impl Probe) -> Option<FlowId> {
        let bucket = hash.bucket(self.table.bucket_count);
        let slots = &self.table.buckets[bucket as usize].0;
        let start = self.major.slot(signature);
        probe.line();
        for distance in 0..SLOTS_PER_BUCKET {
            let slot = (start + distance) % SLOTS_PER_BUCKET;
            probe.comparison();
            if slots[slot as usize] == signature {
                probe.line();
                if let Some(id) = self.table.states.verify(state_of(bucket, slot), key) {
                    if distance == 0 {
                        probe.first_hit();
                    }
                    return Some(id);
                }
                probe.false_match();
            }
        }
        if !L::VISITS {
            return None;
        }
        for (number, stored) in self.table.lists.list(bucket) {
            probe.line();
            probe.list_step();
            probe.comparison();
            if stored == signature {
                probe.line();
                let id = self.table.states.verify(self.table.pool_start() + number, key);
                if id.is_some() {
                    return id;
                }
                probe.false_match();
            }
        }
        None
    }
}

impl<K: TableKey, V, S: Signature<K>, M: MajorLocation, L: ListSearch> Indexed
    for ReferenceDHash<K, V, S, M, L>
{
    type Key = K;
    type Value = V;

    fn states(&self) -> &States<K, V> {
        self.table.states()
    }

    fn states_mut(&mut self) -> &mut States<K, V> {
        self.table.states_mut()
    }

    fn prefetch_index(&self, _hash: TableHash) {}

    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        let Some(counts) = &self.counts else { return self.find_counting(key, hash, &mut NoProbe) };
        let mut steps = counts.get();
        let found = self.find_counting(key, hash, &mut steps);
        counts.set(steps);
        found
    }

    fn vacancy(&self, key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let bucket = hash.bucket(self.table.bucket_count);
        let start = self.major.slot(non_zero(self.signature.raw(key, hash)));
        let slots = &self.table.buckets[bucket as usize].0;
        (0..SLOTS_PER_BUCKET)
            .map(|distance| (start + distance) % SLOTS_PER_BUCKET)
            .find(|&slot| slots[slot as usize] == 0)
            .map(|slot| state_of(bucket, slot))
            .map_or_else(
                || self.table.lists.vacancy(bucket).map(|number| self.table.pool_start() + number),
                Ok,
            )
    }

    fn link(&mut self, slot: u32, key: &K, hash: TableHash) {
        self.table.link_signature(slot, hash, non_zero(self.signature.raw(key, hash)));
    }

    fn unlink(&mut self, slot: u32) {
        self.table.unlink(slot);
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        self.table.visit_rivals(hash, visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        self.table.visit_further(hash, visit);
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        self.table.complete_stats(stats);
        stats.searches = self.counts.as_ref().map(Cell::get);
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        self.table.complete_memory(memory);
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.table.index_pages_obtained()
    }
}

impl<K, V, S, M, L> fmt::Debug for ReferenceDHash<K, V, S, M, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReferenceDHash").field(&self.table).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dhash::major_location::{FirstSlot, LowBits};
    use crate::dhash::signature::{Algorithm4, Session};
    use crate::table::{FlowTable, Tick, TimeoutClass};
    use alloc::vec::Vec;
    use flowloom_flow_key::hash::fold::split_mix;

    /// File-3 of [DHASH Tab. II] at a quarter of its size, with the same number of flows per
    /// bucket.
    const FLOWS: u32 = 1_048_576 / 4;

    /// Fills a table, then looks up every flow in the order of insertion.
    fn measure<M: MajorLocation + Default>() -> Counts {
        let config = TableOptions { buckets: Some(25_000), ..TableOptions::for_flows(FLOWS) };
        let mut table = ReferenceDHash::<u64, (), Keyed, M>::try_new(&config).unwrap();
        let mut state = 42;
        let hashes: Vec<u64> = (0..FLOWS).map(|_| split_mix(&mut state)).collect();
        for &hash in &hashes {
            table.insert(hash, TableHash::from_mixed(hash), (), TimeoutClass(0), Tick(0)).unwrap();
        }
        let mut counts = Counts::default();
        for &hash in &hashes {
            assert!(table.find_counting(&hash, TableHash::from_mixed(hash), &mut counts).is_some());
        }
        counts
    }

    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵²")]
    fn per_hit(count: u64, counts: &Counts) -> f64 {
        count as f64 / counts.hits as f64
    }

    #[test]
    fn table_5_first_hit_ratio_is_67_percent() {
        if cfg!(miri) {
            return;
        }
        let counts = measure::<LowBits>();
        let first_hits = per_hit(counts.first_hits, &counts);
        assert!((first_hits - 0.673).abs() < 0.01, "{first_hits}");
        // The paper states 3.0 comparisons; its order is correct, but its value is not.
        let on_hits = per_hit(counts.comparisons, &counts);
        let average = on_hits * 0.95 + 16.0 * 0.05;
        assert!((average - 2.64).abs() < 0.1, "{average}");
    }

    #[test]
    fn table_5_comparisons_without_major_location_are_6_7() {
        if cfg!(miri) {
            return;
        }
        let counts = measure::<FirstSlot>();
        let on_hits = per_hit(counts.comparisons, &counts);
        // The first of a session's 20 packets misses, after sixteen comparisons [DHASH §V-B].
        let average = on_hits * 0.95 + 16.0 * 0.05;
        assert!((average - 6.73).abs() < 0.1, "{average}");
    }

    #[test]
    fn both_directions_find_the_session() {
        let config = TableOptions::for_flows(64);
        let mut table = ReferenceDHash::<Session, u16, Algorithm4>::try_new(&config).unwrap();
        for port in 0..64 {
            let session = Session { source: 9, destination: 4, source_port: port, destination_port: 80 };
            table
                .insert(
                    session,
                    TableHash::from_mixed(u64::from(port) << 58),
                    port,
                    TimeoutClass(0),
                    Tick(0),
                )
                .unwrap();
        }
        for port in 0..64 {
            let back = Session { source: 4, destination: 9, source_port: 80, destination_port: port };
            let id = table
                .lookup(&back, TableHash::from_mixed(u64::from(port) << 58))
                .expect("the other direction");
            assert_eq!(table.get(id), Some(&port));
        }
    }

    #[test]
    fn search_continues_after_a_false_match_and_counts_it() {
        let config = TableOptions { buckets: Some(1), ..TableOptions::for_flows(20) };
        let mut table = ReferenceDHash::<u64, ()>::try_new(&config).unwrap();
        for key in 0..20_u64 {
            table.insert(key, TableHash::from_mixed(7), (), TimeoutClass(0), Tick(0)).unwrap();
        }
        let mut counts = Counts::default();
        assert!(table.find_counting(&16, TableHash::from_mixed(7), &mut counts).is_some());
        assert_eq!((counts.false_matches, counts.list_steps), (19, 4), "the list's newest comes first");
        assert_eq!(counts.lines, 1 + 16 + 4 * 2, "the bucket, a state for each signature, four elements");
        assert!(table.find_counting(&99, TableHash::from_mixed(7), &mut counts).is_none());
        assert_eq!((counts.hits, counts.misses), (1, 1));
        assert_eq!(counts.comparisons, 2 * (16 + 4), "a miss searches bucket and list once");
    }

    #[test]
    fn counting_table_reports_the_steps_of_all_searches() {
        let mut table = ReferenceDHash::<u64, ()>::try_new(&TableOptions::for_flows(4)).unwrap();
        assert_eq!(table.stats().searches, None);
        table = table.counting();
        let hash = TableHash::from_mixed(7);
        table.insert(1, hash, (), TimeoutClass(0), Tick(0)).unwrap();
        assert!(table.lookup(&1, hash).is_some());
        let counts = table.stats().searches.expect("it counts");
        assert_eq!((counts.misses, counts.hits, counts.first_hits), (1, 1, 1), "an insertion searches");
        assert_eq!((counts.comparisons, counts.lines), (16 + 1, 1 + 2));
    }

    /// Flows elsewhere are worth evicting if the bucket can take one in their place: in a slot, or
    /// in its list.
    fn check_victims<T: Indexed<Key = u64, Value = ()>>(mut table: T) {
        let visited = |table: &T| {
            let mut slots = Vec::new();
            table.visit_further(TableHash::from_mixed(0), &mut |slot| {
                slots.push(slot);
                true
            });
            slots
        };
        let anywhere: Vec<u32> = (16..32).chain(0..16).collect();
        for key in 0..18 {
            let listed = if key == 17 { &[32][..] } else { &[] };
            assert_eq!(visited(&table), [listed, &anywhere].concat(), "after {key} flows");
            table.insert(key, TableHash::from_mixed(key + 1), (), TimeoutClass(0), Tick(0)).unwrap();
        }
        assert_eq!(visited(&table), [33, 32], "neither slots nor the pool have a place for one");
    }

    #[test]
    fn victim_from_another_bucket_frees_a_state_for_a_bucket_with_a_free_slot() {
        let config = TableOptions { buckets: Some(2), pool: Some(2), ..TableOptions::for_flows(34) };
        check_victims(ReferenceDHash::<u64, ()>::try_new(&config).unwrap());
        check_victims(DHash::<u64, ()>::try_new(&config).unwrap());
    }

    #[test]
    fn search_that_skips_lists_finds_only_flows_in_slots() {
        let config = TableOptions { buckets: Some(1), ..TableOptions::for_flows(20) };
        let mut table = ReferenceDHash::<u64, (), Keyed, FirstSlot, Skipped>::try_new(&config).unwrap();
        for key in 0..20_u64 {
            table.insert(key, TableHash::from_mixed(key << 40), (), TimeoutClass(0), Tick(0)).unwrap();
        }
        assert_eq!(
            (0..20_u64).filter(|key| table.lookup(key, TableHash::from_mixed(key << 40)).is_some()).count(),
            16
        );
    }
}

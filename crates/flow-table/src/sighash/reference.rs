//! `SigHash` as the paper describes it: bin by bin, with counts [FLOWNP §4.2].
//!
//! * *Find*: read the bucket's word; for each bin with the signature, read the state and compare
//!   the whole key; if none matches, search the exceptions.
//! * *Add*: the first empty bin, else an exception.
//! * *Delete*: empty the bin, or remove the exception.
//!
//! A [`Probe`] counts one line for the word, one for each state read, and one for each exception
//! visited. In the paper's terms these are accesses to SRAM, to DRAM, and the slow path.

use core::fmt;

use flowloom_cpu::pages::PageReport;

use super::layout::{BINS, bucket_of, place_of, signature_of, state_of, with};
use super::table::SigHash;
use crate::error::BuildError;
use crate::indexed::Indexed;
use crate::options::TableOptions;
use crate::probe::{NoProbe, Probe};
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};
use flowloom_flow_key::TableHash;

/// The paper's table. See the [module](self).
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::probe::Counts;
/// use flowloom_flow_table::sighash::ReferenceSigHash;
/// use flowloom_flow_table::TableOptions;
/// use flowloom_flow_table::{FlowTable, TableHash, Tick, TimeoutClass};
///
/// let mut table = ReferenceSigHash::<u64, ()>::try_new(&TableOptions::for_flows(100))?;
/// table.insert(7, TableHash::from_weak(7), (), TimeoutClass(0), Tick(0))?;
/// let mut counts = Counts::default();
/// assert!(table.find_counting(&7, TableHash::from_weak(7), &mut counts).is_some());
/// assert_eq!(counts.lines, 2, "one word and one state");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ReferenceSigHash<K, V>(SigHash<K, V>);

impl<K: TableKey, V> ReferenceSigHash<K, V> {
    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        SigHash::try_new(options).map(Self)
    }

    /// Returns the flow of a key, and reports each step to `probe`.
    pub fn find_counting(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        let found = self.search(key, hash, probe);
        probe.done(found.is_some());
        found
    }

    fn search(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        let bucket = bucket_of(hash, self.0.bucket_count);
        probe.line();
        for (bin, stored) in (0..BINS).zip(self.0.words[bucket as usize].to_le_bytes()) {
            probe.comparison();
            if stored == signature_of(hash) {
                probe.line();
                let found = self.0.states.verify(state_of(bucket, bin), key);
                if found.is_some() {
                    return found;
                }
                probe.false_match();
            }
        }
        for (number, stored) in self.0.exceptions.list(bucket) {
            probe.list_step();
            probe.comparison();
            probe.line();
            if stored == hash.signature() {
                let found = self.0.states.verify(self.0.pool_start() + number, key);
                if found.is_some() {
                    return found;
                }
                probe.false_match();
            }
        }
        None
    }
}

impl<K: TableKey, V> Indexed for ReferenceSigHash<K, V> {
    type Key = K;
    type Value = V;

    fn states(&self) -> &States<K, V> {
        &self.0.states
    }

    fn states_mut(&mut self) -> &mut States<K, V> {
        &mut self.0.states
    }

    fn prefetch_index(&self, _hash: TableHash) {}

    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.find_counting(key, hash, &mut NoProbe)
    }

    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let bucket = bucket_of(hash, self.0.bucket_count);
        let bins = self.0.words[bucket as usize].to_le_bytes();
        match (0..BINS).zip(bins).find(|&(_, stored)| stored == 0) {
            Some((bin, _)) => Ok(state_of(bucket, bin)),
            None => self.0.exceptions.vacancy(bucket).map(|number| self.0.pool_start() + number),
        }
    }

    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
        let bucket = bucket_of(hash, self.0.bucket_count);
        if let Some(number) = slot.checked_sub(self.0.pool_start()) {
            self.0.exceptions.link(number, bucket, hash.signature());
        } else {
            let (bucket, bin) = place_of(slot);
            let word = &mut self.0.words[bucket as usize];
            *word = with(*word, bin, signature_of(hash));
        }
    }

    fn unlink(&mut self, slot: u32) {
        if let Some(number) = slot.checked_sub(self.0.pool_start()) {
            self.0.exceptions.unlink(number);
        } else {
            let (bucket, bin) = place_of(slot);
            let word = &mut self.0.words[bucket as usize];
            *word = with(*word, bin, 0);
        }
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        self.0.visit_rivals(hash, visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        self.0.visit_further(hash, visit);
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        self.0.complete_stats(stats);
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        self.0.complete_memory(memory);
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.0.index_pages_obtained()
    }
}

impl<K, V> fmt::Debug for ReferenceSigHash<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReferenceSigHash").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Counts;
    use crate::table::{FlowTable, Tick, TimeoutClass};
    use alloc::vec::Vec;

    /// Two buckets; the highest bit of a hash selects one, and the pool has three states.
    fn config() -> TableOptions {
        TableOptions { buckets: Some(2), pool: Some(3), ..TableOptions::for_flows(11) }
    }

    /// The hash of a key of the second bucket, with a signature of its own.
    fn hash(key: u64) -> TableHash {
        TableHash::from_mixed((1 << 63) | (key + 1))
    }

    fn add<T: FlowTable<u64, ()>>(table: &mut T, key: u64) -> u32 {
        table.insert(key, hash(key), (), TimeoutClass(0), Tick(0)).unwrap().slot()
    }

    /// Four flows are in the bins of their bucket, in order, and the others are exceptions.
    fn check<T: FlowTable<u64, ()>>(table: &mut T) {
        let slots: [u32; 6] = [0, 1, 2, 3, 4, 5].map(|key| add(table, key));
        assert_eq!(slots, [4, 5, 6, 7, 8, 9], "bins of the second bucket, then the pool");
        assert_eq!(table.stats().displaced, 2);
        for key in 0..6 {
            assert_eq!(table.lookup(&key, hash(key)).and_then(|id| table.key_of(id)), Some(key));
            // The same bits in the other bucket, and another key with the same bits.
            assert_eq!(table.lookup(&key, TableHash::from_mixed(key + 1)), None);
            assert_eq!(table.lookup(&99, hash(key)), None);
        }
        let (keys, mut ids) = ([0, 1, 2, 3, 4, 5, 6], [None; 7]);
        table.lookup_batch(&keys, &keys.map(hash), &mut ids);
        let expected = [Some(4), Some(5), Some(6), Some(7), Some(8), Some(9), None];
        assert_eq!(ids.map(|id| id.map(FlowId::slot)), expected);
        for key in [1, 4] {
            assert!(table.remove_key(&key, hash(key)).is_some());
            assert_eq!(table.lookup(&key, hash(key)), None);
        }
        assert_eq!(table.stats().displaced, 1);
        assert_eq!(add(table, 6), 5, "the bin that became empty");
        for key in [0, 2, 3, 5, 6] {
            assert!(table.lookup(&key, hash(key)).is_some(), "{key}");
        }
    }

    #[test]
    fn four_flows_of_a_bucket_are_in_bins_and_further_ones_are_exceptions() {
        check(&mut ReferenceSigHash::try_new(&config()).unwrap());
        let mut table = SigHash::try_new(&config()).unwrap();
        check(&mut table);
        assert_eq!(table.bucket_count(), 2);
    }

    #[test]
    fn a_hit_reads_one_word_and_one_state_up_to_four_flows() {
        let mut table = ReferenceSigHash::<u64, ()>::try_new(&config()).unwrap();
        (0..6).for_each(|key| _ = add(&mut table, key));
        let steps = |key: u64, hash| {
            let mut counts = Counts::default();
            assert_eq!(table.find_counting(&key, hash, &mut counts).is_some(), key < 6);
            assert_eq!((counts.hits, counts.misses), if key < 6 { (1, 0) } else { (0, 1) });
            (counts.comparisons, counts.lines, counts.list_steps, counts.false_matches)
        };
        for key in 0..4 {
            assert_eq!(steps(key, hash(key)), (key + 1, 2, 0, 0));
        }
        // The newest exception comes first.
        assert_eq!(steps(5, hash(5)), (4 + 1, 1 + 1, 1, 0));
        assert_eq!(steps(4, hash(4)), (4 + 2, 1 + 2, 2, 0));
        // Another key is compared where its signature is stored, in a bin or in the list.
        assert_eq!(steps(99, hash(2)), (4 + 2, 1 + 1 + 2, 2, 1));
        assert_eq!(steps(99, hash(4)), (4 + 2, 1 + 2, 2, 1));
        assert_eq!(steps(99, TableHash::from_mixed(1)), (4, 1, 0, 0), "the other bucket is empty");
    }

    /// A flow elsewhere is worth evicting if the bucket can take one in its place: in a bin, or as
    /// an exception.
    fn check_victims<T: Indexed<Key = u64, Value = ()>>(mut table: T) -> T {
        table.insert(50, TableHash::from_mixed(1), (), TimeoutClass(0), Tick(0)).unwrap();
        for key in 0..=7_usize {
            let (mut rivals, mut further) = (Vec::new(), Vec::new());
            table.visit_rivals(hash(0), &mut |slot| {
                rivals.push(slot);
                true
            });
            assert_eq!(rivals, [4, 5, 6, 7][..key.min(4)], "after {key} flows");
            table.visit_further(hash(0), &mut |slot| {
                further.push(slot);
                slot != 0
            });
            let expected: &[u32] = [&[0][..], &[8, 0], &[9, 8, 0], &[10, 9, 8]][key.max(4) - 4];
            assert_eq!(further, expected, "after {key} flows");
            if key < 7 {
                add(&mut table, key as u64);
            }
        }
        table
    }

    #[test]
    fn victim_from_another_bucket_frees_a_state_for_a_bucket_with_a_free_slot() {
        check_victims(ReferenceSigHash::try_new(&config()).unwrap());
        let mut table = check_victims(SigHash::try_new(&config()).unwrap());
        assert_eq!(table.remove_key(&1, hash(1)), Some(()));
        assert_eq!([0, 1, 4, 5, 6, 8].map(|slot| table.next_linked(slot)), [0, 4, 4, 6, 6, 8]);
    }
}

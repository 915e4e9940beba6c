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
use super::table::{SigHash, SigHashConfig};
use crate::error::BuildError;
use crate::indexed::Indexed;
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
/// use flowloom_flow_table::sighash::{ReferenceSigHash, SigHashConfig};
/// use flowloom_flow_table::{FlowTable, TableHash, Tick, TimeoutClass};
///
/// let mut table = ReferenceSigHash::<u64, ()>::try_new(&SigHashConfig::for_flows(100))?;
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
    /// Returns [`BuildError`] for an invalid configuration, or one that exceeds the memory.
    pub fn try_new(config: &SigHashConfig) -> Result<Self, BuildError> {
        SigHash::try_new(config).map(Self)
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

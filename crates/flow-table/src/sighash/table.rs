//! `SigHash` for production: one compare for four bins, and batches in two stages.
//!
//! It follows the paper in the word, the bins, states located by arithmetic, separate exceptions,
//! and one word and one state per successful lookup [FLOWNP §4.2]. Unlike the paper, the hash is
//! the caller's keyed one, the number of buckets need not be a power of two, and exceptions are in
//! lists with a cap instead of a slow path elsewhere.

use core::fmt;

use flowloom_cpu::pages::{LineArray, PageReport};
use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;

use super::layout::{BINS, bucket_of, equal, first, place_of, signature_of, state_of, with};
use crate::conflict::ConflictLists;
use crate::error::{BuildError, check_size};
use crate::indexed::Indexed;
use crate::options::TableOptions;
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// Number of keys whose lines are in flight together. At a million flows on Zen 5, 128 takes two
/// thirds of the time of 32.
const STAGE: usize = 128;

/// Maximum number of exceptions of one bucket, unless an option sets it.
const LIST_CAP: u32 = 16;

/// Number of buckets that an eviction searches if the pool has no state left and no flow of the own
/// bucket may be evicted. Two in five buckets are empty; the search reads eight or nine lines.
const FURTHER: usize = 128;

/// The sizes of a table with some options.
struct Sizes {
    buckets: u32,
    pool: u32,
}

impl Sizes {
    fn new(options: &TableOptions) -> Self {
        let flows = options.flows;
        Self {
            buckets: options.buckets.unwrap_or(flows.min(1 << 30).next_power_of_two()).max(1),
            pool: options.pool.unwrap_or(flows / 100 * 3 + 64),
        }
    }

    /// Returns the number of bins of all buckets and states for exceptions together.
    fn places(&self) -> u64 {
        u64::from(self.buckets) * u64::from(BINS) + u64::from(self.pool)
    }
}

/// The table of [FLOWNP §4]. See the [module](self).
pub struct SigHash<K, V> {
    pub(super) words: LineArray<u32>,
    pub(super) bucket_count: u32,
    pub(super) exceptions: ConflictLists,
    pub(super) states: States<K, V>,
}

impl<K: TableKey, V> SigHash<K, V> {
    /// Maximum number of flows in a table with a bucket per flow; the next power of two would have
    /// more states than slots can be numbered. With explicit
    /// [`buckets`](TableOptions::buckets), up to 2³⁰ flows are possible if four states per bucket
    /// plus the pool are at most 2³¹ − 1.
    pub const FLOWS_MAX: u32 = 1 << 28;

    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        if options.buckets.is_none() && options.flows > Self::FLOWS_MAX {
            let (flows, flows_max) = (options.flows.into(), Self::FLOWS_MAX.into());
            return Err(BuildError::TooManyFlows { flows, flows_max });
        }
        let sizes = Sizes::new(options);
        let places = check_size(options, sizes.places(), Self::bytes_needed(options))?;
        let Sizes { buckets, pool } = sizes;
        let mut table = Self {
            words: LineArray::try_new(buckets as usize, options.huge_pages)?,
            bucket_count: buckets,
            exceptions: ConflictLists::try_new(buckets, pool, options.list_cap.unwrap_or(LIST_CAP))?,
            states: States::try_new(places, options)?,
        };
        if options.prefault {
            table.words.prefault();
            table.exceptions.prefault();
            table.states.prefault();
        }
        Ok(table)
    }

    /// Returns the bytes that a table with these options reserves.
    pub fn bytes_needed(options: &TableOptions) -> u64 {
        let sizes = Sizes::new(options);
        let (buckets, pool) = (u64::from(sizes.buckets), u64::from(sizes.pool));
        buckets * size_of::<u32>() as u64
            + ConflictLists::bytes_needed(buckets, pool)
            + States::<K, V>::bytes_needed(sizes.places(), &options.timeouts)
    }

    /// Returns the number of buckets.
    pub fn bucket_count(&self) -> u32 {
        self.bucket_count
    }

    /// Returns the first state of the pool.
    #[inline(always)]
    pub(super) fn pool_start(&self) -> u32 {
        self.bucket_count * BINS
    }

    #[inline(always)]
    pub(super) fn word(&self, bucket: u32) -> u32 {
        self.words.get(bucket as usize).copied().unwrap_or(0)
    }

    /// Returns the bins of its bucket that contain a hash's signature, and prefetches the state of
    /// the first.
    #[inline(always)]
    fn matching_bins(&self, hash: TableHash) -> u32 {
        let bucket = bucket_of(hash, self.bucket_count);
        let matching = equal(self.word(bucket), signature_of(hash));
        if matching != 0 {
            self.states.prefetch_later(state_of(bucket, first(matching)));
        }
        matching
    }

    /// Verifies the matching bins, then the exceptions.
    #[inline(always)]
    fn finish(&self, bucket: u32, mut matching: u32, key: &K, hash: TableHash) -> Option<FlowId> {
        while matching != 0 {
            let found = self.states.verify(state_of(bucket, first(matching)), key);
            if found.is_some() {
                return found;
            }
            matching &= matching - 1;
        }
        if self.exceptions.is_listed(bucket) { self.find_exception(bucket, key, hash) } else { None }
    }

    /// Visits the states of a bucket's flows; returns whether `visit` never returned `false`.
    fn visit_bins(&self, bucket: u32, visit: &mut dyn FnMut(u32) -> bool) -> bool {
        let word = self.word(bucket).to_le_bytes();
        let mut taken = (0..BINS).zip(word).filter(|&(_, signature)| signature != 0);
        taken.all(|(bin, _)| visit(state_of(bucket, bin)))
    }

    #[cold]
    #[inline(never)]
    fn find_exception(&self, bucket: u32, key: &K, hash: TableHash) -> Option<FlowId> {
        let wanted = hash.signature();
        self.exceptions
            .list(bucket)
            .filter(|&(_, stored)| stored == wanted)
            .find_map(|(number, _)| self.states.verify(self.pool_start() + number, key))
    }
}

impl<K: TableKey, V> Indexed for SigHash<K, V> {
    type Key = K;
    type Value = V;

    #[inline(always)]
    fn states(&self) -> &States<K, V> {
        &self.states
    }

    #[inline(always)]
    fn states_mut(&mut self) -> &mut States<K, V> {
        &mut self.states
    }

    #[inline(always)]
    fn prefetch_index(&self, hash: TableHash) {
        prefetch::read_later_at(&self.words, bucket_of(hash, self.bucket_count) as usize);
    }

    fn prefetch_found(&self, hashes: &[TableHash]) {
        for &hash in hashes {
            self.matching_bins(hash);
        }
    }

    #[inline]
    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        let bucket = bucket_of(hash, self.bucket_count);
        self.finish(bucket, equal(self.word(bucket), signature_of(hash)), key, hash)
    }

    #[inline]
    fn find_batch<const PREFETCHED: bool>(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
    ) {
        let fetch = |hashes: &[TableHash]| {
            if !PREFETCHED {
                for &hash in hashes {
                    self.prefetch_index(hash);
                }
            }
        };
        let mut ahead = hashes.chunks(STAGE);
        fetch(ahead.next().unwrap_or_default());
        for ((keys, hashes), ids) in keys.chunks(STAGE).zip(hashes.chunks(STAGE)).zip(ids.chunks_mut(STAGE))
        {
            let mut matching = [0_u32; STAGE];
            for (&hash, matching) in hashes.iter().zip(&mut matching) {
                *matching = self.matching_bins(hash);
            }
            fetch(ahead.next().unwrap_or_default());
            for (((key, &hash), &matching), id) in keys.iter().zip(hashes).zip(&matching).zip(ids) {
                *id = self.finish(bucket_of(hash, self.bucket_count), matching, key, hash);
            }
        }
    }

    #[inline]
    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let bucket = bucket_of(hash, self.bucket_count);
        match equal(self.word(bucket), 0) {
            0 => self.exceptions.vacancy(bucket).map(|number| self.pool_start() + number),
            empty => Ok(state_of(bucket, first(empty))),
        }
    }

    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
        match slot.checked_sub(self.pool_start()) {
            None => {
                let (bucket, bin) = place_of(slot);
                let word = &mut self.words[bucket as usize];
                *word = with(*word, bin, signature_of(hash));
            }
            Some(number) => {
                let bucket = bucket_of(hash, self.bucket_count);
                self.exceptions.link(number, bucket, hash.signature());
            }
        }
    }

    fn unlink(&mut self, slot: u32) {
        match slot.checked_sub(self.pool_start()) {
            None => {
                let (bucket, bin) = place_of(slot);
                let word = &mut self.words[bucket as usize];
                *word = with(*word, bin, 0);
            }
            Some(number) => self.exceptions.unlink(number),
        }
    }

    fn next_linked(&self, slot: u32) -> u32 {
        let mut slot = slot;
        while slot < self.pool_start() {
            let (bucket, bin) = place_of(slot);
            let rest = self.word(bucket) >> (bin * 8);
            if rest != 0 {
                return state_of(bucket, bin + rest.trailing_zeros() / 8);
            }
            slot = state_of(bucket + 1, 0);
        }
        slot
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let _ = self.visit_bins(bucket_of(hash, self.bucket_count), visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let home = bucket_of(hash, self.bucket_count);
        for (number, _) in self.exceptions.list(home) {
            if !visit(self.pool_start() + number) {
                return;
            }
        }
        let has_place = equal(self.word(home), 0) != 0 || self.exceptions.vacancy(home).is_ok();
        if has_place {
            let others = (home + 1..self.bucket_count).chain(0..home).take(FURTHER);
            for bucket in others {
                if !self.visit_bins(bucket, visit) {
                    return;
                }
            }
        }
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        self.exceptions.complete_stats(stats);
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        memory.index_bytes = self.words.pages().bytes;
        memory.list_bytes = self.exceptions.bytes();
        memory.pages = memory.pages.and(self.words.pages());
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.words.pages_obtained()
    }
}

impl<K, V> fmt::Debug for SigHash<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SigHash")
            .field("buckets", &self.bucket_count)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_million_flows_get_the_papers_buckets_and_three_in_a_hundred_exceptions() {
        // [FLOWNP §4.2]: 2²⁴ buckets. Its 24 MB are 64 MiB, four signatures of a byte in each.
        let config = TableOptions::for_flows(10_000_000);
        let sizes = |options| {
            let Sizes { buckets, pool } = Sizes::new(&options);
            (buckets, pool)
        };
        assert_eq!(sizes(config), (1 << 24, 300_064));
        let (words, listed, heads, elements) = (64 << 20, 2 << 20, 64 << 20, 300_064 * 16);
        let states = States::<u64, ()>::bytes_needed((4 << 24) + 300_064, &crate::Timeouts::NEVER);
        assert_eq!(SigHash::<u64, ()>::bytes_needed(&config), words + listed + heads + elements + states);
        assert_eq!(sizes(TableOptions { buckets: Some(0), pool: Some(5), ..config }), (1, 5));
    }
}

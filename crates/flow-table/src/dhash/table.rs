//! DHash for production: one compare for the whole bucket, and batches in stages.
//!
//! The design is the paper's: one line of signatures, states located by arithmetic, overflow in
//! lists. The details differ:
//!
//! * One instruction compares all sixteen slots, so there is no major location ([DHASH §III-C]
//!   saves comparisons that cost nothing here), and a new flow takes the lowest empty slot.
//! * The signature comes from the caller's keyed hash, so an attacker cannot aim at a bucket.
//! * A batch is looked up in stages: prefetch all buckets; compare all and prefetch the states that
//!   match; verify all keys. A state is prefetched only after a match, so a miss costs one line.
//! * Conflict lists have a length cap and the pool is sized for churn, not for a fresh fill.
//!
//! A hit reads two lines, bucket and state. A miss reads one line, and a bit that stays in the
//! first-level cache.

use core::fmt;

use flowloom_cpu::features::Isa;
use flowloom_cpu::pages::{LineArray, PageReport};
use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;

use super::layout::{Bucket, FLOWS_PER_BUCKET, SLOTS_PER_BUCKET, index_bytes, place_of, state_of};
use super::signature::non_zero;
use crate::arch::{Backend, Kernel, Lanes};
use crate::conflict::ConflictLists;
use crate::error::{BuildError, check_size};
use crate::indexed::{Indexed, visit_all};
use crate::options::TableOptions;
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// Number of keys whose lines are in flight together. At a million flows on Zen 5, 128 takes two
/// thirds of the time of 32.
const STAGE: usize = 128;

/// Maximum number of flows in the conflict list of one bucket, unless an option sets it.
const LIST_CAP: u32 = 16;

/// The sizes of a table with some options.
struct Sizes {
    buckets: u32,
    pool: u32,
}

impl Sizes {
    fn new(options: &TableOptions) -> Self {
        let flows = options.flows;
        let usual = || flows / 100 * 3 + (flows % 100 * 3).div_ceil(100) + 64;
        Self {
            buckets: options.buckets.unwrap_or(flows.div_ceil(FLOWS_PER_BUCKET)).max(1),
            pool: options.pool.unwrap_or_else(usual),
        }
    }

    /// Returns the number of slots of all buckets and the pool together.
    fn places(&self) -> u64 {
        u64::from(self.buckets) * u64::from(SLOTS_PER_BUCKET) + u64::from(self.pool)
    }
}

/// The table of [DHASH §III], which compares sixteen slots at a time. See the [module](self).
pub struct DHash<K, V> {
    pub(super) buckets: LineArray<Bucket>,
    pub(super) bucket_count: u32,
    pub(super) lists: ConflictLists,
    pub(super) states: States<K, V>,
    backend: Backend,
}

impl<K: TableKey, V> DHash<K, V> {
    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        let sizes = Sizes::new(options);
        let places = check_size(options, sizes.places(), Self::bytes_needed(options))?;
        let isa = options.isa.unwrap_or_else(Isa::detect);
        let backend = Backend::new(isa).ok_or(BuildError::IsaUnavailable { isa })?;
        let Sizes { buckets, pool } = sizes;
        let mut table = Self {
            buckets: LineArray::try_new(buckets as usize, options.huge_pages)?,
            bucket_count: buckets,
            lists: ConflictLists::try_new(buckets, pool, options.list_cap.unwrap_or(LIST_CAP))?,
            states: States::try_new(places, options)?,
            backend,
        };
        if options.prefault {
            table.buckets.prefault();
            table.lists.prefault();
            table.states.prefault();
        }
        Ok(table)
    }

    /// Returns the bytes that a table with these options reserves.
    pub fn bytes_needed(options: &TableOptions) -> u64 {
        let sizes = Sizes::new(options);
        let (buckets, pool) = (u64::from(sizes.buckets), u64::from(sizes.pool));
        index_bytes(buckets)
            + ConflictLists::bytes_needed(buckets, pool)
            + States::<K, V>::bytes_needed(sizes.places(), &options.timeouts)
    }

    /// Returns the number of buckets.
    pub fn bucket_count(&self) -> u32 {
        self.bucket_count
    }

    #[inline(always)]
    fn bucket_of(&self, hash: TableHash) -> u32 {
        hash.bucket(self.bucket_count)
    }

    #[inline(always)]
    fn signature_of(hash: TableHash) -> u32 {
        non_zero(hash.signature())
    }

    #[inline(always)]
    pub(super) fn link_signature(&mut self, slot: u32, hash: TableHash, signature: u32) {
        match slot.checked_sub(self.pool_start()) {
            None => {
                let (bucket, slot) = place_of(slot);
                self.buckets[bucket as usize].0[slot as usize] = signature;
            }
            Some(number) => self.lists.link(number, self.bucket_of(hash), signature),
        }
    }

    /// Returns the first state of the pool.
    #[inline(always)]
    pub(super) fn pool_start(&self) -> u32 {
        self.bucket_count * SLOTS_PER_BUCKET
    }

    /// Returns the matching slots of a bucket.
    #[inline(always)]
    fn compare<L: Lanes>(&self, lanes: L, bucket: u32, signature: u32) -> u32 {
        // Do not use a closure here: it would be compiled for the baseline processor, and the
        // compare would not inline into it.
        match self.buckets.get(bucket as usize) {
            Some(line) => lanes.equal(line, signature),
            None => 0,
        }
    }

    /// Finishes a lookup: verifies the matching slots, then the list.
    #[inline(always)]
    fn finish(&self, bucket: u32, mut matching: u32, key: &K, hash: TableHash) -> Option<FlowId> {
        while matching != 0 {
            let state = state_of(bucket, matching.trailing_zeros());
            if let Some(id) = self.states.verify(state, key) {
                return Some(id);
            }
            matching &= matching - 1;
        }
        if self.lists.is_listed(bucket) { self.find_listed(bucket, key, hash) } else { None }
    }

    /// Returns the slots of its bucket that contain a hash's signature, and prefetches the state of
    /// the first.
    #[inline(always)]
    fn matching_slots<L: Lanes>(&self, lanes: L, hash: TableHash) -> u32 {
        let bucket = self.bucket_of(hash);
        let matching = self.compare(lanes, bucket, Self::signature_of(hash));
        if matching != 0 {
            self.states.prefetch_later(state_of(bucket, matching.trailing_zeros()));
        } else if self.lists.is_listed(bucket) {
            self.prefetch_listed(bucket, hash);
        }
        matching
    }

    /// Prefetches the state of a flow in its bucket's list.
    #[cold]
    #[inline(never)]
    fn prefetch_listed(&self, bucket: u32, hash: TableHash) {
        let wanted = Self::signature_of(hash);
        if let Some((number, _)) = self.lists.list(bucket).find(|&(_, signature)| signature == wanted) {
            self.states.prefetch_later(self.pool_start() + number);
        }
    }

    #[cold]
    #[inline(never)]
    fn find_listed(&self, bucket: u32, key: &K, hash: TableHash) -> Option<FlowId> {
        let wanted = Self::signature_of(hash);
        self.lists
            .list(bucket)
            .filter(|&(_, signature)| signature == wanted)
            .find_map(|(number, _)| self.states.verify(self.pool_start() + number, key))
    }
}

/// Looks up one key.
struct Find<'a, K, V> {
    table: &'a DHash<K, V>,
    key: &'a K,
    hash: TableHash,
}

impl<K: TableKey, V> Kernel for Find<'_, K, V> {
    type Output = Option<FlowId>;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Option<FlowId> {
        let Self { table, key, hash } = self;
        let bucket = table.bucket_of(hash);
        let matching = table.compare(lanes, bucket, DHash::<K, V>::signature_of(hash));
        table.finish(bucket, matching, key, hash)
    }
}

/// Hashes whose states the kernel prefetches.
struct AskStates<'a, K, V> {
    table: &'a DHash<K, V>,
    hashes: &'a [TableHash],
}

impl<K: TableKey, V> Kernel for AskStates<'_, K, V> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        for &hash in self.hashes {
            self.table.matching_slots(lanes, hash);
        }
    }
}

/// A staged lookup of many keys. If `PREFETCHED`, the caller has already prefetched the buckets.
struct FindBatch<'a, K, V, const PREFETCHED: bool> {
    table: &'a DHash<K, V>,
    keys: &'a [K],
    hashes: &'a [TableHash],
    ids: &'a mut [Option<FlowId>],
}

impl<K: TableKey, V, const PREFETCHED: bool> Kernel for FindBatch<'_, K, V, PREFETCHED> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let Self { table, keys, hashes, ids } = self;
        let fetch = |hashes: &[TableHash]| {
            if !PREFETCHED {
                for &hash in hashes {
                    table.prefetch_index(hash);
                }
            }
        };
        let stages = keys.chunks(STAGE).zip(hashes.chunks(STAGE)).zip(ids.chunks_mut(STAGE));
        let mut ahead = hashes.chunks(STAGE);
        fetch(ahead.next().unwrap_or_default());
        for ((keys, hashes), ids) in stages {
            let mut matching = [0_u32; STAGE];
            for (&hash, matching) in hashes.iter().zip(&mut matching) {
                *matching = table.matching_slots(lanes, hash);
            }
            // The next stage's buckets arrive while this stage waits for states.
            fetch(ahead.next().unwrap_or_default());
            for (((key, &hash), &matching), id) in keys.iter().zip(hashes).zip(&matching).zip(ids) {
                *id = table.finish(table.bucket_of(hash), matching, key, hash);
            }
        }
    }
}

/// The lowest empty slot of a bucket.
struct FindEmpty<'a>(&'a Bucket);

impl Kernel for FindEmpty<'_> {
    type Output = u32;

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> u32 {
        lanes.equal(self.0, 0).trailing_zeros()
    }
}

impl<K: TableKey, V> Indexed for DHash<K, V> {
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
        prefetch::read_later_at(&self.buckets, self.bucket_of(hash) as usize);
    }

    #[inline]
    fn prefetch_found(&self, hashes: &[TableHash]) {
        self.backend.run(AskStates { table: self, hashes });
    }

    #[inline]
    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.backend.run_one(Find { table: self, key, hash })
    }

    #[inline]
    fn find_batch<const PREFETCHED: bool>(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
    ) {
        self.backend.run(FindBatch::<_, _, PREFETCHED> { table: self, keys, hashes, ids });
    }

    #[inline]
    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let bucket = self.bucket_of(hash);
        let slot = self.backend.run_one(FindEmpty(&self.buckets[bucket as usize]));
        if slot < SLOTS_PER_BUCKET {
            return Ok(state_of(bucket, slot));
        }
        self.lists.vacancy(bucket).map(|number| self.pool_start() + number)
    }

    #[inline]
    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
        self.link_signature(slot, hash, Self::signature_of(hash));
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        match slot.checked_sub(self.pool_start()) {
            None => {
                let (bucket, slot) = place_of(slot);
                self.buckets[bucket as usize].0[slot as usize] = 0;
            }
            Some(number) => self.lists.unlink(number),
        }
    }

    fn next_linked(&self, slot: u32) -> u32 {
        let mut slot = slot;
        while slot < self.pool_start() {
            let (bucket, lane) = place_of(slot);
            let rest = &self.buckets[bucket as usize].0[lane as usize..];
            match rest.iter().zip(slot..).find(|&(&signature, _)| signature != 0) {
                Some((_, occupied)) => return occupied,
                None => slot = state_of(bucket + 1, 0),
            }
        }
        slot
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let start = state_of(self.bucket_of(hash), 0);
        for slot in start..start + SLOTS_PER_BUCKET {
            if !visit(slot) {
                return;
            }
        }
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let bucket = self.bucket_of(hash);
        for (number, _) in self.lists.list(bucket) {
            if !visit(self.pool_start() + number) {
                return;
            }
        }
        let has_place = self.buckets[bucket as usize].0.contains(&0) || self.lists.vacancy(bucket).is_ok();
        if has_place {
            let pool_start = self.pool_start();
            visit_all(state_of(bucket + 1, 0) % pool_start, pool_start, visit);
        }
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        self.lists.complete_stats(stats);
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        memory.index_bytes = self.buckets.pages().bytes;
        memory.list_bytes = self.lists.bytes();
        memory.pages = memory.pages.and(self.buckets.pages());
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.buckets.pages_obtained()
    }
}

impl<K, V> fmt::Debug for DHash<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DHash")
            .field("buckets", &self.bucket_count)
            .field("states", &self.states)
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{FlowTable, Refused, Tick, TimeoutClass};
    use alloc::vec::Vec;
    use flowloom_flow_key::FlowKey;

    const CLASS: TimeoutClass = TimeoutClass(0);

    #[test]
    fn the_papers_configuration_takes_its_megabytes() {
        let config = TableOptions::for_flows(1_000_000);
        let table = DHash::<FlowKey, ()>::try_new(&config).unwrap();
        assert_eq!(table.bucket_count(), 100_000);
        let memory = table.memory();
        assert_eq!(memory.index_bytes, 6_400_000);
        assert_eq!(memory.state_bytes, (1_600_000 + 30_064) * 64);
        assert_eq!(memory.wheel_bytes, 0);
        // [DHASH §V-A] states 7.2 MB with a pool of 0.8 MB, and [DHASH §VI-B] 7.5 MB with lists.
        assert!((7_200_000..7_500_000).contains(&(memory.index_bytes + memory.list_bytes)));
        assert_eq!(memory.total_bytes(), DHash::<FlowKey, ()>::bytes_needed(&config));
    }

    #[test]
    fn impossible_table_is_refused_with_its_numbers() {
        let build = |config: TableOptions| DHash::<u64, ()>::try_new(&config).err();
        let base = TableOptions::for_flows(1000);
        assert_eq!(build(TableOptions::for_flows(0)), Some(BuildError::NoCapacity));
        assert_eq!(
            build(TableOptions { buckets: Some(2), pool: Some(10), ..base }),
            Some(BuildError::TooFewPlaces { flows: 1000, places: 42 })
        );
        for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
            let config = TableOptions { isa: Some(isa), ..base };
            assert_eq!(build(config), Some(BuildError::IsaUnavailable { isa }));
        }
    }

    #[test]
    fn a_full_bucket_overflows_into_its_list_and_stops_at_the_cap() {
        let config = TableOptions {
            buckets: Some(1),
            pool: Some(10),
            list_cap: Some(3),
            ..TableOptions::for_flows(20)
        };
        let mut table = DHash::<u64, u64>::try_new(&config).unwrap();
        // All keys have the signature zero, so the keys decide.
        let ids: Vec<_> = (0..19_u64)
            .map(|key| table.insert(key, TableHash::default(), key, CLASS, Tick(0)).unwrap())
            .collect();
        assert_eq!(
            table.insert(19, TableHash::default(), 19, CLASS, Tick(0)),
            Err(Refused { value: 19, reason: FullReason::ListCap })
        );
        assert_eq!(table.stats().displaced, 3);
        for (key, &id) in (0..19_u64).zip(&ids) {
            assert_eq!(table.lookup(&key, TableHash::default()), Some(id));
            assert_eq!(table.get(id), Some(&key));
        }
        // An empty slot does not hide the list after it.
        assert_eq!(table.remove(ids[0]), Some((0, 0)));
        assert_eq!(table.lookup(&18, TableHash::default()), Some(ids[18]));
        assert_eq!(table.insert(18, TableHash::default(), 99, CLASS, Tick(0)), Ok(ids[18]));
        assert_eq!(table.get(ids[18]), Some(&99));
    }

    // A sanitizer uses additional pages.
    #[cfg(all(feature = "std", target_os = "linux", target_arch = "x86_64", not(any(miri, sanitized))))]
    #[test]
    fn unused_table_leaves_its_memory_untouched() {
        // Page faults of this thread.
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split(' ').nth(8).unwrap().parse::<u32>().unwrap()
        };
        let before = faults();
        let config =
            TableOptions { huge_pages: crate::HugePages::No, ..TableOptions::for_flows(20_000_000) };
        let table = DHash::<FlowKey, ()>::try_new(&config).unwrap();
        let pages = faults() - before;
        assert!(table.memory().total_bytes() > 2 << 30);
        assert!(pages < 1000, "{pages} pages of more than half a million were touched");
    }
}

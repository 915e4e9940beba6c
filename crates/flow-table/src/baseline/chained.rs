//! Buckets that point to lists of flows: the table of common network stacks, as [DHASH §II-A]
//! measures it.
//!
//! A new flow goes to the front. A lookup compares whole keys along the list; each flow it passes
//! costs a line.

use core::fmt;

use flowloom_cpu::pages::{HugePages, LineArray, PageReport};
use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;

use super::links::{Before, LINKED_MAX, LISTS_MAX, Links, check_linked};
use crate::error::BuildError;
use crate::evict::NEAR;
use crate::indexed::{Indexed, visit_all};
use crate::probe::{NoProbe, Probe};
use crate::state::{States, Timeouts};
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// How a [`Chained`] table is built.
#[derive(Clone, Debug)]
pub struct ChainedConfig {
    /// Maximum number of flows, up to [`FLOWS_MAX`](Self::FLOWS_MAX).
    pub flows: u32,
    /// Number of buckets, up to 2³¹: 1,040 in the stack that the paper measures, 1.5 million where
    /// its lists do best [DHASH Fig. 6].
    pub buckets: u32,
    /// Maximum number of flows in one list.
    pub list_cap: u32,
    /// Maximum idle time of flows.
    pub timeouts: Timeouts,
    /// Whether to request huge pages.
    pub huge_pages: HugePages,
    /// Limit of the reserved memory in bytes; see [`BuildError::OutOfMemory`] about free memory.
    pub memory_limit_bytes: u64,
}

impl ChainedConfig {
    /// The number of buckets in the stack that [DHASH §II-A] measures.
    pub const PAPER_BUCKETS: u32 = 1040;
    /// The maximum number of flows: 2²⁷ − 1, the limit of a link.
    pub const FLOWS_MAX: u32 = LINKED_MAX;

    /// Returns the configuration for a number of flows: 1.5 buckets per flow, lists of at most
    /// 4,096.
    #[must_use]
    pub const fn for_flows(flows: u32) -> Self {
        Self {
            flows,
            buckets: flows.saturating_add(flows / 2),
            list_cap: 4096,
            timeouts: Timeouts::NEVER,
            huge_pages: HugePages::Try,
            memory_limit_bytes: u64::MAX,
        }
    }

    /// Returns the bytes that a table of keys `K` and values `V` reserves.
    pub fn bytes_needed<K: Copy, V>(&self) -> u64 {
        let flows = u64::from(self.flows);
        u64::from(self.buckets) * size_of::<[u32; 2]>() as u64
            + Links::bytes_needed(flows)
            + States::<K, V>::bytes_needed(flows, &self.timeouts)
    }
}

/// A table of lists of flows. See the [module](self).
pub struct Chained<K, V> {
    /// First slot plus one, and length.
    heads: LineArray<[u32; 2]>,
    bucket_count: u32,
    links: Links,
    states: States<K, V>,
    list_cap: u32,
    length_max: u32,
}

impl<K: TableKey, V> Chained<K, V> {
    /// Returns an empty table. Memory is reserved but not touched.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for an invalid configuration, or one that exceeds the memory.
    pub fn try_new(config: &ChainedConfig) -> Result<Self, BuildError> {
        let flows = u64::from(config.flows);
        let needed_bytes = config.bytes_needed::<K, V>();
        let slots = check_linked(config.flows, flows, needed_bytes, config.memory_limit_bytes)?;
        let bucket_count = config.buckets.max(1);
        if bucket_count > LISTS_MAX {
            let (places, places_max) = (bucket_count.into(), LISTS_MAX.into());
            return Err(BuildError::TooManyPlaces { places, places_max });
        }
        Ok(Self {
            heads: LineArray::try_new(bucket_count as usize, config.huge_pages)?,
            bucket_count,
            links: Links::try_new(slots)?,
            states: States::try_new(slots, config.flows, config.timeouts, config.huge_pages)?,
            list_cap: config.list_cap,
            length_max: 0,
        })
    }

    /// Makes the whole table resident.
    pub fn prefault(&mut self) {
        self.heads.prefault();
        self.links.prefault();
        self.states.prefault();
    }

    /// Returns the flow of a key, and reports each step to `probe`.
    pub fn find_counting(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        probe.line();
        let [mut next, _] = self.heads[self.bucket_of(hash)];
        let mut found = None;
        while let (None, Some(slot)) = (found, next.checked_sub(1)) {
            probe.line();
            probe.list_step();
            probe.comparison();
            found = self.states.verify(slot, key);
            next = self.states.mark(slot);
        }
        probe.done(found.is_some());
        found
    }

    #[inline(always)]
    fn bucket_of(&self, hash: TableHash) -> usize {
        hash.bucket(self.bucket_count) as usize
    }

    /// Returns the slots of a bucket's list.
    fn list(&self, hash: TableHash) -> impl Iterator<Item = u32> {
        let [first, _] = self.heads[self.bucket_of(hash)];
        core::iter::successors(first.checked_sub(1), |&slot| self.states.mark(slot).checked_sub(1))
    }
}

impl<K: TableKey, V> Indexed for Chained<K, V> {
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

    #[inline]
    fn prefetch_index(&self, hash: TableHash) {
        prefetch::read_later_at(&self.heads, self.bucket_of(hash));
    }

    fn prefetch_found(&self, hashes: &[TableHash]) {
        for &hash in hashes {
            let [first, _] = self.heads[self.bucket_of(hash)];
            if let Some(slot) = first.checked_sub(1) {
                self.states.prefetch_later(slot);
            }
        }
    }

    #[inline]
    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.find_counting(key, hash, &mut NoProbe)
    }

    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let [_, length] = self.heads[self.bucket_of(hash)];
        if length >= self.list_cap {
            return Err(FullReason::ListCap);
        }
        self.links.vacancy().ok_or(FullReason::PoolExhausted)
    }

    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
        let bucket = self.bucket_of(hash);
        let head = &mut self.heads[bucket];
        let next = core::mem::replace(&mut head[0], slot + 1);
        head[1] += 1;
        self.length_max = self.length_max.max(head[1]);
        self.states.set_mark(slot, next);
        #[expect(clippy::cast_possible_truncation, reason = "buckets are counted in 32 bits")]
        self.links.take(slot, Before::Head(bucket as u32));
        if let Some(next) = next.checked_sub(1) {
            self.links.set_before(next, Before::Slot(slot));
        }
    }

    fn unlink(&mut self, slot: u32) {
        let next = self.states.mark(slot);
        let mut before = self.links.before(slot);
        match before {
            Before::Head(bucket) => self.heads[bucket as usize][0] = next,
            Before::Slot(previous) => self.states.set_mark(previous, next),
        }
        if let Some(next) = next.checked_sub(1) {
            self.links.set_before(next, before);
        }
        // The head of the list contains its length.
        while let Before::Slot(previous) = before {
            before = self.links.before(previous);
        }
        if let Before::Head(bucket) = before {
            self.heads[bucket as usize][1] -= 1;
        }
        self.links.give_back(slot);
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let _ = self.list(hash).all(visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let [_, length] = self.heads[self.bucket_of(hash)];
        if length < self.list_cap {
            let slots = self.states.slot_count();
            visit_all(hash.bucket(slots), slots, visit);
        } else {
            // The rest of the list; the loop above has seen the earlier flows.
            let _ = self.list(hash).skip(NEAR as usize).all(visit);
        }
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        stats.displaced = self.states.len();
        stats.stashed = stats.displaced;
        stats.list_length_max = self.length_max;
        stats.pool_size = self.states.slot_count();
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        memory.index_bytes = self.heads.pages().bytes;
        memory.list_bytes = self.links.bytes();
        memory.pages = memory.pages.and(self.heads.pages());
    }

    fn index_pages_obtained(&self) -> PageReport {
        self.heads.pages_obtained()
    }
}

impl<K, V> fmt::Debug for Chained<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chained")
            .field("buckets", &self.bucket_count)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

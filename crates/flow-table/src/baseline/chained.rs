//! Buckets that point to lists of flows: the table of common network stacks, as [DHASH §II-A]
//! measures it.
//!
//! A new flow goes to the front. A lookup compares whole keys along the list; each flow it passes
//! costs a line.

use core::fmt;

use flowloom_cpu::pages::{LineArray, PageReport};
use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;

use super::links::{Before, LINKED_MAX, LISTS_MAX, Links, check_linked};
use crate::error::BuildError;
use crate::evict::NEAR;
use crate::indexed::{Indexed, visit_all};
use crate::options::TableOptions;
use crate::probe::{NoProbe, Probe};
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// The number of buckets in the stack that [DHASH §II-A] measures. Its lists do best with 1.5
/// million [DHASH Fig. 6].
pub const PAPER_BUCKETS: u32 = 1040;

/// Maximum number of flows in one list, unless an option sets it.
const LIST_CAP: u32 = 4096;

fn bucket_count(options: &TableOptions) -> u32 {
    options.buckets.unwrap_or(options.flows.saturating_add(options.flows / 2)).max(1)
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
    /// The maximum number of flows: 2²⁷ − 1, the limit of a link.
    pub const FLOWS_MAX: u32 = LINKED_MAX;

    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        let slots = check_linked(options, u64::from(options.flows), Self::bytes_needed(options))?;
        let bucket_count = bucket_count(options);
        if bucket_count > LISTS_MAX {
            let (places, places_max) = (bucket_count.into(), LISTS_MAX.into());
            return Err(BuildError::TooManyPlaces { places, places_max });
        }
        let mut table = Self {
            heads: LineArray::try_new(bucket_count as usize, options.huge_pages)?,
            bucket_count,
            links: Links::try_new(slots)?,
            states: States::try_new(slots, options)?,
            list_cap: options.list_cap.unwrap_or(LIST_CAP),
            length_max: 0,
        };
        if options.prefault {
            table.heads.prefault();
            table.links.prefault();
            table.states.prefault();
        }
        Ok(table)
    }

    /// Returns the bytes that a table with these options reserves.
    pub fn bytes_needed(options: &TableOptions) -> u64 {
        let flows = u64::from(options.flows);
        u64::from(bucket_count(options)) * size_of::<[u32; 2]>() as u64
            + Links::bytes_needed(flows)
            + States::<K, V>::bytes_needed(flows, &options.timeouts)
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

//! The DirectHash of [FLOWNP §4.2]: the bucket contains a full entry, and a list holds colliding
//! entries.
//!
//! It is the paper's baseline: every lookup reads at least one full entry, and one more for every
//! collision. The name differs from the paper's to avoid confusion with the placement policy
//! "direct hash".

use core::fmt;

use flowloom_flow_key::TableHash;

use super::links::{Before, LINKED_MAX, Links, check_linked};
use crate::error::BuildError;
use crate::evict::NEAR;
use crate::indexed::Indexed;
use crate::options::TableOptions;
use crate::probe::{NoProbe, Probe};
use crate::state::States;
use crate::table::{FlowId, FullReason, MemoryReport, TableKey, TableStats};

/// Maximum number of colliding flows in one list, unless an option sets it.
const LIST_CAP: u32 = 64;

fn bucket_count(options: &TableOptions) -> u32 {
    options.buckets.unwrap_or(options.flows).max(1)
}

/// Returns the number of slots: all flows but one may collide.
fn places(options: &TableOptions) -> u64 {
    u64::from(bucket_count(options)) + u64::from(options.flows)
}

/// A table of entries in buckets. See the [module](self).
pub struct DirectTable<K, V> {
    bucket_count: u32,
    /// Links of the states that follow those of the buckets.
    links: Links,
    states: States<K, V>,
    list_cap: u32,
    length_max: u32,
    listed: u32,
}

impl<K: TableKey, V> DirectTable<K, V> {
    /// The maximum number of flows with a bucket each: 2²⁶ − 1. Buckets and flows together are at
    /// most 2²⁷ − 1, the limit of a link.
    pub const FLOWS_MAX: u32 = LINKED_MAX / 2;

    /// Returns an empty table.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] for invalid options, or a table that exceeds the memory.
    pub fn try_new(options: &TableOptions) -> Result<Self, BuildError> {
        let places = check_linked(options, places(options), Self::bytes_needed(options))?;
        let mut table = Self {
            bucket_count: bucket_count(options),
            links: Links::try_new(options.flows)?,
            states: States::try_new(places, options)?,
            list_cap: options.list_cap.unwrap_or(LIST_CAP),
            length_max: 0,
            listed: 0,
        };
        if options.prefault {
            table.links.prefault();
            table.states.prefault();
        }
        Ok(table)
    }

    /// Returns the bytes that a table with these options reserves.
    pub fn bytes_needed(options: &TableOptions) -> u64 {
        Links::bytes_needed(u64::from(options.flows))
            + States::<K, V>::bytes_needed(places(options), &options.timeouts)
    }

    /// Returns the flow of a key, and reports each step to `probe`.
    pub fn find_counting(&self, key: &K, hash: TableHash, probe: &mut impl Probe) -> Option<FlowId> {
        let bucket = self.bucket_of(hash);
        probe.line();
        probe.comparison();
        let mut found = self.states.verify(bucket, key);
        let mut next = self.states.mark(bucket);
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
    fn bucket_of(&self, hash: TableHash) -> u32 {
        hash.bucket(self.bucket_count)
    }

    /// Returns the slot of a bucket and those of its list.
    fn bucket_and_list(&self, hash: TableHash) -> impl Iterator<Item = u32> {
        let next = |&slot: &u32| self.states.mark(slot).checked_sub(1);
        core::iter::successors(Some(self.bucket_of(hash)), next)
    }

    fn list_length(&self, bucket: u32) -> u32 {
        let mut length = 0;
        let mut next = self.states.mark(bucket);
        while let Some(slot) = next.checked_sub(1) {
            length += 1;
            next = self.states.mark(slot);
        }
        length
    }
}

impl<K: TableKey, V> Indexed for DirectTable<K, V> {
    type Key = K;
    type Value = V;

    /// A list begins in its bucket's own state.
    const KEEPS_MARKS: bool = true;

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
        self.states.prefetch_later(self.bucket_of(hash));
    }

    #[inline]
    fn find(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.find_counting(key, hash, &mut NoProbe)
    }

    fn vacancy(&self, _key: &K, hash: TableHash) -> Result<u32, FullReason> {
        let bucket = self.bucket_of(hash);
        if !self.states.is_live(bucket) {
            return Ok(bucket);
        }
        if self.list_length(bucket) >= self.list_cap {
            return Err(FullReason::ListCap);
        }
        self.links.vacancy().map(|number| self.bucket_count + number).ok_or(FullReason::PoolExhausted)
    }

    fn link(&mut self, slot: u32, _key: &K, hash: TableHash) {
        let Some(number) = slot.checked_sub(self.bucket_count) else { return };
        // Insert at the front of the list, which begins in the bucket's own line whether or not the
        // bucket has a flow.
        let bucket = self.bucket_of(hash);
        let next = self.states.mark(bucket);
        self.states.set_mark(bucket, slot + 1);
        self.states.set_mark(slot, next);
        self.links.take(number, Before::Head(bucket));
        if let Some(next) = next.checked_sub(1) {
            self.links.set_before(next - self.bucket_count, Before::Slot(slot));
        }
        self.listed += 1;
        self.length_max = self.length_max.max(self.list_length(bucket));
    }

    fn unlink(&mut self, slot: u32) {
        let Some(number) = slot.checked_sub(self.bucket_count) else { return };
        let next = self.states.mark(slot);
        let before = self.links.before(number);
        match before {
            Before::Head(previous) | Before::Slot(previous) => self.states.set_mark(previous, next),
        }
        if let Some(next) = next.checked_sub(1) {
            self.links.set_before(next - self.bucket_count, before);
        }
        self.links.give_back(number);
        self.listed -= 1;
    }

    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let _ = self.bucket_and_list(hash).all(visit);
    }

    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let bucket = self.bucket_of(hash);
        if !self.states.is_live(bucket) || self.list_length(bucket) < self.list_cap {
            // Visit some of the states after the buckets that were ever used, and some buckets.
            let (buckets, listed) = (self.bucket_count, self.links.fresh());
            let from = hash.bucket(listed);
            let behind = (from..listed).chain(0..from).take(NEAR as usize).map(|number| buckets + number);
            for slot in behind.chain(bucket + 1..buckets).chain(0..bucket) {
                if !visit(slot) {
                    return;
                }
            }
        } else {
            // The rest of the list; the loop above has seen the earlier flows.
            let _ = self.bucket_and_list(hash).skip(NEAR as usize).all(visit);
        }
    }

    fn complete_stats(&self, stats: &mut TableStats) {
        stats.displaced = self.listed;
        stats.stashed = self.listed;
        stats.list_length_max = self.length_max;
        stats.pool_size = self.states.slot_count() - self.bucket_count;
    }

    fn complete_memory(&self, memory: &mut MemoryReport) {
        memory.list_bytes = self.links.bytes();
    }
}

impl<K, V> fmt::Debug for DirectTable<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectTable")
            .field("buckets", &self.bucket_count)
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}

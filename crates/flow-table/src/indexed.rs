//! The structure of a table: an index maps keys to slots, and all other code is shared.
//!
//! A table that implements [`Indexed`] is a [`FlowTable`]: ids, values, times, ageing, walks and
//! counters are shared. Insertion has two steps: [`vacancy`](Indexed::vacancy), which changes
//! nothing, and [`link`](Indexed::link), which cannot fail. A panic while the value is created
//! therefore leaves the table unchanged.

use flowloom_cpu::pages::PageReport;

use crate::evict::{Evict, NEAR, Refuse, WINDOW};
use crate::state::slab::Verdict;
use crate::state::{States, Timeouts};
use crate::table::{
    Cursor, Entry, Expired, Flow, FlowId, FlowTable, Full, FullReason, MemoryReport, Refused, TableKey,
    TableStats, Tick, TimeoutClass, check_batch, show_values,
};
use flowloom_flow_key::TableHash;

/// An index over [`States`].
pub trait Indexed {
    /// The key of a flow.
    type Key: TableKey;
    /// The value of a flow.
    type Value;

    /// Whether vacant slots carry marks of the index, which a new tenant must preserve.
    const KEEPS_MARKS: bool = false;

    /// Returns the states.
    fn states(&self) -> &States<Self::Key, Self::Value>;

    /// Returns the states, mutably.
    fn states_mut(&mut self) -> &mut States<Self::Key, Self::Value>;

    /// Hints that a flow with this hash will be looked up soon.
    fn prefetch_index(&self, hash: TableHash);

    /// Hints that the caller will look up flows with these hashes soon, after
    /// [`prefetch_index`](Indexed::prefetch_index) for each.
    #[inline]
    fn prefetch_found(&self, hashes: &[TableHash]) {
        let _ = hashes;
    }

    /// Returns the flow of a key.
    fn find(&self, key: &Self::Key, hash: TableHash) -> Option<FlowId>;

    /// Returns the flow of a key and its value.
    #[inline]
    fn find_value(&self, key: &Self::Key, hash: TableHash) -> Option<(FlowId, &Self::Value)> {
        let id = self.find(key, hash)?;
        Some((id, self.states().get(id)?))
    }

    /// Returns the flow of a key, its value, mutably, and the time at which it was last seen, which
    /// becomes `now`.
    #[inline]
    fn find_touch(
        &mut self,
        key: &Self::Key,
        hash: TableHash,
        now: Tick,
    ) -> Option<(FlowId, &mut Self::Value, Tick)> {
        let id = self.find(key, hash)?;
        let (value, seen) = self.states_mut().get_mut_touch(id, now)?;
        Some((id, value, seen))
    }

    /// Looks up keys; the three slices have the same length. If `PREFETCHED`, the caller has called
    /// [`prefetch_index`](Indexed::prefetch_index) with the hashes.
    #[inline]
    fn find_batch<const PREFETCHED: bool>(
        &self,
        keys: &[Self::Key],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
    ) {
        find_each(self, keys, hashes, ids);
    }

    /// Like `find_batch`, but passes the values of found flows to `show`.
    #[inline]
    fn find_batch_values<const PREFETCHED: bool>(
        &self,
        keys: &[Self::Key],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &Self::Value),
    ) {
        self.find_batch::<PREFETCHED>(keys, hashes, ids);
        show_values(ids, |id| self.states().get(id), on_flow);
    }

    /// Returns the flow of a key, or else the slot that it would get.
    ///
    /// It combines [`find`](Indexed::find) and [`vacancy`](Indexed::vacancy), which read the same
    /// line.
    ///
    /// # Errors
    ///
    /// A missing key is not a failure: the error contains the slot that it would get, or the reason
    /// why there is none.
    #[inline]
    fn find_or_vacancy(&self, key: &Self::Key, hash: TableHash) -> Result<FlowId, Result<u32, FullReason>> {
        match self.find(key, hash) {
            Some(id) => Ok(id),
            None => Err(self.vacancy(key, hash)),
        }
    }

    /// Inserts a new flow if the index can tell from its first read that the flow is missing and
    /// that there is space.
    ///
    /// # Errors
    ///
    /// Returns `make` uncalled if the insertion needs a full search; nothing has changed then.
    #[inline]
    fn enter_at_once<F: FnOnce() -> Self::Value>(
        &mut self,
        key: &Self::Key,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: F,
    ) -> Result<FlowId, F> {
        let _ = (key, hash, class, now);
        Err(make)
    }

    /// Returns the slot that a new flow would get. The slot must be vacant, because the new tenant
    /// is written without a check.
    ///
    /// # Errors
    ///
    /// The reason why there is no slot.
    fn vacancy(&self, key: &Self::Key, hash: TableHash) -> Result<u32, FullReason>;

    /// Links the slot that [`Indexed::vacancy`] returned for this key, which is now its tenant.
    fn link(&mut self, slot: u32, key: &Self::Key, hash: TableHash);

    /// Unlinks a slot whose flow was removed.
    fn unlink(&mut self, slot: u32);

    /// Removes the flow of a key: finds it, moves its state out and unlinks it.
    #[inline]
    fn take(&mut self, key: &Self::Key, hash: TableHash) -> Option<(Self::Key, Self::Value)> {
        let id = self.find(key, hash)?;
        let flow = self.states_mut().vacate(id)?;
        self.unlink(id.slot());
        Some(flow)
    }

    /// Returns a slot at or after the given one, with no flow between them.
    ///
    /// It lets a walk read the index instead of every state.
    fn next_linked(&self, slot: u32) -> u32 {
        slot
    }

    /// Visits slots of flows whose removal would free a slot for a new flow with this hash, until
    /// `visit` returns `false`.
    ///
    /// Vacant slots may be among them.
    fn visit_rivals(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool);

    /// Visits further slots in the same way, if a policy keeps all flows of
    /// [`visit_rivals`](Indexed::visit_rivals): other possible slots of the new flow, and slots of
    /// any flow if the pool has no state left.
    fn visit_further(&self, hash: TableHash, visit: &mut dyn FnMut(u32) -> bool) {
        let _ = (hash, visit);
    }

    /// Adds the counters of the index.
    fn complete_stats(&self, stats: &mut TableStats);

    /// Adds the index's bytes to the report.
    fn complete_memory(&self, memory: &mut MemoryReport);

    /// Returns the pages of the index that [`complete_memory`](Indexed::complete_memory) adds, and
    /// those that the kernel provided, as in
    /// [`LineArray::pages_obtained`](flowloom_cpu::pages::LineArray::pages_obtained); `None` for an
    /// index without its own pages.
    fn index_pages_obtained(&self) -> PageReport {
        PageReport::default()
    }
}

/// Returns the flow with the highest rank among the rivals of a new flow.
fn victim<T: Indexed, P: Evict<T::Key, T::Value>>(
    table: &T,
    hash: TableHash,
    policy: &mut P,
) -> Option<FlowId> {
    if !P::ACTIVE {
        return None;
    }
    let mut best: Option<(u64, FlowId)> = None;
    let mut looks = 0;
    for (is_far, looks_max) in [(false, NEAR), (true, WINDOW)] {
        if best.is_some() {
            break;
        }
        let mut look = |slot| {
            if let Some(candidate) = table.states().candidate(slot) {
                let id = candidate.id;
                match policy.rank(&candidate) {
                    Some(rank) if best.is_none_or(|(highest, _)| rank > highest) => best = Some((rank, id)),
                    _ => {}
                }
            }
            looks += 1;
            looks < looks_max
        };
        if is_far {
            table.visit_further(hash, &mut look);
        } else {
            table.visit_rivals(hash, &mut look);
        }
    }
    best.map(|(_, id)| id)
}

/// Visits all slots, starting at one and wrapping after the last, for an index in which the removal
/// of any flow frees a slot.
#[cfg(feature = "papers")]
pub(crate) fn visit_all(from: u32, slots: u32, visit: &mut dyn FnMut(u32) -> bool) {
    for slot in (from..slots).chain(0..from) {
        if !visit(slot) {
            return;
        }
    }
}

/// Inserts a value under a key, for the cases that need a full search.
#[inline(never)]
fn insert_closely<T: Indexed>(
    table: &mut T,
    key: T::Key,
    hash: TableHash,
    value: T::Value,
    class: TimeoutClass,
    now: Tick,
) -> Result<FlowId, Refused<T::Value>> {
    let mut value = Some(value);
    let make = || value.take().expect("`make` is called once");
    let entry = match enter_or_evict(table, key, hash, class, now, make, &mut Refuse) {
        Ok(entry) => entry,
        Err(full) => return Err(full.with_value(value)),
    };
    if let Some(value) = value {
        if let Some((old, _)) = table.states_mut().get_mut_touch(entry.id, now) {
            *old = value;
        }
        table.states_mut().set_class(entry.id, class);
    }
    Ok(entry.id)
}

/// Batches of up to this many keys are looked up one by one: a processor overlaps that many lookups
/// by itself, and the fixed cost of a pipeline equals three to six lookups. At a million flows a
/// batch of six is faster one by one, and a batch of eight is slower.
const FEW: usize = 6;

/// Looks up keys one by one.
#[inline]
fn find_each<T: Indexed + ?Sized>(
    table: &T,
    keys: &[T::Key],
    hashes: &[TableHash],
    ids: &mut [Option<FlowId>],
) {
    for ((key, &hash), id) in keys.iter().zip(hashes).zip(ids) {
        *id = table.find(key, hash);
    }
}

/// Looks up keys, and passes the values of found flows on.
#[inline]
fn find_values<T: Indexed, const PREFETCHED: bool>(
    table: &T,
    keys: &[T::Key],
    hashes: &[TableHash],
    ids: &mut [Option<FlowId>],
    mut on_flow: impl FnMut(usize, &T::Value),
) {
    if keys.len() > FEW {
        return table.find_batch_values::<PREFETCHED>(keys, hashes, ids, on_flow);
    }
    for (number, ((key, &hash), id)) in keys.iter().zip(hashes).zip(ids).enumerate() {
        let found = table.find_value(key, hash);
        *id = found.map(|(id, _)| id);
        if let Some((_, value)) = found {
            on_flow(number, value);
        }
    }
}

/// Returns the flow of a key. Inserts it if it is missing and there is space, or if a policy frees
/// a slot.
#[inline]
fn enter_or_evict<T: Indexed>(
    table: &mut T,
    key: T::Key,
    hash: TableHash,
    class: TimeoutClass,
    now: Tick,
    make: impl FnOnce() -> T::Value,
    policy: &mut impl Evict<T::Key, T::Value>,
) -> Result<Entry, Full> {
    let mut vacancy = match table.find_or_vacancy(&key, hash) {
        Ok(id) => return Ok(Entry { id, is_new: false }),
        Err(vacancy) => vacancy,
    };
    if !table.states().has_space() {
        vacancy = Err(FullReason::Capacity);
    }
    if vacancy.is_err() && table.evict(hash, policy) {
        vacancy = table.vacancy(&key, hash);
    }
    match vacancy {
        Ok(slot) => {
            let id = table.states_mut().occupy(slot, T::KEEPS_MARKS, (key, make()), class, now);
            table.link(slot, &key, hash);
            Ok(Entry { id, is_new: true })
        }
        Err(reason) => {
            table.states_mut().refuse();
            Err(Full { reason })
        }
    }
}

impl<T, K, V> FlowTable<K, V> for T
where
    T: Indexed<Key = K, Value = V>,
    K: TableKey,
{
    const MAY_EVICT: bool = false;

    fn capacity(&self) -> u32 {
        self.states().capacity()
    }

    fn timeouts(&self) -> Option<Timeouts> {
        Some(self.states().timeouts())
    }

    #[inline]
    fn len(&self) -> u32 {
        self.states().len()
    }

    fn slot_count(&self) -> u32 {
        self.states().slot_count()
    }

    #[inline]
    fn prefetch(&self, hash: TableHash) {
        self.prefetch_index(hash);
    }

    #[inline]
    fn prefetch_states(&self, hashes: &[TableHash]) {
        self.prefetch_found(hashes);
    }

    #[inline]
    fn prefetch_vacancy(&self, key: &K, hash: TableHash) {
        if let Ok(slot) = self.vacancy(key, hash) {
            self.states().prefetch_later(slot);
        }
    }

    #[inline]
    fn lookup(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.find(key, hash)
    }

    #[inline]
    fn lookup_value(&self, key: &K, hash: TableHash) -> Option<(FlowId, &V)> {
        self.find_value(key, hash)
    }

    #[inline]
    fn lookup_touch(&mut self, key: &K, hash: TableHash, now: Tick) -> Option<(FlowId, &mut V, Tick)> {
        self.find_touch(key, hash, now)
    }

    #[inline]
    fn lookup_batch(&self, keys: &[K], hashes: &[TableHash], ids: &mut [Option<FlowId>]) {
        check_batch(keys, hashes, ids);
        if keys.len() > FEW {
            self.find_batch::<false>(keys, hashes, ids);
        } else {
            find_each(self, keys, hashes, ids);
        }
    }

    #[inline]
    fn lookup_batch_values(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &V),
    ) {
        check_batch(keys, hashes, ids);
        find_values::<_, false>(self, keys, hashes, ids, on_flow);
    }

    #[inline]
    fn lookup_batch_prefetched(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &V),
    ) {
        check_batch(keys, hashes, ids);
        find_values::<_, true>(self, keys, hashes, ids, on_flow);
    }

    #[inline]
    fn entry_or_evict(
        &mut self,
        key: K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<Entry, Full> {
        match self.enter_at_once(&key, hash, class, now, make) {
            Ok(id) => Ok(Entry { id, is_new: true }),
            Err(make) => enter_or_evict(self, key, hash, class, now, make, policy),
        }
    }

    /// Only the plain case is inlined, so that the value is written once, directly into its state.
    /// If it passed through memory, it would be written in words and read in larger pieces, which
    /// stalls until all earlier stores have retired.
    #[inline(always)]
    fn insert(
        &mut self,
        key: K,
        hash: TableHash,
        value: V,
        class: TimeoutClass,
        now: Tick,
    ) -> Result<FlowId, Refused<V>> {
        match self.enter_at_once(&key, hash, class, now, move || value) {
            Ok(id) => Ok(id),
            Err(make) => insert_closely(self, key, hash, make(), class, now),
        }
    }

    fn evict(&mut self, hash: TableHash, policy: &mut impl Evict<K, V>) -> bool {
        let Some(victim) = victim(self, hash, policy) else { return false };
        let Some((key, value)) = self.states_mut().evict(victim) else { return false };
        self.unlink(victim.slot());
        policy.evicted(victim, key, value);
        true
    }

    #[inline]
    fn flow(&self, id: FlowId) -> Option<Flow<'_, K, V>> {
        self.states().flow(id)
    }

    #[inline]
    fn get(&self, id: FlowId) -> Option<&V> {
        self.states().get(id)
    }

    #[inline]
    fn get_mut(&mut self, id: FlowId) -> Option<&mut V> {
        self.states_mut().get_mut(id)
    }

    #[inline]
    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut V, Tick)> {
        self.states_mut().get_mut_touch(id, now)
    }

    fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.states().class_of(id)
    }

    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.states_mut().set_class(id, class)
    }

    #[inline]
    fn remove(&mut self, id: FlowId) -> Option<(K, V)> {
        let flow = self.states_mut().vacate(id)?;
        self.unlink(id.slot());
        Some(flow)
    }

    #[inline]
    fn remove_key(&mut self, key: &K, hash: TableHash) -> Option<V> {
        self.take(key, hash).map(|(_, value)| value)
    }

    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)> {
        let mut slot = cursor.0;
        loop {
            slot = self.next_linked(slot);
            if slot >= self.states().slot_count() {
                return None;
            }
            if let Some(found) = self.states().next_live(slot) {
                return Some(found);
            }
            slot += 1;
        }
    }

    fn expire(&mut self, now: Tick, budget: u32, on_flow: &mut impl FnMut(FlowId, K, V)) -> Expired {
        let mut outcome = Expired::default();
        while outcome.examined < budget {
            let Some(verdict) = self.states_mut().age_next(now) else { return outcome };
            outcome.examined += 1;
            if let Verdict::Removed(id, key, value) = verdict {
                self.unlink(id.slot());
                outcome.removed += 1;
                on_flow(id, key, value);
            }
        }
        outcome.more = true;
        outcome
    }

    fn stats(&self) -> TableStats {
        let mut stats = self.states().stats();
        self.complete_stats(&mut stats);
        stats
    }

    fn memory(&self) -> MemoryReport {
        let mut memory = MemoryReport {
            state_bytes: self.states().state_bytes(),
            wheel_bytes: self.states().wheel_bytes(),
            pages: self.states().pages(false),
            ..MemoryReport::default()
        };
        self.complete_memory(&mut memory);
        memory
    }

    fn pages_obtained(&self) -> PageReport {
        self.states().pages(true).and(self.index_pages_obtained())
    }
}

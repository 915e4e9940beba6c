//! Growth without moving a flow.
//!
//! ```text
//!  slots   0 ……… │ ……………………… │ ………………………………………………………
//!          segment     ×4              ×16                    at most twelve at a time
//!          oldest                      newest: takes new flows
//! ```
//!
//! When the newest segment is full, the table opens another one, four times as large. It is larger
//! if twelve segments could otherwise not hold `flows_max`, and smaller if memory is short: down to
//! an eighth of the largest one. Flows do not move, so ids stay valid. Older segments drain as
//! their flows end, and the table frees an older segment without flows. A lookup searches the
//! newest segment first and then the older ones that contain flows; a miss reads all of them. With
//! one segment this costs a comparison per batch.
//!
//! An insertion with an [eviction](crate::evict) policy grows the table first. It evicts a flow
//! only at `flows_max`, if the table cannot grow, or if a list is at its cap.
//!
//! A later segment reuses the slots of a freed one and continues their generations. An id therefore
//! never becomes valid again, and slot numbers stay bounded.
//!
//! Only opening and freeing a segment allocate and free memory. The table frees a segment at the
//! next [`expire`](FlowTable::expire), [`drain`](FlowTable::drain) or
//! [`drain_oldest`](Growing::drain_oldest), not when a packet removes its last flow.

mod batch;
mod drain;
mod past;
mod places;
mod reserve;
mod rivals;
mod walk;

pub use drain::Drained;
use past::PastCounts;
use places::{Names, Places};
pub(crate) use walk::{Flows, FlowsMut, Found};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::panic::{RefUnwindSafe, UnwindSafe};
use core::{fmt, iter, mem};

use crate::error::BuildError;
use crate::evict::Evict;
use crate::options::TableOptions;
use crate::state::Timeouts;
use crate::table::{
    Cursor, Entry, Expired, Flow, FlowId, FlowTable, Full, FullReason, MemoryReport, TableKey, TableStats,
    Tick, TimeoutClass,
};
use flowloom_flow_key::TableHash;

/// Maximum number of segments at a time.
const SEGMENTS_MAX: usize = 12;

/// Minimum growth factor from one segment to the next; larger if twelve segments would not suffice.
const GROWTH: u32 = 4;

/// One segment, which is a table.
#[derive(Debug)]
struct Segment<T> {
    table: T,
    names: Names,
    /// The number of flows for which it was built.
    flows: u32,
}

/// A function that builds a segment: the `try_new` of a table.
type Build<T> = fn(&TableOptions) -> Result<T, BuildError>;

/// A function that is called for each segment, with its flows and bytes.
type OnOpen = dyn Fn(u32, u64) + Send + Sync + UnwindSafe + RefUnwindSafe;

/// A table made of tables; see the [module](self).
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::{FlowTable, Growing, LineHash, TableOptions, Tick, TimeoutClass};
///
/// struct Appliance {
///     flows: Growing<u64, (), LineHash<u64, ()>>,
/// }
///
/// let options = TableOptions { memory_limit_bytes: 1 << 30, ..TableOptions::for_flows(10_000) };
/// let flows = Growing::try_new(100, options, LineHash::try_new)?;
/// let Appliance { flows: mut table } = Appliance { flows };
/// for key in 0..5000_u64 {
///     let hash = TableHash::from_weak(key);
///     table.insert(key, hash, (), TimeoutClass(0), Tick(0))?;
/// }
/// assert_eq!((table.len(), table.stats().segments), (5000, 4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Growing<K, V, T> {
    /// The segment that takes new flows. It lies in the table itself: behind a pointer, every
    /// operation would load its fields again.
    newest: Segment<T>,
    /// The other segments, sorted by age, the youngest last.
    older: Vec<Segment<T>>,
    places: Places,
    /// Flows of the largest segment so far.
    largest: u32,
    /// Flows of the first segment.
    first_flows: u32,
    /// The flows and the memory of all segments together, and all else of each.
    options: TableOptions,
    build: Build<T>,
    on_open: Option<Box<OnOpen>>,
    /// Growth failed, and no segment was freed since.
    stuck: bool,
    /// Counters of segments that were freed.
    past: PastCounts,
    refused: u64,
    /// Flows that moved from one segment to another, which count as neither removed nor inserted.
    moved: u64,
    /// The position in the oldest segment up to which flows were moved.
    drained_to: Cursor,
    /// Flows that left the oldest segment since draining it began.
    drained: u32,
    flow: PhantomData<fn() -> (K, V)>,
}

impl<K: TableKey, V, T: FlowTable<K, V>> Growing<K, V, T> {
    /// Returns an empty table with one segment for `first_flows`, or for all if they are fewer. The
    /// flows and the memory of the options are the limits of all segments together.
    ///
    /// `build` builds a segment from the options, with a number of flows of its own; it is the
    /// `try_new` of a table. If it fails later, for lack of memory or because of its limits, growth
    /// ends until a segment is freed; the table then refuses flows as [`FullReason::Memory`].
    ///
    /// # Errors
    ///
    /// Returns the error of building the first segment; [`BuildError::TooLarge`] if it exceeds the
    /// limit.
    pub fn try_new(
        first_flows: u32,
        options: TableOptions,
        build: fn(&TableOptions) -> Result<T, BuildError>,
    ) -> Result<Self, BuildError> {
        let mut places = Places::default();
        let newest = segment_of(first_flows.min(options.flows), &options, 0, &mut places, build)?;
        Ok(Self::with_segment(newest, places, first_flows, options, build))
    }

    /// Returns a table that opens its first segment for its first flow. Until then it has `none`,
    /// which refuses each flow as [`FullReason::Capacity`].
    pub(crate) fn without_segment(
        none: T,
        first_flows: u32,
        options: TableOptions,
        build: Build<T>,
    ) -> Self {
        let none = Segment { table: none, names: Names::NONE, flows: 0 };
        Self::with_segment(none, Places::default(), first_flows, options, build)
    }

    fn with_segment(
        newest: Segment<T>,
        places: Places,
        first_flows: u32,
        options: TableOptions,
        build: Build<T>,
    ) -> Self {
        Self {
            largest: newest.flows,
            newest,
            older: Vec::new(),
            places,
            first_flows,
            options,
            build,
            on_open: None,
            stuck: false,
            past: PastCounts::default(),
            refused: 0,
            moved: 0,
            drained_to: Cursor::default(),
            drained: 0,
            flow: PhantomData,
        }
    }

    /// Calls a function for each segment, the present ones and those to come, with the number of
    /// flows for which it is built and its bytes: for a budget that the table shares with others.
    #[must_use]
    pub fn on_open(
        mut self,
        call: impl Fn(u32, u64) + Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) -> Self {
        self.all().for_each(|segment| call(segment.flows, segment.table.memory().total_bytes()));
        self.on_open = Some(Box::new(call));
        self
    }

    /// Opens a segment for a number of flows.
    fn open(&mut self, flows: u32) -> Result<(), BuildError> {
        let bytes = self.memory().total_bytes();
        let newest = segment_of(flows, &self.options, bytes, &mut self.places, self.build)?;
        if let Some(call) = &self.on_open {
            call(flows, newest.table.memory().total_bytes());
        }
        self.largest = self.largest.max(flows);
        let previous = mem::replace(&mut self.newest, newest);
        if previous.flows != 0 {
            self.older.push(previous);
        }
        Ok(())
    }

    /// Returns the number of flows for which growth opens the next segment.
    fn next_flows(&self) -> u32 {
        let growth = growth(self.first_flows, self.options.flows);
        self.largest.saturating_mul(growth).max(self.first_flows).min(self.options.flows)
    }

    /// Opens a further segment; returns whether it succeeded.
    #[cold]
    fn grow(&mut self) -> bool {
        if self.stuck {
            return false;
        }
        let largest = self.largest;
        let mut next = self.next_flows();
        while self.count() < SEGMENTS_MAX && next >= largest.max(1) {
            if self.open(next).is_ok() {
                return true;
            }
            next /= 2;
        }
        // If no larger one is possible, one as large as the largest freed one, or one that fits
        // into the memory that is left.
        let smaller = [2, 4, 8].map(|part| largest / part).into_iter().filter(|flows| *flows > 0);
        let others: Vec<u32> = self.places.given_back().into_iter().chain(smaller).collect();
        self.stuck =
            self.count() == SEGMENTS_MAX || !others.into_iter().any(|flows| self.open(flows).is_ok());
        !self.stuck
    }

    /// Frees older segments without flows.
    fn retire(&mut self) {
        for number in (0..self.older.len()).rev() {
            if self.older[number].table.is_empty() {
                let segment = self.older.remove(number);
                if number == 0 {
                    (self.drained_to, self.drained) = (Cursor::default(), 0);
                }
                let stats = segment.table.stats();
                self.past.add(stats);
                self.places.give_back(segment.names, segment.flows, stats.inserted);
                self.stuck = false;
            }
        }
    }

    /// Returns the limits of all segments, and the options of each.
    pub(crate) fn options(&self) -> &TableOptions {
        &self.options
    }

    /// Returns the number of segments.
    fn count(&self) -> usize {
        self.older.len() + 1
    }

    /// Returns all segments, the newest first.
    fn all(&self) -> impl Iterator<Item = &Segment<T>> {
        iter::once(&self.newest).chain(self.older.iter().rev())
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Segment<T>> {
        iter::once(&mut self.newest).chain(self.older.iter_mut().rev())
    }

    /// Returns the segment of an id, and the id within that segment.
    #[inline(always)]
    fn segment(&self, id: FlowId) -> Option<(&Segment<T>, FlowId)> {
        let segment = if self.newest.names.holds(id) { &self.newest } else { self.older_of(id)? };
        Some((segment, segment.names.inner(id)?))
    }

    #[inline(always)]
    fn segment_mut(&mut self, id: FlowId) -> Option<(&mut Segment<T>, FlowId)> {
        let Self { newest, older, .. } = self;
        let segment = if newest.names.holds(id) { newest } else { older_of_mut(older, id)? };
        let id = segment.names.inner(id)?;
        Some((segment, id))
    }

    #[cold]
    fn older_of(&self, id: FlowId) -> Option<&Segment<T>> {
        self.older.iter().find(|segment| segment.names.holds(id))
    }

    /// Returns the older segments that contain flows, youngest first.
    fn older(&self) -> impl Iterator<Item = &Segment<T>> {
        self.older.iter().rev().filter(|segment| !segment.table.is_empty())
    }

    /// Looks up a key in all segments but the newest.
    #[cold]
    #[inline(never)]
    pub(crate) fn lookup_older(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.older().find_map(|segment| {
            let id = segment.table.lookup(key, hash)?;
            Some(segment.names.outer(id))
        })
    }
}

/// Returns a new segment for a number of flows, beside segments that take a number of bytes.
fn segment_of<K: TableKey, V, T: FlowTable<K, V>>(
    flows: u32,
    options: &TableOptions,
    bytes: u64,
    places: &mut Places,
    build: Build<T>,
) -> Result<Segment<T>, BuildError> {
    // The table refuses a size beyond what is left before it allocates.
    let memory_limit_bytes = options.memory_limit_bytes.saturating_sub(bytes);
    let table = build(&TableOptions { flows, memory_limit_bytes, ..*options })?;
    // A builder of the caller may not.
    let (needed_bytes, limit_bytes) = (bytes + table.memory().total_bytes(), options.memory_limit_bytes);
    if needed_bytes > limit_bytes {
        return Err(BuildError::TooLarge { needed_bytes, limit_bytes });
    }
    let flows_max = u64::from(u32::MAX - places.slot_count());
    let too_many = BuildError::TooManyFlows { flows: flows.into(), flows_max };
    let names = places.take(table.slot_count()).ok_or(too_many)?;
    Ok(Segment { table, names, flows })
}

/// Returns the smallest growth factor, from [`GROWTH`] on, with which twelve segments can hold all
/// flows.
fn growth(first_flows: u32, flows_max: u32) -> u32 {
    let reach = |growth: &u32| {
        let flows = |place| u64::from(first_flows.max(1)).saturating_mul(u64::from(*growth).pow(place));
        (0_u32..).take(SEGMENTS_MAX).fold(0_u64, |sum, place| sum.saturating_add(flows(place)))
    };
    // 32 to the power of eleven exceeds any number of flows.
    (GROWTH..32).find(|growth| reach(growth) >= u64::from(flows_max)).unwrap_or(32)
}

#[cold]
fn older_of_mut<T>(older: &mut [Segment<T>], id: FlowId) -> Option<&mut Segment<T>> {
    older.iter_mut().find(|segment| segment.names.holds(id))
}

impl<K: TableKey, V, T: FlowTable<K, V>> FlowTable<K, V> for Growing<K, V, T> {
    const MAY_EVICT: bool = T::MAY_EVICT;

    fn capacity(&self) -> u32 {
        self.options.flows
    }

    fn timeouts(&self) -> Option<Timeouts> {
        Some(self.options.timeouts)
    }

    #[inline]
    fn len(&self) -> u32 {
        self.all().map(|segment| segment.table.len()).sum()
    }

    fn slot_count(&self) -> u32 {
        self.places.slot_count()
    }

    #[inline]
    fn prefetch(&self, hash: TableHash) {
        self.holding().for_each(|segment| segment.table.prefetch(hash));
    }

    #[inline]
    fn prefetch_states(&self, hashes: &[TableHash]) {
        self.holding().for_each(|segment| segment.table.prefetch_states(hashes));
    }

    #[inline]
    fn prefetch_vacancy(&self, key: &K, hash: TableHash) {
        self.newest.table.prefetch_vacancy(key, hash);
    }

    #[inline]
    fn lookup(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        let newest = &self.newest;
        match newest.table.lookup(key, hash) {
            Some(id) => Some(newest.names.outer(id)),
            None => self.lookup_older(key, hash),
        }
    }

    #[inline]
    fn lookup_value(&self, key: &K, hash: TableHash) -> Option<(FlowId, &V)> {
        let newest = &self.newest;
        if let Some((id, value)) = newest.table.lookup_value(key, hash) {
            return Some((newest.names.outer(id), value));
        }
        let id = self.lookup_older(key, hash)?;
        Some((id, self.get(id)?))
    }

    #[inline]
    fn lookup_touch(&mut self, key: &K, hash: TableHash, now: Tick) -> Option<(FlowId, &mut V, Tick)> {
        if self.older.is_empty() {
            let Segment { table, names, .. } = &mut self.newest;
            let (id, value, seen) = table.lookup_touch(key, hash, now)?;
            return Some((names.outer(id), value, seen));
        }
        let id = self.lookup(key, hash)?;
        let (value, seen) = self.get_mut_touch(id, now)?;
        Some((id, value, seen))
    }

    #[inline]
    fn remove_key(&mut self, key: &K, hash: TableHash) -> Option<V> {
        let removed = self.newest.table.remove_key(key, hash);
        if removed.is_some() || self.older.is_empty() {
            return removed;
        }
        let id = self.lookup_older(key, hash)?;
        self.remove(id).map(|(_, value)| value)
    }

    #[inline]
    fn lookup_batch(&self, keys: &[K], hashes: &[TableHash], ids: &mut [Option<FlowId>]) {
        self.newest.table.lookup_batch(keys, hashes, ids);
        self.end_batch(keys, hashes, ids, &mut |_, _| {});
    }

    #[inline]
    fn lookup_batch_values(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        mut on_flow: impl FnMut(usize, &V),
    ) {
        self.newest.table.lookup_batch_values(keys, hashes, ids, &mut on_flow);
        self.end_batch(keys, hashes, ids, &mut on_flow);
    }

    #[inline]
    fn lookup_batch_prefetched(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        mut on_flow: impl FnMut(usize, &V),
    ) {
        self.newest.table.lookup_batch_prefetched(keys, hashes, ids, &mut on_flow);
        self.end_batch(keys, hashes, ids, &mut on_flow);
    }

    fn entry_or_evict(
        &mut self,
        key: K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<Entry, Full> {
        // A segment calls `make` only when it accepts the flow, so after a refusal it is still
        // available.
        let mut make = Some(make);
        let mut make = || make.take().expect("one segment takes the flow")();
        if let Some(id) = self.lookup_older(&key, hash) {
            return Ok(Entry { id, is_new: false });
        }
        let mut vacated = None;
        if self.len() >= self.options.flows {
            let known = self.newest.table.lookup(&key, hash).map(|id| self.newest.names.outer(id));
            if let Some(id) = known {
                return Ok(Entry { id, is_new: false });
            }
            vacated = self.evict_for(hash, policy);
            if vacated.is_none() {
                self.refused += 1;
                return Err(Full { reason: FullReason::Capacity });
            }
        }
        let mut enter = |segment: &mut Segment<T>, hash: TableHash| {
            let entry = segment.table.entry_with(key, hash, class, now, &mut make)?;
            Ok(Entry { id: segment.names.outer(entry.id), ..entry })
        };
        let mut outcome = enter(&mut self.newest, hash);
        // A list at its cap is caused by chance or by an attack; neither should cost memory.
        if let Err(Full { reason: FullReason::Capacity | FullReason::PoolExhausted }) = outcome {
            if self.grow() {
                outcome = enter(&mut self.newest, hash);
            }
            for segment in self.all_mut() {
                if outcome.is_ok() {
                    break;
                }
                outcome = enter(segment, hash);
            }
            if outcome.is_err() {
                outcome = Err(Full { reason: FullReason::Memory });
            }
        }
        if let (Err(_), Some(segment)) = (outcome, vacated.and_then(|number| self.all_mut().nth(number))) {
            // A flow was evicted for this one, so it is inserted even if the newest segment has no
            // slot for it.
            outcome = enter(segment, hash);
        }
        if outcome.is_err() && self.newest.evict(hash, policy) {
            outcome = enter(&mut self.newest, hash);
        }
        self.refused += u64::from(outcome.is_err());
        outcome
    }

    fn evict(&mut self, hash: TableHash, policy: &mut impl Evict<K, V>) -> bool {
        self.all_mut().any(|segment| segment.evict(hash, policy))
    }

    #[inline]
    fn flow(&self, id: FlowId) -> Option<Flow<'_, K, V>> {
        let (segment, inner) = self.segment(id)?;
        Some(Flow { id, ..segment.table.flow(inner)? })
    }

    #[inline]
    fn get(&self, id: FlowId) -> Option<&V> {
        let (segment, id) = self.segment(id)?;
        segment.table.get(id)
    }

    #[inline]
    fn get_mut(&mut self, id: FlowId) -> Option<&mut V> {
        let (segment, id) = self.segment_mut(id)?;
        segment.table.get_mut(id)
    }

    #[inline]
    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut V, Tick)> {
        let (segment, id) = self.segment_mut(id)?;
        segment.table.get_mut_touch(id, now)
    }

    fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        let (segment, id) = self.segment(id)?;
        segment.table.class_of(id)
    }

    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.segment_mut(id).is_some_and(|(segment, id)| segment.table.set_class(id, class))
    }

    fn remove(&mut self, id: FlowId) -> Option<(K, V)> {
        let (segment, id) = self.segment_mut(id)?;
        segment.table.remove(id)
    }

    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)> {
        // Segments are ordered by age, but a walk by slots; there are at most twelve segments.
        let mut from = cursor.0;
        loop {
            let behind = self.all().filter(|segment| segment.names.base + segment.names.slots > from);
            let segment = behind.min_by_key(|segment| segment.names.base)?;
            let local = Cursor(from.saturating_sub(segment.names.base));
            if let Some((id, next)) = segment.table.next_live(local) {
                return Some((segment.names.outer(id), Cursor(segment.names.base + next.0)));
            }
            from = segment.names.base + segment.names.slots;
        }
    }

    fn drain(&mut self, on_flow: &mut impl FnMut(FlowId, K, V)) {
        for segment in self.all_mut() {
            let names = segment.names;
            segment.table.drain(&mut |id, key, value| on_flow(names.outer(id), key, value));
        }
        self.retire();
    }

    fn expire(&mut self, now: Tick, budget: u32, on_flow: &mut impl FnMut(FlowId, K, V)) -> Expired {
        let mut outcome = Expired::default();
        for segment in self.older.iter_mut().chain(iter::once(&mut self.newest)) {
            let names = segment.names;
            let part = segment.table.expire(now, budget - outcome.examined, &mut |id, key, value| {
                on_flow(names.outer(id), key, value);
            });
            outcome.examined += part.examined;
            outcome.removed += part.removed;
            outcome.more |= part.more;
        }
        if !self.older.is_empty() {
            self.retire();
        }
        outcome
    }

    fn stats(&self) -> TableStats {
        let live = self.all().map(|segment| segment.table.stats());
        let stats = live.fold(self.past.stats(), TableStats::and);
        let (inserted, removed) = (stats.inserted - self.moved, stats.removed - self.moved);
        TableStats { refused: self.refused, inserted, removed, ..stats }
    }

    fn memory(&self) -> MemoryReport {
        let live = self.all().map(|segment| segment.table.memory());
        live.fold(MemoryReport::default(), MemoryReport::and)
    }

    fn pages_obtained(&self) -> crate::PageReport {
        let live = self.all().map(|segment| segment.table.pages_obtained());
        live.reduce(crate::PageReport::and).unwrap_or_default()
    }
}

impl<K, V, T: fmt::Debug> fmt::Debug for Growing<K, V, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Growing")
            .field("newest", &self.newest)
            .field("older", &self.older)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::TableOptions;
    use crate::dhash::DHash;
    use crate::table::Refused;
    use flowloom_flow_key::hash::fold::split_mix;

    pub(super) const CLASS: TimeoutClass = TimeoutClass(0);

    pub(super) fn hash(key: u64) -> TableHash {
        TableHash::from_mixed(split_mix(&mut key.clone()))
    }

    pub(super) const OPTIONS: TableOptions =
        TableOptions { timeouts: Timeouts::NEVER.with(CLASS, 80), ..TableOptions::for_flows(200) };

    /// Returns an empty table whose first segment has ten flows.
    pub(super) fn growing(options: TableOptions) -> Result<Growing<u64, u64, DHash<u64, u64>>, BuildError> {
        Growing::try_new(10, options, DHash::try_new)
    }

    #[test]
    fn flows_keep_their_ids_while_the_table_grows_and_shrinks() {
        let mut table = growing(OPTIONS).unwrap();
        let ids: Vec<_> =
            (0..150).map(|key| table.insert(key, hash(key), key, CLASS, Tick(key)).unwrap()).collect();
        assert_eq!(table.stats().segments, 3);
        for (key, &id) in (0..150).zip(&ids) {
            assert_eq!(table.lookup(&key, hash(key)), Some(id));
        }
        // The first ten age out, and their segment with them.
        table.expire(Tick(90), 1000, &mut |_, key, _| assert!(key <= 10));
        assert_eq!(table.stats().segments, 2);
        assert_eq!(table.get(ids[3]), None);
        assert_eq!(table.get(ids[100]), Some(&100));
    }

    #[test]
    fn limits_on_growth_are_enforced() {
        let mut table = growing(OPTIONS).unwrap();
        let taken =
            (0..300).filter(|&key| table.insert(key, hash(key), key, CLASS, Tick(0)).is_ok()).count();
        assert_eq!(taken, 200);
        assert_eq!(table.stats().refused, 100);
        let one = DHash::<u64, u64>::bytes_needed(&TableOptions { flows: 10, ..OPTIONS });
        let options = TableOptions { memory_limit_bytes: one, ..OPTIONS };
        let mut table = growing(options).unwrap();
        for key in 0..10 {
            table.insert(key, hash(key), key, CLASS, Tick(0)).unwrap();
        }
        let refused = table.insert(10, hash(10), 10, CLASS, Tick(0));
        assert_eq!(refused, Err(Refused { value: 10, reason: FullReason::Memory }));
        let options = TableOptions { memory_limit_bytes: one - 1, ..OPTIONS };
        assert!(matches!(growing(options), Err(BuildError::TooLarge { .. })));
    }
}

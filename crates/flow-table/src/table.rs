//! The trait of tables: from a key and its hash to a flow's state.
//!
//! The caller computes the hash once per packet and passes it in; a table never hashes. Bits 63 …
//! 32 select the bucket, bits 31 … 0 are the signature ([`flowloom_flow_key::flow_hash`] documents
//! all uses of the bits). Equal keys must come with equal hashes.
//!
//! Time is an argument too: the caller defines the unit of a [`Tick`].
//!
//! A [`FlowId`] names a flow from its insertion to its removal. No table moves a flow, so you may
//! store an id in a descriptor, a timer or another table. After the removal the id is invalid, even
//! when the slot has a new flow.

use flowloom_cpu::pages::PageReport;

pub use crate::cursor::Cursor;
use crate::evict::{Evict, Refuse};
pub use crate::flow::Flow;
pub use crate::flow_id::FlowId;
pub use crate::full::{Full, FullReason, Refused};
use crate::state::Timeouts;
pub use crate::table_key::TableKey;
pub use crate::table_stats::{MemoryReport, TableStats};
pub use crate::tick::{Tick, TimeoutClass};
use flowloom_flow_key::TableHash;

/// The result of find-or-insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The flow of the key.
    pub id: FlowId,
    /// Whether this call inserted it.
    pub is_new: bool,
}

/// The result of one call of [`FlowTable::expire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Expired {
    /// Flows whose deadline was checked.
    pub examined: u32,
    /// Flows removed.
    pub removed: u32,
    /// The budget ran out before all flows were checked; call again.
    pub more: bool,
}

/// Keys of a batch of insertions between the prefetch of the index and the prefetch of a vacant
/// state.
const INDEX_AHEAD: usize = 64;

/// Keys of a batch of insertions between the prefetch of a vacant state and its use.
const VACANCY_AHEAD: usize = 48;

/// Keys of a batch of removals that are looked up at once; with 64, batches of 256 take up to 1.06
/// times as long.
const REMOVED_AT_ONCE: usize = 256;

/// A table of flows.
///
/// It is generic over key and value. Choose a table once, in one `match`, so that everything per
/// packet is compiled for it.
///
/// Your own table needs the twelve methods without a default, and may override others for speed;
/// [`laws::check`](crate::laws::check) tests it. An index over [`States`](crate::state::States)
/// needs only [`Indexed`](crate::Indexed).
///
/// A `hash` is 64 well-mixed bits whose upper and lower half have different uses (see the
/// [module](self)); a 32-bit hash would put all flows into one bucket. If untrusted parties choose
/// the keys, the hash must be keyed, as [`FlowHasher`](flowloom_flow_key::FlowHasher) is. The id of
/// a removed flow is invalid. The id of another table may refer to any flow, because all tables
/// number their flows in the same way. No method panics on either.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::{FlowHasher, FlowKey};
/// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
///
/// let hasher = FlowHasher::with_seed(1);
/// let mut table = LineHash::<FlowKey, u32>::try_new(&TableOptions::for_flows(1000))?;
/// let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, 40_000, 443, 6);
/// let hash = hasher.hash(&key).table;
///
/// let entry = table.entry_with(key, hash, TimeoutClass(0), Tick(5), || 1)?;
/// assert!(entry.is_new);
/// assert_eq!(table.lookup(&key, hash), Some(entry.id));
/// let (packets, previous) = table.get_mut_touch(entry.id, Tick(8)).expect("just inserted");
/// *packets += 1;
/// assert_eq!(previous, Tick(5));
/// assert_eq!(table.remove(entry.id), Some((key, 2)));
/// assert_eq!(table.get(entry.id), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FlowTable<K: TableKey, V> {
    /// Whether [`insert`](Self::insert) and other calls without a policy, such as
    /// [`entry_with`](Self::entry_with), may evict a flow. Tables of this crate never do, so a
    /// caller may keep ids that it has looked up before an insertion.
    const MAY_EVICT: bool = true;

    /// Returns the number of flows for which the table is built; by default, one per slot.
    fn capacity(&self) -> u32 {
        self.slot_count()
    }

    /// Returns the idle timeouts that end flows, if the table knows them.
    fn timeouts(&self) -> Option<Timeouts> {
        None
    }

    /// Returns the number of flows.
    #[inline]
    fn len(&self) -> u32 {
        self.stats().len
    }

    /// Returns whether there are no flows.
    #[inline]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the upper bound of [`FlowId::slot`].
    fn slot_count(&self) -> u32;

    /// Hints that the caller will look up a flow with this hash after several others: prefetches
    /// its index line into the second-level cache. A table may have nothing to prefetch.
    #[inline]
    fn prefetch(&self, hash: TableHash) {
        let _ = hash;
    }

    /// Hints that the caller will look up flows with these hashes soon, some time after
    /// [`prefetch`](FlowTable::prefetch) for each: prefetches the states of those that exist. A
    /// table may have nothing to prefetch; those of this crate except
    /// `baseline::DirectTable` do.
    ///
    /// It helps small batches of flows that are far from the processor. Their cost is not the
    /// index, which is small and near, but the states, which all miss the caches during the lookup.
    /// If prefetched several batches earlier, they have arrived: at a million flows a batch of 32
    /// takes two thirds of the time, and a batch of 8 half. If the states are near, the batch takes
    /// a third more time.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::TableHash;
    /// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let mut table = LineHash::<u64, u32>::try_new(&TableOptions::for_flows(64))?;
    /// let hash = TableHash::from_weak(7);
    /// table.insert(7, hash, 700, TimeoutClass(0), Tick(0)).expect("there is space");
    /// let (mut before, mut sum): (Option<[u64; 2]>, u32) = (None, 0);
    /// for burst in [Some([6, 7]), Some([8, 9]), None] {
    ///     let hashes = |keys: [u64; 2]| keys.map(|key| TableHash::from_weak(key));
    ///     // As a burst comes, its lines are asked for,
    ///     burst.map(|keys| hashes(keys).map(|hash| table.prefetch(hash)));
    ///     // the burst before is looked up, whose states have come meanwhile,
    ///     if let Some(keys) = before {
    ///         let ids = &mut [None; 2];
    ///         table.lookup_batch_prefetched(&keys, &hashes(keys), ids, |_, value| sum += value);
    ///     }
    ///     // and its own states are asked for.
    ///     burst.map(|keys| table.prefetch_states(&hashes(keys)));
    ///     before = burst;
    /// }
    /// assert_eq!(sum, 700);
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    #[inline]
    fn prefetch_states(&self, hashes: &[TableHash]) {
        let _ = hashes;
    }

    /// Hints that a flow of this key, which does not exist yet, will be inserted: prefetches the
    /// state that it would get.
    #[inline]
    fn prefetch_vacancy(&self, key: &K, hash: TableHash) {
        let _ = (key, hash);
    }

    /// Returns the flow of a key.
    fn lookup(&self, key: &K, hash: TableHash) -> Option<FlowId>;

    /// Returns the flow of a key and its value: [`lookup`](FlowTable::lookup) and
    /// [`get`](FlowTable::get) in one step.
    #[inline]
    fn lookup_value(&self, key: &K, hash: TableHash) -> Option<(FlowId, &V)> {
        let id = self.lookup(key, hash)?;
        Some((id, self.get(id)?))
    }

    /// Returns the flow of a key, its value, mutably, and the time at which it was last seen, which
    /// becomes `now`.
    ///
    /// It combines [`lookup`](FlowTable::lookup) and [`get_mut_touch`](FlowTable::get_mut_touch),
    /// for packets that arrive one by one.
    #[inline]
    fn lookup_touch(&mut self, key: &K, hash: TableHash, now: Tick) -> Option<(FlowId, &mut V, Tick)> {
        let id = self.lookup(key, hash)?;
        let (value, seen) = self.get_mut_touch(id, now)?;
        Some((id, value, seen))
    }

    /// Looks up many keys at once, overlapping their memory latencies.
    ///
    /// Any length is allowed. For flows that are far from the processor, a batch of 256 takes half
    /// the time per key of a batch of 32, which takes half the time of single lookups.
    ///
    /// # Panics
    ///
    /// Panics if the slices differ in length, which is a mistake of the program, not of a packet.
    #[inline]
    fn lookup_batch(&self, keys: &[K], hashes: &[TableHash], ids: &mut [Option<FlowId>]) {
        check_batch(keys, hashes, ids);
        for ((key, &hash), id) in keys.iter().zip(hashes).zip(ids) {
            *id = self.lookup(key, hash);
        }
    }

    /// Looks up many keys at once and passes the value of each found flow, with its index in the
    /// batch, to `show`. It combines [`lookup_batch`](FlowTable::lookup_batch) and
    /// [`get`](FlowTable::get) while the state is in the cache.
    ///
    /// Flows come in no particular order, but packets of one flow keep theirs.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`lookup_batch`](FlowTable::lookup_batch).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::TableHash;
    /// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let mut table = LineHash::<u64, u32>::try_new(&TableOptions::for_flows(2))?;
    /// let hash = TableHash::from_weak(7);
    /// table.insert(7, hash, 700, TimeoutClass(0), Tick(0)).expect("there is space");
    /// let (mut ids, mut shown) = ([None; 2], [0; 2]);
    /// let hashes = [TableHash::from_weak(6), TableHash::from_weak(7)];
    /// table.lookup_batch_values(&[6, 7], &hashes, &mut ids, |i, value| shown[i] = *value);
    /// assert_eq!((shown, ids[0], ids[1].is_some()), ([0, 700], None, true));
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    #[inline]
    fn lookup_batch_values(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &V),
    ) {
        self.lookup_batch(keys, hashes, ids);
        show_values(ids, |id| self.get(id), on_flow);
    }

    /// Like [`lookup_batch_values`](FlowTable::lookup_batch_values), for keys whose hashes the
    /// caller passed to [`prefetch`](FlowTable::prefetch) as it computed them. This is the fastest
    /// way to look up many keys.
    ///
    /// The index lines arrive while the caller still hashes, and are not requested again. A key
    /// that was not prefetched is found too, but later. Pass at most 256 keys at a time; otherwise
    /// the first lines are evicted from the nearest cache before their use.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`lookup_batch`](FlowTable::lookup_batch).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_key::FlowHasher;
    /// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let hasher = FlowHasher::with_seed(1);
    /// let hash = |key: &[u64; 2]| hasher.hash_words(key).table;
    /// let mut table = LineHash::<[u64; 2], u32>::try_new(&TableOptions::for_flows(9))?;
    /// table.insert([7, 7], hash(&[7, 7]), 700, TimeoutClass(0), Tick(0)).expect("there is space");
    ///
    /// let keys = [[6, 6], [7, 7]];
    /// let hashes = keys.map(|key| {
    ///     let hash = hash(&key);
    ///     table.prefetch(hash);
    ///     hash
    /// });
    /// let (mut ids, mut sum) = ([None; 2], 0);
    /// table.lookup_batch_prefetched(&keys, &hashes, &mut ids, |_, value| sum += value);
    /// assert_eq!((sum, ids[0]), (700, None));
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    #[inline]
    fn lookup_batch_prefetched(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: impl FnMut(usize, &V),
    ) {
        self.lookup_batch_values(keys, hashes, ids, on_flow);
    }

    /// Returns the flow of a key, creating it if it is missing.
    ///
    /// Calls `make` only if there is space. An existing flow keeps value, class and time.
    ///
    /// # Errors
    ///
    /// Returns [`Full`], with nothing changed except the count of refusals.
    #[inline]
    fn entry_with(
        &mut self,
        key: K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> V,
    ) -> Result<Entry, Full> {
        self.entry_or_evict(key, hash, class, now, make, &mut Refuse)
    }

    /// Returns the flow of a key. If it is missing, inserts it, evicting another flow if the table
    /// is full and `policy` allows it.
    ///
    /// It examines at most [`WINDOW`](crate::evict::WINDOW) flows, and evicts one. It calls `make`
    /// only if there is space.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if the policy keeps all flows, with nothing changed except the count of
    /// refusals.
    fn entry_or_evict(
        &mut self,
        key: K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<Entry, Full>;

    /// Evicts one of the rivals of a new flow with this hash. Returns whether it did; by default no
    /// flow has rivals.
    fn evict(&mut self, hash: TableHash, policy: &mut impl Evict<K, V>) -> bool {
        let _ = (hash, policy);
        false
    }

    /// Inserts a value under a key. If the key has a value, replaces it and renews class and time.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] with the value, and nothing changed except the count of refusals.
    #[inline]
    fn insert(
        &mut self,
        key: K,
        hash: TableHash,
        value: V,
        class: TimeoutClass,
        now: Tick,
    ) -> Result<FlowId, Refused<V>> {
        let mut value = Some(value);
        let make = || value.take().expect("`make` is called once");
        let entry = match self.entry_with(key, hash, class, now, make) {
            Ok(entry) => entry,
            Err(full) => return Err(full.with_value(value)),
        };
        if let Some(value) = value {
            if let Some((old, _)) = self.get_mut_touch(entry.id, now) {
                *old = value;
            }
            self.set_class(entry.id, class);
        }
        Ok(entry.id)
    }

    /// Inserts values under many keys, like repeated [`insert`](FlowTable::insert), overlapping
    /// their memory latencies.
    ///
    /// Calls `value` for each key, with its index, in order. Writes the id of each flow to the
    /// key's index in `ids`, or `None` if the flow was refused. Returns the number of refusals. Any
    /// length is allowed; batches of 32 and more gain most. Prefetching assumes that the flows are
    /// new.
    ///
    /// # Panics
    ///
    /// Panics if the slices differ in length, which is a mistake of the program, not of a packet.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::TableHash;
    /// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let mut table = LineHash::<u64, u32>::try_new(&TableOptions::for_flows(2))?;
    /// let keys = [7, 8, 9];
    /// let hashes = keys.map(TableHash::from_weak);
    /// let mut ids = [None; 3];
    /// let refused =
    ///     table.insert_batch(&keys, &hashes, TimeoutClass(0), Tick(0), |i| i as u32, &mut ids);
    /// assert_eq!((refused, ids[2]), (1, None));
    /// assert_eq!(ids[1].and_then(|id| table.get(id)), Some(&1));
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    #[inline]
    fn insert_batch(
        &mut self,
        keys: &[K],
        hashes: &[TableHash],
        class: TimeoutClass,
        now: Tick,
        mut value: impl FnMut(usize) -> V,
        ids: &mut [Option<FlowId>],
    ) -> usize {
        check_batch(keys, hashes, ids);
        for &hash in hashes.iter().take(INDEX_AHEAD) {
            self.prefetch(hash);
        }
        for (key, &hash) in keys.iter().zip(hashes).take(VACANCY_AHEAD) {
            self.prefetch_vacancy(key, hash);
        }
        let mut refused = 0;
        for (number, id) in ids.iter_mut().enumerate() {
            if let Some(&hash) = hashes.get(number + INDEX_AHEAD) {
                self.prefetch(hash);
            }
            if let (Some(key), Some(&hash)) =
                (keys.get(number + VACANCY_AHEAD), hashes.get(number + VACANCY_AHEAD))
            {
                self.prefetch_vacancy(key, hash);
            }
            *id = self.insert(keys[number], hashes[number], value(number), class, now).ok();
            refused += usize::from(id.is_none());
        }
        refused
    }

    /// Removes the flows of many keys, like repeated [`remove_key`](FlowTable::remove_key),
    /// overlapping their memory latencies.
    ///
    /// `on_flow` receives each value with the index of its key, in order. Returns the number of
    /// removed flows.
    ///
    /// # Panics
    ///
    /// Panics if the slices differ in length, which is a mistake of the program, not of a packet.
    #[inline]
    fn remove_batch(
        &mut self,
        keys: &[K],
        hashes: &[TableHash],
        mut on_flow: impl FnMut(usize, V),
    ) -> usize {
        assert!(
            keys.len() == hashes.len(),
            "a batch has as many hashes as keys: here {} for {}",
            hashes.len(),
            keys.len()
        );
        let (mut ids, mut from, mut removed) = ([None; REMOVED_AT_ONCE], 0, 0);
        for (keys, hashes) in keys.chunks(REMOVED_AT_ONCE).zip(hashes.chunks(REMOVED_AT_ONCE)) {
            let ids = &mut ids[..keys.len()];
            self.lookup_batch(keys, hashes, ids);
            for (number, id) in ids.iter().enumerate() {
                // A key that occurs twice has the same id twice; the second time the id is invalid.
                if let Some((_, value)) = id.and_then(|id| self.remove(id)) {
                    removed += 1;
                    on_flow(from + number, value);
                }
            }
            from += keys.len();
        }
        removed
    }

    /// Returns a flow.
    fn flow(&self, id: FlowId) -> Option<Flow<'_, K, V>>;

    /// Returns a flow's value.
    #[inline]
    fn get(&self, id: FlowId) -> Option<&V> {
        self.flow(id).map(|flow| flow.value)
    }

    /// Returns a flow's value, mutably.
    #[inline]
    fn get_mut(&mut self, id: FlowId) -> Option<&mut V> {
        let last_seen = self.last_seen(id)?;
        self.get_mut_touch(id, last_seen).map(|(value, _)| value)
    }

    /// Returns a flow's value, mutably, and the time at which it was last seen, which becomes
    /// `now`.
    ///
    /// It is the only call of the packet path after a lookup: identity, time and value share a
    /// line.
    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut V, Tick)>;

    /// Returns a flow's key.
    #[inline]
    fn key_of(&self, id: FlowId) -> Option<K> {
        self.flow(id).map(|flow| *flow.key)
    }

    /// Returns the time at which a flow was last seen.
    #[inline]
    fn last_seen(&self, id: FlowId) -> Option<Tick> {
        self.flow(id).map(|flow| flow.last_seen)
    }

    /// Records a packet of a flow; returns whether the flow exists.
    #[inline]
    fn touch(&mut self, id: FlowId, now: Tick) -> bool {
        self.get_mut_touch(id, now).is_some()
    }

    /// Returns a flow's class; all classes without a timeout count as one.
    fn class_of(&self, id: FlowId) -> Option<TimeoutClass>;

    /// Moves a flow to another timeout class; the timeout counts from the time at which it was last
    /// seen. Returns whether the flow exists.
    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool;

    /// Removes a flow.
    fn remove(&mut self, id: FlowId) -> Option<(K, V)>;

    /// Removes the flow of a key.
    #[inline]
    fn remove_key(&mut self, key: &K, hash: TableHash) -> Option<V> {
        let id = self.lookup(key, hash)?;
        self.remove(id).map(|(_, value)| value)
    }

    /// Returns the first flow at or after a cursor, and the cursor after it.
    ///
    /// The table may change between two calls. The walk visits a flow that stays exactly once, and
    /// one that is inserted or removed at most once.
    ///
    /// # Examples
    ///
    /// Example: walking, and removing flows on the way.
    ///
    /// ```
    /// use flowloom_flow_table::TableHash;
    /// use flowloom_flow_table::{Cursor, FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let mut table = LineHash::<u64, u32>::try_new(&TableOptions::for_flows(10))?;
    /// for key in 0..10 {
    ///     let hash = TableHash::from_weak(key);
    ///     table.insert(key, hash, key as u32, TimeoutClass(0), Tick(0)).expect("not full");
    /// }
    /// let mut cursor = Cursor::default();
    /// while let Some((id, next)) = table.next_live(cursor) {
    ///     cursor = next;
    ///     if table.get(id).is_some_and(|value| value % 2 == 1) {
    ///         table.remove(id);
    ///     }
    /// }
    /// assert_eq!(table.len(), 5);
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)>;

    /// Returns an iterator over all flows, with id, key and value of each, in no particular order.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::TableHash;
    /// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
    /// let mut table = LineHash::<u64, u32>::try_new(&TableOptions::for_flows(10))?;
    /// for key in 0..10 {
    ///     let hash = TableHash::from_weak(key);
    ///     table.insert(key, hash, 2, TimeoutClass(0), Tick(0)).expect("not full");
    /// }
    /// assert_eq!(table.iter().map(|(_, _, value)| value).sum::<u32>(), 20);
    /// # Ok::<(), flowloom_flow_table::BuildError>(())
    /// ```
    fn iter<'a>(&'a self) -> impl Iterator<Item = (FlowId, K, &'a V)>
    where
        V: 'a,
    {
        let mut cursor = Cursor::default();
        core::iter::from_fn(move || {
            let (id, next) = self.next_live(cursor)?;
            cursor = next;
            let flow = self.flow(id)?;
            Some((id, *flow.key, flow.value))
        })
    }

    /// Removes all flows, and passes each to `on_flow`.
    fn drain(&mut self, on_flow: &mut impl FnMut(FlowId, K, V)) {
        let mut cursor = Cursor::default();
        while let Some((id, next)) = self.next_live(cursor) {
            if let Some((key, value)) = self.remove(id) {
                on_flow(id, key, value);
            }
            cursor = next;
        }
    }

    /// Removes all flows.
    fn clear(&mut self) {
        self.drain(&mut |_, _, _| {});
    }

    /// Removes flows that were not seen for the timeout of their class, and passes each to
    /// `on_flow`.
    ///
    /// It examines no more than `budget` flows, so the time of a call is bounded. A flow is never
    /// removed early (except at `Tick(u64::MAX)`, where time ends), and at most
    /// [`TableStats::granule_ticks`] late if calls keep up.
    ///
    /// Time may go backwards, in `now` and in the times of packets: no flow is removed before its
    /// last packet makes it due at `now`. A packet with an earlier time than before does not
    /// advance the examination of its flow, and may delay it by the difference.
    fn expire(&mut self, now: Tick, budget: u32, on_flow: &mut impl FnMut(FlowId, K, V)) -> Expired;

    /// Returns the counters.
    fn stats(&self) -> TableStats;

    /// Returns the memory of the table. Does not ask the kernel: [`PageReport::huge_obtained`] is
    /// `None`.
    fn memory(&self) -> MemoryReport;

    /// Returns the pages of [`memory`](FlowTable::memory), and whether the kernel has provided huge
    /// ones so far.
    ///
    /// It serves reports, not the packet path: it reads the kernel's map of the process for each
    /// array large enough for a huge page. For that the kernel walks all resident pages, which
    /// takes several milliseconds per gigabyte of small pages. Untouched memory has no pages yet.
    /// The result is unknown for smaller tables, without `std`, outside Linux, and for your own
    /// tables that do not implement it.
    fn pages_obtained(&self) -> PageReport {
        self.memory().pages
    }
}

/// Checks that the slices of a batch have equal lengths.
pub(crate) fn check_batch<K>(keys: &[K], hashes: &[TableHash], ids: &[Option<FlowId>]) {
    assert!(
        keys.len() == hashes.len() && keys.len() == ids.len(),
        "a batch has as many hashes and ids as keys: here {} and {} for {}",
        hashes.len(),
        ids.len(),
        keys.len()
    );
}

/// Passes the value of each found flow, with its index in the batch, to `show`.
pub(crate) fn show_values<'a, V: 'a>(
    ids: &[Option<FlowId>],
    value_of: impl Fn(FlowId) -> Option<&'a V>,
    mut on_flow: impl FnMut(usize, &V),
) {
    for (number, &id) in ids.iter().enumerate() {
        if let Some(value) = id.and_then(&value_of) {
            on_flow(number, value);
        }
    }
}

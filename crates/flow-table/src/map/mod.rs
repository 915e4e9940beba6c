//! [`FlowMap`]: a map that is used as the standard library's, on [`LineHash`].

mod builder;
mod entry;
mod iter;
mod traits;

pub use crate::table::Flow;
pub use builder::FlowMapBuilder;
pub use entry::{Entry, OccupiedEntry, VacantEntry};
pub use iter::{
    Drain, ExtractIf, Flows, IntoIter, IntoKeys, IntoValues, Iter, IterMut, Keys, Values, ValuesMut,
};

use core::hash::{BuildHasher, Hash};

use flowloom_flow_key::{KeyedState, TableHash};

use crate::evict::Evict;
use crate::linehash::LineHash;
use crate::segments::{Drained, Growing};
use crate::table::{
    Expired, FlowId, FlowTable, Full, MemoryReport, Refused, TableKey, TableStats, Tick, TimeoutClass,
};

/// Number of keys whose hashes are computed, and whose lines are prefetched, before the first
/// lookup.
const AHEAD: usize = 256;

/// The same for a short batch.
const FEW_AHEAD: usize = 32;

type Table<K, V> = Growing<K, V, LineHash<K, V>>;

/// A map from the keys of flows to their values: `HashMap` with the additional operations that
/// flows need.
///
/// * A key is any type that is `Copy + Eq + Hash + Debug`, such as
///   [`FiveTuple`](flowloom_flow_key::FiveTuple), [`FlowKey`](flowloom_flow_key::FlowKey) or your
///   own struct. The hash is keyed with a secret of the process. Any other [`BuildHasher`] works,
///   even a weak one, because the map mixes its result once more.
/// * The map grows by opening further [segments](crate::segments). Nothing moves, so no call takes
///   long, and the [`FlowId`] of a flow stays valid until the flow is removed.
///   [`compact`](FlowMap::compact) merges the segments, which makes lookups as fast as in a map
///   with the right [capacity](FlowMap::with_capacity).
/// * A [builder](FlowMap::builder) sets a maximum and timeouts. An insertion returns [`Full`] or
///   [`Refused`] if there is no space, because on the packet path that is an outcome and not a
///   panic.
/// * [`set_now`](FlowMap::set_now) sets the current time. [`insert`](FlowMap::insert),
///   [`get_mut`](FlowMap::get_mut) and their relatives record that the flow was seen, as does an
///   [`entry`](FlowMap::entry) that gives a mutable value or inserts one. Calls by shared
///   reference, [`peek_mut`](FlowMap::peek_mut) and an entry that is only read do not.
///   [`expire`](FlowMap::expire) removes flows that were not seen for too long.
///
/// # Examples
///
/// ```
/// use flowloom_flow_key::FiveTuple;
/// use flowloom_flow_table::FlowMap;
///
/// let mut packets = FlowMap::new();
/// let tuple = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 40_000, 443, 6);
/// for _ in 0..3 {
///     *packets.entry(tuple).or_insert(0_u64)? += 1;
/// }
/// assert_eq!(packets[&tuple], 3);
/// # Ok::<(), flowloom_flow_table::Full>(())
/// ```
///
/// Example: a custom key, a maximum and a timeout.
///
/// ```
/// use flowloom_flow_table::{FlowMap, Tick};
///
/// #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
/// struct Inside { address: u32, port: u16 }
///
/// let mut ports = FlowMap::builder().max_flows(10_000).timeout(300).build()?;
/// ports.insert(Inside { address: 7, port: 1024 }, 50_000_u16)?;
/// ports.set_now(Tick(1000));
/// ports.expire(64, |_, inside, port| println!("{inside:?} gives port {port} back"));
/// assert!(ports.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A value whose drop uses what it borrows is dropped before that, as in `HashMap`:
///
/// ```compile_fail,E0597
/// struct Printed<'a>(&'a String);
/// impl Drop for Printed<'_> {
///     fn drop(&mut self) {
///         println!("{}", self.0);
///     }
/// }
/// let (mut map, text);
/// text = String::new();
/// map = flowloom_flow_table::FlowMap::new();
/// let _ = map.insert(7, Printed(&text));
/// ```
pub struct FlowMap<K, V, S = KeyedState> {
    table: Table<K, V>,
    hasher: S,
    now: Tick,
}

impl<K: TableKey + Hash, V> FlowMap<K, V, KeyedState> {
    /// Returns an empty map that grows as needed, with a secret drawn from the operating system.
    /// It allocates nothing before the first insertion.
    #[cfg(all(feature = "std", not(target_os = "unknown")))]
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(KeyedState::random())
    }

    /// Returns an empty map that holds this many flows before it grows.
    ///
    /// # Panics
    ///
    /// Panics if memory for these flows is not available. [`FlowMapBuilder::build`] returns an
    /// error instead.
    #[cfg(all(feature = "std", not(target_os = "unknown")))]
    #[must_use]
    pub fn with_capacity(flows: u32) -> Self {
        Self::with_capacity_and_hasher(flows, KeyedState::random())
    }
}

impl FlowMap<(), ()> {
    /// Returns a builder, for a maximum, timeouts, and errors instead of panics. Its
    /// [`build`](FlowMapBuilder::build) determines key and value.
    pub const fn builder() -> FlowMapBuilder {
        FlowMapBuilder::new()
    }
}

impl<K: TableKey + Hash, V, S: BuildHasher> FlowMap<K, V, S> {
    /// Returns an empty map with this hasher. If untrusted parties choose the keys, the hasher must
    /// be keyed. It allocates nothing before the first insertion.
    ///
    /// # Panics
    ///
    /// Never.
    #[must_use]
    pub fn with_hasher(hasher: S) -> Self {
        FlowMapBuilder::new().build_with_hasher(hasher).expect("a map without flows allocates nothing")
    }

    /// Returns an empty map with this hasher that holds this many flows before it grows.
    ///
    /// # Panics
    ///
    /// Panics in the same cases as [`with_capacity`](FlowMap::with_capacity).
    #[must_use]
    pub fn with_capacity_and_hasher(flows: u32, hasher: S) -> Self {
        let builder = FlowMapBuilder::new().flows(flows);
        builder.build_with_hasher(hasher).expect("memory for as many flows as were asked for")
    }

    /// Returns the hash under which the table stores a key.
    #[inline]
    fn hash(&self, key: &K) -> TableHash {
        hash_with(&self.hasher, key)
    }

    /// Returns the value of a key.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.table.value_of(key, self.hash(key))
    }

    /// Returns the value of a key, mutably, and records that the flow was seen.
    #[inline]
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.table.lookup_touch(key, self.hash(key), self.now).map(|(_, value, _)| value)
    }

    /// Returns the value of a key, mutably; the flow does not count as seen.
    #[inline]
    pub fn peek_mut(&mut self, key: &K) -> Option<&mut V> {
        let id = self.id_of(key)?;
        self.table.get_mut(id)
    }

    /// Returns whether the map contains a key.
    #[inline]
    pub fn contains_key(&self, key: &K) -> bool {
        self.id_of(key).is_some()
    }

    /// Returns the id of a key's flow, which stays valid until the flow is removed or
    /// [moved](FlowMap::compact).
    #[inline]
    pub fn id_of(&self, key: &K) -> Option<FlowId> {
        self.table.lookup(key, self.hash(key))
    }

    /// Inserts a value under a key and returns the previous value. The flow is in timeout class 0.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] with the value if the map has its maximum number of flows, or memory is
    /// insufficient.
    ///
    /// # Panics
    ///
    /// Never.
    #[inline(always)]
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>, Refused<V>> {
        let hash = self.hash(&key);
        match self.table.enter_at_once(&key, hash, TimeoutClass(0), self.now, move || value) {
            Ok(_) => Ok(None),
            Err(make) => self.insert_closely(key, hash, make()),
        }
    }

    /// Inserts a value in the cases that need a full search.
    #[inline(never)]
    fn insert_closely(&mut self, key: K, hash: TableHash, value: V) -> Result<Option<V>, Refused<V>> {
        let mut value = Some(value);
        let make = || value.take().expect("`make` is called once");
        match (self.table.entry_with(key, hash, TimeoutClass(0), self.now, make), value) {
            (Ok(_), None) => Ok(None),
            (Ok(entry), Some(value)) => Ok(self.replace(entry.id, value)),
            (Err(full), value) => Err(full.with_value(value)),
        }
    }

    /// Replaces the value of a flow and resets its class and time.
    fn replace(&mut self, id: FlowId, value: V) -> Option<V> {
        let (old, _) = self.table.get_mut_touch(id, self.now)?;
        let old = core::mem::replace(old, value);
        self.table.set_class(id, TimeoutClass(0));
        Some(old)
    }

    /// Inserts a value unless the key has one. Returns the value of the key, and `None` if this
    /// call inserted it, or else the value that was not inserted. The flow counts as seen.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] in the cases in which [`insert`](FlowMap::insert) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let mut names = FlowMap::new();
    /// assert_eq!(names.try_insert(7, "first")?, (&mut "first", None));
    /// assert_eq!(names.try_insert(7, "second")?, (&mut "first", Some("second")));
    /// # Ok::<(), flowloom_flow_table::Full>(())
    /// ```
    pub fn try_insert(&mut self, key: K, value: V) -> Result<(&mut V, Option<V>), Refused<V>> {
        match self.entry(key) {
            Entry::Occupied(entry) => Ok((entry.into_mut(), Some(value))),
            Entry::Vacant(entry) => Ok((entry.insert(value)?, None)),
        }
    }

    /// Returns the value of a key, creating it if it is missing: find-or-insert in one lookup, for
    /// the packet path.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] in the cases in which [`insert`](FlowMap::insert) refuses a value.
    ///
    /// # Panics
    ///
    /// Never.
    #[inline(always)]
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> Result<&mut V, Full> {
        let hash = self.hash(&key);
        match self.table.find_at_home(&key, hash) {
            Some(id) => Ok(self.table.newest_seen(id, self.now).expect("its flow was just found")),
            None => self.get_or_insert_elsewhere(key, hash, make),
        }
    }

    /// Does the same for a key that is not in its home line.
    ///
    /// The key is passed by value, so that the caller keeps its own copy in registers.
    #[inline(never)]
    fn get_or_insert_elsewhere(
        &mut self,
        key: K,
        hash: TableHash,
        make: impl FnOnce() -> V,
    ) -> Result<&mut V, Full> {
        let Self { table, now, .. } = self;
        match table.lookup(&key, hash) {
            Some(id) => Ok(OccupiedEntry { table, id, now: *now }.into_mut()),
            None => VacantEntry { table, key, hash, now: *now, class: TimeoutClass(0) }.insert_with(make),
        }
    }

    /// Returns the value of a key, creating it if it is missing. If the map is full, it evicts the
    /// flow that `policy` ranks highest among a few.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if the policy keeps all of them.
    ///
    /// # Panics
    ///
    /// Never.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// use flowloom_flow_table::evict::UnestablishedFirst;
    /// let mut flows = FlowMap::builder().max_flows(2).build()?;
    /// let mut policy = UnestablishedFirst::new(|established: &bool| *established);
    /// for (key, established) in [(1_u32, true), (2, false), (3, false)] {
    ///     flows.get_or_evict_with(key, || established, &mut policy)?;
    /// }
    /// assert!(flows.contains_key(&1) && !flows.contains_key(&2) && flows.contains_key(&3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn get_or_evict_with(
        &mut self,
        key: K,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<&mut V, Full> {
        match self.entry(key) {
            Entry::Occupied(entry) => Ok(entry.into_mut()),
            Entry::Vacant(entry) => entry.insert_or_evict_with(make, policy),
        }
    }

    /// Returns the values of several keys, mutably, and records that their flows were seen.
    ///
    /// # Panics
    ///
    /// Panics if two keys are equal and have a flow.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let mut map = FlowMap::<_, _>::from([(1, "a"), (2, "b")]);
    /// if let [Some(first), Some(second), None] = map.get_disjoint_mut([&1, &2, &3]) {
    ///     core::mem::swap(first, second);
    /// }
    /// assert_eq!((map[&1], map[&2]), ("b", "a"));
    /// ```
    pub fn get_disjoint_mut<const N: usize>(&mut self, keys: [&K; N]) -> [Option<&mut V>; N] {
        let ids = keys.map(|key| self.id_of(key));
        self.table.disjoint_seen(ids, self.now)
    }

    /// Returns the entry of a key, which may have a flow or not.
    #[inline(always)]
    pub fn entry(&mut self, key: K) -> Entry<'_, K, V> {
        let hash = self.hash(&key);
        let Self { table, now, .. } = self;
        match table.lookup(&key, hash) {
            Some(id) => Entry::Occupied(OccupiedEntry { table, id, now: *now }),
            None => Entry::Vacant(VacantEntry { table, key, hash, now: *now, class: TimeoutClass(0) }),
        }
    }

    /// Removes a key and returns its value.
    #[inline]
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let hash = self.hash(key);
        self.table.remove_key(key, hash)
    }

    /// Removes a key and returns the flow.
    #[inline]
    pub fn remove_entry(&mut self, key: &K) -> Option<(K, V)> {
        let id = self.id_of(key)?;
        self.table.remove(id)
    }

    /// Looks up many keys at once, overlapping their memory latencies. Calls `on_flow` with the
    /// index and the value of each key that has a flow, in no particular order.
    ///
    /// At a million flows a batch of 32 takes half the time of single calls, and a batch of 256 a
    /// quarter.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let map: FlowMap<u32, u32> = (0..100).map(|key| (key, key * 2)).collect();
    /// let mut sum = 0;
    /// map.get_batch(&[7, 8, 1000], |_, value| sum += value);
    /// assert_eq!(sum, 30);
    /// ```
    #[inline]
    pub fn get_batch(&self, keys: &[K], mut on_flow: impl FnMut(usize, &V)) {
        let look = |from: usize, keys: &[K], hashes: &[TableHash], ids: &mut [Option<FlowId>]| {
            self.table.lookup_batch_prefetched(keys, hashes, ids, |i, value| on_flow(from + i, value));
        };
        // To clear arrays that a short batch does not fill would take a sixth of its time.
        if keys.len() <= FEW_AHEAD {
            self.in_chunks::<FEW_AHEAD>(keys, look);
        } else {
            self.in_chunks::<AHEAD>(keys, look);
        }
    }

    /// Looks up many keys at once and records that their flows were seen. Calls `on_flow` in order
    /// with the index and the value of each key that has a flow.
    #[inline]
    pub fn get_batch_mut(&mut self, keys: &[K], mut on_flow: impl FnMut(usize, &mut V)) {
        for (number, chunk) in keys.chunks(AHEAD).enumerate() {
            let mut found = [None; AHEAD];
            let found = &mut found[..chunk.len()];
            self.in_chunks::<AHEAD>(chunk, |_, keys, hashes, ids| {
                self.table.lookup_batch_prefetched(keys, hashes, ids, |_, _| {});
                found.copy_from_slice(ids);
            });
            for (index, id) in (number * AHEAD..).zip(found) {
                if let Some((value, _)) = id.and_then(|id| self.table.get_mut_touch(id, self.now)) {
                    on_flow(index, value);
                }
            }
        }
    }

    /// Calls `look` with up to `COUNT` keys and their hashes, whose lines are being prefetched.
    #[inline]
    fn in_chunks<const COUNT: usize>(
        &self,
        keys: &[K],
        mut look: impl FnMut(usize, &[K], &[TableHash], &mut [Option<FlowId>]),
    ) {
        let (mut hashes, mut ids) = ([TableHash::default(); COUNT], [None; COUNT]);
        for (number, keys) in keys.chunks(COUNT).enumerate() {
            let hashes = &mut hashes[..keys.len()];
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
                self.table.prefetch(*hash);
            }
            look(number * COUNT, keys, hashes, &mut ids[..keys.len()]);
        }
    }

    /// Moves at most `budget` flows into one segment, so that lookups become as fast as possible
    /// and older segments free their memory. `on_move` receives the old and the new id of each
    /// flow.
    ///
    /// Call it from time to time while [`Drained::more`]. Do not call it if you store ids and
    /// cannot change them. A call that finds the newest segment too small for all flows opens a
    /// larger one.
    pub fn compact(&mut self, budget: u32, on_move: impl FnMut(FlowId, FlowId)) -> Drained {
        let Self { table, hasher, .. } = self;
        if !table.open_for_all() {
            return Drained::default();
        }
        table.drain_oldest(budget, |key| hash_with(hasher, key), on_move)
    }

    /// Gives memory back after most flows have ended, by moving the others into a segment of their
    /// number: a bounded `shrink_to_fit`. Moves at most `budget` flows, and `on_move` receives the
    /// old and the new id of each.
    ///
    /// Call it while [`Drained::more`]. Afterwards the map takes at most 1.3 times the memory of a
    /// map built for these flows, or for a thousand if that is more. Do not call it if you store
    /// ids and cannot change them.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let mut map: FlowMap<u32, u32> = (0..100_000).map(|key| (key, key)).collect();
    /// map.retain(|key, _| key % 50 == 0);
    /// let before = map.memory().total_bytes();
    /// while map.shrink(256, |_, _| {}).more {}
    /// assert!(map.memory().total_bytes() < before / 10);
    /// assert_eq!(map.len(), 2000);
    /// ```
    pub fn shrink(&mut self, budget: u32, on_move: impl FnMut(FlowId, FlowId)) -> Drained {
        let Self { table, hasher, .. } = self;
        table.shrink(budget, |key| hash_with(hasher, key), on_move)
    }
}

impl<K: TableKey, V, S> FlowMap<K, V, S> {
    /// Returns the number of flows.
    #[inline]
    pub fn len(&self) -> usize {
        self.table.len() as usize
    }

    /// Returns whether there are no flows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Returns the maximum number of flows of the map.
    pub fn max_flows(&self) -> u32 {
        self.table.capacity()
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the current time in the caller's unit; the initial time is 0.
    pub fn now(&self) -> Tick {
        self.now
    }

    /// Sets the current time, for packets and for [`expire`](FlowMap::expire).
    pub fn set_now(&mut self, now: Tick) {
        self.now = now;
    }

    /// Returns the value of a flow.
    #[inline]
    pub fn get_by_id(&self, id: FlowId) -> Option<&V> {
        self.table.get(id)
    }

    /// Returns the value of a flow, mutably, and records that it was seen.
    #[inline]
    pub fn get_by_id_mut(&mut self, id: FlowId) -> Option<&mut V> {
        self.table.get_mut_touch(id, self.now).map(|(value, _)| value)
    }

    /// Removes a flow.
    pub fn remove_by_id(&mut self, id: FlowId) -> Option<(K, V)> {
        self.table.remove(id)
    }

    /// Returns a flow's key.
    pub fn key_of(&self, id: FlowId) -> Option<K> {
        self.table.key_of(id)
    }

    /// Returns the time at which a flow was last seen.
    pub fn last_seen(&self, id: FlowId) -> Option<Tick> {
        self.table.last_seen(id)
    }

    /// Returns a flow's timeout class.
    pub fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.table.class_of(id)
    }

    /// Moves a flow to another timeout class; the timeout counts from the time at which it was last
    /// seen. Returns whether the flow exists.
    pub fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.table.set_class(id, class)
    }

    /// Removes flows that were not seen for the timeout of their class, and calls `on_flow` with
    /// the former id, the key and the value of each. Examines no more than `budget` flows.
    pub fn expire(&mut self, budget: u32, mut on_flow: impl FnMut(FlowId, K, V)) -> Expired {
        self.table.expire(self.now, budget, &mut on_flow)
    }

    /// Keeps the flows for which `keep` returns true.
    pub fn retain(&mut self, mut keep: impl FnMut(&K, &mut V) -> bool) {
        self.extract_if(|key, value| !keep(key, value)).for_each(drop);
    }

    /// Makes space for a number of further flows, which are then inserted without growth. Ids stay
    /// valid.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if that exceeds the maximum number of flows, or if memory is insufficient;
    /// nothing has changed then.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let mut map = FlowMap::builder().max_flows(100_000).build::<u32, u32>()?;
    /// map.try_reserve(50_000)?;
    /// let memory = map.memory();
    /// map.extend((0..50_000).map(|key| (key, key)));
    /// assert_eq!(map.memory(), memory);
    /// assert!(map.try_reserve(50_001).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_reserve(&mut self, flows: u32) -> Result<(), Full> {
        self.table.try_reserve(flows)
    }

    /// Removes all flows, and frees the memory of all segments but one.
    pub fn clear(&mut self) {
        self.table.clear();
    }

    /// Returns the counters.
    pub fn stats(&self) -> TableStats {
        self.table.stats()
    }

    /// Returns the memory of the map.
    pub fn memory(&self) -> MemoryReport {
        self.table.memory()
    }
}

/// Returns the hash of a key for any hasher; some hashers leave half of the bits empty.
#[inline(always)]
pub(crate) fn hash_with<K: Hash, S: BuildHasher>(hasher: &S, key: &K) -> TableHash {
    TableHash::from_weak(hasher.hash_one(key))
}

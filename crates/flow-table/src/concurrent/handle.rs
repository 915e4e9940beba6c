//! A thread's operations on a [`ConcurrentFlowTable`].

use core::fmt;
use core::hash::{BuildHasher, Hash};
use std::sync::Arc;

use crossbeam_epoch::{Guard, LocalHandle};

use flowloom_flow_key::TableHash;

use super::ConcurrentFlowTable;
use super::limit::Reservation;
use super::node::Node;
use super::shard::{Space, Writer};
use super::sync::Ordering;
use crate::map::hash_with;
use crate::table::{Expired, Full, FullReason, Refused, TableKey, Tick, TimeoutClass};

/// Number of keys that a batch looks up at once.
const AT_ONCE: usize = 32;

/// The id of one flow in one [`ConcurrentFlowTable`]. It is valid from insertion to removal and is
/// never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[must_use]
pub struct ConcurrentFlowId {
    hash: TableHash,
    number: u64,
}

/// A thread's access to a [`ConcurrentFlowTable`]. It stays on its thread, and is dropped before
/// the table and before everything that values borrow.
#[must_use = "a handle does nothing until `pin` is called"]
pub struct Handle<'t, K, V, S> {
    table: &'t ConcurrentFlowTable<K, V, S>,
    local: LocalHandle,
}

impl<'t, K, V, S> Handle<'t, K, V, S> {
    pub(super) fn new(table: &'t ConcurrentFlowTable<K, V, S>) -> Self {
        Self { table, local: table.collector.register() }
    }

    /// Begins a series of reads and writes. Values that other threads remove from now on are not
    /// freed until the result is dropped, so hold it for a batch, not for long.
    #[inline]
    pub fn pin(&self) -> Pinned<'t, K, V, S> {
        Pinned { table: self.table, guard: self.local.pin() }
    }
}

/// A `LocalHandle` owns a part of the collector, and drops retired values if it is the last owner.
/// It has no lifetime, so without this implementation the compiler would accept a handle that is
/// dropped after its table, and after what the values borrow.
impl<K, V, S> Drop for Handle<'_, K, V, S> {
    fn drop(&mut self) {}
}

impl<K, V, S> fmt::Debug for Handle<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("table", self.table).finish_non_exhaustive()
    }
}

/// A thread's access to a [`ConcurrentFlowTable`] that it shares the ownership of, so that a struct
/// can contain both.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
/// use flowloom_flow_table::KeyedState;
/// use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, OwnedHandle};
///
/// struct Worker {
///     flows: OwnedHandle<u32, u32, KeyedState>,
/// }
///
/// let table = Arc::new(ConcurrentFlowTable::try_new(&ConcurrentConfig::for_flows(10))?);
/// let worker = Worker { flows: OwnedHandle::new(table) };
/// worker.flows.pin().insert(7, 443)?;
/// assert_eq!(worker.flows.table().len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a handle does nothing until `pin` is called"]
pub struct OwnedHandle<K, V, S> {
    // Dropped before the table, and with it before everything that values borrow.
    local: LocalHandle,
    table: Arc<ConcurrentFlowTable<K, V, S>>,
}

impl<K, V, S> OwnedHandle<K, V, S> {
    /// Returns a handle for the calling thread. Creating it allocates, so keep it for as long as
    /// the thread uses the table.
    pub fn new(table: Arc<ConcurrentFlowTable<K, V, S>>) -> Self {
        Self { local: table.collector.register(), table }
    }

    /// Does what [`Handle::pin`] does.
    #[inline]
    pub fn pin(&self) -> Pinned<'_, K, V, S> {
        Pinned { table: &self.table, guard: self.local.pin() }
    }

    /// Returns the table.
    pub fn table(&self) -> &Arc<ConcurrentFlowTable<K, V, S>> {
        &self.table
    }
}

impl<K, V, S> fmt::Debug for OwnedHandle<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedHandle").field("table", &self.table).finish_non_exhaustive()
    }
}

/// A flow that was found.
pub struct ConcurrentFlow<'p, K, V>(&'p Node<K, V>);

impl<'p, K: TableKey, V> ConcurrentFlow<'p, K, V> {
    /// Returns its id.
    pub fn id(&self) -> ConcurrentFlowId {
        ConcurrentFlowId { hash: self.0.hash, number: self.0.number }
    }

    /// Returns its key.
    pub fn key(&self) -> K {
        self.0.key
    }

    /// Returns its value.
    pub fn value(&self) -> &'p V {
        &self.0.value
    }

    /// Returns the time at which it was last seen.
    pub fn last_seen(&self) -> Tick {
        self.0.last_seen()
    }

    /// Returns its timeout class.
    pub fn class(&self) -> TimeoutClass {
        self.0.class()
    }

    /// Moves it to another timeout class; the timeout counts from the time at which it was last
    /// seen.
    pub fn set_class(&self, class: TimeoutClass) {
        self.0.set_class(class);
    }
}

impl<K, V> Clone for ConcurrentFlow<'_, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for ConcurrentFlow<'_, K, V> {}

impl<K: TableKey, V> fmt::Debug for ConcurrentFlow<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentFlow").field("key", &self.0.key).field("id", &self.id()).finish()
    }
}

/// The flow of a key, and the value if the key had one before.
type FlowAndRest<'p, K, V> = (ConcurrentFlow<'p, K, V>, Option<V>);

/// A thread's reads and writes; see [`Handle::pin`]. It may outlive its handle, but not the table.
#[must_use = "a pin does nothing unless it is used"]
pub struct Pinned<'t, K, V, S> {
    table: &'t ConcurrentFlowTable<K, V, S>,
    guard: Guard,
}

/// A `Guard` owns a part of the collector as a `LocalHandle` does; see `Handle`.
impl<K, V, S> Drop for Pinned<'_, K, V, S> {
    fn drop(&mut self) {}
}

impl<K, V, S> Pinned<'_, K, V, S>
where
    K: TableKey + Hash + Send + Sync,
    V: Send + Sync,
    S: BuildHasher,
{
    #[inline(always)]
    fn hash(&self, key: &K) -> TableHash {
        hash_with(&self.table.hasher, key)
    }

    #[inline(always)]
    fn node(&self, key: &K, hash: TableHash) -> Option<&Node<K, V>> {
        self.table.shard(hash).find(hash, &self.guard, |node| node.key == *key)
    }

    /// Returns the value of a key. The flow does not count as seen.
    #[inline]
    pub fn get(&self, key: &K) -> Option<&V> {
        self.node(key, self.hash(key)).map(|node| &node.value)
    }

    /// Returns the value of a key, and records that the flow was seen.
    #[inline]
    pub fn touch(&self, key: &K) -> Option<&V> {
        let node = self.node(key, self.hash(key))?;
        node.touch(self.table.now());
        Some(&node.value)
    }

    /// Returns the flow of a key. It does not count as seen.
    #[inline]
    pub fn lookup(&self, key: &K) -> Option<ConcurrentFlow<'_, K, V>> {
        self.node(key, self.hash(key)).map(ConcurrentFlow)
    }

    /// Returns the flow of an id, without hashing or comparing keys.
    #[inline]
    pub fn get_by_id(&self, id: ConcurrentFlowId) -> Option<ConcurrentFlow<'_, K, V>> {
        let shard = self.table.shard(id.hash);
        shard.find(id.hash, &self.guard, |node| node.number == id.number).map(ConcurrentFlow)
    }

    /// Looks up many keys at once, overlapping their memory latencies. Calls `on_flow` in order
    /// with the index and the value of each key that has a flow.
    #[inline]
    pub fn get_batch(&self, keys: &[K], mut on_flow: impl FnMut(usize, &V)) {
        let mut hashes = [TableHash::default(); AT_ONCE];
        let mut nodes = [None; AT_ONCE];
        for (number, keys) in keys.chunks(AT_ONCE).enumerate() {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hash(key);
                self.table.shard(*hash).index(&self.guard).prefetch(*hash);
            }
            for (node, &hash) in nodes.iter_mut().zip(&hashes[..keys.len()]) {
                *node = self.table.shard(hash).index(&self.guard).favourite(hash, &self.guard);
            }
            for (place, key) in keys.iter().enumerate() {
                let node = match nodes[place] {
                    Some(node) if node.key == *key => Some(node),
                    _ => self.node(key, hashes[place]),
                };
                if let Some(node) = node {
                    on_flow(number * AT_ONCE + place, &node.value);
                }
            }
        }
    }

    /// Inserts a value under a key, or replaces the existing value. Returns the flow, whose id
    /// stays the same when its value is replaced.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] with the value if the table has its maximum number of flows, or memory
    /// is insufficient.
    pub fn insert(&self, key: K, value: V) -> Result<ConcurrentFlow<'_, K, V>, Refused<V>> {
        let hash = self.hash(&key);
        let mut writer = self.write(hash);
        if let Some(place) = writer.find(hash, |node| node.key == key) {
            let node = self.new_node(key, hash, place.node().number, value);
            return Ok(ConcurrentFlow(writer.replace(&place, node)));
        }
        match self.space(&mut writer, hash) {
            Ok((space, reserved)) => {
                let node = self.new_node(key, hash, writer.number(), value);
                reserved.keep();
                Ok(ConcurrentFlow(writer.enter(&space, node)))
            }
            Err(reason) => Err(Refused { value, reason }),
        }
    }

    /// Returns the value of a key, creating it if it is missing, and records that the flow was
    /// seen. `make` runs while the shard is locked, so it must not use the table.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] in the cases in which [`insert`](Self::insert) refuses a value; `make` is
    /// not called then.
    pub fn get_or_insert_with(&self, key: K, make: impl FnOnce() -> V) -> Result<&V, Full> {
        let hash = self.hash(&key);
        if let Some(node) = self.node(&key, hash) {
            node.touch(self.table.now());
            return Ok(&node.value);
        }
        let mut writer = self.write(hash);
        if let Some(place) = writer.find(hash, |node| node.key == key) {
            place.node().touch(self.table.now());
            return Ok(&place.node().value);
        }
        let (space, reserved) = self.space(&mut writer, hash).map_err(|reason| Full { reason })?;
        let node = self.new_node(key, hash, writer.number(), make());
        reserved.keep();
        Ok(&writer.enter(&space, node).value)
    }

    /// Inserts a value unless the key has one. Returns the flow of the key, and `None` if this call
    /// inserted it, or else the value that was not inserted. If several threads insert the same key
    /// at once, exactly one succeeds.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`insert`](Self::insert).
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
    /// let names = ConcurrentFlowTable::<u32, String>::try_new(&ConcurrentConfig::for_flows(10))?;
    /// let handle = names.handle();
    /// let pinned = handle.pin();
    /// let (_, left) = pinned.try_insert(7, String::from("first"))?;
    /// assert_eq!(left, None);
    /// let (flow, left) = pinned.try_insert(7, String::from("second"))?;
    /// assert_eq!((flow.value().as_str(), left.as_deref()), ("first", Some("second")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_insert(&self, key: K, value: V) -> Result<FlowAndRest<'_, K, V>, Refused<V>> {
        let hash = self.hash(&key);
        let mut writer = self.write(hash);
        if let Some(place) = writer.find(hash, |node| node.key == key) {
            place.node().touch(self.table.now());
            return Ok((ConcurrentFlow(place.node()), Some(value)));
        }
        match self.space(&mut writer, hash) {
            Ok((space, reserved)) => {
                let node = self.new_node(key, hash, writer.number(), value);
                reserved.keep();
                Ok((ConcurrentFlow(writer.enter(&space, node)), None))
            }
            Err(reason) => Err(Refused { value, reason }),
        }
    }

    /// Locks the shard of a hash.
    #[inline(always)]
    fn write(&self, hash: TableHash) -> Writer<'_, K, V> {
        self.table.shard(hash).write(self.table.lines_min, &self.guard)
    }

    /// Returns space for a new flow, within the maximum number of flows and in its shard.
    #[inline(always)]
    fn space<'p>(
        &'p self,
        writer: &mut Writer<'p, K, V>,
        hash: TableHash,
    ) -> Result<(Space<'p, K, V>, Reservation<'p>), FullReason> {
        let reserved = self.table.limit.reserve().ok_or(FullReason::Capacity);
        let space =
            reserved.and_then(|reserved| Ok((writer.space(hash).ok_or(FullReason::Memory)?, reserved)));
        if space.is_err() {
            writer.refuse();
        }
        space
    }

    #[inline(always)]
    fn new_node(&self, key: K, hash: TableHash, number: u64, value: V) -> Node<K, V> {
        Node::new(key, hash, number, value, TimeoutClass(0), self.table.now())
    }

    /// Removes a key and returns its value, which stays readable for this thread.
    pub fn remove(&self, key: &K) -> Option<&V> {
        self.remove_node(self.hash(key), |node| node.key == *key, |_| true).map(|flow| flow.value())
    }

    /// Removes a key if its value meets a condition, which no other thread can change meanwhile by
    /// replacing the value. Returns the removed value. `condition` runs while the shard is locked,
    /// so it must not use the table.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
    /// let ports = ConcurrentFlowTable::<u32, u16>::try_new(&ConcurrentConfig::for_flows(10))?;
    /// let handle = ports.handle();
    /// let pinned = handle.pin();
    /// pinned.insert(7, 443)?;
    /// assert_eq!(pinned.remove_if(&7, |port| *port == 80), None);
    /// assert_eq!(pinned.remove_if(&7, |port| *port == 443), Some(&443));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_if(&self, key: &K, condition: impl FnOnce(&V) -> bool) -> Option<&V> {
        let condition = |node: &Node<K, V>| condition(&node.value);
        self.remove_node(self.hash(key), |node| node.key == *key, condition).map(|flow| flow.value())
    }

    /// Removes a flow.
    pub fn remove_by_id(&self, id: ConcurrentFlowId) -> Option<ConcurrentFlow<'_, K, V>> {
        self.remove_node(id.hash, |node| node.number == id.number, |_| true)
    }

    fn remove_node(
        &self,
        hash: TableHash,
        is_wanted: impl Fn(&Node<K, V>) -> bool,
        condition: impl FnOnce(&Node<K, V>) -> bool,
    ) -> Option<ConcurrentFlow<'_, K, V>> {
        let mut writer = self.write(hash);
        let place = writer.find(hash, is_wanted)?;
        if !condition(place.node()) {
            return None;
        }
        writer.leave(&place);
        self.table.limit.give_back(1);
        Some(ConcurrentFlow(place.node()))
    }

    /// Removes flows that were not seen for the timeout of their class, and calls `on_flow` with
    /// each. Examines about `budget` flows, from where the last call of any thread ended, and locks
    /// one shard at a time; `on_flow` may use the table.
    ///
    /// [`Expired::more`] says that the walk over the table has not reached its end; the next call
    /// after that begins a new walk. A flow may be removed although a reader [touches](Self::touch)
    /// it at the same moment.
    ///
    /// If `on_flow` panics, it does not see the other flows that were removed from the same shard
    /// by this call.
    pub fn expire(&self, budget: u32, mut on_flow: impl FnMut(ConcurrentFlow<'_, K, V>)) -> Expired {
        let (now, timeouts) = (self.table.now(), &self.table.timeouts);
        let is_due = |node: &Node<K, V>| {
            timeouts.deadline(node.class(), node.last_seen()).is_some_and(|deadline| deadline <= now)
        };
        let (mut outcome, mut removed) = (Expired { more: true, ..Expired::default() }, Vec::new());
        while outcome.more && outcome.examined < budget {
            let hand = self.table.hand.load(Ordering::Relaxed);
            let left = (budget - outcome.examined) as usize;
            let mut writer = self.table.shards[hand].write(self.table.lines_min, &self.guard);
            let (looked_at, is_end) = writer.age(left, is_due, &mut removed);
            drop(writer);
            outcome.examined =
                outcome.examined.saturating_add(u32::try_from(looked_at).unwrap_or(u32::MAX));
            if is_end {
                // Two threads that expire flows at once may both examine a shard.
                outcome.more = hand + 1 < self.table.shards.len();
                self.table.hand.store(if outcome.more { hand + 1 } else { 0 }, Ordering::Relaxed);
            }
            self.table.limit.give_back(removed.len());
            outcome.removed += u32::try_from(removed.len()).unwrap_or(u32::MAX);
            for node in removed.drain(..) {
                on_flow(ConcurrentFlow(node));
            }
        }
        outcome
    }

    /// Calls `on_flow` with each flow. It visits every flow that stays in the table exactly once;
    /// `on_flow` may use the table.
    pub fn for_each(&self, mut on_flow: impl FnMut(ConcurrentFlow<'_, K, V>)) {
        for shard in &self.table.shards {
            let nodes = shard.write(self.table.lines_min, &self.guard).nodes();
            for node in nodes {
                on_flow(ConcurrentFlow(node));
            }
        }
    }

    /// Keeps the flows for which `keep` returns true. It is called once with every flow that stays
    /// in the table meanwhile, and may use the table. A flow whose value another thread replaces
    /// after `keep` has seen it stays.
    pub fn retain(&self, mut keep: impl FnMut(ConcurrentFlow<'_, K, V>) -> bool) {
        self.for_each(|flow| {
            if !keep(flow) {
                self.remove_node(flow.0.hash, |node| core::ptr::eq(node, flow.0), |_| true);
            }
        });
    }

    /// Removes all flows. It locks one shard at a time, so flows that other threads insert
    /// meanwhile may stay.
    pub fn clear(&self) {
        for shard in &self.table.shards {
            let removed = shard.write(self.table.lines_min, &self.guard).leave_all();
            self.table.limit.give_back(removed);
        }
    }

    /// Releases everything that was read, and pins again, so that values removed by other threads
    /// can be freed.
    pub fn repin(&mut self) {
        self.guard.repin();
    }

    /// Hands all values that this thread removed to the collector, which otherwise waits until
    /// there are several. Useful before a thread that has written goes to sleep.
    pub fn flush(&self) {
        self.guard.flush();
    }
}

impl<K, V, S> fmt::Debug for Pinned<'_, K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pinned").field("table", self.table).finish_non_exhaustive()
    }
}

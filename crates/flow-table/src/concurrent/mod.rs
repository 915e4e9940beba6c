//! [`ConcurrentFlowTable`]: lookups from any thread, without locks.
//!
//! ```text
//!  hash ──▶ shard ──▶ index: 7 signatures and links a line ──▶ node: key, time, value
//!           lock of its writers                                on the heap, never moved
//! ```
//!
//! * A lookup takes no lock and never waits: it reads a line of its shard's index and the node of
//!   the flow. A write takes the lock of its shard.
//! * A node stays at its address until its flow is removed, even if the table grows or shrinks. It
//!   is freed when no thread can use it any more (`docs/adr/0020-readers-without-locks.md` of the
//!   repository).
//! * An index grows or shrinks by a few lines with every operation that takes the lock, whether it
//!   changes the table or not. The most expensive step of an operation allocates one index; in a
//!   table [built for](ConcurrentConfig) its number of flows, this index covers a few thousand
//!   flows.

#[cfg(doctest)]
mod drop_orders;
mod handle;
mod index;
mod limit;
mod link;
mod load;
mod node;
mod shard;
mod steps;
mod sync;

pub use handle::{ConcurrentFlow, ConcurrentFlowId, Handle, OwnedHandle, Pinned};

use core::fmt;
use core::hash::{BuildHasher, Hash};

use crossbeam_epoch::Collector;
use flowloom_flow_key::{KeyedState, TableHash};

use crate::error::BuildError;
use crate::options::TableOptions;
use crate::state::Timeouts;
use crate::table::{MemoryReport, TableKey, TableStats, Tick};
use index::LANES;
use limit::Limit;
use node::Node;
use shard::Shard;
use sync::{AtomicU64, AtomicUsize, Ordering};

/// Flows per shard in a table built for many flows.
const FLOWS_PER_SHARD: usize = 4096;

/// Maximum number of shards. It uses all bits of a hash between signature and line.
const SHARDS_MAX: usize = 1 << 16;

/// Parameters of a [`ConcurrentFlowTable`]: start with [`for_flows`](Self::for_flows) and change
/// fields as needed.
///
/// Fields may be added in any version: a literal ends with `..ConcurrentConfig::for_flows(n)`.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrentConfig {
    /// The number of flows for which the table initially has space, and below which it never
    /// shrinks.
    pub flows: u32,
    /// Maximum number of flows; further ones are refused as [`Full`](crate::Full).
    pub max_flows: u32,
    /// Number of shards, each with a lock: a power of two up to 2¹⁶; `None` for 64, or one per
    /// 4,096 flows if that is more. More shards reduce contention between writers, and make the
    /// steps of growth smaller.
    pub shards: Option<u32>,
    /// Maximum idle time of flows.
    pub timeouts: Timeouts,
}

impl ConcurrentConfig {
    /// Returns the configuration for an expected number of flows: no timeouts, and a maximum of 2³⁰
    /// flows.
    #[must_use]
    pub const fn for_flows(flows: u32) -> Self {
        Self { flows, max_flows: TableOptions::FLOWS_MAX, shards: None, timeouts: Timeouts::NEVER }
    }

    /// Returns the number of flows for which the table initially has space.
    fn first_flows(&self) -> usize {
        self.flows.min(self.max_flows) as usize
    }

    fn shard_count(&self) -> usize {
        match self.shards {
            Some(shards) => shards as usize,
            None => (self.first_flows() / FLOWS_PER_SHARD).next_power_of_two().clamp(64, SHARDS_MAX),
        }
    }
}

/// A table of flows that many threads read while some write.
///
/// Each thread takes a [`Handle`] and [pins](Handle::pin) it for a batch of packets; references to
/// values are valid while it is pinned. Threads share values, so state that packets change consists
/// of atomics, has its own lock, or is replaced with [`insert`](Pinned::insert). Keys and values
/// are `Send + Sync`, `Arc` included. A value is dropped some time after the removal of its flow,
/// on any thread that has a handle, never under the lock of a shard, and at the latest with the
/// table. It may therefore borrow what outlives the table. If a handle or a pin is leaked, removed
/// values may be leaked with it; they are never dropped later. If the drop of a value panics, some
/// other removed values may be leaked.
///
/// Writers use the same handle as readers. Sharding spreads writers over locks, so several can
/// write at once, and a single writer never waits.
///
/// # Examples
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use flowloom_flow_key::FiveTuple;
/// use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
///
/// let flows = ConcurrentFlowTable::try_new(&ConcurrentConfig::for_flows(1000))?;
/// let tuple = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 40_000, 443, 6);
/// flows.handle().pin().insert(tuple, AtomicU64::new(0))?;
/// std::thread::scope(|scope| {
///     for _ in 0..2 {
///         scope.spawn(|| {
///             let handle = flows.handle();
///             for _burst in 0..10 {
///                 let pinned = handle.pin();
///                 let packets = pinned.get(&tuple).expect("it was inserted");
///                 packets.fetch_add(32, Ordering::Relaxed);
///             }
///         });
///     }
/// });
/// let handle = flows.handle();
/// let pinned = handle.pin();
/// let packets = pinned.remove(&tuple).expect("it was inserted");
/// assert_eq!(packets.load(Ordering::Relaxed), 640);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ConcurrentFlowTable<K, V, S = KeyedState> {
    // Dropped before the collector, which then frees the retired values.
    shards: Box<[Shard<K, V>]>,
    collector: Collector,
    hasher: S,
    lines_min: usize,
    max_flows: u32,
    limit: Limit,
    timeouts: Timeouts,
    now: AtomicU64,
    /// The shard at which expiry continues.
    hand: AtomicUsize,
}

impl<K, V> ConcurrentFlowTable<K, V>
where
    K: TableKey + Hash + Send + Sync,
    V: Send + Sync,
{
    /// Returns an empty table with a secret drawn from the operating system.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the maximum is 0, if it or the expected number of flows is above
    /// 2³⁰, if the number of shards is not a power of two, or if memory is insufficient.
    #[cfg(not(target_os = "unknown"))]
    pub fn try_new(config: &ConcurrentConfig) -> Result<Self, BuildError> {
        Self::try_with_hasher(config, KeyedState::random())
    }
}

impl<K, V, S> ConcurrentFlowTable<K, V, S>
where
    K: TableKey + Hash + Send + Sync,
    V: Send + Sync,
    S: BuildHasher,
{
    /// Returns an empty table with this hasher. If untrusted parties choose the keys, the hasher
    /// must be keyed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`try_new`](Self::try_new).
    pub fn try_with_hasher(config: &ConcurrentConfig, hasher: S) -> Result<Self, BuildError> {
        let shards = config.shard_count();
        if config.max_flows == 0 {
            return Err(BuildError::NoCapacity);
        }
        let flows = config.flows.max(config.max_flows);
        if flows > TableOptions::FLOWS_MAX {
            let (flows, flows_max) = (flows.into(), TableOptions::FLOWS_MAX.into());
            return Err(BuildError::TooManyFlows { flows, flows_max });
        }
        if !shards.is_power_of_two() || shards > SHARDS_MAX {
            return Err(BuildError::InvalidShards { shards: shards as u64, shards_max: SHARDS_MAX as u64 });
        }
        // Five of seven entries are in use when the table has its expected number of flows; the
        // load of shards varies by chance.
        let lines_min = (config.first_flows() / shards).div_ceil(LANES - 2).max(1);
        let max = (config.max_flows < TableOptions::FLOWS_MAX).then_some(config.max_flows as usize);
        Ok(Self {
            shards: (0..shards).map(|_| Shard::try_new(lines_min)).collect::<Result<_, _>>()?,
            collector: Collector::new(),
            hasher,
            lines_min,
            max_flows: config.max_flows,
            limit: Limit::new(max),
            timeouts: config.timeouts,
            now: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
        })
    }

    /// Returns a thread's access to the table. Creating a handle allocates, so keep it for as long
    /// as the thread uses the table. An [`OwnedHandle`] may be stored beside its table.
    pub fn handle(&self) -> Handle<'_, K, V, S> {
        Handle::new(self)
    }
}

impl<K, V, S> ConcurrentFlowTable<K, V, S> {
    /// Returns the number of flows. While other threads write, each shard is counted at a different
    /// moment.
    pub fn len(&self) -> usize {
        self.shards.iter().map(Shard::len).sum()
    }

    /// Returns whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of flows that the table takes without a larger index, if they are spread
    /// over its shards as its flows are expected to be. It grows and shrinks with the table.
    pub fn capacity(&self) -> usize {
        let guard = self.collector.register().pin();
        self.shards.iter().map(|shard| shard.capacity(&guard)).sum()
    }

    /// Returns the maximum number of flows of the table.
    pub fn max_flows(&self) -> u32 {
        self.max_flows
    }

    /// Returns the current time in the caller's unit; the initial time is 0.
    pub fn now(&self) -> Tick {
        Tick(self.now.load(Ordering::Relaxed))
    }

    /// Sets the current time for all threads. Call it once per tick, not once per packet.
    pub fn set_now(&self, now: Tick) {
        self.now.store(now.0, Ordering::Relaxed);
    }

    /// Returns the hasher.
    pub fn hasher(&self) -> &S {
        &self.hasher
    }

    /// Returns the counters: [`segments`](TableStats::segments) is the number of shards, and those
    /// of eviction and lists are 0. It locks one shard at a time, so the counters of different
    /// shards are from different moments.
    pub fn stats(&self) -> TableStats {
        self.shards.iter().map(Shard::stats).fold(TableStats::default(), TableStats::and)
    }

    /// Returns the bytes of indexes and nodes, without the allocator's overhead and without values
    /// that wait to be freed.
    pub fn memory(&self) -> MemoryReport {
        let guard = self.collector.register().pin();
        MemoryReport {
            index_bytes: self.shards.iter().map(|shard| shard.index_bytes(&guard)).sum(),
            state_bytes: (self.len() * size_of::<Node<K, V>>()) as u64,
            ..MemoryReport::default()
        }
    }

    /// Returns the shard of a hash.
    #[inline(always)]
    fn shard(&self, hash: TableHash) -> &Shard<K, V> {
        let number = (hash.bits() >> 8) as usize & (self.shards.len() - 1);
        &self.shards[number]
    }
}

impl<K, V, S> fmt::Debug for ConcurrentFlowTable<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConcurrentFlowTable")
            .field("flows", &self.len())
            .field("shards", &self.shards.len())
            .finish_non_exhaustive()
    }
}

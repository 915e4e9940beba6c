//! Eviction: which flow a full table removes for a new one.
//!
//! A full table refuses new flows unless the caller passes a policy. With a policy, the table shows
//! the policy a bounded number of flows whose removal would free a slot, and evicts the flow with
//! the highest rank. A flow without a rank always stays.
//!
//! The flows of the new flow's own bucket come first, at most 32. If the policy keeps all of them,
//! further ones follow, up to [`WINDOW`] in all: with [`LineHash`](crate::LineHash) those of the
//! two alternate lines of the new flow; with the other tables those of its bucket's list, and then
//! any flow if the pool has no state left. A flood of first packets thus costs one line per flow of
//! one bucket while any of these may be evicted. If nine in ten flows are established, the tenth is
//! found. If no flow may be evicted, each refusal costs the whole search. With 10,000 flows it
//! examines 60 flows with `DHash`, where the own bucket has 10; 67 with
//! [`LineHash`](crate::LineHash), where it has 22; and 78 with `SigHash`, where
//! it has one or none.

use crate::flow::Flow;
use crate::flow_id::FlowId;
use crate::table_key::TableKey;

/// Maximum number of slots that one eviction examines: the home line of a
/// [`LineHash`](crate::LineHash) and both its alternates. A table that [grows](crate::Growing)
/// examines as many in each segment.
pub const WINDOW: u32 = 96;

/// The table always examines this many, and the others only if none of these may be evicted.
pub(crate) const NEAR: u32 = 32;

/// Decides which flow a full table evicts.
///
/// # Examples
///
/// A policy that evicts the flow with the longest idle time, and returns its value:
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::evict::Evict;
/// use flowloom_flow_table::{Flow, FlowId, FlowTable};
/// use flowloom_flow_table::{LineHash, TableOptions, Tick, TimeoutClass};
///
/// struct LongestIdle {
///     free_ports: Vec<u16>,
/// }
///
/// impl Evict<u64, u16> for LongestIdle {
///     fn rank(&mut self, candidate: &Flow<'_, u64, u16>) -> Option<u64> {
///         Some(u64::MAX - candidate.last_seen.0)
///     }
///
///     fn evicted(&mut self, _id: FlowId, _key: u64, port: u16) {
///         self.free_ports.push(port);
///     }
/// }
///
/// let mut policy = LongestIdle { free_ports: vec![] };
/// let mut table = LineHash::<u64, u16>::try_new(&TableOptions::for_flows(2))?;
/// for (key, port) in [(1, 5001), (2, 5002), (3, 5003)] {
///     let hash = TableHash::from_weak(key);
///     table.entry_or_evict(key, hash, TimeoutClass(0), Tick(key), || port, &mut policy)?;
/// }
/// assert_eq!(policy.free_ports, [5001]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Evict<K, V> {
    /// Whether the policy ever evicts a flow. If not, the table examines no candidates.
    const ACTIVE: bool = true;

    /// Returns the rank of a flow whose removal would free a slot; the table evicts the flow with
    /// the highest rank. `None` keeps it.
    fn rank(&mut self, candidate: &Flow<'_, K, V>) -> Option<u64>;

    /// Called with each evicted flow and its value.
    fn evicted(&mut self, id: FlowId, key: K, value: V) {
        let _ = (id, key, value);
    }
}

/// Evicts no flow: a full table refuses new flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Refuse;

impl<K, V> Evict<K, V> for Refuse {
    const ACTIVE: bool = false;

    fn rank(&mut self, _candidate: &Flow<'_, K, V>) -> Option<u64> {
        None
    }
}

/// Evicts the flow with the longest idle time among those that are not established, and never an
/// established one.
///
/// It keeps a table usable under a flood of first packets, which evict each other. To be notified
/// of each evicted flow, implement [`Evict`] yourself.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::TableHash;
/// use flowloom_flow_table::evict::UnestablishedFirst;
/// use flowloom_flow_table::{FlowTable, LineHash, TableOptions, Tick, TimeoutClass};
///
/// let mut table = LineHash::<u64, bool>::try_new(&TableOptions::for_flows(2))?;
/// table.insert(1, TableHash::from_weak(1), true, TimeoutClass(0), Tick(0))?;
/// table.insert(2, TableHash::from_weak(2), false, TimeoutClass(0), Tick(0))?;
/// let mut policy = UnestablishedFirst::new(|established: &bool| *established);
/// let hash = TableHash::from_weak;
/// let entry =
///     table.entry_or_evict(3, hash(3), TimeoutClass(0), Tick(1), || false, &mut policy)?;
/// assert!(entry.is_new);
/// assert!(table.lookup(&1, hash(1)).is_some() && table.lookup(&2, hash(2)).is_none());
/// assert_eq!(policy.count(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct UnestablishedFirst<F> {
    is_established: F,
    count: u64,
}

impl<F> UnestablishedFirst<F> {
    /// Returns the policy; `is_established` examines the value of a flow.
    pub fn new(is_established: F) -> Self {
        Self { is_established, count: 0 }
    }

    /// Returns how many flows it evicted.
    pub fn count(&self) -> u64 {
        self.count
    }
}

impl<K: TableKey, V, F: FnMut(&V) -> bool> Evict<K, V> for UnestablishedFirst<F> {
    fn rank(&mut self, candidate: &Flow<'_, K, V>) -> Option<u64> {
        (!(self.is_established)(candidate.value)).then_some(u64::MAX - candidate.last_seen.0)
    }

    fn evicted(&mut self, _id: FlowId, _key: K, _value: V) {
        self.count += 1;
    }
}

//! Eviction from segments.

use core::marker::PhantomData;

use flowloom_flow_key::TableHash;

use super::places::Names;
use super::{Growing, Segment};
use crate::evict::Evict;
use crate::table::{Flow, FlowId, FlowTable, TableKey};

/// A policy that converts ids of a segment to those of the whole table.
struct Renamed<'a, K, V, P> {
    policy: &'a mut P,
    names: Names,
    flow: PhantomData<fn(K, V)>,
}

impl<K: TableKey, V, P: Evict<K, V>> Evict<K, V> for Renamed<'_, K, V, P> {
    const ACTIVE: bool = P::ACTIVE;

    fn rank(&mut self, candidate: &Flow<'_, K, V>) -> Option<u64> {
        self.policy.rank(&Flow { id: self.names.outer(candidate.id), ..*candidate })
    }

    fn evicted(&mut self, id: FlowId, key: K, value: V) {
        let id = self.names.outer(id);
        self.policy.evicted(id, key, value);
    }
}

impl<K: TableKey, V, T: FlowTable<K, V>> Growing<K, V, T> {
    /// Evicts a rival of a new flow, from the youngest segment in which the policy allows it, and
    /// returns how many segments are younger than that one.
    pub(super) fn evict_for(&mut self, hash: TableHash, policy: &mut impl Evict<K, V>) -> Option<usize> {
        self.all_mut().position(|segment| segment.evict(hash, policy))
    }
}

impl<T> Segment<T> {
    /// Evicts a flow; the policy receives its id in the whole table.
    pub(super) fn evict<K: TableKey, V>(&mut self, hash: TableHash, policy: &mut impl Evict<K, V>) -> bool
    where
        T: FlowTable<K, V>,
    {
        self.table.evict(hash, &mut Renamed { policy, names: self.names, flow: PhantomData })
    }
}

//! A flow as a table shows it.

use crate::flow_id::FlowId;
use crate::tick::Tick;

/// A flow of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Flow<'a, K, V> {
    /// Its id.
    pub id: FlowId,
    /// Its key.
    pub key: &'a K,
    /// Its value.
    pub value: &'a V,
    /// The time at which it was last seen.
    pub last_seen: Tick,
}

impl<'a, K, V> Flow<'a, K, V> {
    /// Returns a flow, for your own tables and for tests of a policy.
    pub const fn new(id: FlowId, key: &'a K, value: &'a V, last_seen: Tick) -> Self {
        Self { id, key, value, last_seen }
    }
}

//! Access to the flows of all segments by reference, for segments of [`LineHash`].

use core::slice;

use flowloom_flow_key::TableHash;

use super::{Growing, Segment};
use crate::error::BuildError;
use crate::indexed::Indexed;
use crate::linehash::{self, LineHash};
use crate::table::{FlowId, FlowTable, TableKey, Tick, TimeoutClass};

impl<K, V, F> Growing<K, V, LineHash<K, V>, F>
where
    K: TableKey,
    F: FnMut(u32) -> Result<LineHash<K, V>, BuildError>,
{
    /// Returns the value of a key without the id, whose conversion would take a tenth of the time
    /// of a lookup.
    #[inline(always)]
    pub(crate) fn value_of(&self, key: &K, hash: TableHash) -> Option<&V> {
        match self.newest.table.find_value(key, hash) {
            Some((_, value)) => Some(value),
            None if self.older.is_empty() => None,
            None => self.get(self.lookup_older(key, hash)?),
        }
    }

    /// Returns the value of a key, mutably, and records that the flow was seen.
    #[inline(always)]
    pub(crate) fn value_seen(&mut self, key: &K, hash: TableHash, now: Tick) -> Option<&mut V> {
        if self.older.is_empty() {
            return self.newest.table.find_touch(key, hash, now).map(|(_, value, _)| value);
        }
        self.lookup_touch(key, hash, now).map(|(_, value, _)| value)
    }

    /// Inserts a new flow if there is one segment, which can tell at once that the flow is missing
    /// and that there is space. Returns its id within that segment, for
    /// [`outer`](Self::outer): few callers need it.
    ///
    /// # Errors
    ///
    /// Returns `make` uncalled if the insertion needs a full search.
    #[inline(always)]
    pub(crate) fn enter_at_once<M: FnOnce() -> V>(
        &mut self,
        key: &K,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: M,
    ) -> Result<FlowId, M> {
        if !self.older.is_empty() {
            return Err(make);
        }
        self.newest.table.enter_at_once(key, hash, class, now, make)
    }

    /// Returns the id in the whole table of a flow in the newest segment.
    #[inline(always)]
    pub(crate) fn outer(&self, id: FlowId) -> FlowId {
        self.newest.names.outer(id)
    }

    /// Returns a flow's key and value.
    #[inline]
    pub(crate) fn flow(&self, id: FlowId) -> Option<(&K, &V)> {
        let (segment, id) = self.segment(id)?;
        segment.table.states().flow(id)
    }

    /// Returns all flows, mutably.
    pub(crate) fn flows_mut(&mut self) -> FlowsMut<'_, K, V> {
        FlowsMut { older: self.older.iter_mut(), flows: self.newest.table.flows_mut() }
    }
}

/// All flows, with mutable values.
pub(crate) struct FlowsMut<'a, K, V> {
    older: slice::IterMut<'a, Segment<K, LineHash<K, V>>>,
    flows: linehash::FlowsMut<'a, K, V>,
}

impl<'a, K: TableKey, V> Iterator for FlowsMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(flow) = self.flows.next() {
                return Some(flow);
            }
            self.flows = self.older.next()?.table.flows_mut();
        }
    }
}

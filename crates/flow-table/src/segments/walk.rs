//! Access to the flows of all segments by reference, for segments of [`LineHash`].

use core::{array, slice};

use flowloom_flow_key::TableHash;

use super::places::Names;
use super::{Growing, Segment};
use crate::indexed::Indexed;
use crate::linehash::{self, LineHash};
use crate::state::slab::State;
use crate::table::{FlowId, FlowTable, TableKey, Tick, TimeoutClass};

impl<K: TableKey, V> Growing<K, V, LineHash<K, V>> {
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

    /// Returns the flow of a key in its home line of the newest segment, by its id within that
    /// segment.
    #[inline(always)]
    pub(crate) fn find_at_home(&self, key: &K, hash: TableHash) -> Option<FlowId> {
        self.newest.table.find_at_home(key, hash)
    }

    /// Returns the value of a flow that has this id within the newest segment, mutably, and records
    /// that it was seen.
    #[inline(always)]
    pub(crate) fn newest_seen(&mut self, id: FlowId, now: Tick) -> Option<&mut V> {
        self.newest.table.states_mut().get_mut_touch(id, now).map(|(value, _)| value)
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

    /// Returns all flows, the newest segment first.
    pub(crate) fn flows(&self) -> Flows<'_, K, V> {
        let Segment { table, names, .. } = &self.newest;
        Flows { older: self.older.iter(), current: table.flows(), names: *names }
    }

    /// Returns the values of several flows, mutably, and records that they were seen.
    ///
    /// # Panics
    ///
    /// Panics if an id occurs twice.
    pub(crate) fn disjoint_seen<const N: usize>(
        &mut self,
        ids: [Option<FlowId>; N],
        now: Tick,
    ) -> [Option<&mut V>; N] {
        // A walk over states goes upwards.
        let mut order: [usize; N] = array::from_fn(|number| number);
        order.sort_unstable_by_key(|&number| ids[number]);
        let is_twice = |two: &[usize]| ids[two[0]].is_some() && ids[two[0]] == ids[two[1]];
        assert!(!order.windows(2).any(is_twice), "two of the keys are equal");
        let mut values = [const { None }; N];
        for Segment { table, names, .. } in self.all_mut() {
            let mut states = table.states_mut().walk_mut();
            for number in order {
                let id = ids[number].filter(|id| names.holds(*id));
                if let Some(id) = id.and_then(|id| names.inner(id)) {
                    values[number] = states.take_seen(id.slot(), now);
                }
            }
        }
        values
    }

    /// Returns all flows, mutably.
    pub(crate) fn flows_mut(&mut self) -> FlowsMut<'_, K, V> {
        FlowsMut { older: self.older.iter_mut(), flows: self.newest.table.flows_mut() }
    }
}

/// A flow of a segment.
pub(crate) struct Found<'a, K, V> {
    id: FlowId,
    names: Names,
    pub(crate) state: &'a State<K, V>,
}

impl<K, V> Found<'_, K, V> {
    /// Returns its id in the whole table, which few callers need.
    #[inline]
    pub(crate) fn id(&self) -> FlowId {
        self.names.outer(self.id)
    }
}

/// All flows.
pub(crate) struct Flows<'a, K, V> {
    older: slice::Iter<'a, Segment<LineHash<K, V>>>,
    current: linehash::Flows<'a, K, V>,
    names: Names,
}

impl<K, V> Clone for Flows<'_, K, V> {
    fn clone(&self) -> Self {
        Self { older: self.older.clone(), current: self.current.clone(), ..*self }
    }
}

impl<'a, K: TableKey, V> Iterator for Flows<'a, K, V> {
    type Item = Found<'a, K, V>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some((id, state)) = self.current.next() {
                return Some(Found { id, names: self.names, state });
            }
            let Segment { table, names, .. } = self.older.next()?;
            (self.current, self.names) = (table.flows(), *names);
        }
    }
}

/// All flows, with mutable values.
pub(crate) struct FlowsMut<'a, K, V> {
    older: slice::IterMut<'a, Segment<LineHash<K, V>>>,
    flows: linehash::FlowsMut<'a, K, V>,
}

impl<'a, K: TableKey, V> Iterator for FlowsMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(flow) = self.flows.next() {
                return Some(flow);
            }
            self.flows = self.older.next()?.table.flows_mut();
        }
    }
}

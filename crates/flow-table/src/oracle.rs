//! The truth: a map from keys to flows, so short that it is obviously right.

use std::collections::HashMap;
use std::hash::Hash;

use crate::state::Timeouts;
use crate::table::{FlowId, Tick, TimeoutClass};

/// What the oracle knows of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The id that the table gave.
    pub id: FlowId,
    /// Its value.
    pub value: u64,
    /// Its class.
    pub class: TimeoutClass,
    /// When it was last seen.
    pub last_seen: Tick,
    /// When its class was last set.
    pub class_set: Tick,
}

/// All flows that a table should have.
#[derive(Clone, Debug)]
pub struct Oracle<K> {
    /// The flows.
    pub flows: HashMap<K, Flow>,
    /// The timeouts that the table was built with.
    pub timeouts: Timeouts,
}

impl<K: Copy + Eq + Hash> Oracle<K> {
    /// Returns the oracle of an empty table.
    pub fn new(timeouts: Timeouts) -> Self {
        Self { flows: HashMap::new(), timeouts }
    }

    /// Returns whether a flow may be removed for its age.
    pub fn is_due(&self, key: &K, now: Tick) -> bool {
        self.deadline(key).is_some_and(|deadline| deadline <= now)
    }

    /// Returns whether a flow must have been removed for its age by a table that is late by `granule`.
    pub fn is_overdue(&self, key: &K, now: Tick, granule: u64) -> bool {
        let Some(deadline) = self.deadline(key) else { return false };
        let from = deadline.max(self.flows[key].class_set);
        from.0.saturating_add(granule) <= now.0
    }

    fn deadline(&self, key: &K) -> Option<Tick> {
        let flow = self.flows.get(key)?;
        self.timeouts.deadline(flow.class, flow.last_seen)
    }
}

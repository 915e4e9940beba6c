//! The oracle: a map from keys to flows, so short that it is obviously right.

use std::collections::HashMap;
use std::hash::Hash;

use crate::state::Timeouts;
use crate::table::{FlowId, Tick, TimeoutClass};

/// The oracle's record of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The id from the table.
    pub id: FlowId,
    /// Its value.
    pub value: u64,
    /// Its class.
    pub class: TimeoutClass,
    /// The time at which it was last seen.
    pub last_seen: Tick,
    /// The time at which its class was last set.
    pub class_set: Tick,
}

/// All flows that a table should have.
#[derive(Clone, Debug)]
pub struct Oracle<K> {
    /// The flows.
    pub flows: HashMap<K, Flow>,
    /// The timeouts of the table.
    pub timeouts: Timeouts,
}

impl<K: Copy + Eq + Hash> Oracle<K> {
    /// Returns the oracle of an empty table.
    pub fn new(timeouts: Timeouts) -> Self {
        Self { flows: HashMap::new(), timeouts }
    }

    /// Returns whether a flow may be removed because of its age.
    pub fn is_due(&self, key: &K, now: Tick) -> bool {
        self.deadline(key).is_some_and(|deadline| deadline <= now)
    }

    /// Returns whether a flow must have been removed because of its age, if the table may be late
    /// by `granule`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flow_may_expire_at_its_deadline_and_must_one_granule_later() {
        let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 100);
        let mut oracle = Oracle::new(timeouts);
        let id = FlowId::new(0, 1).unwrap();
        let flow = Flow { id, value: 0, class: TimeoutClass(0), last_seen: Tick(50), class_set: Tick(50) };
        oracle.flows.insert(1_u64, flow);
        oracle.flows.insert(2, Flow { class: TimeoutClass(3), ..flow });
        // A class that is set late takes effect from then on: a table may have checked the flow
        // earlier.
        oracle.flows.insert(3, Flow { class_set: Tick(400), ..flow });
        let due = |now| [1, 2, 3, 4].map(|key| oracle.is_due(&key, Tick(now)));
        assert_eq!((due(149), due(150)), ([false; 4], [true, false, true, false]));
        let overdue = |now| [1, 2, 3, 4].map(|key| oracle.is_overdue(&key, Tick(now), 12));
        assert_eq!((overdue(161), overdue(162)), ([false; 4], [true, false, false, false]));
        assert_eq!((overdue(411)[2], overdue(412)[2]), (false, true));
    }
}

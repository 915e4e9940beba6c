//! The laws of every [`FlowTable`].
//!
//! [`check`] performs operations on a table and on the [`Oracle`] and compares all observable
//! results after each step. Run it with random operations on any table you implement.

use std::collections::BTreeSet;
use std::hash::Hash;
use std::vec::Vec;

use flowloom_flow_key::TableHash;

use crate::evict::{Evict, WINDOW};
use crate::oracle::{Flow, Oracle};
use crate::state::Timeouts;
use crate::table::{self, Cursor, FlowId, FlowTable, TableKey, Tick, TimeoutClass};

/// One step. Keys are numbers, for the caller to turn into keys and hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Find or insert.
    Entry {
        /// Number of the key.
        key: u16,
        /// Class of a new flow.
        class: u8,
    },
    /// Find or insert, evicting a flow with an odd value if the table is full.
    EntryOrEvict {
        /// Number of the key.
        key: u16,
        /// Class of a new flow.
        class: u8,
    },
    /// Insert or replace.
    Insert {
        /// Number of the key.
        key: u16,
        /// The class.
        class: u8,
    },
    /// Look up `count` neighbouring keys at once; every third key occurs twice.
    Batch {
        /// Number of the first key.
        first: u16,
        /// Number of keys.
        count: u16,
    },
    /// Insert or replace `count` keys at once, repeating eight neighbours.
    InsertBatch {
        /// Number of one of the eight keys.
        first: u16,
        /// Number of keys.
        count: u16,
        /// The class.
        class: u8,
    },
    /// Remove `count` keys at once, repeating eight neighbours.
    RemoveBatch {
        /// Number of one of the eight keys.
        first: u16,
        /// Number of keys.
        count: u16,
    },
    /// Record a packet of a flow.
    Touch {
        /// Number of the key.
        key: u16,
    },
    /// Change a flow's class.
    SetClass {
        /// Number of the key.
        key: u16,
        /// The new class.
        class: u8,
    },
    /// Remove by id.
    Remove {
        /// Number of the key.
        key: u16,
    },
    /// Remove by key.
    RemoveKey {
        /// Number of the key.
        key: u16,
    },
    /// Let time pass.
    Advance {
        /// Ticks to advance.
        ticks: u64,
    },
    /// Expire flows.
    Expire {
        /// The budget.
        budget: u32,
    },
    /// Walk over the table, removing every `stride`-th flow.
    Walk {
        /// 0 removes none.
        stride: u16,
    },
    /// Remove everything.
    Clear,
}

/// Evicts flows with odd values, the one with the longest idle time first.
struct OddFirst<K> {
    gone: Option<(FlowId, K, u64)>,
    looked_at: u32,
}

impl<K: TableKey> Evict<K, u64> for OddFirst<K> {
    fn rank(&mut self, candidate: &table::Flow<'_, K, u64>) -> Option<u64> {
        self.looked_at += 1;
        (candidate.value % 2 == 1).then_some(u64::MAX - candidate.last_seen.0)
    }

    fn evicted(&mut self, id: FlowId, key: K, value: u64) {
        assert!(self.gone.replace((id, key, value)).is_none(), "one goes at a time");
    }
}

/// A table being checked.
struct Trial<'a, K, T> {
    table: &'a mut T,
    key_of: &'a dyn Fn(u16) -> (K, TableHash),
    oracle: Oracle<K>,
    now: Tick,
    /// Ids of removed flows.
    stale: Vec<FlowId>,
    next_value: u64,
    roomy: bool,
}

/// Performs operations on an empty table and panics at the first disagreement.
///
/// `key_of` turns numbers into keys and their hashes; distinct numbers must give distinct keys. A
/// `roomy` table must not refuse a flow; any other table may, and must then be unchanged.
///
/// # Panics
///
/// Panics if the table breaks a law. The message names the law and the operation.
pub fn check<K, T>(
    table: &mut T,
    key_of: &dyn Fn(u16) -> (K, TableHash),
    timeouts: Timeouts,
    roomy: bool,
    operations: &[Operation],
) where
    K: TableKey + Hash,
    T: FlowTable<K, u64>,
{
    assert!(table.is_empty(), "a table begins empty");
    let oracle = Oracle::new(timeouts);
    let mut trial =
        Trial { table, key_of, oracle, now: Tick(1000), stale: Vec::new(), next_value: 0, roomy };
    for (number, &operation) in operations.iter().enumerate() {
        trial.perform(operation, number);
        trial.compare(operation, number);
    }
}

impl<K: TableKey + Hash, T: FlowTable<K, u64>> Trial<'_, K, T> {
    fn perform(&mut self, operation: Operation, number: usize) {
        match operation {
            Operation::Entry { key, class } => self.entry(key, TimeoutClass(class), number),
            Operation::EntryOrEvict { key, class } => self.entry_or_evict(key, TimeoutClass(class), number),
            Operation::Insert { key, class } => self.insert(key, TimeoutClass(class), number),
            Operation::Batch { first, count } => self.batch(first, count, number),
            Operation::InsertBatch { first, count, class } => {
                self.insert_batch(first, count, TimeoutClass(class), number);
            }
            Operation::RemoveBatch { first, count } => self.remove_batch(first, count, number),
            Operation::Touch { key } => self.touch(key, number),
            Operation::SetClass { key, class } => {
                let (key, _) = (self.key_of)(key);
                if let Some(flow) = self.oracle.flows.get_mut(&key) {
                    flow.class = TimeoutClass(class);
                    flow.class_set = self.now;
                    assert!(self.table.set_class(flow.id, flow.class), "{number}: a live flow has a class");
                }
            }
            Operation::Remove { key } => {
                let (key, _) = (self.key_of)(key);
                if let Some(flow) = self.forget(&key) {
                    assert_eq!(self.table.remove(flow.id), Some((key, flow.value)), "{number}: removed");
                }
            }
            Operation::RemoveKey { key } => {
                let (key, hash) = (self.key_of)(key);
                let value = self.forget(&key).map(|flow| flow.value);
                assert_eq!(self.table.remove_key(&key, hash), value, "{number}: removed by key");
            }
            Operation::Advance { ticks } => self.now.0 += ticks,
            Operation::Expire { budget } => self.expire(budget, number),
            Operation::Walk { stride } => self.walk(stride, number),
            Operation::Clear => {
                let mut drained = Vec::new();
                self.table.drain(&mut |id, key, value| {
                    let flow = self.oracle.flows[&key];
                    assert_eq!((flow.id, flow.value), (id, value), "{number}: drained as it was");
                    assert!(!drained.contains(&key), "{number}: {key:?} drained twice");
                    drained.push(key);
                });
                for key in drained {
                    self.forget(&key);
                }
            }
        }
    }

    /// By id, and for every other operation by key.
    fn touch(&mut self, key: u16, number: usize) {
        let (key, hash) = (self.key_of)(key);
        let Some(flow) = self.oracle.flows.get_mut(&key) else {
            assert_eq!(self.table.lookup_touch(&key, hash, self.now), None, "{number}: no such flow");
            return;
        };
        flow.value += 1 << 32;
        let seen = if number.is_multiple_of(2) {
            self.table.get_mut_touch(flow.id, self.now)
        } else {
            self.table.lookup_touch(&key, hash, self.now).map(|(id, value, previous)| {
                assert_eq!(id, flow.id, "{number}: seen by key");
                (value, previous)
            })
        };
        let (value, previous) = seen.expect("a live flow can be seen");
        assert_eq!(previous, flow.last_seen, "{number}: the time before");
        *value += 1 << 32;
        flow.last_seen = self.now;
    }

    fn entry(&mut self, key: u16, class: TimeoutClass, number: usize) {
        let (key, hash) = (self.key_of)(key);
        self.next_value += 1;
        let value = self.next_value;
        match self.table.entry_with(key, hash, class, self.now, || value) {
            Ok(entry) => {
                let known = self.oracle.flows.get(&key).map(|flow| flow.id);
                assert_eq!(entry.is_new, known.is_none(), "{number}: new or not");
                if entry.is_new {
                    self.learn(key, entry.id, value, class);
                } else {
                    assert_eq!(Some(entry.id), known, "{number}: the same flow");
                }
            }
            Err(full) => self.refused(&key, &full, number),
        }
    }

    fn entry_or_evict(&mut self, key: u16, class: TimeoutClass, number: usize) {
        let (key, hash) = (self.key_of)(key);
        self.next_value += 1;
        let value = self.next_value;
        let mut odd = OddFirst { gone: None, looked_at: 0 };
        let outcome = self.table.entry_or_evict(key, hash, class, self.now, || value, &mut odd);
        assert!(odd.looked_at <= WINDOW, "{number}: an eviction looks at few");
        if let Some((id, gone, old)) = odd.gone {
            assert!(outcome.is_ok(), "{number}: evicted in vain");
            assert_eq!(old % 2, 1, "{number}: a flow without a rank stays");
            let flow = self.forget(&gone).expect("an evicted flow was there");
            assert_eq!((flow.id, flow.value), (id, old), "{number}: evicted as it was");
        }
        match outcome {
            Ok(entry) => {
                let known = self.oracle.flows.get(&key).map(|flow| flow.id);
                assert_eq!(entry.is_new, known.is_none(), "{number}: new or not");
                assert!(entry.is_new || odd.gone.is_none(), "{number}: a known flow needs no eviction");
                if entry.is_new {
                    self.learn(key, entry.id, value, class);
                }
            }
            Err(full) => self.refused(&key, &full, number),
        }
    }

    fn insert(&mut self, key: u16, class: TimeoutClass, number: usize) {
        let (key, hash) = (self.key_of)(key);
        self.next_value += 1;
        let value = self.next_value;
        match self.table.insert(key, hash, value, class, self.now) {
            Ok(id) => {
                if let Some(flow) = self.oracle.flows.get(&key) {
                    assert_eq!(flow.id, id, "{number}: replacing keeps the id");
                }
                self.learn(key, id, value, class);
            }
            Err(refused) => {
                assert_eq!(refused.value, value, "{number}: the value comes back");
                self.refused(&key, &refused, number);
            }
        }
    }

    /// Returns `count` keys of eight neighbours, with their hashes.
    fn neighbours(&self, first: u16, count: u16) -> (Vec<K>, Vec<TableHash>) {
        (0..count).map(|i| (self.key_of)(first ^ ((i * 3) & 7))).unzip()
    }

    fn insert_batch(&mut self, first: u16, count: u16, class: TimeoutClass, number: usize) {
        let (keys, hashes) = self.neighbours(first, count);
        let mut ids: Vec<_> = keys.iter().map(|_| FlowId::new(u32::MAX, 1)).collect();
        let before = self.next_value + 1;
        let mut asked = Vec::new();
        let make = |at: usize| {
            asked.push(at);
            before + at as u64
        };
        let refused = self.table.insert_batch(&keys, &hashes, class, self.now, make, &mut ids);
        assert!(asked.into_iter().eq(0..keys.len()), "{number}: values in order");
        assert_eq!(refused, ids.iter().filter(|id| id.is_none()).count(), "{number}: refused");
        for (&key, &id) in keys.iter().zip(&ids) {
            self.next_value += 1;
            if let Some(id) = id {
                if let Some(flow) = self.oracle.flows.get(&key) {
                    assert_eq!(flow.id, id, "{number}: replacing keeps the id");
                }
                self.learn(key, id, self.next_value, class);
            } else {
                self.refused(&key, &"one of a batch", number);
            }
        }
    }

    fn remove_batch(&mut self, first: u16, count: u16, number: usize) {
        let (keys, hashes) = self.neighbours(first, count);
        let mut gone = Vec::new();
        let removed = self.table.remove_batch(&keys, &hashes, |at, value| gone.push((at, value)));
        assert_eq!(removed, gone.len(), "{number}: removed");
        let mut gone = gone.into_iter().peekable();
        for (at, key) in keys.iter().enumerate() {
            let value = gone.next_if(|&(other, _)| other == at).map(|(_, value)| value);
            assert_eq!(value, self.forget(key).map(|flow| flow.value), "{number}: {key:?} of a batch");
        }
        assert_eq!(gone.next(), None, "{number}: no further flow");
    }

    fn learn(&mut self, key: K, id: FlowId, value: u64, class: TimeoutClass) {
        let flow = Flow { id, value, class, last_seen: self.now, class_set: self.now };
        self.oracle.flows.insert(key, flow);
    }

    fn forget(&mut self, key: &K) -> Option<Flow> {
        let flow = self.oracle.flows.remove(key)?;
        self.stale.push(flow.id);
        Some(flow)
    }

    fn refused(&self, key: &K, full: &impl std::fmt::Debug, number: usize) {
        assert!(!self.roomy, "{number}: refused {full:?} with space for all");
        assert!(!self.oracle.flows.contains_key(key), "{number}: refused a flow that is there");
    }

    fn batch(&self, first: u16, count: u16, number: usize) {
        let numbers = (0..count).map(|i| first.wrapping_add(i - u16::from(i % 3 == 2)));
        let (keys, hashes): (Vec<K>, Vec<TableHash>) = numbers.map(self.key_of).unzip();
        // The earlier contents of the slice must be overwritten.
        let mut ids: Vec<_> = keys.iter().map(|_| FlowId::new(u32::MAX, 1)).collect();
        for &hash in &hashes {
            self.table.prefetch(hash);
        }
        self.table.prefetch_states(&hashes);
        self.table.lookup_batch(&keys, &hashes, &mut ids);
        for (key, &id) in keys.iter().zip(&ids) {
            let known = self.oracle.flows.get(key).map(|flow| flow.id);
            assert_eq!(id, known, "{number}: {key:?} in a batch of {count}");
        }
        let values = |shown: &mut Vec<usize>, place: usize, value: &u64| {
            let known = self.oracle.flows.get(&keys[place]).map(|flow| &flow.value);
            assert_eq!(known, Some(value), "{number}: {:?} in a batch of {count}", keys[place]);
            shown.push(place);
        };
        let mut again: Vec<_> = keys.iter().map(|_| FlowId::new(u32::MAX, 1)).collect();
        let mut shown = Vec::new();
        self.table.lookup_batch_values(&keys, &hashes, &mut again, |place, value| {
            values(&mut shown, place, value);
        });
        assert_eq!(again, ids, "{number}: with values in a batch of {count}");
        again.fill(FlowId::new(u32::MAX, 1));
        let mut prefetched = Vec::new();
        self.table.lookup_batch_prefetched(&keys, &hashes, &mut again, |place, value| {
            values(&mut prefetched, place, value);
        });
        assert_eq!(again, ids, "{number}: prefetched in a batch of {count}");
        // Compare flow by flow; a stable sort keeps the order in which each flow's packets were
        // shown.
        let flow_of = |place: &usize| keys.iter().position(|key| *key == keys[*place]);
        let mut found: Vec<_> = (0..keys.len()).filter(|&place| ids[place].is_some()).collect();
        found.sort_by_key(flow_of);
        for mut shown in [shown, prefetched] {
            shown.sort_by_key(flow_of);
            assert_eq!(shown, found, "{number}: each packet of a flow once, and in order");
        }
    }

    fn expire(&mut self, budget: u32, number: usize) {
        let mut gone = Vec::new();
        let outcome =
            self.table.expire(self.now, budget, &mut |id, key, value| gone.push((id, key, value)));
        assert!(outcome.examined <= budget, "{number}: bounded work");
        assert_eq!(outcome.removed as usize, gone.len(), "{number}: removed");
        for (id, key, value) in gone {
            assert!(self.oracle.is_due(&key, self.now), "{number}: {key:?} is not due");
            let flow = self.forget(&key).expect("due flows are known");
            assert_eq!((flow.id, flow.value), (id, value), "{number}: expired as it was");
        }
        if !outcome.more {
            let granule = self.table.stats().granule_ticks;
            for key in self.oracle.flows.keys() {
                assert!(!self.oracle.is_overdue(key, self.now, granule), "{number}: {key:?} is overdue");
            }
        }
    }

    fn walk(&mut self, stride: u16, number: usize) {
        let (mut cursor, mut met) = (Cursor::default(), BTreeSet::new());
        let all = self.oracle.flows.len();
        while let Some((id, next)) = self.table.next_live(cursor) {
            cursor = next;
            assert!(met.insert(id.slot()), "{number}: slot {} met twice", id.slot());
            if stride != 0 && met.len() % usize::from(stride) == 0 {
                let (key, value) = self.table.remove(id).expect("a flow that was met lives");
                assert_eq!(self.forget(&key).map(|flow| flow.value), Some(value), "{number}: {key:?}");
            }
        }
        assert_eq!(met.len(), all, "{number}: the walk meets every flow");
    }

    /// Compares all observable results.
    fn compare(&mut self, operation: Operation, number: usize) {
        let at = (number, operation);
        let table = &mut *self.table;
        let stats = table.stats();
        assert_eq!(table.len() as usize, self.oracle.flows.len(), "{at:?}: len");
        assert_eq!(table.is_empty(), self.oracle.flows.is_empty(), "{at:?}: is_empty");
        assert_eq!(stats.len, table.len(), "{at:?}: counted");
        assert_eq!(
            stats.inserted,
            u64::from(stats.len) + stats.removed + stats.expired + stats.evicted,
            "{at:?}: every flow comes once and goes once"
        );
        assert!(table.len() <= table.capacity(), "{at:?}: capacity");
        assert!(stats.displaced <= stats.len, "{at:?}: places outside buckets belong to flows");
        let mut slots = BTreeSet::new();
        for (key, flow) in &self.oracle.flows {
            let hash = self.hash_of(key);
            let table = &mut *self.table;
            assert_eq!(table.lookup(key, hash), Some(flow.id), "{at:?}: {key:?} is found");
            assert_eq!(
                table.lookup_value(key, hash),
                Some((flow.id, &flow.value)),
                "{at:?}: {key:?} and its value"
            );
            assert_eq!(table.get(flow.id), Some(&flow.value), "{at:?}: value of {key:?}");
            assert_eq!(table.get_mut(flow.id).copied(), Some(flow.value), "{at:?}: value of {key:?}");
            assert_eq!(table.key_of(flow.id), Some(*key), "{at:?}: key");
            assert_eq!(table.last_seen(flow.id), Some(flow.last_seen), "{at:?}: time of {key:?}");
            assert!(slots.insert(flow.id.slot()), "{at:?}: two flows in one slot");
            assert!(flow.id.slot() < table.slot_count(), "{at:?}: slot");
        }
        let table = &mut *self.table;
        for &id in self.stale.iter().rev().take(64) {
            assert_eq!(table.get(id), None, "{at:?}: {id:?} is stale");
            assert_eq!(table.key_of(id), None, "{at:?}: {id:?} is stale");
            assert!(!table.touch(id, self.now), "{at:?}: {id:?} is stale");
            assert!(!table.set_class(id, TimeoutClass(0)), "{at:?}: {id:?} is stale");
            assert_eq!(table.remove(id), None, "{at:?}: {id:?} is stale");
        }
    }

    fn hash_of(&self, key: &K) -> TableHash {
        let number = (0..=u16::MAX).find(|&number| (self.key_of)(number).0 == *key);
        (self.key_of)(number.expect("every flow's key came from a number")).1
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::string::String;

    use super::*;
    use crate::{DHash, TableOptions};

    fn timeouts() -> Timeouts {
        Timeouts::NEVER.with(TimeoutClass(0), 100)
    }

    /// Returns the violation that the checks find in a table of sixteen flows, if any.
    fn objection(
        timeouts: Timeouts,
        roomy: bool,
        key_of: &dyn Fn(u16) -> (u64, TableHash),
        operations: &[Operation],
    ) -> String {
        let config = TableOptions { buckets: Some(1), pool: Some(0), ..TableOptions::for_flows(16) };
        let mut table = DHash::<u64, u64>::try_new(&config).unwrap();
        let law = AssertUnwindSafe(|| check(&mut table, key_of, timeouts, roomy, operations));
        let Err(message) = catch_unwind(law) else { return String::new() };
        message.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".into())
    }

    fn stable(number: u16) -> (u64, TableHash) {
        (u64::from(number), TableHash::from_mixed(u64::from(number) << 40))
    }

    #[test]
    fn a_table_that_refuses_with_space_for_all_is_noticed() {
        for operation in [
            (|key| Operation::Entry { key, class: 0 }) as fn(u16) -> Operation,
            |key| Operation::EntryOrEvict { key, class: 0 },
            |key| Operation::Insert { key, class: 0 },
        ] {
            // Even values only: nothing is evicted.
            let operations: Vec<Operation> = (0..40)
                .map(|at| if at % 2 == 0 { Operation::Entry { key: 0, class: 0 } } else { operation(at) })
                .collect();
            assert_eq!(objection(Timeouts::NEVER, false, &stable, &operations), "");
            let message = objection(Timeouts::NEVER, true, &stable, &operations);
            assert!(message.contains("with space for all"), "{operations:?}: {message}");
        }
    }

    #[test]
    fn a_table_that_does_not_find_its_flows_is_noticed() {
        // A key whose hash changes is lost to the table.
        let calls = Cell::new(0);
        let fickle = |number: u16| {
            calls.set(calls.get() + 1);
            (u64::from(number), TableHash::from_mixed(calls.get()))
        };
        for operation in [
            Operation::Entry { key: 7, class: 0 },
            Operation::EntryOrEvict { key: 7, class: 0 },
            Operation::Insert { key: 7, class: 0 },
        ] {
            let message = objection(Timeouts::NEVER, true, &fickle, &[operation]);
            assert!(message.contains("is found"), "{operation:?}: {message}");
        }
    }

    #[test]
    fn a_table_that_keeps_flows_for_too_long_is_noticed() {
        let operations = [
            Operation::Entry { key: 1, class: 0 },
            Operation::Advance { ticks: 99 },
            Operation::Expire { budget: 10 },
            Operation::Advance { ticks: 500 },
            Operation::Expire { budget: 10 },
        ];
        assert_eq!(objection(timeouts(), true, &stable, &operations[..3]), "");
        let message = objection(timeouts(), true, &stable, &operations);
        assert!(message.contains("is overdue"), "{message}");
        assert_eq!(objection(Timeouts::NEVER, true, &stable, &operations), "");
    }

    #[test]
    fn longest_unseen_odd_flow_is_evicted() {
        let config = TableOptions { buckets: Some(1), pool: Some(0), ..TableOptions::for_flows(16) };
        let mut table = DHash::<u64, u64>::try_new(&config).unwrap();
        for key in 0..16 {
            table.insert(key, TableHash::from_mixed(0), key, TimeoutClass(0), Tick(1000 - key)).unwrap();
        }
        let mut odd = OddFirst { gone: None, looked_at: 0 };
        assert!(table.evict(TableHash::from_mixed(0), &mut odd));
        assert_eq!((odd.gone.map(|(_, key, _)| key), odd.looked_at), (Some(15), 16));
    }
}

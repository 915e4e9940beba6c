//! A table with only the required methods: the provided methods keep the guarantees, and the checks
//! detect its errors.

use flowloom_flow_table::TableHash;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::evict::Evict;
use flowloom_flow_table::laws::{Operation, check};
use flowloom_flow_table::{
    Cursor, DHash, DHashConfig, Entry, Expired, FlowId, FlowTable, Full, MemoryReport, TableStats, Tick,
    TimeoutClass, Timeouts,
};

/// How a table answers for many keys.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Right,
    NoFlowExists,
    /// Like the previous flow.
    AsBefore,
}

struct Plain(DHash<u64, u64>, Answer);

impl FlowTable<u64, u64> for Plain {
    fn capacity(&self) -> u32 {
        self.0.capacity()
    }

    fn len(&self) -> u32 {
        self.0.len()
    }

    fn slot_count(&self) -> u32 {
        self.0.slot_count()
    }

    fn lookup(&self, key: &u64, hash: TableHash) -> Option<FlowId> {
        self.0.lookup(key, hash)
    }

    fn lookup_batch(&self, keys: &[u64], hashes: &[TableHash], ids: &mut [Option<FlowId>]) {
        self.0.lookup_batch(keys, hashes, ids);
        match self.1 {
            Answer::Right => {}
            Answer::NoFlowExists => ids.fill(None),
            Answer::AsBefore => ids.rotate_right(1),
        }
    }

    fn entry_or_evict(
        &mut self,
        key: u64,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> u64,
        policy: &mut impl Evict<u64, u64>,
    ) -> Result<Entry, Full> {
        self.0.entry_or_evict(key, hash, class, now, make, policy)
    }

    fn evict(&mut self, hash: TableHash, policy: &mut impl Evict<u64, u64>) -> bool {
        self.0.evict(hash, policy)
    }

    fn get(&self, id: FlowId) -> Option<&u64> {
        self.0.get(id)
    }

    fn get_mut(&mut self, id: FlowId) -> Option<&mut u64> {
        self.0.get_mut(id)
    }

    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut u64, Tick)> {
        self.0.get_mut_touch(id, now)
    }

    fn key_of(&self, id: FlowId) -> Option<u64> {
        self.0.key_of(id)
    }

    fn last_seen(&self, id: FlowId) -> Option<Tick> {
        self.0.last_seen(id)
    }

    fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.0.class_of(id)
    }

    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.0.set_class(id, class)
    }

    fn remove(&mut self, id: FlowId) -> Option<(u64, u64)> {
        self.0.remove(id)
    }

    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)> {
        self.0.next_live(cursor)
    }

    fn expire(&mut self, now: Tick, budget: u32, on_flow: &mut impl FnMut(FlowId, u64, u64)) -> Expired {
        self.0.expire(now, budget, on_flow)
    }

    fn stats(&self) -> TableStats {
        self.0.stats()
    }

    fn memory(&self) -> MemoryReport {
        self.0.memory()
    }
}

fn perform(answer: Answer) {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 100);
    let config = DHashConfig { buckets: Some(4), timeouts, ..DHashConfig::for_flows(64) };
    let mut table = Plain(DHash::try_new(&config).expect("a small table"), answer);
    let keys = |number: u16| (u64::from(number), TableHash::from_mixed(split_mix(&mut u64::from(number))));
    // Every other key of ten is present.
    let mut operations: Vec<_> = (0..5).map(|key| Operation::Insert { key: 2 * key, class: 0 }).collect();
    operations.extend([
        Operation::Touch { key: 4 },
        Operation::Advance { ticks: 1 },
        Operation::Touch { key: 4 },
        Operation::Insert { key: 6, class: 1 },
        Operation::Entry { key: 6, class: 0 },
        Operation::RemoveKey { key: 8 },
        Operation::RemoveKey { key: 9 },
        Operation::Batch { first: 0, count: 9 },
        Operation::InsertBatch { first: 3, count: 20, class: 0 },
        Operation::RemoveBatch { first: 3, count: 5 },
        Operation::Walk { stride: 2 },
        Operation::Clear,
    ]);
    check(&mut table, &keys, timeouts, true, &operations);
}

#[test]
fn default_methods_pass_the_law_suite() {
    perform(Answer::Right);
}

#[test]
fn law_suite_detects_errors_in_batches() {
    for answer in [Answer::NoFlowExists, Answer::AsBefore] {
        let Err(message) = catch_unwind(AssertUnwindSafe(|| perform(answer))) else {
            panic!("{answer:?} keeps the laws");
        };
        let message = message.downcast_ref::<String>().expect("the laws name the violation");
        assert!(message.contains("in a batch of 9"), "{answer:?}: {message}");
    }
}

//! A table with only the required methods: the provided methods keep the guarantees, and the checks
//! detect its errors.

use flowloom_flow_table::TableHash;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::evict::Evict;
use flowloom_flow_table::laws::{Operation, check};
use flowloom_flow_table::{
    Cursor, DHash, Entry, Expired, Flow, FlowId, FlowTable, Full, MemoryReport, TableOptions, TableStats,
    Tick, TimeoutClass, Timeouts,
};

/// How a table answers for the keys of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    Right,
    NoFlowExists,
    /// Like the previous flow.
    AsBefore,
}

struct Plain {
    table: DHash<u64, u64>,
    in_batches: Answer,
    now: Cell<Answer>,
    before: Cell<Option<FlowId>>,
}

impl FlowTable<u64, u64> for Plain {
    fn slot_count(&self) -> u32 {
        self.table.slot_count()
    }

    /// The laws call it before each batch.
    fn prefetch_states(&self, _hashes: &[TableHash]) {
        self.now.set(self.in_batches);
    }

    fn lookup(&self, key: &u64, hash: TableHash) -> Option<FlowId> {
        let found = self.table.lookup(key, hash);
        let before = self.before.replace(found);
        match self.now.get() {
            Answer::Right => found,
            Answer::NoFlowExists => None,
            Answer::AsBefore => before,
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
        self.table.entry_or_evict(key, hash, class, now, make, policy)
    }

    fn flow(&self, id: FlowId) -> Option<Flow<'_, u64, u64>> {
        self.table.flow(id)
    }

    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut u64, Tick)> {
        self.table.get_mut_touch(id, now)
    }

    fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.table.class_of(id)
    }

    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.table.set_class(id, class)
    }

    fn remove(&mut self, id: FlowId) -> Option<(u64, u64)> {
        self.table.remove(id)
    }

    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)> {
        self.table.next_live(cursor)
    }

    fn expire(&mut self, now: Tick, budget: u32, on_flow: &mut impl FnMut(FlowId, u64, u64)) -> Expired {
        self.table.expire(now, budget, on_flow)
    }

    fn stats(&self) -> TableStats {
        self.table.stats()
    }

    fn memory(&self) -> MemoryReport {
        self.table.memory()
    }
}

fn perform(answer: Answer) {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 100);
    let config = TableOptions { buckets: Some(4), timeouts, ..TableOptions::for_flows(64) };
    let table = DHash::try_new(&config).expect("a small table");
    let mut table =
        Plain { table, in_batches: answer, now: Cell::new(Answer::Right), before: Cell::default() };
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

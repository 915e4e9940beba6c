//! A table that evicts the oldest flow when it is full.

use flowloom_engine::{Control, Layout, run};
use flowloom_flow_key::FlowKey;
use flowloom_flow_key::TableHash;
use flowloom_flow_table::evict::{Evict, UnestablishedFirst};
use flowloom_flow_table::{
    Cursor, DHash, Entry, Expired, Flow, FlowId, FlowTable, Full, MemoryReport, TableOptions, TableStats,
    Tick, TimeoutClass,
};
use flowloom_scheduler::{DirectHash, WorkerCount};

use crate::common::{Memory, Recorder, Seen, config, mix};

struct Evicting(DHash<FlowKey, Seen>);

impl FlowTable<FlowKey, Seen> for Evicting {
    fn entry_with(
        &mut self,
        key: FlowKey,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> Seen,
    ) -> Result<Entry, Full> {
        self.0.entry_or_evict(key, hash, class, now, make, &mut UnestablishedFirst::new(|_: &Seen| false))
    }

    fn slot_count(&self) -> u32 {
        self.0.slot_count()
    }

    fn lookup(&self, key: &FlowKey, hash: TableHash) -> Option<FlowId> {
        self.0.lookup(key, hash)
    }

    fn entry_or_evict(
        &mut self,
        key: FlowKey,
        hash: TableHash,
        class: TimeoutClass,
        now: Tick,
        make: impl FnOnce() -> Seen,
        policy: &mut impl Evict<FlowKey, Seen>,
    ) -> Result<Entry, Full> {
        self.0.entry_or_evict(key, hash, class, now, make, policy)
    }

    fn flow(&self, id: FlowId) -> Option<Flow<'_, FlowKey, Seen>> {
        self.0.flow(id)
    }

    fn get_mut_touch(&mut self, id: FlowId, now: Tick) -> Option<(&mut Seen, Tick)> {
        self.0.get_mut_touch(id, now)
    }

    fn class_of(&self, id: FlowId) -> Option<TimeoutClass> {
        self.0.class_of(id)
    }

    fn set_class(&mut self, id: FlowId, class: TimeoutClass) -> bool {
        self.0.set_class(id, class)
    }

    fn remove(&mut self, id: FlowId) -> Option<(FlowKey, Seen)> {
        self.0.remove(id)
    }

    fn next_live(&self, cursor: Cursor) -> Option<(FlowId, Cursor)> {
        self.0.next_live(cursor)
    }

    fn expire(
        &mut self,
        now: Tick,
        budget: u32,
        on_flow: &mut impl FnMut(FlowId, FlowKey, Seen),
    ) -> Expired {
        self.0.expire(now, budget, on_flow)
    }

    fn stats(&self) -> TableStats {
        self.0.stats()
    }

    fn memory(&self) -> MemoryReport {
        self.0.memory()
    }
}

#[test]
fn flow_evicted_after_its_lookup_begins_anew() {
    for mode in [Layout::Inline, Layout::Pipeline { workers: 1 }] {
        let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
        let table = |_| DHash::try_new(&TableOptions::for_flows(8)).map(Evicting);
        let config = config(mode);
        let mut source = Memory::new(mix(5_000, 40));
        let new = |_| Recorder::default();
        let report = run(&config, &mut source, &mut policy, table, new, &Control::default()).unwrap();
        let fault = report.fault.as_ref().map(ToString::to_string);
        assert!(report.is_balanced() && fault.is_none(), "{mode:?} {fault:?}");
        assert_eq!(report.processed(), report.input.decoded, "{mode:?}: nothing is refused");
        let evicted = report.tables().0.evicted;
        assert!(evicted > 100, "{mode:?}: {evicted}");
    }
}

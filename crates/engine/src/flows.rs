//! A table of flows and what became of those that ended: what a worker holds alone, and a shard holds for all.

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{Cursor, FlowId, FlowTable, MemoryReport, TableStats, Tick, TimeoutClass};
use flowloom_packet::PacketView;

use crate::app::{App, FlowState, Verdict};
use crate::results::FlowRecord;
use crate::time::{IdleTimeout, tick_of};

/// Wheel entries looked at per burst, so that ageing never makes a burst long.
const EXPIRE_BUDGET: u32 = 32;

/// What happened to flows.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowCounts {
    pub(crate) begun: u64,
    pub(crate) expired: u64,
    pub(crate) forgotten: u64,
}

/// Flows that are, and records of flows that were.
#[derive(Debug)]
pub(crate) struct Flows<F, T> {
    pub(crate) table: T,
    idle_timeout: Option<IdleTimeout>,
    records_max: usize,
    ended: Vec<FlowRecord<F>>,
    counts: FlowCounts,
}

impl<F: FlowState, T: FlowTable<FlowKey, F>> Flows<F, T> {
    pub(crate) fn new(table: T, idle_timeout: Option<IdleTimeout>, records_max: usize) -> Self {
        Self { table, idle_timeout, records_max, ended: Vec::new(), counts: FlowCounts::default() }
    }

    /// Runs the application on a packet and its flow, which is begun now where a lookup has not found it. `None` when the
    /// table refuses a new flow.
    #[inline(always)]
    pub(crate) fn process<A: App<Flow = F>>(
        &mut self,
        app: &mut A,
        found: Option<FlowId>,
        (key, hash): (&FlowKey, u64),
        time_ns: u64,
        packet: &PacketView<'_>,
    ) -> Option<Verdict> {
        // Key and time are those of the packet: an application that looks at neither leaves the view unmade.
        let now = tick_of(time_ns);
        // To make room for another one of the burst.
        let has_gone = T::LETS_GO && found.is_some_and(|id| self.table.get(id).is_none());
        let (flow, is_new) = match found.filter(|_| !has_gone) {
            Some(id) => (id, false),
            None => self.begin(key, hash, now)?,
        };
        let Some((state, last_seen)) = self.table.get_mut_touch(flow, now) else {
            unreachable!("the flow was found or made a moment ago, and nothing removes flows in between")
        };
        let was_idle = self.idle_timeout.is_some_and(|timeout| timeout.is_over(last_seen, now));
        if was_idle || (!is_new && app.ends_before(packet, state)) {
            // This packet begins another flow of the same key. Judged by the flow's own times, so the cut does not
            // depend on workers or on when the wheel turns.
            let ended = std::mem::take(state);
            self.counts.expired += u64::from(was_idle);
            self.counts.begun += 1;
            keep(&mut self.ended, self.records_max, &mut self.counts, *key, ended);
        }
        Some(app.on_packet(packet, state))
    }

    /// Begins the flow of a key that a lookup has not found; says whether it is new.
    #[inline(never)]
    fn begin(&mut self, key: &FlowKey, hash: u64, now: Tick) -> Option<(FlowId, bool)> {
        // An earlier packet of the burst may have begun the flow since the lookup.
        let entry = self.table.entry_with(*key, hash, TimeoutClass(0), now, F::default).ok()?;
        self.counts.begun += u64::from(entry.is_new);
        Some((entry.id, entry.is_new))
    }

    /// Ends flows that were idle for too long, a few at a time.
    pub(crate) fn expire(&mut self, time_ns: u64) {
        if self.idle_timeout.is_none() {
            return;
        }
        let Self { table, ended, records_max, counts, .. } = self;
        table.expire(tick_of(time_ns), EXPIRE_BUDGET, &mut |_, key, state| {
            counts.expired += 1;
            keep(ended, *records_max, counts, key, state);
        });
    }

    pub(crate) fn counts(&self) -> FlowCounts {
        self.counts
    }

    /// Returns one record per flow, oldest record of a key first, and the table's figures.
    pub(crate) fn finish(mut self) -> FlowsEnd<F> {
        let stats = self.table.stats();
        let mut memory = self.table.memory();
        if memory.pages.huge_requested {
            memory.pages = self.table.pages_obtained();
        }
        let mut records = self.ended;
        records.reserve(self.table.len() as usize);
        // The table is dropped as a whole afterwards: taking the states out one by one would only write to it.
        let mut cursor = Cursor::default();
        while let Some((id, next)) = self.table.next_live(cursor) {
            cursor = next;
            if let (Some(key), Some(state)) = (self.table.key_of(id), self.table.get_mut(id)) {
                records.push(FlowRecord { key, state: std::mem::take(state) });
            }
        }
        FlowsEnd { records, table: stats, memory, counts: self.counts }
    }
}

fn keep<F>(
    ended: &mut Vec<FlowRecord<F>>,
    records_max: usize,
    counts: &mut FlowCounts,
    key: FlowKey,
    state: F,
) {
    if ended.len() < records_max {
        ended.push(FlowRecord { key, state });
    } else {
        counts.forgotten += 1;
    }
}

/// What a table of flows leaves.
#[derive(Debug)]
pub(crate) struct FlowsEnd<F> {
    pub(crate) records: Vec<FlowRecord<F>>,
    pub(crate) table: TableStats,
    pub(crate) memory: MemoryReport,
    pub(crate) counts: FlowCounts,
}

//! A flow table with the records of ended flows. A worker owns one, or a shard holds one for all
//! workers.

use std::any::Any;

use flowloom_flow_key::{FlowKey, TableHash};
use flowloom_flow_table::evict::Evict;
use flowloom_flow_table::{Cursor, Flow, FlowId, FlowTable, MemoryReport, TableStats, Tick};
use flowloom_packet::PacketView;

use crate::app::{App, FlowState, Verdict};
use crate::budget::Budget;
use crate::egress::records::RecordOutput;
use crate::report::counters::FlowCounts;
use crate::report::results::{EndedBy, FlowRecord};
use crate::stage::panics::caught;
use crate::time::{FlowTimeouts, tick_of};

/// Maximum number of expiry wheel entries visited per burst, so that expiry never delays a burst
/// for long.
const EXPIRE_BUDGET: u32 = 32;

/// The ticks of a record's first and last packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: Tick,
    pub(crate) last: Tick,
}

impl Span {
    pub(crate) fn of_ticks(start: u64, last: u64) -> Self {
        Self { start: Tick(start), last: Tick(last) }
    }
}

/// The first ticks of records, if parts of an input are composed: by slot for live flows, and one
/// per ended record.
#[derive(Debug, Default)]
struct Starts {
    live: Vec<Tick>,
    ended: Vec<Span>,
}

impl Starts {
    fn begin(&mut self, id: FlowId, now: Tick) {
        let slot = id.slot() as usize;
        if slot >= self.live.len() {
            self.live.resize((slot + 1).next_power_of_two(), Tick(0));
        }
        self.live[slot] = now;
    }

    fn start(&self, id: FlowId) -> Tick {
        self.live.get(id.slot() as usize).copied().unwrap_or_default()
    }
}

/// Live flows, and the records of ended flows.
#[derive(Debug)]
pub(crate) struct Flows<F, T> {
    pub(crate) table: T,
    timeouts: FlowTimeouts,
    records: Records<F>,
    /// The flows that all tables of the run may still begin, if there is a limit.
    budget: Option<Budget>,
    /// Flows that were refused for lack of it.
    refused: u64,
}

/// Records of ended flows.
#[derive(Debug)]
struct Records<F> {
    output: RecordOutput<F>,
    /// The records that are kept.
    ended: Vec<FlowRecord<F>>,
    starts: Option<Starts>,
    counts: FlowCounts,
}

impl<F> Records<F> {
    /// Adds a record. The times of the record are in `span`, if they are kept.
    fn add(&mut self, record: FlowRecord<F>, span: Option<Span>) {
        match &mut self.output {
            RecordOutput::Stream(sender) => sender.push(record),
            RecordOutput::Keep(budget) if !budget.take() => self.counts.forgotten += 1,
            RecordOutput::Keep(_) => {
                self.ended.push(record);
                if let (Some(starts), Some(span)) = (&mut self.starts, span) {
                    starts.ended.push(span);
                }
            }
        }
    }
}

/// Evicts the least recently seen of the flows that are not established.
struct EvictUnestablished<'a, A: App>(&'a mut A, &'a mut Records<A::Flow>);

impl<F: FlowState, A: App<Flow = F>> Evict<FlowKey, F> for EvictUnestablished<'_, A> {
    fn rank(&mut self, candidate: &Flow<'_, FlowKey, F>) -> Option<u64> {
        (!candidate.value.is_established()).then(|| u64::MAX - candidate.last_seen.0)
    }

    fn evicted(&mut self, id: FlowId, key: FlowKey, mut state: F) {
        let Self(app, records) = self;
        app.on_end(&key, &mut state, EndedBy::Evicted);
        let span = records.starts.as_ref().map(|starts| Span { start: starts.start(id), last: Tick(0) });
        records.counts.evicted += 1;
        records.add(FlowRecord { key, state, ended: EndedBy::Evicted }, span);
    }
}

/// Live flows and the records of ended ones, for any type of state and table.
pub(crate) trait FlowStore: Any + Send {
    /// Prefetches the table's lines for hashes.
    fn prefetch(&self, hashes: &[TableHash]);

    /// Removes a flow without a record, because its state is unknown after a panic.
    fn discard(&mut self, key: &FlowKey, hash: TableHash);

    /// Sends the records of an incomplete batch, if the record thread has requested it.
    fn flush_if_requested(&mut self);

    /// Returns the counts of flows.
    fn counts(&self) -> FlowCounts;

    /// Returns how full the table is.
    fn occupancy(&self) -> Occupancy;

    /// Returns the kept records and those of live flows, in order of time for each key, and the
    /// table's statistics.
    fn finish(self: Box<Self>) -> FlowsEnd;
}

/// How full a table is.
pub(crate) struct Occupancy {
    pub(crate) flows: u64,
    pub(crate) capacity: u64,
    pub(crate) bytes: u64,
}

impl<F: FlowState, T: FlowTable<FlowKey, F>> Flows<F, T> {
    pub(crate) fn new(table: T, timeouts: FlowTimeouts, output: RecordOutput<F>) -> Self {
        let records = Records { output, ended: Vec::new(), starts: None, counts: FlowCounts::default() };
        Self { table, timeouts, records, budget: None, refused: 0 }
    }

    /// Limits the flows of all tables together.
    pub(crate) fn with_budget(self, budget: Option<Budget>) -> Self {
        Self { budget, ..self }
    }

    /// Keeps the times of records, which composing parts under a timeout needs.
    pub(crate) fn with_spans(mut self) -> Self {
        self.records.starts = self.timeouts.is_set().then(Starts::default);
        self
    }

    /// Runs the application on a packet and its flow, and inserts the flow if the lookup did not
    /// find it. Returns `None` if the table refuses the new flow.
    #[inline(always)]
    pub(crate) fn process<A: App<Flow = F>>(
        &mut self,
        app: &mut A,
        found: Option<FlowId>,
        (key, hash): (&FlowKey, TableHash),
        time_ns: u64,
        packet: &PacketView<'_>,
    ) -> Option<Verdict> {
        // `key` and `time_ns` repeat fields of the packet, so that the compiler can omit the view
        // for an application that reads neither.
        let now = tick_of(time_ns);
        // An insertion for another packet of the burst may have evicted the flow.
        let has_gone =
            (T::MAY_EVICT || F::EVICTABLE) && found.is_some_and(|id| self.table.get(id).is_none());
        let (flow, is_new) = match found.filter(|_| !has_gone) {
            Some(id) => (id, false),
            None => self.begin(app, key, hash, now)?,
        };
        let Some((state, last_seen)) = self.table.get_mut_touch(flow, now) else {
            unreachable!("the flow was found or made a moment ago, and nothing removes flows in between")
        };
        let has_closed_timeout = self.timeouts.closed.is_some();
        let was_closed = has_closed_timeout && state.is_closed();
        let was_idle =
            self.timeouts.timeout(was_closed).is_some_and(|timeout| timeout.is_over(last_seen, now));
        let next = match (was_idle, is_new) {
            (true, _) => Some(F::default()),
            (false, true) => None,
            (false, false) => app.next_record(packet, state),
        };
        if let Some(next) = next {
            // This packet begins a new record of the same key. The decision depends only on the
            // flow's own times, so the record does not depend on workers or on the position of the
            // expiry wheel.
            let mut ended_state = std::mem::replace(state, next);
            let ended = if was_idle { EndedBy::IdleTimeout } else { EndedBy::Application };
            app.on_end(key, &mut ended_state, ended);
            app.on_begin(key, state);
            self.records.counts.expired += u64::from(was_idle);
            self.records.counts.split += u64::from(!was_idle);
            self.records.counts.begun += 1;
            let span = self.records.starts.as_mut().map(|starts| {
                let start = starts.start(flow);
                starts.begin(flow, now);
                Span { start, last: last_seen }
            });
            self.records.add(FlowRecord { key: *key, state: ended_state, ended }, span);
        } else if is_new {
            app.on_begin(key, state);
        }
        let verdict = app.on_packet(packet, state);
        if has_closed_timeout && state.is_closed() != was_closed {
            self.table.set_class(flow, FlowTimeouts::class(!was_closed));
        }
        Some(verdict)
    }

    /// Inserts the flow of a key that the lookup did not find. The flag is false if the flow exists
    /// now.
    #[inline(never)]
    fn begin<A: App<Flow = F>>(
        &mut self,
        app: &mut A,
        key: &FlowKey,
        hash: TableHash,
        now: Tick,
    ) -> Option<(FlowId, bool)> {
        if self.budget.as_ref().is_some_and(|budget| !budget.take()) {
            if let Some(id) = self.table.lookup(key, hash) {
                return Some((id, false));
            }
            let mut evict = EvictUnestablished(app, &mut self.records);
            if !(F::EVICTABLE && self.table.evict(hash, &mut evict)) {
                self.refused += 1;
                return None;
            }
        }
        let before = self.table.len();
        let entry = self.enter(app, key, hash, now);
        if let Some(budget) = &self.budget {
            // One was taken, which is too much if the flow exists, is refused, or displaces one.
            budget.give_back(u64::from((before + 1).saturating_sub(self.table.len())));
        }
        entry
    }

    fn enter<A: App<Flow = F>>(
        &mut self,
        app: &mut A,
        key: &FlowKey,
        hash: TableHash,
        now: Tick,
    ) -> Option<(FlowId, bool)> {
        // An earlier packet of the burst may have inserted the flow since the lookup.
        let class = FlowTimeouts::class(false);
        let entry = if F::EVICTABLE {
            let mut evict = EvictUnestablished(app, &mut self.records);
            self.table.entry_or_evict(*key, hash, class, now, F::default, &mut evict)
        } else {
            self.table.entry_with(*key, hash, class, now, F::default)
        };
        let entry = entry.ok()?;
        if entry.is_new {
            self.records.counts.begun += 1;
            if let Some(starts) = &mut self.records.starts {
                starts.begin(entry.id, now);
            }
        }
        Some((entry.id, entry.is_new))
    }

    pub(crate) fn begun(&self) -> u64 {
        self.records.counts.begun
    }

    /// Ends flows whose idle timeout has passed, a few at a time. Returns whether more may remain.
    pub(crate) fn expire<A: App<Flow = F>>(&mut self, app: &mut A, time_ns: u64) -> bool {
        self.flush_if_requested();
        if !self.timeouts.is_set() {
            return false;
        }
        let Self { table, records, budget, .. } = self;
        let mut count = 0;
        let expired = table.expire(tick_of(time_ns), EXPIRE_BUDGET, &mut |id, key, mut state| {
            app.on_end(&key, &mut state, EndedBy::IdleTimeout);
            records.counts.expired += 1;
            count += 1;
            let span =
                records.starts.as_ref().map(|starts| Span { start: starts.start(id), last: Tick(0) });
            records.add(FlowRecord { key, state, ended: EndedBy::IdleTimeout }, span);
        });
        if let Some(budget) = budget {
            budget.give_back(count);
        }
        expired.more
    }

    #[inline]
    fn flush_if_requested(&mut self) {
        if let RecordOutput::Stream(sender) = &mut self.records.output {
            sender.flush_if_requested();
        }
    }
}

impl<F: FlowState, T: FlowTable<FlowKey, F> + Send + 'static> FlowStore for Flows<F, T> {
    #[inline]
    fn prefetch(&self, hashes: &[TableHash]) {
        for &hash in hashes {
            self.table.prefetch(hash);
        }
    }

    fn occupancy(&self) -> Occupancy {
        let Self { table, .. } = self;
        Occupancy {
            flows: table.len().into(),
            capacity: table.capacity().into(),
            bytes: table.memory().total_bytes(),
        }
    }

    #[cold]
    fn discard(&mut self, key: &FlowKey, hash: TableHash) {
        if let Some(state) = self.table.remove_key(key, hash) {
            self.records.counts.discarded += 1;
            if let Some(budget) = &self.budget {
                budget.give_back(1);
            }
            // What a panic left may panic again when it is dropped.
            let _ = caught(|| drop(state));
        }
    }

    fn flush_if_requested(&mut self) {
        Flows::flush_if_requested(self);
    }

    fn counts(&self) -> FlowCounts {
        self.records.counts
    }

    fn finish(self: Box<Self>) -> FlowsEnd {
        let Self { mut table, timeouts, records, refused, .. } = *self;
        let mut stats = table.stats();
        stats.refused += refused;
        let mut memory = table.memory();
        if memory.pages.huge_requested {
            memory.pages = table.pages_obtained();
        }
        let Records { output, ended: mut records, mut starts, counts } = records;
        // The drop sends the incomplete batch.
        drop(output);
        let ended = records.len();
        let live = table.len() as usize;
        records.reserve(live);
        let mut spans = Vec::new();
        if let Some(starts) = &mut starts {
            spans = std::mem::take(&mut starts.ended);
            spans.reserve(live);
        }
        let mut last_seen = Vec::with_capacity(if timeouts.is_set() { live } else { 0 });
        // The table is dropped as a whole afterwards; removing flows one by one would only write to
        // it needlessly.
        let mut cursor = Cursor::default();
        while let Some((id, next)) = table.next_live(cursor) {
            cursor = next;
            if timeouts.is_set() {
                let last = table.last_seen(id).unwrap_or_default();
                last_seen.push(last);
                if let Some(starts) = &starts {
                    spans.push(Span { start: starts.start(id), last });
                }
            }
            if let (Some(key), Some(state)) = (table.key_of(id), table.get_mut(id)) {
                records.push(FlowRecord { key, state: std::mem::take(state), ended: EndedBy::EndOfInput });
            }
        }
        let kept = KeptFlows { records, ended, spans, last_seen };
        FlowsEnd { table: stats, memory, counts, kept: Box::new(kept) }
    }
}

/// The results of a flow table.
#[derive(Debug)]
pub(crate) struct FlowsEnd {
    pub(crate) table: TableStats,
    pub(crate) memory: MemoryReport,
    pub(crate) counts: FlowCounts,
    /// [`KeptFlows`] of the application's state.
    pub(crate) kept: Box<dyn Any + Send>,
}

/// The flows that a table has left.
#[derive(Debug)]
pub(crate) struct KeptFlows<F> {
    /// Records of ended flows, then of flows that are live at the end.
    pub(crate) records: Vec<FlowRecord<F>>,
    /// The number of ended records.
    pub(crate) ended: usize,
    /// The times of the records, if they are kept.
    pub(crate) spans: Vec<Span>,
    /// The tick of the last packet of each live flow, if there is a timeout.
    pub(crate) last_seen: Vec<Tick>,
}

impl<F: FlowState> KeptFlows<F> {
    /// Marks the records of live flows whose timeout has passed at the end of the run, which the
    /// expiry wheel has not visited yet. Returns their number.
    pub(crate) fn time_out(&mut self, timeouts: FlowTimeouts, last_ns: u64) -> u64 {
        let mut expired = 0;
        for (record, &last) in self.records[self.ended..].iter_mut().zip(&self.last_seen) {
            let timeout = timeouts.timeout(record.state.is_closed());
            if timeout.is_some_and(|timeout| timeout.is_over(last, tick_of(last_ns))) {
                record.ended = EndedBy::IdleTimeout;
                expired += 1;
            }
        }
        expired
    }
}

//! Composes the summaries that consecutive parts have of their flows.

use std::cmp::Ordering;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::Tick;

use crate::app::{Composed, FlowState};
use crate::report::results::{EndedBy, FlowRecord, FlowResults, RecordPosition, Sorted, sort};
use crate::time::{FlowTimeouts, tick_of};
use crate::worker::flows::{KeptFlows, Span};

/// The records of one part, sorted.
#[derive(Debug)]
pub(crate) struct PartRecords<F> {
    records: Vec<FlowRecord<F>>,
    /// The number of ended records, which come first. The others are live at the end of the part.
    ended: usize,
    /// The times of the records. Empty if no timeout ends flows.
    spans: Vec<Span>,
    /// The records in the order of keys, then in order of time.
    sorted: Vec<Sorted>,
    /// Marks records that were merged into a record of a later part or replaced.
    removed: Vec<bool>,
}

impl<F> PartRecords<F> {
    /// Sorts the records that a table has left.
    pub(crate) fn new(records: Vec<FlowRecord<F>>, ended: usize, spans: Vec<Span>) -> Self {
        let mut sorted: Vec<Sorted> = Sorted::all(&records, 0).collect();
        sort(&mut sorted, |place| &records[place.at as usize].key);
        let removed = vec![false; records.len()];
        Self { records, ended, spans, sorted, removed }
    }

    /// Sets the chunk number of all entries.
    fn numbered(mut self, chunk: usize) -> Self {
        for entry in &mut self.sorted {
            let at = entry.place().at;
            entry.set_place(RecordPosition { chunk: chunk as u16, at });
        }
        self
    }

    fn is_live(&self, at: u32) -> bool {
        at as usize >= self.ended
    }

    /// Returns the entries of the flows that live at the end.
    fn live(&self) -> Vec<Sorted> {
        self.sorted.iter().filter(|entry| self.is_live(entry.place().at)).copied().collect()
    }
}

/// The result of joining a part.
#[derive(Debug)]
pub(crate) struct Joined {
    /// Flows that continue across the cut.
    pub(crate) flows: u64,
    /// Flows whose timeout ended between the two parts.
    pub(crate) expired: u64,
    /// Flows whose summaries do not determine the result.
    pub(crate) unresolved: Vec<FlowKey>,
}

/// The parts joined so far.
#[derive(Debug)]
pub(crate) struct Composer<F> {
    chunks: Vec<PartRecords<F>>,
    /// The flows that are live after the last part, in the order of keys.
    live: Vec<Sorted>,
    timeouts: FlowTimeouts,
}

impl<F: FlowState> Composer<F> {
    pub(crate) fn new(timeouts: FlowTimeouts) -> Self {
        Self { chunks: Vec::new(), live: Vec::new(), timeouts }
    }

    fn key(&self, place: RecordPosition) -> &FlowKey {
        &self.chunks[usize::from(place.chunk)].records[place.at as usize].key
    }

    fn record(&mut self, place: RecordPosition) -> &mut FlowRecord<F> {
        &mut self.chunks[usize::from(place.chunk)].records[place.at as usize]
    }

    /// Returns whether the timeout of a record has passed at `now`.
    fn is_over(&self, place: RecordPosition, now: Tick) -> bool {
        let state = &self.chunks[usize::from(place.chunk)].records[place.at as usize].state;
        let timeout = self.timeouts.timeout(self.timeouts.closed.is_some() && state.is_closed());
        timeout.is_some_and(|timeout| timeout.is_over(self.span(place).last, now))
    }

    fn state(&mut self, place: RecordPosition) -> &mut F {
        &mut self.record(place).state
    }

    fn span(&self, place: RecordPosition) -> Span {
        let spans = &self.chunks[usize::from(place.chunk)].spans;
        spans.get(place.at as usize).copied().unwrap_or_default()
    }

    fn remove(&mut self, place: RecordPosition) {
        self.chunks[usize::from(place.chunk)].removed[place.at as usize] = true;
    }

    /// Adds the next part, and composes the flows that continue from the parts before. Flows that
    /// cannot be composed keep separate records.
    pub(crate) fn join(
        &mut self,
        part: PartRecords<F>,
        mut compose: impl FnMut(&mut F, &mut F) -> Composed,
    ) -> Joined {
        let chunk = self.chunks.len();
        self.chunks.push(part.numbered(chunk));
        let mut joined = Joined { flows: 0, expired: 0, unresolved: Vec::new() };
        if chunk == 0 {
            self.live = self.chunks[0].live();
            return joined;
        }
        let earlier = std::mem::take(&mut self.live);
        let sorted = std::mem::take(&mut self.chunks[chunk].sorted);
        let mut live = Vec::with_capacity(earlier.len() + sorted.len());
        let mut before = earlier.iter().peekable();
        let groups = sorted.chunk_by(|a, b| a.compare(b, |place| self.key(place)) == Ordering::Equal);
        let mut both: Vec<(Sorted, &[Sorted])> = Vec::new();
        let mut expired = Vec::new();
        for group in groups {
            let (first, last) = (group[0], group[group.len() - 1]);
            let mut same = None;
            while let Some(&&entry) = before.peek() {
                match entry.compare(&first, |place| self.key(place)) {
                    Ordering::Less => live.push(entry),
                    Ordering::Equal => same = Some(entry),
                    Ordering::Greater => break,
                }
                before.next();
            }
            if let Some(entry) = same {
                if self.is_over(entry.place(), self.span(first.place()).start) {
                    expired.push(entry.place());
                } else {
                    both.push((entry, group));
                }
            }
            if self.chunks[chunk].is_live(last.place().at) {
                live.push(last);
            }
        }
        live.extend(before);
        joined.expired = expired.len() as u64;
        for place in expired {
            self.record(place).ended = EndedBy::IdleTimeout;
        }
        for (entry, group) in both {
            let (from, to) = (entry.place(), group[0].place());
            let mut state = std::mem::take(self.state(from));
            match compose(&mut state, self.state(to)) {
                Composed::Joined => {
                    joined.flows += 1;
                    *self.state(to) = state;
                    self.remove(from);
                    let start = self.span(from).start;
                    if let Some(span) = self.chunks[chunk].spans.get_mut(to.at as usize) {
                        span.start = start;
                    }
                }
                Composed::Apart => {
                    let record = self.record(from);
                    (record.state, record.ended) = (state, EndedBy::Application);
                }
                Composed::NeedsPackets => {
                    joined.unresolved.push(*self.key(from));
                    *self.state(from) = state;
                }
            }
        }
        self.chunks[chunk].sorted = sorted;
        self.live = live;
        joined
    }

    /// Ends the live flows whose timeout is over at the time of the latest packet, and returns how
    /// many these are.
    pub(crate) fn expire(&mut self, last_ns: u64) -> u64 {
        if !self.timeouts.is_set() {
            return 0;
        }
        let live = std::mem::take(&mut self.live);
        let (over, live): (Vec<_>, Vec<_>) =
            live.into_iter().partition(|entry| self.is_over(entry.place(), tick_of(last_ns)));
        self.live = live;
        for entry in &over {
            self.record(entry.place()).ended = EndedBy::IdleTimeout;
        }
        over.len() as u64
    }

    /// Returns the results of all parts, and how many live flows have timed out by the end of the
    /// input.
    pub(crate) fn finish(mut self, last_ns: u64) -> (FlowResults<F>, u64) {
        let timed_out = self.expire(last_ns);
        let parts = self.chunks.into_iter().map(|chunk| (chunk.records, chunk.removed));
        let (records, removed) = parts.unzip();
        (FlowResults::without(records, removed), timed_out)
    }
}

/// Receives the records of a run that is a part of a larger input, each with the ticks of its first
/// and last packet, and whether it is live at the end.
pub type RecordVisitor<'a, F> = &'a mut (dyn FnMut(&FlowRecord<F>, [u64; 2], bool) + Send);

/// Passes each record of a run's tables to `visit` in the order of keys, then in order of time,
/// with its span and whether it is live. A key has records in one table only.
pub(crate) fn visit<F>(tables: &[KeptFlows<F>], visit: RecordVisitor<'_, F>) {
    let record = |place: RecordPosition| &tables[usize::from(place.chunk)].records[place.at as usize];
    let mut sorted: Vec<Sorted> =
        tables.iter().zip(0..).flat_map(|(table, chunk)| Sorted::all(&table.records, chunk)).collect();
    sort(&mut sorted, |place| &record(place).key);
    for entry in sorted {
        let place = entry.place();
        let KeptFlows { spans, ended, .. } = &tables[usize::from(place.chunk)];
        let Span { start, last } = spans.get(place.at as usize).copied().unwrap_or_default();
        visit(record(place), [start.0, last.0], place.at as usize >= *ended);
    }
}

//! Composes the summaries that consecutive parts have of their flows.

use std::cmp::Ordering;

use flowloom_flow_key::FlowKey;
use flowloom_flow_table::Tick;

use crate::app::{Composed, FlowState};
use crate::report::results::{EndedBy, FlowRecord, FlowResults, Place, Sorted, sort};
use crate::time::{FlowTimeouts, tick_of};
use crate::worker::flows::Span;

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
            entry.set_place(Place { chunk: chunk as u16, at });
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

/// A flow that continues across a cut and is not composed yet.
#[derive(Debug)]
pub(crate) struct Crossing {
    pub(crate) key: FlowKey,
    /// The times of its record before the cut.
    pub(crate) span: Span,
    from: Place,
    /// Its records in the later part.
    group: Vec<Place>,
}

/// The result of joining a part.
#[derive(Debug)]
pub(crate) struct Joined<F> {
    /// Flows that continue across the cut.
    pub(crate) flows: u64,
    /// Flows whose timeout ended between the two parts.
    pub(crate) expired: u64,
    /// Flows whose summaries do not determine the result, with their states before the cut.
    pub(crate) unresolved: Vec<(Crossing, F)>,
}

/// The counts of the records that a replacement removed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removed {
    /// Records that the flows had in the part.
    pub(crate) records: u64,
    /// Timeouts that had ended records of the flows in the part.
    pub(crate) timeouts: u64,
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

    fn key(&self, place: Place) -> &FlowKey {
        &self.chunks[usize::from(place.chunk)].records[place.at as usize].key
    }

    fn record(&mut self, place: Place) -> &mut FlowRecord<F> {
        &mut self.chunks[usize::from(place.chunk)].records[place.at as usize]
    }

    /// Returns whether the timeout of a record has passed at `now`.
    fn is_over(&self, place: Place, now: Tick) -> bool {
        let state = &self.chunks[usize::from(place.chunk)].records[place.at as usize].state;
        let timeout = self.timeouts.of(self.timeouts.closed.is_some() && state.is_closed());
        timeout.is_some_and(|timeout| timeout.is_over(self.span(place).last, now))
    }

    fn state(&mut self, place: Place) -> &mut F {
        &mut self.record(place).state
    }

    fn span(&self, place: Place) -> Span {
        let spans = &self.chunks[usize::from(place.chunk)].spans;
        spans.get(place.at as usize).copied().unwrap_or_default()
    }

    fn remove(&mut self, place: Place) {
        self.chunks[usize::from(place.chunk)].removed[place.at as usize] = true;
    }

    /// Returns how many records of a key in a part ended by timeout.
    fn timeouts(&self, group: &[Place]) -> u64 {
        if !self.timeouts.is_set() {
            return 0;
        }
        let ended = |pair: &&[Place]| self.is_over(pair[0], self.span(pair[1]).start);
        let last = group[group.len() - 1];
        let is_last_ended = !self.chunks[usize::from(last.chunk)].is_live(last.at);
        group.windows(2).filter(ended).count() as u64 + u64::from(is_last_ended)
    }

    /// Adds the next part, and composes the flows that continue from the parts before.
    ///
    /// If `keeps_unresolved`, flows that cannot be composed keep separate records.
    pub(crate) fn join(
        &mut self,
        part: PartRecords<F>,
        keeps_unresolved: bool,
        mut compose: impl FnMut(&mut F, &mut F) -> Composed,
    ) -> Joined<F> {
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
            let has_closed_timeout = self.timeouts.closed.is_some();
            let composed = if has_closed_timeout && !state.closes_alike(self.state(to)) {
                Composed::NeedsPackets
            } else {
                compose(&mut state, self.state(to))
            };
            match composed {
                Composed::Joined => {
                    joined.flows += 1;
                    *self.state(to) = state;
                    self.remove(from);
                    let start = self.span(from).start;
                    if let Some(span) = self.chunks[chunk].spans.get_mut(to.at as usize) {
                        span.start = start;
                    }
                }
                Composed::NeedsPackets if !keeps_unresolved => {
                    let (key, span) = (*self.key(from), self.span(from));
                    let group = group.iter().map(Sorted::place).collect();
                    joined.unresolved.push((Crossing { key, span, from, group }, state));
                }
                Composed::Apart => {
                    let record = self.record(from);
                    (record.state, record.ended) = (state, EndedBy::Application);
                }
                Composed::NeedsPackets => *self.state(from) = state,
            }
        }
        self.chunks[chunk].sorted = sorted;
        self.live = live;
        joined
    }

    /// Returns the state of a flow's first record in the part.
    pub(crate) fn first(&self, flow: &Crossing) -> &F {
        let place = flow.group[0];
        &self.chunks[usize::from(place.chunk)].records[place.at as usize].state
    }

    /// Returns the number of packets that a flow has in the part, if its states count them.
    pub(crate) fn packets(&self, flow: &Crossing) -> Option<u64> {
        let of = |place: &Place| {
            self.chunks[usize::from(place.chunk)].records[place.at as usize].state.packet_count()
        };
        flow.group.iter().map(of).sum()
    }

    /// Makes `state` the record of both sides of the cut.
    pub(crate) fn complete(&mut self, flow: &Crossing, state: F) {
        let first = flow.group[0];
        *self.state(first) = state;
        self.remove(flow.from);
        let spans = &mut self.chunks[usize::from(first.chunk)].spans;
        if let Some(span) = spans.get_mut(first.at as usize) {
            span.start = flow.span.start;
        }
    }

    /// Replaces the records that some flows have in the last part by the records of the same flows
    /// processed again.
    pub(crate) fn replace(&mut self, flows: &[Crossing], again: PartRecords<F>) -> Removed {
        let mut removed = Removed::default();
        let mut gone = Vec::with_capacity(flows.len());
        for Crossing { from, group, .. } in flows {
            removed.records += group.len() as u64;
            removed.timeouts += self.timeouts(group);
            self.remove(*from);
            for place in group {
                self.remove(*place);
            }
            gone.push(group[group.len() - 1]);
        }
        gone.sort_unstable();
        self.live.retain(|entry| gone.binary_search(&entry.place()).is_err());
        let again = again.numbered(self.chunks.len());
        let mut added = again.live();
        self.chunks.push(again);
        added.append(&mut self.live);
        sort(&mut added, |place| self.key(place));
        self.live = added;
        removed
    }

    /// Passes each record to `visit` in the order of keys, then in order of time, with its span and
    /// whether it is live.
    pub(crate) fn for_each(&self, mut visit: impl FnMut(&FlowRecord<F>, Span, bool)) {
        let lists = self.chunks.iter().map(|chunk| {
            let is_there = |entry: &&Sorted| !chunk.removed[entry.place().at as usize];
            chunk.sorted.iter().filter(is_there).copied().collect()
        });
        let mut live = self.live.iter().map(Sorted::place).peekable();
        for entry in merge_all(lists.collect(), &|place| self.key(place)) {
            let place = entry.place();
            let record = &self.chunks[usize::from(place.chunk)].records[place.at as usize];
            visit(record, self.span(place), live.next_if_eq(&place).is_some());
        }
    }

    /// Passes the records that no later part continues to `push`. Those of live flows stay.
    pub(crate) fn take_ended(&mut self, mut push: impl FnMut(FlowRecord<F>)) {
        let live: Vec<Sorted> = std::mem::take(&mut self.live);
        let mut carried = PartRecords {
            records: Vec::with_capacity(live.len()),
            ended: 0,
            spans: Vec::with_capacity(if self.timeouts.is_set() { live.len() } else { 0 }),
            sorted: Vec::with_capacity(live.len()),
            removed: vec![false; live.len()],
        };
        for (mut entry, at) in live.into_iter().zip(0..) {
            let place = entry.place();
            if self.timeouts.is_set() {
                carried.spans.push(self.span(place));
            }
            carried.records.push(std::mem::take(self.record(place)));
            self.remove(place);
            entry.set_place(Place { chunk: 0, at });
            carried.sorted.push(entry);
        }
        let parts = std::mem::take(&mut self.chunks).into_iter();
        let (records, removed) = parts.map(|chunk| (chunk.records, chunk.removed)).unzip();
        FlowResults::without(records, removed).into_records().for_each(&mut push);
        self.live.clone_from(&carried.sorted);
        self.chunks.push(carried);
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

/// Merges sorted lists. Each list holds a later chunk than the lists before it.
fn merge_all<'a>(mut lists: Vec<Vec<Sorted>>, key: &impl Fn(Place) -> &'a FlowKey) -> Vec<Sorted> {
    while lists.len() > 1 {
        let mut merged = Vec::with_capacity(lists.len().div_ceil(2));
        let mut pairs = lists.into_iter();
        while let Some(first) = pairs.next() {
            merged.push(match pairs.next() {
                Some(second) => merge(&first, &second, key),
                None => first,
            });
        }
        lists = merged;
    }
    lists.pop().unwrap_or_default()
}

/// Merges two sorted lists. Of equal keys those of the first list come first.
fn merge<'a>(first: &[Sorted], second: &[Sorted], key: &impl Fn(Place) -> &'a FlowKey) -> Vec<Sorted> {
    let mut merged = Vec::with_capacity(first.len() + second.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(a), Some(b)) = (first.get(i), second.get(j)) {
        if a.compare(b, key) == Ordering::Greater {
            merged.push(*b);
            j += 1;
        } else {
            merged.push(*a);
            i += 1;
        }
    }
    merged.extend_from_slice(&first[i..]);
    merged.extend_from_slice(&second[j..]);
    merged
}

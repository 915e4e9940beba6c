//! From a burst of keys to flows to the application: the same for inline mode and for workers.

use flowloom_flow_key::{Direction, FlowKey};
use flowloom_flow_table::{Cursor, FlowId, FlowTable, Tick, TimeoutClass};
use flowloom_packet::{BATCH_PACKETS, DropReason, Headers, PacketView};

use crate::app::{App, Verdict};
use crate::counters::WorkerCounters;
use crate::results::FlowRecord;
use crate::time::{IdleTimeout, tick_of};

/// Wheel entries looked at per burst, so that ageing never makes a burst long.
const EXPIRE_BUDGET: u32 = 32;

/// What a burst keeps of a packet beside its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) position: u64,
    pub(crate) time_ns: u64,
    pub(crate) captured: u32,
    pub(crate) wire: u32,
    network_offset: u32,
    transport_offset: u32,
    payload_offset: u32,
    payload_bytes: u32,
    direction: Direction,
    tcp_flags: u8,
    later_fragment: bool,
}

impl Pending {
    const NONE: Self = Self {
        position: 0,
        time_ns: 0,
        captured: 0,
        wire: 0,
        network_offset: 0,
        transport_offset: 0,
        payload_offset: 0,
        payload_bytes: 0,
        direction: Direction::LowToHigh,
        tcp_flags: 0,
        later_fragment: false,
    };

    fn headers(&self, key: FlowKey) -> Headers {
        Headers {
            key,
            direction: self.direction,
            tcp_flags: self.tcp_flags,
            later_fragment: self.later_fragment,
            network_offset: self.network_offset,
            transport_offset: self.transport_offset,
            payload_offset: self.payload_offset,
            payload_bytes: self.payload_bytes,
        }
    }
}

/// Where a packet lies and when it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) position: u64,
    pub(crate) time_ns: u64,
    pub(crate) captured: u32,
    pub(crate) wire: u32,
}

/// Packets that are looked up together, at most [`BATCH_PACKETS`].
#[derive(Debug)]
pub(crate) struct Burst {
    len: usize,
    keys: [FlowKey; BATCH_PACKETS],
    hashes: [u64; BATCH_PACKETS],
    packets: [Pending; BATCH_PACKETS],
}

impl Burst {
    /// Returns an empty burst.
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [FlowKey::default(); BATCH_PACKETS],
            hashes: [0; BATCH_PACKETS],
            packets: [Pending::NONE; BATCH_PACKETS],
        }
    }

    /// Adds a packet, each part of it written once and where it stays.
    #[inline(always)]
    pub(crate) fn push(&mut self, hash: u64, headers: &Headers, place: Place) {
        let at = self.len;
        assert!(at < BATCH_PACKETS, "a burst is run before it is filled again");
        self.len = at + 1;
        self.keys[at] = headers.key;
        self.hashes[at] = hash;
        self.packets[at] = Pending {
            position: place.position,
            time_ns: place.time_ns,
            captured: place.captured,
            wire: place.wire,
            network_offset: headers.network_offset,
            transport_offset: headers.transport_offset,
            payload_offset: headers.payload_offset,
            payload_bytes: headers.payload_bytes,
            direction: headers.direction,
            tcp_flags: headers.tcp_flags,
            later_fragment: headers.later_fragment,
        };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// One worker's table and application.
#[derive(Debug)]
pub(crate) struct FlowStage<A: App, T> {
    app: A,
    table: T,
    ids: [Option<FlowId>; BATCH_PACKETS],
    idle_timeout: Option<IdleTimeout>,
    records_max: usize,
    ended: Vec<FlowRecord<A::Flow>>,
    counters: WorkerCounters,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> FlowStage<A, T> {
    pub(crate) fn new(app: A, table: T, idle_timeout: Option<IdleTimeout>, records_max: usize) -> Self {
        Self {
            app,
            table,
            ids: [None; BATCH_PACKETS],
            idle_timeout,
            records_max,
            ended: Vec::new(),
            counters: WorkerCounters::default(),
        }
    }

    /// Hints that a packet of this hash is about to be looked up.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Finds the flow of each packet, runs the application on it, and empties the burst.
    #[inline]
    pub(crate) fn run(&mut self, block: &[u8], burst: &mut Burst) {
        let count = burst.len;
        self.table.lookup_batch(&burst.keys[..count], &burst.hashes[..count], &mut self.ids[..count]);
        // A flow that is to begin writes to a state that nobody has touched for long: all such lines of the burst
        // are asked for before the first is written.
        for (i, found) in self.ids[..count].iter().enumerate() {
            if found.is_none() {
                self.table.prefetch_vacancy(&burst.keys[i], burst.hashes[i]);
            }
        }
        for (i, packet) in burst.packets[..count].iter().enumerate() {
            let now = tick_of(packet.time_ns);
            let found = self.ids[i].map(|id| (id, false));
            let Some((flow, is_new)) = found.or_else(|| self.begin(&burst.keys[i], burst.hashes[i], now))
            else {
                self.counters.dropped.count(DropReason::TableFull);
                continue;
            };
            let start = packet.position as usize;
            let bytes = block.get(start..start + packet.captured as usize);
            let view = PacketView {
                bytes: bytes.unwrap_or_default(),
                headers: packet.headers(burst.keys[i]),
                time_ns: packet.time_ns,
                wire_bytes: packet.wire,
            };
            let Some((state, last_seen)) = self.table.get_mut_touch(flow, now) else {
                unreachable!(
                    "the flow was found or made a moment ago, and nothing removes flows in between"
                )
            };
            let was_idle = self.idle_timeout.is_some_and(|timeout| timeout.is_over(last_seen, now));
            if was_idle || (!is_new && self.app.ends_before(&view, state)) {
                // This packet begins another flow of the same key. Judged by the flow's own times, so the cut
                // does not depend on workers or on when the wheel turns.
                let ended = std::mem::take(state);
                self.counters.flows_expired += u64::from(was_idle);
                self.counters.flows_begun += 1;
                keep(&mut self.ended, self.records_max, &mut self.counters, burst.keys[i], ended);
            }
            if self.app.on_packet(&view, state) == Verdict::Deny {
                self.counters.denied += 1;
            }
            self.counters.processed += 1;
        }
        if let (Some(_), Some(last)) = (self.idle_timeout, burst.packets[..count].last()) {
            self.expire(tick_of(last.time_ns));
        }
        burst.len = 0;
    }

    /// Begins the flow of a key that the batch lookup has not found; says whether it is new.
    #[inline(never)]
    fn begin(&mut self, key: &FlowKey, hash: u64, now: Tick) -> Option<(FlowId, bool)> {
        // An earlier packet of the burst may have begun the flow since the lookup.
        let entry = self.table.entry_with(*key, hash, TimeoutClass(0), now, A::Flow::default).ok()?;
        if entry.is_new {
            self.counters.flows_begun += 1;
        }
        Some((entry.id, entry.is_new))
    }

    fn expire(&mut self, now: Tick) {
        let Self { table, ended, records_max, counters, .. } = self;
        table.expire(now, EXPIRE_BUDGET, &mut |_, key, state| {
            counters.flows_expired += 1;
            keep(ended, *records_max, counters, key, state);
        });
    }

    /// Counts a packet that was sent here and could not be read.
    pub(crate) fn lose(&mut self, reason: DropReason) {
        self.counters.dropped.count(reason);
    }

    /// Ends the stage: returns its counters, its table's figures, and one record per flow, oldest record of a key first.
    pub(crate) fn finish(mut self) -> StageResult<A::Flow> {
        let stats = self.table.stats();
        let memory = self.table.memory();
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
        StageResult { counters: self.counters, records, table: stats, memory }
    }
}

fn keep<F>(
    ended: &mut Vec<FlowRecord<F>>,
    records_max: usize,
    counters: &mut WorkerCounters,
    key: FlowKey,
    state: F,
) {
    if ended.len() < records_max {
        ended.push(FlowRecord { key, state });
    } else {
        counters.records_forgotten += 1;
    }
}

/// What a stage leaves.
#[derive(Debug)]
pub(crate) struct StageResult<F> {
    pub(crate) counters: WorkerCounters,
    pub(crate) records: Vec<FlowRecord<F>>,
    pub(crate) table: flowloom_flow_table::TableStats,
    pub(crate) memory: flowloom_flow_table::MemoryReport,
}

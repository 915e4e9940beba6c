//! Looks up the flows of a burst of packets and runs the application on them. The inline layout and
//! workers with their own flows share this code.

use flowloom_flow_key::FlowKey;
use flowloom_flow_key::TableHash;
use flowloom_flow_table::{FlowId, FlowTable};
use flowloom_packet::arena::{OpenBlock, bytes_at};
use flowloom_packet::{BATCH_PACKETS, Headers, PacketView};

use crate::app::{App, Outcome};
use crate::batch::packet::{HeaderFields, PacketPlace};
use crate::batch::pool::BATCH_DESCRIPTORS;
use crate::report::counters::WorkerCounters;
use crate::worker::flows::{Flows, FlowsEnd};

/// The data that a burst keeps per packet in addition to its key.
#[derive(Clone, Copy, Debug)]
struct Pending {
    place: PacketPlace,
    fields: HeaderFields,
}

impl Pending {
    const NONE: Self = Self {
        place: PacketPlace { position: 0, time_ns: 0, captured: 0, wire: 0, number: 0 },
        fields: HeaderFields::NONE,
    };
}

/// Packets that are looked up together, at most [`BATCH_PACKETS`].
#[derive(Debug)]
pub(crate) struct Burst {
    len: usize,
    keys: [FlowKey; BATCH_PACKETS],
    hashes: [TableHash; BATCH_PACKETS],
    packets: [Pending; BATCH_PACKETS],
}

impl Burst {
    /// Returns an empty burst.
    pub(crate) fn new() -> Self {
        Self {
            len: 0,
            keys: [FlowKey::default(); BATCH_PACKETS],
            hashes: [TableHash::default(); BATCH_PACKETS],
            packets: [Pending::NONE; BATCH_PACKETS],
        }
    }

    /// Adds a packet. Each field is written once, in its final place.
    #[inline(always)]
    pub(crate) fn push(&mut self, hash: TableHash, headers: &Headers, place: PacketPlace) {
        let at = self.len;
        assert!(at < BATCH_PACKETS, "a burst is run before it is filled again");
        self.len = at + 1;
        self.keys[at] = headers.key;
        self.hashes[at] = hash;
        self.packets[at] = Pending { place, fields: HeaderFields::of(headers) };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Empties the burst. Returns the keys and hashes that it held.
    pub(crate) fn take(&mut self) -> (&[FlowKey], &[TableHash]) {
        let count = std::mem::take(&mut self.len);
        (&self.keys[..count], &self.hashes[..count])
    }
}

/// The value for "no packet".
const NO_PACKET: u64 = u64::MAX;

/// An application and its counters: a stage without the flows.
#[derive(Debug)]
pub(crate) struct AppRunner<A> {
    app: A,
    ids: [Option<FlowId>; BATCH_DESCRIPTORS],
    pub(crate) counters: WorkerCounters,
    /// Flows that began with its packets.
    pub(crate) begun: u64,
    /// The number of the packet that the application is processing.
    at: u64,
}

impl<A: App> AppRunner<A> {
    pub(crate) fn new(app: A) -> Self {
        let counters = WorkerCounters::default();
        Self { app, ids: [None; BATCH_DESCRIPTORS], counters, begun: 0, at: NO_PACKET }
    }

    /// Returns the application, for calls that concern no packet.
    pub(crate) fn app_mut(&mut self) -> &mut A {
        &mut self.app
    }

    /// Returns the number of the packet that the application is processing.
    pub(crate) fn at(&self) -> Option<u64> {
        (self.at != NO_PACKET).then_some(self.at)
    }

    /// Continues after a panic of the application. Returns the number of the packet that it was
    /// processing; `None` if it was not processing any.
    pub(crate) fn recover(&mut self) -> Option<u64> {
        let at = self.at();
        self.at = NO_PACKET;
        at
    }

    /// Finds the flows of at most [`BATCH_DESCRIPTORS`] packets, runs the application on each, and
    /// passes the application and the packet's index and outcome to `done`. `packet` returns the
    /// number and the view of a packet. The caller has prefetched the table's lines for all hashes.
    #[inline(always)]
    pub(crate) fn work<'b, T: FlowTable<FlowKey, A::Flow>>(
        &mut self,
        flows: &mut Flows<A::Flow, T>,
        (keys, hashes): (&[FlowKey], &[TableHash]),
        packet: impl Fn(usize) -> (u64, PacketView<'b>),
        mut done: impl FnMut(&mut A, usize, &PacketView<'_>, Outcome),
    ) {
        let begun_before = flows.begun();
        let ids = &mut self.ids[..keys.len()];
        flows.table.lookup_batch_prefetched(keys, hashes, ids, ignore_value);
        // A new flow writes to a state that was not touched for long. Prefetch all such lines of
        // the burst before the first write.
        for (i, found) in ids.iter().enumerate() {
            if found.is_none() {
                flows.table.prefetch_vacancy(&keys[i], hashes[i]);
            }
        }
        for i in 0..keys.len() {
            let (number, view) = packet(i);
            self.at = number;
            let outcome =
                flows.process(&mut self.app, self.ids[i], (&keys[i], hashes[i]), view.time_ns, &view);
            self.counters.count(outcome);
            done(&mut self.app, i, &view, outcome);
        }
        self.begun += flows.begun() - begun_before;
        self.at = NO_PACKET;
    }
}

/// Ignores the value of a found flow. A closure would have a different type in each caller, and the
/// compiler would generate the lookup for each of them.
fn ignore_value<V>(_: usize, _: &V) {}

/// One worker's table and application.
#[derive(Debug)]
pub(crate) struct FlowStage<A: App, T> {
    pub(crate) runner: AppRunner<A>,
    pub(crate) flows: Flows<A::Flow, T>,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow>> FlowStage<A, T> {
    pub(crate) fn new(app: A, flows: Flows<A::Flow, T>) -> Self {
        Self { runner: AppRunner::new(app), flows }
    }

    /// Prefetches the table's lines for a hash.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: TableHash) {
        self.flows.table.prefetch(hash);
    }

    /// Finds the flow of each packet, runs the application on it, passes the outcome to `done`, and
    /// empties the burst.
    #[inline]
    pub(crate) fn run(
        &mut self,
        block: OpenBlock<'_>,
        burst: &mut Burst,
        done: &mut impl FnMut(&PacketView<'_>, PacketPlace, Outcome),
    ) {
        let count = std::mem::take(&mut burst.len);
        let (keys, packets) = (&burst.keys[..count], &burst.packets[..count]);
        self.runner.work(
            &mut self.flows,
            (keys, &burst.hashes[..count]),
            |i| {
                let place = packets[i].place;
                let bytes = bytes_at(block.bytes, place.position, place.captured);
                let headers = packets[i].fields.headers(keys[i]);
                let view = PacketView::new(bytes, headers, place.time_ns, place.wire);
                (place.number, view.with_fragments(block.fragments))
            },
            |_, i, view, outcome| done(view, packets[i].place, outcome),
        );
        if let Some(last) = packets.last() {
            self.flows.expire(last.place.time_ns);
        }
    }

    /// Returns the current counters.
    pub(crate) fn counters(&self) -> WorkerCounters {
        let mut counters = self.runner.counters.clone();
        counters.add_flows(self.flows.counts());
        counters
    }

    /// Ends the stage. Returns its table's statistics and its records, the oldest record of a key
    /// first.
    pub(crate) fn finish(self) -> FlowsEnd<A::Flow> {
        // Drop the application first: if it panicked after the results exist, they would never be
        // dropped.
        drop(self.runner);
        self.flows.finish()
    }
}

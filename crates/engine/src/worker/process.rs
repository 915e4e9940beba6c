//! Looks up the flows of a burst of packets and runs the application on them. The inline layout and
//! workers with their own flows share this code.
//!
//! ```text
//! for each burst of at most 32 packets, whose index lines were prefetched as they were decoded:
//!     look up all keys at once                                  ids of known flows
//!     for each key without a flow: prefetch the state that a new flow would get
//!     for each packet, in order:
//!         flow = the known one, or a new one                    no space: the packet is dropped
//!         if the flow was idle for its timeout, or the application begins a new record:
//!             end the record, begin another                     the ended one goes to the results
//!         verdict = application(packet, state)
//!         if the application has closed the flow: change its timeout class
//!         count the outcome, and pass it to `done`              the reorder buffer, or a wire
//!     end a few flows whose timeout has passed                  by the time of the last packet
//! ```

use std::any::Any;
use std::marker::PhantomData;

use flowloom_flow_key::{Direction, FlowKey, TableHash};
use flowloom_flow_table::{FlowId, FlowTable};
use flowloom_packet::arena::{OpenBlock, bytes_at};
use flowloom_packet::wire::{Decision, Frame};
use flowloom_packet::{BATCH_PACKETS, DropReason, Headers, PacketView};

use crate::app::{Actions, App, Outcome, Verdict};
use crate::batch::packet::{HeaderFields, PacketDescriptor, PacketPlace};
use crate::batch::pool::BATCH_DESCRIPTORS;
use crate::exchange::chunk::{OpenChunk, Words};
use crate::report::counters::WorkerCounters;
use crate::worker::flows::{FlowStore, Flows, FlowsEnd};

/// The data that a burst keeps per packet in addition to its key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) place: PacketPlace,
    fields: HeaderFields,
}

impl Pending {
    /// The value of a slot that holds no packet yet.
    fn none() -> Self {
        let place = PacketPlace { position: 0, time_ns: 0, stamped_ns: 0, captured: 0, wire: 0, number: 0 };
        let headers = Headers::new(FlowKey::default(), Direction::LowToHigh);
        Self { place, fields: HeaderFields::from_headers(&headers) }
    }

    #[inline(always)]
    fn view<'b>(&self, key: FlowKey, block: OpenBlock<'b>) -> (u64, PacketView<'b>) {
        let place = self.place;
        let bytes = bytes_at(block.bytes, place.position, place.captured);
        let view = PacketView::new(bytes, self.fields.headers(key), place.time_ns, place.wire);
        (place.number, view.with_stamp(place.stamped_ns).with_fragments(block.fragments))
    }
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
            packets: [Pending::none(); BATCH_PACKETS],
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
        self.packets[at] = Pending { place, fields: HeaderFields::from_headers(headers) };
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the hashes of the packets from `at` on.
    pub(crate) fn hashes_from(&self, at: usize) -> &[TableHash] {
        &self.hashes[at.min(self.len)..self.len]
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Returns the numbers of the packets.
    pub(crate) fn numbers(&self) -> [u64; BATCH_PACKETS] {
        self.packets.map(|packet| packet.place.number)
    }

    /// Empties the burst. Returns the keys and hashes that it held.
    pub(crate) fn take(&mut self) -> (&[FlowKey], &[TableHash]) {
        let count = std::mem::take(&mut self.len);
        (&self.keys[..count], &self.hashes[..count])
    }
}

/// The value for "no packet".
const NO_PACKET: u64 = u64::MAX;

/// The packets of a burst, as the stage has them that looks them up together.
pub(crate) enum Packets<'p, 'b> {
    /// Packets of one block.
    Burst(&'p [Pending], OpenBlock<'b>),
    /// Packets of a chunk.
    Listed(&'p [Words], &'p OpenChunk<'b>),
    /// A function returns the number and the view of each.
    Each(&'p dyn Fn(usize) -> (u64, PacketView<'b>)),
}

/// Receives the outcome of each packet of a burst, with the application and the packet's index.
pub(crate) type Done<'d> = dyn FnMut(&mut dyn Decider, usize, &PacketView<'_>, Outcome) + 'd;

/// What an application decides beside its verdicts: see [`App`].
pub(crate) trait Decider {
    /// See [`App::decide`].
    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision;

    /// See [`App::on_frame_without_flow`].
    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision;

    /// See [`App::on_wire_time`].
    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions);
}

impl<A: App> Decider for A {
    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
        App::decide(self, packet, verdict, actions)
    }

    fn on_frame_without_flow(
        &mut self,
        frame: &Frame<'_>,
        reason: DropReason,
        actions: &mut Actions,
    ) -> Decision {
        App::on_frame_without_flow(self, frame, reason, actions)
    }

    fn on_wire_time(&mut self, time_ns: u64, actions: &mut Actions) {
        App::on_wire_time(self, time_ns, actions);
    }
}

/// The counts of an application's packets.
#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) counters: WorkerCounters,
    /// Flows that began with its packets.
    pub(crate) begun: u64,
    /// Whether the application is called because of time.
    is_in_time: bool,
    /// The number of the packet that the application is processing.
    at: u64,
}

/// An application for flows in one type of table. Only this trait's loop over a burst is compiled
/// for each pair of the two; what calls it is compiled once.
trait RunBurst: Send {
    fn run(
        &mut self,
        flows: &mut dyn FlowStore,
        burst: (&[FlowKey], &[TableHash]),
        packets: &Packets<'_, '_>,
        tally: &mut Tally,
        done: Option<&mut Done<'_>>,
    );

    /// Ends flows whose idle timeout has passed, in at most so many steps.
    fn expire(&mut self, flows: &mut dyn FlowStore, time_ns: u64, steps: u32);

    fn decider(&mut self) -> &mut dyn Decider;
}

struct Bound<A, T> {
    app: A,
    ids: [Option<FlowId>; BATCH_DESCRIPTORS],
    table: PhantomData<fn(T)>,
}

impl<A: App, T: FlowTable<FlowKey, A::Flow> + Send + 'static> Bound<A, T> {
    #[inline(always)]
    fn run_with<'b>(
        &mut self,
        flows: &mut Flows<A::Flow, T>,
        (keys, hashes): (&[FlowKey], &[TableHash]),
        packet: impl Fn(usize) -> (u64, PacketView<'b>),
        tally: &mut Tally,
        mut done: impl FnMut(&mut A, usize, &PacketView<'_>, Outcome),
    ) {
        for i in 0..keys.len() {
            let (number, view) = packet(i);
            tally.at = number;
            let outcome =
                flows.process(&mut self.app, self.ids[i], (&keys[i], hashes[i]), view.time_ns, &view);
            tally.counters.count(outcome);
            done(&mut self.app, i, &view, outcome);
        }
    }
}

impl<A: App, T: FlowTable<FlowKey, A::Flow> + Send + 'static> RunBurst for Bound<A, T> {
    fn run(
        &mut self,
        flows: &mut dyn FlowStore,
        (keys, hashes): (&[FlowKey], &[TableHash]),
        packets: &Packets<'_, '_>,
        tally: &mut Tally,
        done: Option<&mut Done<'_>>,
    ) {
        let flows = typed::<A, T>(flows);
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
        // The compiler omits what the application does not read of a view, unless `done` may
        // read it.
        let unseen = |_: &mut A, _: usize, _: &PacketView<'_>, _: Outcome| {};
        let burst = (keys, hashes);
        match (packets, done) {
            (&Packets::Burst(pending, block), None) => {
                self.run_with(flows, burst, |i| pending[i].view(keys[i], block), tally, unseen);
            }
            (&Packets::Listed(words, open), None) => {
                self.run_with(flows, burst, |i| listed(&words[i], open), tally, unseen);
            }
            (packets, done) => {
                let mut done = done;
                let packet = |i: usize| match *packets {
                    Packets::Burst(pending, block) => pending[i].view(keys[i], block),
                    Packets::Listed(words, open) => listed(&words[i], open),
                    Packets::Each(packet) => packet(i),
                };
                self.run_with(flows, burst, packet, tally, |app, i, view, outcome| {
                    if let Some(done) = &mut done {
                        done(app, i, view, outcome);
                    }
                });
            }
        }
        tally.begun += flows.begun() - begun_before;
        tally.at = NO_PACKET;
    }

    fn expire(&mut self, flows: &mut dyn FlowStore, time_ns: u64, steps: u32) {
        let flows = typed::<A, T>(flows);
        self.app.on_time(time_ns);
        for _ in 0..steps {
            if !flows.expire(&mut self.app, time_ns) {
                break;
            }
        }
    }

    fn decider(&mut self) -> &mut dyn Decider {
        &mut self.app
    }
}

#[inline(always)]
fn listed<'b>(words: &Words, open: &OpenChunk<'b>) -> (u64, PacketView<'b>) {
    open.view(&PacketDescriptor::of_words(words))
}

fn typed<A: App, T: 'static>(flows: &mut dyn FlowStore) -> &mut Flows<A::Flow, T> {
    let flows: &mut dyn Any = flows;
    flows
        .downcast_mut()
        .unwrap_or_else(|| unreachable!("a run builds its flows and its applications for the same table"))
}

/// Ignores the value of a found flow. A closure would have a different type in each caller, and the
/// compiler would generate the lookup for each of them.
fn ignore_value<V>(_: usize, _: &V) {}

/// An application and its counts: a stage without the flows.
pub(crate) struct AppRunner<'a> {
    bound: Box<dyn RunBurst + 'a>,
    pub(crate) tally: Tally,
}

impl<'a> AppRunner<'a> {
    /// Returns an application for flows in tables of type `T`.
    pub(crate) fn new<A, T>(app: A) -> Self
    where
        A: App + 'a,
        T: FlowTable<FlowKey, A::Flow> + Send + 'static,
    {
        let bound = Bound { app, ids: [None; BATCH_DESCRIPTORS], table: PhantomData::<fn(T)> };
        let tally =
            Tally { counters: WorkerCounters::default(), begun: 0, is_in_time: false, at: NO_PACKET };
        Self { bound: Box::new(bound), tally }
    }

    /// Returns the application, for calls that concern no packet.
    pub(crate) fn decider(&mut self) -> &mut dyn Decider {
        self.bound.decider()
    }

    /// Returns the number of the packet that the application is processing.
    pub(crate) fn at(&self) -> Option<u64> {
        (self.tally.at != NO_PACKET).then_some(self.tally.at)
    }

    /// Returns whether the application is being called.
    pub(crate) fn is_called(&self) -> bool {
        self.tally.is_in_time || self.at().is_some()
    }

    /// Continues after a panic of the application. Returns the number of the packet that it was
    /// processing; `None` if it was not processing any.
    pub(crate) fn recover(&mut self) -> Option<u64> {
        let at = self.at();
        self.tally.at = NO_PACKET;
        at
    }

    /// Finds the flows of at most [`BATCH_DESCRIPTORS`] packets, runs the application on each, and
    /// passes the outcome to `done`. The caller has prefetched the table's lines for all hashes.
    #[inline]
    pub(crate) fn work(
        &mut self,
        flows: &mut dyn FlowStore,
        burst: (&[FlowKey], &[TableHash]),
        packets: &Packets<'_, '_>,
        done: Option<&mut Done<'_>>,
    ) {
        self.bound.run(flows, burst, packets, &mut self.tally, done);
    }

    /// Ends a few of the flows whose idle timeout has passed.
    #[inline]
    pub(crate) fn expire(&mut self, flows: &mut dyn FlowStore, time_ns: u64) {
        self.tally.is_in_time = true;
        self.bound.expire(flows, time_ns, 1);
        self.tally.is_in_time = false;
    }

    /// Ends flows by the time that passes while no packets arrive, and sends their records.
    pub(crate) fn pass_time(&mut self, flows: &mut dyn FlowStore, time_ns: u64) {
        /// Maximum number of steps at a time, so that packets never wait long.
        const STEPS: u32 = 256;
        flows.flush_if_requested();
        self.tally.is_in_time = true;
        self.bound.expire(flows, time_ns, STEPS);
        self.tally.is_in_time = false;
    }
}

/// One worker's table and application.
pub(crate) struct FlowStage<'a> {
    pub(crate) runner: AppRunner<'a>,
    pub(crate) flows: Box<dyn FlowStore>,
}

impl FlowStage<'_> {
    /// Finds the flow of each packet, runs the application on it, passes the outcome to `done`, and
    /// empties the burst.
    pub(crate) fn run(&mut self, block: OpenBlock<'_>, burst: &mut Burst, done: Option<&mut Done<'_>>) {
        let count = std::mem::take(&mut burst.len);
        let packets = &burst.packets[..count];
        self.runner.work(
            &mut *self.flows,
            (&burst.keys[..count], &burst.hashes[..count]),
            &Packets::Burst(packets, block),
            done,
        );
        if let Some(last) = packets.last() {
            self.runner.expire(&mut *self.flows, last.place.time_ns);
        }
    }

    /// Ends flows by the time that passes while no packets arrive, and sends their records.
    pub(crate) fn pass_time(&mut self, time_ns: u64) {
        self.runner.pass_time(&mut *self.flows, time_ns);
    }

    /// Returns the current counters.
    pub(crate) fn counters(&self) -> WorkerCounters {
        let mut counters = self.runner.tally.counters.clone();
        counters.add_flows(self.flows.counts());
        counters
    }

    /// Ends the stage. Returns its table's statistics and its records, the oldest record of a key
    /// first.
    pub(crate) fn finish(self) -> FlowsEnd {
        // Drop the application first: if it panicked after the results exist, they would never be
        // dropped.
        drop(self.runner);
        self.flows.finish()
    }
}

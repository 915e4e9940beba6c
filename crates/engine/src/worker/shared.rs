//! A worker on flows that all workers share, for policies that move flows or keep no order.

use flowloom_flow_key::TableHash;
use std::sync::Arc;

use flowloom_flow_key::FlowKey;
use flowloom_packet::PacketView;

use super::{Worker, WorkerCounted, WorkerOutput};
use crate::batch::packet::PacketDescriptor;
use crate::batch::pool::{BATCH_DESCRIPTORS, Open, Parked, Received};
use crate::dispatch::ring::{Completed, Inbox};
use crate::shard_count::shard_of;
use crate::stage::poll::Polled;
use crate::worker::flows::FlowsEnd;
use crate::worker::process::{AppRunner, Packets};
use crate::worker::shards::{Entered, Shard, SharedFlows, SilentTime};

/// Maximum number of packets taken at a time. The worker processes those of one shard together.
const CHUNK: usize = 255;
/// Attempts to lock busy shards before the thread blocks on one. Blocking takes a system call on
/// both sides and an interrupt between them. With 64 attempts threads slept six times as often,
/// because most holders keep a shard for longer.
const ROUNDS: usize = 512;

pub(crate) struct SharedWorker<'a> {
    inbox: Inbox,
    runner: SharedRunner<'a>,
    /// The state for processing each shard in arrival order, or `None` without an order.
    in_order: Option<InOrder>,
    received: Received,
    taken: u64,
    taken_bytes: u64,
}

/// The data for processing the packets of a shard in arrival order, including packets sent to other
/// workers.
pub(crate) struct InOrder {
    /// The index of this worker.
    worker: u16,
    /// The progress of each worker.
    progress: Vec<Completed>,
    /// Packets and bytes completed for each worker since the last publication.
    completed: Vec<(u64, u64)>,
    /// Packets completed for each worker.
    processed_for: Vec<u64>,
    parked: Vec<Parked>,
}

impl InOrder {
    pub(crate) fn new(worker: u16, progress: Vec<Completed>) -> Self {
        let workers = progress.len();
        Self {
            worker,
            progress,
            completed: vec![(0, 0); workers],
            processed_for: vec![0; workers],
            parked: Vec::with_capacity(BATCH_DESCRIPTORS),
        }
    }

    fn count(&mut self, worker: u16, bytes: u32) {
        let (packets, all_bytes) = &mut self.completed[usize::from(worker)];
        *packets += 1;
        *all_bytes += u64::from(bytes);
    }

    fn publish(&mut self) {
        for (i, completed) in self.completed.iter_mut().enumerate() {
            let (packets, bytes) = std::mem::take(completed);
            if packets > 0 {
                self.processed_for[i] += packets;
                self.progress[i].add(packets, bytes);
            }
        }
    }
}

/// Processes packets of flows that all workers share.
pub(crate) struct SharedRunner<'a> {
    runner: AppRunner<'a>,
    pub(crate) flows: Arc<SharedFlows>,
    output: WorkerOutput<'a>,
    keys: [FlowKey; BATCH_DESCRIPTORS],
    hashes: [TableHash; BATCH_DESCRIPTORS],
    lists: Lists,
    /// The record thread's request count when this worker last sent the records of all shards.
    epoch: u64,
    silent_time: SilentTime,
}

/// The packets of a chunk, in one list for each shard.
struct Lists {
    /// The last packet in each shard's list. All are `NONE` between two chunks.
    last: Box<[u8]>,
    /// The next packet in the list of a packet's shard.
    next: [u8; CHUNK],
    /// The first packet of each list.
    first: Vec<u8>,
}

/// The index that means "no packet".
const NONE: u8 = u8::MAX;
const _: () = assert!(CHUNK <= NONE as usize, "a place in a chunk is a byte");

impl Lists {
    fn new(shards: usize) -> Self {
        Self {
            last: vec![NONE; shards].into_boxed_slice(),
            next: [NONE; CHUNK],
            first: Vec::with_capacity(CHUNK),
        }
    }

    /// Adds packet `i` to the list of its shard. Returns whether it is the first of the list.
    #[inline]
    fn add(&mut self, i: usize, shard: usize) -> bool {
        let last = std::mem::replace(&mut self.last[shard], i as u8);
        self.next[i] = NONE;
        match self.next.get_mut(usize::from(last)) {
            Some(next) => *next = i as u8,
            None => self.first.push(i as u8),
        }
        last == NONE
    }
}

impl<'a> SharedRunner<'a> {
    pub(crate) fn new(
        runner: AppRunner<'a>,
        flows: Arc<SharedFlows>,
        output: WorkerOutput<'a>,
        silent_time: SilentTime,
    ) -> Self {
        let lists = Lists::new(flows.shards());
        Self {
            runner,
            flows,
            output,
            keys: [FlowKey::default(); BATCH_DESCRIPTORS],
            hashes: [TableHash::default(); BATCH_DESCRIPTORS],
            lists,
            epoch: 0,
            silent_time,
        }
    }

    /// Sends records of ended flows, if the record thread has requested them.
    fn flush_if_requested(&mut self) {
        self.flows.flush_if_requested(&mut self.epoch);
    }

    /// Does work that does not depend on packets, while none arrive.
    pub(crate) fn idle(&mut self) {
        self.flush_if_requested();
        if let Some(time_ns) = self.silent_time.step() {
            self.flows.pass_time(&mut self.runner, time_ns);
        }
    }

    /// Returns the number of the packet that the application is processing.
    pub(crate) fn at(&self) -> Option<u64> {
        self.runner.at()
    }

    /// Runs the application on a packet, counts the outcome, and reports it to the egress stage.
    pub(crate) fn process(&mut self, descriptor: &PacketDescriptor, packet: (u64, PacketView<'_>)) {
        let Self { runner, flows, output, .. } = self;
        let (hash, key) = (descriptor.packet.hash, descriptor.key);
        let mut shard = flows.enter(shard_of(hash, flows.shards()));
        runner.work(
            &mut *shard.shard.flows,
            (&[key], &[hash]),
            &Packets::Each(&|_| packet),
            Some(&mut |_, _, _, outcome| output.report(descriptor, outcome)),
        );
        shard.expire(runner);
    }

    /// Processes all received packets, shard by shard. It keeps only the order of each flow.
    fn process_all(&mut self, received: &Received) {
        let shards = self.flows.shards();
        let shard_at = |i: u8| shard_of(received.descriptor(usize::from(i)).packet.hash, shards);
        let open = received.open::<CHUNK>();
        for i in 0..received.len() {
            open.request(i);
            let shard = shard_at(i as u8);
            if self.lists.add(i, shard) {
                self.flows.request(shard);
            }
        }
        let flows = Arc::clone(&self.flows);
        let mut first = std::mem::take(&mut self.lists.first);
        for &i in &first {
            self.lists.last[shard_at(i)] = NONE;
        }
        for _ in 0..ROUNDS {
            first.retain(|&i| match flows.try_enter(shard_at(i)) {
                Some(mut shard) => {
                    self.process_list(&mut shard, (received, &open), i);
                    false
                }
                // Another thread holds the shard. Process other shards meanwhile.
                None => true,
            });
            if first.is_empty() {
                break;
            }
            std::hint::spin_loop();
        }
        for i in first.drain(..) {
            self.process_list(&mut flows.enter(shard_at(i)), (received, &open), i);
        }
        self.lists.first = first;
    }

    /// Processes the packets of a shard's list.
    fn process_list(
        &mut self,
        shard: &mut Entered<'_>,
        (received, open): (&Received, &Open<'_, CHUNK>),
        first: u8,
    ) {
        let Self { runner, output, keys, hashes, lists, .. } = self;
        let mut places = [0_u8; BATCH_DESCRIPTORS];
        let mut i = first;
        while i != NONE {
            let mut count = 0;
            while i != NONE && count < BATCH_DESCRIPTORS {
                let descriptor = received.descriptor(usize::from(i));
                (keys[count], hashes[count]) = (descriptor.key, descriptor.packet.hash);
                places[count] = i;
                i = lists.next[usize::from(i)];
                count += 1;
            }
            shard.shard.flows.prefetch(&hashes[..count]);
            runner.work(
                &mut *shard.shard.flows,
                (&keys[..count], &hashes[..count]),
                &Packets::Each(&|i| open.view(usize::from(places[i]))),
                Some(&mut |_, i, _, outcome| {
                    output.report(&received.descriptor(usize::from(places[i])), outcome);
                }),
            );
        }
        shard.expire(runner);
    }

    /// Processes all received packets in the arrival order of each shard, and the parked packets
    /// that follow them.
    fn process_in_order(&mut self, received: &Received, in_order: &mut InOrder) {
        let shards = self.flows.shards();
        let flows = Arc::clone(&self.flows);
        let shard_at = |i: u8| shard_of(received.descriptor(usize::from(i)).packet.hash, shards);
        let open = received.open::<CHUNK>();
        for i in 0..received.len() {
            open.request(i);
            self.lists.add(i, shard_at(i as u8));
        }
        let mut first = std::mem::take(&mut self.lists.first);
        for i in first.drain(..) {
            let shard = shard_at(i);
            self.lists.last[shard] = NONE;
            let mut entered = flows.enter(shard);
            let mut at = i;
            loop {
                at = self.process_own_run(&mut entered, (received, &open), at, in_order);
                if !self.process_parked_run(&mut entered, in_order) {
                    if at == NONE {
                        break;
                    }
                    let number = received.descriptor(usize::from(at)).packet.sequence();
                    entered.shard.sequencer.park(number, received.parked(usize::from(at), in_order.worker));
                    at = self.lists.next[usize::from(at)];
                }
            }
            entered.expire(&mut self.runner);
        }
        self.lists.first = first;
        in_order.publish();
    }

    /// Processes packets of a shard's list, from `at` on, as long as each is next. Returns the
    /// first packet that is not.
    fn process_own_run(
        &mut self,
        entered: &mut Entered<'_>,
        (received, open): (&Received, &Open<'_, CHUNK>),
        mut at: u8,
        in_order: &mut InOrder,
    ) -> u8 {
        let Self { runner, output, keys, hashes, lists, .. } = self;
        let Shard { flows, sequencer } = &mut *entered.shard;
        let mut places = [0_u8; BATCH_DESCRIPTORS];
        loop {
            let mut count = 0;
            while at != NONE && count < BATCH_DESCRIPTORS {
                let descriptor = received.descriptor(usize::from(at));
                if !sequencer.is_next(descriptor.packet.sequence()) {
                    break;
                }
                sequencer.advance();
                (keys[count], hashes[count]) = (descriptor.key, descriptor.packet.hash);
                places[count] = at;
                at = lists.next[usize::from(at)];
                count += 1;
            }
            if count == 0 {
                return at;
            }
            flows.prefetch(&hashes[..count]);
            runner.work(
                &mut **flows,
                (&keys[..count], &hashes[..count]),
                &Packets::Each(&|i| open.view(usize::from(places[i]))),
                Some(&mut |_, i, view, outcome| {
                    in_order.count(in_order.worker, view.wire_bytes);
                    output.report(&received.descriptor(usize::from(places[i])), outcome);
                }),
            );
        }
    }

    /// Processes parked packets as long as each is next. Returns whether there were any.
    fn process_parked_run(&mut self, entered: &mut Entered<'_>, in_order: &mut InOrder) -> bool {
        let Self { runner, output, keys, hashes, .. } = self;
        let Shard { flows, sequencer } = &mut *entered.shard;
        let mut has_worked = false;
        loop {
            let mut parked = std::mem::take(&mut in_order.parked);
            while parked.len() < BATCH_DESCRIPTORS {
                let Some(packet) = sequencer.take() else { break };
                let descriptor = packet.batch.descriptor(usize::from(packet.at));
                (keys[parked.len()], hashes[parked.len()]) = (descriptor.key, descriptor.packet.hash);
                parked.push(packet);
            }
            if !parked.is_empty() {
                has_worked = true;
                let descriptor = |i: usize| parked[i].batch.descriptor(usize::from(parked[i].at));
                flows.prefetch(&hashes[..parked.len()]);
                runner.work(
                    &mut **flows,
                    (&keys[..parked.len()], &hashes[..parked.len()]),
                    &Packets::Each(&|i| descriptor(i).view(parked[i].batch.open())),
                    Some(&mut |_, i, view, outcome| {
                        in_order.count(parked[i].worker, view.wire_bytes);
                        output.report(&descriptor(i), outcome);
                    }),
                );
            }
            let is_full = parked.len() == BATCH_DESCRIPTORS;
            parked.clear();
            in_order.parked = parked;
            if !is_full {
                return has_worked;
            }
        }
    }

    /// Publishes the counts.
    pub(crate) fn publish(&mut self) {
        self.flush_if_requested();
        self.output.publisher.publish(&self.runner.tally);
    }

    pub(crate) fn counted(&self, fetched: u64) -> WorkerCounted {
        WorkerCounted {
            counters: self.runner.tally.counters.clone(),
            fetched,
            processed_for: Vec::new(),
            refused: self.output.refused(),
        }
    }
}

impl<'a> SharedWorker<'a> {
    pub(crate) fn new(inbox: Inbox, runner: SharedRunner<'a>, in_order: Option<InOrder>) -> Self {
        Self { inbox, runner, in_order, received: Received::new(CHUNK), taken: 0, taken_bytes: 0 }
    }
}

impl Worker for SharedWorker<'_> {
    fn poll(&mut self) -> Polled {
        match self.inbox.take(&mut self.received) {
            Polled::Worked => {}
            other => {
                self.runner.idle();
                return other;
            }
        }
        if let Some(in_order) = &mut self.in_order {
            self.runner.process_in_order(&self.received, in_order);
        } else {
            self.runner.process_all(&self.received);
            self.taken += self.received.len() as u64;
            self.taken_bytes += self.received.wire_bytes();
            self.inbox.publish(self.taken, self.taken_bytes);
        }
        self.received.clear();
        self.runner.publish();
        Polled::Worked
    }

    fn at(&self) -> Option<u64> {
        self.runner.at()
    }

    fn counted(&self) -> WorkerCounted {
        // After a panic the last packets were counted but not published.
        let processed_for = self.in_order.as_ref().map(|in_order| {
            in_order
                .processed_for
                .iter()
                .zip(&in_order.completed)
                .map(|(all, (last, _))| all + last)
                .collect()
        });
        WorkerCounted { processed_for: processed_for.unwrap_or_default(), ..self.runner.counted(0) }
    }

    fn end(self: Box<Self>, _: bool) -> Option<FlowsEnd> {
        None
    }
}

//! The pipeline layout with a pull policy: packets wait in one pool, and the policy decides which
//! worker may take which packet [LFB slides 8, 9].
//!
//! The policy serves all workers behind one lock. The input stage takes the lock once per batch,
//! and a worker once per packet. A slow flow delays only itself, because workers fetch packets of
//! other flows meanwhile.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use flowloom_packet::{DropReason, SharedBlock};
use flowloom_scheduler::{PullPolicy, WorkItem, WorkerId};

use crate::batch::packet::PacketDescriptor;
use crate::batch::pool::BatchPool;
use crate::control::Gauges;
use crate::dispatch::stage::{DecodedBatch, Dispatched, Dispatcher};
use crate::egress::reorder::EgressNotices;
use crate::ingest::decode::Losses;
use crate::report::counters::FullCounts;
use crate::stage::poll::Capacity;
use crate::worker::shards::ProcessedTime;

/// A packet that waits in the pool.
pub(crate) struct Waiting {
    pub(crate) descriptor: PacketDescriptor,
    pub(crate) block: SharedBlock,
    /// The generation of packets it belongs to, 0 or 1.
    generation: usize,
}

/// Packets that are not completed, in two generations: those before a certain moment, and those
/// after it. When the older generation is completed, all packets before the moment are processed,
/// and the next moment begins.
struct Generations {
    processed_time: Arc<ProcessedTime>,
    open: [u64; 2],
    current: usize,
    /// The latest time of a packet of the older generation.
    moment_ns: u64,
    latest_ns: u64,
    /// The generation of the packet that each worker processes.
    in_progress: Vec<Option<usize>>,
}

impl Generations {
    fn arrive(&mut self, time_ns: u64) -> usize {
        self.open[self.current] += 1;
        self.latest_ns = time_ns;
        self.current
    }

    /// Completes the worker's previous packet; the worker asks for the next one.
    fn done(&mut self, worker: usize) {
        if let Some(generation) = self.in_progress[worker].take() {
            self.open[generation] -= 1;
        }
        let older = 1 - self.current;
        if self.open[older] == 0 {
            self.processed_time.publish(self.moment_ns);
            self.moment_ns = self.latest_ns;
            self.current = older;
        }
    }
}

/// The answer to a worker's request.
pub(crate) enum Fetched {
    /// A packet.
    Packet(Waiting),
    /// The pool has nothing for this worker now.
    Nothing,
    /// The pool has no further packets.
    End,
}

struct Inner<'a> {
    policy: &'a mut dyn PullPolicy,
    slots: Vec<Option<Waiting>>,
    free: Vec<u32>,
    ended: bool,
    /// Packets that workers have fetched.
    fetched: u64,
    /// Packets that the input stage has put into the pool.
    sent: u64,
    generations: Generations,
}

/// Packets that wait for workers.
pub(crate) struct Pool<'a>(Mutex<Inner<'a>>);

impl<'a> Pool<'a> {
    pub(crate) fn new(
        policy: &'a mut dyn PullPolicy,
        slots: usize,
        workers: usize,
        processed_time: Arc<ProcessedTime>,
    ) -> Self {
        Self(Mutex::new(Inner {
            policy,
            slots: (0..slots).map(|_| None).collect(),
            free: (0..slots as u32).rev().collect(),
            ended: false,
            fetched: 0,
            sent: 0,
            generations: Generations {
                processed_time,
                open: [0; 2],
                current: 0,
                moment_ns: 0,
                latest_ns: 0,
                in_progress: vec![None; workers],
            },
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner<'a>> {
        // After a panic of the policy the run ends, and the waiting packets are counted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a worker's next packet. The call completes the worker's previous packet.
    pub(crate) fn fetch(&self, worker: WorkerId) -> Fetched {
        let mut inner = self.lock();
        inner.generations.done(worker.index());
        if self.0.is_poisoned() {
            // The policy has panicked and may never return the packets that it holds. They count as
            // lost, so that no stage waits for them.
            return Fetched::End;
        }
        let Some(fetched) = inner.policy.next(worker) else {
            let is_over = inner.ended && inner.free.len() == inner.slots.len();
            return if is_over { Fetched::End } else { Fetched::Nothing };
        };
        let token = fetched.token;
        let Some(waiting) = inner.slots.get_mut(token as usize).and_then(Option::take) else {
            panic!("{} gave out token {token}, which stands for no packet that waits", inner.policy.name())
        };
        inner.free.push(token);
        inner.fetched += 1;
        inner.generations.in_progress[worker.index()] = Some(waiting.generation);
        Fetched::Packet(waiting)
    }

    /// Returns how many packets no worker has fetched.
    pub(crate) fn left(&self) -> u64 {
        let inner = self.lock();
        inner.sent - inner.fetched
    }
}

/// Dispatches packets to the pool.
pub(crate) struct PullDispatcher<'a> {
    pool: Arc<Pool<'a>>,
    drop_when_full: bool,
    notices: Option<EgressNotices>,
    block: Option<((u64, u32), SharedBlock)>,
    /// Packets that arrived while the pool was full.
    held: VecDeque<(PacketDescriptor, WorkItem)>,
    /// The time up to which all packets are processed, while a live input is silent.
    silent_time: Arc<ProcessedTime>,
    full: FullCounts,
    gauges: Arc<Gauges>,
    /// The pool was full since the last publication.
    has_unpublished: bool,
}

impl<'a> PullDispatcher<'a> {
    pub(crate) fn new(
        pool: Arc<Pool<'a>>,
        drop_when_full: bool,
        notices: Option<EgressNotices>,
        (silent_time, gauges): (Arc<ProcessedTime>, Arc<Gauges>),
    ) -> Self {
        Self {
            pool,
            drop_when_full,
            notices,
            block: None,
            held: VecDeque::new(),
            silent_time,
            full: FullCounts::default(),
            gauges,
            has_unpublished: false,
        }
    }

    /// Counts packets that no worker will take as lost.
    fn lose_held(&mut self, losses: &mut Losses) {
        for (descriptor, _) in self.held.drain(..) {
            if let Some(notices) = &mut self.notices {
                notices.dropped(descriptor.packet.number());
            }
            losses.lose(DropReason::WorkerLost, 1);
        }
    }

    /// Moves held packets into the pool while it has free slots.
    fn flush(&mut self, losses: &mut Losses) -> Capacity {
        let Some((_, block)) = &self.block else { return Capacity::Free };
        if self.held.is_empty() {
            return Capacity::Free;
        }
        let mut inner = self.pool.lock();
        let mut has_refused = false;
        while let Some(&(descriptor, item)) = self.held.front() {
            // In dropping mode the policy decides which packets to drop, so that one flow leaves
            // space for others.
            if self.drop_when_full
                && (inner.free.is_empty() || inner.policy.refuses(item, inner.slots.len() as u64))
            {
                has_refused = true;
                self.full.refused += 1;
                self.held.pop_front();
                if let Some(notices) = &mut self.notices {
                    notices.dropped(descriptor.packet.number());
                }
                losses.lose(DropReason::RingFull, 1);
                continue;
            }
            let Some(token) = inner.free.pop() else { break };
            self.held.pop_front();
            let generation = inner.generations.arrive(descriptor.packet.time_ns);
            let block = Arc::clone(block);
            inner.slots[token as usize] = Some(Waiting { descriptor, block, generation });
            inner.sent += 1;
            inner.policy.arrive(token, item);
        }
        drop(inner);
        if has_refused || !self.held.is_empty() {
            self.full.waits += 1;
            self.has_unpublished = true;
        }
        if self.held.is_empty() {
            return Capacity::Free;
        }
        // If all workers are gone, no slot becomes free. Each worker holds a reference to the pool.
        if Arc::strong_count(&self.pool) <= 1 {
            self.lose_held(losses);
            return Capacity::Gone;
        }
        Capacity::Full
    }
}

impl Dispatcher for PullDispatcher<'_> {
    fn capacity(&mut self, losses: &mut Losses, _: usize) -> Capacity {
        self.flush(losses)
    }

    fn dispatch(&mut self, losses: &mut Losses, batch: &mut DecodedBatch, pool: &mut BatchPool) {
        for (reason, link) in batch.refused.drain(..) {
            losses.refuse(reason, link);
        }
        let Some(descriptors) = batch.descriptors.take() else { return };
        let Some(block) = &descriptors.block else { return };
        let is_new = self.block.as_ref().is_none_or(|(known, _)| *known != batch.block_number);
        if is_new {
            self.block = Some((batch.block_number, Arc::clone(block)));
        }
        if let Some(notices) = &mut self.notices {
            let block = is_new.then(|| Arc::clone(block));
            notices.batch(batch.first, batch.len(), batch.mask, block);
        }
        self.held.extend(descriptors.iter().zip(batch.items.iter().copied()));
        pool.sent(descriptors);
        self.flush(losses);
    }

    fn resume(&mut self, losses: &mut Losses) -> bool {
        let held = self.held.len();
        self.flush(losses);
        self.held.len() < held
    }

    fn pass_time(&mut self, time_ns: u64) {
        if self.held.is_empty() && self.pool.lock().generations.open == [0; 2] {
            self.silent_time.publish(time_ns);
        }
    }

    fn end(&mut self, losses: &mut Losses) -> Capacity {
        let capacity = self.flush(losses);
        if capacity != Capacity::Full {
            self.pool.lock().ended = true;
            // Without this the egress stage would wait for more notices.
            self.notices = None;
        }
        capacity
    }

    fn discard(&mut self, losses: &mut Losses) {
        // Do not call the policy again: it may have panicked.
        self.lose_held(losses);
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_unpublished) {
            self.gauges.publish_full(std::iter::empty(), self.full);
        }
    }

    fn finish(&mut self, losses: &mut Losses) -> Dispatched {
        // Packets in the pool when the workers ended.
        let left = self.pool.left();
        losses.lose(DropReason::WorkerLost, left);
        let packets = self.pool.lock().fetched;
        Dispatched { packets, sent: Vec::new(), rings: Vec::new(), unplaced: self.full }
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use flowloom_scheduler::{PacketHandoff, Topology, WorkerCount};

    use super::*;
    use crate::control::Control;
    use crate::dispatch::stage::tests::decoded;

    #[test]
    fn held_packets_move_into_the_pool_as_workers_fetch() {
        let topology = Topology::flat(WorkerCount::new(1).unwrap());
        let mut policy = PacketHandoff::new(&topology, 4).unwrap();
        let (control, mut losses) = (Control::default(), Losses::default());
        let pool = Arc::new(Pool::new(&mut policy, 5, 1, Arc::default()));
        let mut intake =
            PullDispatcher::new(Arc::clone(&pool), false, None, (Arc::default(), control.begin(1, 1)));
        let waits = |intake: &mut PullDispatcher<'_>| {
            intake.publish();
            control.snapshot().pool_full_waits
        };
        // Three of the four packets of each batch have a key.
        let mut batches = BatchPool::default();
        intake.dispatch(&mut losses, &mut decoded(0), &mut batches);
        assert!(!intake.resume(&mut losses), "nothing is held");
        assert_eq!(waits(&mut intake), 0, "the pool held all packets");
        intake.dispatch(&mut losses, &mut decoded(4), &mut batches);
        assert_eq!(waits(&mut intake), 1);
        assert!(!intake.resume(&mut losses), "the pool is still full");
        assert_eq!(waits(&mut intake), 2);
        assert!(matches!(pool.fetch(0.into()), Fetched::Packet(_)));
        assert!(intake.resume(&mut losses), "the sixth goes on");
        assert!(!intake.resume(&mut losses), "and nothing is held");
        assert_eq!((waits(&mut intake), pool.left()), (2, 5));
    }
}

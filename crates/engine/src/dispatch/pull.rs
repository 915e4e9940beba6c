//! Pipeline layout with workers that fetch: packets wait in one pool, and a policy says which worker may have which
//! [LFB slides 8, 9].
//!
//! The policy serves all workers, so it stands behind one lock, taken once a batch by the input stage and once a packet
//! by a worker. A slow flow holds up only itself: the others' packets are fetched past it.

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
use crate::runtime::poll::Capacity;
use crate::worker::shards::ProcessedTime;

/// A packet that waits.
pub(crate) struct Waiting {
    pub(crate) descriptor: PacketDescriptor,
    pub(crate) block: SharedBlock,
    /// Which of the two generations of packets it belongs to.
    generation: usize,
}

/// Packets that are not done, in two generations: those up to a moment, and those since. When the older ones are done, the
/// moment has passed, and another begins.
struct Generations {
    processed_time: Arc<ProcessedTime>,
    open: [u64; 2],
    current: usize,
    /// Latest time of a packet of the older generation.
    moment_ns: u64,
    latest_ns: u64,
    /// What each worker has in hand.
    in_progress: Vec<Option<usize>>,
}

impl Generations {
    fn arrive(&mut self, time_ns: u64) -> usize {
        self.open[self.current] += 1;
        self.latest_ns = time_ns;
        self.current
    }

    /// A worker asks for its next packet: it has done the one before.
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

/// What a worker gets when it asks.
pub(crate) enum Fetched {
    /// A packet.
    Packet(Waiting),
    /// Nothing for this worker now.
    Nothing,
    /// Nothing, ever.
    End,
}

struct Inner<'a> {
    policy: &'a mut dyn PullPolicy,
    slots: Vec<Option<Waiting>>,
    free: Vec<u32>,
    ended: bool,
    /// Packets that workers have fetched.
    fetched: u64,
    /// Packets that came in.
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
        // After a panic of the policy the run ends; what waits is counted.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a worker's next packet; what it had before is completed.
    pub(crate) fn fetch(&self, worker: WorkerId) -> Fetched {
        let mut inner = self.lock();
        inner.generations.done(worker.index());
        if self.0.is_poisoned() {
            // The policy has panicked, and may never give out what it had: that is counted as lost, and no stage waits for it.
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

    /// Returns how many packets came in that no worker has fetched.
    pub(crate) fn left(&self) -> u64 {
        let inner = self.lock();
        inner.sent - inner.fetched
    }
}

/// Hands packets to the pool.
pub(crate) struct PullDispatcher<'a> {
    pool: Arc<Pool<'a>>,
    drop_when_full: bool,
    notices: Option<EgressNotices>,
    block: Option<((u64, u32), SharedBlock)>,
    /// What found no room yet.
    held: VecDeque<(PacketDescriptor, WorkItem)>,
    full: FullCounts,
    gauges: Arc<Gauges>,
    /// The pool was full since that was published.
    has_unpublished: bool,
}

impl<'a> PullDispatcher<'a> {
    pub(crate) fn new(
        pool: Arc<Pool<'a>>,
        drop_when_full: bool,
        notices: Option<EgressNotices>,
        gauges: Arc<Gauges>,
    ) -> Self {
        Self {
            pool,
            drop_when_full,
            notices,
            block: None,
            held: VecDeque::new(),
            full: FullCounts::default(),
            gauges,
            has_unpublished: false,
        }
    }

    /// Counts what no worker will take any more.
    fn lose_held(&mut self, losses: &mut Losses) {
        for (descriptor, _) in self.held.drain(..) {
            if let Some(notices) = &mut self.notices {
                notices.dropped(descriptor.packet.number());
            }
            losses.lose(DropReason::WorkerLost, 1);
        }
    }

    /// Hands on what is held, as far as there is room.
    fn flush(&mut self, losses: &mut Losses) -> Capacity {
        let Some((_, block)) = &self.block else { return Capacity::Free };
        if self.held.is_empty() {
            return Capacity::Free;
        }
        let mut inner = self.pool.lock();
        let mut has_refused = false;
        while let Some(&(descriptor, item)) = self.held.front() {
            // Where packets are dropped, it is the policy that says which: one flow is to leave room for others.
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
        // Nobody will make room when every worker is gone; each of them holds the pool.
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

    fn end(&mut self, losses: &mut Losses) -> Capacity {
        let capacity = self.flush(losses);
        if capacity != Capacity::Full {
            self.pool.lock().ended = true;
            // The egress stage would wait for more.
            self.notices = None;
        }
        capacity
    }

    fn discard(&mut self, losses: &mut Losses) {
        // The policy is not asked again: it may be what panicked.
        self.lose_held(losses);
    }

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_unpublished) {
            self.gauges.publish_full(std::iter::empty(), self.full);
        }
    }

    fn finish(&mut self, losses: &mut Losses) -> Dispatched {
        // What waited when the workers went.
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
    fn what_found_no_room_goes_on_as_workers_fetch_and_only_then_is_there_work() {
        let topology = Topology::flat(WorkerCount::new(1).unwrap());
        let mut policy = PacketHandoff::new(&topology, 4).unwrap();
        let (control, mut losses) = (Control::default(), Losses::default());
        let pool = Arc::new(Pool::new(&mut policy, 5, 1, Arc::default()));
        let mut intake = PullDispatcher::new(Arc::clone(&pool), false, None, control.begin(1, 1));
        let waits = |intake: &mut PullDispatcher<'_>| {
            intake.publish();
            control.snapshot().pool_full_waits
        };
        // Of the four packets of each batch three have a key.
        let mut batches = BatchPool::default();
        intake.dispatch(&mut losses, &mut decoded(0), &mut batches);
        assert!(!intake.resume(&mut losses), "nothing is held");
        assert_eq!(waits(&mut intake), 0, "there was room for all");
        intake.dispatch(&mut losses, &mut decoded(4), &mut batches);
        assert_eq!(waits(&mut intake), 1);
        assert!(!intake.resume(&mut losses), "there is no room yet");
        assert_eq!(waits(&mut intake), 2);
        assert!(matches!(pool.fetch(0.into()), Fetched::Packet(_)));
        assert!(intake.resume(&mut losses), "the sixth goes on");
        assert!(!intake.resume(&mut losses), "and nothing is held");
        assert_eq!((waits(&mut intake), pool.left()), (2, 5));
    }
}

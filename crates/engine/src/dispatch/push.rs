//! The pipeline layout with a placement policy, which chooses the worker of each packet in a batch.

use std::sync::Arc;

use flowloom_packet::DropReason;
use flowloom_scheduler::{Decision, LoadView, Placement, WorkerId};

use crate::batch::packet::SEQUENCE_NUMBERS;
use crate::batch::pool::{BATCH_DESCRIPTORS, BatchPool};
use crate::control::Gauges;
use crate::dispatch::ring::Outbox;
use crate::dispatch::stage::{DecodedBatch, Dispatched, Dispatcher};
use crate::egress::reorder::EgressNotices;
use crate::ingest::decode::Losses;
use crate::report::counters::FullCounts;
use crate::shard_count::shard_of;
use crate::stage::poll::Capacity;
use crate::worker::shards::ProcessedTime;

/// Dispatches packets to the rings of workers.
pub(crate) struct PushDispatcher<'a> {
    outboxes: Vec<Outbox>,
    placement: &'a mut dyn Placement,
    drop_when_full: bool,
    notices: Option<EgressNotices>,
    /// The next sequence number of each shard; empty if packets are not sequenced.
    sequences: Vec<u32>,
    block_number: Option<(u64, u32)>,
    /// Descriptor batches are scarce while more than this number are in use.
    batches_plenty: usize,
    batches_in_use: usize,
    decisions: Vec<Decision>,
    sent: Vec<u64>,
    completed: Vec<u64>,
    sent_bytes: Vec<u64>,
    completed_bytes: Vec<u64>,
    /// Packets that the policy decided to drop.
    unplaced: u64,
    gauges: Arc<Gauges>,
    /// A ring was full since the last publication.
    has_unpublished: bool,
    checkpoint: Option<Checkpoint>,
    /// The latest moment at which a live input was silent.
    silence: Checkpoint,
    ended: bool,
}

/// A moment in the input. Once all packets before it are completed, the dispatcher publishes its
/// time as processed. There is one such moment at a time.
struct Checkpoint {
    processed_time: Arc<ProcessedTime>,
    /// The time of the latest packet dispatched before the moment; `None` between two moments.
    time_ns: Option<u64>,
    /// Packets dispatched to each worker before the moment.
    sent: Vec<u64>,
}

impl Checkpoint {
    fn new(processed_time: Arc<ProcessedTime>, workers: usize) -> Self {
        Self { processed_time, time_ns: None, sent: Vec::with_capacity(workers) }
    }

    /// Publishes the processed time if all packets before the moment are completed, and begins a
    /// new moment if there is none.
    fn pass(&mut self, completed: &[u64], outboxes: &[Outbox], latest_ns: u64) {
        let Some(time_ns) = self.time_ns else {
            self.sent.clear();
            self.sent.extend(outboxes.iter().map(|outbox| outbox.sent));
            self.time_ns = Some(latest_ns);
            return;
        };
        if completed.iter().zip(&self.sent).all(|(completed, sent)| completed >= sent) {
            self.processed_time.publish(time_ns);
            self.time_ns = None;
        }
    }
}

/// Options of the dispatcher, apart from the policy.
pub(crate) struct PushOptions {
    pub(crate) drop_when_full: bool,
    /// Maximum number of packets in flight to each worker.
    pub(crate) slots: usize,
    /// Shards whose packets get sequence numbers; 0 for none.
    pub(crate) shards: usize,
    pub(crate) notices: Option<EgressNotices>,
    /// If flows are shared: the time up to which all packets are processed.
    pub(crate) processed_time: Option<Arc<ProcessedTime>>,
    /// The same while a live input is silent.
    pub(crate) silent_time: Arc<ProcessedTime>,
    /// Receives how often rings are full.
    pub(crate) gauges: Arc<Gauges>,
}

impl<'a> PushDispatcher<'a> {
    pub(crate) fn new(
        outboxes: Vec<Outbox>,
        placement: &'a mut dyn Placement,
        options: PushOptions,
    ) -> Self {
        let workers = outboxes.len();
        Self {
            outboxes,
            placement,
            drop_when_full: options.drop_when_full,
            notices: options.notices,
            sequences: vec![0; options.shards],
            block_number: None,
            batches_in_use: 0,
            // Twice the number of full batches that hold the maximum number of packets in flight.
            batches_plenty: 2 * (options.slots * workers).div_ceil(BATCH_DESCRIPTORS),
            decisions: vec![Decision::Drop; BATCH_DESCRIPTORS],
            sent: vec![0; workers],
            completed: vec![0; workers],
            sent_bytes: vec![0; workers],
            completed_bytes: vec![0; workers],
            unplaced: 0,
            gauges: options.gauges,
            has_unpublished: false,
            checkpoint: options.processed_time.map(|time| Checkpoint::new(time, workers)),
            silence: Checkpoint::new(options.silent_time, workers),
            ended: false,
        }
    }

    fn are_batches_scarce(&self) -> bool {
        self.batches_in_use > self.batches_plenty
    }

    /// Returns how often each worker's ring was full.
    fn full(&self) -> impl Iterator<Item = FullCounts> {
        self.outboxes.iter().map(|outbox| FullCounts { refused: outbox.refused, waits: outbox.full_waits })
    }

    fn read_progress(&mut self) {
        for (i, outbox) in self.outboxes.iter().enumerate() {
            self.sent[i] = outbox.sent;
            self.completed[i] = outbox.completed();
            self.sent_bytes[i] = outbox.sent_bytes;
            self.completed_bytes[i] = outbox.completed_bytes();
        }
    }
}

/// Panics, which ends the run. The worker numbers of a policy cannot be checked in advance.
#[cold]
fn no_such_worker(policy: &str, worker: WorkerId, workers: usize) -> ! {
    panic!("{policy} decided for worker {worker}, and the {workers} there are begin with 0")
}

impl Dispatcher for PushDispatcher<'_> {
    fn capacity(&mut self, _: &mut Losses, packets: usize) -> Capacity {
        let (mut is_full, mut is_gone) = (false, false);
        let are_batches_scarce = self.are_batches_scarce();
        for outbox in &mut self.outboxes {
            is_gone |= outbox.is_abandoned();
            // In dropping mode each packet is judged separately. Otherwise all packets of the batch
            // could go to this worker.
            if !self.drop_when_full && !outbox.has_capacity(packets, are_batches_scarce) {
                outbox.full_waits += 1;
                is_full = true;
            }
        }
        self.has_unpublished |= is_full;
        match (is_gone, is_full) {
            (true, _) => Capacity::Gone,
            (false, true) => Capacity::Full,
            (false, false) => Capacity::Free,
        }
    }

    fn dispatch(&mut self, losses: &mut Losses, batch: &mut DecodedBatch, pool: &mut BatchPool) {
        for (reason, link) in batch.refused.drain(..) {
            losses.refuse(reason, link);
        }
        let Some(mut descriptors) = batch.descriptors.take() else { return };
        if let Some(notices) = &mut self.notices {
            let is_new = self.block_number != Some(batch.block_number);
            self.block_number = Some(batch.block_number);
            let block = descriptors.block.as_ref().filter(|_| is_new).map(Arc::clone);
            notices.batch(batch.first, batch.len(), batch.mask, block);
        }
        let are_batches_scarce = self.are_batches_scarce();
        self.read_progress();
        let items = &batch.items[..];
        let load = LoadView {
            sent: &self.sent,
            completed: &self.completed,
            sent_bytes: &self.sent_bytes,
            completed_bytes: &self.completed_bytes,
            busy: &[],
        };
        self.placement.place(items, &load, &mut self.decisions[..items.len()]);
        let Self { outboxes, placement, decisions, sequences, notices, drop_when_full, .. } = self;
        let (unplaced, has_unpublished) = (&mut self.unplaced, &mut self.has_unpublished);
        let workers = outboxes.len();
        // The dispatcher writes sequence numbers before any worker holds the batch.
        let mut exclusive = if sequences.is_empty() { None } else { Arc::get_mut(&mut descriptors) };
        let mut numbers = batch.mask;
        for (i, (item, decision)) in items.iter().zip(&*decisions).enumerate() {
            let number = batch.first + u64::from(numbers.trailing_zeros());
            numbers &= numbers.wrapping_sub(1);
            let outbox = match *decision {
                Decision::To(worker) => {
                    let Some(outbox) = outboxes.get_mut(worker.index()) else {
                        no_such_worker(placement.name(), worker, workers)
                    };
                    // Drop a packet before it gets a sequence number, because later packets would
                    // wait for that number.
                    if !*drop_when_full || outbox.has_capacity(1, are_batches_scarce) {
                        Some(outbox)
                    } else {
                        outbox.refuse();
                        None
                    }
                }
                Decision::Drop => {
                    *unplaced += 1;
                    None
                }
            };
            if let Some(outbox) = outbox {
                if let Some(descriptors) = &mut exclusive {
                    let shard = shard_of(descriptors.descriptor(i).packet.hash, sequences.len());
                    let sequence = &mut sequences[shard];
                    descriptors.set_sequence(i, *sequence);
                    *sequence = (*sequence + 1) % SEQUENCE_NUMBERS;
                }
                outbox.add(i, item.bytes);
            } else {
                if let Some(notices) = notices {
                    notices.dropped(number);
                }
                *has_unpublished = true;
                losses.lose(DropReason::RingFull, 1);
            }
        }
        for outbox in outboxes {
            outbox.send(&descriptors);
        }
        pool.sent(descriptors);
        self.batches_in_use = pool.in_use();
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pass(&self.completed, &self.outboxes, batch.latest_ns);
        }
    }

    fn pass_time(&mut self, time_ns: u64) {
        self.read_progress();
        self.silence.pass(&self.completed, &self.outboxes, time_ns);
    }

    fn end(&mut self, _: &mut Losses) -> Capacity {
        if !self.ended {
            self.ended = true;
            self.outboxes.iter_mut().for_each(Outbox::end);
            // Without this the egress stage would wait for more notices.
            self.notices = None;
        }
        Capacity::Free
    }

    fn discard(&mut self, _: &mut Losses) {}

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_unpublished) {
            self.gauges.publish_full(self.full(), FullCounts { refused: self.unplaced, waits: 0 });
        }
    }

    fn finish(&mut self, _: &mut Losses) -> Dispatched {
        let sent: Vec<u64> = self.outboxes.iter().map(|outbox| outbox.sent).collect();
        let rings = self.full().collect();
        let unplaced = FullCounts { refused: self.unplaced, waits: 0 };
        Dispatched { packets: sent.iter().sum(), sent, rings, unplaced }
    }
}

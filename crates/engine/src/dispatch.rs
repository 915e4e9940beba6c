//! Pipeline mode with a policy that decides: what the input stage admits becomes descriptors, and the policy says into
//! whose ring they go.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, DropReason, PacketBatch};
use flowloom_scheduler::{Decision, LoadView, Placement, WorkItem};

use crate::actor::Room;
use crate::descriptor::{Descriptor, TURNS};
use crate::drive::Intake;
use crate::egress::GivenOut;
use crate::input::Admission;
use crate::ring::Outbox;
use crate::shared::{DoneUpTo, shard_of};

/// Hands descriptors to workers.
pub(crate) struct PushIntake<'a> {
    pub(crate) outboxes: Vec<Outbox>,
    placement: &'a mut dyn Placement,
    drop_when_full: bool,
    given_out: Option<GivenOut>,
    /// The next turn of each shard; empty where packets need none.
    turns: Vec<u32>,
    block_number: Option<(u64, u32)>,
    items: Vec<WorkItem>,
    descriptors: Vec<Descriptor>,
    decisions: Vec<Decision>,
    sent: Vec<u64>,
    completed: Vec<u64>,
    sent_bytes: Vec<u64>,
    completed_bytes: Vec<u64>,
    checkpoint: Option<Checkpoint>,
    ended: bool,
}

/// A moment whose packets are waited for, to say how far everything is done. There is one at a time.
struct Checkpoint {
    done_up_to: Arc<DoneUpTo>,
    /// Time of the latest packet handed on before it; `None` between two moments.
    time_ns: Option<u64>,
    /// Packets handed to each worker before it.
    sent: Vec<u64>,
}

impl Checkpoint {
    /// Looks whether all packets before the moment are done, and else takes another one.
    fn pass(&mut self, completed: &[u64], outboxes: &[Outbox], latest_ns: u64) {
        let Some(time_ns) = self.time_ns else {
            self.sent.clear();
            self.sent.extend(outboxes.iter().map(|outbox| outbox.sent + outbox.staged()));
            self.time_ns = Some(latest_ns);
            return;
        };
        if completed.iter().zip(&self.sent).all(|(completed, sent)| completed >= sent) {
            self.done_up_to.publish(time_ns);
            self.time_ns = None;
        }
    }
}

/// How packets are handed on, beside the policy.
pub(crate) struct PushOptions {
    pub(crate) drop_when_full: bool,
    /// Shards whose turns are given out; 0 for none.
    pub(crate) shards: usize,
    pub(crate) given_out: Option<GivenOut>,
    /// Where flows are shared: who is told how far everything is done.
    pub(crate) done_up_to: Option<Arc<DoneUpTo>>,
}

impl<'a> PushIntake<'a> {
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
            given_out: options.given_out,
            turns: vec![0; options.shards],
            block_number: None,
            items: Vec::with_capacity(BATCH_PACKETS),
            descriptors: Vec::with_capacity(BATCH_PACKETS),
            decisions: vec![Decision::Drop; BATCH_PACKETS],
            sent: vec![0; workers],
            completed: vec![0; workers],
            sent_bytes: vec![0; workers],
            completed_bytes: vec![0; workers],
            checkpoint: options.done_up_to.map(|done_up_to| Checkpoint {
                done_up_to,
                time_ns: None,
                sent: Vec::with_capacity(workers),
            }),
            ended: false,
        }
    }

    /// Says to the egress stage that no number is given out any more.
    pub(crate) fn close(&mut self) {
        self.given_out = None;
    }

    /// Puts what is staged for workers into their rings: of all, or of those whose stage is full.
    fn push_on(&mut self, input: &mut Admission, all: bool) -> Room {
        let mut room = Room::Free;
        for worker in 0..self.outboxes.len() {
            if !all && !self.outboxes[worker].is_stage_full() {
                continue;
            }
            match self.outboxes[worker].flush() {
                Room::Free => {}
                Room::Full if room == Room::Gone => {}
                Room::Full => room = Room::Full,
                Room::Gone => {
                    self.abandon(input, worker);
                    room = Room::Gone;
                }
            }
        }
        room
    }

    /// Counts what is staged for a worker that is gone.
    fn abandon(&mut self, input: &mut Admission, worker: usize) {
        let given_out = &mut self.given_out;
        let lost = self.outboxes[worker].discard(|packet| {
            if let Some(given_out) = given_out {
                given_out.dropped(packet.number());
            }
        });
        input.lose(DropReason::WorkerLost, lost);
    }

    fn look(&mut self) {
        for (i, outbox) in self.outboxes.iter().enumerate() {
            self.sent[i] = outbox.sent + outbox.staged();
            self.completed[i] = outbox.completed();
            self.sent_bytes[i] = outbox.taken_bytes;
            self.completed_bytes[i] = outbox.completed_bytes();
        }
    }
}

impl Intake for PushIntake<'_> {
    fn room(&mut self, input: &mut Admission, batch: &PacketBatch, range: &Range<usize>) -> Room {
        let room = self.push_on(input, false);
        if room != Room::Free {
            let all_can = self.outboxes.iter().all(|outbox| !outbox.is_stage_full());
            if room == Room::Gone || !all_can {
                return room;
            }
        }
        let is_new = self.block_number != Some((batch.block_number, batch.pass));
        if is_new && !self.outboxes.iter().all(Outbox::has_block_room) {
            return Room::Full;
        }
        match &self.given_out {
            Some(given_out) if !given_out.has_room(input.yielded(), range.len()) => Room::Full,
            _ => Room::Free,
        }
    }

    fn take(&mut self, input: &mut Admission, batch: &PacketBatch, range: Range<usize>) {
        let Some(block) = &batch.block else { return };
        let number = Some((batch.block_number, batch.pass));
        let is_new = self.block_number != number;
        if is_new {
            self.block_number = number;
            for outbox in &mut self.outboxes {
                outbox.next_block(block, batch.pass);
            }
        }
        self.items.clear();
        self.descriptors.clear();
        let Self { items, descriptors, given_out, .. } = self;
        input.describe((batch, block), range, (given_out, is_new), |item, packet| {
            items.push(item);
            descriptors.push(packet);
        });
        self.look();
        let count = self.items.len();
        let load = LoadView {
            sent: &self.sent,
            completed: &self.completed,
            sent_bytes: &self.sent_bytes,
            completed_bytes: &self.completed_bytes,
            busy: &[],
        };
        self.placement.place(&self.items, &load, &mut self.decisions[..count]);
        for i in 0..count {
            let packet = &mut self.descriptors[i];
            match self.decisions[i] {
                // Before the packet has a turn that others would wait for.
                Decision::To(worker)
                    if !self.drop_when_full || self.outboxes[worker.index()].has_room() =>
                {
                    let shards = self.turns.len();
                    if shards > 0 {
                        let turn = &mut self.turns[shard_of(packet.hash, shards)];
                        packet.set_turn(*turn);
                        *turn = (*turn + 1) % TURNS;
                    }
                    self.outboxes[worker.index()].stage(*packet);
                }
                // No policy here parks: there is no shared queue to park in.
                _ => {
                    if let Some(given_out) = &mut self.given_out {
                        given_out.dropped(packet.number());
                    }
                    input.lose(DropReason::RingFull, 1);
                }
            }
        }
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pass(&self.completed, &self.outboxes, input.latest_ns());
        }
        // What fills a stage goes on at once, and everything once a block: no worker holds on to blocks for long.
        self.push_on(input, is_new);
    }

    fn flush(&mut self, input: &mut Admission) -> Room {
        self.push_on(input, true)
    }

    fn end(&mut self, input: &mut Admission) -> Room {
        if !self.ended {
            self.ended = true;
            for outbox in &mut self.outboxes {
                outbox.end();
            }
        }
        let mut room = Room::Free;
        for worker in 0..self.outboxes.len() {
            match self.outboxes[worker].flush() {
                Room::Free => {}
                Room::Full => room = Room::Full,
                Room::Gone => self.abandon(input, worker),
            }
        }
        room
    }

    fn settle(&mut self, input: &mut Admission) {
        // What is neither in a ring nor staged nor dropped was in the hands of whatever panicked.
        let known: u64 = self.outboxes.iter().map(|outbox| outbox.sent + outbox.staged()).sum();
        input.lose(DropReason::WorkerLost, input.unaccounted(known));
    }
}

//! Pipeline mode with a policy that decides: what the input stage admits is put on a tray, and the policy says whose
//! it is.

use std::ops::Range;
use std::sync::Arc;

use flowloom_packet::{BATCH_PACKETS, DropReason, PacketBatch};
use flowloom_scheduler::{Decision, LoadView, Placement, WorkItem};

use crate::actor::Room;
use crate::descriptor::TURNS;
use crate::drive::Intake;
use crate::egress::GivenOut;
use crate::input::Admission;
use crate::ring::Outbox;
use crate::shared::{DoneUpTo, shard_of};
use crate::tray::Trays;

/// Hands packets to workers.
pub(crate) struct PushIntake<'a> {
    pub(crate) outboxes: Vec<Outbox>,
    placement: &'a mut dyn Placement,
    drop_when_full: bool,
    given_out: Option<GivenOut>,
    /// The next turn of each shard; empty where packets need none.
    turns: Vec<u32>,
    block_number: Option<(u64, u32)>,
    items: Vec<WorkItem>,
    trays: Trays,
    /// With more on the way, trays are scarce.
    trays_plenty: usize,
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
            self.sent.extend(outboxes.iter().map(|outbox| outbox.sent));
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
    /// Packets that may be on the way to each worker.
    pub(crate) slots: usize,
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
            trays: Trays::default(),
            // As many as twice the packets that may be on the way would lie on, were every tray full.
            trays_plenty: 2 * (options.slots * workers).div_ceil(BATCH_PACKETS),
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

    fn are_trays_scarce(&self) -> bool {
        self.trays.on_the_way() > self.trays_plenty
    }

    fn look(&mut self) {
        for (i, outbox) in self.outboxes.iter().enumerate() {
            self.sent[i] = outbox.sent;
            self.completed[i] = outbox.completed();
            self.sent_bytes[i] = outbox.sent_bytes;
            self.completed_bytes[i] = outbox.completed_bytes();
        }
    }
}

impl Intake for PushIntake<'_> {
    fn room(&mut self, input: &mut Admission, _: &PacketBatch, range: &Range<usize>) -> Room {
        let (mut is_full, mut is_gone) = (false, false);
        if !self.drop_when_full && self.are_trays_scarce() {
            self.trays.collect_all();
        }
        let are_trays_scarce = self.are_trays_scarce();
        for outbox in &mut self.outboxes {
            is_gone |= outbox.is_abandoned();
            // Where packets are dropped, each is judged by itself. Else all of the batch might be for this worker.
            if !self.drop_when_full && !outbox.has_room(range.len(), are_trays_scarce) {
                outbox.full_waits += 1;
                is_full = true;
            }
        }
        match &self.given_out {
            _ if is_gone => Room::Gone,
            _ if is_full => Room::Full,
            Some(given_out) if !given_out.has_room(input.yielded(), range.len()) => Room::Full,
            _ => Room::Free,
        }
    }

    fn take(&mut self, input: &mut Admission, batch: &PacketBatch, range: Range<usize>) {
        let Some(block) = &batch.block else { return };
        let number = Some((batch.block_number, batch.pass));
        let is_new = self.block_number != number;
        self.block_number = number;
        let are_trays_scarce = self.are_trays_scarce();
        let mut tray = self.trays.lend();
        let Some(open) = Arc::get_mut(&mut tray) else {
            unreachable!("a tray that is lent is nobody else's")
        };
        open.block = Some(Arc::clone(block));
        open.request(range.len());
        self.items.clear();
        let Self { items, given_out, .. } = self;
        input.describe((batch, block), range, (given_out, is_new), |item, packet, headers| {
            items.push(item);
            open.put(packet, headers);
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
        let Self { outboxes, decisions, turns, given_out, drop_when_full, .. } = self;
        for (i, (parcel, decision)) in open.parcels().iter_mut().zip(&decisions[..count]).enumerate() {
            let packet = &mut parcel.packet;
            match *decision {
                // Before the packet has a turn that others would wait for.
                Decision::To(worker)
                    if !*drop_when_full || outboxes[worker.index()].has_room(1, are_trays_scarce) =>
                {
                    let shards = turns.len();
                    if shards > 0 {
                        let turn = &mut turns[shard_of(packet.hash, shards)];
                        packet.set_turn(*turn);
                        *turn = (*turn + 1) % TURNS;
                    }
                    outboxes[worker.index()].add(i, packet);
                }
                // No policy here parks: there is no shared queue to park in.
                _ => {
                    if let Some(given_out) = given_out {
                        given_out.dropped(packet.number());
                    }
                    input.lose(DropReason::RingFull, 1);
                }
            }
        }
        for outbox in outboxes {
            outbox.send(&tray);
        }
        self.trays.sent(tray);
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pass(&self.completed, &self.outboxes, input.latest_ns());
        }
    }

    fn flush(&mut self, _: &mut Admission) -> Room {
        // Nothing is held back but blocks, which a source may wait for.
        self.trays.collect_all();
        Room::Free
    }

    fn end(&mut self, _: &mut Admission) -> Room {
        if !self.ended {
            self.ended = true;
            self.outboxes.iter_mut().for_each(Outbox::end);
        }
        Room::Free
    }

    fn settle(&mut self, input: &mut Admission) {
        // What was not sent nor dropped was in the hands of whatever panicked.
        let known: u64 = self.outboxes.iter().map(|outbox| outbox.sent).sum();
        input.lose(DropReason::WorkerLost, input.unaccounted(known));
    }
}

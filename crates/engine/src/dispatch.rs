//! Pipeline mode with a policy that decides: it says whose each packet of a tray is.

use std::sync::Arc;

use flowloom_packet::DropReason;
use flowloom_scheduler::{Decision, LoadView, Placement, WorkerId};

use crate::actor::Room;
use crate::control::Gauges;
use crate::descriptor::TURNS;
use crate::egress::GivenOut;
use crate::handing_out::{Full, HandedOver, Intake};
use crate::input::Losses;
use crate::lot::Portion;
use crate::ring::Outbox;
use crate::shared::{DoneUpTo, shard_of};
use crate::tray::{Stock, TRAY_PACKETS, Trays};

/// Hands packets to workers.
pub(crate) struct PushIntake<'a> {
    outboxes: Vec<Outbox>,
    placement: &'a mut dyn Placement,
    drop_when_full: bool,
    given_out: Option<GivenOut>,
    /// The next turn of each shard; empty where packets need none.
    turns: Vec<u32>,
    block_number: Option<(u64, u32)>,
    stock: Stock,
    /// With more on the way, trays are scarce.
    trays_plenty: usize,
    decisions: Vec<Decision>,
    sent: Vec<u64>,
    completed: Vec<u64>,
    sent_bytes: Vec<u64>,
    completed_bytes: Vec<u64>,
    /// Packets that the policy itself dropped.
    unplaced: u64,
    gauges: Arc<Gauges>,
    /// A ring was full since that was published.
    has_news: bool,
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
    /// What the trays of all lots have in common.
    pub(crate) stock: Stock,
    /// Where flows are shared: who is told how far everything is done.
    pub(crate) done_up_to: Option<Arc<DoneUpTo>>,
    /// Where it is published how often rings are full.
    pub(crate) gauges: Arc<Gauges>,
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
            stock: options.stock,
            // As many as twice the packets that may be on the way would lie on, were every tray full.
            trays_plenty: 2 * (options.slots * workers).div_ceil(TRAY_PACKETS),
            decisions: vec![Decision::Drop; TRAY_PACKETS],
            sent: vec![0; workers],
            completed: vec![0; workers],
            sent_bytes: vec![0; workers],
            completed_bytes: vec![0; workers],
            unplaced: 0,
            gauges: options.gauges,
            has_news: false,
            checkpoint: options.done_up_to.map(|done_up_to| Checkpoint {
                done_up_to,
                time_ns: None,
                sent: Vec::with_capacity(workers),
            }),
            ended: false,
        }
    }

    fn are_trays_scarce(&self) -> bool {
        self.stock.on_the_way() > self.trays_plenty
    }

    /// Returns how each worker's ring was full.
    fn full(&self) -> impl Iterator<Item = Full> {
        self.outboxes.iter().map(|outbox| Full { refused: outbox.refused, waits: outbox.full_waits })
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

/// Ends the run: what a policy says of itself cannot be checked before.
#[cold]
fn nobody(policy: &str, worker: WorkerId, workers: usize) -> ! {
    panic!("{policy} decided for worker {worker}, and the {workers} there are begin with 0")
}

impl Intake for PushIntake<'_> {
    fn room(&mut self, _: &mut Losses, packets: usize) -> Room {
        let (mut is_full, mut is_gone) = (false, false);
        let are_trays_scarce = self.are_trays_scarce();
        for outbox in &mut self.outboxes {
            is_gone |= outbox.is_abandoned();
            // Where packets are dropped, each is judged by itself. Else all of the batch might be for this worker.
            if !self.drop_when_full && !outbox.has_room(packets, are_trays_scarce) {
                outbox.full_waits += 1;
                is_full = true;
            }
        }
        self.has_news |= is_full;
        match (is_gone, is_full) {
            (true, _) => Room::Gone,
            (false, true) => Room::Full,
            (false, false) => Room::Free,
        }
    }

    fn take(&mut self, losses: &mut Losses, portion: &mut Portion, trays: &mut Trays) {
        for (reason, link) in portion.refused.drain(..) {
            losses.refuse(reason, link);
        }
        let Some(mut tray) = portion.tray.take() else { return };
        if let Some(given_out) = &mut self.given_out {
            let is_new = self.block_number != Some(portion.block_number);
            self.block_number = Some(portion.block_number);
            let block = tray.block.as_ref().filter(|_| is_new).map(Arc::clone);
            given_out.batch(portion.first, portion.len(), portion.mask, block);
        }
        let are_trays_scarce = self.are_trays_scarce();
        self.look();
        let items = &portion.items[..];
        let load = LoadView {
            sent: &self.sent,
            completed: &self.completed,
            sent_bytes: &self.sent_bytes,
            completed_bytes: &self.completed_bytes,
            busy: &[],
        };
        self.placement.place(items, &load, &mut self.decisions[..items.len()]);
        let Self { outboxes, placement, decisions, turns, given_out, drop_when_full, .. } = self;
        let (unplaced, has_news) = (&mut self.unplaced, &mut self.has_news);
        let workers = outboxes.len();
        // Where there are turns.
        let mut own_tray = if turns.is_empty() { None } else { Arc::get_mut(&mut tray) };
        let mut numbers = portion.mask;
        for (i, (item, decision)) in items.iter().zip(&*decisions).enumerate() {
            let number = portion.first + u64::from(numbers.trailing_zeros());
            numbers &= numbers.wrapping_sub(1);
            let outbox = match *decision {
                Decision::To(worker) => {
                    let Some(outbox) = outboxes.get_mut(worker.index()) else {
                        nobody(placement.name(), worker, workers)
                    };
                    // Before the packet has a turn that others would wait for.
                    if !*drop_when_full || outbox.has_room(1, are_trays_scarce) {
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
                if let Some(tray) = &mut own_tray {
                    let shard = shard_of(tray.parcel(i).packet.hash, turns.len());
                    let turn = &mut turns[shard];
                    tray.set_turn(i, *turn);
                    *turn = (*turn + 1) % TURNS;
                }
                outbox.add(i, item.bytes);
            } else {
                if let Some(given_out) = given_out {
                    given_out.dropped(number);
                }
                *has_news = true;
                losses.lose(DropReason::RingFull, 1);
            }
        }
        for outbox in outboxes {
            outbox.send(&tray);
        }
        trays.sent(tray);
        if let Some(checkpoint) = &mut self.checkpoint {
            checkpoint.pass(&self.completed, &self.outboxes, portion.latest_ns);
        }
    }

    fn end(&mut self, _: &mut Losses) -> Room {
        if !self.ended {
            self.ended = true;
            self.outboxes.iter_mut().for_each(Outbox::end);
            // The egress stage would wait for more.
            self.given_out = None;
        }
        Room::Free
    }

    fn settle(&mut self, _: &mut Losses) {}

    fn publish(&mut self) {
        if std::mem::take(&mut self.has_news) {
            self.gauges.publish_full(self.full(), Full { refused: self.unplaced, waits: 0 });
        }
    }

    fn finish(&mut self, _: &mut Losses) -> HandedOver {
        let sent: Vec<u64> = self.outboxes.iter().map(|outbox| outbox.sent).collect();
        let rings = self.full().collect();
        let nobodys = Full { refused: self.unplaced, waits: 0 };
        HandedOver { packets: sent.iter().sum(), sent, rings, nobodys }
    }
}

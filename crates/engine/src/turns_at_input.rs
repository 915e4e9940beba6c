//! The input stage for whoever has time: a thread of its own, or any worker that is short of packets.
//!
//! ```text
//!  turn of one   ─ front: packets, numbers, times ─▶ a lot
//!  by itself     ─ decode, key, hash
//!  turn of one   ─ handing out, by ticket: policy, rings
//! ```
//!
//! Nobody waits for a turn: a lot whose turn has not come is left, and whoever is next at handing out deals with it.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use crossbeam_utils::CachePadded;

use crate::actor::{Polled, Room};
use crate::counters::InputCounters;
use crate::crew::caught;
use crate::drive::Front;
use crate::error::Fault;
use crate::handing_out::{HandedOver, HandingOut};
use crate::input::Decoder;
use crate::lot::Lot;
use crate::sync::{AtomicBool, Ordering};
use crate::tickets::Tickets;
use crate::tray::Stock;

/// Lots of each helper: one to work at while another waits for its turn.
const LOTS: usize = 2;
/// Lots that a helper takes on end.
const TURNS: usize = 2;

/// An input stage that several threads poll.
pub(crate) struct TurnsAtInput<'a> {
    front: CachePadded<Mutex<Taking<'a>>>,
    handing_out: CachePadded<Mutex<HandingOut<'a>>>,
    lots: Box<[CachePadded<Mutex<Lot>>]>,
    tickets: Tickets,
    decoder: Decoder,
    is_broken: AtomicBool,
    /// A hint that spares the locks.
    is_done: AtomicBool,
}

/// The front, and the next ticket.
pub(crate) struct Taking<'a> {
    front: Front<'a>,
    ticket: u64,
    is_over: bool,
}

/// What polls an input stage, one for each thread that may.
#[derive(Debug)]
pub(crate) struct Helper {
    lots: Range<usize>,
    /// A ticket whose lot is to be decoded, and the lot.
    taken: Option<(u64, usize)>,
}

/// How the input stage ended.
#[derive(Debug)]
pub(crate) struct InputEnd {
    pub(crate) counters: InputCounters,
    pub(crate) interrupted: bool,
    pub(crate) fault: Option<Fault>,
}

fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Some(guard),
        // After a panic the stage only ends, and its counters are whole at any moment.
        Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> TurnsAtInput<'a> {
    /// Returns a stage for so many helpers.
    pub(crate) fn new(
        front: Front<'a>,
        handing_out: HandingOut<'a>,
        decoder: Decoder,
        stock: &Stock,
        helpers: usize,
    ) -> Self {
        let lots = LOTS * helpers;
        Self {
            front: CachePadded::new(Mutex::new(Taking { front, ticket: 0, is_over: false })),
            handing_out: CachePadded::new(Mutex::new(handing_out)),
            lots: (0..lots).map(|_| CachePadded::new(Mutex::new(Lot::new(stock.clone())))).collect(),
            tickets: Tickets::new(lots),
            decoder,
            is_broken: AtomicBool::new(false),
            is_done: AtomicBool::new(false),
        }
    }

    /// Returns the helpers, of whom each is one thread's.
    pub(crate) fn helpers(&self) -> impl Iterator<Item = Helper> + use<> {
        let helpers = self.lots.len() / LOTS;
        (0..helpers).map(|i| Helper { lots: i * LOTS..(i + 1) * LOTS, taken: None })
    }

    /// Keeps everybody from the source until the guard is dropped.
    pub(crate) fn hold(&self) -> MutexGuard<'_, Taking<'a>> {
        lock(&self.front)
    }

    /// Takes what the source has, decodes it, and hands out what is ready, once or twice; `Done` when all is handed out.
    pub(crate) fn poll(&self, helper: &mut Helper) -> Polled {
        let mut polled = self.hand_out();
        for _ in 0..TURNS {
            let taken = self.take(helper);
            if taken != Polled::Worked {
                // It goes on as soon as whoever is here has done its own part.
                if polled == Polled::Idle {
                    polled = taken;
                }
                break;
            }
            polled = Polled::Worked;
            self.decode(helper);
            self.hand_out();
        }
        if self.is_done() { Polled::Done } else { polled }
    }

    /// Does one step of that; `chance` says whether to take first or to hand out.
    pub(crate) fn step(&self, helper: &mut Helper, chance: bool) -> Polled {
        if helper.taken.is_some() {
            self.decode(helper);
            return Polled::Worked;
        }
        let polled = if chance { self.take(helper) } else { self.hand_out() };
        let polled = match (polled, chance) {
            (Polled::Idle, true) => self.hand_out(),
            (Polled::Idle, false) => self.take(helper),
            (polled, _) => polled,
        };
        if self.is_done() { Polled::Done } else { polled }
    }

    /// Polls for a worker, which has an end of its own.
    pub(crate) fn help(&self, helper: &mut Helper) -> Polled {
        match self.poll(helper) {
            Polled::Done => Polled::Idle,
            polled => polled,
        }
    }

    fn is_done(&self) -> bool {
        // Relaxed: whoever sees it late finds the stages as they are behind their locks.
        self.is_done.load(Ordering::Relaxed)
    }

    /// Fills a lot from the source, in a turn; `Idle` while it is somebody else's, or when none of the helper's lots is free.
    fn take(&self, helper: &mut Helper) -> Polled {
        if self.is_done() {
            return Polled::Idle;
        }
        let Some(at) = self.tickets.take(helper.lots.clone()) else { return Polled::Idle };
        let polled = self.take_into(at, helper);
        if helper.taken.is_none() {
            self.tickets.give_back(at);
        }
        if polled == Polled::Starved {
            self.collect();
        }
        polled
    }

    fn take_into(&self, at: usize, helper: &mut Helper) -> Polled {
        let Some(mut taking) = try_lock(&self.front) else { return Polled::Idle };
        let Taking { front, ticket, is_over } = &mut *taking;
        if *is_over {
            return Polled::Idle;
        }
        let mut lot = lock(&self.lots[at]);
        // Unwind safety: after a panic the front only ends, and its counters are whole at any moment.
        let polled = if self.is_broken.load(Ordering::Relaxed) {
            Polled::Done
        } else {
            caught(|| lot.fill(front)).unwrap_or_else(|message| {
                front.fail(fault(message));
                Polled::Done
            })
        };
        front.publish();
        if lot.len() > 0 {
            helper.taken = Some((*ticket, at));
            *ticket += 1;
        }
        if polled == Polled::Done {
            *is_over = true;
            self.tickets.end(*ticket);
            return Polled::Worked;
        }
        if lot.len() > 0 { Polled::Worked } else { polled }
    }

    /// Decodes what was taken, and hands it in.
    fn decode(&self, helper: &mut Helper) {
        let Some((ticket, at)) = helper.taken.take() else { return };
        // Unwind safety: what is not decoded is counted as lost, and the stage ends.
        let decoded = caught(|| lock(&self.lots[at]).decode(&self.decoder));
        self.tickets.hand_in(ticket, at);
        if let Err(message) = decoded {
            self.fail(message);
        }
    }

    /// Hands out the lots whose turn it is, in a turn; `Idle` while it is somebody else's.
    fn hand_out(&self) -> Polled {
        if self.is_done() {
            return Polled::Done;
        }
        let Some(mut handing_out) = try_lock(&self.handing_out) else { return Polled::Idle };
        // Unwind safety: after a panic it only ends, and its counters are whole at any moment.
        let polled = caught(|| self.hand_out_all(&mut handing_out));
        let polled = polled.unwrap_or_else(|message| {
            handing_out.settle();
            self.fail(message);
            Polled::Worked
        });
        handing_out.publish();
        if handing_out.is_broken() {
            self.is_broken.store(true, Ordering::Relaxed);
        }
        if polled == Polled::Done {
            self.is_done.store(true, Ordering::Relaxed);
        }
        polled
    }

    fn hand_out_all(&self, handing_out: &mut HandingOut<'_>) -> Polled {
        let mut polled = Polled::Idle;
        while let Some(at) = handing_out.next(&self.tickets) {
            let (room, batches) = handing_out.hand_out(&mut lock(&self.lots[at]));
            if batches > 0 {
                polled = Polled::Worked;
            }
            if room == Room::Full {
                // Trays may be scarce, or their blocks be waited for.
                self.collect();
                return polled;
            }
            self.tickets.give_back(at);
            polled = Polled::Worked;
        }
        match handing_out.end(&self.tickets) {
            Polled::Idle => polled,
            ended => ended,
        }
    }

    /// Empties all trays that no worker has any more: their blocks can be filled again.
    fn collect(&self) {
        for lot in &self.lots {
            if let Some(mut lot) = try_lock(lot) {
                lot.trays.collect_all();
            }
        }
    }

    /// After a panic beside the front: takes in nothing more.
    fn fail(&self, message: String) {
        self.is_broken.store(true, Ordering::Relaxed);
        lock(&self.front).front.fail(fault(message));
    }

    /// Returns the counts and what was handed to workers, who are gone.
    pub(crate) fn finish(self) -> (InputEnd, HandedOver) {
        let Taking { mut front, .. } =
            self.front.into_inner().into_inner().unwrap_or_else(PoisonError::into_inner);
        let handing_out =
            self.handing_out.into_inner().into_inner().unwrap_or_else(PoisonError::into_inner);
        front.publish();
        let (losses, handed) = handing_out.finish(&front);
        let Front { arrivals, losses: mut all, interrupted, fault, .. } = front;
        all.merge(losses);
        (InputEnd { counters: arrivals.finish(all), interrupted, fault }, handed)
    }
}

/// Returns the fault that a panic is, by the packets before it.
fn fault(message: String) -> impl FnOnce(u64) -> Fault {
    |packets| Fault::InputPanicked { packets, message }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use std::sync::{Arc, Weak};

    use flowloom_packet::{Block, Fill, PacketBatch, PacketSource, SourceError};

    use super::*;
    use crate::config::{EngineConfig, Mode};
    use crate::control::Control;
    use crate::handing_out::tests::Script;
    use crate::lot::tests::Batches;

    /// Has a batch when it is told to, and watches the last block.
    struct Halting<'a> {
        fills: std::slice::Iter<'a, Fill>,
        block: &'a Mutex<Weak<Block>>,
    }

    impl PacketSource for Halting<'_> {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            let fill = self.fills.next().copied().unwrap_or(Fill::End);
            if fill == Fill::Packets {
                Batches(1).next_batch(batch)?;
                *self.block.lock().unwrap() = batch.block.as_ref().map_or_else(Weak::new, Arc::downgrade);
            }
            Ok(fill)
        }
    }

    /// Has an input stage, for so many, with packets and room as it is told.
    fn with(
        fills: &[Fill],
        rooms: &[Room],
        helpers: usize,
        check: impl FnOnce(&TurnsAtInput<'_>, &Seen<'_>),
    ) {
        let (taken, block) = (Mutex::default(), Mutex::default());
        let (config, control, stock) =
            (EngineConfig::new(Mode::Inline), Control::default(), Stock::default());
        let mut source = Halting { fills: fills.iter(), block: &block };
        let front = Front::new(&config, &mut source, None, &control, Arc::default());
        let handing_out = HandingOut::new(Box::new(Script::new(rooms, &taken)), &control);
        let decoder = Decoder::new(config.decode, config.hasher.clone(), config.digest);
        let input = TurnsAtInput::new(front, handing_out, decoder, &stock, helpers);
        check(&input, &Seen { taken: &taken, block: &block });
    }

    struct Seen<'a> {
        taken: &'a Mutex<Vec<u64>>,
        block: &'a Mutex<Weak<Block>>,
    }

    impl Seen<'_> {
        fn taken(&self) -> Vec<u64> {
            self.taken.lock().unwrap().clone()
        }

        fn is_block_free(&self) -> bool {
            self.block.lock().unwrap().strong_count() == 0
        }
    }

    #[test]
    fn every_helper_has_two_lots_that_are_nobody_elses() {
        with(&[], &[], 3, |input, _| {
            let lots: Vec<Range<usize>> = input.helpers().map(|helper| helper.lots).collect();
            assert_eq!(lots, [0..2, 2..4, 4..6]);
        });
    }

    #[test]
    fn who_polls_is_told_what_there_is_to_wait_for() {
        let fills = [Fill::Packets, Fill::Starved, Fill::Starved, Fill::Starved, Fill::Packets, Fill::End];
        with(&fills, &[Room::Full, Room::Full], 1, |input, seen| {
            let mut helper = input.helpers().next().unwrap();
            assert_eq!(input.poll(&mut helper), Polled::Worked, "a lot is taken, and finds no room");
            assert_eq!(input.poll(&mut helper), Polled::Starved, "nor does it now");
            assert_eq!(seen.taken(), []);
            assert_eq!(input.poll(&mut helper), Polled::Done, "the rest is taken and handed out in one go");
            assert_eq!(seen.taken(), [0, 4]);
            assert_eq!(input.poll(&mut helper), Polled::Done);
        });
    }

    #[test]
    fn where_nothing_is_held_back_there_is_nothing_to_do_but_wait_for_the_source() {
        let fills = [Fill::Packets, Fill::Starved, Fill::Starved, Fill::Starved];
        with(&fills, &[], 1, |input, seen| {
            let mut helper = input.helpers().next().unwrap();
            assert_eq!(input.poll(&mut helper), Polled::Worked);
            assert_eq!(seen.taken(), [0]);
            assert_eq!(input.poll(&mut helper), Polled::Starved);
        });
    }

    #[test]
    fn a_starved_source_gets_back_the_blocks_that_workers_are_done_with() {
        with(&[Fill::Packets, Fill::Starved, Fill::Starved], &[], 1, |input, seen| {
            let mut helper = input.helpers().next().unwrap();
            assert_eq!(input.step(&mut helper, true), Polled::Worked, "a lot is taken");
            assert_eq!(input.step(&mut helper, true), Polled::Worked, "decoded");
            assert_eq!(input.step(&mut helper, false), Polled::Worked, "and handed out");
            assert!(seen.taken() == [0] && !seen.is_block_free());
            assert_eq!(input.step(&mut helper, true), Polled::Starved);
            assert!(seen.is_block_free());
        });
    }

    #[test]
    fn without_room_the_blocks_that_workers_are_done_with_are_given_back() {
        let fills = [Fill::Packets, Fill::Starved, Fill::Packets, Fill::Starved];
        with(&fills, &[Room::Free, Room::Full], 2, |input, seen| {
            // Of two, or the second lot would look through the trays of the first.
            let mut helpers: Vec<Helper> = input.helpers().collect();
            for chance in [true, true, false] {
                assert_eq!(input.step(&mut helpers[0], chance), Polled::Worked);
            }
            let first = std::mem::take(&mut *seen.block.lock().unwrap());
            for chance in [true, true] {
                assert_eq!(input.step(&mut helpers[1], chance), Polled::Worked);
            }
            assert_eq!(first.strong_count(), 1);
            assert_eq!(input.hand_out(), Polled::Idle);
            assert_eq!(first.strong_count(), 0);
        });
    }
}

//! The back of the input stage: what is decoded gets its worker here, in the order in which it was taken in.

use flowloom_packet::DropReason;
use flowloom_packet::reason::DropCounts;

use crate::actor::{Polled, Room};
use crate::control::Control;
use crate::drive::Front;
use crate::input::Losses;
use crate::lot::{Lot, Portion};
use crate::tickets::Tickets;
use crate::tray::Trays;

/// Where the input stage puts what has a key. Never waits.
pub(crate) trait Intake: Send {
    /// Hands on what fills a stage; says whether so many packets more may be taken.
    fn room(&mut self, losses: &mut Losses, packets: usize) -> Room;
    /// Takes in a portion; there is room for it. Its tray goes to `trays`.
    fn take(&mut self, losses: &mut Losses, portion: &mut Portion, trays: &mut Trays);
    /// While nothing is there to be taken in: hands on what found no room; says whether some of it did.
    fn go_on(&mut self, _: &mut Losses) -> bool {
        false
    }
    /// After the last packet: hands on what is left and says that nothing follows. To be called until it does not return
    /// `Full`.
    fn end(&mut self, losses: &mut Losses) -> Room;
    /// After a panic: lets go of what is held back.
    fn settle(&mut self, losses: &mut Losses);
    /// Publishes how often what it hands packets to was full.
    fn publish(&mut self) {}
    /// Says what was handed to workers, once they are gone.
    fn finish(&mut self, losses: &mut Losses) -> HandedOver;
}

/// What was handed to workers.
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    /// Packets, all of them.
    pub(crate) packets: u64,
    /// To each worker, where each has a ring.
    pub(crate) sent: Vec<u64>,
    /// How each worker's ring was full, where each has one.
    pub(crate) rings: Vec<Full>,
    /// How the pool was full, if there is one; what a policy dropped by itself is refused here, too.
    pub(crate) nobodys: Full,
}

/// How a ring, or the pool, was full.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Full {
    /// Packets that were dropped for it.
    pub(crate) refused: u64,
    /// How often it was waited for; where packets are dropped, batches of which some were.
    pub(crate) waits: u64,
}

/// Whatever has to happen in the order of tickets, and nothing else.
pub(crate) struct HandingOut<'a> {
    pub(crate) intake: Box<dyn Intake + 'a>,
    /// Packets without a key, and those that found no room.
    pub(crate) losses: Losses,
    control: &'a Control,
    known: DropCounts,
    /// The ticket whose turn it is.
    ticket: u64,
    /// Portions of its lot that are handed out.
    portions: usize,
    /// Nothing is handed out any more: what comes is lost.
    is_broken: bool,
}

impl<'a> HandingOut<'a> {
    pub(crate) fn new(intake: Box<dyn Intake + 'a>, control: &'a Control) -> Self {
        Self {
            intake,
            losses: Losses::default(),
            control,
            known: DropCounts::default(),
            ticket: 0,
            portions: 0,
            is_broken: false,
        }
    }

    /// Returns the lot whose turn it is, if it was handed in.
    pub(crate) fn next(&self, tickets: &Tickets) -> Option<usize> {
        tickets.handed_in(self.ticket)
    }

    /// Hands out that lot, or the portions of it that there is room for; says how many.
    pub(crate) fn hand_out(&mut self, lot: &mut Lot) -> (Room, usize) {
        let begun = self.portions;
        let (portions, trays) = lot.portions();
        for portion in &mut portions[self.portions..] {
            let room = if self.is_broken || !portion.is_decoded {
                Room::Gone
            } else {
                self.intake.room(&mut self.losses, portion.len())
            };
            match room {
                Room::Full => return (Room::Full, self.portions - begun),
                Room::Free => {
                    // Before: should it panic, the portion is not handed out again.
                    self.portions += 1;
                    self.intake.take(&mut self.losses, portion, trays);
                }
                Room::Gone => {
                    self.portions += 1;
                    self.is_broken = true;
                    self.lose(portion);
                }
            }
        }
        lot.clear();
        self.ticket += 1;
        (Room::Free, std::mem::take(&mut self.portions) - begun)
    }

    fn lose(&mut self, portion: &mut Portion) {
        portion.tray = None;
        self.losses.lose(DropReason::WorkerLost, portion.with_keys() as u64);
        for (reason, link) in portion.refused.drain(..) {
            self.losses.refuse(reason, link);
        }
    }

    /// Ends what comes after, once there is no further ticket; until then, goes on with what is held back.
    pub(crate) fn end(&mut self, tickets: &Tickets) -> Polled {
        if !tickets.is_over(self.ticket) {
            // The source may have nothing for long: what was taken in does not wait for what comes next.
            return if self.intake.go_on(&mut self.losses) { Polled::Worked } else { Polled::Idle };
        }
        match self.intake.end(&mut self.losses) {
            Room::Free | Room::Gone => Polled::Done,
            Room::Full => Polled::Idle,
        }
    }

    /// Publishes what was lost, and before which rings.
    pub(crate) fn publish(&mut self) {
        // In this order: what is known of rings is never more than what is known to be dropped.
        self.control.publish_drops(self.losses.dropped(), &mut self.known);
        self.intake.publish();
    }

    /// After a panic of anything called: hands out nothing more.
    pub(crate) fn settle(&mut self) {
        self.is_broken = true;
        self.intake.settle(&mut self.losses);
    }

    /// Says whether nothing is handed out any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Returns what was lost and what was handed over, once workers are gone.
    pub(crate) fn finish(mut self, front: &Front<'_>) -> (Losses, HandedOver) {
        let handed = self.intake.finish(&mut self.losses);
        if front.fault.is_some() {
            // What was neither handed over nor dropped was in the hands of whatever panicked.
            let dropped = front.losses.dropped().total() + self.losses.dropped().total();
            self.losses.lose(DropReason::WorkerLost, front.arrivals.packets() - dropped - handed.packets);
        }
        self.control.publish_drops(self.losses.dropped(), &mut self.known);
        (self.losses, handed)
    }
}

#[cfg(not(loom))]
#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;

    use super::*;
    use crate::lot::tests::{PACKETS, lot_of};

    /// Has room as it is told, and afterwards always; writes down what it takes, with which workers are done at once.
    pub(crate) struct Script<'a> {
        rooms: VecDeque<Room>,
        taken: &'a Mutex<Vec<u64>>,
    }

    impl<'a> Script<'a> {
        pub(crate) fn new(rooms: &[Room], taken: &'a Mutex<Vec<u64>>) -> Self {
            Self { rooms: rooms.iter().copied().collect(), taken }
        }
    }

    impl Intake for Script<'_> {
        fn room(&mut self, _: &mut Losses, packets: usize) -> Room {
            assert_eq!(packets, PACKETS);
            self.rooms.pop_front().unwrap_or(Room::Free)
        }

        fn take(&mut self, losses: &mut Losses, portion: &mut Portion, trays: &mut Trays) {
            for (reason, link) in portion.refused.drain(..) {
                losses.refuse(reason, link);
            }
            trays.sent(portion.tray.take().unwrap());
            self.taken.lock().unwrap().push(portion.first);
        }

        fn end(&mut self, _: &mut Losses) -> Room {
            Room::Free
        }

        fn settle(&mut self, _: &mut Losses) {}

        fn finish(&mut self, _: &mut Losses) -> HandedOver {
            HandedOver::default()
        }
    }

    fn with(rooms: &[Room], check: impl FnOnce(HandingOut<'_>, &Control, &dyn Fn() -> Vec<u64>)) {
        let (taken, control) = (Mutex::default(), Control::default());
        let handing_out = HandingOut::new(Box::new(Script::new(rooms, &taken)), &control);
        check(handing_out, &control, &|| taken.lock().unwrap().clone());
    }

    #[test]
    fn a_lot_without_room_is_gone_on_with_where_it_was_left_and_says_when_nothing_was_done() {
        let rooms = [Room::Free, Room::Full, Room::Full, Room::Free, Room::Full];
        with(&rooms, |mut handing_out, _, taken| {
            let tickets = Tickets::new(2);
            let mut lot = lot_of(3);
            tickets.hand_in(1, 1);
            assert_eq!(handing_out.hand_out(&mut lot), (Room::Full, 1));
            assert_eq!(handing_out.hand_out(&mut lot), (Room::Full, 0));
            assert_eq!(handing_out.hand_out(&mut lot), (Room::Full, 1));
            assert_eq!(handing_out.next(&tickets), None, "its turn is not over");
            assert_eq!(handing_out.hand_out(&mut lot), (Room::Free, 1));
            assert_eq!(taken(), [0, 4, 8]);
            assert_eq!((handing_out.next(&tickets), lot.len()), (Some(1), 0));
        });
    }

    #[test]
    fn what_was_left_undecoded_is_lost_with_all_that_follows() {
        with(&[], |mut handing_out, _, taken| {
            let mut lot = lot_of(3);
            lot.portions().0[1].is_decoded = false;
            assert_eq!(handing_out.hand_out(&mut lot), (Room::Free, 3));
            assert!(handing_out.is_broken());
            assert_eq!(handing_out.hand_out(&mut lot_of(1)), (Room::Free, 1));
            assert_eq!(taken(), [0]);
            // Of four packets three have a key.
            assert_eq!(handing_out.losses.dropped().of(DropReason::WorkerLost), 3 * 3);
            assert_eq!(handing_out.losses.dropped().total(), 3 * 3 + 4);
        });
    }

    #[test]
    fn where_a_worker_is_gone_the_rest_is_lost_though_there_is_room_again() {
        with(&[Room::Free, Room::Gone], |mut handing_out, _, taken| {
            assert_eq!(handing_out.hand_out(&mut lot_of(4)), (Room::Free, 4));
            assert!(handing_out.is_broken());
            assert_eq!(taken(), [0]);
            assert_eq!(handing_out.losses.dropped().of(DropReason::WorkerLost), 3 * 3);
        });
    }

    #[test]
    fn after_a_panic_nothing_is_handed_out_and_what_is_lost_is_known_at_once() {
        with(&[], |mut handing_out, control, taken| {
            assert!(!handing_out.is_broken());
            handing_out.settle();
            handing_out.hand_out(&mut lot_of(2));
            assert!(handing_out.is_broken());
            assert_eq!(taken(), []);
            handing_out.publish();
            assert_eq!(control.snapshot().dropped.of(DropReason::WorkerLost), 2 * 3);
        });
    }
}

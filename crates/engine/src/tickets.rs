//! Tickets: lots are handed in by whoever is ready, and gone through in the order in which they were taken.
//!
//! ```text
//!  take 5 ─ lot 2 ─ hand in ┐        ┌───┬───┬───┬───┐
//!  take 6 ─ lot 0 ─ …       ├──────▶ │ 4 │ 5 │ – │ – │ ──▶ whoever goes through them: 4, 5, and no further before 6
//!  take 7 ─ lot 3 ─ …       ┘        └───┴───┴───┴───┘
//! ```
//!
//! Nobody waits for anybody. A lot has at most one ticket, so a board of as many places as there are lots is never too small.

use crossbeam_utils::CachePadded;

use crate::sync::{AtomicBool, AtomicU64, Ordering};

const LOT_BITS: u32 = 16;

/// What was handed in, and which lots are free.
#[derive(Debug)]
pub(crate) struct Tickets {
    /// In the place of a ticket: its number, from 1 on, and its lot.
    board: Box<[CachePadded<AtomicU64>]>,
    /// Lots that have a ticket.
    is_taken: Box<[CachePadded<AtomicBool>]>,
    /// How many tickets there are, once that is known.
    all: AtomicU64,
}

impl Tickets {
    pub(crate) fn new(lots: usize) -> Self {
        assert!(lots < 1 << LOT_BITS, "a place on the board has so many bits for the lot");
        Self {
            board: (0..lots).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
            is_taken: (0..lots).map(|_| CachePadded::new(AtomicBool::new(false))).collect(),
            all: AtomicU64::new(u64::MAX),
        }
    }

    /// Takes one of these lots, unless all have a ticket. Only the one that they belong to may.
    pub(crate) fn take(&self, mut lots: std::ops::Range<usize>) -> Option<usize> {
        // Acquire pairs with the Release in `give_back`: whoever had it last is done with it.
        let lot = lots.find(|&lot| !self.is_taken[lot].load(Ordering::Acquire))?;
        self.is_taken[lot].store(true, Ordering::Relaxed);
        Some(lot)
    }

    /// Says that a lot has no ticket any more.
    pub(crate) fn give_back(&self, lot: usize) {
        self.is_taken[lot].store(false, Ordering::Release);
    }

    fn place(&self, ticket: u64) -> &AtomicU64 {
        &self.board[(ticket % self.board.len() as u64) as usize]
    }

    /// Hands in the lot of a ticket. Nobody else has the ticket.
    pub(crate) fn hand_in(&self, ticket: u64, lot: usize) {
        // Release pairs with the Acquire in `handed_in`: who sees the ticket sees what is in the lot.
        self.place(ticket).store((ticket + 1) << LOT_BITS | lot as u64, Ordering::Release);
    }

    /// Returns the lot of a ticket, if it was handed in.
    pub(crate) fn handed_in(&self, ticket: u64) -> Option<usize> {
        let entry = self.place(ticket).load(Ordering::Acquire);
        // Else there stands still the one of a round ago.
        (entry >> LOT_BITS == ticket + 1).then_some((entry & ((1 << LOT_BITS) - 1)) as usize)
    }

    /// Says how many tickets there are: none is given out any more.
    pub(crate) fn end(&self, all: u64) {
        // Release pairs with the Acquire in `is_last`: who sees the end sees why.
        self.all.store(all, Ordering::Release);
    }

    /// Says whether there is no such ticket, nor a later one.
    pub(crate) fn is_over(&self, ticket: u64) -> bool {
        self.all.load(Ordering::Acquire) == ticket
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_in_early_waits_for_its_turn_and_an_old_ticket_is_no_new_one() {
        let tickets = Tickets::new(2);
        let (first, second) = (tickets.take(0..2).unwrap(), tickets.take(0..2).unwrap());
        assert_eq!((first, second, tickets.take(0..2)), (0, 1, None));
        tickets.hand_in(1, second);
        assert_eq!((tickets.handed_in(0), tickets.handed_in(1)), (None, Some(1)));
        tickets.hand_in(0, first);
        assert_eq!(tickets.handed_in(0), Some(0));
        tickets.give_back(0);
        assert_eq!(tickets.take(0..2), Some(0));
        assert_eq!(tickets.handed_in(2), None, "ticket 0 stands in its place");
        tickets.hand_in(2, 0);
        assert_eq!((tickets.handed_in(2), tickets.handed_in(0)), (Some(0), None));
        tickets.end(3);
        assert!(!tickets.is_over(2) && tickets.is_over(3));
    }
}

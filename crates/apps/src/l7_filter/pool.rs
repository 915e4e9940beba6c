//! A fixed number of things to lend: windows, buffers. Who lends one holds a ticket.
//!
//! A flow may end without a word, so nothing waits for tickets to be given back: when all things are lent, the one that was
//! lent first is taken back, and its ticket is void.

use std::num::NonZeroU32;

/// Says which thing was lent, and which time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    index: u32,
    /// Never 0, so that no ticket takes no more room than one.
    turn: NonZeroU32,
}

#[derive(Debug)]
struct Place<T> {
    thing: T,
    turn: NonZeroU32,
    lent: bool,
}

/// Things of one kind. They are made when they are first needed, and then kept.
#[derive(Debug)]
pub(super) struct Pool<T> {
    places: Vec<Place<T>>,
    places_max: usize,
    free: Vec<u32>,
    hand: usize,
    taken_back: u64,
}

impl<T> Pool<T> {
    pub(super) fn new(places_max: usize) -> Self {
        Self {
            places: Vec::new(),
            places_max: places_max.min(1 << 20),
            free: Vec::new(),
            hand: 0,
            taken_back: 0,
        }
    }

    /// Returns how often a thing was taken back from a ticket that still held it.
    pub(super) fn taken_back(&self) -> u64 {
        self.taken_back
    }

    /// Says whether the ticket still holds its thing.
    pub(super) fn has(&self, ticket: Option<Ticket>) -> bool {
        ticket.is_some_and(|ticket| {
            self.places
                .get(ticket.index as usize)
                .is_some_and(|place| place.lent && place.turn == ticket.turn)
        })
    }

    /// Returns the ticket's thing; lends one, cleared, where the ticket is empty. `None` when the pool has no places.
    pub(super) fn get(
        &mut self,
        ticket: &mut Option<Ticket>,
        make: impl FnOnce() -> T,
        clear: impl FnOnce(&mut T),
    ) -> Option<&mut T> {
        if let Some(held) = *ticket {
            return self
                .places
                .get_mut(held.index as usize)
                .filter(|place| place.lent && place.turn == held.turn)
                .map(|place| &mut place.thing);
        }
        let index = self.choose(make)?;
        let place = self.places.get_mut(index as usize)?;
        place.turn = place.turn.checked_add(1).unwrap_or(NonZeroU32::MIN);
        place.lent = true;
        clear(&mut place.thing);
        *ticket = Some(Ticket { index, turn: place.turn });
        Some(&mut place.thing)
    }

    fn choose(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.places.len() < self.places_max {
            self.places.push(Place { thing: make(), turn: NonZeroU32::MIN, lent: false });
            return u32::try_from(self.places.len() - 1).ok();
        }
        if self.places.is_empty() {
            return None;
        }
        // All are lent. They were lent in the order of their places, more or less.
        let index = self.hand;
        self.hand = (self.hand + 1) % self.places.len();
        self.taken_back += 1;
        u32::try_from(index).ok()
    }

    /// Says whether the ticket's thing is there and `empty`.
    pub(super) fn is_empty_now(&self, ticket: Option<Ticket>, empty: impl FnOnce(&T) -> bool) -> bool {
        self.has(ticket)
            && ticket
                .and_then(|ticket| self.places.get(ticket.index as usize))
                .is_some_and(|place| empty(&place.thing))
    }

    /// Takes the ticket, and the thing where it still holds it.
    pub(super) fn give_back(&mut self, ticket: &mut Option<Ticket>) {
        if self.has(*ticket)
            && let Some(held) = *ticket
        {
            self.places[held.index as usize].lent = false;
            self.free.push(held.index);
        }
        *ticket = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_taken_back_and_its_ticket_is_void() {
        let mut pool: Pool<Vec<u8>> = Pool::new(2);
        let mut tickets = [None; 3];
        for (mark, ticket) in (0..).zip(&mut tickets) {
            pool.get(ticket, Vec::new, Vec::clear).expect("there is a place").push(mark);
        }
        assert_eq!(pool.taken_back(), 1);
        assert!(!pool.has(tickets[0]) && pool.has(tickets[1]) && pool.has(tickets[2]));
        assert_eq!(pool.get(&mut tickets[0].clone(), Vec::new, Vec::clear), None);
        assert_eq!(pool.get(&mut tickets[2], Vec::new, Vec::clear), Some(&mut vec![2]));
        pool.give_back(&mut tickets[1]);
        assert_eq!(tickets[1], None);
        let mut fresh = None;
        assert_eq!(pool.get(&mut fresh, Vec::new, Vec::clear), Some(&mut vec![]), "cleared");
        assert_eq!(pool.taken_back(), 1, "there was a free one");
    }

    #[test]
    fn places_are_taken_back_one_after_the_other() {
        let mut pool: Pool<Vec<u8>> = Pool::new(3);
        let mut tickets = [None; 8];
        for ticket in &mut tickets {
            assert!(pool.get(ticket, Vec::new, Vec::clear).is_some());
        }
        assert_eq!(
            tickets.map(|ticket| pool.has(ticket)),
            [false, false, false, false, false, true, true, true]
        );
    }

    #[test]
    fn a_pool_without_places_lends_nothing() {
        let mut pool: Pool<Vec<u8>> = Pool::new(0);
        assert_eq!(pool.get(&mut None, Vec::new, Vec::clear), None);
    }
}

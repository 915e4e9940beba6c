//! A fixed number of things to lend: windows, buffers. Who lends one holds a ticket.
//!
//! A flow may end without a word, so nothing waits for tickets to be given back: when all things are lent, the one that was
//! lent first is taken back, and its ticket is void.

/// Bits of a place's number in a ticket; above them is the pool's.
const PLACE_BITS: u32 = 20;

/// Says which thing of which pool was lent, and which time. A flow may come to a worker with another's ticket: it is void
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ticket {
    place: u32,
    turn: u32,
}

#[derive(Debug)]
struct Place<T> {
    thing: T,
    turn: u32,
    lent: bool,
}

/// Things of one kind. They are made when they are first needed, and then kept.
#[derive(Debug)]
pub(super) struct Pool<T> {
    places: Vec<Place<T>>,
    places_max: usize,
    /// The pool's number, where tickets have it.
    mark: u32,
    free: Vec<u32>,
    hand: usize,
    taken_back: u64,
}

impl<T> Pool<T> {
    /// Returns a pool; those whose tickets may meet have different numbers, of which the lower twelve bits count.
    pub(super) fn new(places_max: usize, number: u32) -> Self {
        Self {
            places: Vec::new(),
            places_max: places_max.min(1 << PLACE_BITS),
            mark: number << PLACE_BITS,
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
                .get(self.index_of(ticket))
                .is_some_and(|place| place.lent && place.turn == ticket.turn)
        })
    }

    /// Returns the place of a ticket; of another pool's ticket one that there is not.
    fn index_of(&self, ticket: Ticket) -> usize {
        (ticket.place ^ self.mark) as usize
    }

    /// Returns the ticket's thing; lends one, cleared, where the ticket is empty. `None` when the pool has no places.
    pub(super) fn get(
        &mut self,
        ticket: &mut Option<Ticket>,
        make: impl FnOnce() -> T,
        clear: impl FnOnce(&mut T),
    ) -> Option<&mut T> {
        if let Some(held) = *ticket {
            let index = self.index_of(held);
            return self
                .places
                .get_mut(index)
                .filter(|place| place.lent && place.turn == held.turn)
                .map(|place| &mut place.thing);
        }
        let index = self.choose(make)?;
        let place = self.places.get_mut(index as usize)?;
        place.turn = place.turn.wrapping_add(1);
        place.lent = true;
        clear(&mut place.thing);
        *ticket = Some(Ticket { place: self.mark | index, turn: place.turn });
        Some(&mut place.thing)
    }

    fn choose(&mut self, make: impl FnOnce() -> T) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        if self.places.len() < self.places_max {
            self.places.push(Place { thing: make(), turn: 0, lent: false });
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
                .and_then(|ticket| self.places.get(self.index_of(ticket)))
                .is_some_and(|place| empty(&place.thing))
    }

    /// Takes the ticket, and the thing where it still holds it.
    pub(super) fn give_back(&mut self, ticket: &mut Option<Ticket>) {
        if self.has(*ticket)
            && let Some(held) = *ticket
        {
            let index = self.index_of(held);
            self.places[index].lent = false;
            self.free.push(held.place ^ self.mark);
        }
        *ticket = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_is_taken_back_and_its_ticket_is_void() {
        let mut pool: Pool<Vec<u8>> = Pool::new(2, 7);
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
    fn a_ticket_of_another_pool_is_void() {
        let [mut ours, mut theirs] = [0, 4095].map(|number| Pool::<Vec<u8>>::new(2, number));
        let (mut ticket, mut other) = (None, None);
        ours.get(&mut ticket, Vec::new, Vec::clear).expect("there is a place").push(1);
        theirs.get(&mut other, Vec::new, Vec::clear).expect("there is a place").push(2);
        assert!(ours.has(ticket) && !theirs.has(ticket) && !ours.has(other));
        assert_eq!(theirs.get(&mut ticket.clone(), Vec::new, Vec::clear), None);
        assert!(!theirs.is_empty_now(ticket, |_| true));
        theirs.give_back(&mut ticket.clone());
        assert_eq!(
            theirs.get(&mut other, Vec::new, Vec::clear),
            Some(&mut vec![2]),
            "still lent to its own"
        );
    }

    #[test]
    fn a_pool_without_places_lends_nothing() {
        let mut pool: Pool<Vec<u8>> = Pool::new(0, 0);
        assert_eq!(pool.get(&mut None, Vec::new, Vec::clear), None);
    }
}

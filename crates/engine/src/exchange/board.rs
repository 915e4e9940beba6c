//! The order of chunks: which are read, decoded, and processed by which shard.

use std::collections::VecDeque;

use crate::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};

/// The chunks of the window, and the next one of each shard.
///
/// A chunk gets its number when a thread begins to read it, and leaves when every shard has
/// processed its list and no earlier chunk is left. Between the two it is decoded by any thread,
/// and confirmed in the order of the numbers. One thread at a time has [claimed](Self::claim) a
/// shard, so the lists of a shard are processed one after another in the order of the input.
#[derive(Debug)]
pub(crate) struct Board<C> {
    state: Mutex<BoardState<C>>,
    /// Counts the changes, so that an idle thread looks for work only after one.
    changes: AtomicU64,
}

#[derive(Debug)]
struct BoardState<C> {
    /// The number of the oldest chunk.
    first: u64,
    chunks: VecDeque<Slot<C>>,
    /// The number of the next chunk to be confirmed.
    unconfirmed: u64,
    /// How often chunks were dropped that were read from a wrong place.
    epoch: u64,
    shards: Vec<Cursor>,
    window: usize,
    /// Chunks to be filled again.
    free: Vec<C>,
    is_over: bool,
}

#[derive(Debug)]
struct Slot<C> {
    chunk: Stage<C>,
    /// Shards that have not processed their lists.
    left: usize,
}

/// How far a chunk is.
#[derive(Debug)]
enum Stage<C> {
    /// A thread reads or decodes it.
    InWork,
    Decoded(C),
    Confirmed(Arc<C>),
}

/// The place of a chunk that a thread reads or decodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticket {
    number: u64,
    epoch: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    next: u64,
    is_claimed: bool,
}

impl<C: Default> Board<C> {
    /// Returns a board for at most `window` chunks at a time.
    pub(crate) fn new(shards: usize, window: usize) -> Self {
        let state = BoardState {
            first: 0,
            chunks: VecDeque::with_capacity(window),
            unconfirmed: 0,
            epoch: 0,
            shards: vec![Cursor::default(); shards],
            window,
            free: Vec::new(),
            is_over: false,
        };
        Self { state: Mutex::new(state), changes: AtomicU64::new(0) }
    }

    fn lock(&self) -> MutexGuard<'_, BoardState<C>> {
        // No caller's code runs while the lock is held, so no panic leaves a change half done.
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn change<R>(&self, change: impl FnOnce(&mut BoardState<C>) -> R) -> R {
        let result = change(&mut self.lock());
        // Release: a thread that sees the number also sees the change when it takes the lock.
        self.changes.fetch_add(1, Ordering::Release);
        result
    }

    /// Returns the number of changes so far.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns an empty chunk if the window is not full. Only the thread that holds the reader may
    /// call this and then [`add`](Self::add).
    pub(crate) fn buffer(&self) -> Option<C> {
        let mut state = self.lock();
        (state.chunks.len() < state.window).then(|| state.free.pop().unwrap_or_default())
    }

    /// Takes back an empty chunk.
    pub(crate) fn give_back(&self, chunk: C) {
        self.lock().free.push(chunk);
    }

    /// Adds the next chunk of the input, which the caller reads or decodes.
    pub(crate) fn add(&self) -> Ticket {
        self.change(|state| {
            let left = state.shards.len();
            state.chunks.push_back(Slot { chunk: Stage::InWork, left });
            Ticket { number: state.first + state.chunks.len() as u64 - 1, epoch: state.epoch }
        })
    }

    /// Takes a decoded chunk, which is to be confirmed. Returns it if it was dropped meanwhile.
    pub(crate) fn decoded(&self, ticket: Ticket, chunk: C) -> Option<C> {
        self.change(|state| {
            if ticket.epoch != state.epoch {
                return Some(chunk);
            }
            state.slot(ticket.number).chunk = Stage::Decoded(chunk);
            None
        })
    }

    /// Takes the next chunk to be confirmed, if it is decoded. Only the thread that holds the
    /// reader may call this and then [`confirmed`](Self::confirmed) or
    /// [`drop_unconfirmed`](Self::drop_unconfirmed).
    pub(crate) fn take_decoded(&self) -> Option<C> {
        let mut state = self.lock();
        let at = state.unconfirmed;
        if at >= state.first + state.chunks.len() as u64 {
            return None;
        }
        let slot = state.slot(at);
        match std::mem::replace(&mut slot.chunk, Stage::InWork) {
            Stage::Decoded(chunk) => Some(chunk),
            stage => {
                slot.chunk = stage;
                None
            }
        }
    }

    /// Hands the chunk that was [taken](Self::take_decoded) to the shards.
    pub(crate) fn confirmed(&self, chunk: C) {
        let chunk = Arc::new(chunk);
        self.change(|state| {
            let number = state.unconfirmed;
            state.slot(number).chunk = Stage::Confirmed(chunk);
            state.unconfirmed += 1;
        });
    }

    /// Drops every chunk that is not confirmed, because the one that was taken was read from a
    /// wrong place.
    pub(crate) fn drop_unconfirmed(&self) {
        self.change(|state| {
            state.epoch += 1;
            let kept = (state.unconfirmed - state.first) as usize;
            state.chunks.truncate(kept);
        });
    }

    /// Returns whether every chunk is confirmed.
    pub(crate) fn is_confirmed(&self) -> bool {
        let state = self.lock();
        state.unconfirmed == state.first + state.chunks.len() as u64
    }

    /// Claims the next list of a shard: returns its chunk, unless it is not confirmed yet or
    /// another thread has claimed the shard.
    pub(crate) fn claim(&self, shard: usize) -> Option<Arc<C>> {
        let mut state = self.lock();
        let Cursor { next, is_claimed } = state.shards[shard];
        if is_claimed || next >= state.unconfirmed {
            return None;
        }
        let Stage::Confirmed(chunk) = &state.slot(next).chunk else { return None };
        let chunk = Arc::clone(chunk);
        state.shards[shard].is_claimed = true;
        Some(chunk)
    }

    /// Ends the claim of a shard, if there is one: its list is processed, or lost. The caller has
    /// dropped the chunk, which can be filled again when the last claim has gone.
    pub(crate) fn complete(&self, shard: usize) {
        self.change(|state| {
            let cursor = &mut state.shards[shard];
            if !cursor.is_claimed {
                return;
            }
            let number = cursor.next;
            *cursor = Cursor { next: number + 1, is_claimed: false };
            state.slot(number).left -= 1;
        });
    }

    /// Removes the oldest chunk if every shard has processed its list.
    pub(crate) fn retire(&self) -> Option<C> {
        if self.lock().chunks.front()?.left > 0 {
            return None;
        }
        self.change(|state| {
            if state.chunks.front()?.left > 0 {
                return None;
            }
            let oldest = state.chunks.pop_front()?;
            state.first += 1;
            // Each thread that claimed it has dropped it.
            let Stage::Confirmed(chunk) = oldest.chunk else { return None };
            Arc::try_unwrap(chunk).ok()
        })
    }

    /// Returns how many chunks have left.
    pub(crate) fn retired(&self) -> u64 {
        self.lock().first
    }

    /// Marks the end of the input.
    pub(crate) fn finish(&self) {
        self.change(|state| state.is_over = true);
    }

    /// Returns whether no chunk is in work.
    pub(crate) fn is_empty(&self) -> bool {
        self.lock().chunks.is_empty()
    }

    /// Returns whether the input has ended and every chunk is processed.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.lock();
        state.is_over && state.chunks.is_empty()
    }
}

impl<C> BoardState<C> {
    fn slot(&mut self, number: u64) -> &mut Slot<C> {
        let at = (number - self.first) as usize;
        &mut self.chunks[at]
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes a chunk.
    fn decoded(board: &Board<u32>, ticket: Ticket, chunk: u32) {
        assert_eq!(board.decoded(ticket, chunk), None);
    }

    /// Confirms the chunks that are next. Returns their number.
    fn confirm(board: &Board<u32>) -> usize {
        std::iter::from_fn(|| board.take_decoded().map(|chunk| board.confirmed(chunk))).count()
    }

    #[test]
    fn lists_of_a_shard_come_in_input_order_although_chunks_are_decoded_in_another() {
        let board = Board::<u32>::new(2, 3);
        let tickets = [board.add(), board.add(), board.add()];
        assert!(board.buffer().is_none(), "the window is full");
        decoded(&board, tickets[1], 11);
        assert_eq!(confirm(&board), 0, "chunk 0 is not decoded");
        decoded(&board, tickets[0], 10);
        assert!(board.claim(0).is_none(), "chunk 0 is not confirmed");
        assert_eq!(confirm(&board), 2);
        assert_eq!(board.claim(0).as_deref(), Some(&10));
        assert!(board.claim(0).is_none(), "another thread has the shard");
        board.complete(0);
        assert_eq!(board.claim(0).as_deref(), Some(&11));
        board.complete(0);
        assert!(board.retire().is_none(), "shard 1 has not processed chunk 0");
        for expected in [10, 11] {
            assert_eq!(board.claim(1).as_deref(), Some(&expected));
            board.complete(1);
            assert_eq!(board.retire(), Some(expected));
        }
        board.finish();
        assert!(!board.is_done() && !board.is_empty() && !board.is_confirmed());
        decoded(&board, tickets[2], 12);
        confirm(&board);
        for shard in [1, 0] {
            assert_eq!(board.claim(shard).as_deref(), Some(&12));
            board.complete(shard);
        }
        assert_eq!(board.retire(), Some(12));
        assert!(board.is_done());
    }

    #[test]
    fn chunks_from_a_wrong_place_are_dropped_wherever_they_are() {
        let board = Board::<u32>::new(1, 4);
        let tickets = [board.add(), board.add(), board.add()];
        decoded(&board, tickets[0], 10);
        assert_eq!(confirm(&board), 1);
        decoded(&board, tickets[1], 66);
        assert_eq!(board.take_decoded(), Some(66));
        board.drop_unconfirmed();
        assert_eq!(board.decoded(tickets[2], 67), Some(67), "it comes back to the thread");
        let right = board.add();
        decoded(&board, right, 11);
        assert_eq!(confirm(&board), 1);
        for expected in [10, 11] {
            assert_eq!(board.claim(0).as_deref(), Some(&expected));
            board.complete(0);
            assert_eq!(board.retire(), Some(expected));
        }
    }
}

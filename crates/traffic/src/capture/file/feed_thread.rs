//! Runs a feed on its own thread, so that reading and decompression overlap with the walk.
//!
//! Buffers circulate: the thread fills a free buffer, the walk takes it from the queue, and it
//! becomes free again when the last worker has released its block. The number of buffers limits how
//! far ahead the thread reads.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::capture::background;
use crate::capture::feed::{Fed, Feed, Piece, new_buffer};

/// A thread that fills buffers ahead of the walk. Dropping it ends the thread and waits for its
/// read to return.
#[derive(Debug)]
pub(crate) struct FeedThread {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<FeedState>,
    /// The walk waits here for a piece.
    filled: Condvar,
    /// The thread waits here for a buffer.
    freed: Condvar,
}

#[derive(Debug)]
struct FeedState {
    pieces: VecDeque<Piece>,
    /// Buffers to fill. The thread takes the most recently used one first, because it is most
    /// likely to be in a cache.
    free: Vec<Vec<u8>>,
    /// Buffers that may still be allocated.
    unallocated: usize,
    /// Whether the thread is filling a buffer.
    is_filling: bool,
    /// The reader's error or end, until the walk has received it.
    last_word: Option<io::Result<()>>,
    is_ended: bool,
    is_stopped: bool,
}

/// The thread's answer to the walk.
#[derive(Debug)]
pub(crate) enum Taken {
    Piece(Piece),
    /// All buffers are in blocks that stages hold.
    NoBuffer,
    End,
    Error(io::Error),
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, FeedState> {
        // No code that may panic runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FeedThread {
    /// Moves `feed` to a thread. The thread uses the buffers `free`, and allocates up to
    /// `unallocated` new ones.
    ///
    /// # Errors
    ///
    /// Returns the feed and the buffers if the system cannot start a thread.
    pub(crate) fn start(
        feed: Feed,
        free: Vec<Vec<u8>>,
        unallocated: usize,
    ) -> Result<Self, (Feed, Vec<Vec<u8>>)> {
        let state = FeedState {
            pieces: VecDeque::new(),
            free,
            unallocated,
            is_filling: false,
            last_word: None,
            is_ended: false,
            is_stopped: false,
        };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), filled: Condvar::new(), freed: Condvar::new() });
        // The thread takes the feed only when it runs, so that the feed is not lost if no thread
        // starts.
        let hand_over = Arc::new(Mutex::new(Some(feed)));
        let thread = background::spawn("capture-feed", {
            let (shared, hand_over) = (Arc::clone(&shared), Arc::clone(&hand_over));
            move || {
                let end = EndOnDrop(shared);
                let feed = hand_over.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some(feed) = feed {
                    run(&end.0, feed);
                }
            }
        });
        if let Ok(thread) = thread {
            return Ok(Self { shared, thread: Some(thread) });
        }
        let feed = hand_over.lock().unwrap_or_else(PoisonError::into_inner).take();
        let free = std::mem::take(&mut shared.lock().free);
        Err((feed.expect("only a running thread takes the feed"), free))
    }

    /// Returns the next piece. Waits for it as long as the thread has a buffer to fill.
    pub(crate) fn take(&mut self) -> Taken {
        let mut state = self.shared.lock();
        loop {
            if let Some(piece) = state.pieces.pop_front() {
                return Taken::Piece(piece);
            }
            if let Some(last_word) = state.last_word.take() {
                return last_word.map_or_else(Taken::Error, |()| Taken::End);
            }
            if state.is_ended {
                return Taken::End;
            }
            if !state.is_filling && state.free.is_empty() && state.unallocated == 0 {
                return Taken::NoBuffer;
            }
            state = self.shared.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns a buffer to the thread.
    pub(crate) fn give_back(&mut self, buffer: Vec<u8>) {
        let mut state = self.shared.lock();
        state.free.push(buffer);
        drop(state);
        self.shared.freed.notify_one();
    }
}

impl Drop for FeedThread {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.freed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already reported to the walk as an error.
            let _ = thread.join();
        }
    }
}

/// Signals the end to the walk, however the thread ends.
struct EndOnDrop(Arc<Shared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if !state.is_ended {
            state.is_ended = true;
            state.is_filling = false;
            state.last_word.get_or_insert_with(|| Err(io::Error::other("the reading thread panicked")));
        }
        drop(state);
        self.0.filled.notify_one();
    }
}

/// Fills buffers until the reader ends or the walk is dropped.
fn run(shared: &Shared, mut feed: Feed) {
    loop {
        let mut state = shared.lock();
        let buffer = loop {
            if state.is_stopped {
                state.is_ended = true;
                return;
            }
            if let Some(buffer) = state.free.pop() {
                state.is_filling = true;
                break Some(buffer);
            }
            if state.unallocated > 0 {
                state.unallocated -= 1;
                state.is_filling = true;
                break None;
            }
            state = shared.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        };
        drop(state);
        let fed = feed.fill(buffer.unwrap_or_else(new_buffer));
        let mut state = shared.lock();
        state.is_filling = false;
        match fed {
            Fed::Piece(piece) => state.pieces.push_back(piece),
            Fed::End => state.last_word = Some(Ok(())),
            Fed::Error(error) => state.last_word = Some(Err(error)),
            // A thread reads only files, and a file always has bytes or ends.
            Fed::Silent(_) => state.last_word = Some(Err(io::ErrorKind::WouldBlock.into())),
        }
        state.is_ended = state.last_word.is_some();
        let is_ended = state.is_ended;
        drop(state);
        shared.filled.notify_one();
        if is_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::capture::feed::{Filling, PIECE_BYTES};

    /// Returns bytes that contain the number of their piece, and counts them.
    struct Numbers {
        left: usize,
        returned: Arc<AtomicU64>,
    }

    impl Read for Numbers {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let bytes = buffer.len().min(self.left);
            let returned = self.returned.fetch_add(bytes as u64, Ordering::Relaxed);
            buffer[..bytes].fill((returned / PIECE_BYTES as u64).to_le_bytes()[0]);
            self.left -= bytes;
            Ok(bytes)
        }
    }

    fn numbers(pieces: usize) -> (Feed, Arc<AtomicU64>) {
        let returned = Arc::new(AtomicU64::new(0));
        let reader = Numbers { left: pieces * PIECE_BYTES, returned: Arc::clone(&returned) };
        (Feed::new(Box::new(reader), Filling::Whole), returned)
    }

    #[test]
    fn pieces_arrive_in_order_and_the_end_is_repeated() {
        let (feed, _) = numbers(9);
        let mut thread = FeedThread::start(feed, vec![new_buffer()], 1).unwrap();
        for number in 0..9 {
            let Taken::Piece(piece) = thread.take() else { panic!("no piece {number}") };
            assert_eq!((piece.buffer[piece.start], piece.buffer[piece.end - 1]), (number, number));
            thread.give_back(piece.buffer);
        }
        assert!(matches!(thread.take(), Taken::End));
        assert!(matches!(thread.take(), Taken::End));
    }

    #[test]
    fn the_thread_stays_within_its_buffers_and_ends_when_it_is_dropped() {
        let (feed, returned) = numbers(9);
        let mut thread = FeedThread::start(feed, Vec::new(), 3).unwrap();
        let mut pieces = Vec::new();
        loop {
            match thread.take() {
                Taken::Piece(piece) => pieces.push(piece),
                Taken::NoBuffer => break,
                other => panic!("{other:?}"),
            }
        }
        assert_eq!((pieces.len(), returned.load(Ordering::Relaxed)), (3, 3 * PIECE_BYTES as u64));
        thread.give_back(pieces.pop().unwrap().buffer);
        let Taken::Piece(piece) = thread.take() else { panic!("a buffer came back") };
        assert_eq!(piece.buffer[piece.start], 3);
        assert!(matches!(thread.take(), Taken::NoBuffer));
        drop(thread);
        assert_eq!(Arc::strong_count(&returned), 1, "the thread and its reader are gone");
    }

    #[test]
    fn panic_of_the_reader_thread_is_returned_as_an_error() {
        struct Panics;
        impl Read for Panics {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                panic!("a reader with a defect")
            }
        }
        let feed = Feed::new(Box::new(Panics), Filling::Whole);
        let mut thread = FeedThread::start(feed, Vec::new(), 2).unwrap();
        assert!(matches!(thread.take(), Taken::Error(error) if error.to_string().contains("panicked")));
        assert!(matches!(thread.take(), Taken::End));
    }
}

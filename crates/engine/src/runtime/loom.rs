//! Models the messages between stages under every interleaving that loom finds: dispatch,
//! sequencing, shutdown.
//!
//! ```console
//! $ cargo xtask loom
//! ```
//!
//! The counters, sequencers and flags are the engine's own, over loom's atomics. loom's channels
//! replace the rings, which have separate proofs.

use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::dispatch::progress::Progress;
use crate::dispatch::sequencer::Sequencer;
use crate::exchange::board::Board;
use crate::stage::shutdown::Halt;

/// The message that ends a worker's input.
const END: u32 = 0;

/// A flow's state: the number of its last packet. Accesses are Relaxed, so a thread sees a write
/// only if something else orders the two.
#[derive(Default)]
struct State {
    last: AtomicU32,
    in_work: AtomicU32,
}

impl State {
    /// Processes a packet. Returns the number of the packet before.
    fn take(&self, packet: u32) -> u32 {
        assert_eq!(self.in_work.fetch_add(1, Ordering::Relaxed), 0, "two threads have the flow");
        let before = self.last.load(Ordering::Relaxed);
        self.last.store(packet, Ordering::Relaxed);
        self.in_work.fetch_sub(1, Ordering::Relaxed);
        before
    }
}

/// Packets 0 to 2 of a shard, whose state is behind the shard's lock: a worker parks a packet that
/// is not next.
#[test]
fn packets_of_a_shard_are_processed_once_and_in_their_order_by_whichever_worker_reaches_them() {
    loom::model(|| {
        let shard = Arc::new(Mutex::new((Sequencer::default(), Vec::new())));
        let done = Arc::new(Progress::default());
        // One worker holds packets 0 and 2, the other packet 1.
        let threads: Vec<_> = [&[0, 2][..], &[1]]
            .into_iter()
            .map(|numbers| {
                let (shard, done) = (Arc::clone(&shard), Arc::clone(&done));
                thread::spawn(move || {
                    for &number in numbers {
                        let mut shard = shard.lock().unwrap();
                        let (sequencer, processed) = &mut *shard;
                        let before = processed.len();
                        if sequencer.is_next(number) {
                            sequencer.advance();
                            processed.push(number);
                        } else {
                            sequencer.park(number, number);
                        }
                        processed.extend(std::iter::from_fn(|| sequencer.take()));
                        done.add((processed.len() - before) as u64, 0);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shard.lock().unwrap().1, [0, 1, 2]);
        assert_eq!(done.packets(), 3);
    });
}

#[test]
fn a_flow_that_moves_once_it_is_completed_takes_its_state_along() {
    loom::model(|| {
        let shared = Arc::new((Progress::default(), State::default()));
        let (to_second, second): (Sender<u32>, Receiver<u32>) = channel();
        let first = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.take(1);
                shared.0.publish(1, 60);
            })
        };
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let packet = second.recv().unwrap();
                if packet != END {
                    assert_eq!(shared.1.take(packet), 1, "the state as the first worker left it");
                }
            })
        };
        // The input stage moves the flow only when none of its packets is in flight.
        let moves = shared.0.packets() == 1;
        to_second.send(if moves { 2 } else { END }).unwrap();
        first.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_thread_that_sees_the_halt_sees_what_was_done_before_it() {
    loom::model(|| {
        let shared = Arc::new((Halt::default(), State::default()));
        let failing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.take(7);
                shared.0.halt();
            })
        };
        if shared.0.is_halted() {
            assert_eq!(shared.1.take(8), 7);
        }
        failing.join().unwrap();
    });
}

#[test]
fn counts_that_are_published_are_never_ahead_of_what_was_done() {
    loom::model(|| {
        let progress = Arc::new(Progress::default());
        let worker = {
            let progress = Arc::clone(&progress);
            thread::spawn(move || {
                progress.publish(1, 60);
                progress.publish(2, 120);
            })
        };
        let packets = progress.packets();
        // The byte count may be a chunk ahead, but never behind.
        assert!(progress.bytes() >= 60 * packets);
        assert!(progress.packets() >= packets);
        worker.join().unwrap();
        assert_eq!((progress.packets(), progress.bytes()), (2, 120));
    });
}

/// Two threads decode two chunks and process the lists of two shards.
#[test]
fn lists_of_a_shard_are_processed_once_and_in_order_by_whichever_thread_is_free() {
    const CHUNKS: u64 = 2;
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let board = Arc::new(Board::<u64>::new(2, 2));
        let states = Arc::new([State::default(), State::default()]);
        let tickets = [board.add(), board.add()];
        board.finish();
        let threads: Vec<_> = (0..2)
            .map(|id| {
                let (board, states) = (Arc::clone(&board), Arc::clone(&states));
                let ticket = tickets[id];
                thread::spawn(move || {
                    assert_eq!(board.decoded(ticket, id as u64 + 1), None);
                    // The lock of the reader.
                    while let Some(chunk) = board.take_decoded() {
                        board.confirmed(chunk);
                    }
                    for shard in 0..2 {
                        while let Some(chunk) = board.claim(shard) {
                            let packet = *chunk as u32;
                            assert_eq!(states[shard].take(packet), packet - 1, "lists come in order");
                            drop(chunk);
                            board.complete(shard);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // What a thread left because the other had claimed it, or had not confirmed it yet.
        while let Some(chunk) = board.take_decoded() {
            board.confirmed(chunk);
        }
        for shard in 0..2 {
            while let Some(chunk) = board.claim(shard) {
                let packet = *chunk as u32;
                assert_eq!(states[shard].take(packet), packet - 1);
                drop(chunk);
                board.complete(shard);
            }
            assert_eq!(u64::from(states[shard].last.load(Ordering::Relaxed)), CHUNKS);
        }
        while board.retire().is_some() {}
        assert!(board.is_done());
    });
}

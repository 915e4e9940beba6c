//! What stages tell each other, under every interleaving that loom finds: hand-over, turns, shutdown.
//!
//! ```console
//! $ cargo xtask loom
//! ```
//!
//! The counters, turns and flags are the engine's own, over loom's atomics. Rings are channels of loom's: the real one has
//! its own proofs.

use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::sync::{Arc, Mutex};
use loom::thread;

use crate::halt::Halt;
use crate::progress::Progress;
use crate::sync::{AtomicU32, Ordering};
use crate::tickets::Tickets;
use crate::turn::Turn;

/// Nothing for this worker.
const END: u32 = 0;

/// A flow's state: the number of its last packet. Read and written with Relaxed, so a thread sees it only if something has
/// ordered the two.
#[derive(Default)]
struct State {
    last: AtomicU32,
    in_work: AtomicU32,
}

impl State {
    /// Takes in a packet; returns the one before.
    fn take(&self, packet: u32) -> u32 {
        assert_eq!(self.in_work.fetch_add(1, Ordering::Relaxed), 0, "two threads have the flow");
        let before = self.last.load(Ordering::Relaxed);
        self.last.store(packet, Ordering::Relaxed);
        self.in_work.fetch_sub(1, Ordering::Relaxed);
        before
    }
}

#[test]
fn turns_let_packets_in_one_by_one_in_their_order() {
    loom::model(|| {
        let shared = Arc::new((Turn::default(), State::default()));
        // Packets 1 and 3 of a flow are with one worker, 2 with the other.
        let threads: Vec<_> = [&[0, 2][..], &[1]]
            .into_iter()
            .map(|turns| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let (turn, state) = &*shared;
                    for &number in turns {
                        while !turn.is(number) {
                            thread::yield_now();
                        }
                        assert_eq!(state.take(number + 1), number);
                        turn.pass(number);
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(shared.1.take(9), 3);
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
        // The input stage moves the flow when none of its packets is in flight, else it leaves it.
        let moves = shared.0.packets() == 1;
        to_second.send(if moves { 2 } else { END }).unwrap();
        first.join().unwrap();
        other.join().unwrap();
    });
}

#[test]
fn a_worker_that_dies_with_the_turn_stops_the_others_and_every_packet_is_counted() {
    loom::model(|| {
        let shared = Arc::new((Turn::default(), Halt::default()));
        // The first worker has turn 0 and dies with it; the second has turn 1.
        let first = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.1.halt())
        };
        let second = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (turn, halt) = &*shared;
                loop {
                    if turn.is(1) {
                        return (1, 0);
                    }
                    if halt.is_halted() {
                        return (0, 1);
                    }
                    thread::yield_now();
                }
            })
        };
        first.join().unwrap();
        let (processed, lost) = second.join().unwrap();
        assert_eq!((processed, lost), (0, 1), "the turn never comes");
    });
}

#[test]
fn whoever_sees_the_halt_sees_what_was_done_before_it() {
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
        // Bytes may be a chunk ahead, never behind.
        assert!(progress.bytes() >= 60 * packets);
        assert!(progress.packets() >= packets);
        worker.join().unwrap();
        assert_eq!((progress.packets(), progress.bytes()), (2, 120));
    });
}

/// The input stage as two threads see it, each with a lot of its own: packets and what was done are numbers.
#[derive(Default)]
struct Input {
    /// The next ticket, behind the lock of the source.
    source: Mutex<u64>,
    /// The ticket whose turn it is, behind the lock of handing out.
    handing_out: Mutex<u64>,
    /// What is in each lot: a ticket from 1 on, or nothing. Written and read with Relaxed, so a thread sees it only if something
    /// has ordered the two.
    lots: [AtomicU32; 2],
}

impl Input {
    fn take(&self, tickets: &Tickets, me: usize) -> Option<u64> {
        tickets.take(me..me + 1)?;
        let mut next = self.source.lock().unwrap();
        *next += 1;
        Some(*next - 1)
    }

    fn decode(&self, tickets: &Tickets, me: usize, ticket: u64) {
        assert_eq!(self.lots[me].load(Ordering::Relaxed), 0, "whoever had the lot last is done with it");
        self.lots[me].store(ticket as u32 + 1, Ordering::Relaxed);
        tickets.hand_in(ticket, me);
    }

    fn hand_out(&self, tickets: &Tickets) {
        let Ok(mut ticket) = self.handing_out.try_lock() else { return };
        while let Some(lot) = tickets.handed_in(*ticket) {
            let found = self.lots[lot].load(Ordering::Relaxed);
            assert_eq!(u64::from(found), *ticket + 1, "lots are handed out in their order, and decoded");
            self.lots[lot].store(0, Ordering::Relaxed);
            tickets.give_back(lot);
            *ticket += 1;
        }
    }
}

#[test]
fn lots_are_handed_out_once_decoded_in_the_order_of_tickets_and_used_again() {
    loom::model(|| {
        let shared = Arc::new((Tickets::new(2), Input::default()));
        let work = |me: usize, turns: usize| {
            let shared = Arc::clone(&shared);
            move || {
                let (tickets, input) = &*shared;
                let mut taken = 0;
                for _ in 0..turns {
                    // Its lot may still wait for its turn.
                    if let Some(ticket) = input.take(tickets, me) {
                        input.decode(tickets, me, ticket);
                        taken += 1;
                    }
                    input.hand_out(tickets);
                }
                taken
            }
        };
        let other = thread::spawn(work(1, 1));
        let taken: u64 = work(0, 2)() + other.join().unwrap();
        let (tickets, input) = &*shared;
        // Whoever ends the run hands out what others left.
        input.hand_out(tickets);
        tickets.end(taken);
        let done = *input.handing_out.lock().unwrap();
        assert!(tickets.is_over(done), "{done} of {taken} are handed out");
    });
}

//! The in-flight protocol with every relevant interleaving: the new worker of a flow that moves
//! sees it as the old worker left it.
//!
//! ```console
//! $ cargo xtask loom
//! ```
//!
//! The policy is the real one. A ring is a loom channel, which orders its two ends and nothing
//! else; the count of completed items is published with Release and read with Acquire, as in the
//! engine. A flow's state is written with Relaxed, so a worker sees it only if another access has
//! ordered the two workers.

#![cfg(loom)]

use flowloom_scheduler::{Decision, FlowBurst, LoadView, Placement, WorkItem};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::mpsc::{Receiver, Sender, channel};
use loom::thread;

/// A flow that goes to worker 0 if both are idle, and another such flow.
const OTHER: u32 = 0;
const FLOW: u32 = 1 << 31;
/// End of the channel.
const END: usize = usize::MAX;

#[derive(Default)]
struct Shared {
    completed: [AtomicUsize; 2],
    /// The number of the flow's last packet that was processed.
    state: AtomicUsize,
    in_work: AtomicUsize,
}

/// Takes packets until the end; `early` reports a packet before it is processed, which is an error.
fn work(shared: &Shared, own: usize, ring: &Receiver<usize>, early: bool) {
    let mut done = 0;
    while let Ok(packet) = ring.recv() {
        if packet == END {
            return;
        }
        done += 1;
        if early {
            shared.completed[own].store(done, Ordering::Release);
        }
        // Packets of the other flow are numbered from 100 on.
        if packet < 100 {
            assert_eq!(shared.in_work.fetch_add(1, Ordering::Relaxed), 0, "two workers have the flow");
            assert_eq!(
                shared.state.load(Ordering::Relaxed),
                packet - 1,
                "the flow's state is not up to date"
            );
            shared.state.store(packet, Ordering::Relaxed);
            shared.in_work.fetch_sub(1, Ordering::Relaxed);
        }
        shared.completed[own].store(done, Ordering::Release);
    }
}

/// Sends one packet of the other flow and two of the flow. Returns whether the flow moved.
fn dispatch(shared: &Shared, rings: &[Sender<usize>]) -> bool {
    let mut policy = FlowBurst::new(&"2".parse().expect("two workers"), 1).expect("two slots");
    let mut sent = [0_u64; 2];
    let mut homes = Vec::new();
    for (digest, number) in [(OTHER, 100), (FLOW, 1), (FLOW, 2)] {
        let completed = [0, 1].map(|worker: usize| shared.completed[worker].load(Ordering::Acquire) as u64);
        let load = LoadView { sent: &sent, completed: &completed, ..LoadView::idle() };
        let mut decision = [Decision::Drop];
        policy.place(&[WorkItem { digest, bytes: 60 }], &load, &mut decision);
        let Decision::To(worker) = decision[0] else { panic!("{decision:?}") };
        let worker = worker.index();
        rings[worker].send(number).expect("the worker listens");
        sent[worker] += 1;
        if number < 100 {
            homes.push(worker);
        }
    }
    for ring in rings {
        ring.send(END).expect("the worker listens");
    }
    homes[0] != homes[1]
}

fn model(early: bool) -> bool {
    let moved = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&moved);
    loom::model(move || {
        let shared = Arc::new(Shared::default());
        let mut rings = Vec::new();
        let threads: Vec<_> = (0..2)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                let (sender, receiver) = channel();
                rings.push(sender);
                thread::spawn(move || work(&shared, worker, &receiver, early))
            })
            .collect();
        if dispatch(&shared, &rings) {
            seen.store(true, Ordering::Relaxed);
        }
        for thread in threads {
            thread.join().expect("a worker that ends");
        }
        assert_eq!(shared.state.load(Ordering::Relaxed), 2);
    });
    moved.load(Ordering::Relaxed)
}

#[test]
fn moved_flow_has_the_state_that_its_last_worker_wrote() {
    assert!(model(false), "in no interleaving did the flow move, so nothing was shown");
}

#[test]
#[should_panic(expected = "flow")]
fn completion_reported_before_the_work_is_detected() {
    model(true);
}

//! Checks of the guarantees that placement and pull policies make. The tests of each policy run
//! them. Run them on your own policies too.

use flowloom_flow_key::hash::fold::split_mix;

use crate::{Decision, LoadView, OrderGuarantee, Placement, PullPolicy, WorkItem, WorkerCount, WorkerId};

/// Checks that a policy which guarantees order keeps it for any timing of workers and queues.
/// `seed` determines their behavior.
///
/// The check places items of many flows in batches of 1 to 64. Between batches, workers complete
/// some of their items and report some completions late, and some items are dropped before they
/// reach a worker. A flow may move to another worker only if two of its items can then neither be
/// processed at the same time nor out of order.
///
/// # Panics
///
/// Panics if the policy promises [`OrderGuarantee::Home`] or [`OrderGuarantee::PerFlow`] and breaks
/// the promise, or chooses a worker that does not exist.
pub fn check_order(policy: &mut dyn Placement, workers: WorkerCount, seed: u64) {
    let mut state = seed;
    let broken = order_broken(policy, workers, &mut || split_mix(&mut state));
    if policy.order().keeps_flow_order() {
        assert_eq!(broken, 0, "{} sends packets of one flow to two workers, seed {seed}", policy.name());
    }
}

/// Counts how often, in 400 batches drawn from `seed`, a flow moved to a worker while another
/// worker still had packets of it. For a policy that guarantees a home, every move counts.
///
/// # Panics
///
/// Panics if the policy chooses a worker that does not exist.
pub fn order_broken(
    policy: &mut dyn Placement,
    workers: WorkerCount,
    draw: &mut dyn FnMut() -> u64,
) -> u32 {
    const FLOWS: u64 = 48;
    let count = usize::from(workers.get());
    let home = policy.order() == OrderGuarantee::Home;
    // The actual queues hold the flow of each item, oldest first. The policy sees the counters
    // below.
    let mut queues = vec![std::collections::VecDeque::<usize>::new(); count];
    let (mut sent, mut done, mut reported) = (vec![0_u64; count], vec![0_u64; count], vec![0_u64; count]);
    let (mut sent_bytes, mut done_bytes) = (vec![0_u64; count], vec![0_u64; count]);
    let mut last_worker = vec![None; FLOWS as usize];
    let mut in_flight = vec![0_u32; FLOWS as usize];
    let mut broken = 0;
    for _ in 0..400 {
        let items: Vec<(usize, WorkItem)> = (0..=draw() % 64)
            .map(|_| {
                let word = draw();
                // Few flows have most of the packets.
                let flow = (word % FLOWS).min((word >> 8) % FLOWS) as usize;
                let mut mix = flow as u64;
                let digest = (split_mix(&mut mix) >> 32) as u32;
                (flow, WorkItem { digest, bytes: 60 + (word >> 16) as u32 % 1400 })
            })
            .collect();
        let plain: Vec<WorkItem> = items.iter().map(|(_, item)| *item).collect();
        let mut decisions = vec![Decision::Drop; items.len()];
        let load = LoadView {
            sent: &sent,
            completed: &reported,
            sent_bytes: &sent_bytes,
            completed_bytes: &done_bytes,
            busy: &done_bytes,
        };
        policy.place(&plain, &load, &mut decisions);
        let is_full = draw().is_multiple_of(8);
        for ((flow, item), decision) in items.into_iter().zip(decisions) {
            let Decision::To(worker) = decision else { continue };
            let worker = worker.index();
            assert!(worker < count, "{} chose worker {worker} of {count}", policy.name());
            if last_worker[flow].is_some_and(|last| last != worker && (home || in_flight[flow] > 0)) {
                broken += 1;
            }
            last_worker[flow] = Some(worker);
            if is_full && draw().is_multiple_of(2) {
                continue; // Dropped before it reaches a worker: it gets no position in a queue.
            }
            in_flight[flow] += 1;
            sent[worker] += 1;
            sent_bytes[worker] += u64::from(item.bytes);
            queues[worker].push_back(flow);
        }
        for worker in 0..count {
            let finish = (draw() % (queues[worker].len() as u64 + 1)) as usize;
            for flow in queues[worker].drain(..finish) {
                in_flight[flow] -= 1;
                done[worker] += 1;
                done_bytes[worker] += 400;
            }
            done_bytes[worker] = done_bytes[worker].min(sent_bytes[worker]);
            if !draw().is_multiple_of(4) {
                reported[worker] = done[worker];
            }
        }
    }
    broken
}

/// Checks that a pull policy neither loses nor invents packets, that one worker at a time has a
/// flow and processes it in order, and that no worker idles forever while packets wait.
///
/// # Panics
///
/// Panics if the policy breaks one of these guarantees, or was made for another number of workers.
pub fn check_pull(policy: &mut dyn PullPolicy, workers: WorkerCount, seed: u64) {
    const FLOWS: u64 = 40;
    let made_for = policy.workers().unwrap_or(workers.get().into());
    assert_eq!(
        made_for,
        usize::from(workers.get()),
        "{}: made for another number of workers",
        policy.name()
    );
    let mut state = seed;
    let mut flow_of = Vec::new();
    let mut held: Vec<Option<usize>> = vec![None; usize::from(workers.get())];
    let mut last_done = vec![0_u32; FLOWS as usize];
    let (mut fetched, mut rounds) = (0, 0);
    // Even if all packets wait for one worker, each round over all workers fetches one of them.
    let rounds_max = 100_000.max(20_000 * u32::from(workers.get()));
    let mut ask = |policy: &mut dyn PullPolicy, worker: WorkerId, flow_of: &[usize]| {
        held[worker.index()] = None;
        let Some(next) = policy.next(worker) else { return false };
        let flow = flow_of[next.token as usize];
        assert!(!held.contains(&Some(flow)), "{}: two workers hold a flow, seed {seed}", policy.name());
        assert!(
            next.token + 1 > last_done[flow],
            "{}: packets of a flow out of order, seed {seed}",
            policy.name()
        );
        last_done[flow] = next.token + 1;
        held[worker.index()] = Some(flow);
        true
    };
    while rounds < 3000 || policy.waiting() > 0 {
        rounds += 1;
        assert!(rounds < rounds_max, "{}: {} packets wait forever", policy.name(), policy.waiting());
        let word = split_mix(&mut state);
        if rounds < 3000 && word.is_multiple_of(2) {
            let flow = ((word >> 8) % FLOWS).min((word >> 20) % FLOWS) as usize;
            let mut mix = flow as u64;
            let digest = (split_mix(&mut mix) >> 32) as u32;
            let before = policy.waiting();
            let token = flow_of.len() as u32;
            flow_of.push(flow);
            policy.arrive(token, WorkItem { digest, bytes: 60 + (word >> 40) as u32 % 1400 });
            assert_eq!(policy.waiting(), before + 1);
        } else {
            let worker = WorkerId::from((word >> 32) as u16 % workers.get());
            fetched += u32::from(ask(policy, worker, &flow_of));
        }
    }
    assert_eq!(fetched as usize, flow_of.len(), "{}", policy.name());
}

/// Checks a policy over `workers` workers with items drawn from `seed`, without load information.
/// [`check_order`] checks order under load. Call both, each with a new policy.
///
/// # Panics
///
/// Panics if the policy was made for another number of workers, chooses a worker that does not
/// exist, or gives a worker a share that differs greatly from its expected share. Also panics if it
/// guarantees a home but decides differently when the same items arrive in other batches.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn check(policy: &mut dyn Placement, workers: WorkerCount, seed: u64) {
    const ITEMS: usize = 40_000;
    let made_for = policy.workers().unwrap_or(workers.get().into());
    assert_eq!(
        made_for,
        usize::from(workers.get()),
        "{}: made for another number of workers",
        policy.name()
    );
    let mut state = seed;
    let items: Vec<WorkItem> = (0..ITEMS)
        .map(|_| {
            let word = split_mix(&mut state);
            WorkItem { digest: (word >> 32) as u32, bytes: (word & 0x5FF) as u32 }
        })
        .collect();
    let mut whole = vec![Decision::Drop; ITEMS];
    policy.place(&items, &LoadView::idle(), &mut whole);
    let mut shares = vec![0_usize; usize::from(workers.get())];
    for decision in &whole {
        if let Decision::To(worker) = decision {
            assert!(
                worker.index() < shares.len(),
                "{} chose worker {worker} of {}",
                policy.name(),
                shares.len()
            );
            shares[worker.index()] += 1;
        }
    }
    let expected = ITEMS as f64 / shares.len() as f64;
    // Six standard deviations of an even spread, plus a margin for weights that are only
    // pseudo-random.
    let slack = 6.0 * expected.sqrt() + 0.12 * expected;
    for (worker, &share) in shares.iter().enumerate() {
        assert!(
            (share as f64 - expected).abs() <= slack,
            "{}: worker {worker} got {share} of {ITEMS} items, {expected:.0} expected",
            policy.name()
        );
    }
    if policy.order() == OrderGuarantee::Home {
        for cut in [1, 7, 64] {
            let mut pieces = vec![Decision::Drop; ITEMS];
            for (items, decisions) in items.chunks(cut).zip(pieces.chunks_mut(cut)) {
                policy.place(items, &LoadView::idle(), decisions);
            }
            assert_eq!(whole, pieces, "{}: decisions differ in batches of {cut}", policy.name());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;
    use crate::pull::{FetchCost, Fetched};

    /// Decides by the digest and by the item's index in its batch, and claims the given order
    /// guarantee.
    struct Careless(OrderGuarantee, fn(u32, usize) -> u16);

    impl Placement for Careless {
        fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
            for (at, (item, decision)) in items.iter().zip(decisions).enumerate() {
                *decision = Decision::To(WorkerId::from((self.1)(item.digest, at)));
            }
        }

        fn order(&self) -> OrderGuarantee {
            self.0
        }

        fn name(&self) -> &'static str {
            "careless"
        }
    }

    /// Returns its packets from the front, from the back, or never.
    struct Heap(VecDeque<u32>, fn(&mut VecDeque<u32>) -> Option<u32>);

    impl PullPolicy for Heap {
        fn arrive(&mut self, token: u32, _item: WorkItem) -> Option<WorkerId> {
            self.0.push_back(token);
            None
        }

        fn next(&mut self, _worker: WorkerId) -> Option<Fetched> {
            (self.1)(&mut self.0).map(|token| Fetched { token, steps: FetchCost::default() })
        }

        fn waiting(&self) -> usize {
            self.0.len()
        }

        fn order(&self) -> OrderGuarantee {
            OrderGuarantee::PerFlow
        }

        fn name(&self) -> &'static str {
            "heap"
        }
    }

    /// Returns the violation that a check finds, if any.
    fn objection(law: impl FnOnce() + std::panic::UnwindSafe) -> String {
        let Err(panic) = std::panic::catch_unwind(law) else { return String::new() };
        panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".to_owned())
    }

    fn workers(count: usize) -> WorkerCount {
        WorkerCount::new(count).unwrap()
    }

    #[test]
    fn law_suite_detects_a_broken_order_promise() {
        let order =
            |promise, decide| objection(move || check_order(&mut Careless(promise, decide), workers(4), 1));
        let by_position: fn(u32, usize) -> u16 = |_, at| at as u16 % 4;
        let by_digest: fn(u32, usize) -> u16 = |digest, _| digest as u16 % 4;
        assert!(order(OrderGuarantee::Home, |_, _| 4).contains("careless chose worker 4 of 4"));
        assert!(
            order(OrderGuarantee::PerFlow, by_position)
                .contains("careless sends packets of one flow to two workers")
        );
        assert!(order(OrderGuarantee::Home, by_position).contains("to two workers"));
        for kept in [order(OrderGuarantee::None, by_position), order(OrderGuarantee::Home, by_digest)] {
            assert_eq!(kept, "");
        }
    }

    #[test]
    fn law_suite_checks_shares_workers_and_batches() {
        let check =
            |promise, decide| objection(move || check(&mut Careless(promise, decide), workers(4), 1));
        assert_eq!(check(OrderGuarantee::Home, |digest, _| (digest % 4) as u16), "");
        assert!(
            check(OrderGuarantee::Home, |digest, _| (digest % 5) as u16).contains("chose worker 4 of 4")
        );
        assert!(check(OrderGuarantee::Home, |digest, _| (digest % 3) as u16).contains("10000 expected"));
        // The first two get two thirds, the others one third.
        let uneven = |digest: u32, _| [0, 0, 1, 1, 2, 3][digest as usize % 6];
        assert!(check(OrderGuarantee::Home, uneven).contains("expected"));
        let by_position: fn(u32, usize) -> u16 = |_, at| at as u16 % 4;
        assert!(check(OrderGuarantee::Home, by_position).contains("decisions differ in batches of 1"));
        assert_eq!(check(OrderGuarantee::None, by_position), "");
    }

    #[test]
    fn pull_policy_is_by_default_one_queue_up_to_its_capacity() {
        let mut heap = Heap(VecDeque::new(), VecDeque::pop_front);
        let item = WorkItem { digest: 0, bytes: 60 };
        assert!(!heap.has_ready() && !heap.refuses(item, 1) && heap.refuses(item, 0));
        heap.arrive(7, item);
        assert!(heap.has_ready() && heap.refuses(item, 1) && !heap.refuses(item, 2));
        assert_eq!((heap.sorted(), heap.workers()), (0, None));
    }

    #[test]
    fn law_suite_detects_a_pull_policy_that_loses_order_or_packets() {
        let check = |count, take| {
            objection(move || check_pull(&mut Heap(VecDeque::new(), take), workers(count), 1))
        };
        assert_eq!(check(1, VecDeque::pop_front), "");
        assert!(check(2, VecDeque::pop_front).contains("two workers hold a flow"));
        assert!(check(1, VecDeque::pop_back).contains("a flow out of order"));
        assert!(check(1, |_| None).contains("wait forever"));
        assert_ne!(
            check(1, |packets| packets.pop_front().and_then(|_| packets.pop_front())),
            "",
            "loses some"
        );
    }
}

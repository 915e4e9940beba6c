//! What every placement policy must satisfy. Run by each policy's tests, and open to policies of other crates.

use flowloom_flow_key::hash::fold::split_mix;

use crate::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount};

/// Checks a policy over `workers` workers with work drawn from `seed`.
///
/// # Panics
///
/// When the policy decides for a worker that does not exist, promises order and moves a flow, depends on how
/// items are cut into batches while it promises order, or leaves a worker far from its share.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
pub fn check(policy: &mut dyn Placement, workers: WorkerCount, seed: u64) {
    const ITEMS: usize = 40_000;
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
                "{} chose {worker:?} of {}",
                policy.name(),
                shares.len()
            );
            shares[worker.index()] += 1;
        }
    }
    let expected = ITEMS as f64 / shares.len() as f64;
    // Six standard deviations of an even spread, widened for weights that are only pseudo-random.
    let slack = 6.0 * expected.sqrt() + 0.12 * expected;
    for (worker, &share) in shares.iter().enumerate() {
        assert!(
            (share as f64 - expected).abs() <= slack,
            "{}: worker {worker} got {share} of {ITEMS} items, {expected:.0} expected",
            policy.name()
        );
    }
    if policy.order() == OrderGuarantee::PerFlow {
        for cut in [1, 7, 64] {
            let mut pieces = vec![Decision::Drop; ITEMS];
            for (items, decisions) in items.chunks(cut).zip(pieces.chunks_mut(cut)) {
                policy.place(items, &LoadView::idle(), decisions);
            }
            assert_eq!(whole, pieces, "{}: batches of {cut} change decisions", policy.name());
        }
    }
}

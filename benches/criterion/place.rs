//! Time per decision of a policy, from a digest to a worker, in batches of the input stage.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::scheduler::{Decision, DirectHash, HrwFlat, LoadView, Placement, WorkItem, WorkerCount};

/// Number of packets that are placed at once.
const BATCH: usize = 32;
const ITEMS: usize = 4096;

fn place(criterion: &mut Criterion) {
    let mut state = 1;
    let mut digest = || u32::try_from(split_mix(&mut state) >> 32).expect("half of the bits");
    let items: Vec<WorkItem> = (0..ITEMS).map(|_| WorkItem { digest: digest(), bytes: 60 }).collect();
    let mut group = criterion.benchmark_group("place");
    group.throughput(Throughput::Elements(ITEMS as u64)).sample_size(20);
    for count in [4, 64] {
        let workers = WorkerCount::new(count).expect("a number of workers that can be");
        let policies: [Box<dyn Placement>; 2] =
            [Box::new(DirectHash::new(workers)), Box::new(HrwFlat::new(workers))];
        for mut policy in policies {
            let name = format!("{}/{count}", policy.name());
            let (once, again) = (shares(&mut *policy, &items, count), shares(&mut *policy, &items, count));
            assert_eq!(once, again, "{name} makes the same decision for the same digest");
            let even = ITEMS / count;
            assert!(once.iter().all(|&share| share > even / 3 && share < even * 2), "{name}: {once:?}");
            let mut decisions = [Decision::Drop; BATCH];
            group.bench_function(name, |b| {
                b.iter(|| {
                    for batch in items.chunks(BATCH) {
                        policy.place(batch, &LoadView::idle(), &mut decisions);
                        black_box(&decisions);
                    }
                });
            });
        }
    }
    group.finish();
}

/// Returns how many of the items each worker gets.
fn shares(policy: &mut dyn Placement, items: &[WorkItem], workers: usize) -> Vec<usize> {
    let mut shares = vec![0; workers];
    let mut decisions = vec![Decision::Drop; items.len()];
    policy.place(items, &LoadView::idle(), &mut decisions);
    for decision in decisions {
        let Decision::To(worker) = decision else { panic!("a policy without a queue gave {decision:?}") };
        shares[worker.index()] += 1;
    }
    shares
}

criterion_group!(benches, place);
criterion_main!(benches);

//! Runs a custom scheduling policy in every item that compares schedulers.
//!
//! Jump consistent hash (Lamping and Veach, 2014) places each flow by its digest, like direct hash,
//! but moves only 1/n of the flows when the n-th worker is added.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use flowloom::scheduler::registry::Policy;
use flowloom::scheduler::{Decision, LoadView, OrderGuarantee, Placement, WorkItem, WorkerCount, WorkerId};
use flowloom_repro::rivals::{RivalScheduler, Rivals};
use flowloom_repro::{Context, ItemError, Plan, Scale, examine, select};

#[derive(Debug)]
struct JumpHash {
    workers: WorkerCount,
}

impl JumpHash {
    fn worker(&self, digest: u32) -> WorkerId {
        let mut state = u64::from(digest);
        let (mut bucket, mut next) = (0_u64, 0_u64);
        while next < u64::from(self.workers.get()) {
            bucket = next;
            state = state.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
            next = ((bucket + 1) << 31) / ((state >> 33) + 1);
        }
        WorkerId::from(u16::try_from(bucket).expect("there are at most 1024 workers"))
    }
}

impl Placement for JumpHash {
    fn place(&mut self, items: &[WorkItem], _load: &LoadView<'_>, decisions: &mut [Decision]) {
        for (item, decision) in items.iter().zip(decisions) {
            *decision = Decision::To(self.worker(item.digest));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.workers.get().into())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "jump"
    }
}

fn main() -> Result<(), ItemError> {
    let jump = RivalScheduler::new("jump", |topology, _seed| {
        Ok(Policy::Push(Box::new(JumpHash { workers: topology.workers() })))
    });
    let rivals = Rivals { schedulers: &[jump], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    // Medians and intervals of three seeds, and the verdict on the paper that `reproduce` prints.
    let plan = Plan { seeds: Some(3), ..Plan::default() };
    for item in select("lfb").into_iter().chain(select("hrwtree")) {
        let outcome = examine(item, &context, plan)?.outcome;
        let mine: Vec<_> = outcome.values.iter().filter(|value| value.name.contains("jump")).collect();
        if !mine.is_empty() {
            println!("{}, the paper's claim: {}", item.id, outcome.verdict.word());
        }
        for value in mine {
            let range = value.interval.map_or((value.ours, value.ours), |seeds| (seeds.low, seeds.high));
            let row = format!(
                "{}: {:.3} [{:.3} … {:.3}] {}",
                value.name, value.ours, range.0, range.1, value.unit
            );
            println!("  {}", row.trim_end());
        }
    }
    Ok(())
}

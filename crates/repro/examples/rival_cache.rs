//! Runs a custom replacement policy in the item that compares policies.
//!
//! LFU evicts, of the lines that a session may be in, the one with the fewest accesses since it was
//! filled, and among equals the oldest. A whole simulator may take part as well: a closure that
//! returns anything that implements `Simulator`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use flowloom::tcb_cache::{Candidate, ReplacementPolicy};
use flowloom_repro::rivals::{RivalCache, Rivals};
use flowloom_repro::{Context, ItemError, Scale, select};

#[derive(Debug)]
struct Lfu {
    /// Accesses of each line.
    uses: Vec<u64>,
}

impl ReplacementPolicy for Lfu {
    fn choose(&mut self, _key: u64, candidates: &[Candidate]) -> usize {
        let rank = |at: &usize| (self.uses[candidates[*at].line], candidates[*at].last_use);
        let victim = (0..candidates.len()).min_by_key(rank).unwrap_or(0);
        self.uses[candidates[victim].line] = 1;
        victim
    }

    fn hit(&mut self, line: usize) {
        self.uses[line] += 1;
    }

    fn closed(&mut self, line: usize) {
        self.uses[line] = 0;
    }
}

fn main() -> Result<(), ItemError> {
    let lfu = RivalCache::new("LFU", |spec| {
        let lfu = Lfu { uses: vec![0; spec.geometry.lines() as usize] };
        spec.build_with(lfu).expect("the items' index functions can be drawn")
    });
    let rivals = Rivals { caches: &[lfu], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let outcome = (select("tcbcache/fig14_policies")[0].run)(&context)?;
    for value in outcome.values.iter().filter(|value| value.name.starts_with("LFU")) {
        println!("misses of {}, over those of the paper's cache: {:.3}", value.name, value.ours);
    }
    Ok(())
}

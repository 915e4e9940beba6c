//! A replacement policy of one's own in the item that compares policies.
//!
//! LFU evicts the session with the fewest accesses since it came in, and among equals the oldest.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use std::collections::{BTreeMap, BTreeSet};

use flowloom::tcb_cache::{Access, Counts, Simulator};
use flowloom_repro::rivals::{RivalCache, Rivals};
use flowloom_repro::{Context, ItemError, Scale, select};

#[derive(Debug)]
struct Lfu {
    lines: usize,
    /// Accesses and the time of insertion of each key.
    uses: BTreeMap<u64, (u64, u64)>,
    /// The same, in the order of eviction.
    order: BTreeSet<(u64, u64, u64)>,
    counts: Counts,
}

impl Simulator for Lfu {
    fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            self.counts.accesses += 1;
            let key = access.key();
            if let Some((uses, since)) = self.uses.get_mut(&key) {
                self.counts.hits += 1;
                self.order.remove(&(*uses, *since, key));
                *uses += 1;
                self.order.insert((*uses, *since, key));
                continue;
            }
            self.counts.misses += 1;
            if self.uses.len() == self.lines
                && let Some((.., victim)) = self.order.pop_first()
            {
                self.uses.remove(&victim);
                self.counts.evictions += 1;
            }
            self.uses.insert(key, (1, self.counts.accesses));
            self.order.insert((1, self.counts.accesses, key));
        }
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn resident(&self) -> Vec<u64> {
        self.uses.keys().copied().collect()
    }
}

fn main() -> Result<(), ItemError> {
    let lfu = RivalCache::new("LFU", |spec| {
        let lines = spec.geometry.lines() as usize;
        let counts = Counts::default();
        Box::new(Lfu { lines, uses: BTreeMap::new(), order: BTreeSet::new(), counts })
    });
    let rivals = Rivals { caches: &[lfu], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let outcome = (select("tcbcache/fig14_policies")[0].run)(&context)?;
    for value in outcome
        .values
        .iter()
        .filter(|value| ["LFU", "full LRU"].iter().any(|name| value.name.starts_with(name)))
    {
        println!("misses of {}, over those of the paper's cache: {:.3}", value.name, value.ours);
    }
    Ok(())
}

//! Runs a custom replacement policy in the item that compares policies, or on a capture whose path
//! is given, with a cache of the paper's 32 KB or of the bytes that follow the path.
//!
//! LFU evicts, of the lines that a session may be in, the one with the fewest accesses since it was
//! filled, and among equals the oldest. A whole simulator may take part as well: a closure that
//! returns anything that implements `Simulator`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use flowloom::apps::{CacheProbe, Null, ProbeCounts};
use flowloom::engine::{Control, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::tcb_cache::{CacheSpec, Candidate, Counts, Geometry, ReplacementPolicy, Simulator};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom_repro::rivals::{RivalCache, Rivals};
use flowloom_repro::{Context, Plan, Scale, examine, select};

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

fn lfu(spec: &CacheSpec) -> Box<dyn Simulator> {
    let lfu = Lfu { uses: vec![0; spec.geometry.lines() as usize] };
    spec.build_with(lfu).expect("the items' index functions can be drawn")
}

/// Counts the misses of a capture's TCP packets in a cache, as `replay --tcb-cache` does.
fn misses(capture: &str, cache: Box<dyn Simulator>) -> Result<Counts, Box<dyn std::error::Error>> {
    let mut source = CaptureSet::open(&[Input::from_argument(capture.as_ref())], SetOptions::default())?;
    let (counts, mut cache) = (ProbeCounts::default(), Some(cache));
    let probe = |_| CacheProbe::new(Null, cache.take().expect("one worker"), counts.clone());
    let table = |_| LineHash::try_new(&TableOptions::for_flows(100_000));
    let mut placement = DirectHash::new(WorkerCount::new(1)?);
    let config = EngineConfig::new(Layout::Inline);
    let report = run(&config, &mut source, &mut placement, table, probe, &Control::default())?;
    assert!(report.fault.is_none(), "{:?}", report.fault);
    Ok(counts.total().0)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    if let Some(capture) = arguments.next() {
        let mut spec = CacheSpec::PAPER;
        if let Some(bytes) = arguments.next() {
            spec.geometry = Geometry::new(bytes.parse()?, 64, 2, 4)?;
        }
        let ample = CacheSpec { geometry: Geometry::new(4 << 20, 64, 2, 4)?, ..CacheSpec::PAPER };
        let caches = [("LFU", lfu(&spec)), ("spec", spec.build()?), ("4 MiB", ample.build()?)];
        println!("Misses of the TCP packets of {capture}, in {} bytes:", spec.geometry.bytes());
        let mut counts = Vec::new();
        for (name, cache) in caches {
            counts.push(misses(&capture, cache)?);
            println!("{name:5}  {:.4}", counts[counts.len() - 1].miss_ratio());
        }
        if counts.iter().all(|one| one.misses == counts[2].misses) {
            println!("No policy matters, since every session fits: name fewer bytes.");
        }
        return Ok(());
    }
    let rivals = Rivals { caches: &[RivalCache::new("LFU", lfu)], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let item = select("tcbcache/fig14_policies")[0];
    let outcome = examine(item, &context, Plan { seeds: Some(3), ..Plan::default() })?.outcome;
    for value in outcome.values.iter().filter(|value| value.name.starts_with("LFU")) {
        let range = value.interval.map_or((value.ours, value.ours), |seeds| (seeds.low, seeds.high));
        println!(
            "misses of {}, over those of the paper's cache: {:.3} [{:.3} … {:.3}]",
            value.name, value.ours, range.0, range.1
        );
    }
    Ok(())
}

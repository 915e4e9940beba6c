//! Runs a custom replacement policy in the item that compares policies, or on a capture whose path
//! is given.
//!
//! LFU evicts, of the lines that a session may be in, the one with the fewest accesses since it was
//! filled, and among equals the oldest. A whole simulator may take part as well: a closure that
//! returns anything that implements `Simulator`.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use flowloom::apps::{CacheProbe, Null, ProbeCounts};
use flowloom::engine::{Control, EngineConfig, Layout, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::tcb_cache::{CacheSpec, Candidate, ReplacementPolicy, Simulator};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom_repro::rivals::{RivalCache, Rivals};
use flowloom_repro::{Context, Scale, select};

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

/// Returns the share of a capture's TCP packets that miss in a cache, as `replay --tcb-cache` does.
fn miss_ratio(capture: &str, cache: Box<dyn Simulator>) -> Result<f64, Box<dyn std::error::Error>> {
    let mut source = CaptureSet::open(&[Input::from_argument(capture.as_ref())], SetOptions::default())?;
    let (counts, mut cache) = (ProbeCounts::default(), Some(cache));
    let probe = |_| CacheProbe::new(Null, cache.take().expect("one worker"), counts.clone());
    let table = |_| LineHash::try_new(&TableOptions::for_flows(100_000));
    let mut placement = DirectHash::new(WorkerCount::new(1)?);
    let config = EngineConfig::new(Layout::Inline);
    let report = run(&config, &mut source, &mut placement, table, probe, &Control::default())?;
    assert!(report.fault.is_none(), "{:?}", report.fault);
    Ok(counts.total().0.miss_ratio())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(capture) = std::env::args().nth(1) {
        println!("LFU   {:.4} of {capture}", miss_ratio(&capture, lfu(&CacheSpec::PAPER))?);
        println!("spec  {:.4}", miss_ratio(&capture, CacheSpec::PAPER.build()?)?);
        return Ok(());
    }
    let rivals = Rivals { caches: &[RivalCache::new("LFU", lfu)], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let outcome = (select("tcbcache/fig14_policies")[0].run)(&context)?;
    for value in outcome.values.iter().filter(|value| value.name.starts_with("LFU")) {
        println!("misses of {}, over those of the paper's cache: {:.3}", value.name, value.ours);
    }
    Ok(())
}

//! Compares flow tables and their rivals: verified answers, then interleaved rounds of all
//! operations.

use std::cell::RefCell;

use anyhow::Result;
use flowloom::cpu::features::Isa;
use flowloom::flow_table::{DHash, LineHash, TableOptions};
use flowloom_measure::lookup::contender::{
    Contender, LowerBoundContender, MapContender, OurTable, StdMap, Work,
};
use flowloom_measure::lookup::{Flows, State, flood};
use flowloom_measure::{Outcome, Rounds};

use crate::frames;
use crate::goal::{Clock, JudgedReport};
use crate::peers::maps::{Dash, Hashbrown};

/// Flowloom's table, which is the first in every comparison.
const OURS: &str = "linehash";
const OURS_AVX2: &str = "linehash, avx2";
const BOUND: &str = "lower bound";
const SPREAD_BOUND: &str = "lower bound, states as allocated";
const HASHBROWN: &str = "hashbrown + foldhash";
const STD: &str = "std";
const RTE_DENSE: &str = "rte_hash, 95 % full";
const RTE_HALF: &str = "rte_hash, half full";

/// Numbers of keys per batch; `rte_hash` supports at most 64.
const BATCHES: [usize; 2] = [32, 256];

/// Number of flows per batch that are inserted or removed at once. `rte_hash` has no batch calls
/// for this, so it processes flows one by one.
const CHURN_BATCH: usize = 32;
const BUILD_BATCH: usize = 256;

/// The maximum number of flows with forty-byte keys in the full comparison. Above it,
/// [`Scope::Lookups`] takes no more memory than sixteen-byte keys do.
const LONG_KEYS_MAX: u32 = 2_000_000;

/// Maximum number of flows that are compared starting from frames: with more flows, generating and
/// tracking the frames would take longest.
const FRAMES_MAX: u32 = 2_000_000;

/// Parameters of the comparison.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of rounds of each comparison.
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// Numbers of flows.
    #[arg(long, value_delimiter = ',', default_values_t = [65_536, 1_000_000, 8_000_000])]
    pub flows: Vec<u32>,
    /// Starts DPDK with this many megabytes [those of reserved huge pages].
    #[arg(long)]
    pub dpdk_megabytes: Option<u32>,
}

impl Options {
    /// Gives DPDK these megabytes, if there are some and no others were set.
    pub fn reserve_dpdk(&mut self, megabytes: u32) {
        self.dpdk_megabytes = self.dpdk_megabytes.or(Some(megabytes).filter(|reserved| *reserved > 0));
    }
}

/// The contenders, and the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// All contenders, all operations.
    All,
    /// `LineHash`, hashbrown, `rte_hash` half full and the lower bound, lookups only.
    Lookups,
}

/// The contenders.
type Contenders<'a> = Vec<RefCell<Box<dyn Contender + 'a>>>;

/// Runs all comparisons. Missing rivals are named in the second part of the result.
///
/// # Errors
///
/// Returns an error if a table does not pass its trial, or two answers differ.
pub fn run(options: &Options, report: &mut JudgedReport) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let with_dpdk = start_dpdk(options, &mut missing);
    for &count in &options.flows {
        let flows = Flows::<2>::new(count, 1);
        let all = contenders(&flows, with_dpdk, Scope::All)?;
        compare(&all, "16-byte keys", count, options.rounds, Scope::All, true, report)?;
        drop(all);
        let flows = Flows::<5>::new(count, 1);
        let scope = if count <= LONG_KEYS_MAX { Scope::All } else { Scope::Lookups };
        let some = contenders(&flows, with_dpdk, scope)?;
        compare(&some, "40-byte keys", count, options.rounds, scope, false, report)?;
        drop(some);
        flooded::<2>("flood, hit", count, options.rounds, true, report)?;
        if scope == Scope::All {
            flooded::<5>("flood, hit, 40-byte keys", count, options.rounds, false, report)?;
        }
        if count <= FRAMES_MAX {
            let samples = frames::compare(count, options.rounds)?.samples;
            report.compare(&samples, ("frame to flow", count.into(), count.into()), Clock::Cpu, |_| None);
        }
    }
    Ok(missing)
}

#[cfg(has_dpdk)]
pub(crate) fn start_dpdk(options: &Options, missing: &mut Vec<String>) -> bool {
    match options.dpdk_megabytes.map(crate::peers::rte_hash::start) {
        Some(Ok(())) => return true,
        Some(Err(error)) => missing.push(format!("rte_hash: {error}")),
        None => missing.push(String::from("rte_hash: not asked for")),
    }
    false
}

#[cfg(not(has_dpdk))]
pub(crate) fn start_dpdk(_options: &Options, missing: &mut Vec<String>) -> bool {
    missing.push(String::from("rte_hash: built without DPDK"));
    false
}

fn contenders<const W: usize>(flows: &Flows<W>, with_dpdk: bool, scope: Scope) -> Result<Contenders<'_>> {
    let line = |isa: Isa| {
        move |count: u32| {
            let options = TableOptions { isa: Some(isa), prefault: true, ..TableOptions::for_flows(count) };
            LineHash::<[u64; W], State>::try_new(&options)
        }
    };
    let dhash = |count: u32| {
        let options = TableOptions { prefault: true, ..TableOptions::for_flows(count) };
        DHash::<[u64; W], State>::try_new(&options)
    };
    let mut all: Contenders<'_> = vec![
        RefCell::new(Box::new(OurTable::new(OURS, flows, line(Isa::detect()))?)),
        RefCell::new(Box::new(MapContender::<W, Hashbrown<W>>::new(HASHBROWN, flows))),
        RefCell::new(Box::new(LowerBoundContender::new(BOUND, flows, 1.0))),
    ];
    if scope == Scope::All {
        all.push(RefCell::new(Box::new(OurTable::new("dhash", flows, dhash)?)));
        all.push(RefCell::new(Box::new(MapContender::<W, Dash<W>>::new("dashmap + foldhash", flows))));
        all.push(RefCell::new(Box::new(MapContender::<W, StdMap<W>>::new(STD, flows))));
        all.push(RefCell::new(Box::new(LowerBoundContender::new(SPREAD_BOUND, flows, 4.0 / 3.0))));
        if Isa::Avx2.is_available() && Isa::detect() != Isa::Avx2 {
            all.push(RefCell::new(Box::new(OurTable::new(OURS_AVX2, flows, line(Isa::Avx2))?)));
        }
    }
    if with_dpdk {
        add_dpdk(&mut all, flows, scope)?;
    }
    Ok(all)
}

#[cfg(has_dpdk)]
fn add_dpdk<'a, const W: usize>(all: &mut Contenders<'a>, flows: &'a Flows<W>, scope: Scope) -> Result<()> {
    use crate::peers::rte_hash::RteHash;
    if scope == Scope::All {
        all.push(RefCell::new(Box::new(RteHash::new(RTE_DENSE, flows, 0.95)?)));
    }
    all.push(RefCell::new(Box::new(RteHash::new(RTE_HALF, flows, 0.5)?)));
    Ok(())
}

#[cfg(not(has_dpdk))]
fn add_dpdk<const W: usize>(_all: &mut Contenders<'_>, _flows: &Flows<W>, _scope: Scope) -> Result<()> {
    anyhow::bail!("built without DPDK")
}

/// The minimum ratio of a rival's time to Flowloom's.
fn goal(work: Work, rival: &str, flows: u32) -> Option<f64> {
    match (work, rival) {
        (Work::Hit { batch: 256 }, BOUND) if flows <= 100_000 => Some(1.0 / 1.6),
        (Work::Hit { batch: 256 }, BOUND) => Some(1.0 / 1.25),
        (Work::Miss { batch: 256 }, BOUND) => Some(1.0 / 1.75),
        (Work::Single, RTE_DENSE | RTE_HALF) if flows > 100_000 => Some(3.0),
        (Work::Churn | Work::ChurnBatch { .. }, RTE_HALF) => Some(1.0 / 0.45),
        (Work::Churn, HASHBROWN) => Some(1.0),
        (Work::Hit { batch: 256 }, RTE_DENSE | RTE_HALF)
        | (Work::Build | Work::BuildBatch { .. }, RTE_DENSE)
            if flows > 100_000 =>
        {
            Some(2.0)
        }
        _ => None,
    }
}

fn compare(
    contenders: &Contenders<'_>,
    keys: &str,
    flows: u32,
    rounds: usize,
    scope: Scope,
    judged: bool,
    report: &mut JudgedReport,
) -> Result<()> {
    let mut works: Vec<Work> = BATCHES.iter().map(|&batch| Work::Hit { batch }).collect();
    works.extend([Work::HitAhead { batch: BATCHES[0], ahead: 2 }, Work::Single, Work::Dependent]);
    works.extend(BATCHES.iter().map(|&batch| Work::Miss { batch }));
    if scope == Scope::All {
        works.extend([Work::Churn, Work::ChurnBatch { batch: CHURN_BATCH }]);
        works.extend([Work::Build, Work::BuildBatch { batch: BUILD_BATCH }]);
    }
    for work in works {
        // A table that is 95 % full cannot replace flows by new ones, and a map has no batches.
        let takes_part = |contender: &dyn Contender| {
            let is_map = [HASHBROWN, STD, "dashmap + foldhash"].contains(&contender.name());
            contender.can(work)
                && !(matches!(work, Work::Churn | Work::ChurnBatch { .. }) && contender.name() == RTE_DENSE)
                && (!is_map || matches!(work, Work::Single | Work::Dependent | Work::Churn | Work::Build))
        };
        let outcome = time(contenders, work, rounds, takes_part)?;
        let name = format!("{}, {keys}", work.name());
        let goal = |rival: &str| if judged { goal(work, rival, flows) } else { None };
        let what = (&*name, flows.into(), work.items(flows as usize));
        report.compare(&outcome.samples, what, Clock::Cpu, goal);
    }
    Ok(())
}

fn time(
    contenders: &Contenders<'_>,
    work: Work,
    rounds: usize,
    takes_part: impl Fn(&dyn Contender) -> bool,
) -> Result<Outcome<u64>> {
    let mut run = Rounds::new(rounds);
    for contender in contenders {
        if takes_part(&**contender.borrow()) {
            let name = contender.borrow().name().to_owned();
            run = run.variant_with_lap(name, move |lap| contender.borrow_mut().run(work, lap).unwrap_or(0));
        }
    }
    Ok(run.run()?)
}

/// Compares flows that share one CRC with random ones, in our table.
fn flooded<const W: usize>(
    work: &str,
    count: u32,
    rounds: usize,
    judged: bool,
    report: &mut JudgedReport,
) -> Result<()> {
    let line = |count: u32| {
        let options = TableOptions { prefault: true, ..TableOptions::for_flows(count) };
        LineHash::<[u64; W], State>::try_new(&options)
    };
    let (random, flows) = (Flows::<W>::new(count, 1), flood::one_crc(count, 1));
    let contenders: Contenders<'_> = vec![
        RefCell::new(Box::new(OurTable::new("flows of one CRC", &flows, line)?)),
        RefCell::new(Box::new(OurTable::new("random flows", &random, line)?)),
    ];
    let outcome = time(&contenders, Work::Hit { batch: 256 }, rounds, |_| true)?;
    let goal = |_: &str| judged.then_some(1.0 / 1.2);
    report.compare(&outcome.samples, (work, count.into(), count.into()), Clock::Cpu, goal);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::goal::JudgedRow;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn all_implementations_give_the_same_answers() {
        let host = Host::read("", &[]);
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, host, serde_json::Value::Null);
        let options = Options { rounds: 1, flows: vec![500], dpdk_megabytes: None };
        let missing = run(&options, &mut report).unwrap();
        assert_eq!(missing.len(), 1);
        assert!(report.ratios.iter().any(|judged| judged.row.rival == HASHBROWN && judged.goal.is_some()));
        for keys in ["16-byte keys", "40-byte keys"] {
            let there = |rival| {
                let of_keys = |row: &&JudgedRow| row.row.work.ends_with(keys) && row.row.rival == rival;
                report.ratios.iter().any(|row| of_keys(&row))
            };
            assert!([HASHBROWN, STD, "dashmap + foldhash", BOUND].into_iter().all(there), "{keys}");
        }
    }
}

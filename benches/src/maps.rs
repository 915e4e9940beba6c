//! Compares [`FlowMap`] with other maps of one thread: verified answers, then interleaved rounds of
//! all operations.
//!
//! Batches are compared with batches, and single calls with single calls: a map without batches has
//! no batch rows.

use std::cell::RefCell;

use anyhow::Result;
use flowloom::flow_table::{FlowMap, LineHash, TableOptions};
use flowloom_measure::Rounds;
use flowloom_measure::lookup::contender::{Contender, MapContender, OurTable, StateMap, StdMap, Work};
use flowloom_measure::lookup::{Flows, State};

use crate::goal::{Clock, JudgedReport};
#[cfg(has_flat_maps)]
use crate::peers::flat_maps::{FlatMap, Kind};
use crate::peers::maps::{Hashbrown, Prefetching};
#[cfg(has_dpdk)]
use crate::peers::rte_hash::RteHash;
use crate::tables::{Options, start_dpdk};

const HASHBROWN: &str = "hashbrown + foldhash";
const PREFETCHING: &str = "hashbrown + foldhash, prefetched by its user";
const ABSEIL: &str = "abseil flat_hash_map";
const BOOST: &str = "boost unordered_flat_map + foldhash";
#[cfg(has_dpdk)]
const RTE: &str = "rte_hash, half full";

type Contenders<'a> = Vec<RefCell<Box<dyn Contender + 'a>>>;

/// Compares maps with keys of 16 and of 48 bytes. Returns the rivals that are missing.
///
/// # Errors
///
/// Returns an error if a table does not pass its trial, or two answers differ.
pub fn run(options: &Options, report: &mut JudgedReport) -> Result<Vec<String>> {
    let mut missing = Vec::new();
    let with_dpdk = start_dpdk(options, &mut missing);
    if cfg!(not(has_flat_maps)) {
        missing.push(String::from("Abseil and Boost: built without them"));
    }
    for &count in &options.flows {
        compare::<2>(count, "16-byte keys", options.rounds, with_dpdk, report)?;
        compare::<6>(count, "48-byte keys", options.rounds, with_dpdk, report)?;
    }
    Ok(missing)
}

/// Flowloom's map, with the trait of the comparison.
#[derive(Debug)]
struct Ours<const W: usize>(FlowMap<[u64; W], State>);

impl<const W: usize> StateMap<W> for Ours<W> {
    const HAS_BATCHES: bool = true;

    fn with_capacity_for(flows: usize) -> Self {
        Self(FlowMap::with_capacity(u32::try_from(flows).unwrap_or(u32::MAX)))
    }

    #[inline]
    fn first_word(&self, key: &[u64; W]) -> Option<u64> {
        self.0.get(key).map(|state| state[0])
    }

    #[inline]
    fn read_batch(&self, keys: &[[u64; W]]) -> (u64, u64) {
        let (mut sum, mut count) = (0, 0);
        self.0.get_batch(keys, |_, state| {
            sum += state[0];
            count += 1;
        });
        (sum, count)
    }

    #[inline]
    fn count_packet(&mut self, key: &[u64; W]) -> u64 {
        let Ok(state) = self.0.get_or_insert_with(*key, || [0; 4]) else { return 0 };
        state[1] += 1;
        state[0]
    }

    fn sum(&self) -> u64 {
        self.0.values().map(|state| state[0]).sum()
    }

    #[inline]
    fn put(&mut self, key: [u64; W], state: State) -> bool {
        self.0.insert(key, state) == Ok(None)
    }

    #[inline]
    fn take(&mut self, key: &[u64; W]) -> bool {
        self.0.remove(key).is_some()
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

fn compare<const W: usize>(
    count: u32,
    keys: &str,
    rounds: usize,
    with_dpdk: bool,
    report: &mut JudgedReport,
) -> Result<()> {
    let flows = &Flows::<W>::new(count, 1);
    let line = |count: u32| LineHash::<[u64; W], State>::try_new(&TableOptions::for_flows(count));
    #[cfg_attr(
        not(any(has_flat_maps, has_dpdk)),
        expect(unused_mut, reason = "only programs in other languages are added")
    )]
    let mut contenders: Contenders<'_> = vec![
        RefCell::new(Box::new(MapContender::<W, Ours<W>>::new("flow map", flows))),
        RefCell::new(Box::new(OurTable::new("linehash, hashed by the caller", flows, line)?)),
        RefCell::new(Box::new(MapContender::<W, Hashbrown<W>>::new(HASHBROWN, flows))),
        RefCell::new(Box::new(MapContender::<W, Prefetching<W>>::new(PREFETCHING, flows))),
        RefCell::new(Box::new(MapContender::<W, StdMap<W>>::new("std", flows))),
    ];
    #[cfg(has_flat_maps)]
    for (name, kind) in [(ABSEIL, Kind::Abseil), (BOOST, Kind::Boost)] {
        contenders.push(RefCell::new(Box::new(FlatMap::new(name, kind, flows)?)));
    }
    #[cfg(has_dpdk)]
    if with_dpdk {
        contenders.push(RefCell::new(Box::new(RteHash::new(RTE, flows, 0.5)?)));
    }
    let _ = with_dpdk;
    let works = [
        Work::Hit { batch: 32 },
        Work::Hit { batch: 256 },
        Work::Miss { batch: 32 },
        Work::Single,
        Work::Miss { batch: 1 },
        Work::FindOrInsert,
        Work::Churn,
        Work::Iterate,
        Work::Build,
    ];
    for work in works {
        // `can` of a map says that it processes batches one by one, which is another row.
        let is_batch = matches!(work, Work::Hit { .. } | Work::Miss { batch: 2.. });
        let mut run = Rounds::new(rounds);
        for contender in &contenders {
            let name = contender.borrow().name().to_owned();
            let lacks_batches = [HASHBROWN, "std"].contains(&&*name);
            // Its single calls are those of hashbrown.
            let repeats = name == PREFETCHING && !is_batch;
            if contender.borrow().can(work) && !repeats && !(is_batch && lacks_batches) {
                run = run
                    .variant_with_lap(name, move |lap| contender.borrow_mut().run(work, lap).unwrap_or(0));
            }
        }
        let samples = run.run()?.samples;
        let goal = |rival: &str| match (work, rival) {
            (Work::Hit { .. }, ABSEIL) if count == 1_000_000 => Some(1.5),
            (Work::Single, BOOST) | (Work::FindOrInsert, HASHBROWN) => Some(1.0),
            _ => None,
        };
        let name = format!("{}, {keys}", work.name());
        report.compare(&samples, (&name, count.into(), work.items(flows.keys.len())), Clock::Cpu, goal);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn all_implementations_give_the_same_answers_and_batches_equal_batches() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        let options = Options { rounds: 1, flows: vec![500], dpdk_megabytes: None };
        run(&options, &mut report).unwrap();
        let rivals = |work: &str| {
            let rows = report.ratios.iter().filter(|judged| judged.row.work.starts_with(work));
            rows.map(|judged| &*judged.row.rival).collect::<Vec<_>>()
        };
        let [batches, singles] = ["hit, batch 32", "find or insert"].map(rivals);
        assert!(batches.contains(&PREFETCHING) && !batches.contains(&HASHBROWN));
        assert!(singles.contains(&HASHBROWN) && !singles.contains(&PREFETCHING));
        assert_eq!(batches.contains(&ABSEIL), cfg!(has_flat_maps));
        assert_eq!(singles.contains(&BOOST), cfg!(has_flat_maps) && !batches.contains(&BOOST));
    }
}

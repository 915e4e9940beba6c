//! Maps of the Rust world: hashbrown with foldhash, and `DashMap`.
//!
//! Neither looks up many keys at once, so a batch is asked one by one.

use dashmap::DashMap;
use flowloom_measure::Lap;
use flowloom_measure::lookup::contender::{Contender, Tide, Work};
use flowloom_measure::lookup::{Flows, State, state};
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// hashbrown with foldhash's fast hasher: what a Rust program would use today.
#[derive(Debug)]
pub struct Hashbrown<'a, const W: usize> {
    flows: &'a Flows<W>,
    map: HashMap<[u64; W], State, RandomState>,
    tide: Tide,
}

impl<'a, const W: usize> Hashbrown<'a, W> {
    /// Returns the map, filled.
    pub fn new(flows: &'a Flows<W>) -> Self {
        let mut map = HashMap::with_capacity_and_hasher(flows.keys.len(), RandomState::default());
        fill(&mut map, flows);
        Self { flows, map, tide: Tide::default() }
    }
}

fn fill<const W: usize>(map: &mut HashMap<[u64; W], State, RandomState>, flows: &Flows<W>) {
    for (key, number) in flows.keys.iter().zip(&flows.numbers).rev() {
        map.insert(*key, state(*number));
    }
}

impl<const W: usize> Contender for Hashbrown<'_, W> {
    fn name(&self) -> &'static str {
        "hashbrown + foldhash"
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, tide } = self;
        Some(match work {
            Work::Hit { .. } | Work::Single => lap.time(|| {
                let found = |key: &[u64; W]| map.get(key).map_or(0, |state| state[0]);
                flows.keys.iter().map(found).sum()
            }),
            Work::Miss { .. } => {
                lap.time(|| flows.strangers.iter().filter(|key| map.contains_key(*key)).count() as u64)
            }
            Work::Churn => lap.time(|| {
                let mut done = 0;
                for (old, new, number) in tide.turn(flows) {
                    let removed = map.remove(old).is_some();
                    done += u64::from(removed && map.insert(*new, state(number)).is_none());
                }
                done
            }),
            Work::Build => {
                let mut map = HashMap::with_capacity_and_hasher(flows.keys.len(), RandomState::default());
                lap.time(|| fill(&mut map, flows));
                map.len() as u64
            }
        })
    }
}

/// `DashMap`, the concurrent map that Rust data planes share between threads; here used by one.
#[derive(Debug)]
pub struct Dash<'a, const W: usize> {
    flows: &'a Flows<W>,
    map: DashMap<[u64; W], State, RandomState>,
    tide: Tide,
}

impl<'a, const W: usize> Dash<'a, W> {
    /// Returns the map, filled.
    pub fn new(flows: &'a Flows<W>) -> Self {
        let map = DashMap::with_capacity_and_hasher(flows.keys.len(), RandomState::default());
        fill_dash(&map, flows);
        Self { flows, map, tide: Tide::default() }
    }
}

fn fill_dash<const W: usize>(map: &DashMap<[u64; W], State, RandomState>, flows: &Flows<W>) {
    for (key, number) in flows.keys.iter().zip(&flows.numbers).rev() {
        map.insert(*key, state(*number));
    }
}

impl<const W: usize> Contender for Dash<'_, W> {
    fn name(&self) -> &'static str {
        "dashmap + foldhash"
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, tide } = self;
        Some(match work {
            Work::Hit { .. } | Work::Single => lap.time(|| {
                let found = |key: &[u64; W]| map.get(key).map_or(0, |state| state[0]);
                flows.keys.iter().map(found).sum()
            }),
            Work::Miss { .. } => {
                lap.time(|| flows.strangers.iter().filter(|key| map.contains_key(*key)).count() as u64)
            }
            Work::Churn => lap.time(|| {
                let mut done = 0;
                for (old, new, number) in tide.turn(flows) {
                    let removed = map.remove(old).is_some();
                    done += u64::from(removed && map.insert(*new, state(number)).is_none());
                }
                done
            }),
            Work::Build => {
                let map = DashMap::with_capacity_and_hasher(flows.keys.len(), RandomState::default());
                lap.time(|| fill_dash(&map, flows));
                map.len() as u64
            }
        })
    }
}

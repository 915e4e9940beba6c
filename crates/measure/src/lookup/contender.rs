//! Who is timed: our tables and others' behind one seam, so that a rival is a file.

use std::collections::HashMap;
use std::hash::RandomState;

use flowloom_flow_table::{BuildError, FlowTable, Tick, TimeoutClass};

use super::{EXCHANGED_MAX, Flows, State, TrialError, asked_ahead, state};
use crate::rounds::Lap;
use crate::rows::MemoryRow;

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Every flow is looked up and its state read, so many keys at a time.
    Hit {
        /// Keys a call; what has no call for many is asked one by one.
        batch: usize,
    },
    /// The same, the states of each call's keys asked for some calls before.
    HitAhead {
        /// Keys a call.
        batch: usize,
        /// Calls before; what cannot ask ahead is asked as for [`Hit`](Self::Hit).
        ahead: usize,
    },
    /// The same as `Hit`, one by one.
    Single,
    /// The same, each when the answer before is there.
    Dependent,
    /// Every stranger is looked up, so many keys at a time.
    Miss {
        /// Keys a call.
        batch: usize,
    },
    /// A flow is removed by its key and a new one put in, again and again.
    Churn,
    /// The same, so many flows at a time: they are removed, then as many put in.
    ChurnBatch {
        /// Keys a call; what has no call for many takes them one by one.
        batch: usize,
    },
    /// An empty table of the right size is filled.
    Build,
    /// The same, so many flows at a time.
    BuildBatch {
        /// Keys a call; what has no call for many takes them one by one.
        batch: usize,
    },
}

impl Work {
    /// Returns a name for tables.
    pub fn name(self) -> String {
        match self {
            Self::Hit { batch } => format!("hit, batch {batch}"),
            Self::HitAhead { batch, ahead } => format!("hit, batch {batch}, {ahead} ahead"),
            Self::Single => String::from("hit, single"),
            Self::Dependent => String::from("hit, single, each after the other"),
            Self::Miss { batch } => format!("miss, batch {batch}"),
            Self::Churn => String::from("delete + insert"),
            Self::ChurnBatch { batch } => format!("delete + insert, batch {batch}"),
            Self::Build => String::from("build"),
            Self::BuildBatch { batch } => format!("build, batch {batch}"),
        }
    }

    /// Returns how many lookups, pairs or insertions a round has.
    pub fn items(self, flows: usize) -> u64 {
        match self {
            Self::Churn | Self::ChurnBatch { .. } => flows.min(EXCHANGED_MAX) as u64,
            _ => flows as u64,
        }
    }
}

/// Someone who finds flows.
pub trait Contender {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Says whether it can do that; most can do anything.
    fn can(&self, work: Work) -> bool {
        let _ = work;
        true
    }

    /// Does the work once, timing it; `None` if it cannot do that, or failed.
    ///
    /// The answer is the same for everyone: a sum of numbers, or a count.
    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64>;

    /// Returns what it takes of memory, filled as it is, where that is known. The kernel is asked for huge pages, which is slow.
    fn memory(&self) -> Option<MemoryRow> {
        None
    }
}

/// Which half of the keys is in the table: churn goes to and fro.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tide {
    turned: bool,
}

impl Tide {
    /// Returns the keys to remove, the keys to put in and these keys' numbers, and turns.
    pub fn turn<'a, const W: usize>(
        &mut self,
        flows: &'a Flows<W>,
    ) -> (&'a [[u64; W]], &'a [[u64; W]], &'a [u32]) {
        self.turned = !self.turned;
        flows.exchanged(!self.turned)
    }

    /// Turns, and exchanges flow by flow: `exchange` removes a key, puts another in under a number, and says whether both could
    /// be done. Returns how many could.
    ///
    /// Never inlined, so that the loop has all registers for what is timed, whoever runs it.
    #[inline(never)]
    pub fn turn_each<const W: usize>(
        &mut self,
        flows: &Flows<W>,
        mut exchange: impl FnMut(&[u64; W], &[u64; W], u32) -> bool,
    ) -> u64 {
        let (old, new, numbers) = self.turn(flows);
        let pairs = asked_ahead(old).zip(asked_ahead(new)).zip(numbers);
        pairs.map(|((old, new), &number)| u64::from(exchange(old, new, number))).sum()
    }
}

/// The standard library's map.
pub type StdMap<const W: usize> = HashMap<[u64; W], State, RandomState>;

/// One of our tables.
pub struct OurTable<'a, const W: usize, T, F> {
    name: String,
    flows: &'a Flows<W>,
    table: T,
    build: F,
    tide: Tide,
}

impl<const W: usize, T, F> std::fmt::Debug for OurTable<'_, W, T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OurTable").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<'a, const W: usize, T, F> OurTable<'a, W, T, F>
where
    T: FlowTable<[u64; W], State>,
    F: Fn(u32) -> Result<T, BuildError>,
{
    /// Builds a table, fills it, and tries it.
    ///
    /// # Errors
    ///
    /// [`TrialError`] names what went wrong.
    pub fn new(name: impl Into<String>, flows: &'a Flows<W>, build: F) -> Result<Self, TrialError> {
        let table = flows.trial(&build)?;
        Ok(Self { name: name.into(), flows, table, build, tide: Tide::default() })
    }
}

impl<const W: usize, T, F> Contender for OurTable<'_, W, T, F>
where
    T: FlowTable<[u64; W], State>,
    F: Fn(u32) -> Result<T, BuildError>,
{
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, table, tide, .. } = self;
        Some(match work {
            Work::Hit { batch } => lap.time(|| flows.hits(table, batch)),
            Work::HitAhead { batch, ahead } => lap.time(|| flows.hits_ahead(table, batch, ahead)),
            Work::Single => lap.time(|| flows.single_hits(table)),
            Work::Dependent => lap.time(|| flows.dependent_hits(|key| flows.number_of(table, key))),
            Work::Miss { batch } => lap.time(|| flows.misses(table, batch)),
            Work::Churn => lap.time(|| {
                tide.turn_each(flows, |old, new, number| {
                    let removed = table.remove_key(old, flows.hash(old)).is_some();
                    let hash = flows.hash(new);
                    table.insert(*new, hash, state(number), TimeoutClass(0), Tick(0)).is_ok() && removed
                })
            }),
            Work::ChurnBatch { batch } => {
                let (old, new, numbers) = tide.turn(flows);
                lap.time(|| flows.exchange(table, old, new, numbers, batch))
            }
            Work::Build | Work::BuildBatch { .. } => {
                let mut table = (self.build)(u32::try_from(flows.keys.len()).unwrap_or(u32::MAX)).ok()?;
                lap.time(|| match work {
                    Work::BuildBatch { batch } => flows.fill_batch(&mut table, batch).ok(),
                    _ => flows.fill(&mut table).ok(),
                })?;
                u64::from(table.len())
            }
        })
    }

    fn memory(&self) -> Option<MemoryRow> {
        let mut memory = self.table.memory();
        memory.pages = self.table.pages_obtained();
        Some(MemoryRow::new(&self.name, self.flows.keys.len() as u64, &memory))
    }
}

/// A map with states inside, as far as it is timed: one key at a time.
pub trait StateMap<const W: usize> {
    /// Returns an empty map with room for so many.
    fn with_room(flows: usize) -> Self;

    /// Returns the first word of a key's state, if there is one.
    fn first_word(&self, key: &[u64; W]) -> Option<u64>;

    /// Puts a state under a key; says whether the key is new.
    fn put(&mut self, key: [u64; W], state: State) -> bool;

    /// Removes a key; says whether it was there.
    fn take(&mut self, key: &[u64; W]) -> bool;

    /// Returns how many there are.
    fn count(&self) -> usize;
}

impl<const W: usize> StateMap<W> for HashMap<[u64; W], State, RandomState> {
    fn with_room(flows: usize) -> Self {
        Self::with_capacity_and_hasher(flows, RandomState::new())
    }

    #[inline]
    fn first_word(&self, key: &[u64; W]) -> Option<u64> {
        self.get(key).map(|state| state[0])
    }

    #[inline]
    fn put(&mut self, key: [u64; W], state: State) -> bool {
        self.insert(key, state).is_none()
    }

    #[inline]
    fn take(&mut self, key: &[u64; W]) -> bool {
        self.remove(key).is_some()
    }

    fn count(&self) -> usize {
        self.len()
    }
}

/// A map as a contender. What has no call for many keys is asked one by one.
#[derive(Debug)]
pub struct MapContender<'a, const W: usize, M> {
    name: &'static str,
    flows: &'a Flows<W>,
    map: M,
    tide: Tide,
}

impl<'a, const W: usize, M: StateMap<W>> MapContender<'a, W, M> {
    /// Returns the map, filled.
    pub fn new(name: &'static str, flows: &'a Flows<W>) -> Self {
        let mut map = M::with_room(flows.keys.len());
        fill(&mut map, flows);
        Self { name, flows, map, tide: Tide::default() }
    }
}

// Loops of their own, never inlined: they have all registers, as those over our tables do.

#[inline(never)]
fn fill<const W: usize>(map: &mut impl StateMap<W>, flows: &Flows<W>) {
    for (key, number) in asked_ahead(&flows.arrivals) {
        map.put(*key, state(*number));
    }
}

#[inline(never)]
fn hits<const W: usize>(map: &impl StateMap<W>, flows: &Flows<W>) -> u64 {
    asked_ahead(&flows.keys).map(|key| map.first_word(key).unwrap_or(0)).sum()
}

#[inline(never)]
fn misses<const W: usize>(map: &impl StateMap<W>, flows: &Flows<W>) -> u64 {
    asked_ahead(&flows.strangers).filter(|key| map.first_word(key).is_some()).count() as u64
}

impl<const W: usize, M: StateMap<W>> Contender for MapContender<'_, W, M> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, tide, .. } = self;
        Some(match work {
            Work::Hit { .. } | Work::HitAhead { .. } | Work::Single => lap.time(|| hits(map, flows)),
            Work::Dependent => lap.time(|| flows.dependent_hits(|key| map.first_word(key).unwrap_or(0))),
            Work::Miss { .. } => lap.time(|| misses(map, flows)),
            Work::Churn | Work::ChurnBatch { .. } => lap.time(|| {
                tide.turn_each(flows, |old, new, number| {
                    let removed = map.take(old);
                    map.put(*new, state(number)) && removed
                })
            }),
            Work::Build | Work::BuildBatch { .. } => {
                let mut map = M::with_room(flows.keys.len());
                lap.time(|| fill(&mut map, flows));
                map.count() as u64
            }
        })
    }
}

/// The floors, which only look up.
#[derive(Debug)]
pub struct FloorContender<'a, const W: usize> {
    name: String,
    flows: &'a Flows<W>,
    floor: super::floor::Floor,
}

impl<'a, const W: usize> FloorContender<'a, W> {
    /// Returns the bytes that a floor for so many flows takes, with a state for each: a line of state, a share of one of the index, and a place.
    pub fn bytes_needed(count: u32) -> u64 {
        u64::from(count) * 72
    }

    /// Returns a floor with so many states allocated for one that is used.
    pub fn new(name: impl Into<String>, flows: &'a Flows<W>, spread: f64) -> Self {
        Self { name: name.into(), flows, floor: super::floor::Floor::new(flows, spread) }
    }
}

impl<const W: usize> Contender for FloorContender<'_, W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn can(&self, work: Work) -> bool {
        matches!(work, Work::Hit { .. } | Work::Miss { .. })
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        match work {
            Work::Hit { .. } => Some(lap.time(|| self.floor.two_lines(self.flows))),
            Work::Miss { .. } => Some(lap.time(|| self.floor.one_line(self.flows))),
            _ => None,
        }
    }
}

//! Contenders: our tables and rivals behind one trait, so that a rival is one file.

use std::collections::HashMap;
use std::hash::RandomState;

use flowloom_flow_table::{BuildError, FlowTable, Tick, TimeoutClass};

use super::{EXCHANGED_MAX, Flows, State, TrialError, prefetched, state};
use crate::rounds::Lap;
use crate::rows::MemoryRow;

/// The timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Looks up every flow and reads its state, in batches.
    Hit {
        /// Keys per call; a contender without batch calls looks them up one by one.
        batch: usize,
    },
    /// The same, with the states of each batch prefetched some batches before.
    HitAhead {
        /// Keys per call.
        batch: usize,
        /// Batches between prefetch and lookup; a contender without prefetch runs
        /// [`Hit`](Self::Hit).
        ahead: usize,
    },
    /// Looks up every flow, one by one.
    Single,
    /// Looks up every flow, each after the answer before.
    Dependent,
    /// Looks up every missing key, in batches.
    Miss {
        /// Keys per call.
        batch: usize,
    },
    /// Removes a flow by its key and inserts a new one, again and again.
    Churn,
    /// The same in batches: removes a batch, then inserts as many.
    ChurnBatch {
        /// Keys per call; a contender without batch calls processes them one by one.
        batch: usize,
    },
    /// An empty table of the right size is filled.
    Build,
    /// Builds the table in batches.
    BuildBatch {
        /// Keys per call; a contender without batch calls processes them one by one.
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

/// A table or map that takes part in the comparison.
pub trait Contender {
    /// Returns its name.
    fn name(&self) -> &str;

    /// Returns whether it supports an operation; most support all.
    fn can(&self, work: Work) -> bool {
        let _ = work;
        true
    }

    /// Does the work once, timing it; `None` if it cannot do that, or failed.
    ///
    /// The answer is the same for everyone: a sum of numbers, or a count.
    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64>;

    /// Returns the memory of the filled table, if known. Asks the kernel about huge pages, which is
    /// slow.
    fn memory(&self) -> Option<MemoryRow> {
        None
    }
}

/// Which half of the keys is in the table: churn alternates between the halves.
#[derive(Clone, Copy, Debug, Default)]
pub struct Churn {
    is_swapped: bool,
}

impl Churn {
    /// Returns the keys to remove, the keys to insert and their numbers, and swaps the halves.
    pub fn swap<'a, const W: usize>(
        &mut self,
        flows: &'a Flows<W>,
    ) -> (&'a [[u64; W]], &'a [[u64; W]], &'a [u32]) {
        self.is_swapped = !self.is_swapped;
        flows.exchanged(!self.is_swapped)
    }

    /// Swaps the halves flow by flow: `exchange` removes a key, inserts another one under a number,
    /// and returns whether both worked. Returns how many did.
    ///
    /// Never inlined, so that the timed code has all registers, whatever the caller.
    #[inline(never)]
    pub fn exchange_each<const W: usize>(
        &mut self,
        flows: &Flows<W>,
        mut exchange: impl FnMut(&[u64; W], &[u64; W], u32) -> bool,
    ) -> u64 {
        let (old, new, numbers) = self.swap(flows);
        let pairs = prefetched(old).zip(prefetched(new)).zip(numbers);
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
    churn: Churn,
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
    /// [`TrialError`] names the failure.
    pub fn new(name: impl Into<String>, flows: &'a Flows<W>, build: F) -> Result<Self, TrialError> {
        let table = flows.trial(&build)?;
        Ok(Self { name: name.into(), flows, table, build, churn: Churn::default() })
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
        let Self { flows, table, churn, .. } = self;
        Some(match work {
            Work::Hit { batch } => lap.time(|| flows.hits(table, batch)),
            Work::HitAhead { batch, ahead } => lap.time(|| flows.hits_prefetched(table, batch, ahead)),
            Work::Single => lap.time(|| flows.single_hits(table)),
            Work::Dependent => lap.time(|| flows.dependent_hits(|key| flows.number_of(table, key))),
            Work::Miss { batch } => lap.time(|| flows.misses(table, batch)),
            Work::Churn => lap.time(|| {
                churn.exchange_each(flows, |old, new, number| {
                    let removed = table.remove_key(old, flows.hash(old)).is_some();
                    let hash = flows.hash(new);
                    table.insert(*new, hash, state(number), TimeoutClass(0), Tick(0)).is_ok() && removed
                })
            }),
            Work::ChurnBatch { batch } => {
                let (old, new, numbers) = churn.swap(flows);
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

/// A map with states inside, with the operations of the comparison: one key at a time.
pub trait StateMap<const W: usize> {
    /// Returns an empty map with a capacity.
    fn with_capacity_for(flows: usize) -> Self;

    /// Returns the first word of a key's state, if there is one.
    fn first_word(&self, key: &[u64; W]) -> Option<u64>;

    /// Inserts a state under a key; returns whether the key is new.
    fn put(&mut self, key: [u64; W], state: State) -> bool;

    /// Removes a key; returns whether it was there.
    fn take(&mut self, key: &[u64; W]) -> bool;

    /// Returns the number of entries.
    fn count(&self) -> usize;
}

impl<const W: usize> StateMap<W> for HashMap<[u64; W], State, RandomState> {
    fn with_capacity_for(flows: usize) -> Self {
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

/// A map as a contender. Batches are processed one by one.
#[derive(Debug)]
pub struct MapContender<'a, const W: usize, M> {
    name: &'static str,
    flows: &'a Flows<W>,
    map: M,
    churn: Churn,
}

impl<'a, const W: usize, M: StateMap<W>> MapContender<'a, W, M> {
    /// Returns the map, filled.
    pub fn new(name: &'static str, flows: &'a Flows<W>) -> Self {
        let mut map = M::with_capacity_for(flows.keys.len());
        fill(&mut map, flows);
        Self { name, flows, map, churn: Churn::default() }
    }
}

// Loops of their own, never inlined: they have all registers, as those over our tables do.

#[inline(never)]
fn fill<const W: usize>(map: &mut impl StateMap<W>, flows: &Flows<W>) {
    for (key, number) in prefetched(&flows.arrivals) {
        map.put(*key, state(*number));
    }
}

#[inline(never)]
fn hits<const W: usize>(map: &impl StateMap<W>, flows: &Flows<W>) -> u64 {
    prefetched(&flows.keys).map(|key| map.first_word(key).unwrap_or(0)).sum()
}

#[inline(never)]
fn misses<const W: usize>(map: &impl StateMap<W>, flows: &Flows<W>) -> u64 {
    prefetched(&flows.missing).filter(|key| map.first_word(key).is_some()).count() as u64
}

impl<const W: usize, M: StateMap<W>> Contender for MapContender<'_, W, M> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, churn, .. } = self;
        Some(match work {
            Work::Hit { .. } | Work::HitAhead { .. } | Work::Single => lap.time(|| hits(map, flows)),
            Work::Dependent => lap.time(|| flows.dependent_hits(|key| map.first_word(key).unwrap_or(0))),
            Work::Miss { .. } => lap.time(|| misses(map, flows)),
            Work::Churn | Work::ChurnBatch { .. } => lap.time(|| {
                churn.exchange_each(flows, |old, new, number| {
                    let removed = map.take(old);
                    map.put(*new, state(number)) && removed
                })
            }),
            Work::Build | Work::BuildBatch { .. } => {
                let mut map = M::with_capacity_for(flows.keys.len());
                lap.time(|| fill(&mut map, flows));
                map.count() as u64
            }
        })
    }
}

/// The lower bounds, which only look up.
#[derive(Debug)]
pub struct LowerBoundContender<'a, const W: usize> {
    name: String,
    flows: &'a Flows<W>,
    bound: super::lower_bound::LowerBound,
}

impl<'a, const W: usize> LowerBoundContender<'a, W> {
    /// Returns the bytes of a lower bound for this many flows, with a state for each: a line of
    /// state, a part of an index line, and a place.
    pub fn bytes_needed(count: u32) -> u64 {
        u64::from(count) * 72
    }

    /// Returns a lower bound with `spread` states allocated per state used.
    pub fn new(name: impl Into<String>, flows: &'a Flows<W>, spread: f64) -> Self {
        Self { name: name.into(), flows, bound: super::lower_bound::LowerBound::new(flows, spread) }
    }
}

impl<const W: usize> Contender for LowerBoundContender<'_, W> {
    fn name(&self) -> &str {
        &self.name
    }

    fn can(&self, work: Work) -> bool {
        matches!(work, Work::Hit { .. } | Work::Miss { .. })
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        match work {
            Work::Hit { .. } => Some(lap.time(|| self.bound.two_lines(self.flows))),
            Work::Miss { .. } => Some(lap.time(|| self.bound.one_line(self.flows))),
            _ => None,
        }
    }
}

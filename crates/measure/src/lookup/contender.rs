//! Contenders: Flowloom's tables and rivals with a common trait, so that each rival takes one file.

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
    /// Like [`Hit`](Self::Hit), with the states of each batch prefetched several batches earlier.
    HitAhead {
        /// Keys per call.
        batch: usize,
        /// Batches between prefetch and lookup; a contender without prefetch runs
        /// [`Hit`](Self::Hit).
        ahead: usize,
    },
    /// Looks up every flow, one by one.
    Single,
    /// Looks up every flow; each lookup depends on the previous answer.
    Dependent,
    /// Looks up every missing key, in batches.
    Miss {
        /// Keys per call.
        batch: usize,
    },
    /// Repeatedly removes a flow by its key and inserts a new one.
    Churn,
    /// Like [`Churn`](Self::Churn), in batches: removes a batch, then inserts the same number of
    /// flows.
    ChurnBatch {
        /// Keys per call; a contender without batch calls processes them one by one.
        batch: usize,
    },
    /// Finds every flow, or would insert it, one by one, and counts in its state.
    FindOrInsert,
    /// Reads the states of all flows, in the table's order.
    Iterate,
    /// Fills an empty table of the right size.
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
            Self::Dependent => String::from("hit, single, dependent"),
            Self::Miss { batch } => format!("miss, batch {batch}"),
            Self::Churn => String::from("delete + insert"),
            Self::ChurnBatch { batch } => format!("delete + insert, batch {batch}"),
            Self::FindOrInsert => String::from("find or insert"),
            Self::Iterate => String::from("iterate"),
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

    /// Returns whether it supports an operation; most contenders support all.
    fn can(&self, work: Work) -> bool {
        let _ = work;
        true
    }

    /// Does the work once and measures its time. Returns `None` if the operation is not supported
    /// or failed.
    ///
    /// The answer is the same for all contenders: a sum of numbers, or a count.
    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64>;

    /// Returns the memory of the filled table, if known. Queries the kernel about huge pages, which
    /// is slow.
    fn memory(&self) -> Option<MemoryRow> {
        None
    }
}

/// The half of the keys that is in the table: churn alternates between the halves.
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

    /// Swaps the halves flow by flow: `exchange` removes a key, inserts another one with a number,
    /// and returns whether both operations succeeded. Returns the number of successful exchanges.
    ///
    /// Never inlined, so that the timed code can use all registers, independent of the caller.
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

/// One of Flowloom's tables.
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
    /// Builds a table, fills it, and verifies it.
    ///
    /// # Errors
    ///
    /// Returns a [`TrialError`] that describes the failure.
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
            Work::FindOrInsert | Work::Iterate => return None,
        })
    }

    fn can(&self, work: Work) -> bool {
        !matches!(work, Work::FindOrInsert | Work::Iterate)
    }

    fn memory(&self) -> Option<MemoryRow> {
        let mut memory = self.table.memory();
        memory.pages = self.table.pages_obtained();
        Some(MemoryRow::new(&self.name, self.flows.keys.len() as u64, &memory))
    }
}

/// A map that contains states, with the operations of the comparison.
pub trait StateMap<const W: usize> {
    /// Whether [`read_batch`](Self::read_batch) overlaps the lookups of a batch.
    const HAS_BATCHES: bool = false;

    /// Returns an empty map with capacity for `flows` entries.
    fn with_capacity_for(flows: usize) -> Self;

    /// Returns the first word of a key's state, if there is one.
    fn first_word(&self, key: &[u64; W]) -> Option<u64>;

    /// Returns the sum of the first words of these keys' states, and how many keys have one.
    fn read_batch(&self, keys: &[[u64; W]]) -> (u64, u64) {
        let words = keys.iter().filter_map(|key| self.first_word(key));
        words.fold((0, 0), |(sum, count), word| (sum + word, count + 1))
    }

    /// Adds 1 to the second word of a key's state, which is inserted as zeros if there is none.
    /// Returns the first word.
    fn count_packet(&mut self, key: &[u64; W]) -> u64;

    /// Returns the sum of the first words of all states.
    fn sum(&self) -> u64;

    /// Inserts a state for a key. Returns whether the key is new.
    fn put(&mut self, key: [u64; W], state: State) -> bool;

    /// Removes a key. Returns whether it was present.
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
    fn count_packet(&mut self, key: &[u64; W]) -> u64 {
        let state = self.entry(*key).or_insert([0; 4]);
        state[1] += 1;
        state[0]
    }

    fn sum(&self) -> u64 {
        self.values().map(|state| state[0]).sum()
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

/// A map as a contender. Without batch calls it processes batches one by one.
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

// Separate loops, never inlined: they can use all registers, like those over Flowloom's tables.

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

/// Reads keys in batches.
#[inline(never)]
fn batches<const W: usize>(map: &impl StateMap<W>, keys: &[[u64; W]], batch: usize) -> (u64, u64) {
    keys.chunks(batch).fold((0, 0), |(sum, count), keys| {
        prefetched(keys).for_each(drop);
        let (batch_sum, batch_count) = map.read_batch(keys);
        (sum + batch_sum, count + batch_count)
    })
}

#[inline(never)]
fn count_packets<const W: usize>(map: &mut impl StateMap<W>, flows: &Flows<W>) -> u64 {
    prefetched(&flows.keys).map(|key| map.count_packet(key)).sum()
}

impl<const W: usize, M: StateMap<W>> Contender for MapContender<'_, W, M> {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, work: Work, lap: &mut Lap) -> Option<u64> {
        let Self { flows, map, churn, .. } = self;
        Some(match work {
            Work::Hit { batch } if M::HAS_BATCHES => lap.time(|| batches(map, &flows.keys, batch).0),
            Work::Miss { batch } if M::HAS_BATCHES && batch > 1 => {
                lap.time(|| batches(map, &flows.missing, batch).1)
            }
            Work::Hit { .. } | Work::HitAhead { .. } | Work::Single => lap.time(|| hits(map, flows)),
            Work::FindOrInsert => lap.time(|| count_packets(map, flows)),
            Work::Iterate => lap.time(|| map.sum()),
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

/// The lower bounds, which only perform lookups.
#[derive(Debug)]
pub struct LowerBoundContender<'a, const W: usize> {
    name: String,
    flows: &'a Flows<W>,
    bound: super::lower_bound::LowerBound,
}

impl<'a, const W: usize> LowerBoundContender<'a, W> {
    /// Returns the size in bytes of a lower bound for this many flows, with a state for each: a
    /// line of state, a part of an index line, and a place.
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

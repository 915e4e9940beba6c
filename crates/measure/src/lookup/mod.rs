//! Timed lookups: the keys, their order, and the expected answers.
//!
//! Flows are inserted in the order of their numbers, looked up in a second order, and removed in a
//! third; the orders are unrelated. Otherwise a table that allocates states in order of insertion
//! would read them sequentially, which processors prefetch but traffic does not do.
//!
//! Every flow is looked up once per round, in shuffled order, which is the longest reuse distance
//! [DHASH §V-B]. A lookup must read the flow's state, which contains its number. A round's answer
//! is the sum of all numbers, so that a table that finds wrong flows, or too few, cannot win.

pub mod contender;
pub mod flood;
pub mod lower_bound;

use std::collections::VecDeque;

use flowloom_cpu::prefetch;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_key::{FlowHasher, TableHash};
use flowloom_flow_table::{BuildError, FlowTable, Full, FullReason, Tick, TimeoutClass};

/// The state of a flow: 32 bytes, so that it fills one cache line together with a key of 16 bytes
/// and the table's own words.
pub type State = [u64; 4];

/// The maximum number of flows that a round exchanges.
pub const EXCHANGED_MAX: usize = 200_000;

/// Number of keys between the prefetch of a key and its use.
pub const KEYS_AHEAD: usize = 256;

/// Returns keys in their order, prefetching each [`KEYS_AHEAD`] keys before its use.
///
/// Real packets have just been decoded when their flows are looked up, so their keys are in a
/// cache. These keys are in an array larger than a cache, which processors prefetch only up to the
/// end of a page. In a batch that fills a page of keys, every contender that does not overlap
/// lookups would wait for the first key.
#[inline(always)]
pub fn prefetched<T>(keys: &[T]) -> impl Iterator<Item = &T> {
    keys.iter().inspect(|&key| prefetch::read_later(std::ptr::from_ref(key).wrapping_add(KEYS_AHEAD)))
}

/// Flows to look up, and keys that are missing from the table.
#[derive(Clone, Debug)]
pub struct Flows<const W: usize> {
    /// Key of each flow, in the order of lookups.
    pub keys: Vec<[u64; W]>,
    /// Number of each flow, in the same order.
    pub numbers: Vec<u32>,
    /// Keys that no flow has.
    pub missing: Vec<[u64; W]>,
    /// A replacement for the keyed hash, if set.
    pub arrivals: Vec<([u64; W], u32)>,
    exchanges: [Exchange<W>; 2],
    hasher: FlowHasher,
    /// Hashes instead, where it is set.
    unkeyed: Option<fn(&[u64; W]) -> u64>,
}

/// Flows to remove, and flows to insert in their place.
#[derive(Clone, Debug)]
struct Exchange<const W: usize> {
    old: Vec<[u64; W]>,
    new: Vec<[u64; W]>,
    numbers: Vec<u32>,
}

impl<const W: usize> Flows<W> {
    /// Returns the maximum number of bytes that this many flows and missing keys take while they
    /// are generated.
    pub fn bytes_needed(count: u32) -> u64 {
        // Keys with numbers in three orders, and missing keys in two.
        let each = 3 * size_of::<([u64; W], u32)>() + 2 * size_of::<[u64; W]>();
        u64::from(count) * each as u64
    }

    /// Returns a number of flows and the same number of missing keys: neighbouring addresses and
    /// ascending ports, shuffled.
    pub fn new(count: u32, seed: u64) -> Self {
        let mut packets: Vec<_> = (0..count).map(|number| (key(number, 443), number)).collect();
        let mut missing: Vec<_> = (0..count).map(|number| key(number, 80)).collect();
        let mut state = seed;
        shuffle(&mut packets, &mut state);
        shuffle(&mut missing, &mut state);
        Self::from_packets(packets, missing, seed)
    }

    /// Returns flows and missing keys with these keys, to be looked up in this order.
    pub fn from_packets(packets: Vec<([u64; W], u32)>, missing: Vec<[u64; W]>, seed: u64) -> Self {
        let count = packets.len().min(missing.len()).min(EXCHANGED_MAX);
        let mut state = seed;
        let (mut back, mut going) = (packets[..count].to_vec(), missing[..count].to_vec());
        shuffle(&mut back, &mut state);
        shuffle(&mut going, &mut state);
        let (back, back_numbers): (Vec<_>, Vec<_>) = back.into_iter().unzip();
        let mut arrivals = packets.clone();
        arrivals.sort_unstable_by_key(|&(_, number)| number);
        let (keys, numbers): (Vec<_>, Vec<_>) = packets.into_iter().unzip();
        let exchanges = [
            Exchange {
                old: keys[..count].to_vec(),
                new: missing[..count].to_vec(),
                numbers: numbers[..count].to_vec(),
            },
            Exchange { old: going, new: back, numbers: back_numbers },
        ];
        let hasher = FlowHasher::with_seed(seed);
        Self { keys, numbers, missing, arrivals, exchanges, hasher, unkeyed: None }
    }

    /// Returns flows to remove, as many keys to insert, and their numbers; or, after an exchange,
    /// the reverse.
    pub fn exchanged(&self, back: bool) -> (&[[u64; W]], &[[u64; W]], &[u32]) {
        let Exchange { old, new, numbers } = &self.exchanges[usize::from(back)];
        (old, new, numbers)
    }

    /// Returns the expected answer of a round of hits.
    pub fn answer(&self) -> u64 {
        self.numbers.iter().map(|&number| u64::from(number)).sum()
    }

    /// Returns the hash of a key, as a table receives it.
    #[inline(always)]
    pub fn hash(&self, key: &[u64; W]) -> TableHash {
        match self.unkeyed {
            None => self.hasher.hash_words(key).table,
            Some(hash) => hash_apart(hash, key),
        }
    }

    /// Uses another hash function from now on, for example one without a secret.
    pub fn hash_with(&mut self, hash: fn(&[u64; W]) -> u64) {
        self.unkeyed = Some(hash);
    }

    /// Inserts all flows into a table, in order of insertion.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if a flow does not fit.
    pub fn fill(&self, table: &mut impl FlowTable<[u64; W], State>) -> Result<(), Full> {
        for (key, number) in prefetched(&self.arrivals) {
            table.insert(*key, self.hash(key), state(*number), TimeoutClass(0), Tick(0))?;
        }
        Ok(())
    }

    /// Inserts all flows into a table, in order of insertion, `batch` at a time.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if a flow does not fit.
    pub fn fill_batch(
        &self,
        table: &mut impl FlowTable<[u64; W], State>,
        batch: usize,
    ) -> Result<(), Full> {
        let mut buffers = self.buffers(batch);
        let (mut keys, mut numbers) = (Vec::new(), Vec::new());
        for some in self.arrivals.chunks(batch) {
            keys.clear();
            numbers.clear();
            keys.extend(prefetched(some).map(|&(key, _)| key));
            numbers.extend(some.iter().map(|&(_, number)| number));
            if self.put(table, &keys, &numbers, &mut buffers) != keys.len() {
                return Err(Full { reason: FullReason::Capacity });
            }
        }
        Ok(())
    }

    /// Inserts flows in one batch. Returns how many were accepted.
    fn put(
        &self,
        table: &mut impl FlowTable<[u64; W], State>,
        keys: &[[u64; W]],
        numbers: &[u32],
        buffers: &mut Buffers,
    ) -> usize {
        let count = keys.len();
        for (hash, key) in buffers.hashes.iter_mut().zip(keys) {
            *hash = self.hash(key);
        }
        let value = |at: usize| state(numbers[at]);
        let (hashes, ids) = (&buffers.hashes[..count], &mut buffers.ids[..count]);
        count - table.insert_batch(keys, hashes, TimeoutClass(0), Tick(0), value, ids)
    }

    /// Removes flows and inserts others in their place, `batch` at a time. Returns how many
    /// insertions replaced an existing flow.
    pub fn exchange(
        &self,
        table: &mut impl FlowTable<[u64; W], State>,
        old: &[[u64; W]],
        new: &[[u64; W]],
        numbers: &[u32],
        batch: usize,
    ) -> u64 {
        let mut buffers = self.buffers(batch);
        let mut done = 0;
        for ((old, new), numbers) in old.chunks(batch).zip(new.chunks(batch)).zip(numbers.chunks(batch)) {
            for (hash, (key, _)) in buffers.hashes.iter_mut().zip(prefetched(old).zip(prefetched(new))) {
                *hash = self.hash(key);
            }
            let removed = table.remove_batch(old, &buffers.hashes[..old.len()], |_, _| {});
            done += removed.min(self.put(table, new, numbers, &mut buffers)) as u64;
        }
        done
    }

    /// Looks up all flows, `batch` at a time, and returns the sum of their numbers.
    pub fn hits(&self, table: &impl FlowTable<[u64; W], State>, batch: usize) -> u64 {
        let mut buffers = self.buffers(batch);
        let mut sum = 0;
        for keys in self.keys.chunks(batch) {
            let count = keys.len();
            self.hash_all(keys, table, &mut buffers.hashes);
            let (hashes, ids) = (&buffers.hashes[..count], &mut buffers.ids[..count]);
            table.lookup_batch_prefetched(keys, hashes, ids, |_, state| sum += state[0]);
        }
        sum
    }

    /// Like [`hits`](Self::hits), with the states of each batch prefetched several batches earlier.
    pub fn hits_prefetched(
        &self,
        table: &impl FlowTable<[u64; W], State>,
        batch: usize,
        ahead: usize,
    ) -> u64 {
        let mut buffers: VecDeque<_> = (0..=ahead).map(|_| (self.buffers(batch), &[][..])).collect();
        let mut sum = 0;
        let nothing = std::iter::repeat_n(&[][..], ahead);
        for coming in self.keys.chunks(batch).chain(nothing) {
            buffers.rotate_left(1);
            let (Buffers { hashes, .. }, keys) = &mut buffers[ahead];
            *keys = coming;
            self.hash_all(keys, table, hashes);
            let (Buffers { hashes, ids }, keys) = &mut buffers[0];
            let count = keys.len();
            table.lookup_batch_prefetched(keys, &hashes[..count], &mut ids[..count], |_, state| {
                sum += state[0];
            });
            let (Buffers { hashes, .. }, keys) = &buffers[ahead];
            table.prefetch_states(&hashes[..keys.len()]);
        }
        sum
    }

    /// Returns buffers for `batch` keys, or for all keys if there are fewer.
    fn buffers(&self, batch: usize) -> Buffers {
        Buffers::new(batch.min(self.keys.len().max(self.missing.len())))
    }

    /// Hashes keys and calls the table's `prefetch` for each.
    ///
    /// Never inlined, so that the secrets stay in registers.
    #[inline(never)]
    fn hash_all(
        &self,
        keys: &[[u64; W]],
        table: &impl FlowTable<[u64; W], State>,
        hashes: &mut [TableHash],
    ) {
        for (hash, key) in hashes.iter_mut().zip(prefetched(keys)) {
            *hash = self.hash(key);
            table.prefetch(*hash);
        }
    }

    /// Looks up all flows one by one, and returns the sum of their numbers.
    pub fn single_hits(&self, table: &impl FlowTable<[u64; W], State>) -> u64 {
        prefetched(&self.keys).map(|key| self.number_of(table, key)).sum()
    }

    /// Returns the number in the state of a key's flow, or 0 if there is no flow.
    #[inline(always)]
    pub fn number_of(&self, table: &impl FlowTable<[u64; W], State>, key: &[u64; W]) -> u64 {
        table.lookup_value(key, self.hash(key)).map_or(0, |(_, state)| state[0])
    }

    /// Looks up all flows one by one, each depending on the previous answer, and returns the sum of
    /// their numbers. `find` returns a key's number. This measures the full latency of a lookup,
    /// whereas independent lookups overlap.
    #[inline(always)]
    pub fn dependent_hits(&self, mut find: impl FnMut(&[u64; W]) -> u64) -> u64 {
        let (mut sum, mut nothing) = (0, 0);
        for key in prefetched(&self.keys) {
            let mut key = *key;
            key[0] ^= nothing;
            let number = find(&key);
            // Numbers have 32 bits, but neither the compiler nor the processor can know this.
            nothing = number >> 32;
            sum += number;
        }
        sum
    }

    /// Looks up all missing keys, `batch` at a time, and returns how many were found: zero.
    pub fn misses(&self, table: &impl FlowTable<[u64; W], State>, batch: usize) -> u64 {
        let mut buffers = self.buffers(batch);
        let mut found = 0;
        for keys in self.missing.chunks(batch) {
            let count = keys.len();
            self.hash_all(keys, table, &mut buffers.hashes);
            let (hashes, ids) = (&buffers.hashes[..count], &mut buffers.ids[..count]);
            table.lookup_batch_prefetched(keys, hashes, ids, |_, _| found += 1);
        }
        found
    }

    /// Builds a table, fills it, and checks that it finds every flow and no missing key.
    ///
    /// # Errors
    ///
    /// Returns a [`TrialError`] that describes the failure.
    pub fn trial<T: FlowTable<[u64; W], State>>(
        &self,
        build: impl FnOnce(u32) -> Result<T, BuildError>,
    ) -> Result<T, TrialError> {
        let mut table = build(u32::try_from(self.keys.len()).unwrap_or(u32::MAX))?;
        self.fill(&mut table)?;
        let (found, wanted) = (self.hits(&table, 32), self.answer());
        if found != wanted || self.single_hits(&table) != wanted {
            return Err(TrialError::WrongFlows { found, wanted });
        }
        match self.misses(&table, 32) {
            0 => Ok(table),
            found => Err(TrialError::FoundMissing { found }),
        }
    }
}

/// Hashes with a custom function. Marked cold, so that loops with the keyed hash do not reserve
/// registers for a call.
#[cold]
#[inline(never)]
fn hash_apart<const W: usize>(hash: fn(&[u64; W]) -> u64, key: &[u64; W]) -> TableHash {
    TableHash::from_mixed(hash(key))
}

/// The reason why a table is not timed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The table cannot be built.
    #[error("the table cannot be built: {0}")]
    Build(#[from] BuildError),
    /// The table rejects some flows.
    #[error("the table does not accept all flows: {0}")]
    Full(#[from] Full),
    /// The table returned wrong flows.
    #[error("the numbers of the found flows add up to {found} instead of {wanted}")]
    WrongFlows {
        /// Sum of the numbers of the found flows.
        found: u64,
        /// Sum of all numbers.
        wanted: u64,
    },
    /// The table found flows that are not in it.
    #[error("the table found {found} flows that are not in it: its lookups are wrong")]
    FoundMissing {
        /// Number of missing flows that it found.
        found: u64,
    },
}

struct Buffers {
    hashes: Vec<TableHash>,
    ids: Vec<Option<flowloom_flow_table::FlowId>>,
}

impl Buffers {
    fn new(batch: usize) -> Self {
        Self { hashes: vec![TableHash::default(); batch], ids: vec![None; batch] }
    }
}

/// Returns the state of a flow.
pub fn state(number: u32) -> State {
    [u64::from(number), 0, 0, 0]
}

/// Returns the key of a flow: two neighbouring addresses, an ascending and a fixed port, then equal
/// words.
fn key<const W: usize>(number: u32, port: u64) -> [u64; W] {
    let mut words = [0x2001_0DB8_0000_0000; W];
    words[0] = 0x0A00_0000_C0A8_0001 + (u64::from(number / 1024) << 32);
    if let Some(last) = words[1..].last_mut() {
        *last = (1024 + u64::from(number % 1024)) << 32 | port << 16 | 6;
    } else {
        words[0] = u64::from(number) << 16 | port;
    }
    words
}

/// The Fisher–Yates shuffle.
pub fn shuffle<T>(items: &mut [T], state: &mut u64) {
    for last in (1..items.len()).rev() {
        let other = split_mix(state) % (last as u64 + 1);
        items.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_table::{LineHash, TableOptions};

    #[test]
    fn correct_table_passes_its_trial() {
        let flows = Flows::<2>::new(5000, 1);
        let table = flows.trial(|count| LineHash::try_new(&TableOptions::for_flows(count))).unwrap();
        assert_eq!(flows.hits(&table, 256), 5000 * 4999 / 2);
        let flows = Flows::<5>::new(3000, 1);
        assert!(flows.trial(|count| LineHash::try_new(&TableOptions::for_flows(count))).is_ok());
    }

    #[test]
    fn batches_fill_and_exchange_like_single_calls() {
        let flows = Flows::<2>::new(1000, 1);
        let mut table = LineHash::try_new(&TableOptions::for_flows(1000)).unwrap();
        flows.fill_batch(&mut table, 64).unwrap();
        assert_eq!(flows.hits(&table, 32), flows.answer());
        let mut churn = contender::Churn::default();
        for there in [0, 1000] {
            let (old, new, numbers) = churn.swap(&flows);
            assert_eq!(flows.exchange(&mut table, old, new, numbers, 64), 1000);
            assert_eq!(flows.misses(&table, 32), 1000 - there);
        }
        assert_eq!(flows.single_hits(&table), flows.answer());
        for (batch, ahead) in [(1, 3), (7, 1), (32, 0), (32, 2), (1000, 2), (usize::MAX, 1)] {
            assert_eq!(flows.hits_prefetched(&table, batch, ahead), flows.answer(), "{ahead} of {batch}");
        }
        let mut small = LineHash::try_new(&TableOptions::for_flows(999)).unwrap();
        assert!(flows.fill_batch(&mut small, 64).is_err());
    }

    #[test]
    fn batch_size_is_limited_to_the_number_of_flows() {
        let flows = Flows::<2>::new(100, 1);
        let mut table = LineHash::try_new(&TableOptions::for_flows(100)).unwrap();
        flows.fill_batch(&mut table, usize::MAX).unwrap();
        let all = (flows.hits(&table, usize::MAX), flows.misses(&table, usize::MAX));
        assert_eq!(all, (flows.answer(), 0));
        let (old, new, numbers) = flows.exchanged(false);
        assert_eq!(flows.exchange(&mut table, old, new, numbers, usize::MAX), 100);
    }

    #[test]
    fn removal_and_lookup_orders_differ_from_insertion_order() {
        let flows = Flows::<2>::new(1000, 1);
        let places = |came: &[[u64; 2]], then: &[[u64; 2]]| -> Vec<usize> {
            then.iter().map(|key| came.iter().position(|other| other == key).unwrap()).collect()
        };
        let came: Vec<_> = flows.arrivals.iter().map(|&(key, _)| key).collect();
        let ((gone, missing, _), (missing_gone, back, numbers)) =
            (flows.exchanged(false), flows.exchanged(true));
        for (came, then) in
            [(&came[..], &flows.keys[..]), (&came, gone), (missing, missing_gone), (back, gone)]
        {
            let places = places(came, then);
            let neighbours = places.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 10).count();
            assert!(neighbours < 50, "{neighbours} of a thousand come next to their neighbours");
        }
        assert!(flows.arrivals.iter().map(|&(_, number)| number).eq(0..1000));
        let numbered: Vec<_> = back.iter().copied().zip(numbers.iter().copied()).collect();
        assert!(numbered.iter().all(|flow| flows.arrivals.contains(flow)), "flows keep their numbers");
    }

    #[test]
    fn a_table_that_is_too_small_fails_its_trial() {
        let flows = Flows::<2>::new(100, 1);
        let outcome = flows.trial(|_| LineHash::try_new(&TableOptions::for_flows(99)));
        assert!(matches!(outcome, Err(TrialError::Full(_))));
    }

    #[test]
    fn lower_bounds_give_the_same_answer() {
        let flows = Flows::<2>::new(1000, 2);
        let bound = lower_bound::LowerBound::new(&flows, 1.0);
        assert_eq!(bound.two_lines(&flows), flows.answer());
        assert_eq!(lower_bound::LowerBound::new(&flows, 4.0 / 3.0).two_lines(&flows), flows.answer());
        assert_eq!(bound.one_line(&flows), 0);
    }
}

//! Lookups to be timed: who is looked up, in which order, and what the answer must be.
//!
//! Flows come in the order of their numbers, are looked up in another, and go in orders that have nothing to do with that in which they
//! came. A table that puts states one behind the other as flows come would else read them one behind the other, which processors
//! are good at and traffic is not.
//!
//! Every flow is looked up once a round, in shuffled order, which is the longest reuse distance there is
//! [DHASH §V-B]. A lookup is done when the flow's state was read: its number is in it, and a round's answer is the sum of
//! all numbers, so that a table that finds wrong flows, or too few, cannot win.

pub mod contender;
pub mod flood;
pub mod floor;

use std::collections::VecDeque;

use flowloom_cpu::prefetch;
use flowloom_flow_key::FlowHasher;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::{BuildError, FlowTable, Full, FullReason, Tick, TimeoutClass};

/// What a flow keeps: 32 bytes, so that a key of 16 and a table's own words make up one cache line.
pub type State = [u64; 4];

/// Flows that are exchanged for others in a round, at most.
pub const EXCHANGED_MAX: usize = 200_000;

/// How many keys before its turn a key is asked for.
pub const KEYS_AHEAD: usize = 256;

/// Returns keys in their order, each asked for [`KEYS_AHEAD`] turns before its own.
///
/// Packets have just been decoded when their flows are looked up, so their keys are near. Ours lie in an array larger than a
/// cache, which processors read ahead up to the end of a page only: of a batch that fills a page of keys, the first would be
/// waited for by everyone who does not look up others meanwhile.
#[inline(always)]
pub fn asked_ahead<T>(keys: &[T]) -> impl Iterator<Item = &T> {
    keys.iter().inspect(|&key| prefetch::read_later(std::ptr::from_ref(key).wrapping_add(KEYS_AHEAD)))
}

/// Flows to look up, and strangers that are not there.
#[derive(Clone, Debug)]
pub struct Flows<const W: usize> {
    /// Key of each flow, in the order in which they are looked up.
    pub keys: Vec<[u64; W]>,
    /// Number of each flow, in the same order.
    pub numbers: Vec<u32>,
    /// Keys that no flow has.
    pub strangers: Vec<[u64; W]>,
    /// Keys and numbers in the order in which the flows come: that of the numbers.
    pub arrivals: Vec<([u64; W], u32)>,
    exchanges: [Exchange<W>; 2],
    hasher: FlowHasher,
    /// Hashes instead, where it is set.
    unkeyed: Option<fn(&[u64; W]) -> u64>,
}

/// Flows that go, and others that come in their place.
#[derive(Clone, Debug)]
struct Exchange<const W: usize> {
    old: Vec<[u64; W]>,
    new: Vec<[u64; W]>,
    numbers: Vec<u32>,
}

impl<const W: usize> Flows<W> {
    /// Returns the bytes that so many flows and their strangers take at most, while they are made.
    pub fn bytes_needed(count: u32) -> u64 {
        // Keys with numbers in three orders, and strangers twice.
        let each = 3 * size_of::<([u64; W], u32)>() + 2 * size_of::<[u64; W]>();
        u64::from(count) * each as u64
    }

    /// Returns so many flows and as many strangers: neighbouring addresses and rising ports, shuffled.
    pub fn new(count: u32, seed: u64) -> Self {
        let mut packets: Vec<_> = (0..count).map(|number| (key(number, 443), number)).collect();
        let mut strangers: Vec<_> = (0..count).map(|number| key(number, 80)).collect();
        let mut state = seed;
        shuffle(&mut packets, &mut state);
        shuffle(&mut strangers, &mut state);
        Self::of(packets, strangers, seed)
    }

    /// Returns flows and strangers of these keys, to be looked up in this order.
    pub fn of(packets: Vec<([u64; W], u32)>, strangers: Vec<[u64; W]>, seed: u64) -> Self {
        let count = packets.len().min(strangers.len()).min(EXCHANGED_MAX);
        let mut state = seed;
        let (mut back, mut going) = (packets[..count].to_vec(), strangers[..count].to_vec());
        shuffle(&mut back, &mut state);
        shuffle(&mut going, &mut state);
        let (back, back_numbers): (Vec<_>, Vec<_>) = back.into_iter().unzip();
        let mut arrivals = packets.clone();
        arrivals.sort_unstable_by_key(|&(_, number)| number);
        let (keys, numbers): (Vec<_>, Vec<_>) = packets.into_iter().unzip();
        let exchanges = [
            Exchange {
                old: keys[..count].to_vec(),
                new: strangers[..count].to_vec(),
                numbers: numbers[..count].to_vec(),
            },
            Exchange { old: going, new: back, numbers: back_numbers },
        ];
        let hasher = FlowHasher::with_seed(seed);
        Self { keys, numbers, strangers, arrivals, exchanges, hasher, unkeyed: None }
    }

    /// Returns flows to remove, strangers to put in, as many, and their numbers; or, if that was done, the same the other way.
    pub fn exchanged(&self, back: bool) -> (&[[u64; W]], &[[u64; W]], &[u32]) {
        let Exchange { old, new, numbers } = &self.exchanges[usize::from(back)];
        (old, new, numbers)
    }

    /// Returns what a round of hits must answer.
    pub fn answer(&self) -> u64 {
        self.numbers.iter().map(|&number| u64::from(number)).sum()
    }

    /// Returns the hash of a key, as a table takes it.
    #[inline(always)]
    pub fn hash(&self, key: &[u64; W]) -> u64 {
        match self.unkeyed {
            None => self.hasher.hash_words(key).table,
            Some(hash) => hash_apart(hash, key),
        }
    }

    /// Hashes with another function from now on, such as one without a secret.
    pub fn hash_with(&mut self, hash: fn(&[u64; W]) -> u64) {
        self.unkeyed = Some(hash);
    }

    /// Puts all flows into a table, in the order in which they come.
    ///
    /// # Errors
    ///
    /// [`Full`] if one does not fit.
    pub fn fill(&self, table: &mut impl FlowTable<[u64; W], State>) -> Result<(), Full> {
        for (key, number) in asked_ahead(&self.arrivals) {
            table.insert(*key, self.hash(key), state(*number), TimeoutClass(0), Tick(0))?;
        }
        Ok(())
    }

    /// Puts all flows into a table, in the order in which they come, `batch` at a time.
    ///
    /// # Errors
    ///
    /// [`Full`] if one does not fit.
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
            keys.extend(asked_ahead(some).map(|&(key, _)| key));
            numbers.extend(some.iter().map(|&(_, number)| number));
            if self.put(table, &keys, &numbers, &mut buffers) != keys.len() {
                return Err(Full { reason: FullReason::Capacity });
            }
        }
        Ok(())
    }

    /// Puts flows into a table at once and returns how many were taken.
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

    /// Removes flows and puts others in their place, `batch` at a time; returns how many of those taken in follow one that
    /// was there.
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
            for (hash, (key, _)) in buffers.hashes.iter_mut().zip(asked_ahead(old).zip(asked_ahead(new))) {
                *hash = self.hash(key);
            }
            let removed = table.remove_batch(old, &buffers.hashes[..old.len()], |_, _| {});
            done += removed.min(self.put(table, new, numbers, &mut buffers)) as u64;
        }
        done
    }

    /// Looks all flows up, `batch` at a time, and returns the sum of their numbers.
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

    /// Does the same, each batch's states asked for so many batches before its turn.
    pub fn hits_ahead(&self, table: &impl FlowTable<[u64; W], State>, batch: usize, ahead: usize) -> u64 {
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

    /// Returns buffers for so many keys at a time; more than there are need no room.
    fn buffers(&self, batch: usize) -> Buffers {
        Buffers::new(batch.min(self.keys.len().max(self.strangers.len())))
    }

    /// Hashes keys that are about to be looked up, and says so to the table.
    ///
    /// Never inlined, so that the secrets stay in registers.
    #[inline(never)]
    fn hash_all(&self, keys: &[[u64; W]], table: &impl FlowTable<[u64; W], State>, hashes: &mut [u64]) {
        for (hash, key) in hashes.iter_mut().zip(asked_ahead(keys)) {
            *hash = self.hash(key);
            table.prefetch(*hash);
        }
    }

    /// Looks all flows up one by one, and returns the sum of their numbers.
    pub fn single_hits(&self, table: &impl FlowTable<[u64; W], State>) -> u64 {
        asked_ahead(&self.keys).map(|key| self.number_of(table, key)).sum()
    }

    /// Returns the number of a key's flow as its state has it, 0 if there is none.
    #[inline(always)]
    pub fn number_of(&self, table: &impl FlowTable<[u64; W], State>, key: &[u64; W]) -> u64 {
        table.lookup_value(key, self.hash(key)).map_or(0, |(_, state)| state[0])
    }

    /// Looks all flows up one by one, each when the answer before is there, and returns the sum of their numbers: `find` gives a
    /// key's number. The time is a lookup's whole way, where lookups that know nothing of each other overlap.
    #[inline(always)]
    pub fn dependent_hits(&self, mut find: impl FnMut(&[u64; W]) -> u64) -> u64 {
        let (mut sum, mut nothing) = (0, 0);
        for key in asked_ahead(&self.keys) {
            let mut key = *key;
            key[0] ^= nothing;
            let number = find(&key);
            // Numbers have 32 bits, which nobody tells the compiler or the processor.
            nothing = number >> 32;
            sum += number;
        }
        sum
    }

    /// Looks all strangers up, `batch` at a time, and returns how many were found: none.
    pub fn misses(&self, table: &impl FlowTable<[u64; W], State>, batch: usize) -> u64 {
        let mut buffers = self.buffers(batch);
        let mut found = 0;
        for keys in self.strangers.chunks(batch) {
            let count = keys.len();
            self.hash_all(keys, table, &mut buffers.hashes);
            let (hashes, ids) = (&buffers.hashes[..count], &mut buffers.ids[..count]);
            table.lookup_batch_prefetched(keys, hashes, ids, |_, _| found += 1);
        }
        found
    }

    /// Builds a table, fills it, and checks that it finds every flow and no stranger.
    ///
    /// # Errors
    ///
    /// [`TrialError`] names what went wrong.
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
            strangers => Err(TrialError::Strangers { strangers }),
        }
    }
}

/// Hashes with a function that was given. Cold, so that loops with the keyed hash do not keep registers ready for a call.
#[cold]
#[inline(never)]
fn hash_apart<const W: usize>(hash: fn(&[u64; W]) -> u64, key: &[u64; W]) -> u64 {
    hash(key)
}

/// Why a table is not timed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// It cannot be built.
    #[error("the table cannot be built: {0}")]
    Build(#[from] BuildError),
    /// It does not take all flows.
    #[error("the table does not take all flows: {0}")]
    Full(#[from] Full),
    /// It found other flows than those that were asked for.
    #[error("the flows that were found add up to {found}, not to {wanted}")]
    WrongFlows {
        /// Sum of the numbers that were found.
        found: u64,
        /// Sum of all numbers.
        wanted: u64,
    },
    /// It found flows that are not there.
    #[error("{strangers} flows were found that are not there")]
    Strangers {
        /// How many.
        strangers: u64,
    },
}

struct Buffers {
    hashes: Vec<u64>,
    ids: Vec<Option<flowloom_flow_table::FlowId>>,
}

impl Buffers {
    fn new(batch: usize) -> Self {
        Self { hashes: vec![0; batch], ids: vec![None; batch] }
    }
}

/// Returns the state of a flow.
pub fn state(number: u32) -> State {
    [u64::from(number), 0, 0, 0]
}

/// Returns the key of a flow: two neighbouring addresses, a rising port and a fixed one, then words that are all alike.
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

/// Fisher and Yates's shuffle.
pub fn shuffle<T>(items: &mut [T], state: &mut u64) {
    for last in (1..items.len()).rev() {
        let other = split_mix(state) % (last as u64 + 1);
        items.swap(last, usize::try_from(other).unwrap_or(last));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_table::{LineHash, LineHashConfig};

    #[test]
    fn a_table_that_works_passes_its_trial() {
        let flows = Flows::<2>::new(5000, 1);
        let table = flows.trial(|count| LineHash::try_new(&LineHashConfig::for_flows(count))).unwrap();
        assert_eq!(flows.hits(&table, 256), 5000 * 4999 / 2);
        let flows = Flows::<5>::new(3000, 1);
        assert!(flows.trial(|count| LineHash::try_new(&LineHashConfig::for_flows(count))).is_ok());
    }

    #[test]
    fn batches_fill_and_exchange_as_single_calls_do() {
        let flows = Flows::<2>::new(1000, 1);
        let mut table = LineHash::try_new(&LineHashConfig::for_flows(1000)).unwrap();
        flows.fill_batch(&mut table, 64).unwrap();
        assert_eq!(flows.hits(&table, 32), flows.answer());
        let mut tide = contender::Tide::default();
        for there in [0, 1000] {
            let (old, new, numbers) = tide.turn(&flows);
            assert_eq!(flows.exchange(&mut table, old, new, numbers, 64), 1000);
            assert_eq!(flows.misses(&table, 32), 1000 - there);
        }
        assert_eq!(flows.single_hits(&table), flows.answer());
        for (batch, ahead) in [(1, 3), (7, 1), (32, 0), (32, 2), (1000, 2), (usize::MAX, 1)] {
            assert_eq!(flows.hits_ahead(&table, batch, ahead), flows.answer(), "{ahead} of {batch}");
        }
        let mut small = LineHash::try_new(&LineHashConfig::for_flows(999)).unwrap();
        assert!(flows.fill_batch(&mut small, 64).is_err());
    }

    #[test]
    fn a_batch_of_any_size_is_at_most_all_there_are() {
        let flows = Flows::<2>::new(100, 1);
        let mut table = LineHash::try_new(&LineHashConfig::for_flows(100)).unwrap();
        flows.fill_batch(&mut table, usize::MAX).unwrap();
        let all = (flows.hits(&table, usize::MAX), flows.misses(&table, usize::MAX));
        assert_eq!(all, (flows.answer(), 0));
        let (old, new, numbers) = flows.exchanged(false);
        assert_eq!(flows.exchange(&mut table, old, new, numbers, usize::MAX), 100);
    }

    #[test]
    fn nobody_goes_or_is_looked_up_in_the_order_of_coming() {
        let flows = Flows::<2>::new(1000, 1);
        let places = |came: &[[u64; 2]], then: &[[u64; 2]]| -> Vec<usize> {
            then.iter().map(|key| came.iter().position(|other| other == key).unwrap()).collect()
        };
        let came: Vec<_> = flows.arrivals.iter().map(|&(key, _)| key).collect();
        let ((gone, strangers, _), (strangers_gone, back, numbers)) =
            (flows.exchanged(false), flows.exchanged(true));
        for (came, then) in
            [(&came[..], &flows.keys[..]), (&came, gone), (strangers, strangers_gone), (back, gone)]
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
    fn a_table_without_room_fails_its_trial() {
        let flows = Flows::<2>::new(100, 1);
        let outcome = flows.trial(|_| LineHash::try_new(&LineHashConfig::for_flows(99)));
        assert!(matches!(outcome, Err(TrialError::Full(_))));
    }

    #[test]
    fn floors_give_the_same_answer() {
        let flows = Flows::<2>::new(1000, 2);
        let floor = floor::Floor::new(&flows, 1.0);
        assert_eq!(floor.two_lines(&flows), flows.answer());
        assert_eq!(floor::Floor::new(&flows, 4.0 / 3.0).two_lines(&flows), flows.answer());
        assert_eq!(floor.one_line(&flows), 0);
    }
}

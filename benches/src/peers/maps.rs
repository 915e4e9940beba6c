//! Rust maps, all with foldhash's fast hasher: hashbrown, which is the usual choice of a Rust
//! program, alone and with prefetches by its user, and `DashMap`, which data planes share between
//! threads and which one thread uses here.

use std::hash::BuildHasher;
use std::ptr;

use dashmap::DashMap;
use flowloom::cpu::prefetch;
use flowloom_measure::lookup::State;
use flowloom_measure::lookup::contender::StateMap;
use foldhash::fast::RandomState;
use hashbrown::{HashMap, HashTable};

/// hashbrown with foldhash.
pub type Hashbrown<const W: usize> = Keyed<HashMap<[u64; W], State, RandomState>>;

/// `DashMap` with foldhash.
pub type Dash<const W: usize> = Keyed<DashMap<[u64; W], State, RandomState>>;

/// A rival map with the trait of the comparison.
#[derive(Debug)]
pub struct Keyed<M>(M);

macro_rules! state_map {
    ($name:ident, $map:ident, $first:expr $(, $mutable:tt)?) => {
        impl<const W: usize> StateMap<W> for $name<W> {
            fn with_capacity_for(flows: usize) -> Self {
                Self($map::with_capacity_and_hasher(flows, RandomState::default()))
            }

            #[inline]
            fn first_word(&self, key: &[u64; W]) -> Option<u64> {
                self.0.get(key).map(|state| state[0])
            }

            #[inline]
            fn count_packet(&mut self, key: &[u64; W]) -> u64 {
                let $($mutable)? state = self.0.entry(*key).or_insert([0; 4]);
                state[1] += 1;
                state[0]
            }

            fn sum(&self) -> u64 {
                self.0.iter().map($first).sum()
            }

            #[inline]
            fn put(&mut self, key: [u64; W], state: State) -> bool {
                self.0.insert(key, state).is_none()
            }

            #[inline]
            fn take(&mut self, key: &[u64; W]) -> bool {
                self.0.remove(key).is_some()
            }

            fn count(&self) -> usize {
                self.0.len()
            }
        }
    };
}

state_map!(Hashbrown, HashMap, |(_, state)| state[0]);
state_map!(Dash, DashMap, |flow| flow[0], mut);

/// hashbrown whose user prefetches what the keys of a batch read first.
#[derive(Debug)]
pub struct Prefetching<const W: usize> {
    table: HashTable<([u64; W], State)>,
    hasher: RandomState,
}

/// The most keys whose lookups overlap.
const AHEAD: usize = 256;

impl<const W: usize> Prefetching<W> {
    /// Returns where the search for a hash begins: the low bits of the hash select it.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits are meant")]
    fn index(&self, hash: u64) -> usize {
        hash as usize & (self.table.num_buckets() - 1)
    }

    /// Prefetches the group of control bytes and the entry at which the search for a hash begins.
    ///
    /// hashbrown has no such call. Its layout is known: entries lie below the control bytes, in
    /// descending order.
    #[inline]
    fn prefetch(&self, control: *const u8, hash: u64) {
        let index = self.index(hash);
        let entry = control.wrapping_sub((index + 1) * size_of::<([u64; W], State)>());
        prefetch::read(control.wrapping_add(index));
        prefetch::read(entry);
        prefetch::read(entry.wrapping_add(size_of::<([u64; W], State)>() - 1));
    }

    /// Returns the address of the control bytes, as any entry tells.
    #[inline]
    fn control(&self) -> *const u8 {
        let entries = (0..self.table.num_buckets()).zip(1..);
        let first = entries.filter_map(|(index, end)| Some((self.table.get_bucket(index)?, end)));
        let address =
            |(entry, end): (&([u64; W], State), usize)| ptr::from_ref(entry).wrapping_add(end).cast();
        first.map(address).next().unwrap_or(ptr::null())
    }
}

impl<const W: usize> StateMap<W> for Prefetching<W> {
    const HAS_BATCHES: bool = true;

    fn with_capacity_for(flows: usize) -> Self {
        Self { table: HashTable::with_capacity(flows), hasher: RandomState::default() }
    }

    #[inline]
    fn first_word(&self, key: &[u64; W]) -> Option<u64> {
        self.table.find(self.hasher.hash_one(key), |entry| entry.0 == *key).map(|(_, state)| state[0])
    }

    fn read_batch(&self, keys: &[[u64; W]]) -> (u64, u64) {
        let (mut hashes, control) = ([0; AHEAD], self.control());
        let (mut sum, mut count) = (0, 0);
        for keys in keys.chunks(AHEAD) {
            for (hash, key) in hashes.iter_mut().zip(keys) {
                *hash = self.hasher.hash_one(key);
                self.prefetch(control, *hash);
            }
            for (&hash, key) in hashes.iter().zip(keys) {
                if let Some((_, state)) = self.table.find(hash, |entry| entry.0 == *key) {
                    sum += state[0];
                    count += 1;
                }
            }
        }
        (sum, count)
    }

    fn count_packet(&mut self, key: &[u64; W]) -> u64 {
        let (hash, hasher) = (self.hasher.hash_one(key), &self.hasher);
        let entry = self.table.entry(hash, |entry| entry.0 == *key, |(key, _)| hasher.hash_one(key));
        let (_, state) = entry.or_insert((*key, [0; 4])).into_mut();
        state[1] += 1;
        state[0]
    }

    fn sum(&self) -> u64 {
        self.table.iter().map(|(_, state)| state[0]).sum()
    }

    fn put(&mut self, key: [u64; W], state: State) -> bool {
        let before = self.table.len();
        let (hash, hasher) = (self.hasher.hash_one(key), &self.hasher);
        let entry = self.table.entry(hash, |entry| entry.0 == key, |(key, _)| hasher.hash_one(key));
        entry.or_insert((key, state));
        self.table.len() > before
    }

    fn take(&mut self, key: &[u64; W]) -> bool {
        let hash = self.hasher.hash_one(key);
        let found = self.table.find_entry(hash, |entry| entry.0 == *key);
        found.map(hashbrown::hash_table::OccupiedEntry::remove).is_ok()
    }

    fn count(&self) -> usize {
        self.table.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn search_for_a_hash_begins_at_the_prefetched_line() {
        for number in 0..100 {
            let mut map = Prefetching::<2>::with_capacity_for(100);
            assert!(map.put([number, 7], [number; 4]));
            let hash = map.hasher.hash_one([number, 7]);
            assert_eq!(map.table.find_bucket_index(hash, |_| true), Some(map.index(hash)));
            let entry = map.control().wrapping_sub((map.index(hash) + 1) * 48);
            assert_eq!(entry, ptr::from_ref(map.table.find(hash, |_| true).unwrap()).cast());
        }
    }
}

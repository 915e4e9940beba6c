//! Rust maps, both with foldhash's fast hasher: hashbrown, which is the usual choice of a Rust
//! program, and `DashMap`, which data planes share between threads and which one thread uses here.

use dashmap::DashMap;
use flowloom_measure::lookup::State;
use flowloom_measure::lookup::contender::StateMap;
use foldhash::fast::RandomState;
use hashbrown::HashMap;

/// hashbrown with foldhash.
pub type Hashbrown<const W: usize> = Keyed<HashMap<[u64; W], State, RandomState>>;

/// `DashMap` with foldhash.
pub type Dash<const W: usize> = Keyed<DashMap<[u64; W], State, RandomState>>;

/// A rival map with the trait of the comparison.
#[derive(Debug)]
pub struct Keyed<M>(M);

impl<const W: usize> StateMap<W> for Hashbrown<W> {
    fn with_capacity_for(flows: usize) -> Self {
        Self(HashMap::with_capacity_and_hasher(flows, RandomState::default()))
    }

    #[inline]
    fn first_word(&self, key: &[u64; W]) -> Option<u64> {
        self.0.get(key).map(|state| state[0])
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

impl<const W: usize> StateMap<W> for Dash<W> {
    fn with_capacity_for(flows: usize) -> Self {
        Self(DashMap::with_capacity_and_hasher(flows, RandomState::default()))
    }

    #[inline]
    fn first_word(&self, key: &[u64; W]) -> Option<u64> {
        self.0.get(key).map(|state| state[0])
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

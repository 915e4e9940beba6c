//! Maps that threads share, with foldhash's fast hasher, for comparison with Flowloom's table.

use std::sync::{PoisonError, RwLock};

use dashmap::DashMap;
use flowloom::flow_table::KeyedState;
use flowloom::flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, Handle};
use flowloom_measure::lookup::State;
use foldhash::fast::RandomState;

/// A key of 16 bytes.
pub type Key = [u64; 2];

/// A map that threads share.
pub trait SharedMap: Sync {
    /// Returns a thread's access to it.
    fn access<'m>(&'m self) -> Box<dyn Access + 'm>;
}

/// The operations of a thread on a map.
pub trait Access {
    /// Returns the sum of the first words of the states of these keys, pinned or locked once if
    /// possible.
    fn sum(&self, keys: &[Key]) -> u64;

    /// Inserts a state for a key. Returns whether the key is new.
    fn put(&self, key: Key, state: State) -> bool;

    /// Removes a key. Returns whether it was present.
    fn take(&self, key: &Key) -> bool;
}

/// Returns Flowloom's table, empty.
///
/// # Panics
///
/// Panics if there is no memory.
#[must_use]
pub fn ours(flows: u32) -> ConcurrentFlowTable<Key, State> {
    ConcurrentFlowTable::try_new(&ConcurrentConfig::for_flows(flows)).expect("a table of as many flows")
}

impl SharedMap for ConcurrentFlowTable<Key, State> {
    fn access<'m>(&'m self) -> Box<dyn Access + 'm> {
        Box::new(self.handle())
    }
}

impl Access for Handle<'_, Key, State, KeyedState> {
    fn sum(&self, keys: &[Key]) -> u64 {
        let pinned = self.pin();
        if let [key] = keys {
            return pinned.get(key).map_or(0, |state| state[0]);
        }
        let mut sum = 0;
        pinned.get_batch(keys, |_, state| sum += state[0]);
        sum
    }

    fn put(&self, key: Key, state: State) -> bool {
        self.pin().try_insert(key, state).is_ok_and(|(_, left)| left.is_none())
    }

    fn take(&self, key: &Key) -> bool {
        self.pin().remove(key).is_some()
    }
}

/// Implements the traits for a map whose methods need only a reference.
macro_rules! by_reference {
    ($map:ty, $self:ident, $pinned:ident = $pin:expr, $get:expr, $put:expr, $take:expr) => {
        impl SharedMap for $map {
            fn access<'m>(&'m self) -> Box<dyn Access + 'm> {
                Box::new(self)
            }
        }

        impl Access for &$map {
            fn sum(&$self, keys: &[Key]) -> u64 {
                let $pinned = $pin;
                keys.iter().map($get).sum()
            }

            fn put(&$self, key: Key, state: State) -> bool {
                let $pinned = $pin;
                $put(key, state)
            }

            fn take(&$self, key: &Key) -> bool {
                let $pinned = $pin;
                $take(key)
            }
        }
    };
}

/// `DashMap`.
pub type Dash = DashMap<Key, State, RandomState>;

by_reference!(
    Dash,
    self,
    map = *self,
    |key| map.get(key).map_or(0, |state| state[0]),
    |key, state| map.insert(key, state).is_none(),
    |key| map.remove(key).is_some()
);

/// papaya's map, pinned once per call.
pub type Papaya = papaya::HashMap<Key, State, RandomState>;

by_reference!(
    Papaya,
    self,
    map = self.pin(),
    |key| map.get(key).map_or(0, |state| state[0]),
    |key, state| map.insert(key, state).is_none(),
    |key| map.remove(key).is_some()
);

/// scc's map.
pub type Scc = scc::HashMap<Key, State, RandomState>;

by_reference!(
    Scc,
    self,
    map = *self,
    |key| map.read_sync(key, |_, state| state[0]).unwrap_or(0),
    |key, state| map.insert_sync(key, state).is_ok(),
    |key| map.remove_sync(key).is_some()
);

/// hashbrown behind a lock.
pub type Locked = RwLock<hashbrown::HashMap<Key, State, RandomState>>;

impl SharedMap for Locked {
    fn access<'m>(&'m self) -> Box<dyn Access + 'm> {
        Box::new(self)
    }
}

impl Access for &Locked {
    fn sum(&self, keys: &[Key]) -> u64 {
        let map = self.read().unwrap_or_else(PoisonError::into_inner);
        keys.iter().map(|key| map.get(key).map_or(0, |state| state[0])).sum()
    }

    fn put(&self, key: Key, state: State) -> bool {
        self.write().unwrap_or_else(PoisonError::into_inner).insert(key, state).is_none()
    }

    fn take(&self, key: &Key) -> bool {
        self.write().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }
}

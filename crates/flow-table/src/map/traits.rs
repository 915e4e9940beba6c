//! The standard library's traits for a [`FlowMap`].

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::ops::Index;

use super::{FlowMap, FlowMapBuilder};
use crate::table::{FlowTable, TableKey};

impl<K: TableKey + Hash, V, S: BuildHasher + Default> Default for FlowMap<K, V, S> {
    fn default() -> Self {
        Self::with_hasher(S::default())
    }
}

impl<K: TableKey, V: fmt::Debug, S> fmt::Debug for FlowMap<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}

impl<K: TableKey + Hash, V: Clone, S: BuildHasher + Clone> Clone for FlowMap<K, V, S> {
    /// Returns a map with the same settings, flows, classes and times. Ids of one map are not valid
    /// in the other.
    ///
    /// # Panics
    ///
    /// Panics if memory is insufficient.
    fn clone(&self) -> Self {
        let builder = FlowMapBuilder::from_options(self.table.options()).flows(self.table.len());
        let map = builder.build_with_hasher(self.hasher.clone());
        let mut map = map.expect("memory for as many flows as there are");
        map.now = self.now;
        for (id, key, value) in self.table.iter() {
            let class = self.table.class_of(id).unwrap_or_default();
            let seen = self.table.last_seen(id).unwrap_or_default();
            let hash = map.hash(&key);
            map.table.entry_with(key, hash, class, seen, || value.clone()).expect("space for all flows");
        }
        map
    }
}

impl<K: TableKey + Hash, V: PartialEq, S: BuildHasher> PartialEq for FlowMap<K, V, S> {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().all(|(key, value)| other.get(key) == Some(value))
    }
}

impl<K: TableKey + Hash, V: Eq, S: BuildHasher> Eq for FlowMap<K, V, S> {}

impl<K: TableKey + Hash, V, S: BuildHasher> Index<&K> for FlowMap<K, V, S> {
    type Output = V;

    /// Returns the value of a key.
    ///
    /// # Panics
    ///
    /// Panics if the map does not contain it; [`get`](FlowMap::get) returns an option.
    fn index(&self, key: &K) -> &V {
        self.get(key).expect("the map contains the key")
    }
}

impl<K: TableKey + Hash, V, S: BuildHasher> Extend<(K, V)> for FlowMap<K, V, S> {
    /// Inserts all flows. Flows that a full map refuses are dropped and counted in
    /// [`TableStats::refused`](crate::TableStats::refused).
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, flows: I) {
        for (key, value) in flows {
            // A refusal is an outcome that the map counts.
            let _ = self.insert(key, value);
        }
    }
}

impl<K: TableKey + Hash, V, S: BuildHasher + Default> FromIterator<(K, V)> for FlowMap<K, V, S> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(flows: I) -> Self {
        let flows = flows.into_iter();
        let expected = u32::try_from(flows.size_hint().0).unwrap_or(0).min(1 << 20);
        let mut map = Self::with_capacity_and_hasher(expected, S::default());
        map.extend(flows);
        map
    }
}

impl<K: TableKey + Hash, V, S: BuildHasher + Default, const N: usize> From<[(K, V); N]>
    for FlowMap<K, V, S>
{
    fn from(flows: [(K, V); N]) -> Self {
        flows.into_iter().collect()
    }
}

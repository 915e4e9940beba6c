//! The entry of a key in a [`FlowMap`](super::FlowMap).

use core::fmt;

use super::Table;
use crate::evict::{Evict, Refuse};
use crate::table::{FlowId, FlowTable, Full, Refused, TableKey, Tick, TimeoutClass};
use flowloom_flow_key::TableHash;

/// The entry of a key, which may have a flow or not.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::FlowMap;
/// use flowloom_flow_table::map::Entry;
/// let mut bytes = FlowMap::new();
/// bytes.entry(7_u32).and_modify(|sum| *sum += 100).or_insert(60)?;
/// bytes.entry(7).and_modify(|sum| *sum += 100).or_insert(60)?;
/// assert_eq!(bytes[&7], 160);
/// if let Entry::Occupied(entry) = bytes.entry(7) {
///     assert_eq!(entry.remove(), 160);
/// }
/// # Ok::<(), flowloom_flow_table::Full>(())
/// ```
#[derive(Debug)]
pub enum Entry<'a, K: TableKey, V> {
    /// The key has a flow.
    Occupied(OccupiedEntry<'a, K, V>),
    /// The key has no flow.
    Vacant(VacantEntry<'a, K, V>),
}

impl<'a, K: TableKey, V> Entry<'a, K, V> {
    /// Returns the value, inserting one if there is no flow.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] with the value if there is no flow and no space.
    #[inline]
    pub fn or_insert(self, value: V) -> Result<&'a mut V, Refused<V>> {
        match self {
            Self::Occupied(entry) => Ok(entry.into_mut()),
            Self::Vacant(entry) => entry.insert(value),
        }
    }

    /// Returns the value, creating one if there is no flow and there is space.
    ///
    /// # Errors
    ///
    /// Returns [`Full`] if there is no flow and no space; `make` is not called then.
    #[inline]
    pub fn or_insert_with(self, make: impl FnOnce() -> V) -> Result<&'a mut V, Full> {
        match self {
            Self::Occupied(entry) => Ok(entry.into_mut()),
            Self::Vacant(entry) => entry.insert_with(make),
        }
    }

    /// Returns the value, creating one from the key if there is no flow and there is space.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`or_insert_with`](Entry::or_insert_with).
    #[inline]
    pub fn or_insert_with_key(self, make: impl FnOnce(&K) -> V) -> Result<&'a mut V, Full> {
        let key = self.key();
        self.or_insert_with(|| make(&key))
    }

    /// Returns the value, inserting the default if there is no flow.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`or_insert_with`](Entry::or_insert_with).
    #[inline]
    pub fn or_default(self) -> Result<&'a mut V, Full>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }

    /// Changes the value if there is a flow, and marks the flow as seen.
    #[inline]
    #[must_use]
    pub fn and_modify(mut self, change: impl FnOnce(&mut V)) -> Self {
        if let Self::Occupied(entry) = &mut self {
            change(entry.get_mut());
        }
        self
    }

    /// Returns the key.
    pub fn key(&self) -> K {
        match self {
            Self::Occupied(entry) => entry.key(),
            Self::Vacant(entry) => entry.key,
        }
    }

    /// Sets the timeout class of the flow if this entry inserts it.
    #[must_use]
    pub fn in_class(mut self, class: TimeoutClass) -> Self {
        if let Self::Vacant(entry) = &mut self {
            entry.class = class;
        }
        self
    }
}

/// The entry of a key that has a flow.
pub struct OccupiedEntry<'a, K, V> {
    pub(super) table: &'a mut Table<K, V>,
    pub(super) id: FlowId,
    pub(super) now: Tick,
}

const THERE: &str = "the entry has its flow";

impl<'a, K: TableKey, V> OccupiedEntry<'a, K, V> {
    /// Returns the key.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn key(&self) -> K {
        self.table.key_of(self.id).expect(THERE)
    }

    /// Returns the flow's id.
    pub fn id(&self) -> FlowId {
        self.id
    }

    /// Returns the value.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn get(&self) -> &V {
        self.table.get(self.id).expect(THERE)
    }

    /// Returns the value, mutably, and marks the flow as seen.
    ///
    /// # Panics
    ///
    /// Never.
    #[inline]
    pub fn get_mut(&mut self) -> &mut V {
        self.table.get_mut_touch(self.id, self.now).expect(THERE).0
    }

    /// Returns the value, mutably, for as long as the map is borrowed.
    ///
    /// # Panics
    ///
    /// Never.
    #[inline]
    #[must_use]
    pub fn into_mut(self) -> &'a mut V {
        self.table.get_mut_touch(self.id, self.now).expect(THERE).0
    }

    /// Replaces the value, and returns the previous one.
    pub fn insert(&mut self, value: V) -> V {
        core::mem::replace(self.get_mut(), value)
    }

    /// Removes the flow and returns its value.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn remove(self) -> V {
        self.remove_entry().1
    }

    /// Removes the flow and returns its key and value.
    ///
    /// # Panics
    ///
    /// Never.
    pub fn remove_entry(self) -> (K, V) {
        self.table.remove(self.id).expect(THERE)
    }
}

impl<K: TableKey, V> fmt::Debug for OccupiedEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OccupiedEntry").field("key", &self.key()).field("id", &self.id).finish()
    }
}

/// The entry of a key that has no flow.
pub struct VacantEntry<'a, K, V> {
    pub(super) table: &'a mut Table<K, V>,
    pub(super) key: K,
    pub(super) hash: TableHash,
    pub(super) now: Tick,
    pub(super) class: TimeoutClass,
}

impl<'a, K: TableKey, V> VacantEntry<'a, K, V> {
    /// Returns the key.
    pub fn key(&self) -> K {
        self.key
    }

    /// Inserts a value.
    ///
    /// # Errors
    ///
    /// Returns [`Refused`] with the value if there is no space.
    #[inline]
    pub fn insert(self, value: V) -> Result<&'a mut V, Refused<V>> {
        match self.insert_at_once(|| value) {
            Ok(value) => Ok(value),
            Err((entry, make)) => entry.insert_closely(make()),
        }
    }

    #[inline]
    pub(super) fn insert_with(self, make: impl FnOnce() -> V) -> Result<&'a mut V, Full> {
        self.insert_or_evict_with(make, &mut Refuse)
    }

    #[inline]
    pub(super) fn insert_or_evict_with(
        self,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<&'a mut V, Full> {
        self.insert_at_once(make).or_else(|(entry, make)| entry.search_and_insert(make, policy))
    }

    /// Inserts a value if the first read of the index shows that there is space.
    #[inline]
    fn insert_at_once<F: FnOnce() -> V>(self, make: F) -> Result<&'a mut V, (Self, F)> {
        let Self { table, key, hash, now, class } = self;
        match table.enter_at_once(&key, hash, class, now, make) {
            Ok(id) => {
                let id = table.outer(id);
                Ok(table.get_mut(id).expect(THERE))
            }
            Err(make) => Err((Self { table, key, hash, now, class }, make)),
        }
    }

    /// Inserts a value in the cases that need a full search.
    #[inline(never)]
    fn insert_closely(self, value: V) -> Result<&'a mut V, Refused<V>> {
        let mut value = Some(value);
        let make = || value.take().expect("`make` is called once");
        let inserted = self.search_and_insert(make, &mut Refuse);
        inserted.map_err(|full| full.with_value(value))
    }

    fn search_and_insert(
        self,
        make: impl FnOnce() -> V,
        policy: &mut impl Evict<K, V>,
    ) -> Result<&'a mut V, Full> {
        let Self { table, key, hash, now, class } = self;
        let id = table.entry_or_evict(key, hash, class, now, make, policy)?.id;
        Ok(table.get_mut(id).expect(THERE))
    }
}

impl<K: TableKey, V> fmt::Debug for VacantEntry<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VacantEntry").field("key", &self.key).finish_non_exhaustive()
    }
}

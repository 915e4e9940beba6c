//! Iterators of a [`FlowMap`], in no particular order.

use core::fmt;
use core::iter::FusedIterator;

use super::{FlowMap, Table};
use crate::segments::{self, FlowsMut, Found};
use crate::table::{Cursor, Flow, FlowTable, TableKey};

impl<K: TableKey, V, S> FlowMap<K, V, S> {
    /// Returns all flows.
    pub fn iter(&self) -> Iter<'_, K, V> {
        Iter { left: self.len(), flows: self.table.flows() }
    }

    /// Returns all flows with mutable values; the flows do not count as seen.
    pub fn iter_mut(&mut self) -> IterMut<'_, K, V> {
        IterMut { left: self.len(), flows: self.table.flows_mut() }
    }

    /// Returns all flows with their ids and the times at which they were last seen.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::{FlowMap, Tick};
    /// let mut map: FlowMap<u32, &str> = FlowMap::from([(7, "old")]);
    /// map.set_now(Tick(5));
    /// map.insert(8, "new")?;
    /// let idle = map.flows().filter(|flow| flow.last_seen < map.now());
    /// let ids: Vec<_> = idle.map(|flow| flow.id).collect();
    /// assert_eq!(ids, [map.id_of(&7).expect("it was inserted")]);
    /// # Ok::<(), flowloom_flow_table::Full>(())
    /// ```
    pub fn flows(&self) -> Flows<'_, K, V> {
        Flows(self.iter())
    }

    /// Returns all keys.
    pub fn keys(&self) -> Keys<'_, K, V> {
        Keys(self.iter())
    }

    /// Returns all keys of the map, which is consumed.
    pub fn into_keys(self) -> IntoKeys<K, V> {
        IntoKeys(self.into_iter())
    }

    /// Returns all values of the map, which is consumed.
    pub fn into_values(self) -> IntoValues<K, V> {
        IntoValues(self.into_iter())
    }

    /// Returns all values.
    pub fn values(&self) -> Values<'_, K, V> {
        Values(self.iter())
    }

    /// Returns all values, mutably; the flows do not count as seen.
    pub fn values_mut(&mut self) -> ValuesMut<'_, K, V> {
        ValuesMut(self.iter_mut())
    }

    /// Removes all flows and returns them. Dropping the iterator also removes the flows that it has
    /// not returned.
    pub fn drain(&mut self) -> Drain<'_, K, V> {
        Drain { table: &mut self.table, cursor: Cursor::default() }
    }

    /// Returns an iterator that removes the flows for which `condition` returns true, and returns
    /// them. Flows that it has not reached when it is dropped stay.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_flow_table::FlowMap;
    /// let mut map: FlowMap<u32, u32> = (0..10).map(|key| (key, key * key)).collect();
    /// let odd: Vec<_> = map.extract_if(|_, value| *value % 2 == 1).collect();
    /// assert_eq!((odd.len(), map.len()), (5, 5));
    /// ```
    pub fn extract_if<F>(&mut self, condition: F) -> ExtractIf<'_, K, V, F>
    where
        F: FnMut(&K, &mut V) -> bool,
    {
        ExtractIf { table: &mut self.table, cursor: Cursor::default(), condition }
    }
}

/// An iterator that removes the flows for which a condition is true.
#[must_use = "it removes nothing unless it is used; `retain` removes all at once"]
pub struct ExtractIf<'a, K: TableKey, V, F> {
    table: &'a mut Table<K, V>,
    cursor: Cursor,
    condition: F,
}

impl<K: TableKey, V, F: FnMut(&K, &mut V) -> bool> Iterator for ExtractIf<'_, K, V, F> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            let (id, next) = self.table.next_live(self.cursor)?;
            self.cursor = next;
            let key = self.table.key_of(id)?;
            if (self.condition)(&key, self.table.get_mut(id)?) {
                return self.table.remove(id);
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (0, Some(self.table.len() as usize))
    }
}

impl<K: TableKey, V, F: FnMut(&K, &mut V) -> bool> FusedIterator for ExtractIf<'_, K, V, F> {}

impl<K: TableKey, V, F> fmt::Debug for ExtractIf<'_, K, V, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExtractIf").field("cursor", &self.cursor).finish_non_exhaustive()
    }
}

/// An iterator over all flows of a map.
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct Iter<'a, K, V> {
    flows: segments::Flows<'a, K, V>,
    left: usize,
}

impl<K, V> Clone for Iter<'_, K, V> {
    fn clone(&self) -> Self {
        Self { flows: self.flows.clone(), ..*self }
    }
}

impl<'a, K: TableKey, V> Iter<'a, K, V> {
    #[inline]
    fn next_flow(&mut self) -> Option<Found<'a, K, V>> {
        let flow = self.flows.next()?;
        self.left -= 1;
        Some(flow)
    }
}

impl<'a, K: TableKey, V> Iterator for Iter<'a, K, V> {
    type Item = (&'a K, &'a V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_flow().map(|flow| (&flow.state.key, &flow.state.value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// An iterator over all flows of a map, with mutable values.
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct IterMut<'a, K, V> {
    flows: FlowsMut<'a, K, V>,
    left: usize,
}

impl<'a, K: TableKey, V> Iterator for IterMut<'a, K, V> {
    type Item = (&'a K, &'a mut V);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let flow = self.flows.next()?;
        self.left -= 1;
        Some(flow)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

/// An iterator that removes all flows of a map.
pub struct Drain<'a, K: TableKey, V> {
    table: &'a mut Table<K, V>,
    cursor: Cursor,
}

impl<K: TableKey, V> Drop for Drain<'_, K, V> {
    fn drop(&mut self) {
        self.table.clear();
    }
}

/// An iterator over all flows of a consumed map.
pub struct IntoIter<K, V> {
    table: Table<K, V>,
    cursor: Cursor,
}

/// An iterator over all keys of a consumed map.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct IntoKeys<K, V>(IntoIter<K, V>);

/// An iterator over all values of a consumed map.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct IntoValues<K, V>(IntoIter<K, V>);

impl<K: TableKey, V, S> IntoIterator for FlowMap<K, V, S> {
    type Item = (K, V);
    type IntoIter = IntoIter<K, V>;

    fn into_iter(self) -> IntoIter<K, V> {
        IntoIter { table: self.table, cursor: Cursor::default() }
    }
}

impl<'a, K: TableKey, V, S> IntoIterator for &'a FlowMap<K, V, S> {
    type Item = (&'a K, &'a V);
    type IntoIter = Iter<'a, K, V>;

    fn into_iter(self) -> Iter<'a, K, V> {
        self.iter()
    }
}

impl<'a, K: TableKey, V, S> IntoIterator for &'a mut FlowMap<K, V, S> {
    type Item = (&'a K, &'a mut V);
    type IntoIter = IterMut<'a, K, V>;

    fn into_iter(self) -> IterMut<'a, K, V> {
        self.iter_mut()
    }
}

/// An iterator over all flows of a map, with their ids and times.
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct Flows<'a, K, V>(Iter<'a, K, V>);

/// An iterator over all keys of a map.
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct Keys<'a, K, V>(Iter<'a, K, V>);

/// An iterator over all values of a map.
#[derive(Clone, Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct Values<'a, K, V>(Iter<'a, K, V>);

/// An iterator over all values of a map, mutably.
#[derive(Debug)]
#[must_use = "iterators are lazy and do nothing unless they are used"]
pub struct ValuesMut<'a, K, V>(IterMut<'a, K, V>);

macro_rules! part {
    ($name:ident $(<$life:lifetime>)?, $item:ty, $next:ident, $pick:expr) => {
        impl<$($life,)? K: TableKey, V> Iterator for $name<$($life,)? K, V> {
            type Item = $item;

            #[inline]
            fn next(&mut self) -> Option<$item> {
                self.0.$next().map($pick)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                self.0.size_hint()
            }
        }
    };
}

part!(Flows<'a>, Flow<'a, K, V>, next_flow, |flow| flow.state.flow(flow.id()));
part!(Keys<'a>, &'a K, next, |(key, _)| key);
part!(Values<'a>, &'a V, next, |(_, value)| value);
part!(ValuesMut<'a>, &'a mut V, next, |(_, value)| value);
part!(IntoKeys, K, next, |(key, _)| key);
part!(IntoValues, V, next, |(_, value)| value);

macro_rules! removing {
    ($($name:ident $(<$life:lifetime>)?)*) => {$(
        impl<K: TableKey, V> Iterator for $name<$($life,)? K, V> {
            type Item = (K, V);

            fn next(&mut self) -> Option<(K, V)> {
                let (id, next) = self.table.next_live(self.cursor)?;
                self.cursor = next;
                self.table.remove(id)
            }

            fn size_hint(&self) -> (usize, Option<usize>) {
                let left = self.table.len() as usize;
                (left, Some(left))
            }
        }
    )*};
}

removing!(Drain<'_> IntoIter);

macro_rules! exact {
    ($($name:ident $(<$life:lifetime>)?)*) => {$(
        impl<K: TableKey, V> ExactSizeIterator for $name<$($life,)? K, V> {}
        impl<K: TableKey, V> FusedIterator for $name<$($life,)? K, V> {}
    )*};
}

exact!(Iter<'_> IterMut<'_> Drain<'_> Flows<'_> Keys<'_> Values<'_> ValuesMut<'_>);
exact!(IntoIter IntoKeys IntoValues);

impl<K, V> fmt::Debug for Iter<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for IterMut<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IterMut").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<K: TableKey, V> fmt::Debug for Drain<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain").field("left", &self.table.len()).finish_non_exhaustive()
    }
}

impl<K, V> fmt::Debug for IntoIter<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("table", &self.table).finish_non_exhaustive()
    }
}

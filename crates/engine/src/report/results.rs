//! The results of flows: one record per distinct key, or all records of it, in the order of keys.

use std::cmp::Ordering;

use flowloom_flow_key::{FlowKey, IpFamily};

use crate::app::FlowState;
use crate::report::digest::ResultDigest;

/// The result of one flow.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlowRecord<F> {
    /// The flow.
    pub key: FlowKey,
    /// What the application knows of it.
    pub state: F,
}

/// The results of a run's flows.
///
/// Records stay where the stages put them; only an order of a few bytes each is made, so a million flows are not
/// copied to be sorted.
#[derive(Clone)]
pub struct FlowResults<F> {
    /// The records of each table.
    chunks: Vec<Vec<FlowRecord<F>>>,
    /// Places of the records of distinct keys, by key.
    order: Vec<Place>,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) chunk: u16,
    pub(crate) at: u32,
}

impl<F> std::fmt::Debug for FlowResults<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowResults")
            .field("records", &self.chunks.iter().map(Vec::len).sum::<usize>())
            .field("keys", &self.order.len())
            .finish_non_exhaustive()
    }
}

impl<F: FlowState> FlowResults<F> {
    /// Puts records in order and merges those of one key, of which earlier ones must come first.
    pub(crate) fn new(chunks: Vec<Vec<FlowRecord<F>>>) -> Self {
        let mut sorted = Vec::with_capacity(chunks.iter().map(Vec::len).sum());
        for (records, chunk) in chunks.iter().zip(0..) {
            sorted.extend(Sorted::all(records, chunk));
        }
        sort(&mut sorted, |place| &chunks[usize::from(place.chunk)][place.at as usize].key);
        Self::of_sorted(chunks, sorted)
    }

    /// Merges the records of each key, which are in order.
    pub(crate) fn of_sorted(mut chunks: Vec<Vec<FlowRecord<F>>>, sorted: Vec<Sorted>) -> Self {
        let mut order: Vec<Place> = Vec::with_capacity(sorted.len());
        let mut latest: Option<Sorted> = None;
        for next in sorted {
            let place = next.place();
            // Records lie in no order: two are visited only where what is at hand does not tell them apart.
            let is_alike = !F::SEPARATE && latest.is_some_and(|latest| latest.prefix(&next).is_none());
            latest = Some(next);
            match order.last() {
                Some(&first) if is_alike && record(&chunks, first).key == record(&chunks, place).key => {
                    let later = std::mem::take(&mut record_mut(&mut chunks, place).state);
                    record_mut(&mut chunks, first).state.merge(later);
                }
                _ => order.push(place),
            }
        }
        Self { chunks, order }
    }
}

fn record<F>(chunks: &[Vec<FlowRecord<F>>], place: Place) -> &FlowRecord<F> {
    &chunks[usize::from(place.chunk)][place.at as usize]
}

fn record_mut<F>(chunks: &mut [Vec<FlowRecord<F>>], place: Place) -> &mut FlowRecord<F> {
    &mut chunks[usize::from(place.chunk)][place.at as usize]
}

/// What decides nearly every comparison of two keys, beside the place of the record: whole keys lie far apart in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorted {
    first: u64,
    second: u64,
    at: u32,
    chunk: u16,
    family: IpFamily,
}

impl Sorted {
    fn new(key: &FlowKey, place: Place) -> Self {
        let words = key.words();
        // In IPv4 keys the words between the addresses and the ports are empty.
        let second = match key.family() {
            IpFamily::V4 => words[4],
            IpFamily::V6 => words[1],
        };
        let Place { chunk, at } = place;
        Self { first: words[0], second, at, chunk, family: key.family() }
    }

    /// Returns an entry for each record of a chunk, in the order of the records.
    pub(crate) fn all<F>(records: &[FlowRecord<F>], chunk: u16) -> impl Iterator<Item = Self> + use<'_, F> {
        records.iter().zip(0..).map(move |(record, at)| Self::new(&record.key, Place { chunk, at }))
    }

    pub(crate) fn set_chunk(&mut self, chunk: u16) {
        self.chunk = chunk;
    }

    pub(crate) fn place(&self) -> Place {
        Place { chunk: self.chunk, at: self.at }
    }

    /// Compares two keys as far as this is enough.
    fn prefix(&self, other: &Self) -> Option<Ordering> {
        let first = self.first.cmp(&other.first);
        if first != Ordering::Equal {
            return Some(first);
        }
        let second = self.second.cmp(&other.second);
        (self.family == other.family && second != Ordering::Equal).then_some(second)
    }

    /// Compares two keys.
    pub(crate) fn compare<'a>(&self, other: &Self, key: impl Fn(Place) -> &'a FlowKey) -> Ordering {
        self.prefix(other).unwrap_or_else(|| key(self.place()).cmp(key(other.place())))
    }
}

/// Sorts entries by key, and those of one key by place.
pub(crate) fn sort<'a>(sorted: &mut [Sorted], key: impl Fn(Place) -> &'a FlowKey) {
    sorted.sort_unstable_by(|a, b| a.compare(b, &key).then_with(|| a.place().cmp(&b.place())));
}

impl<F: FlowState> FlowResults<F> {
    /// Returns the digest of all results, in the order of their keys.
    pub(crate) fn digest(&self) -> String {
        // Each record is read where it lies; then only sixteen bytes of each are visited in the order of keys.
        let mut values = Vec::with_capacity(F::COLUMNS.len());
        let mut of_chunk = |records: &Vec<FlowRecord<F>>| -> Vec<[u64; 2]> {
            let of_record = |record: &FlowRecord<F>| {
                values.clear();
                record.state.values(&mut values);
                ResultDigest::of_flow(&record.key, &values)
            };
            records.iter().map(of_record).collect()
        };
        let chunks: Vec<Vec<[u64; 2]>> = self.chunks.iter().map(&mut of_chunk).collect();
        let mut digest = ResultDigest::default();
        for place in &self.order {
            digest.add(chunks[usize::from(place.chunk)][place.at as usize]);
        }
        digest.finish()
    }
}

impl<F> FlowResults<F> {
    /// Returns the number of distinct keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Says whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Returns the records in the order of their keys.
    pub fn iter(&self) -> FlowResultsIter<'_, F> {
        FlowResultsIter { chunks: &self.chunks, places: self.order.iter() }
    }
}

impl<'a, F> IntoIterator for &'a FlowResults<F> {
    type Item = &'a FlowRecord<F>;
    type IntoIter = FlowResultsIter<'a, F>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Goes through [`FlowResults`] in the order of the keys.
#[derive(Clone, Debug)]
pub struct FlowResultsIter<'a, F> {
    chunks: &'a [Vec<FlowRecord<F>>],
    places: std::slice::Iter<'a, Place>,
}

impl<'a, F> Iterator for FlowResultsIter<'a, F> {
    type Item = &'a FlowRecord<F>;

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|&place| record(self.chunks, place))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.places.size_hint()
    }
}

impl<F> ExactSizeIterator for FlowResultsIter<'_, F> {}

impl<F> std::iter::FusedIterator for FlowResultsIter<'_, F> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::FlowValue;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Trail(Vec<u32>);

    impl FlowState for Trail {
        const COLUMNS: &'static [&'static str] = &[];
        fn values(&self, _out: &mut Vec<FlowValue>) {}
        fn merge(&mut self, later: Self) {
            self.0.extend(later.0);
        }
    }

    #[test]
    fn records_of_one_key_are_merged_in_their_order_and_keys_rise() {
        let record = |host: u32, port: u16, mark: u32| FlowRecord {
            key: FlowKey::from_v4(1, host, 1, port, 6).0,
            state: Trail(vec![mark]),
        };
        let results = FlowResults::new(vec![
            vec![record(9, 5, 1), record(3, 5, 2), record(9, 5, 3)],
            vec![],
            vec![record(9, 4, 4), record(3, 5, 5), record(9, 5, 6)],
        ]);
        assert_eq!(results.len(), 3);
        let keys: Vec<FlowKey> = results.iter().map(|record| record.key).collect();
        assert!(keys.is_sorted());
        let mut trails: Vec<&[u32]> = Vec::new();
        for record in &results {
            trails.push(&record.state.0);
        }
        assert_eq!(trails, [&[2, 5][..], &[4], &[1, 3, 6]]);
        assert_eq!(results.iter().len(), results.len());
    }
}

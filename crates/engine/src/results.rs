//! The results of flows: one record per distinct key, or all records of it, in the order of keys.

use std::cmp::Ordering;

use flowloom_flow_key::{FlowKey, IpFamily};

use crate::app::FlowState;
use crate::digest::ResultDigest;

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
/// Records stay where the stages put them; only an order of four bytes each is made, so a million flows are not
/// copied to be sorted.
#[derive(Clone)]
pub struct FlowResults<F> {
    records: Vec<FlowRecord<F>>,
    /// Places of the records of distinct keys, by key.
    order: Vec<u32>,
}

impl<F> std::fmt::Debug for FlowResults<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowResults")
            .field("records", &self.records.len())
            .field("keys", &self.order.len())
            .finish_non_exhaustive()
    }
}

impl<F: FlowState> FlowResults<F> {
    /// Puts records in order and merges those of one key, of which earlier ones must come first.
    pub(crate) fn new(mut records: Vec<FlowRecord<F>>) -> Self {
        let mut sorted: Vec<Sorted> =
            records.iter().zip(0..).map(|(record, place)| Sorted::new(&record.key, place)).collect();
        sorted.sort_unstable_by(|a, b| {
            a.prefix(b).unwrap_or_else(|| {
                let key = |place: u32| &records[place as usize].key;
                (key(a.place), a.place).cmp(&(key(b.place), b.place))
            })
        });
        let mut order: Vec<u32> = Vec::with_capacity(sorted.len());
        let mut latest: Option<Sorted> = None;
        for next in sorted {
            let place = next.place;
            // Records lie in no order: two are visited only where what is at hand does not tell them apart.
            let is_alike = !F::SEPARATE && latest.is_some_and(|latest| latest.prefix(&next).is_none());
            latest = Some(next);
            match order.last() {
                Some(&first) if is_alike && records[first as usize].key == records[place as usize].key => {
                    let later = std::mem::take(&mut records[place as usize].state);
                    records[first as usize].state.merge(later);
                }
                _ => order.push(place),
            }
        }
        Self { records, order }
    }
}

/// What decides nearly every comparison of two keys, beside the place of the record: whole keys lie far apart in memory.
#[derive(Clone, Copy, Debug)]
struct Sorted {
    first: u64,
    second: u64,
    family: IpFamily,
    place: u32,
}

impl Sorted {
    fn new(key: &FlowKey, place: u32) -> Self {
        let words = key.words();
        // In IPv4 keys the words between the addresses and the ports are empty.
        let second = match key.family() {
            IpFamily::V4 => words[4],
            IpFamily::V6 => words[1],
        };
        Self { first: words[0], second, family: key.family(), place }
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
}

impl<F: FlowState> FlowResults<F> {
    /// Returns the digest of all results, in the order of their keys.
    pub(crate) fn digest(&self) -> String {
        // Each record is read where it lies; then only sixteen bytes of each are visited in the order of keys.
        let mut values = Vec::with_capacity(F::COLUMNS.len());
        let parts: Vec<[u64; 2]> = self
            .records
            .iter()
            .map(|record| {
                values.clear();
                record.state.values(&mut values);
                ResultDigest::of_flow(&record.key, &values)
            })
            .collect();
        let mut digest = ResultDigest::default();
        for &place in &self.order {
            digest.add(parts[place as usize]);
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
        FlowResultsIter { records: &self.records, places: self.order.iter() }
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
    records: &'a [FlowRecord<F>],
    places: std::slice::Iter<'a, u32>,
}

impl<'a, F> Iterator for FlowResultsIter<'a, F> {
    type Item = &'a FlowRecord<F>;

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|&place| &self.records[place as usize])
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
            record(9, 5, 1),
            record(3, 5, 2),
            record(9, 5, 3),
            record(9, 4, 4),
            record(3, 5, 5),
            record(9, 5, 6),
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

//! The records of flows that a run has kept.

use std::cmp::Ordering;
use std::sync::OnceLock;

use flowloom_flow_key::{FlowKey, IpFamily};

use crate::app::FlowState;
use crate::report::digest::ResultDigest;

/// The reason why a record ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EndedBy {
    /// The flow had no packet for longer than the idle timeout.
    IdleTimeout,
    /// The application began another record of the same key
    /// ([`App::next_record`](crate::App::next_record)).
    Application,
    /// The full table needed its slot for a new flow, and the flow [was not
    /// established](crate::FlowState::is_established).
    Evicted,
    /// The input ended, or the run was stopped.
    #[default]
    EndOfInput,
}

/// The result of one flow over a span of time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlowRecord<F> {
    /// The key of the flow.
    pub key: FlowKey,
    /// The application's state of the flow.
    pub state: F,
    /// The reason why the record ended.
    pub ended: EndedBy,
}

impl<F> FlowRecord<F> {
    /// Returns a record.
    pub fn new(key: FlowKey, state: F, ended: EndedBy) -> Self {
        Self { key, state, ended }
    }
}

/// The records that a run has kept.
///
/// Records stay where the workers put them. [`iter`](Self::iter) visits them in the order of keys;
/// its first call sorts a few bytes of each record. [`unordered`](Self::unordered) does not sort.
#[derive(Clone)]
pub struct FlowResults<F> {
    /// The records of each table or part.
    chunks: Vec<Vec<FlowRecord<F>>>,
    /// Marks the records of each chunk that do not count. Empty if all count.
    removed: Vec<Vec<bool>>,
    len: usize,
    order: OnceLock<Vec<RecordPosition>>,
}

/// The position of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RecordPosition {
    pub(crate) chunk: u16,
    pub(crate) at: u32,
}

impl<F> std::fmt::Debug for FlowResults<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlowResults").field("records", &self.len).finish_non_exhaustive()
    }
}

impl<F> FlowResults<F> {
    /// Takes records. The records of one key are in order of time.
    pub(crate) fn new(chunks: Vec<Vec<FlowRecord<F>>>) -> Self {
        Self::without(chunks, Vec::new())
    }

    /// Takes records except those that `removed` marks, in one list for each chunk.
    pub(crate) fn without(chunks: Vec<Vec<FlowRecord<F>>>, removed: Vec<Vec<bool>>) -> Self {
        let all: usize = chunks.iter().map(Vec::len).sum();
        let gone: usize = removed.iter().flatten().filter(|&&gone| gone).count();
        Self { chunks, removed, len: all - gone, order: OnceLock::new() }
    }

    fn is_kept(&self, place: RecordPosition) -> bool {
        let removed = self.removed.get(usize::from(place.chunk));
        !removed.and_then(|removed| removed.get(place.at as usize)).copied().unwrap_or(false)
    }

    fn record(&self, place: RecordPosition) -> &FlowRecord<F> {
        &self.chunks[usize::from(place.chunk)][place.at as usize]
    }

    /// Returns the positions of all records in the order of keys, then in order of time.
    fn order(&self) -> &[RecordPosition] {
        self.order.get_or_init(|| {
            let mut sorted = Vec::with_capacity(self.len);
            for (records, chunk) in self.chunks.iter().zip(0..) {
                sorted.extend(Sorted::all(records, chunk).filter(|entry| self.is_kept(entry.place())));
            }
            sort(&mut sorted, |place| &self.record(place).key);
            sorted.iter().map(Sorted::place).collect()
        })
    }

    /// Returns the number of records.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no records.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the records in the order of their keys, then in order of time. The first call
    /// sorts.
    pub fn iter(&self) -> FlowResultsIter<'_, F> {
        FlowResultsIter { results: self, places: self.order().iter() }
    }

    /// Iterates over the records in no particular order.
    pub fn unordered(&self) -> impl Iterator<Item = &FlowRecord<F>> {
        self.chunks.iter().zip(0..).flat_map(move |(records, chunk)| {
            let kept = move |(_, at): &(_, u32)| self.is_kept(RecordPosition { chunk, at: *at });
            records.iter().zip(0..).filter(kept).map(|(record, _)| record)
        })
    }

    /// Returns the records themselves, in a list for each table or part. The records of one key are
    /// in one list, in order of time; otherwise the order is unspecified.
    pub(crate) fn into_lists(self) -> impl Iterator<Item = Vec<FlowRecord<F>>> {
        let mut removed = self.removed.into_iter();
        self.chunks.into_iter().map(move |mut records| {
            let mut removed = removed.next().unwrap_or_default().into_iter();
            records.retain(|_| !removed.next().unwrap_or(false));
            records
        })
    }

    /// Returns the records themselves. The records of one key are in order of time; otherwise the
    /// order is unspecified.
    pub fn into_records(self) -> impl Iterator<Item = FlowRecord<F>> {
        self.into_lists().flatten()
    }
}

/// Returns the digest of records.
pub(crate) fn digest_of<'a, F: FlowState>(
    records: impl IntoIterator<Item = &'a FlowRecord<F>>,
) -> ResultDigest {
    let (mut digest, mut values) = (ResultDigest::default(), Vec::with_capacity(F::COLUMNS.len()));
    for record in records {
        values.clear();
        record.state.values(&mut values);
        digest.add(ResultDigest::of_flow(&record.key, &values));
    }
    digest
}

/// Minimum number of records for which a further thread computes the digest.
const DIGEST_PARALLEL: usize = 16 << 10;

impl<F: FlowState> FlowResults<F> {
    /// Returns the digest of all records.
    pub(crate) fn digest(&self) -> ResultDigest {
        let of_chunk = |chunk: usize| {
            let removed = self.removed.get(chunk);
            let is_removed = |at: usize| removed.and_then(|removed| removed.get(at)) == Some(&true);
            let records = self.chunks[chunk].iter().enumerate();
            digest_of(records.filter(|(at, _)| !is_removed(*at)).map(|(_, record)| record))
        };
        let mut digest = ResultDigest::default();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for chunk in 0..self.chunks.len() {
                // If no further thread starts, this thread computes the digest.
                let is_large = self.chunks[chunk].len() >= DIGEST_PARALLEL;
                if is_large && chunk + 1 < self.chunks.len() && threads.len() + 1 < cpus {
                    let thread = std::thread::Builder::new().spawn_scoped(scope, move || of_chunk(chunk));
                    if let Ok(thread) = thread {
                        threads.push(thread);
                        continue;
                    }
                }
                digest.combine(of_chunk(chunk));
            }
            for thread in threads {
                match thread.join() {
                    Ok(of_chunk) => digest.combine(of_chunk),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        digest
    }
}

/// A prefix of a key, which decides nearly every comparison of two keys, and the record's position.
/// Whole keys are scattered in memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sorted {
    first: u64,
    second: u64,
    at: u32,
    chunk: u16,
    family: IpFamily,
}

impl Sorted {
    fn new(key: &FlowKey, place: RecordPosition) -> Self {
        let words = key.words();
        // IPv4 keys have zeros in the words between the addresses and the ports.
        let second = match key.family() {
            IpFamily::V4 => words[4],
            IpFamily::V6 => words[1],
        };
        let RecordPosition { chunk, at } = place;
        Self { first: words[0], second, at, chunk, family: key.family() }
    }

    /// Returns an entry for each record of a chunk, in the order of the records.
    pub(crate) fn all<F>(records: &[FlowRecord<F>], chunk: u16) -> impl Iterator<Item = Self> + use<'_, F> {
        records
            .iter()
            .zip(0..)
            .map(move |(record, at)| Self::new(&record.key, RecordPosition { chunk, at }))
    }

    pub(crate) fn set_place(&mut self, place: RecordPosition) {
        (self.chunk, self.at) = (place.chunk, place.at);
    }

    pub(crate) fn place(&self) -> RecordPosition {
        RecordPosition { chunk: self.chunk, at: self.at }
    }

    /// Compares the stored bytes of two keys. Returns `None` if they do not decide.
    fn prefix(&self, other: &Self) -> Option<Ordering> {
        let first = self.first.cmp(&other.first);
        if first != Ordering::Equal {
            return Some(first);
        }
        let second = self.second.cmp(&other.second);
        (self.family == other.family && second != Ordering::Equal).then_some(second)
    }

    /// Compares two keys.
    pub(crate) fn compare<'a>(
        &self,
        other: &Self,
        key: impl Fn(RecordPosition) -> &'a FlowKey,
    ) -> Ordering {
        self.prefix(other).unwrap_or_else(|| key(self.place()).cmp(key(other.place())))
    }
}

/// Sorts entries by key, then by position.
pub(crate) fn sort<'a>(sorted: &mut [Sorted], key: impl Fn(RecordPosition) -> &'a FlowKey) {
    sorted.sort_unstable_by(|a, b| a.compare(b, &key).then_with(|| a.place().cmp(&b.place())));
}

impl<'a, F> IntoIterator for &'a FlowResults<F> {
    type Item = &'a FlowRecord<F>;
    type IntoIter = FlowResultsIter<'a, F>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// An iterator over [`FlowResults`] in the order of keys.
#[derive(Clone, Debug)]
pub struct FlowResultsIter<'a, F> {
    results: &'a FlowResults<F>,
    places: std::slice::Iter<'a, RecordPosition>,
}

impl<'a, F> Iterator for FlowResultsIter<'a, F> {
    type Item = &'a FlowRecord<F>;

    fn next(&mut self) -> Option<Self::Item> {
        self.places.next().map(|&place| self.results.record(place))
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

    #[test]
    fn keys_rise_and_records_of_one_key_keep_their_order() {
        let record = |host: u32, port: u16, mark: u32| {
            FlowRecord::new(FlowKey::from_v4(1, host, 1, port, 6).0, mark, EndedBy::EndOfInput)
        };
        let chunks = vec![
            vec![record(9, 5, 1), record(3, 5, 2), record(9, 5, 3)],
            vec![],
            vec![record(9, 4, 4), record(3, 5, 5), record(9, 5, 6), record(9, 5, 7)],
        ];
        let removed = vec![vec![], vec![], vec![false, false, true]];
        let results = FlowResults::without(chunks, removed);
        assert_eq!(results.len(), 6);
        let keys: Vec<FlowKey> = results.iter().map(|record| record.key).collect();
        assert!(keys.is_sorted());
        let marks: Vec<u32> = results.iter().map(|record| record.state).collect();
        assert_eq!(marks, [2, 5, 4, 1, 3, 7]);
        assert_eq!(results.iter().len(), results.len());
        let mut unordered: Vec<u32> = results.unordered().map(|record| record.state).collect();
        assert_eq!(unordered, results.into_records().map(|record| record.state).collect::<Vec<_>>());
        unordered.sort_unstable();
        assert_eq!(unordered, [1, 2, 3, 4, 5, 7]);
    }
}

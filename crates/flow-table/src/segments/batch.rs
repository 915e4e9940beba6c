//! Batches over segments: the newest segment answers first, and older segments are asked for
//! missing keys.

use super::{Growing, Segment};
use crate::table::{FlowId, FlowTable, TableKey};
use flowloom_flow_key::TableHash;

/// Number of keys per round of lookups in older segments.
const RETRY: usize = 32;

impl<K: TableKey, V, T: FlowTable<K, V>> Growing<K, V, T> {
    /// Returns the newest segment and the older ones that contain flows.
    #[inline]
    pub(super) fn holding(&self) -> impl Iterator<Item = &Segment<T>> {
        core::iter::once(&self.newest).chain(self.older())
    }

    /// Completes a lookup of many keys: converts ids of the newest segment, and looks up the rest
    /// in older ones.
    #[inline]
    pub(super) fn end_batch(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: &mut impl FnMut(usize, &V),
    ) {
        let newest = &self.newest;
        if !newest.names.are_own() {
            for id in ids.iter_mut() {
                *id = id.map(|id| newest.names.outer(id));
            }
        }
        if !self.older.is_empty() {
            self.retry(keys, hashes, ids, on_flow);
        }
    }

    /// Looks up the missing keys of a batch in older segments.
    #[cold]
    fn retry(
        &self,
        keys: &[K],
        hashes: &[TableHash],
        ids: &mut [Option<FlowId>],
        on_flow: &mut dyn FnMut(usize, &V),
    ) {
        let Some(&any) = keys.first() else { return };
        for segment in self.older() {
            let mut from = 0;
            while from < ids.len() {
                let (mut places, mut some_keys) = ([0; RETRY], [any; RETRY]);
                let (mut some_hashes, mut some_ids) = ([TableHash::default(); RETRY], [None; RETRY]);
                let mut count = 0;
                while from < ids.len() && count < RETRY {
                    if ids[from].is_none() {
                        (places[count], some_keys[count], some_hashes[count]) =
                            (from, keys[from], hashes[from]);
                        count += 1;
                    }
                    from += 1;
                }
                segment.table.lookup_batch_values(
                    &some_keys[..count],
                    &some_hashes[..count],
                    &mut some_ids[..count],
                    |number, value| on_flow(places[number], value),
                );
                for (&place, id) in places[..count].iter().zip(some_ids) {
                    ids[place] = id.map(|id| segment.names.outer(id));
                }
            }
        }
    }
}

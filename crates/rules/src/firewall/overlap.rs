//! Finds the entries that may share packets with another entry, without comparing it with each of
//! them.
//!
//! Each of five fields is divided into buckets. A bucket has a bit for each entry whose values
//! extend into it. The entries that may meet some values have, in every field, a bit in one of the
//! buckets of these values. A lookup therefore costs a few words per 64 entries.

use alloc::vec;
use alloc::vec::Vec;

use super::region::{DESTINATION, DESTINATION_PORT, PROTOCOL, Region, SOURCE, SOURCE_PORT};

/// Fields that are indexed.
const FIELDS: [usize; 5] = [SOURCE, DESTINATION, DESTINATION_PORT, SOURCE_PORT, PROTOCOL];

/// Maximum number of buckets per field.
const BUCKETS_MAX: usize = 256;

/// The lowest and highest value of each indexed field in some regions.
type Hull = [(u128, u128); FIELDS.len()];

fn hull(regions: &[Region]) -> Option<Hull> {
    let intervals = |region: &Region| FIELDS.map(|field| region.intervals[field]);
    let (first, rest) = regions.split_first()?;
    Some(rest.iter().map(intervals).fold(intervals(first), |all, one| {
        core::array::from_fn(|field| (all[field].0.min(one[field].0), all[field].1.max(one[field].1)))
    }))
}

/// An index of entries by the values of their fields.
#[derive(Debug)]
pub(super) struct OverlapIndex {
    fields: Vec<Buckets>,
    /// Number of words, for 64 entries each.
    words: usize,
}

/// The buckets of one field.
#[derive(Debug)]
struct Buckets {
    /// First value of each bucket, in ascending order; that of the first is 0.
    starts: Vec<u128>,
    /// A bit per entry, bucket by bucket.
    bits: Vec<u64>,
}

impl Buckets {
    fn range(&self, (low, high): (u128, u128)) -> core::ops::RangeInclusive<usize> {
        let bucket = |value: u128| self.starts.partition_point(|&start| start <= value) - 1;
        bucket(low)..=bucket(high)
    }
}

impl OverlapIndex {
    /// Returns the index of entries in their order. An entry without regions meets nothing.
    pub(super) fn new<'a>(entries: impl Iterator<Item = &'a [Region]>) -> Self {
        let hulls: Vec<Option<Hull>> = entries.map(hull).collect();
        let words = hulls.len().div_ceil(64);
        let fields = (0..FIELDS.len())
            .map(|field| {
                let mut ends: Vec<u128> = hulls
                    .iter()
                    .flatten()
                    .flat_map(|hull| [hull[field].0, hull[field].1.saturating_add(1)])
                    .collect();
                ends.sort_unstable();
                ends.dedup();
                let step = ends.len().div_ceil(BUCKETS_MAX - 1).max(1);
                let mut starts = vec![0];
                starts.extend(ends.into_iter().step_by(step).filter(|&end| end > 0));
                let mut buckets = Buckets { bits: vec![0; starts.len() * words], starts };
                for (entry, hull) in hulls.iter().enumerate() {
                    let Some(hull) = hull else { continue };
                    for bucket in buckets.range(hull[field]) {
                        buckets.bits[bucket * words + entry / 64] |= 1 << (entry % 64);
                    }
                }
                buckets
            })
            .collect();
        Self { fields, words }
    }

    /// Returns the entries that may share a packet with one of these regions, in ascending order.
    /// It omits no entry that does.
    pub(super) fn near(&self, regions: &[Region]) -> Vec<usize> {
        let Some(hull) = hull(regions) else { return Vec::new() };
        let mut all = vec![u64::MAX; self.words];
        for (buckets, &values) in self.fields.iter().zip(&hull) {
            let range = buckets.range(values);
            if *range.start() == 0 && *range.end() + 1 == buckets.starts.len() {
                continue;
            }
            let mut some = vec![0_u64; self.words];
            for bucket in range {
                let bits = &buckets.bits[bucket * self.words..(bucket + 1) * self.words];
                for (word, bits) in some.iter_mut().zip(bits) {
                    *word |= bits;
                }
            }
            for (word, some) in all.iter_mut().zip(&some) {
                *word &= some;
            }
        }
        let entries = all.iter().enumerate().flat_map(|(index, &word)| {
            core::iter::successors((word != 0).then_some(word), |word| {
                let rest = word & (word - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |word| index * 64 + word.trailing_zeros() as usize)
        });
        entries.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::firewall::region::Names;
    use flowloom_classifier::random::Random;

    #[test]
    fn overlap_search_finds_every_overlapping_entry() {
        let names = Names::default();
        let mut random = Random::new(5);
        let mut draw = |end: u64| u128::from(random.below(end));
        let mut regions = || {
            let mut region = Region::all(false, &names);
            for field in [SOURCE, DESTINATION_PORT, PROTOCOL] {
                let low = draw(200);
                region.intervals[field] = (low, low + draw(40));
            }
            vec![region]
        };
        let entries: Vec<Vec<Region>> = (0..700).map(|_| regions()).collect();
        let index = OverlapIndex::new(entries.iter().map(Vec::as_slice));
        let mut listed = 0;
        for one in &entries {
            let near = index.near(one);
            assert!(near.is_sorted());
            listed += near.len();
            for (other, regions) in entries.iter().enumerate() {
                assert!(near.contains(&other) || !one[0].meets(&regions[0]), "{other}");
            }
        }
        assert!(listed < entries.len() * entries.len() / 4, "the index leaves out most: {listed}");
        assert!(index.near(&[]).is_empty());
    }
}

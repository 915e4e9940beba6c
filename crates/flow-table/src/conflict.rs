//! Conflict lists for flows whose bucket is full, and the pool of states for these flows.
//!
//! ```text
//!  listed    │ 1 bit per bucket: does it have a list?        12.5 KB for 100,000 buckets
//!  heads     │ u32 per bucket: first element
//!  elements  │ signature │ next │ bucket │ 0 │  per pool state, 16 bytes
//! ```
//!
//! Element p belongs to state 16·N + p, so like a slot of a bucket it stores no state index. A flow
//! stays in its list when slots of its bucket become free (nothing moves), so an empty slot does
//! not tell whether there is a list. A bit per bucket tells, so a miss needs no other line: the
//! bits of a million flows fit the first-level cache, unlike list heads (0.4 MB).
//!
//! The length of a list has a cap. A flood of keys that fall into one bucket then costs each of its
//! neighbours a bounded walk, and the table refuses further keys.
//!
//! Paper: [DHASH §III-A, §III-D]. Unlike the paper, which states no bound for a list, this one has
//! a cap, because an attacker could exploit unbounded lists.

use flowloom_cpu::pages::{AllocError, HugePages, LineArray};

use crate::table::{FullReason, TableStats};

/// Words of an element.
const SIGNATURE: usize = 0;
/// The next element in the list, or in the chain of free elements: its number plus one.
const NEXT: usize = 1;

/// The lists of all buckets.
#[derive(Debug)]
pub(crate) struct ConflictLists {
    listed: LineArray<u64>,
    heads: LineArray<u32>,
    elements: LineArray<[u32; 4]>,
    pool: u32,
    /// Elements below this number were used at least once.
    fresh: u32,
    /// The first freed element plus one.
    free: u32,
    used: u32,
    length_cap: u32,
    length_max: u32,
}

impl ConflictLists {
    /// Returns the bytes that lists for this many buckets and pool states take.
    #[must_use]
    pub(crate) const fn bytes_needed(buckets: u64, pool: u64) -> u64 {
        buckets.div_ceil(64) * 8 + buckets * 4 + pool * 16
    }

    /// Returns empty lists.
    ///
    /// # Errors
    ///
    /// Returns [`AllocError`] if the allocator refuses the memory.
    pub(crate) fn try_new(buckets: u32, pool: u32, length_cap: u32) -> Result<Self, AllocError> {
        Ok(Self {
            listed: LineArray::try_new(buckets.div_ceil(64) as usize, HugePages::No)?,
            heads: LineArray::try_new(buckets as usize, HugePages::No)?,
            elements: LineArray::try_new(pool as usize, HugePages::No)?,
            pool,
            fresh: 0,
            free: 0,
            used: 0,
            length_cap,
            length_max: 0,
        })
    }

    /// Makes all lists resident.
    pub(crate) fn prefault(&mut self) {
        self.listed.prefault();
        self.heads.prefault();
        self.elements.prefault();
    }

    /// Returns whether a bucket has a list.
    #[inline(always)]
    pub(crate) fn is_listed(&self, bucket: u32) -> bool {
        self.listed[bucket as usize / 64] >> (bucket % 64) & 1 == 1
    }

    /// Returns the elements of a bucket's list: pool state and signature.
    pub(crate) fn list(&self, bucket: u32) -> impl Iterator<Item = (u32, u32)> {
        let mut next = if self.is_listed(bucket) { self.heads[bucket as usize] } else { 0 };
        core::iter::from_fn(move || {
            let number = next.checked_sub(1)?;
            let element = &self.elements[number as usize];
            next = element[NEXT];
            Some((number, element[SIGNATURE]))
        })
    }

    /// Returns the pool state that the next flow of a bucket would get.
    ///
    /// # Errors
    ///
    /// Returns [`FullReason::ListCap`] or [`FullReason::PoolExhausted`].
    pub(crate) fn vacancy(&self, bucket: u32) -> Result<u32, FullReason> {
        if self.list(bucket).count() >= self.length_cap as usize {
            return Err(FullReason::ListCap);
        }
        match self.free.checked_sub(1) {
            Some(number) => Ok(number),
            None if self.fresh < self.pool => Ok(self.fresh),
            None => Err(FullReason::PoolExhausted),
        }
    }

    /// Links the pool state that [`ConflictLists::vacancy`] just returned.
    pub(crate) fn link(&mut self, number: u32, bucket: u32, signature: u32) {
        if self.free == number + 1 {
            self.free = self.elements[number as usize][NEXT];
        } else {
            self.fresh = number + 1;
        }
        let next = if self.is_listed(bucket) { self.heads[bucket as usize] } else { 0 };
        self.elements[number as usize] = [signature, next, bucket, 0];
        self.heads[bucket as usize] = number + 1;
        self.listed[bucket as usize / 64] |= 1 << (bucket % 64);
        self.used += 1;
        let length = self.list(bucket).count();
        self.length_max = self.length_max.max(u32::try_from(length).unwrap_or(u32::MAX));
    }

    /// Unlinks a pool state and returns it to the pool. It walks the list, which has a cap.
    pub(crate) fn unlink(&mut self, number: u32) {
        let [_, next, bucket, _] = self.elements[number as usize];
        let before =
            self.list(bucket).find(|&(other, _)| self.elements[other as usize][NEXT] == number + 1);
        if let Some((before, _)) = before {
            self.elements[before as usize][NEXT] = next;
        } else {
            self.heads[bucket as usize] = next;
            if next == 0 {
                self.listed[bucket as usize / 64] &= !(1 << (bucket % 64));
            }
        }
        self.elements[number as usize][NEXT] = self.free;
        self.free = number + 1;
        self.used -= 1;
    }

    /// Adds the counters of the lists and the pool.
    pub(crate) fn complete_stats(&self, stats: &mut TableStats) {
        stats.displaced += self.used;
        stats.stashed = self.used;
        stats.list_length_max = self.length_max;
        stats.pool_size = self.pool;
    }

    /// Returns the bytes of lists and pool elements.
    pub(crate) fn bytes(&self) -> u64 {
        self.listed.pages().bytes + self.heads.pages().bytes + self.elements.pages().bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn add(lists: &mut ConflictLists, bucket: u32, signature: u32) -> Result<u32, FullReason> {
        let number = lists.vacancy(bucket)?;
        lists.link(number, bucket, signature);
        Ok(number)
    }

    #[test]
    fn elements_can_be_removed_from_anywhere_and_reused() {
        let mut lists = ConflictLists::try_new(70, 3, 16).unwrap();
        for signature in [10, 11, 12] {
            add(&mut lists, 69, signature).unwrap();
        }
        assert_eq!(add(&mut lists, 1, 13), Err(FullReason::PoolExhausted));
        assert_eq!(lists.list(69).collect::<Vec<_>>(), [(2, 12), (1, 11), (0, 10)]);
        lists.unlink(1);
        lists.unlink(2);
        assert_eq!(lists.list(69).collect::<Vec<_>>(), [(0, 10)]);
        assert_eq!(add(&mut lists, 1, 13), Ok(2));
        lists.unlink(0);
        assert!(!lists.is_listed(69) && lists.is_listed(1));
        assert_eq!((lists.used, lists.length_max, lists.pool), (1, 3, 3));
    }

    #[test]
    fn list_length_is_limited() {
        let mut lists = ConflictLists::try_new(2, 100, 2).unwrap();
        add(&mut lists, 0, 1).unwrap();
        add(&mut lists, 0, 1).unwrap();
        assert_eq!(add(&mut lists, 0, 1), Err(FullReason::ListCap));
        assert_eq!(add(&mut lists, 1, 1), Ok(2));
    }
}

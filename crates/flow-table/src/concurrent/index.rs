//! One index of a shard: lines of signatures and links.
//!
//! ```text
//!  line    control u64:  │ s0 │ s1 │ s2 │ s3 │ s4 │ s5 │ s6 │ passed │   a byte each, 0: empty
//!          links:          7 pointers to nodes
//! ```
//!
//! A search starts in the home line of a key. It continues in the following lines as long as a line
//! says that an entry *passed* it because it was full. One load of the control word decides for a
//! whole line. Entries do not move within an index. A reader therefore misses a key only if the key
//! was absent at some moment during the search.
//!
//! Only the owner of the shard's lock writes. It stores a link before its signature, and clears a
//! signature before its link.

use crossbeam_epoch::Guard;
use flowloom_cpu::prefetch;
use flowloom_flow_key::TableHash;

use super::link::{Link, Published};
use super::node::Node;
use super::steps;
use super::sync::{AtomicU64, Ordering, load_own};
use crate::error::BuildError;

/// Number of entries in a line.
pub(super) const LANES: usize = 7;

/// Shift of the control word's byte that counts entries which passed the line.
const PASSED_SHIFT: u32 = 56;

/// The lowest bit of each byte, and the highest bit of each lane's byte.
const LOW_BITS: u64 = 0x0101_0101_0101_0101;
const LANE_BITS: u64 = 0x0080_8080_8080_8080;

/// A saturated count, which no longer changes.
const MANY: u64 = 0xFF;

/// Seven entries.
#[repr(C, align(64))]
pub(super) struct Line<K, V> {
    control: AtomicU64,
    links: [Link<Node<K, V>>; LANES],
}

impl<K, V> Line<K, V> {
    fn new() -> Self {
        Self { control: AtomicU64::new(0), links: core::array::from_fn(|_| Link::empty()) }
    }

    /// Returns the control word, for the lock's owner.
    fn own_control(&self) -> u64 {
        load_own(&self.control)
    }

    /// Adds one to the entries that passed the line, or subtracts one; a saturated count stays.
    fn count_passed(&self, is_one_more: bool) {
        let control = self.own_control();
        let passed = control >> PASSED_SHIFT;
        if passed == MANY {
            return;
        }
        let passed = if is_one_more { passed + 1 } else { passed.saturating_sub(1) };
        let lanes = control & !(MANY << PASSED_SHIFT);
        self.control.store(lanes | passed << PASSED_SHIFT, Ordering::Release);
    }
}

/// Returns a bit in the byte of each lane with this signature, and possibly in that of a lane above
/// one.
#[inline(always)]
fn lanes_with(control: u64, signature: u8) -> u64 {
    let differing = control ^ u64::from(signature).wrapping_mul(LOW_BITS);
    differing.wrapping_sub(LOW_BITS) & !differing & LANE_BITS
}

/// Returns whether a lane has no entry.
fn is_empty(control: u64, lane: usize) -> bool {
    control.to_le_bytes()[lane] == 0
}

/// Returns the signature of a hash, which is never 0.
#[inline(always)]
fn signature_of(hash: TableHash) -> u8 {
    hash.bits().to_le_bytes()[0].max(1)
}

/// The position of an entry.
pub(super) struct Found<'g, K, V> {
    line: usize,
    lane: usize,
    pub(super) node: &'g Node<K, V>,
}

/// A free entry, and the number of full lines before it.
pub(super) struct Vacancy {
    line: usize,
    lane: usize,
    passed: usize,
}

/// An index of a shard.
pub(super) struct Index<K, V> {
    lines: Box<[Line<K, V>]>,
    /// The index to which entries move, if any; an entry that is missing here may be there.
    pub(super) next: Link<Index<K, V>>,
}

impl<K, V> Index<K, V> {
    /// Returns an empty index.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError::OutOfMemory`] if the allocator refuses the memory.
    pub(super) fn try_new(count: usize) -> Result<Self, BuildError> {
        let (count, mut lines) = (count.max(1), Vec::new());
        let bytes = count.saturating_mul(size_of::<Line<K, V>>()) as u64;
        lines.try_reserve_exact(count).map_err(|_| BuildError::OutOfMemory { bytes })?;
        steps::make(count);
        lines.resize_with(count, Line::new);
        Ok(Self { lines: lines.into_boxed_slice(), next: Link::empty() })
    }

    pub(super) fn line_count(&self) -> usize {
        self.lines.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        size_of_val(&*self.lines) as u64
    }

    #[inline(always)]
    fn home(&self, hash: TableHash) -> usize {
        #[expect(clippy::cast_possible_truncation, reason = "a shard has far fewer lines")]
        let count = self.lines.len() as u32;
        hash.bucket(count) as usize
    }

    #[inline(always)]
    fn behind(&self, line: usize) -> usize {
        if line + 1 == self.lines.len() { 0 } else { line + 1 }
    }

    /// Hints that a hash will be looked up.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: TableHash) {
        prefetch::read_at(&self.lines, self.home(hash));
    }

    /// Returns the node that most likely belongs to a hash, from a line that has arrived, and
    /// prefetches it.
    #[inline(always)]
    pub(super) fn favourite<'g>(&self, hash: TableHash, guard: &'g Guard) -> Option<&'g Node<K, V>> {
        let line = &self.lines[self.home(hash)];
        let matching = lanes_with(line.control.load(Ordering::Acquire), signature_of(hash));
        if matching == 0 {
            return None;
        }
        let node = line.links[matching.trailing_zeros() as usize / 8].load(guard)?;
        // A node starts at any multiple of 16 bytes, and its key may extend into a second line.
        prefetch::read(node);
        prefetch::read((&raw const node.key).wrapping_add(1));
        Some(node)
    }

    /// Returns the entry of a hash whose node is the wanted one. `OWNER` states whether the caller
    /// holds the lock.
    #[inline(always)]
    pub(super) fn find<'g, const OWNER: bool>(
        &self,
        hash: TableHash,
        guard: &'g Guard,
        is_wanted: impl Fn(&Node<K, V>) -> bool,
    ) -> Option<Found<'g, K, V>> {
        let mut line = self.home(hash);
        for _ in 0..self.lines.len() {
            steps::touch(1);
            let here = &self.lines[line];
            let control = if OWNER { here.own_control() } else { here.control.load(Ordering::Acquire) };
            let mut matching = lanes_with(control, signature_of(hash));
            while matching != 0 {
                let lane = matching.trailing_zeros() as usize / 8;
                let link = &here.links[lane];
                let node = if OWNER { link.load_own(guard) } else { link.load(guard) };
                if let Some(node) = node
                    && is_wanted(node)
                {
                    return Some(Found { line, lane, node });
                }
                matching &= matching - 1;
            }
            if control >> PASSED_SHIFT == 0 {
                return None;
            }
            line = self.behind(line);
        }
        None
    }

    /// Returns the first free entry for a hash, if there is any.
    #[inline]
    pub(super) fn vacancy(&self, hash: TableHash) -> Option<Vacancy> {
        let mut line = self.home(hash);
        for passed in 0..self.lines.len() {
            let control = self.lines[line].own_control();
            steps::touch(1);
            let empty = lanes_with(control, 0);
            if empty != 0 {
                let lane = empty.trailing_zeros() as usize / 8;
                return Some(Vacancy { line, lane, passed });
            }
            line = self.behind(line);
        }
        None
    }

    /// Inserts a node into a free entry for its hash.
    #[inline]
    pub(super) fn enter(&self, vacancy: &Vacancy, node: Published<Node<K, V>>, hash: TableHash) {
        let Vacancy { line, lane, passed } = *vacancy;
        steps::touch(passed);
        // Readers must know that they have to search further before the entry becomes visible.
        let mut before = self.home(hash);
        for _ in 0..passed {
            self.lines[before].count_passed(true);
            before = self.behind(before);
        }
        let here = &self.lines[line];
        let control = here.own_control() | u64::from(signature_of(hash)) << (8 * lane);
        here.links[lane].set(Some(node));
        here.control.store(control, Ordering::Release);
    }

    /// Returns the pointer to the node of an entry.
    pub(super) fn published_at(&self, found: &Found<'_, K, V>) -> Option<Published<Node<K, V>>> {
        self.lines[found.line].links[found.lane].published()
    }

    /// Replaces the node of an entry with one of the same hash; returns the previous one.
    pub(super) fn replace(
        &self,
        found: &Found<'_, K, V>,
        node: Published<Node<K, V>>,
    ) -> Option<Published<Node<K, V>>> {
        let link = &self.lines[found.line].links[found.lane];
        let before = link.published();
        link.set(Some(node));
        before
    }

    /// Removes an entry and returns its node.
    pub(super) fn leave(&self, found: &Found<'_, K, V>, hash: TableHash) -> Option<Published<Node<K, V>>> {
        let here = &self.lines[found.line];
        steps::touch(1);
        let node = here.links[found.lane].published();
        here.control.store(here.own_control() & !(0xFF << (8 * found.lane)), Ordering::Release);
        here.links[found.lane].set(None);
        let mut before = self.home(hash);
        while before != found.line {
            steps::touch(1);
            self.lines[before].count_passed(false);
            before = self.behind(before);
        }
        node
    }

    /// Returns a copy of the entries of a line, which later changes do not affect.
    pub(super) fn entries_of<'g>(&self, line: usize, guard: &'g Guard) -> [Option<Found<'g, K, V>>; LANES] {
        steps::touch(1);
        let here = self.lines.get(line);
        core::array::from_fn(|lane| {
            let here = here?;
            if is_empty(here.own_control(), lane) {
                return None;
            }
            Some(Found { line, lane, node: here.links[lane].load_own(guard)? })
        })
    }

    /// Returns all nodes; the caller must own a table without readers.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Published<Node<K, V>>> {
        self.lines.iter().flat_map(|line| line.links.iter().filter_map(Link::published))
    }
}

#[cfg(not(loom))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_cache_line() {
        assert_eq!(size_of::<Line<u64, u64>>(), 64);
    }

    #[test]
    fn lanes_are_found_by_their_byte() {
        let control = u64::from_le_bytes([3, 0, 7, 3, 255, 1, 2, 3]);
        let lanes = |signature| {
            let found = lanes_with(control, signature);
            (0..8).filter(|lane| found >> (8 * lane) & 0x80 != 0).collect::<Vec<_>>()
        };
        assert_eq!((lanes(3), lanes(7), lanes(255), lanes(9)), (vec![0, 3], vec![2], vec![4], vec![]));
        assert_eq!([0, 0x4_00, 0x1_FF].map(|bits| signature_of(TableHash::from_mixed(bits))), [1, 1, 255]);
    }
}

//! The figures of a tree, and of a lookup in it.

use super::Stride;

/// The words that a lookup read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Accesses(
    /// Words of the pointer arrays. The root's word is not included: it is a constant of the
    /// program.
    pub u32,
);

/// The shape of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Shape {
    /// Number of cuts on the longest path, which is the maximum number of words that a lookup
    /// reads.
    pub depth: u32,
    /// Number of nodes written; nodes that share storage count once.
    pub nodes: u64,
    /// Number of distinct children of all these nodes together.
    pub distinct_children: u64,
    /// Number of sub-arrays stored, out of eight per node.
    pub sub_arrays: u64,
}

/// The size of the pointers of all nodes in three forms [FLOWNP §3.3].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointerForms {
    /// Plain arrays of 2ʷ words.
    pub plain_bytes: u64,
    /// A string with a bit for each pointer that differs from the previous one, and those pointers.
    pub abs_bytes: u64,
    /// A string of eight bits in the node's word, and the sub-arrays that differ.
    pub habs_bytes: u64,
}

impl PointerForms {
    pub(super) fn add(&mut self, w: u32, changes: usize, habs_words: usize) {
        self.plain_bytes += 4 << w;
        self.abs_bytes += (1 << w) / 8 + 4 * changes as u64;
        self.habs_bytes += 4 * habs_words as u64;
    }

    /// Returns the number of words that a lookup with this many cuts reads with plain strings of
    /// differences: the string and the pointer of each cut. A lookup with plain arrays reads one
    /// word per cut.
    pub const fn abs_words(stride: Stride, depth: u32) -> u32 {
        depth * (1_u32 << stride.bits()).div_ceil(32) + depth
    }
}

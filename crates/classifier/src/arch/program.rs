//! The two arrays that a lookup walks, and the check that makes walking them safe.
//!
//! ```text
//! node  63‥58  57‥55  54‥51   50    49‥48  47‥32   31‥0
//!       shift  word   u       0     0      HABS    index of the first sub-array
//! leaf  63‥51          50    49‥32           31‥0
//!       0              1     blocks, ≥ 1     first block
//! ```
//!
//! A node cuts `u + 4` bits of a word of the key, from bit `shift` on, into 16 sub-arrays of 2ᵘ
//! children each. Bit m of HABS says that sub-array m differs from the previous one; equal ones are
//! stored once [FLOWNP §3.3]. Unlike the paper, the string has sixteen bits and bit 0 stays clear,
//! so that the population count directly gives the number of the sub-array.
//!
//! A leaf without blocks has no rules. The upper bits of a leaf contain its least rule's id without
//! enough low bits that the greatest id fits. A packet with a better match need not search the
//! leaf. [`Program::new`] overwrites them.
//!
//! A block contains eight rules, with one row per value to compare:
//!
//! ```text
//! v4   source | destination | lengths | ports low | ports high | rule
//! v6   four rows of each address, then the same
//!      lengths: bits 7‥0 host bits of the source, 15‥8 of the destination, 23‥16 protocol,
//!               31‥24 its mask
//!      ports: the source's in the upper half
//! ```
//!
//! Lanes without a rule come last and have the rule `u32::MAX`. Such a lane can match (a key of
//! zeros), and then means "no match", which is correct because no rule follows it.

use alloc::vec::Vec;
use core::marker::PhantomData;

use flowloom_cpu::pages::{AllocError, HugePages, LineArray};
use flowloom_cpu::prefetch;

use crate::key::Key;

/// The bit that distinguishes a leaf from a node.
pub(crate) const LEAF: u64 = 1 << 50;
/// The lowest bit of a leaf's least rule.
pub(crate) const LEAF_TOP: u32 = 51;
/// The bits of a leaf that name its blocks.
pub(crate) const LEAF_BLOCKS: u64 = 0x3_ffff << 32;
/// The bits of a node that are clear: the string's bit that would count as a sub-array before the
/// first, and two unused bits.
const NODE_CLEAR: u64 = 1 << 32 | 3 << 48;
/// Maximum number of bits that a node cuts.
const WIDTH_MAX: u32 = 16;

/// Returns a node's word. `width` is 4 to 16; bit 0 of `habs` is ignored.
pub(crate) fn node_word(word: usize, shift: u32, width: u32, habs: u16, index: u32) -> u64 {
    debug_assert!((4..=WIDTH_MAX).contains(&width) && shift < 64 && word < 5);
    u64::from(shift) << 58
        | (word as u64) << 55
        | u64::from(width - 4) << 51
        | u64::from(habs & !1) << 32
        | u64::from(index)
}

/// Returns a leaf's word.
pub(crate) fn leaf_word(first: u32, count: u32) -> u64 {
    debug_assert!(count < 1 << 18);
    LEAF | u64::from(count) << 32 | u64::from(first)
}

/// Returns the first block of a leaf, and the number of its blocks.
#[inline(always)]
pub(crate) fn leaf_blocks(leaf: u64) -> (usize, usize) {
    (leaf as u32 as usize, (leaf >> 32) as usize & 0x3_ffff)
}

/// Returns a word without the bits that [`Program::new`] wrote into it.
fn plain(word: u64) -> u64 {
    if word & LEAF != 0 { word & ((1 << LEAF_TOP) - 1) } else { word }
}

/// Returns the index of the program word to which a node sends a key; `field` is the key's word
/// that the node names.
#[inline(always)]
pub(crate) fn child_index(node: u64, field: u64) -> usize {
    let cut = field >> (node >> 58);
    let u = (node >> 51) as u32 & 15;
    let sub_array = (cut >> u) & 15;
    let before = ((node & 0xffff_0000_0000) << (31 ^ sub_array)).count_ones();
    node as u32 as usize + ((before as usize) << u) + (cut & ((1 << u) - 1)) as usize
}

/// Returns the first child of a node, and the number of stored children.
pub(crate) fn children(node: u64) -> (usize, usize) {
    let stored = (node & 0xfffe_0000_0000).count_ones() as usize + 1;
    (node as u32 as usize, stored << ((node >> 51) & 15))
}

/// Returns whether `count` elements from `first` on end at or before `end`; their sum may overflow
/// on a 32-bit machine.
fn is_within(first: usize, count: usize, end: usize) -> bool {
    first <= end && count <= end - first
}

/// Arrays up to this size, in bytes, stay in a near cache, where a prefetch costs more than it
/// gains.
const NEAR_BYTES: usize = 256 << 10;

/// Maximum number of trees in a program: plans split rules into four, and linear search of the
/// largest set takes nine.
pub(crate) const TREES_MAX: usize = 12;

/// A tree of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tree {
    /// Its root's word.
    pub(crate) root: u64,
    /// The least rule in it: a packet with a better match need not enter the tree.
    pub(crate) least: u32,
}

/// The most that a lookup can read in one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Worst {
    /// Nodes on the longest path.
    pub(crate) nodes: u32,
    /// Blocks of the longest leaf.
    pub(crate) blocks: u32,
    /// 64-bit words on the most expensive path: nodes, and the blocks at its end.
    pub(crate) words: u32,
}

/// Two arrays that do not form a valid program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FaultyProgram {
    /// A word points outside, or not towards the beginning.
    Word {
        /// Its position; roots are counted from the end of the words.
        position: usize,
    },
    /// The rows are not whole blocks, or there are too many.
    Rows,
    /// There are more trees than any plan makes.
    Trees,
    /// The allocator has no memory.
    OutOfMemory {
        /// Bytes that could not be allocated.
        bytes: u64,
    },
}

impl From<AllocError> for FaultyProgram {
    fn from(error: AllocError) -> Self {
        Self::OutOfMemory { bytes: error.bytes }
    }
}

/// Trees that are safe to walk with any key. Only [`Program::new`] creates one.
#[derive(Debug)]
pub struct Program<K: Key> {
    words: LineArray<u64>,
    rows: LineArray<[u32; 8]>,
    trees: Vec<Tree>,
    roots: Vec<Root>,
    worst: Vec<Worst>,
    /// Whether to prefetch blocks; blocks in a near cache are not worth it.
    hints: bool,
    /// Number of low bits of a rule's id that leaves omit.
    least_shift: u32,
    family: PhantomData<K>,
}

impl<K: Key> Program<K> {
    /// Rows of a block.
    pub(crate) const BLOCK_ROWS: usize = 2 * K::ADDRESS_DIMENSIONS + 4;

    /// Checks the arrays, and copies them to separate cache lines.
    ///
    /// The check proves that every child of every node precedes the node, and is therefore inside
    /// the array and on no cycle; that every leaf's blocks exist; and that no node cuts beyond its
    /// key. It also finds the worst case. O(words · log words).
    pub(crate) fn new(
        words: &[u64],
        rows: &[[u32; 8]],
        mut trees: Vec<Tree>,
        huge: HugePages,
    ) -> Result<Self, FaultyProgram> {
        if !rows.len().is_multiple_of(Self::BLOCK_ROWS) || u32::try_from(rows.len()).is_err() {
            return Err(FaultyProgram::Rows);
        }
        if trees.len() > TREES_MAX {
            return Err(FaultyProgram::Trees);
        }
        let blocks = rows.len() / Self::BLOCK_ROWS;
        let mut costs = Maxima::new(words.len());
        let mut worst = Vec::with_capacity(trees.len());
        for (position, &word) in words.iter().chain(trees.iter().map(|tree| &tree.root)).enumerate() {
            let end = position.min(words.len());
            let found = if word & LEAF != 0 {
                let (first, count) = leaf_blocks(word);
                if !is_within(first, count, blocks) {
                    return Err(FaultyProgram::Word { position });
                }
                let count = count as u32;
                Worst { nodes: 0, blocks: count, words: count.saturating_mul(Self::BLOCK_ROWS as u32 * 4) }
            } else {
                let (first, count) = children(word);
                let (key_word, shift) = ((word >> 55) as usize & 7, word >> 58);
                let width = ((word >> 51) & 15) + 4;
                let is_inside = is_within(first, count, end) && word & NODE_CLEAR == 0;
                if !is_inside || key_word >= K::WORDS || width > 16 || shift + width > 64 {
                    return Err(FaultyProgram::Word { position });
                }
                let below = costs.worst_in(first, first + count);
                Worst { nodes: below.nodes + 1, words: below.words.saturating_add(1), ..below }
            };
            if position < words.len() {
                costs.set(position, found);
            } else {
                worst.push(found);
            }
        }
        let mut own_words = LineArray::try_new(words.len(), huge)?;
        own_words.copy_from_slice(words);
        let mut own_rows = LineArray::try_new(rows.len(), huge)?;
        own_rows.copy_from_slice(rows);
        let rules = || rows.iter().skip(Self::BLOCK_ROWS - 1).step_by(Self::BLOCK_ROWS);
        let greatest = rules().flatten().filter(|&&rule| rule != u32::MAX).max().copied().unwrap_or(0);
        let least_shift = (u32::BITS - greatest.leading_zeros()).saturating_sub(u64::BITS - LEAF_TOP);
        for word in own_words.iter_mut().chain(trees.iter_mut().map(|tree| &mut tree.root)) {
            if *word & LEAF != 0 {
                let first = leaf_blocks(*word).0 * Self::BLOCK_ROWS + Self::BLOCK_ROWS - 1;
                let least = rows.get(first).map_or(0, |row| row[0]) >> least_shift;
                let top = u64::from(least).min(u64::MAX >> LEAF_TOP) << LEAF_TOP;
                *word = plain(*word) | top;
            }
        }
        let roots = trees.iter().map(|tree| Root::new(tree.root)).collect();
        let hints = size_of_val(words) + size_of_val(rows) > NEAR_BYTES;
        Ok(Self {
            words: own_words,
            rows: own_rows,
            trees,
            roots,
            worst,
            hints,
            least_shift,
            family: PhantomData,
        })
    }

    /// Returns the words of all trees.
    #[inline(always)]
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the rows of all blocks.
    #[inline(always)]
    pub(crate) fn rows(&self) -> &[[u32; 8]] {
        &self.rows
    }

    /// Returns the trees, in the order in which they are walked.
    #[inline(always)]
    pub(crate) fn trees(&self) -> &[Tree] {
        &self.trees
    }

    /// Returns the data of each tree that lookups use.
    #[inline(always)]
    pub(super) fn roots(&self) -> &[Root] {
        &self.roots
    }

    /// Returns the worst case of each tree.
    pub(crate) fn worst(&self) -> &[Worst] {
        &self.worst
    }

    /// Returns the rows of a block.
    #[inline(always)]
    pub(crate) fn block(&self, block: usize) -> &[[u32; 8]] {
        &self.rows[block * Self::BLOCK_ROWS..][..Self::BLOCK_ROWS]
    }

    /// Returns whether a leaf has no rule before the best match so far.
    pub(crate) fn is_beyond(&self, leaf: u64, best: u32) -> bool {
        leaf & LEAF_BLOCKS == 0 || leaf >> LEAF_TOP > u64::from(best >> self.least_shift)
    }

    /// Returns the number of low bits of a rule's id that leaves omit.
    #[inline(always)]
    pub(super) fn least_shift(&self) -> u32 {
        self.least_shift
    }

    /// Returns whether to prefetch blocks.
    #[inline(always)]
    pub(super) fn wants_hints(&self) -> bool {
        self.hints
    }

    /// Prefetches a block.
    #[inline(always)]
    pub(crate) fn prefetch_block(&self, block: u32) {
        let first = block as usize * Self::BLOCK_ROWS;
        for line in 0..Self::BLOCK_ROWS / 2 {
            prefetch::read_at(&self.rows, first + 2 * line);
        }
    }

    /// Returns the bytes of both arrays.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.words) + size_of_val(&*self.rows)
    }
}

/// A tree's root with its string decoded, because every packet reads it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Root {
    /// The root's word.
    pub(super) word: u64,
    /// The start of each of its sub-arrays; unused if the root is a leaf.
    pub(super) sub_arrays: [u64; 16],
}

impl Root {
    fn new(word: u64) -> Self {
        let u = word >> 51 & 15;
        let begin = |m: u64| child_index(word, m << u << (word >> 58)) as u64;
        let sub_arrays = if word & LEAF != 0 { [0; 16] } else { core::array::from_fn(|m| begin(m as u64)) };
        Self { word, sub_arrays }
    }

    /// Returns whether the tree is a leaf.
    #[inline(always)]
    pub(super) fn is_leaf(&self) -> bool {
        self.word & LEAF != 0
    }

    /// Returns the word of a key to cut, the first bit, and the number of bits below the
    /// sub-array's number.
    #[inline(always)]
    pub(super) fn window(&self) -> (usize, u32, u32) {
        ((self.word >> 55) as usize & 7, (self.word >> 58) as u32, (self.word >> 51) as u32 & 15)
    }

    /// Returns the index of the program word to which a key goes; `field` is the key's word that is
    /// cut.
    #[inline(always)]
    pub(super) fn child_index(&self, field: u64) -> usize {
        let (_, shift, u) = self.window();
        let cut = field >> shift;
        (self.sub_arrays[(cut >> u) as usize & 15] + (cut & ((1 << u) - 1))) as usize
    }
}

/// The maximum of any run of elements in logarithmic time: a segment tree.
struct Maxima {
    tree: Vec<Worst>,
    len: usize,
}

impl Maxima {
    fn new(len: usize) -> Self {
        Self { tree: alloc::vec![Worst::default(); 2 * len], len }
    }

    fn join(a: Worst, b: Worst) -> Worst {
        Worst { nodes: a.nodes.max(b.nodes), blocks: a.blocks.max(b.blocks), words: a.words.max(b.words) }
    }

    fn set(&mut self, index: usize, value: Worst) {
        let mut at = index + self.len;
        self.tree[at] = value;
        while at > 1 {
            at /= 2;
            let joined = Self::join(self.tree[2 * at], self.tree[2 * at + 1]);
            if self.tree[at] == joined {
                break;
            }
            self.tree[at] = joined;
        }
    }

    fn worst_in(&self, start: usize, end: usize) -> Worst {
        let mut found = Worst::default();
        let (mut start, mut end) = (start + self.len, end + self.len);
        while start < end {
            if start % 2 == 1 {
                found = Self::join(found, self.tree[start]);
                start += 1;
            }
            if end % 2 == 1 {
                end -= 1;
                found = Self::join(found, self.tree[end]);
            }
            start /= 2;
            end /= 2;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyV4;

    fn program(words: &[u64], root: u64) -> Result<Program<KeyV4>, FaultyProgram> {
        Program::new(words, &[[0; 8]; 12], alloc::vec![Tree { root, least: 0 }], HugePages::No)
    }

    #[test]
    fn child_is_found_through_the_bit_string() {
        // Sub-arrays 0‥4 are the first, 5‥15 the second; four children each.
        let node = node_word(0, 32, 6, 1 << 5, 100);
        let field = |cut: u64| cut << 32 | 0xdead_beef;
        assert_eq!(child_index(node, field(0)), 100);
        assert_eq!(child_index(node, field(4 * 4 + 3)), 103);
        assert_eq!(child_index(node, field(5 * 4)), 104);
        assert_eq!(child_index(node, field(63)), 107);
        assert_eq!(children(node), (100, 8));
    }

    #[test]
    fn unfolded_root_leads_keys_to_the_same_children_as_its_word() {
        let word = node_word(1, 7, 9, 0b0110_1000_0001_0010, 40);
        let root = Root::new(word);
        for cut in 0..1 << 9 {
            let field = cut << 7 | 0xabcd << 48 | 0x55;
            assert_eq!(root.child_index(field), child_index(word, field), "{cut}");
        }
    }

    #[test]
    fn program_with_a_bad_pointer_is_refused() {
        let leaf = leaf_word(0, 2);
        let node = node_word(1, 0, 4, 0, 0);
        let good = program(&[leaf], node).unwrap();
        assert_eq!(good.worst()[0], Worst { nodes: 1, blocks: 2, words: 1 + 2 * 24 });
        assert_eq!(program(&[leaf_word(1, 2)], node).unwrap_err(), FaultyProgram::Word { position: 0 });
        assert_eq!(program(&[node], leaf).unwrap_err(), FaultyProgram::Word { position: 0 });
        for root in [
            node_word(2, 0, 4, 0, 0),
            node_word(1, 61, 4, 0, 0),
            node_word(1, 0, 4, 2, 0),
            node_word(1, 0, 4, 0, 1),
            // Lookups would count the string's bit 0, but the check of the children would not.
            node | 1 << 32,
            node | 1 << 48,
            node | 1 << 49,
            // Sixteen children that end at 2³², and a block that does too: with 32-bit addresses,
            // the sum is 0.
            node_word(1, 0, 4, 0xfffe, u32::MAX - 15),
            leaf_word(u32::MAX, 1),
        ] {
            assert_eq!(program(&[leaf], root).unwrap_err(), FaultyProgram::Word { position: 1 });
        }
    }
}

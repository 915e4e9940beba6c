//! A built tree and its figures.

use alloc::vec;
use alloc::vec::Vec;

use super::Stride;
use super::build::{Builder, Limits, Sharing};
use super::walk;
use super::word::Word;
use crate::error::BuildError;
use crate::key::{KeyV4, Match};
use crate::rule_box::boxes;
use crate::rule_set::RuleSet;

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

/// The tree of [FLOWNP §3] over the IPv4 rules of a set.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
/// use flowloom_classifier::{KeyV4, PrefixV4, Rule, RuleSet};
/// let rules = RuleSet::new(vec![Rule::v4(PrefixV4::new(0xc000_0200, 24)?, PrefixV4::ANY)])?;
/// let tree = AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, Limits::default())?;
/// let (found, accesses) = tree.classify(&KeyV4::new(0xc000_0207, 1, (2, 3), 4));
/// assert_eq!((found.rule().map(|rule| rule.0), accesses.0), (Some(0), 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct AggreCuts {
    stride: Stride,
    root: Word,
    words: Vec<u32>,
    shape: Shape,
    forms: PointerForms,
}

impl core::fmt::Debug for AggreCuts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AggreCuts")
            .field("stride", &self.stride)
            .field("words", &self.words.len())
            .field("shape", &self.shape)
            .finish_non_exhaustive()
    }
}

impl AggreCuts {
    /// Builds the tree.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if a limit is reached, or if twenty bits do not suffice for a base.
    /// The build never returns a wrong tree.
    pub fn build(
        rules: &RuleSet,
        stride: Stride,
        sharing: Sharing,
        limits: Limits,
    ) -> Result<Self, BuildError> {
        let mut builder = Builder::new(stride, sharing, limits);
        let root = builder.root(&boxes(rules))?;
        Ok(Self { stride, root, words: builder.words, shape: builder.shape, forms: builder.forms })
    }

    /// Returns the first rule that matches, and the words read. This is the paper's lookup, step by
    /// step.
    pub fn classify(&self, key: &KeyV4) -> (Match, Accesses) {
        walk::step_by_step(self, key)
    }

    /// Returns the first rule that matches, without counting.
    pub fn classify_key(&self, key: &KeyV4) -> Match {
        walk::single(self, key)
    }

    /// Looks up any number of keys, 32 at a time, with their loads in flight together.
    ///
    /// # Panics
    ///
    /// Panics if `matches` and `keys` differ in length.
    pub fn classify_batch(&self, keys: &[KeyV4], matches: &mut [Match]) {
        assert_eq!(keys.len(), matches.len(), "a batch has a place for the match of each key");
        walk::batch(self, keys, matches);
    }

    /// Returns the stride.
    pub fn stride(&self) -> Stride {
        self.stride
    }

    /// Returns the root's word.
    pub fn root(&self) -> Word {
        self.root
    }

    /// Returns the words of all pointer arrays.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Returns the shape of the tree.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Returns the size of its pointers in other forms.
    pub fn pointer_forms(&self) -> PointerForms {
        self.forms
    }

    /// Returns the bytes of the tree.
    pub fn bytes(&self) -> usize {
        4 * self.words.len() + 4
    }

    /// Returns `count` headers on one of the longest paths, with which the paper measures
    /// throughput.
    ///
    /// The headers are the deepest of those given, repeated.
    pub fn deepest_of(&self, keys: &[KeyV4], count: usize) -> Vec<KeyV4> {
        let depth = |key: &KeyV4| self.classify(key).1;
        let Some(deepest) = keys.iter().map(depth).max() else { return vec![] };
        let pool: Vec<KeyV4> = keys.iter().filter(|key| depth(key) == deepest).copied().collect();
        (0..count).map(|i| pool[i % pool.len()]).collect()
    }
}

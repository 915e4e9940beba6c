//! A built tree and its figures.

use alloc::vec;
use alloc::vec::Vec;

use super::Stride;
use super::build::{Builder, Limits, Sharing};
use super::shape::{PointerForms, Shape};
use super::word::Word;
use crate::error::BuildError;
use crate::key::KeyV4;
use crate::rule_box::boxes;
use crate::rule_set::RuleSet;

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

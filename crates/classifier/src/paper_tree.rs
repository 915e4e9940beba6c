//! The trees of a paper as algorithms for IPv4 and IPv6.

use crate::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use crate::classifier::{Algorithm, Classifier, ClassifierBuilder};
use crate::error::BuildError;
use crate::first_match::FirstMatch;
use crate::hicuts::{HiCuts, HiCutsConfig};
use crate::key::{AnyKey, Match};
use crate::rule_set::RuleSet;

#[derive(Debug)]
enum Tree {
    AggreCuts(AggreCuts),
    HiCuts(HiCuts),
}

/// A tree of [FLOWNP §3] for IPv4, and linear search for IPv6, which the paper does not treat.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::aggrecuts::Stride;
/// use flowloom_classifier::{AnyKey, FirstMatch, KeyV4, PaperTree, Rule, RuleSet};
/// let tree = PaperTree::aggrecuts(&RuleSet::new(vec![Rule::ANY])?, Stride::Eight, 1 << 20)?;
/// assert!(tree.first_match(&AnyKey::V4(KeyV4::new(1, 2, (3, 4), 6))).rule().is_some());
/// assert_eq!(tree.worst_words(), Some(13));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct PaperTree {
    tree: Tree,
    v6: Classifier,
}

impl PaperTree {
    /// Builds AggreCuts as published: equal sub-trees below one node are stored once.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the tree takes more than `bytes_max` bytes, the steps of
    /// [`Limits::default`], or more than the twenty bits of its bases.
    pub fn aggrecuts(rules: &RuleSet, stride: Stride, bytes_max: usize) -> Result<Self, BuildError> {
        let limits = Limits { memory_bytes_max: bytes_max, ..Limits::default() };
        Self::aggrecuts_with(rules, stride, Sharing::Siblings, limits)
    }

    /// Builds AggreCuts in either form. Unlike the published one, [`Sharing::Everywhere`] stores
    /// equal sub-trees of the whole tree once, and so builds larger sets.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if a limit is reached, or the twenty bits of its bases.
    pub fn aggrecuts_with(
        rules: &RuleSet,
        stride: Stride,
        sharing: Sharing,
        limits: Limits,
    ) -> Result<Self, BuildError> {
        Self::with(Tree::AggreCuts(AggreCuts::build(rules, stride, sharing, limits)?), rules)
    }

    /// Builds HiCuts; [`HiCutsConfig::sharing`] has its forms.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the tree exceeds the limits of `config`.
    pub fn hicuts(rules: &RuleSet, config: HiCutsConfig) -> Result<Self, BuildError> {
        Self::with(Tree::HiCuts(HiCuts::build(rules, config)?), rules)
    }

    fn with(tree: Tree, rules: &RuleSet) -> Result<Self, BuildError> {
        let v6 = ClassifierBuilder::new().algorithm(Algorithm::Linear).build(rules)?;
        Ok(Self { tree, v6 })
    }
}

impl FirstMatch for PaperTree {
    fn first_match(&self, key: &AnyKey) -> Match {
        match (key, &self.tree) {
            (AnyKey::V4(key), Tree::AggreCuts(tree)) => tree.classify_key(key),
            (AnyKey::V4(key), Tree::HiCuts(tree)) => tree.classify(key).0,
            (AnyKey::V6(key), _) => self.v6.classify_key(key),
        }
    }

    fn bytes(&self) -> usize {
        let tree = match &self.tree {
            Tree::AggreCuts(tree) => tree.bytes(),
            Tree::HiCuts(tree) => tree.bytes(),
        };
        tree + self.v6.stats().v6.bytes()
    }

    fn worst_words(&self) -> Option<u32> {
        Some(match &self.tree {
            Tree::AggreCuts(tree) => tree.stride().worst_words(),
            Tree::HiCuts(tree) => tree.worst_words(),
        })
    }

    fn depth(&self) -> Option<u32> {
        Some(match &self.tree {
            Tree::AggreCuts(tree) => tree.shape().depth,
            Tree::HiCuts(tree) => tree.depth(),
        })
    }

    fn words_of(&self, key: &AnyKey) -> Option<u32> {
        let AnyKey::V4(key) = key else { return None };
        Some(match &self.tree {
            Tree::AggreCuts(tree) => tree.classify(key).1.0,
            Tree::HiCuts(tree) => tree.classify(key).1,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;

    use super::*;
    use crate::headers::{Traffic, headers};
    use crate::key::{KeyV4, KeyV6};
    use crate::synth::{Profile, rules};

    fn trees(set: &RuleSet) -> Vec<Box<dyn FirstMatch>> {
        vec![
            Box::new(ClassifierBuilder::new().build(set).unwrap()),
            Box::new(PaperTree::aggrecuts(set, Stride::Eight, 1 << 26).unwrap()),
            Box::new(PaperTree::aggrecuts(set, Stride::Four, 1 << 26).unwrap()),
            Box::new(
                PaperTree::aggrecuts_with(set, Stride::Eight, Sharing::Everywhere, Limits::default())
                    .unwrap(),
            ),
            Box::new(PaperTree::hicuts(set, HiCutsConfig::new(8, 4.0)).unwrap()),
        ]
    }

    #[test]
    fn every_algorithm_finds_what_linear_search_finds() {
        for (profile, is_v6) in
            [(Profile::Acl, false), (Profile::PacketFilter, false), (Profile::Acl, true)]
        {
            let set = rules(profile, 200, 3, is_v6).unwrap();
            let v4: Vec<KeyV4> = headers(&set, Traffic::MISSES, 500, 1);
            let v6: Vec<KeyV6> = headers(&set, Traffic::MISSES, 500, 1);
            for tree in trees(&set) {
                for key in &v4 {
                    assert_eq!(tree.first_match(&AnyKey::V4(*key)), set.first_match(key), "{tree:?}");
                    assert!(tree.words_of(&AnyKey::V4(*key)) <= tree.worst_words(), "{tree:?}");
                }
                for key in &v6 {
                    assert_eq!(tree.first_match(&AnyKey::V6(*key)), set.first_match(key));
                }
                assert!(tree.bytes() > 0 && (is_v6 || tree.worst_words() > Some(0)));
            }
        }
    }
}

//! Search algorithms behind one trait.

use crate::classifier::Classifier;
use crate::key::{AnyKey, Match};

/// An algorithm that finds the first rule of a set whose five fields match a key.
///
/// A `PolicyMatcher` of `flowloom-rules` uses any of them. The crate's own
/// [`Classifier`] is the fastest; the trees of papers and algorithms of other crates are for
/// comparisons.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::{AnyKey, FirstMatch, KeyV4, Match, Rule, RuleSet};
///
/// /// Linear search.
/// #[derive(Debug)]
/// struct Scan(RuleSet);
///
/// impl FirstMatch for Scan {
///     fn first_match(&self, key: &AnyKey) -> Match {
///         match key {
///             AnyKey::V4(key) => self.0.first_match(key),
///             AnyKey::V6(key) => self.0.first_match(key),
///         }
///     }
///
///     fn bytes(&self) -> usize {
///         size_of_val(self.0.rules())
///     }
/// }
///
/// let scan = Scan(RuleSet::new(vec![Rule::ANY])?);
/// assert!(scan.first_match(&AnyKey::V4(KeyV4::new(1, 2, (3, 4), 6))).rule().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait FirstMatch: core::fmt::Debug + Send + Sync {
    /// Returns the first rule that matches a key.
    fn first_match(&self, key: &AnyKey) -> Match;

    /// Returns the size of the data that lookups read, in bytes.
    fn bytes(&self) -> usize;

    /// Returns the maximum number of 32-bit words that a lookup of an IPv4 key reads, if the
    /// algorithm has such a bound.
    fn worst_words(&self) -> Option<u32> {
        None
    }

    /// Returns the maximum number of nodes that a lookup of an IPv4 key passes, if the algorithm
    /// walks a tree.
    fn depth(&self) -> Option<u32> {
        None
    }

    /// Returns the number of 32-bit words that the lookup of a key reads, if the algorithm counts
    /// them.
    fn words_of(&self, key: &AnyKey) -> Option<u32> {
        let _ = key;
        None
    }
}

impl FirstMatch for Classifier {
    fn first_match(&self, key: &AnyKey) -> Match {
        match key {
            AnyKey::V4(key) => self.classify_key(key),
            AnyKey::V6(key) => self.classify_key(key),
        }
    }

    fn bytes(&self) -> usize {
        let stats = self.stats();
        stats.v4.bytes() + stats.v6.bytes()
    }

    fn worst_words(&self) -> Option<u32> {
        Some(self.stats().v4.worst.words)
    }

    fn depth(&self) -> Option<u32> {
        Some(self.stats().v4.worst.nodes)
    }
}

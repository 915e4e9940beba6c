//! HiCuts as a baseline [FLOWNP §2.2, §3.2]: an adaptive number of cuts, and leaves with lists to
//! search.
//!
//! Its pointer arrays reuse children of identical rule sets [FLOWNP §3.3]. Identical means here
//! that the same rules meet them in the same way, since only then does one sub-tree answer for
//! both.
//!
//! The word model, with which the paper's counts are compared: two words for each node on the path,
//! six for each rule examined in the leaf. Memory: a word for each child pointer, a word for each
//! node and each rule id of a leaf, 24 bytes for each rule.

use alloc::vec::Vec;

use crate::aggrecuts::Sharing;
use crate::error::BuildError;
use crate::intern::Interner;
use crate::key::{Key, KeyV4, Match, Span};
use crate::rule::RuleId;
use crate::rule_box::{RuleBox, boxes};
use crate::rule_set::RuleSet;

/// The parameters of HiCuts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HiCutsConfig {
    /// Maximum number of rules in a leaf.
    pub binth: usize,
    /// Number of rule copies that a cut may make per rule.
    pub spfac: f64,
    /// Which equal sub-trees are stored once; `None` stores each.
    pub sharing: Option<Sharing>,
    /// Maximum size of the tree, in bytes.
    pub memory_bytes_max: usize,
    /// Maximum number of build steps.
    pub steps_max: u64,
}

impl HiCutsConfig {
    /// Returns the parameters with the sharing of the paper and generous limits.
    pub const fn new(binth: usize, spfac: f64) -> Self {
        let sharing = Some(Sharing::Siblings);
        Self { binth, spfac, sharing, memory_bytes_max: 256 << 20, steps_max: 4_000_000_000 }
    }
}

/// Words for a node on the path.
const NODE_WORDS: u32 = 2;
/// Words per examined rule.
const RULE_WORDS: u32 = 6;
/// Maximum number of bits of one cut.
const WIDTH_MAX: u32 = 16;

#[derive(Clone, Debug)]
enum Node {
    Cut { dimension: usize, shift: u32, width: u32, children: Vec<u32> },
    Leaf(Vec<u32>),
}

/// A tree of HiCuts.
///
/// # Examples
///
/// ```
/// use flowloom_classifier::hicuts::{HiCuts, HiCutsConfig};
/// use flowloom_classifier::{KeyV4, Rule, RuleSet};
/// let tree = HiCuts::build(&RuleSet::new(vec![Rule::ANY])?, HiCutsConfig::new(8, 2.0))?;
/// let (found, words) = tree.classify(&KeyV4::default());
/// assert_eq!((found.rule().map(|rule| rule.0), words), (Some(0), 6));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct HiCuts {
    rules: Vec<RuleBox>,
    nodes: Vec<Node>,
    root: u32,
    worst_words: u32,
    bytes: usize,
}

impl core::fmt::Debug for HiCuts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("HiCuts")
            .field("rules", &self.rules.len())
            .field("nodes", &self.nodes.len())
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

struct Builder<'a> {
    rules: &'a [RuleBox],
    config: HiCutsConfig,
    nodes: Vec<Node>,
    /// Sub-trees that may be used again anywhere.
    built: Interner,
    steps: u64,
    bytes: usize,
}

/// The cell of a node: the rest of each dimension, and its start.
#[derive(Clone, Copy)]
struct Cell {
    start: [u32; 5],
    left: [u32; 5],
}

impl Cell {
    fn span(&self, d: usize) -> Span {
        Span { low: self.start[d], high: self.start[d] | ((1_u64 << self.left[d]) - 1) as u32 }
    }

    fn is_covered_by(&self, rule: &RuleBox) -> bool {
        (0..5).all(|d| {
            let (cell, span) = (self.span(d), rule.spans[d]);
            span.low <= cell.low && cell.high <= span.high
        })
    }
}

impl HiCuts {
    /// Builds a tree over the IPv4 rules of a set.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if a limit is reached.
    pub fn build(rules: &RuleSet, config: HiCutsConfig) -> Result<Self, BuildError> {
        let rules = boxes(rules);
        let mut builder = Builder {
            rules: &rules,
            config,
            nodes: Vec::new(),
            built: Interner::new(),
            steps: 0,
            bytes: 24 * rules.len(),
        };
        let all: Vec<u32> = (0..rules.len() as u32).collect();
        let cell = Cell { start: [0; 5], left: [32, 32, 16, 16, 8] };
        let (root, worst_words) = builder.node(&all, cell)?;
        let Builder { nodes, bytes, .. } = builder;
        Ok(Self { rules, nodes, root, worst_words, bytes })
    }

    /// Returns the first rule that matches, and the words read.
    pub fn classify(&self, key: &KeyV4) -> (Match, u32) {
        let mut words = 0;
        let mut at = self.root;
        loop {
            match &self.nodes[at as usize] {
                Node::Cut { dimension, shift, width, children } => {
                    words += NODE_WORDS;
                    at = children[(key.dimension(*dimension) >> shift & ((1 << width) - 1)) as usize];
                }
                Node::Leaf(list) => {
                    for &rule in list {
                        words += RULE_WORDS;
                        let rule = &self.rules[rule as usize];
                        if rule.spans.iter().enumerate().all(|(d, span)| span.contains(key.dimension(d))) {
                            return (Match::from(RuleId(rule.id)), words);
                        }
                    }
                    return (Match::NONE, words);
                }
            }
        }
    }

    /// Returns the number of cuts on the longest path.
    pub fn depth(&self) -> u32 {
        let mut depths: Vec<u32> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            // The children of a node stand before it.
            let below = |children: &Vec<u32>| children.iter().map(|&child| depths[child as usize]).max();
            depths.push(match node {
                Node::Cut { children, .. } => below(children).map_or(0, |depth| depth + 1),
                Node::Leaf(_) => 0,
            });
        }
        depths[self.root as usize]
    }

    /// Returns the maximum number of words that a lookup reads.
    pub fn worst_words(&self) -> u32 {
        self.worst_words
    }

    /// Returns the bytes of tree and rules in the word model.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Builder<'_> {
    fn spend(&mut self, steps: usize, bytes: usize) -> Result<(), BuildError> {
        self.steps += steps as u64;
        self.bytes += bytes;
        if self.steps > self.config.steps_max {
            return Err(BuildError::Work { limit_steps: self.config.steps_max });
        }
        let needed = self.bytes.max(self.built.bytes() / 16);
        if needed > self.config.memory_bytes_max {
            return Err(BuildError::Memory {
                needed_bytes: needed as u64,
                limit_bytes: self.config.memory_bytes_max as u64,
            });
        }
        Ok(())
    }

    /// Returns the node of a list, and the maximum number of words that a lookup reads from it on.
    fn node(&mut self, list: &[u32], cell: Cell) -> Result<(u32, u32), BuildError> {
        let choice = if list.len() <= self.config.binth { None } else { self.choose(list, &cell)? };
        let Some((dimension, width)) = choice else {
            self.spend(list.len(), 4 + 4 * list.len())?;
            self.nodes.push(Node::Leaf(list.to_vec()));
            return Ok((self.nodes.len() as u32 - 1, RULE_WORDS * list.len() as u32));
        };
        self.spend(list.len(), 4 + (4 << width))?;
        let shift = cell.left[dimension] - width;
        let mut children: Vec<u32> = Vec::with_capacity(1 << width);
        let mut siblings = Interner::new();
        let mut worst = 0;
        for value in 0..1_u32 << width {
            let mut below = cell;
            below.left[dimension] = shift;
            below.start[dimension] |= (u64::from(value) << shift) as u32;
            let span = below.span(dimension);
            let mut child = Vec::new();
            for &rule in list {
                let of_rule = self.rules[rule as usize].spans[dimension];
                if of_rule.low <= span.high && span.low <= of_rule.high {
                    child.push(rule);
                    if below.is_covered_by(&self.rules[rule as usize]) {
                        break;
                    }
                }
            }
            self.spend(list.len(), 0)?;
            let key = self.spell(&child, &below);
            let known = match self.config.sharing {
                None => None,
                Some(Sharing::Siblings) => siblings.get(&key),
                Some(Sharing::Everywhere) => self.built.get(&key),
            };
            let (node, words) = match known {
                Some(found) => (found as u32, (found >> 32) as u32),
                None => self.node(&child, below)?,
            };
            let found = u64::from(words) << 32 | u64::from(node);
            match self.config.sharing {
                Some(Sharing::Siblings) => siblings.insert(&key, found),
                Some(Sharing::Everywhere) => self.built.insert(&key, found),
                None => {}
            }
            worst = worst.max(words);
            children.push(node);
        }
        self.nodes.push(Node::Cut { dimension, shift, width, children });
        Ok((self.nodes.len() as u32 - 1, worst + NODE_WORDS))
    }

    /// Encodes a child so that children that one sub-tree answers for have equal encodings: the
    /// rules of a leaf, and otherwise also how they meet the cell.
    fn spell(&self, list: &[u32], cell: &Cell) -> Vec<u32> {
        let mut key = Vec::from(list);
        if list.len() > self.config.binth {
            key.extend(cell.left);
            for &rule in list {
                for d in 0..5 {
                    let (span, bounds) = (self.rules[rule as usize].spans[d], cell.span(d));
                    key.extend(
                        [span.low.max(bounds.low), span.high.min(bounds.high)].map(|end| end - bounds.low),
                    );
                }
            }
        }
        key
    }

    /// Returns the dimension and the bits to cut: the smallest largest child, then the fewest
    /// copies.
    fn choose(&mut self, list: &[u32], cell: &Cell) -> Result<Option<(usize, u32)>, BuildError> {
        let limit = self.config.spfac * list.len() as f64;
        let mut best: Option<((usize, u64), (usize, u32))> = None;
        for d in (0..5).filter(|&d| cell.left[d] > 0) {
            let widest = cell.left[d].min(WIDTH_MAX);
            let root = u32::BITS - (list.len() as u32).isqrt().max(1).leading_zeros() - 1;
            let mut width = root.max(2).min(widest);
            let mut found = self.weigh(list, cell, d, width)?;
            while width < widest {
                let wider = self.weigh(list, cell, d, width + 1)?;
                if wider.1 as f64 > limit {
                    break;
                }
                (width, found) = (width + 1, wider);
            }
            while width > 1 && found.1 as f64 > limit {
                width -= 1;
                found = self.weigh(list, cell, d, width)?;
            }
            if best.is_none_or(|(rank, _)| found < rank) {
                best = Some((found, (d, width)));
            }
        }
        // A cut that leaves one child with all rules, and all others equal, would repeat forever
        // only if nothing were left to cut.
        Ok(best.map(|(_, choice)| choice))
    }

    /// Returns the number of rules in the largest child, and cells plus copies.
    fn weigh(
        &mut self,
        list: &[u32],
        cell: &Cell,
        d: usize,
        width: u32,
    ) -> Result<(usize, u64), BuildError> {
        let shift = cell.left[d] - width;
        let cells = 1_usize << width;
        self.spend(list.len() + cells, 0)?;
        let mut edges = alloc::vec![0_i64; cells + 1];
        let mut copies = cells as u64;
        let bounds = cell.span(d);
        for &rule in list {
            let span = self.rules[rule as usize].spans[d];
            let first = (u64::from(span.low.max(bounds.low) - bounds.low) >> shift) as usize;
            let last = (u64::from(span.high.min(bounds.high) - bounds.low) >> shift) as usize;
            edges[first] += 1;
            edges[last + 1] -= 1;
            copies += (last - first + 1) as u64;
        }
        let (mut count, mut largest) = (0_i64, 0);
        for edge in &edges[..cells] {
            count += edge;
            largest = largest.max(count.cast_unsigned());
        }
        Ok((largest as usize, copies))
    }
}

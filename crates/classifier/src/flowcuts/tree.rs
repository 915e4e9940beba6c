//! Building trees in shared arrays.

use alloc::vec::Vec;

use super::cell::Cell;
use super::window::{self, Scratch, Weighing, Window};
use crate::arch::{LEAF, Program, Tree, leaf_word, node_word};
use crate::error::BuildError;
use crate::intern::Interner;
use crate::key::Key;
use crate::leaf_block::{LANES, push_blocks};
use crate::rule_set::Flat;

/// The limits of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Maximum size of words and rows together, in bytes.
    pub(crate) bytes: usize,
    /// Maximum number of steps: a step examines a rule, or a value of a window.
    pub(crate) steps: u64,
}

/// The parameters of cutting trees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    /// Maximum number of rules in a leaf.
    pub(crate) leaf_rules: usize,
    /// Maximum number of leaf entries in a tree per rule, before equal leaves are stored once.
    pub(crate) growth_max: f64,
}

/// Maximum number of nodes on a path: the bits of the longest key.
const DEPTH_MAX: u32 = 296;

/// Words and rows of the trees built so far, and the data that they share.
#[derive(Debug)]
pub(crate) struct Forest<'a, K: Key> {
    rules: &'a [Flat<K>],
    shape: Shape,
    allowance: Allowance,
    steps: u64,
    words: Vec<u64>,
    rows: Vec<[u32; 8]>,
    trees: Vec<Tree>,
    arrays: Interner,
    leaves: Interner,
    built: Interner,
    scratch: Scratch,
    spelling: Vec<u32>,
}

impl<'a, K: Key> Forest<'a, K> {
    pub(crate) fn new(rules: &'a [Flat<K>], shape: Shape, allowance: Allowance) -> Self {
        Self {
            rules,
            shape,
            allowance,
            steps: 0,
            words: Vec::new(),
            rows: Vec::new(),
            trees: Vec::new(),
            arrays: Interner::new(),
            leaves: Interner::new(),
            built: Interner::new(),
            scratch: Scratch::default(),
            spelling: Vec::new(),
        }
    }

    /// Builds the tree of a list of rules, which is ascending and not empty.
    pub(crate) fn add_tree(&mut self, list: &[u32]) -> Result<(), BuildError> {
        let least = self.rules[list[0] as usize].id;
        let root = self.node(list, Cell::everything::<K>(), self.shape.growth_max, 0)?;
        self.trees.push(Tree { root, least });
        Ok(())
    }

    /// Returns the steps taken.
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the arrays, with the trees in the order of their least rules.
    pub(crate) fn finish(mut self) -> (Vec<u64>, Vec<[u32; 8]>, Vec<Tree>) {
        self.trees.sort_by_key(|tree| tree.least);
        (self.words, self.rows, self.trees)
    }

    fn spend(&mut self, steps: u64) -> Result<(), BuildError> {
        self.steps += steps;
        if self.steps > self.allowance.steps {
            return Err(BuildError::Work { limit_steps: self.allowance.steps });
        }
        let bytes = size_of_val(&*self.words) + size_of_val(&*self.rows);
        // The tables for sharing exist in addition to the result, so their size must be limited
        // too.
        let aside = self.built.bytes() + self.arrays.bytes() + self.leaves.bytes();
        if bytes > self.allowance.bytes || aside / 8 > self.allowance.bytes {
            return Err(BuildError::Memory {
                needed_bytes: bytes.max(aside / 8) as u64,
                limit_bytes: self.allowance.bytes as u64,
            });
        }
        Ok(())
    }

    /// Returns the word of the tree for these rules and packets. `growth` is how many leaf entries
    /// below this node each rule of the list may become: copies made by a cut reduce what its
    /// children may make.
    fn node(&mut self, list: &[u32], mut cell: Cell, growth: f64, depth: u32) -> Result<u64, BuildError> {
        self.spend(list.len() as u64 + 1)?;
        cell.assume(self.rules, list);
        // If all rules agree on the rest, the first of them may cover the cell, so that no later
        // rule ever wins here.
        let covering = list.iter().position(|&rule| cell.is_covered_by(&self.rules[rule as usize]));
        let list = covering.map_or(list, |first| &list[..=first]);
        if list.len() <= self.shape.leaf_rules || depth == DEPTH_MAX {
            return self.leaf(list);
        }
        let key = spell::<K>(list, &cell);
        if let Some(word) = self.built.get(&key) {
            return Ok(word);
        }
        let weighing = Weighing { leaf_rules: self.shape.leaf_rules, growth_max: growth };
        let (choice, steps) = window::choose(self.rules, list, &cell, weighing, &mut self.scratch);
        self.spend(steps)?;
        let word = match choice {
            Some(window) => self.cut(list, &cell, window, growth, depth)?,
            None => self.leaf(list)?,
        };
        self.built.insert(&key, word);
        Ok(word)
    }

    fn cut(
        &mut self,
        list: &[u32],
        cell: &Cell,
        window: Window,
        growth: f64,
        depth: u32,
    ) -> Result<u64, BuildError> {
        let d = window.dimension;
        let runs = window::divide(self.rules, list, cell.known[d], window, &mut self.scratch);
        self.spend((runs.lists.len() + window.cells()) as u64)?;
        let mut children: Vec<(Cell, usize)> = Vec::with_capacity(runs.ends.len());
        let mut lists: Vec<u32> = Vec::with_capacity(runs.lists.len());
        for (run, &(first, last)) in runs.ends.iter().enumerate() {
            let mut child = *cell;
            narrow(&mut child, window, first, last);
            for &rule in &runs.lists[runs.starts[run]..runs.starts[run + 1]] {
                if !child.meets(&self.rules[rule as usize]) {
                    continue;
                }
                lists.push(rule);
                if child.is_covered_by(&self.rules[rule as usize]) {
                    break;
                }
            }
            children.push((child, lists.len()));
        }
        let below = growth * list.len() as f64 / lists.len().max(1) as f64;
        let mut words = Vec::with_capacity(children.len());
        let mut start = 0;
        for (child, end) in children {
            let child_list = &lists[start..end];
            start = end;
            // A run that ends up where it began would be cut in the same way forever.
            let word = if child == *cell && child_list == list {
                self.leaf(list)?
            } else {
                self.node(child_list, child, below, depth + 1)?
            };
            words.push(word);
        }
        if words.windows(2).all(|pair| pair[0] == pair[1]) {
            return Ok(words[0]);
        }
        self.emit(window, &runs.of_value, &words)
    }

    /// Writes the children's array, with each sub-array that differs from the previous one.
    fn emit(&mut self, window: Window, of_value: &[u32], words: &[u64]) -> Result<u64, BuildError> {
        let size = of_value.len() / 16;
        let child = |value: usize| words[of_value[value] as usize];
        let mut habs = 0_u16;
        let mut array: Vec<u64> = Vec::with_capacity(of_value.len());
        for m in 0..16 {
            let differs = m == 0 || (0..size).any(|j| child(m * size + j) != child((m - 1) * size + j));
            if differs {
                habs |= 1 << m;
                array.extend((0..size).map(|j| child(m * size + j)));
            }
        }
        self.spelling.clear();
        self.spelling.extend(array.iter().flat_map(|&word| [word as u32, (word >> 32) as u32]));
        let index = if let Some(index) = self.arrays.get(&self.spelling) {
            index as u32
        } else {
            let index = u32::try_from(self.words.len()).map_err(|_| BuildError::Memory {
                needed_bytes: 8 << 32,
                limit_bytes: self.allowance.bytes as u64,
            })?;
            self.words.extend_from_slice(&array);
            self.arrays.insert(&self.spelling, u64::from(index));
            index
        };
        let (word, base) = K::place(window.dimension);
        Ok(node_word(word, base + window.shift, window.width, habs, index))
    }

    fn leaf(&mut self, list: &[u32]) -> Result<u64, BuildError> {
        // No leaf of a tree is that long; linear search uses another path.
        if list.len() > 1 << 20 {
            return Err(BuildError::Work { limit_steps: self.allowance.steps });
        }
        if list.is_empty() {
            return Ok(leaf_word(0, 0));
        }
        if let Some(word) = self.leaves.get(list) {
            return Ok(word);
        }
        let first = self.rows.len() / Program::<K>::BLOCK_ROWS;
        push_blocks(&mut self.rows, list.iter().map(|&rule| &self.rules[rule as usize]));
        self.spend(list.len() as u64)?;
        let word = leaf_word(first as u32, list.len().div_ceil(LANES) as u32);
        debug_assert!(word & LEAF != 0);
        self.leaves.insert(list, word);
        Ok(word)
    }
}

/// Adds the knowledge about a packet with a value of the run.
fn narrow(cell: &mut Cell, window: Window, first: u32, last: u32) {
    let known = &mut cell.known[window.dimension];
    let bounds = known.bounds();
    let above = u32::MAX.checked_shl(window.shift + window.width).unwrap_or(0);
    if (bounds.low ^ bounds.high) & above == 0 {
        let head = bounds.low & above;
        known.low = known.low.max(head | first << window.shift);
        known.high = known.high.min(head | last << window.shift | ((1 << window.shift) - 1));
    }
    let common = !u32::MAX.checked_shr((first ^ last).leading_zeros()).unwrap_or(0);
    let mask = u64::from((window.cells() - 1) as u32 & common) << window.shift;
    known.mask |= mask as u32;
    known.value |= first << window.shift & mask as u32;
}

/// Encodes list and cell so that equal sub-problems have equal encodings.
fn spell<K: Key>(list: &[u32], cell: &Cell) -> Vec<u32> {
    let mut key = Vec::with_capacity(list.len() + 4 * K::DIMENSIONS + 1);
    for known in &cell.known[..K::DIMENSIONS] {
        if known.is_done {
            key.push(1);
        } else {
            let bounds = known.bounds();
            key.extend([0, known.mask, known.value, bounds.low, bounds.high]);
        }
    }
    key.extend_from_slice(list);
    key
}

//! Cutting until one rule covers the rest [FLOWNP §3.2], and packing the pointers [FLOWNP §3.3].

use alloc::vec::Vec;

use super::Stride;
use super::shape::{PointerForms, Shape};
use super::word::{BASE_MAX, Cut, Word};
use crate::error::BuildError;
use crate::intern::Interner;
use crate::key::Span;
use crate::rule_box::RuleBox;

/// Which equal sub-trees are stored only once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Sharing {
    /// Equal sub-trees below one node, as in the paper.
    #[default]
    Siblings,
    /// Equal sub-trees anywhere. This is not in the paper; on sets with many wildcards it takes a
    /// fifth to a twentieth of the memory.
    Everywhere,
}

/// Limits of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum size of the tree, in bytes.
    pub memory_bytes_max: usize,
    /// Maximum number of steps; a step examines a rule in a node and takes several nanoseconds.
    pub steps_max: u64,
}

impl Default for Limits {
    /// 128 MiB, which bases with w = 8 can address, and two thousand million steps.
    fn default() -> Self {
        Self { memory_bytes_max: 128 << 20, steps_max: 2_000_000_000 }
    }
}

/// The rest of a header: bits left to cut in each dimension.
type Left = [u8; 5];

pub(super) struct Builder {
    stride: Stride,
    sharing: Sharing,
    limits: Limits,
    steps: u64,
    pub(super) words: Vec<u32>,
    built: Interner,
    pub(super) shape: Shape,
    pub(super) forms: PointerForms,
}

/// A cut in one dimension: runs of cells that the same rules meet in the same way.
struct Runs {
    /// First cell of each run.
    first: Vec<u32>,
    /// The start of each run's rules in `rules`, and the end of the last.
    starts: Vec<usize>,
    /// Positions in the list of the rules that meet the run, up to the first that covers it.
    rules: Vec<u32>,
    largest: usize,
}

impl Builder {
    pub(super) fn new(stride: Stride, sharing: Sharing, limits: Limits) -> Self {
        Self {
            stride,
            sharing,
            limits,
            steps: 0,
            words: Vec::new(),
            built: Interner::new(),
            shape: Shape::default(),
            forms: PointerForms::default(),
        }
    }

    /// Builds the whole tree and returns its root.
    pub(super) fn root(&mut self, boxes: &[RuleBox]) -> Result<Word, BuildError> {
        let left: Left = [32, 32, 16, 16, 8];
        let covering =
            boxes.iter().position(|b| covers_all(b, left)).map_or(boxes.len(), |first| first + 1);
        let (word, depth) = self.node(&boxes[..covering], left)?;
        self.shape.depth = depth;
        Ok(word)
    }

    fn spend(&mut self, steps: usize) -> Result<(), BuildError> {
        self.steps += steps as u64;
        if self.steps > self.limits.steps_max {
            return Err(BuildError::Work { limit_steps: self.limits.steps_max });
        }
        let bytes = 4 * self.words.len();
        let aside = self.built.bytes() / 16;
        if bytes.max(aside) > self.limits.memory_bytes_max {
            return Err(BuildError::Memory {
                needed_bytes: bytes.max(aside) as u64,
                limit_bytes: self.limits.memory_bytes_max as u64,
            });
        }
        Ok(())
    }

    /// Returns the word of a list's tree, and its height in cuts. The list ends with the first box
    /// that covers the rest.
    fn node(&mut self, list: &[RuleBox], mut left: Left) -> Result<(Word, u32), BuildError> {
        self.spend(list.len() + 1)?;
        let Some(first) = list.first() else { return Ok((Word::leaf(None), 0)) };
        for (d, left) in left.iter_mut().enumerate() {
            if list.iter().all(|rule| covers(rule.spans[d], *left)) {
                *left = 0;
            }
        }
        if covers_all(first, left) {
            return Ok((Word::leaf(Some(first.id)), 0));
        }
        let key = match self.sharing {
            Sharing::Siblings => Vec::new(),
            Sharing::Everywhere => spell(list, left),
        };
        if let Some(found) = (!key.is_empty()).then(|| self.built.get(&key)).flatten() {
            return Ok((Word(found as u32), (found >> 32) as u32));
        }
        let (dimension, runs) = self.choose(list, left)?;
        let (word, height) = self.cut(list, left, dimension, &runs)?;
        if !key.is_empty() {
            self.built.insert(&key, u64::from(height) << 32 | u64::from(word.0));
        }
        Ok((word, height))
    }

    /// Returns the cut with the smallest sum of children's rules; among equal cuts, the one with
    /// the smallest largest child.
    fn choose(&mut self, list: &[RuleBox], left: Left) -> Result<(usize, Runs), BuildError> {
        let mut best: Option<(usize, Runs)> = None;
        for d in (0..5).filter(|&d| left[d] > 0) {
            let runs = divide(list, left, d, self.stride.bits());
            self.spend(runs.rules.len() + list.len())?;
            let rank = |runs: &Runs| (runs.rules.len(), runs.largest);
            if best.as_ref().is_none_or(|(_, best)| rank(&runs) < rank(best)) {
                best = Some((d, runs));
            }
        }
        Ok(best.expect("a list that is not covered has bits left in some dimension"))
    }

    fn cut(
        &mut self,
        list: &[RuleBox],
        left: Left,
        d: usize,
        runs: &Runs,
    ) -> Result<(Word, u32), BuildError> {
        let w = self.stride.bits();
        let mut below = left;
        below[d] -= w as u8;
        let mut siblings = Interner::new();
        let mut words = Vec::with_capacity(runs.first.len());
        let mut height = 0;
        let mut child = Vec::new();
        for (run, &cell) in runs.first.iter().enumerate() {
            child.clear();
            for &position in &runs.rules[runs.starts[run]..runs.starts[run + 1]] {
                let mut rule = list[position as usize];
                rule.spans[d] = within_cell(rule.spans[d], cell, below[d]);
                child.push(rule);
            }
            let key = match self.sharing {
                Sharing::Siblings => spell(&child, below),
                Sharing::Everywhere => Vec::new(),
            };
            let known = (!key.is_empty()).then(|| siblings.get(&key)).flatten();
            let (word, below_height) = match known {
                Some(found) => (Word(found as u32), (found >> 32) as u32),
                None => self.node(&child, below)?,
            };
            if known.is_none() && !key.is_empty() {
                siblings.insert(&key, u64::from(below_height) << 32 | u64::from(word.0));
            }
            height = height.max(below_height + 1);
            words.push(word.0);
        }
        let word = self.pack(d, left, &runs.first, &words)?;
        Ok((word, height))
    }

    /// Writes the pointer array, with each sub-array that differs from the previous one, and
    /// returns the node's word.
    fn pack(&mut self, d: usize, left: Left, first: &[u32], words: &[u32]) -> Result<Word, BuildError> {
        let (w, block) = (self.stride.bits(), self.stride.block_words());
        let mut array = Vec::with_capacity(1 << w);
        for (run, &word) in words.iter().enumerate() {
            let end = first.get(run + 1).map_or(1 << w, |&cell| cell as usize);
            array.resize(end, word);
        }
        let base = self.words.len() / block;
        if base > BASE_MAX as usize {
            let limit_bytes = (u64::from(BASE_MAX) + 1) * block as u64 * 4;
            return Err(BuildError::BaseOverflow { stride: w, limit_bytes });
        }
        let mut habs = 0_u8;
        for (m, sub_array) in array.chunks(block).enumerate() {
            if m == 0 || sub_array != &array[(m - 1) * block..m * block] {
                habs |= 1 << m;
                self.words.extend_from_slice(sub_array);
            }
        }
        let changes = 1 + array.windows(2).filter(|pair| pair[0] != pair[1]).count();
        self.forms.add(w, changes, habs.count_ones() as usize * block);
        let mut distinct = words.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        self.shape.nodes += 1;
        self.shape.distinct_children += distinct.len() as u64;
        self.shape.sub_arrays += u64::from(habs.count_ones());
        let byte = (field_bits(d) - left[d]) / 8;
        let cut = [
            Cut::Source(byte),
            Cut::Destination(byte),
            Cut::SourcePort(byte),
            Cut::DestinationPort(byte),
            Cut::Protocol,
        ][d];
        Ok(Word::node(cut, habs, base as u32))
    }
}

const fn field_bits(dimension: usize) -> u8 {
    [32, 32, 16, 16, 8][dimension]
}

fn covers(span: Span, left: u8) -> bool {
    span.low == 0 && u64::from(span.high) == (1_u64 << left) - 1
}

fn covers_all(rule: &RuleBox, left: Left) -> bool {
    rule.spans.iter().zip(left).all(|(&span, left)| left == 0 || covers(span, left))
}

/// Returns the part of a span that lies in a cell of that many bits, relative to the cell.
fn within_cell(span: Span, cell: u32, bits: u8) -> Span {
    let last = ((1_u64 << bits) - 1) as u32;
    let start = u64::from(cell) << bits;
    let low = u64::from(span.low).saturating_sub(start) as u32;
    let high = (u64::from(span.high).saturating_sub(start)).min(u64::from(last)) as u32;
    Span { low, high }
}

/// Divides a list along a dimension.
fn divide(list: &[RuleBox], left: Left, d: usize, w: u32) -> Runs {
    let bits = left[d] - w as u8;
    let last_in_cell = ((1_u64 << bits) - 1) as u32;
    let cells = 1_usize << w;
    let mut edge = [false; 257];
    edge[0] = true;
    for rule in list {
        let span = rule.spans[d];
        let (from, to) = (cell_of(span.low, bits), cell_of(span.high, bits));
        edge[from] = true;
        edge[to + 1] = true;
        // A partly covered cell is a separate run.
        edge[from + 1] |= span.low & last_in_cell != 0;
        edge[to] |= span.high & last_in_cell != last_in_cell;
    }
    let first: Vec<u32> = (0..cells).filter(|&cell| edge[cell]).map(|cell| cell as u32).collect();
    let mut below = left;
    below[d] = bits;
    let mut runs = Runs { starts: Vec::from([0]), rules: Vec::new(), largest: 0, first };
    for &cell in &runs.first {
        let before = runs.rules.len();
        for (position, rule) in list.iter().enumerate() {
            let span = rule.spans[d];
            if cell_of(span.low, bits) as u32 <= cell && cell <= cell_of(span.high, bits) as u32 {
                runs.rules.push(position as u32);
                let mut relative = *rule;
                relative.spans[d] = within_cell(span, cell, bits);
                if covers_all(&relative, below) {
                    break;
                }
            }
        }
        runs.largest = runs.largest.max(runs.rules.len() - before);
        runs.starts.push(runs.rules.len());
    }
    runs
}

fn cell_of(value: u32, bits: u8) -> usize {
    (u64::from(value) >> bits) as usize
}

/// Encodes a sub-problem so that equal sub-problems have equal encodings.
fn spell(list: &[RuleBox], left: Left) -> Vec<u32> {
    let mut key = Vec::with_capacity(5 + 11 * list.len());
    key.extend(left.map(u32::from));
    for rule in list {
        key.push(rule.id);
        for (span, left) in rule.spans.iter().zip(left) {
            if left > 0 {
                key.extend([span.low, span.high]);
            }
        }
    }
    key
}

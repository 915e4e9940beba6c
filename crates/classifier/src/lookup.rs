//! Walking one packet with counters.

use crate::arch::{LEAF, Program, TREES_MAX, child_index, leaf_blocks, match_lanes, scan_block};
use crate::key::{Key, Match};
use crate::rule::RuleId;

/// What one lookup read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reads {
    /// Trees entered.
    pub trees: u32,
    /// Nodes read.
    pub nodes: u32,
    /// Blocks of eight rules compared.
    pub blocks: u32,
    /// 64-bit words of both.
    pub words: u32,
}

/// Looks up one packet in plain code, and counts the reads.
pub(crate) fn classify_counting<K: Key>(program: &Program<K>, key: &K) -> (Match, Reads) {
    let mut best = u32::MAX;
    let mut reads = Reads::default();
    for tree in program.trees() {
        if best <= tree.least {
            continue;
        }
        reads.trees += 1;
        let mut at = tree.root;
        while at & LEAF == 0 {
            at = program.words()[child_index(at, key.word((at >> 55) as usize & 7))];
            reads.nodes += 1;
            reads.words += 1;
        }
        if program.is_beyond(at, best) {
            continue;
        }
        let (first, count) = leaf_blocks(at);
        for block in first..first + count {
            reads.blocks += 1;
            reads.words += 4 * Program::<K>::BLOCK_ROWS as u32;
            let found = scan_block(program.block(block), key);
            if found != u32::MAX {
                best = best.min(found);
                break;
            }
        }
    }
    (Match(best), reads)
}

/// A position in a leaf.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    block: u32,
    end: u32,
    /// Lanes of the block that match and were not returned yet.
    lanes: u8,
    /// The rule of the lowest of them; `u32::MAX` at the end.
    next: u32,
}

impl Cursor {
    /// Moves to the next lane that matches.
    #[inline]
    fn advance<K: Key>(&mut self, program: &Program<K>, key: &K) {
        self.lanes &= self.lanes.wrapping_sub(1);
        while self.lanes == 0 {
            self.block += 1;
            if self.block >= self.end {
                self.next = u32::MAX;
                return;
            }
            self.lanes = match_lanes(program.block(self.block as usize), key);
        }
        let rules = program.block(self.block as usize)[Program::<K>::BLOCK_ROWS - 1];
        // Lanes without a rule have this value, and end the leaf.
        self.next = rules[self.lanes.trailing_zeros() as usize & 7];
    }
}

/// The rules that match a key, in order; see [`crate::Classifier::candidates`].
#[derive(Clone, Debug)]
pub struct Candidates<'a, K: Key> {
    program: &'a Program<K>,
    key: K,
    cursors: [Cursor; TREES_MAX],
    count: usize,
}

impl<'a, K: Key> Candidates<'a, K> {
    pub(crate) fn new(program: &'a Program<K>, key: K) -> Self {
        let mut candidates = Self { program, key, cursors: [Cursor::default(); TREES_MAX], count: 0 };
        for tree in program.trees() {
            let mut at = tree.root;
            while at & LEAF == 0 {
                at = program.words()[child_index(at, key.word((at >> 55) as usize & 7))];
            }
            let (first, count) = leaf_blocks(at);
            if count == 0 {
                continue;
            }
            let (block, end) = (first as u32, (first + count) as u32);
            let lanes = match_lanes(program.block(first), &key);
            let mut cursor = Cursor { block, end, lanes, next: u32::MAX };
            if lanes == 0 {
                cursor.advance(program, &key);
            } else {
                let rules = program.block(first)[Program::<K>::BLOCK_ROWS - 1];
                cursor.next = rules[lanes.trailing_zeros() as usize & 7];
            }
            candidates.cursors[candidates.count] = cursor;
            candidates.count += 1;
        }
        candidates
    }
}

impl<K: Key> Iterator for Candidates<'_, K> {
    type Item = RuleId;

    fn next(&mut self) -> Option<RuleId> {
        let cursor = self.cursors[..self.count].iter_mut().min_by_key(|cursor| cursor.next)?;
        let id = cursor.next;
        if id == u32::MAX {
            return None;
        }
        cursor.advance(self.program, &self.key);
        Some(RuleId(id))
    }
}

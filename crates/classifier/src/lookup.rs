//! Walking one packet with a tally.

use crate::arch::{LEAF, Program, child_index, leaf_blocks, scan_block};
use crate::key::{Key, Match};

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

/// Looks one packet up in plain words, and counts what is read.
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

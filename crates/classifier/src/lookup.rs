//! Classifying a batch, and walking one packet with a tally.

use crate::arch::{FLIGHT, Flight, Kernel, LEAF, Lanes, Program, child_index, leaf_blocks};
use crate::key::{Key, Match};

/// Looks a batch up: a flight of packets at a time, tree by tree.
pub(crate) struct ClassifyBatch<'a, K: Key> {
    pub(crate) program: &'a Program<K>,
    pub(crate) keys: &'a [K],
    pub(crate) out: &'a mut [Match],
}

impl<K: Key> Kernel for ClassifyBatch<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let mut flight = Flight::new();
        for (keys, out) in self.keys.chunks(FLIGHT).zip(self.out.chunks_mut(FLIGHT)) {
            out.fill(Match::NONE);
            let mut entering = [0_u8; FLIGHT];
            for tree in self.program.trees() {
                let mut count = 0;
                for (i, key) in keys.iter().enumerate() {
                    entering[count % FLIGHT] = i as u8;
                    for word in 0..K::WORDS {
                        flight.words[word][count % FLIGHT] = key.word(word);
                    }
                    count += usize::from(out[i].0 > tree.least);
                }
                lanes.descend(self.program, tree.root, &mut flight, count);
                for (&i, &leaf) in entering[..count].iter().zip(&flight.at) {
                    let found = lanes.leaf(self.program, leaf, &keys[usize::from(i)]);
                    let best = &mut out[usize::from(i)].0;
                    *best = found.min(*best);
                }
            }
        }
    }
}

/// What one lookup read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let (first, count) = leaf_blocks(at);
        for block in first..first + count {
            reads.blocks += 1;
            reads.words += 4 * Program::<K>::BLOCK_ROWS as u32;
            let found = crate::arch::scan_block(program.block(block), key);
            if found != u32::MAX {
                best = best.min(found);
                break;
            }
        }
    }
    (Match(best), reads)
}

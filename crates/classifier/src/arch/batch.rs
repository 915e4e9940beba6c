//! Classifying a batch: a flight of packets at a time, tree by tree.
#![expect(unsafe_code, reason = "steps of a walk that starts at the roots of a checked program")]

use super::program::LEAF_STEP;
use super::{Backend, FLIGHT, Flight, Kernel, Lanes, Program, leaf_blocks};
use crate::key::{Key, Match};

/// A batch to look up; there is a place for the match of each key.
pub(crate) struct ClassifyBatch<'a, K: Key> {
    pub(crate) program: &'a Program<K>,
    pub(crate) keys: &'a [K],
    pub(crate) out: &'a mut [Match],
}

impl<K: Key> ClassifyBatch<'_, K> {
    /// Looks the batch up.
    pub(crate) fn run_on(self, backend: Backend) {
        backend.run(self);
    }
}

impl<K: Key> Kernel for ClassifyBatch<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let mut flight = Flight::new();
        let mut entering = [0_u8; FLIGHT];
        for (keys, out) in self.keys.chunks(FLIGHT).zip(self.out.chunks_mut(FLIGHT)) {
            out.fill(Match::NONE);
            for (number, tree) in self.program.trees().iter().enumerate() {
                let mut count = 0;
                if number == 0 {
                    // Nobody has a match yet: all enter.
                    for (i, key) in keys.iter().enumerate() {
                        entering[i] = i as u8;
                        for word in 0..K::WORDS {
                            flight.words[word][i] = key.word(word);
                        }
                    }
                    count = keys.len();
                } else {
                    for (i, (key, found)) in keys.iter().zip(&*out).enumerate() {
                        entering[count % FLIGHT] = i as u8;
                        for word in 0..K::WORDS {
                            flight.words[word][count % FLIGHT] = key.word(word);
                        }
                        count += usize::from(found.0 > tree.least);
                    }
                }
                flight.at[..count].fill(tree.root);
                // SAFETY: all stand at a root of this program; a chunk has at most `FLIGHT` keys.
                unsafe { lanes.descend(self.program, &mut flight, count) };
                // Block by block for all packets that still look: how long one packet's leaf is cannot be guessed, how many
                // packets are left can.
                let mut looking = count;
                while looking > 0 {
                    let mut left = 0;
                    for position in 0..looking {
                        let i = entering[position];
                        let leaf = flight.at[position];
                        let (key, best) = (&keys[usize::from(i)], &mut out[usize::from(i)].0);
                        // SAFETY: `Program::new` holds all blocks of a leaf, of which there is one at least, inside the rows.
                        // What is written back below is a leaf that begins one block later and has one fewer.
                        let found = unsafe { lanes.block(self.program, leaf as u32 as usize, key) };
                        *best = found.min(*best);
                        let rest = leaf.wrapping_sub(LEAF_STEP);
                        flight.at[left] = rest;
                        entering[left] = i;
                        left += usize::from(found == u32::MAX && leaf_blocks(rest).1 > 0);
                    }
                    looking = left;
                }
            }
        }
    }
}

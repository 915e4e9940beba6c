//! Classifying a batch: one flight of packets at a time, tree by tree.
#![expect(unsafe_code, reason = "steps of a walk that starts at the roots of a checked program")]

use super::scalar::leaf_of;
use super::{Backend, FLIGHT, Flight, Kernel, Lanes, Looking, Program, leaf_blocks};
use crate::key::{Key, Match};

/// A batch to look up, with a place for the match of each key.
pub(crate) struct ClassifyBatch<'a, K: Key> {
    pub(crate) program: &'a Program<K>,
    pub(crate) keys: &'a [K],
    pub(crate) out: &'a mut [Match],
}

/// Up to this many keys are not worth a flight.
const FEW: usize = 4;

impl<K: Key> ClassifyBatch<'_, K> {
    /// Looks the batch up.
    pub(crate) fn run_on(self, backend: Backend) {
        backend.run(self);
    }

    /// Looks up one key after another.
    #[inline(always)]
    fn one_by_one<L: Lanes>(self, lanes: L) {
        let rows = self.program.rows();
        for (key, best) in self.keys.iter().zip(self.out) {
            for (tree, root) in self.program.trees().iter().zip(self.program.roots()) {
                if best.0 <= tree.least {
                    continue;
                }
                // SAFETY: the root is one of this program.
                let leaf = unsafe { leaf_of(self.program, root, key) };
                if self.program.is_beyond(leaf, best.0) {
                    continue;
                }
                let (first, count) = leaf_blocks(leaf);
                for block in first..first + count {
                    // SAFETY: `Program::new` holds all blocks of a leaf inside the rows.
                    let found = unsafe { lanes.block(rows, block, key) };
                    if found != u32::MAX {
                        best.0 = best.0.min(found);
                        break;
                    }
                }
            }
        }
    }
}

impl<K: Key> Kernel for ClassifyBatch<'_, K> {
    type Output = ();

    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        let rows = self.program.rows();
        self.out.fill(Match::NONE);
        if self.keys.len() < FEW {
            return self.one_by_one(lanes);
        }
        let mut flight = Flight::EMPTY;
        for (keys, out) in self.keys.chunks(FLIGHT).zip(self.out.chunks_mut(FLIGHT)) {
            for (tree, root) in self.program.trees().iter().zip(self.program.roots()) {
                // SAFETY: a chunk has at most `FLIGHT` keys, and as many places for matches; the
                // root is one of this program.
                let mut looking = unsafe {
                    let count = lanes.enter(self.program, keys, out, tree.least, &mut flight);
                    lanes.descend(self.program, root, &mut flight, count)
                };
                // Process block by block for all packets that still search. The length of one
                // packet's leaf cannot be predicted, but the number of remaining packets can.
                let [mut at, mut later] = flight.at.each_mut();
                while looking > 0 {
                    let mut left = 0;
                    for position in 0..looking {
                        // SAFETY: `descend` writes leaves with blocks at the first `looking`
                        // places, each with the place of one of these keys. `Program::new` holds
                        // all blocks of a leaf inside the rows, and what is written for later has
                        // blocks that are left of these; `left` is not above `position`.
                        unsafe {
                            let leaf = Looking(at.get(position));
                            let place = leaf.place();
                            let found = lanes.block(rows, leaf.block(), keys.get_unchecked(place));
                            let best = &mut out.get_unchecked_mut(place).0;
                            *best = found.min(*best);
                            let next = leaf.next();
                            later.put(left, next.0);
                            left += usize::from((found == u32::MAX) & next.has_blocks());
                        }
                    }
                    core::mem::swap(&mut at, &mut later);
                    looking = left;
                }
            }
        }
    }
}

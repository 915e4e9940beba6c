//! Lookups: as the paper describes them, and in batches.

use flowloom_cpu::prefetch;

use super::Stride;
use super::shape::Accesses;
use super::tree::AggreCuts;
use super::word::{Cut, Decoded, Word};
use crate::key::{Key, KeyV4, Match};
use crate::rule::RuleId;

impl AggreCuts {
    /// Returns the first rule that matches, and the words read. This is the paper's lookup, step by
    /// step.
    pub fn classify(&self, key: &KeyV4) -> (Match, Accesses) {
        step_by_step(self, key)
    }

    /// Returns the first rule that matches, without counting.
    pub fn classify_key(&self, key: &KeyV4) -> Match {
        single(self, key)
    }

    /// Looks up any number of keys, 32 at a time, with their loads in flight together.
    ///
    /// # Panics
    ///
    /// Panics if `matches` and `keys` differ in length.
    pub fn classify_batch(&self, keys: &[KeyV4], matches: &mut [Match]) {
        assert_eq!(keys.len(), matches.len(), "a batch has a place for the match of each key");
        batch(self, keys, matches);
    }
}

/// The lookup of [FLOWNP §3.3], with a count of its reads.
#[expect(clippy::many_single_char_names, reason = "the paper's names")]
fn step_by_step(tree: &AggreCuts, key: &KeyV4) -> (Match, Accesses) {
    let (w, v) = (tree.stride().bits(), 3);
    let u = w - v;
    let mut word = tree.root();
    let mut accesses = Accesses(0);
    // With w = 4: the bytes whose upper half has been cut.
    let mut halved = [false; 13];
    loop {
        let (cut, habs, base) = match word.decode() {
            Decoded::Leaf(rule) => {
                return (rule.map_or(Match::NONE, |rule| Match::from(RuleId(rule))), accesses);
            }
            Decoded::Unused => unreachable!("the builder writes nodes and leaves"),
            Decoded::Node { cut, habs, base } => (cut, habs, base),
        };
        let (dimension, shift) = cut.place();
        let byte = key.dimension(dimension) >> shift & 0xff;
        let n = match tree.stride() {
            Stride::Eight => byte,
            Stride::Four => {
                let place = Cut::ALL.iter().position(|&other| other == cut).expect("there are thirteen");
                let was_halved = core::mem::replace(&mut halved[place], true);
                if was_halved { byte & 15 } else { byte >> 4 }
            }
        };
        // 1) the upper v bits, 2) the lower u bits, 3) the bits 0…m of HABS added up, 4) the
        // pointer.
        let m = n >> u;
        let j = n & ((1 << u) - 1);
        let i = (0..=m).filter(|bit| habs >> bit & 1 == 1).count() as u32 - 1;
        let index = base as usize * tree.stride().block_words() + ((i << u) + j) as usize;
        word = Word(tree.words()[index]);
        accesses.0 += 1;
    }
}

/// Packets in flight.
const FLIGHT: usize = 32;

/// The meaning of the upper four bits of a word for a packet laid out as thirteen bytes: the byte
/// to cut. Leaves are 13.
const BYTE_OF_CODE: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 14, 14, 8, 9, 12, 13, 10, 11];
/// The code of a leaf.
const LEAF: u32 = 0b1101;

/// The same in batches: one level of all packets at a time, prefetching each packet's next word.
fn batch(tree: &AggreCuts, keys: &[KeyV4], matches: &mut [Match]) {
    match tree.stride() {
        Stride::Eight => batch_of::<8>(tree, keys, matches),
        Stride::Four => batch_of::<4>(tree, keys, matches),
    }
}

fn batch_of<const W: u32>(tree: &AggreCuts, keys: &[KeyV4], matches: &mut [Match]) {
    let words = tree.words();
    for (keys, matches) in keys.chunks(FLIGHT).zip(matches.chunks_mut(FLIGHT)) {
        let mut bytes = [[0_u8; 16]; FLIGHT];
        let mut at = [0_usize; FLIGHT];
        let mut halved = [0_u16; FLIGHT];
        let mut walking = [0_u8; FLIGHT];
        let mut left = 0;
        for (packet, key) in keys.iter().enumerate() {
            bytes[packet] = header_bytes(key);
            if tree.root().0 >> 28 == LEAF {
                matches[packet] = leaf(tree.root().0);
            } else {
                at[packet] = next::<W>(tree.root().0, &bytes[packet], &mut halved[packet]);
                prefetch::read_at(words, at[packet]);
                walking[left] = packet as u8;
                left += 1;
            }
        }
        while left > 0 {
            let mut still = 0;
            for position in 0..left {
                let packet = usize::from(walking[position]) % FLIGHT;
                let word = words[at[packet]];
                if word >> 28 == LEAF {
                    matches[packet] = leaf(word);
                } else {
                    at[packet] = next::<W>(word, &bytes[packet], &mut halved[packet]);
                    prefetch::read_at(words, at[packet]);
                    walking[still] = packet as u8;
                    still += 1;
                }
            }
            left = still;
        }
    }
}

/// The same for one packet.
fn single(tree: &AggreCuts, key: &KeyV4) -> Match {
    match tree.stride() {
        Stride::Eight => single_of::<8>(tree, key),
        Stride::Four => single_of::<4>(tree, key),
    }
}

fn single_of<const W: u32>(tree: &AggreCuts, key: &KeyV4) -> Match {
    let (bytes, mut halved, mut word) = (header_bytes(key), 0, tree.root().0);
    while word >> 28 != LEAF {
        word = tree.words()[next::<W>(word, &bytes, &mut halved)];
    }
    leaf(word)
}

fn leaf(word: u32) -> Match {
    match Word(word).decode() {
        Decoded::Leaf(Some(rule)) => Match::from(RuleId(rule)),
        _ => Match::NONE,
    }
}

/// Returns the child to which a node sends a packet.
#[expect(clippy::many_single_char_names, reason = "the paper's names")]
#[inline(always)]
fn next<const W: u32>(word: u32, bytes: &[u8; 16], halved: &mut u16) -> usize {
    let u = W - 3;
    let place = BYTE_OF_CODE[(word >> 28) as usize];
    let byte = u32::from(bytes[usize::from(place & 15)]);
    let n = if W == 8 {
        byte
    } else {
        let shift = if *halved >> place & 1 == 0 { 4 } else { 0 };
        *halved |= 1 << place;
        byte >> shift & 15
    };
    let (m, j) = (n >> u, n & ((1 << u) - 1));
    let habs = word >> 20 & 0xff;
    let i = (habs & ((2 << m) - 1)).count_ones().wrapping_sub(1);
    ((word & 0xf_ffff) as usize) * ((1 << W) / 8) + ((i << u) + j) as usize
}

/// Returns a header's thirteen bytes in the order of [`Cut::ALL`].
fn header_bytes(key: &KeyV4) -> [u8; 16] {
    let addresses = key.word(0).to_be_bytes();
    let ports = key.ports().to_be_bytes();
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&addresses);
    bytes[8..12].copy_from_slice(&ports);
    bytes[12] = key.protocol();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_table_names_the_bytes_that_the_words_name() {
        for (place, cut) in Cut::ALL.into_iter().enumerate() {
            let code = Word::node(cut, 1, 0).0 >> 28;
            assert_eq!(usize::from(BYTE_OF_CODE[code as usize]), place, "{cut:?}");
        }
        let key = KeyV4::new(0x0102_0304, 0x0506_0708, (0x090a, 0x0b0c), 0x0d);
        assert_eq!(header_bytes(&key)[..13], core::array::from_fn::<u8, 13, _>(|i| i as u8 + 1));
    }
}

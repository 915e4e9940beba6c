//! AggreCuts as published [FLOWNP §3].
//!
//! Every node cuts a fixed number w of bits, 8 or 4, and cutting continues until a single rule
//! covers the rest. A lookup therefore reads at most 104/w words and never searches a list. An
//! 8-bit string of differences compresses the pointer arrays.
//!
//! The paper leaves the following open:
//!
//! * Which byte a node cuts: the one with the smallest sum of rules over its distinct children,
//!   then the one whose largest child is smallest, then the first.
//! * With w = 4 the two bits of b2c name a byte, not one of its halves. The upper half is always
//!   cut before the lower one, so a lookup knows from its path which half is meant.
//! * When children are equal: when the same rules meet them in the same way, after removing rules
//!   behind one that covers the child.
//! * Equal sub-trees below one node are stored once. [`Sharing::Everywhere`], which is not in the
//!   paper, stores equal sub-trees anywhere only once.

mod build;
mod shape;
pub mod tree;
mod walk;
pub mod word;

pub use build::{Limits, Sharing};
pub use shape::{Accesses, PointerForms, Shape};
pub use tree::AggreCuts;
pub use word::{Cut, Decoded, Word};

/// The number of bits that a node cuts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stride {
    /// w = 8: 13 words at worst.
    Eight,
    /// w = 4: 26 words at worst.
    Four,
}

impl Stride {
    /// Returns w.
    pub const fn bits(self) -> u32 {
        match self {
            Self::Eight => 8,
            Self::Four => 4,
        }
    }

    /// Returns the maximum number of words that a lookup reads: 104 / w [FLOWNP §3.2].
    pub const fn worst_words(self) -> u32 {
        104 / self.bits()
    }

    /// Returns the number of words in a sub-array, which is also the unit of a base: 2ʷ / 8.
    pub const fn block_words(self) -> usize {
        (1 << self.bits()) / 8
    }
}

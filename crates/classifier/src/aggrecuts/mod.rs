//! AggreCuts as published [FLOWNP §3].
//!
//! Every node cuts a fixed number w of bits, 8 or 4, and cutting goes on until a single rule covers
//! what is left, so that a lookup reads at most 104/w words and never searches a list. Pointer
//! arrays are compressed behind an 8-bit string of differences.
//!
//! What the paper does not say, and what we do:
//!
//! * Which byte a node cuts: the one that leaves the least sum of rules over its distinct children,
//!   then the one whose largest child is least, then the first.
//! * With w = 4 the two bits of b2c name a byte, not one of its halves: the upper half is always
//!   cut before the lower one, so a lookup knows which one is meant from where it has been.
//! * When children are equal: when the same rules lie in them alike, after rules behind one that
//!   covers the child are dropped.
//! * Equal sub-trees below one node are stored once. [`Sharing::Everywhere`], which is ours, stores
//!   equal ones anywhere once.

mod build;
pub mod tree;
mod walk;
pub mod word;

pub use build::{Limits, Sharing};
pub use tree::{Accesses, AggreCuts, PointerForms};
pub use word::{Cut, Decoded, Word};

/// Bits that a node cuts.
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

    /// Returns the most words that a lookup reads: 104 / w [FLOWNP §3.2].
    pub const fn worst_words(self) -> u32 {
        104 / self.bits()
    }

    /// Returns the words of a sub-array, which is also the unit of a base: 2ʷ / 8.
    pub const fn block_words(self) -> usize {
        (1 << self.bits()) / 8
    }
}

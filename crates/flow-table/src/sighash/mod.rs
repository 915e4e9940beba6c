//! `SigHash`: one word of signatures per bucket, states apart [FLOWNP §4].
//!
//! ```text
//!  word i      │ s0 │ s1 │ s2 │ s3 │         four 8-bit signatures, 2ⁿ words: the paper's SRAM
//!                │
//!  state 4·i+j ◀─┘ bin j, by arithmetic      full entries: the paper's DRAM
//!
//!  a fifth flow ─▶ exception list of i, a pool behind it
//! ```
//!
//! An 8-bit signature is wrong about an absent flow in one lookup out of a hundred or so: keys are
//! compared always, or flows would merge.
//!
//! * [`layout`]: the word, bin ↔ state.
//! * [`mod@reference`]: bin by bin, counting accesses.
//! * [`table`]: the one to use.

pub mod layout;
pub mod reference;
pub mod table;

pub use reference::ReferenceSigHash;
pub use table::{SigHash, SigHashConfig};

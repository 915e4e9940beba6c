//! `SigHash`: one word of signatures per bucket, with the states elsewhere [FLOWNP §4].
//!
//! ```text
//!  word i      │ s0 │ s1 │ s2 │ s3 │         four 8-bit signatures, 2ⁿ words: the paper's SRAM
//!                │
//!  state 4·i+j ◀─┘ bin j, by arithmetic      full entries: the paper's DRAM
//!
//!  a fifth flow ─▶ exception list of i, a pool behind it
//! ```
//!
//! An 8-bit signature gives a false match for an absent flow in about one lookup in a hundred, so
//! keys are always compared; otherwise flows would merge.
//!
//! * [`layout`]: the word, bin ↔ state.
//! * [`mod@reference`]: bin by bin, with counts of accesses.
//! * [`table`]: the production table.

pub mod layout;
pub mod reference;
pub mod table;

pub use reference::ReferenceSigHash;
pub use table::SigHash;

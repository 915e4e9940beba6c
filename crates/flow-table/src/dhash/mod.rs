//! DHash: signatures on a line, states elsewhere, no pointers between them [DHASH §III].
//!
//! ```text
//!  bucket i      │ s0 │ s1 │ s2 │ … │ s15 │        sixteen 32-bit signatures, one cache line
//!                  │
//!  state 16·i+j  ◀─┘ slot j, by arithmetic
//!
//!  conflict list of i ─▶ (signature, state 16·N + p) ─▶ …       when all sixteen are taken
//! ```
//!
//! * [`layout`]: the bucket, slot ↔ state.
//! * [`signature`]: four algorithms of the paper, and the caller's keyed hash.
//! * [`major_location`]: the preferred slot of a signature in its bucket.
//! * [`mod@reference`]: the paper's procedures, slot by slot, with counts.
//! * [`table`]: the production table.

pub mod layout;
pub mod major_location;
pub mod reference;
pub mod signature;
pub mod table;

pub use reference::ReferenceDHash;
pub use table::DHash;

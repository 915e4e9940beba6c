//! From a flow's key to its state.
//!
//! ```text
//!  key, hash ──▶ index: signatures, a line per bucket ──▶ slot ──▶ state: key, time, value
//!                (each table its own)                              (shared: ids, ageing, eviction)
//! ```
//!
//! * [`FlowTable`] is the seam: what every table does.
//! * [`LineHash`] is the table to use; as [`FlowIndex`] it gives ids and keeps no values.
//! * [`DHash`] is the table of [DHASH §III], for production; [`dhash::reference`] is its letter.
//! * [`SigHash`] is the table of [FLOWNP §4], for production; [`sighash::reference`] is its letter.
//! * [`baseline`] has the lists that the papers compare with.
//! * [`evict`] makes room in a full table, by the caller's policy.
//! * [`Growing`] lets any table grow without moving a flow, and turn to another hash while it is in use.
//! * [`Indexed`] is how a table is made: it brings the index, the rest is here.
//! * `oracle` and `laws` are the truth and the suite that hold every implementation.
//!
//! No table hashes, reads a clock, allocates after it is built (but [`Growing`], when it grows or turns), or
//! panics on what a packet brings.
//!
//! # Features
//!
//! * `std` (default): run-time detection of instruction sets, huge pages, `oracle` and `laws`. Without
//!   it the crate is `no_std` with `alloc`.
#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

mod arch;
pub mod baseline;
pub mod dhash;
pub mod error;
pub mod evict;
pub mod indexed;
#[cfg(feature = "std")]
pub mod laws;
pub mod linehash;
#[cfg(feature = "std")]
pub mod oracle;
pub mod probe;
pub mod segments;
pub mod sighash;
pub mod state;
pub mod table;

pub use flowloom_cpu::{features::Isa, pages::HugePages};
pub use flowloom_flow_key::{FlowHasher, FlowKey};

pub use baseline::{Chained, ChainedConfig, DirectHash, DirectHashConfig};
pub use dhash::{DHash, DHashConfig};
pub use error::BuildError;
pub use indexed::Indexed;
pub use linehash::{FlowIndex, LineHash, LineHashConfig};
pub use segments::Growing;
pub use sighash::{SigHash, SigHashConfig};
pub use state::Timeouts;
pub use table::{
    Cursor, Entry, Expired, FlowId, FlowTable, Full, FullReason, MemoryReport, TableKey, TableStats, Tick,
    TimeoutClass,
};

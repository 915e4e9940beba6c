//! The sharded layout: each worker processes one part of the input and shares nothing; the engine
//! composes the results.
//!
//! ```text
//!  part 1 ─ inline ─┐
//!  part 2 ─ inline ─┼─ confirm the cuts ─ compose flows ─▶ one report
//!  part N ─ inline ─┘
//! ```
//!
//! The result equals that of one thread over the whole input; otherwise the engine refuses the
//! layout.
//!
//! * The engine reads a part again from the true state if its reader did not begin where the
//!   previous part ended, or if its first packet is older than the latest packet before it.
//! * The engine composes a flow that occurs on both sides of a cut
//!   ([`FlowState::compose`](crate::FlowState::compose)). If the summaries do not suffice, the
//!   engine processes the packets of the later part again from the state at the cut.

pub(crate) mod parts;

pub(crate) mod compose;
pub(crate) mod context;
pub(crate) mod hashes;
pub(crate) mod reprocess;
pub(crate) mod run;
pub(crate) mod saved;

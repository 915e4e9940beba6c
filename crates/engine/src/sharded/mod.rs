//! The sharded layout: workers that share nothing process one part of the input each, and the
//! engine composes the results.
//!
//! ```text
//!  part 1 ─ inline ─┐
//!  part 2 ─ inline ─┼─ confirm the cuts ─ compose flows ─▶ one report
//!  part N ─ inline ─┘
//! ```
//!
//! The result equals that of one thread over the whole input, or the engine refuses the layout.
//!
//! * A part is read again from the true state if its reader did not begin where the part before
//!   ended, or if its first packet is older than the latest packet before it.
//! * A flow that both sides of a cut know is composed
//!   ([`FlowState::compose`](crate::FlowState::compose)). If the summaries do not suffice, its
//!   packets in the later part are processed again from the state at the cut.

pub(crate) mod parts;

pub(crate) mod compose;
pub(crate) mod hashes;
pub(crate) mod reprocess;
pub(crate) mod run;
pub(crate) mod saved;

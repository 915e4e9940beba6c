//! The sharded layout: workers that share nothing, each on its own part of the input, composed at the end.
//!
//! ```text
//!  part 1 ─ inline ─┐
//!  part 2 ─ inline ─┼─ confirm the cuts ─ compose flows ─▶ one report
//!  part N ─ inline ─┘
//! ```
//!
//! The result is that of one thread over the whole input: exactly, or the layout is refused.
//!
//! * A part whose reader did not begin where the part before ended, or whose first packet is older than the latest one
//!   before it, is read again from the true state.
//! * A flow that both sides of a cut know is composed ([`FlowState::compose`](crate::FlowState::compose)); one whose
//!   summaries do not suffice is processed again in the later part, from the state it had at the cut.

pub(crate) mod parts;

pub(crate) mod compose;
pub(crate) mod reprocess;
pub(crate) mod run;
pub(crate) mod saved;

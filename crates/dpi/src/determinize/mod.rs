//! The subset construction: turns a nondeterministic automaton into a deterministic one.
//!
//! A group of expressions is in few states at once, and these distinguish few bytes. The builder
//! therefore takes one step per run of bytes that the present subset treats alike, rather than one
//! step per class of bytes that any state distinguishes. In addition:
//!
//! - A subset has no order, because the numbers of the patterns give the priority.
//! - Once a pattern has matched, states that can only find patterns of lower priority are omitted.
//! - A match is known on entering a state; it is known one byte later only if an assertion depends
//!   on the next byte.
//!
//! | file | what it is |
//! |---|---|
//! | [`nodes`] | the automaton that is in many states at once |
//! | [`draft`] | one subset while it is put together; assertions |
//! | [`runs`] | the bytes that a subset takes for one |
//! | [`subsets`] | all subsets, step by step, within bounds |

mod bytes;
mod draft;
mod nodes;
mod runs;
mod subsets;

pub(crate) use subsets::{Shape, Step, Subsets};

/// The automaton exceeds its size limit or the limit of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

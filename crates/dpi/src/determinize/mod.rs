//! From an automaton that is in many states at once to one that is in one: the construction of
//! subsets.
//!
//! A group of expressions is in few states at once, and these distinguish few bytes. So the builder
//! takes one step for each run of bytes that the present subset treats alike, not one for each
//! class of bytes that some state distinguishes. Besides,
//!
//! - a subset has no order, since the numbers of the patterns give the priority;
//! - once a pattern has matched, states that can only find worse ones are left out;
//! - a match is known on entering a state, and a byte later only if an assertion depends on the
//!   next byte.
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

/// The automaton is larger than it may be, or no step is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge;

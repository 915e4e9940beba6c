//! FlowCuts: trees of windows, with leaves that compare whole rules.
//!
//! What it has from AggreCuts [FLOWNP §3.3]: nodes of one word and pointer arrays behind an
//! aggregation string. What is its own: a node cuts a *window*, any adjacent bits of a dimension,
//! wherever they tell rules apart best; leaves hold blocks of eight rules that are compared at
//! once, so that whatever all rules of a list agree on need not be looked at on the way; equal
//! sub-trees, arrays and leaves are stored once; rules are split by the lengths of their prefixes
//! into at most four trees, and how is found out by trying.

mod cell;
pub mod plan;
pub(crate) mod tree;
pub(crate) mod tune;
mod window;

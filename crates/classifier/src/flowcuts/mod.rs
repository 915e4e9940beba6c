//! FlowCuts: trees of windows, with leaves that compare whole rules.
//!
//! From AggreCuts it takes one-word nodes, and pointer arrays compressed by an aggregation string
//! [FLOWNP §3.3]. In addition, a node cuts a *window*: any adjacent bits of a dimension, wherever
//! they separate rules best. Leaves contain blocks of eight rules that are compared at once, so a
//! path need not examine what all rules of a list agree on. Equal sub-trees, arrays and leaves are
//! stored once. Rules are split by the lengths of their prefixes into at most four trees; the
//! builder tries several splits.

mod cell;
pub mod plan;
pub(crate) mod tree;
pub(crate) mod tune;
mod window;

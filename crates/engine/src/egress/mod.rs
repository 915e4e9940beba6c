//! What leaves: accepted packets, in the order that was promised, and records of ended flows.

pub(crate) mod records;
pub(crate) mod reorder;

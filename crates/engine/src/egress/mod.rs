//! The output side: accepted packets in the guaranteed order, and records of ended flows.

pub(crate) mod prepare;
pub(crate) mod records;
pub(crate) mod reorder;

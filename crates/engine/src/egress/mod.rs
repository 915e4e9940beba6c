//! What leaves: accepted packets, in the order that was promised, to a sink.

pub(crate) mod reorder;

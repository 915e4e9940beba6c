//! Packets on their way through the pipeline: descriptors, and the batches that carry them.

pub(crate) mod packet;
pub(crate) mod pool;

//! Packets on their way through the pipeline: descriptors, and the batches that hold them.

pub(crate) mod packet;
pub(crate) mod pool;

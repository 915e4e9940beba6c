//! Packet descriptors in the pipeline, and the batches that hold them.

pub(crate) mod packet;
pub(crate) mod pool;

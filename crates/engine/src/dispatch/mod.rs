//! The input side of the pipeline layout: one thread reads, decodes and dispatches packets to
//! workers.
//!
//! | module | holds |
//! | --- | --- |
//! | [`stage`] | the input stage: batches from the reader, decoded and dispatched in order |
//! | [`push`] | a placement policy picks the worker of each packet |
//! | [`pull`] | workers fetch packets from one pool by a pull policy |
//! | [`ring`] | the single-producer ring to each worker |
//! | [`policy`] | a borrowed policy of either kind |
//! | [`sequencer`] | packets of a shard processed in arrival order by any workers |
//! | [`progress`] | what a worker has completed |

pub(crate) mod policy;
pub(crate) mod progress;
pub(crate) mod pull;
pub(crate) mod push;
pub(crate) mod ring;
pub(crate) mod sequencer;
pub(crate) mod stage;

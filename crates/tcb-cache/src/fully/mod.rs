//! Fully associative caches: rivals that pay no heed to banks and sets.
//!
//! Hardware for hundreds of lines would not be fully associative; software caches are, and they
//! bound what better hashing could gain. Each policy has a file; all are queues of keys over
//! [`queues`].

pub(crate) mod arc;
mod cache;
pub(crate) mod clock;
pub(crate) mod fifo;
pub(crate) mod key_map;
pub(crate) mod lirs;
pub(crate) mod lru;
pub(crate) mod queues;
pub(crate) mod s3_fifo;
pub(crate) mod sieve;
pub(crate) mod sketch;
pub(crate) mod two_q;
pub(crate) mod w_tiny_lfu;

pub(crate) use cache::{Eviction, Full, FullCache};

//! Fully associative caches, as competitors that ignore banks and sets.
//!
//! Hardware for hundreds of lines would not be fully associative, but software caches are, and they
//! limit what better hashing could gain. Each policy is in a separate file; all are queues of keys
//! based on [`queues`].

pub(crate) mod arc;
mod cache;
pub(crate) mod clock;
pub(crate) mod fifo;
pub(crate) mod key_map;
pub(crate) mod lirs;
pub(crate) mod lru;
pub(crate) mod one_queue;
pub(crate) mod queues;
pub(crate) mod s3_fifo;
pub(crate) mod sieve;
pub(crate) mod sketch;
pub(crate) mod two_q;
pub(crate) mod w_tiny_lfu;

pub(crate) use cache::{Eviction, Full, FullCache};

//! Benchmarks: the program of `cargo xtask peers`, and code that the criterion benches
//! share.
//!
//! | module | holds |
//! | --- | --- |
//! | [`input`] | the capture that is worked on: given, unpacked or generated |
//! | [`looped`] | a capture without end, cut into rounds of the same packets |
//! | [`walk`] | the packet path up to the hash, and the copy it is held against |
//! | [`engine`] | the engine over a round |
//! | [`ring`] | moving descriptors between two threads, both sides apart |
//! | [`answers`] | answers, compared before any time is looked at |
//! | [`goal`] | comparisons that have something to reach |
//! | [`classify`] | the classifier and its rivals |
//! | [`maps`] | maps of one thread and their rivals |
//! | [`concurrent`] | maps that threads share and their rivals |
//! | [`users`] | the flow tables of a virtual switch and of a proxy, on our tables and on theirs |
//! | [`tables`] | flow tables and their rivals |
//! | [`l7`] | the L7 filter and vectorscan, and its labels compared with those of tshark |
//! | [`caches`] | simulated caches and libCacheSim |
//! | [`peers`] | the rivals, a file each |
//! | [`sharded`] | whole programs in all layouts, compared with two independent programs |
//! | [`partitions`] | whether results depend on how threads divide an input |
//! | [`pauses`] | the longest times of single operations of maps |
//! | [`soak`] | the engine over very many packets |
//! | [`replay`] | all of these in one interleaved run |

pub use flowloom_measure::path::{input, looped, walk};

pub mod answers;
pub mod caches;
pub mod classify;
pub mod concurrent;
pub mod engine;
pub mod frames;
pub mod goal;
pub mod l7;
#[cfg(feature = "libpcap")]
pub mod libpcap;
pub mod maps;
pub mod partitions;
pub mod pauses;
pub mod peers;
pub mod replay;
pub mod ring;
pub mod sharded;
pub mod soak;
pub mod tables;
pub mod users;

//! A machine in virtual time: what a policy does to throughput, order and latency on 64 threads, on any computer.
//!
//! ```text
//!  jobs ─▶ dispatcher ─┬─▶ queue ─▶ thread ┐ pipeline: its running     ┐ core: its cache
//!    serial, in        ├─▶ queue ─▶ thread ┘ threads share its speed   ┘
//!    batches           ⋮                                               what is completed is told a chunk late
//! ```
//!
//! The policies are those that run in the engine, asked as the engine asks: batch by batch, with counters that lag.
//! Time is counted in 1/256 of a cycle and nothing is random, so a run repeats to the last digit on any machine. As a
//! model it is only as good as [`Machine`]'s costs; it ranks schemes, it does not predict a throughput.
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine`] | topology, costs and bounds of the machine |
//! | [`workload`] | jobs, where they come from, what they must take at least |
//! | [`models`] | traffic fitted to the papers' captures, Zipf, bursts, elephants, an attack |
//! | [`push()`], [`pull()`] | runs a [`crate::Placement`], an [`crate::Intake`] |
//! | [`ordering`] | external order: threads in turn, a lock per flow |
//! | [`schemes`] | every scheduler by name |
//! | [`report`] | what came of it |

mod cache;
mod events;
pub mod histogram;
pub mod machine;
pub mod models;

pub mod ordering;
pub mod pull;
pub mod push;
pub mod report;
pub mod schemes;
mod servers;
mod threads;
pub mod workload;

pub use machine::{Machine, WhenFull};

pub use ordering::{ExternalOrder, OrderingReport};
pub use pull::pull;
pub use push::push;
pub use report::Report;
pub use schemes::{Offered, Scheme};
pub use workload::{Job, Pace, Workload};

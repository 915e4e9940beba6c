//! Simulates a machine in virtual time, to show how a policy affects throughput, order and latency
//! on 64 threads, on any host.
//!
//! ```text
//!  jobs ─▶ dispatcher ─┬─▶ queue ─▶ thread ┐ pipeline: its running     ┐ core: its cache
//!    serial, in        ├─▶ queue ─▶ thread ┘ threads share its speed   ┘
//!    batches           ⋮                              completions are reported a chunk late
//! ```
//!
//! The policies are those that the engine runs, called in the same way: batch by batch, with
//! counters that lag. Time advances in steps of 1/256 of a cycle, and nothing is random, so a run
//! gives exactly the same result on every machine. The model is only as accurate as the costs of
//! [`Machine`]. It ranks schemes and does not predict throughput.
//!
//! | module | holds |
//! | --- | --- |
//! | [`machine`] | topology, costs and bounds of the machine |
//! | [`workload`] | jobs, where they come from, what they must take at least |
//! | [`models`] | traffic fitted to the papers' captures, Zipf, bursts, elephants, an attack |
//! | [`push()`], [`pull()`] | runs a [`crate::Placement`], an [`crate::PullPolicy`] |
//! | [`ordering`] | external order: threads in turn, a lock per flow |
//! | [`schemes`] | runs a scheme of the [registry](crate::registry) |
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

pub use ordering::{Exit, ExternalOrder, OrderingReport};
pub use pull::pull;
pub use push::push;
pub use report::Report;
pub use schemes::Offered;
pub use workload::{Job, Pace, Workload};

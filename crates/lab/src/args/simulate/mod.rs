//! `flowloom simulate`: one file per model.

pub mod ordering;
pub mod schedule;
pub mod tcb_cache;
pub mod traffic;

use clap::Subcommand;

/// What to simulate in virtual time.
#[derive(Clone, Debug, Subcommand)]
pub enum Simulate {
    /// Schedulers on a machine with many threads: throughput, order, races, latency, utilisation
    Schedule(Box<schedule::Schedule>),
    /// The cost of keeping order: queues per thread compared with round robin and reordering
    Ordering(Box<ordering::Ordering>),
    /// A small cache of connection state, driven by a log, a trace, a capture or a model
    TcbCache(Box<tcb_cache::TcbCache>),
}

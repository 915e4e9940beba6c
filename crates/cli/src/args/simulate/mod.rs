//! `flowloom simulate`: one file per model.

pub(crate) mod ordering;
pub(crate) mod schedule;
pub(crate) mod tcb_cache;
pub(crate) mod traffic;

use clap::Subcommand;

/// What to simulate in virtual time.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Simulate {
    /// Schedulers on a machine with many threads: throughput, order, races, latency, utilisation
    Schedule(Box<schedule::Schedule>),
    /// The cost of keeping order: queues per thread compared with round robin and reordering
    Ordering(Box<ordering::Ordering>),
    /// A small cache of connection state, driven by a log, a trace, a capture or a model
    TcbCache(Box<tcb_cache::TcbCache>),
}

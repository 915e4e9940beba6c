//! `flowloom simulate`, a file per model.

pub(crate) mod ordering;
pub(crate) mod schedule;
pub(crate) mod tcb_cache;
pub(crate) mod traffic;

use clap::Subcommand;

/// What to run in virtual time.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Simulate {
    /// Schedulers on a machine of many threads: throughput, order, races, latency, use of each
    /// level
    Schedule(Box<schedule::Schedule>),
    /// What keeping order costs: queues per flow against threads in turn
    Ordering(Box<ordering::Ordering>),
    /// A small cache of connection state, over a log, a trace, a capture or a model
    TcbCache(Box<tcb_cache::TcbCache>),
}

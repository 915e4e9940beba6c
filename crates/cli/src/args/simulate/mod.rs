//! `flowloom simulate`.

pub(crate) mod tcb_cache;

use clap::Subcommand;

/// What to simulate.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Simulate {
    /// A small cache of connection state, over a log, a trace, a capture or a model
    TcbCache(Box<tcb_cache::TcbCache>),
}

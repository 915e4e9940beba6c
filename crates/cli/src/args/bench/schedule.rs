//! Arguments of `bench schedule`.

use clap::Args;

use crate::args::parse;
use crate::args::save::Save;

/// Compare what decisions cost.
///
/// Packets of skewed flows are placed batch by batch, with counters as the engine keeps them; a
/// packet is completed 256 packets after it was placed. `lower bound` is that bookkeeping without a
/// decision, and is in every other row.
#[derive(Debug, Args)]
pub(crate) struct Schedule {
    /// Policies, the first against the others; `hrw-flat` and `hrw3-tree` compute each time what
    /// hrw and hrw3 remember
    #[arg(
        long = "scheduler",
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "flowpin,dh,rss++,hrw-flat,hrw,hrw3-tree,hrw3,adaptive,fbs,p2c,fixed,minload"
    )]
    pub(crate) schedulers: Vec<String>,

    /// Sockets, cores, pipelines, threads
    #[arg(long, value_delimiter = ';', value_name = "TREE;…", default_values = ["8x2x4"])]
    pub(crate) topology: Vec<String>,

    /// Flows
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "20k")]
    pub(crate) flows: u64,

    /// Packets placed at once
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "32")]
    pub(crate) batch: u64,

    /// Rounds; fewer than six are too few to say
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub(crate) rounds: usize,

    /// Seed of flows and hashes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) save: Save,
}

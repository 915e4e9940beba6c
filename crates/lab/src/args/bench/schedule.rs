//! Arguments of `bench schedule`.

use clap::Args;

use crate::args::parse;
use crate::args::save::Save;

/// Compare the cost of scheduling decisions.
///
/// The policy places packets of flows with skewed popularity, batch by batch, with the counters
/// that the engine keeps. A packet is completed 256 packets after its placement. `lower bound` is
/// this bookkeeping without a decision; every other row includes it.
#[derive(Debug, Args)]
pub struct Schedule {
    /// Policies; the first is compared with the others. `hrw-flat` and `hrw3-tree` compute for each
    /// packet what hrw and hrw3 cache
    #[arg(
        long = "scheduler",
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "flowpin,dh,rss++,hrw-flat,hrw,hrw3-tree,hrw3,adaptive,fbs,p2c,fixed,minload"
    )]
    pub schedulers: Vec<String>,

    /// Topology: sockets, cores, pipelines, threads
    #[arg(long, value_delimiter = ';', value_name = "TREE;…", default_values = ["8x2x4"])]
    pub topology: Vec<String>,

    /// Number of flows
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "20k")]
    pub flows: u64,

    /// Packets placed per batch
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "32")]
    pub batch: u64,

    /// Rounds; fewer than six give no interval
    #[arg(long, value_name = "N", default_value_t = 15, value_parser = parse::whole::<usize>)]
    pub rounds: usize,

    /// Seed for flows and hashes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,

    #[command(flatten)]
    pub save: Save,
}

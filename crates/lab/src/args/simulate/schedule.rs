//! `flowloom simulate schedule`.

use clap::{ArgGroup, Args, ValueEnum};
use flowloom::scheduler::placement::adaptive::Threshold;

use super::traffic::TrafficOptions;
use crate::args::parse;
use crate::args::save::Save;

/// Run schedulers on a simulated machine in virtual time.
///
/// The policies are those of the engine. The machine is a model, so its figures rank schedulers and
/// do not predict throughput.
#[derive(Clone, Debug, Args)]
// Not required, because `--scheduler list` needs no traffic.
#[command(group(ArgGroup::new("traffic_from")))]
#[command(override_usage = "flowloom simulate schedule [OPTIONS] <FILE|--model <NAME>>")]
#[command(after_help = "\
Examples:
  flowloom simulate schedule --model dominant --topology 8
  flowloom simulate schedule --model l7-elephant --machine niagara --scheduler hrw,adaptive,flowpin,flowpull
  flowloom simulate schedule edge.pcap --topology 8x2x4 --load 80 --save charts")]
pub struct Schedule {
    #[command(flatten)]
    pub traffic: TrafficOptions,

    /// Schedulers, comma-separated; `all`, or `list` to list them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "dh,hrw3,fbs,ph,lfb,p2c,flowpin,flowpull",
        value_name = "NAMES"
    )]
    pub scheduler: Vec<String>,

    /// With the adaptive schedulers: percentage of the shortest queue by which the queue that the
    /// hash chooses may be longer; 0 for the shortest queue always, `none` for the hash alone
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = parse::threshold)]
    pub threshold: Threshold,

    /// Machine whose costs and caches to model
    #[arg(long, value_enum, default_value_t = MachineName::Xeon)]
    pub machine: MachineName,

    /// Sockets, cores, pipelines, threads, for example 8x2x4; ,-0 removes thread 0, ,5=50 halves
    /// the speed of thread 5; `host` for this machine [default: 8; for niagara 8x2x4,-0]
    #[arg(long, value_name = "TREE")]
    pub topology: Option<String>,

    /// Packets arrive at random at this percentage of the machine's capacity [default: as fast as
    /// they are accepted]
    #[arg(long, value_name = "PERCENT", value_parser = parse::within(1..=1000_u32))]
    pub load: Option<u32>,

    /// Packets arrive in waves: in a fifth of each 2 ms at 2.5 times the mean rate
    #[arg(long, requires = "load")]
    pub waves: bool,

    /// Maximum packets that wait for one worker [default: no limit; for niagara 16]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub queue: Option<u32>,

    /// If a queue is full: wait, or drop the packet
    #[arg(long, value_enum, default_value_t = FullName::Block)]
    pub full: FullName,

    /// Maximum packets in the machine [default: 4096; for niagara no limit]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub pool: Option<u32>,

    /// Percentage of a pipeline that one thread can use; at 25, four threads do not slow each other
    /// down
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = parse::within(1..=100_u32))]
    pub demand: u32,

    /// Cycles for which a worker of `scr` updates its states by a packet of another worker
    #[arg(long, value_name = "CYCLES", default_value_t = 30, value_parser = parse::whole::<u32>)]
    pub replay_cycles: u32,

    #[command(flatten)]
    pub save: Save,
}

/// Machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum MachineName {
    /// Eight cores at 2.53 GHz
    Xeon,
    /// Eight cores, sixteen pipelines, 64 threads at 1.2 GHz; thread 0 dispatches
    Niagara,
}

/// Behaviour when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FullName {
    Block,
    Drop,
}

//! `flowloom simulate schedule`.

use clap::{ArgGroup, Args, ValueEnum};

use super::traffic::TrafficOptions;
use crate::args::parse;
use crate::args::save::Save;

/// Run schedulers on a machine in virtual time.
///
/// The policies are those of the engine; the machine is a model, so its figures rank schedulers and
/// predict no throughput.
#[derive(Clone, Debug, Args)]
// Not required: a list of schedulers needs no traffic.
#[command(group(ArgGroup::new("traffic_from")))]
#[command(override_usage = "flowloom simulate schedule [OPTIONS] <FILE|--model <NAME>>")]
#[command(after_help = "\
Examples:
  flowloom simulate schedule --model dominant --topology 8
  flowloom simulate schedule --model l7-elephant --machine niagara --scheduler hrw,adaptive,flowpin,flowpull
  flowloom simulate schedule edge.pcap --topology 8x2x4 --load 80 --save charts")]
pub(crate) struct Schedule {
    #[command(flatten)]
    pub(crate) traffic: TrafficOptions,

    /// Schedulers, by comma; `all`, or `list` to see them
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "dh,hrw3,fbs,ph,lfb,p2c,flowpin,flowpull",
        value_name = "NAMES"
    )]
    pub(crate) scheduler: Vec<String>,

    /// Costs and caches of which machine
    #[arg(long, value_enum, default_value_t = MachineName::Xeon)]
    pub(crate) machine: MachineName,

    /// Sockets, cores, pipelines, threads, as in 8x2x4; ,-0 takes thread 0 out, ,5=50 halves thread
    /// 5; `host` for this machine [default: 8, of niagara 8x2x4,-0]
    #[arg(long, value_name = "TREE")]
    pub(crate) topology: Option<String>,

    /// Packets arrive by chance at this percentage of what the machine can do [default: as fast as
    /// they are taken]
    #[arg(long, value_name = "PERCENT", value_parser = parse::within(1..=1000_u32))]
    pub(crate) load: Option<u32>,

    /// Arrivals in waves: a fifth of each 2 ms at 2.5 times the mean rate
    #[arg(long, requires = "load")]
    pub(crate) waves: bool,

    /// Packets that wait for one worker at most [default: no bound, of niagara 16]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub(crate) queue: Option<u32>,

    /// When a queue is full: the dispatcher waits, or drops the packet
    #[arg(long, value_enum, default_value_t = FullName::Block)]
    pub(crate) full: FullName,

    /// Packets in the machine at most [default: 4096, of niagara no bound]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u32>)]
    pub(crate) pool: Option<u32>,

    /// Percentage of a pipeline that one thread can use: at 25, four do not slow each other
    #[arg(long, value_name = "PERCENT", default_value_t = 100, value_parser = parse::within(1..=100_u32))]
    pub(crate) demand: u32,

    #[command(flatten)]
    pub(crate) save: Save,
}

/// Machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MachineName {
    /// Eight cores of 2.53 GHz
    Xeon,
    /// Eight cores, sixteen pipelines, 64 threads of 1.2 GHz; thread 0 dispatches
    Niagara,
}

/// What to do when a queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FullName {
    Block,
    Drop,
}

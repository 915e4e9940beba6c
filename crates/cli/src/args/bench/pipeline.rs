//! Arguments of `bench pipeline`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::rules::FileOptions;
use crate::args::save::Save;
use crate::args::scheduler::SchedulerName;

/// Measures the packet path: what each stage costs, how it scales over workers, how late packets
/// are.
#[derive(Debug, Args)]
pub(crate) struct Pipeline {
    /// Capture to work on; .zst is unpacked first [default: a generated one]
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// What the workers do with packets
    #[arg(long, value_enum, default_value_t = PathApp::TcpTracker)]
    pub(crate) app: PathApp,

    /// Rules of --app firewall, as `replay` reads them [default: a thousand, generated]
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    /// Who gets a packet
    #[arg(long, value_enum, default_value_t)]
    pub(crate) scheduler: SchedulerName,

    /// Numbers of workers [default: 1, 2, 4 and so on, as far as there are CPUs beside the input's,
    /// at least 1 and 2]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::whole::<usize>)]
    pub(crate) workers: Vec<usize>,

    /// Rates of the latency part, in percent of what a layout manages without a pace
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…", default_values_t = [10_u32, 50, 80, 95], value_parser = parse::whole::<u32>)]
    pub(crate) rates: Vec<u32>,

    /// Packets a round, at least; whole passes over the capture
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "800k")]
    pub(crate) packets: u64,

    /// Rounds; fewer than six are too few to say
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = parse::whole::<usize>)]
    pub(crate) rounds: usize,

    /// Do not pin threads to CPUs
    #[arg(long)]
    pub(crate) no_pin: bool,

    #[command(flatten)]
    pub(crate) save: Save,
}

/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PathApp {
    /// Nothing: the cost of everything else
    Null,
    /// Packets, bytes, times, flags and TCP state per flow
    TcpTracker,
    /// Verdicts of --rules, kept per flow
    Firewall,
    /// Records with a beginning, an end and the reason for it
    Accounting,
    /// The protocol's name, by patterns over the first bytes of each direction
    L7,
}

//! Arguments of `bench pipeline`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::rules::FileOptions;
use crate::args::save::Save;
use crate::args::scheduler::SchedulerName;

/// Measure the packet path: the cost of each stage, scaling over workers, and packet latency.
#[derive(Debug, Args)]
pub struct Pipeline {
    /// Capture to read; .zst is decompressed first [default: a generated capture]
    #[arg(value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Application that the workers run
    #[arg(long, value_enum, default_value_t = PathApp::TcpTracker)]
    pub app: PathApp,

    /// Rules for --app firewall, as `replay` reads them [default: 1,000 generated rules]
    #[arg(long, value_name = "RULES")]
    pub rules: Option<PathBuf>,

    #[command(flatten)]
    pub file: FileOptions,

    /// Policy that chooses the worker of a packet
    #[arg(long, value_enum, default_value_t)]
    pub scheduler: SchedulerName,

    /// Numbers of workers [default: 1, 2, 4, …, up to the CPUs that the input thread leaves free,
    /// and at least 1 and 2]
    #[arg(long, value_delimiter = ',', value_name = "N,…", value_parser = parse::whole::<usize>)]
    pub workers: Vec<usize>,

    /// Rates for the latency part, in percent of the maximum rate of a layout
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…", default_values_t = [10_u32, 50, 80, 95], value_parser = parse::whole::<u32>)]
    pub rates: Vec<u32>,

    /// Minimum packets per round, in whole passes over the capture
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "800k")]
    pub packets: u64,

    /// Rounds; fewer than six give no interval
    #[arg(long, value_name = "N", default_value_t = 9, value_parser = parse::whole::<usize>)]
    pub rounds: usize,

    /// Do not pin threads to CPUs
    #[arg(long)]
    pub no_pin: bool,

    #[command(flatten)]
    pub save: Save,
}

/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PathApp {
    /// No work: measures everything else
    Null,
    /// Packets, bytes, times, flags and TCP state per flow
    TcpTracker,
    /// Verdicts of --rules, kept per flow
    Firewall,
    /// Records with start, end and end reason
    Accounting,
    /// Protocol labels, from patterns over the first bytes of each direction
    L7,
}

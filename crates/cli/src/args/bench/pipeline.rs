//! Arguments of `bench pipeline`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::args::parse;
use crate::args::replay::SchedulerName;
use crate::args::save::Save;

/// Measure the packet path: what each stage costs, how it scales over workers, how late packets are.
///
/// Stages are timed by the processor time of one thread, scaling by the wall. Latency is open loop: every packet is due at
/// a time that does not move, and its latency counts from there, so a pause is charged to all that were due in it.
///
/// Threads that work together depend on how far apart their CPUs are, and the host of a virtual machine may move these. So a cache line is timed
/// between them (to the furthest and back) before the first round of scaling and after each: where it is near in some rounds and at
/// least twice as far in others, either kind has rows of its own, and a round in which it changed is counted and has none.
#[derive(Debug, Args)]
pub(crate) struct Pipeline {
    /// Capture to work on; .zst is unpacked first [default: a generated one]
    #[arg(value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,

    /// What the workers do with packets
    #[arg(long, value_enum, default_value_t = PathApp::TcpTracker)]
    pub(crate) app: PathApp,

    /// Who gets a packet
    #[arg(long, value_enum, default_value_t = SchedulerName::Dh)]
    pub(crate) scheduler: SchedulerName,

    /// Numbers of workers [default: 1, 2, 4 and so on, as far as there are CPUs beside the input's, at least 1 and 2]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    pub(crate) workers: Vec<usize>,

    /// Rates of the latency part, in percent of what a layout manages without a pace
    #[arg(long, value_delimiter = ',', value_name = "PERCENT,…", default_values_t = [10_u32, 50, 80, 95])]
    pub(crate) rates: Vec<u32>,

    /// Packets a round, at least; whole passes over the capture
    #[arg(long, value_name = "N", value_parser = parse::positive, default_value = "800k")]
    pub(crate) packets: u64,

    /// Rounds; fewer than six show no difference
    #[arg(long, value_name = "N", default_value_t = 9)]
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
    /// The protocol's name, by patterns over the first bytes of each direction
    L7,
}

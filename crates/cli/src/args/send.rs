//! `flowloom send`.

use std::path::PathBuf;

use clap::Args;
use flowloom::engine::Pace;

use super::parse;

/// Arguments of `send`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom send edge.pcap --iface eth1                   at the pace of the time stamps
  flowloom send edge.pcap --iface eth1 --speed max       as fast as possible
  flowloom send a.pcap b.pcap --iface eth1 --speed 10k   10,000 packets per second")]
pub(crate) struct Send {
    /// Captures: files, directories, or - for standard input; several are merged by the times of
    /// their packets
    #[arg(value_name = "FILE", required = true)]
    pub(crate) inputs: Vec<PathBuf>,

    /// The sending interface
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) iface: String,

    /// Speed: x1 (as recorded), x10, packets per second, or max
    #[arg(long, value_name = "PACE", default_value = "x1", value_parser = parse::pace)]
    pub(crate) speed: Pace,

    /// Send the captures N times
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=u32::MAX))]
    pub(crate) passes: u32,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,
}

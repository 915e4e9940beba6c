//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;

use crate::args::parse;
use crate::args::save::Save;

/// Compare two saved results of `replay`, `bench` or `reproduce`.
///
/// Of two runs of `replay`, it shows how packets, flows, protocols and hosts differ. If both
/// folders hold records as flows.csv, it also shows the conversations (source, destination,
/// destination port and protocol) that are new, gone, or have changed by a factor of 2 or more, and
/// the times of the handshakes, if the records have them.
///
/// Rows of `bench` are matched by variant, work and size. A change appears only if the intervals
/// of the two medians do not overlap: the two runs are not interleaved, and the speed of a machine
/// varies over minutes.
///
/// Two results of `reproduce` are compared by verdict and by value. The exit status is 1 if a
/// verdict differs.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom replay monday.pcap --fields handshake --flows mon/flows.csv --save mon
  flowloom replay tuesday.pcap --fields handshake --flows tue/flows.csv --save tue
  flowloom compare mon tue                      what is new, gone, or has changed
  flowloom bench table --save before            then change something, and
  flowloom bench table --save after
  flowloom compare before/result.json after/result.json --fail-above 5
  flowloom compare before after --save changes        with report.html and a chart")]
pub struct Compare {
    /// The baseline result as JSON: a file, or a folder written by --save
    #[arg(value_name = "BASE")]
    pub base: PathBuf,

    /// The new result, likewise
    #[arg(value_name = "NEW")]
    pub new: PathBuf,

    /// Exit with 1 if a median is slower by more than this percentage
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent)]
    pub fail_above: Option<f64>,

    /// Also compare results of different machines or instruction sets
    #[arg(long)]
    pub force: bool,

    #[command(flatten)]
    pub save: Save,
}

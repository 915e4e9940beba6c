//! `flowloom merge`.

use std::path::PathBuf;

use clap::Args;
use flowloom_export::RecordFilter;

use super::parse;

/// Arguments of `merge`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom replay mon.pcap --app accounting --save-part mon.part     on one machine
  flowloom replay tue.pcap --app accounting --save-part tue.part     on another
  flowloom merge mon.part tue.part --flows week.csv                  as one run over both

Parts are merged in the order of their times, or of the numbers that --part gave them. The result is that of one run
over all captures, flow by flow; where it would not be exact, nothing is merged.")]
pub(crate) struct Merge {
    /// Parts that `replay --save-part` has written
    #[arg(value_name = "PART", required = true)]
    pub(crate) parts: Vec<PathBuf>,

    /// Merge although numbered parts are missing; flows that were in these come out in pieces
    #[arg(long)]
    pub(crate) incomplete: bool,

    /// Write one record per flow; JSON lines for .jsonl and .json, IPFIX for .ipfix (of --app
    /// accounting), CSV for .csv and names without an ending
    #[arg(long, value_name = "FILE")]
    pub(crate) flows: Option<PathBuf>,

    /// Write only the records of --flows that match, of parts of --app accounting;
    /// docs/selecting.md has the names and the operators
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<RecordFilter>, requires = "flows")]
    pub(crate) record_filter: Option<RecordFilter>,
}

//! `flowloom merge`.

use std::path::PathBuf;

use clap::Args;

use super::parse;
use crate::record_view::Where;

/// Arguments of `merge`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom replay mon.pcap --app accounting --save-part mon.part     on one machine
  flowloom replay tue.pcap --app accounting --save-part tue.part     on another
  flowloom merge mon.part tue.part --flows week.csv                  as one run over both

merge orders the parts by time, or by the numbers that --part gave them. The result equals that of one run over all \
captures, flow by flow. If an exact result is impossible, merge refuses the parts.")]
pub(crate) struct Merge {
    /// Parts that `replay --save-part` wrote
    #[arg(value_name = "PART", required_unless_present = "fragments")]
    pub(crate) parts: Vec<PathBuf>,

    /// Merge flows that `replay --fragments` has left open, all of the same keys or of some: a
    /// stream of Arrow with the columns `part`, `flow_key` and `flow_state`, or - for standard
    /// input
    #[arg(long, value_name = "FILE", requires_all = ["parts_list", "flows"], conflicts_with_all = ["parts", "incomplete", "record_filter"])]
    pub(crate) fragments: Option<PathBuf>,

    /// With --fragments: what all parts are, in their order, a line of JSON for each:
    /// {"part": NUMBER, "about": what the part's column `about` says}
    #[arg(long, value_name = "FILE", requires = "fragments")]
    pub(crate) parts_list: Option<PathBuf>,

    /// Merge although numbered parts are missing; flows that continue in the missing parts appear
    /// as several records
    #[arg(long)]
    pub(crate) incomplete: bool,

    /// Write one record per flow, as `replay --flows` does
    #[arg(long, value_name = "FILE")]
    pub(crate) flows: Option<PathBuf>,

    /// Format of --flows, where its name does not say it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "flows")]
    pub(crate) flows_format: Option<crate::record_format::Format>,

    /// Write only the records of --flows that match; docs/selecting.md lists names and operators
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<Where>, requires = "flows")]
    pub(crate) record_filter: Option<Where>,
}

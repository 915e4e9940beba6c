//! `flowloom top`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::parse;
use super::record_input::RecordInput;

/// Arguments of `top`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom top edge.pcap                                        the hosts with the most bytes
  flowloom top edge.pcap --by conversation -n 20                who opened what, for how long, at which rate
  flowloom top edge.pcap --by port --sort flows --where 'protocol == udp'
  flowloom top edge.pcap --by hierarchy                         bytes by IP version, protocol and port
  flowloom top edge.pcap --by l7                                bytes by application protocol
  flowloom top edge.pcap --by pair --format csv > pairs.csv")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) input: RecordInput,

    /// What records are summed up by
    #[arg(long, value_enum, default_value_t = GroupBy::Host, value_name = "KEY")]
    pub(crate) by: GroupBy,

    /// What the largest ones are chosen by
    #[arg(long, value_enum, default_value_t = SortBy::Bytes, value_name = "FIGURE")]
    pub(crate) sort: SortBy,

    /// Show N of them; 0 shows all
    #[arg(short = 'n', long = "count", value_name = "N", default_value_t = 10, value_parser = parse::whole::<usize>)]
    pub(crate) count: usize,

    /// The most hosts, pairs, ports or conversations that are told apart; what further ones have is
    /// counted together
    #[arg(long, value_name = "N", default_value = "4M", value_parser = parse::positive)]
    pub(crate) groups_max: u64,

    /// Patterns for --by l7: a .pat file of l7-filter, a file of flowloom's form, or a folder of
    /// either; may be given several times [default: builtin]
    #[arg(long, value_name = "PATH")]
    pub(crate) patterns: Vec<PathBuf>,

    /// Worker threads, each on a part of the input [default: one thread]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) workers: Option<usize>,
}

/// What records are summed up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// Address: each record counts for both of its ends
    Host,
    /// The two addresses of a record
    Pair,
    /// Protocol and port of the destination
    Port,
    /// IP protocol
    Protocol,
    /// Addresses, ports, protocol and VLANs
    Conversation,
    /// IP version, protocol in it, port of the destination in that
    Hierarchy,
    /// Application protocol, by patterns over the first bytes of each direction
    L7,
}

/// A figure to sort by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Bytes on the wire, of both directions
    Bytes,
    /// Packets of both directions
    Packets,
    /// Records
    Flows,
}

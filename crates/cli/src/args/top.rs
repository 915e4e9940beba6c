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
  flowloom top edge.pcap --by conversation -n 20                conversations with duration and rate
  flowloom top edge.pcap --by port --sort flows --where 'protocol == udp'
  flowloom top edge.pcap --by source --sort peers --where 'conn_state == S0'   who scans many hosts
  flowloom top edge.pcap --by source --sort ports               who scans many ports
  flowloom top edge.pcap --sort sent                            who sends most
  flowloom top edge.pcap --sort retransmissions                 whose segments get lost
  flowloom top edge.pcap --by hierarchy                         bytes by IP version, protocol and port
  flowloom top edge.pcap --by l7                                bytes by application protocol
  flowloom top edge.pcap --by pair --format csv > pairs.csv")]
pub(crate) struct Top {
    #[command(flatten)]
    pub(crate) input: RecordInput,

    /// Key by which to add up records
    #[arg(long, aliases = ["group", "group-by"], value_enum, default_value_t = GroupBy::Host, value_name = "KEY")]
    pub(crate) by: GroupBy,

    /// Figure by which to sort
    #[arg(long, value_enum, default_value_t = SortBy::Bytes, value_name = "FIGURE")]
    pub(crate) sort: SortBy,

    /// Number of rows to show; 0 shows all
    #[arg(short = 'n', long = "count", aliases = ["limit", "top"], value_name = "N", default_value_t = 10, value_parser = parse::whole::<usize>)]
    pub(crate) count: usize,

    /// Maximum number of separate hosts, pairs, ports or conversations; all others are added up in
    /// one row. With --by source also of all their destinations and ports together, beyond which
    /// their numbers are lower bounds
    #[arg(long, value_name = "N", default_value = "4M", value_parser = parse::positive)]
    pub(crate) groups_max: u64,

    /// Patterns for --by l7: an l7-filter .pat file, a flowloom pattern file, or a folder of
    /// either; repeatable [default: builtin]
    #[arg(long, value_name = "PATH")]
    pub(crate) patterns: Vec<PathBuf>,

    /// Worker threads, each on a part of the input [default: one thread]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) workers: Option<usize>,
}

/// Key by which to add up records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GroupBy {
    /// Address: each record counts for both of its ends
    #[value(alias = "address", alias = "ip")]
    Host,
    /// Address of the source, with the numbers of its destinations and of their ports: who scans?
    Source,
    /// The two addresses of a record
    Pair,
    /// Protocol and port of the destination
    #[value(alias = "destination_port")]
    Port,
    /// IP protocol
    Protocol,
    /// Addresses, ports, protocol and VLANs
    Conversation,
    /// IP version, protocol within it, destination port within that
    Hierarchy,
    /// Application protocol, by patterns over the first bytes of each direction
    #[value(aliases = ["l7_protocol", "app", "application", "service"])]
    L7,
}

/// Figure by which to sort.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SortBy {
    /// Bytes on the wire, of both directions
    #[value(alias = "total_bytes")]
    Bytes,
    /// With --by host or --by source: bytes on the wire that it sent
    #[value(name = "sent", alias = "bytes_sent")]
    Sent,
    /// Bytes of IP packets, headers included and link layer excluded
    #[value(name = "ip_bytes")]
    IpBytes,
    /// Packets of both directions
    #[value(alias = "total_packets")]
    Packets,
    /// Number of records
    #[value(alias = "records")]
    Flows,
    /// Time from the first to the last packet
    Duration,
    /// Bits per second from the first to the last packet
    Rate,
    /// TCP segments sent again, from the host or source, or of both directions
    #[value(alias = "retransmits", alias = "lost")]
    Retransmissions,
    /// Records with a TCP reset, from the host or source, or of either direction
    #[value(alias = "reset", alias = "rst")]
    Resets,
    /// Mean round-trip time of TCP handshakes
    #[value(name = "handshake_rtt", alias = "rtt", alias = "latency", alias = "handshake-rtt")]
    HandshakeRtt,
    /// With --by source: number of destinations
    Peers,
    /// With --by source: number of destination ports, by protocol
    Ports,
}

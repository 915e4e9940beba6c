//! `flowloom extract`.

use std::path::PathBuf;

use clap::Args;

use super::parse;
use super::record_input::RecordInput;
use super::verdict::VerdictName;
use crate::flow_name::FlowName;

/// Arguments of `extract`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom extract edge.pcap -o big.pcapng --where 'total_bytes > 10M'
  flowloom extract edge.pcap -o one.pcapng --flow '1:LQU9qZlK+B5F3KDmev6m5PMibrg='
  flowloom extract edge.pcap -o one.pcapng --flow 'tcp 10.0.0.1:40000 192.0.2.1:443'
  flowloom extract edge.pcap -o ping.pcapng --flow 'icmp 10.0.0.1 > 192.0.2.1 type 8 id 7'   as top names it
  flowloom extract edge.pcap -o one.pcapng --flow 'tcp 10.0.0.1:40000 192.0.2.1:443' --index edge.idx
  flowloom extract edge.pcap -o dns.pcapng --filter 'udp port 53 and host 192.0.2.53'
  flowloom extract edge.pcap -o denied.pcapng --rules fw.nft --verdict deny

Flows:
  extract writes all packets of the selected flows, in both directions and in the order of the input. --where selects \
  flows by their records, --flow by name, and --filter by any matching packet. A flow must satisfy all options given. \
  --filter alone also selects matching packets without a flow, such as ARP, and --verdict only some packets of a flow. \
  extract reads the captures twice.")]
pub(crate) struct Extract {
    #[command(flatten)]
    pub(crate) input: RecordInput,

    /// The capture to write: .pcapng, or .pcap without interfaces and comments
    #[arg(short = 'o', long, alias = "write", value_name = "FILE", required_unless_present = "make_index")]
    pub(crate) output: Option<PathBuf>,

    /// Find the flows of --flow with this index, and read only the parts of the capture that
    /// contain their packets. A missing index is created. An index works for one uncompressed
    /// capture, and is refused once the capture has changed
    #[arg(long, value_name = "FILE")]
    pub(crate) index: Option<PathBuf>,

    /// Rebuild the index; without --output, do nothing else
    #[arg(long, requires = "index")]
    pub(crate) make_index: bool,

    /// A flow, as its Community ID or as a report names it: 'tcp 10.0.0.1:40000 192.0.2.1:443' in
    /// either direction, 'icmp 10.0.0.1 192.0.2.1'; without quotes, commas take the place of
    /// spaces: tcp,10.0.0.1:40000,192.0.2.1:443; or all flows of a pair, host, port or protocol:
    /// '10.0.0.1 192.0.2.1', 10.0.0.1, tcp/443, icmp. Where two flows differ in VLAN or ICMP type
    /// only, their names end so: vlan 5, vlan none, type 8 id 7; repeatable
    #[arg(long, value_name = "FLOW", value_parser = parse::from_str::<FlowName>)]
    pub(crate) flow: Vec<FlowName>,

    /// Write only the packets on which --rules give this verdict: those that the report of `replay
    /// --rules` counts, also of flows with both verdicts
    #[arg(long, value_enum, value_name = "VERDICT", requires = "rules", conflicts_with = "index")]
    pub(crate) verdict: Option<VerdictName>,

    /// Maximum number of matching records
    #[arg(long, value_name = "N", default_value = "4M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,
}

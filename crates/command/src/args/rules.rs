//! `flowloom rules`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flowloom::classifier::ProtocolMatch;
use flowloom::rules::firewall::{Assume, ConnectionState};
use flowloom::rules::load;

use super::decoding::DecodingOptions;
use super::parse;
use super::verdict::VerdictName;

/// Commands on a rule set.
#[derive(Clone, Debug, Subcommand)]
pub enum Rules {
    /// List rules that never win: duplicate, shadowed and unreachable rules
    Check(Check),
    /// Show the contents of a rule set, and the size of its classifier
    Stats(Stats),
    /// List the rules that match a header, in order
    Explain(Explain),
    /// Write a rule set in another format
    Convert(Convert),
    /// Remove rules without effect: those that no packet reaches, and those that later rules repeat
    Minimise(Minimise),
    /// List one packet for each pair of rules of two sets that decide differently; exit with 1 if
    /// there are any
    Diff(Diff),
    /// Check whether two rule sets decide every packet equally; if not, show a packet and exit with
    /// 1
    Equivalent(Diff),
}

/// The source of the rules.
#[derive(Clone, Debug, Args)]
pub struct RuleOptions {
    /// Rules: output of iptables-save or nft, access lists of Cisco, AWS or Kubernetes, TOML or
    /// ClassBench, plain or compressed with gzip or zstd; - for standard input
    #[arg(value_name = "RULES")]
    pub rules: PathBuf,

    /// Table of an iptables or nftables file [default: filter for iptables, all tables for
    /// nftables]
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    #[command(flatten)]
    pub file: FileOptions,
}

/// The parts of a rule file to read.
#[derive(Clone, Debug, Default, Args)]
pub struct FileOptions {
    /// Chain that packets enter, in formats with chains [default: INPUT, or that of
    /// forwarded packets if no other has rules]
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub chain: Option<String>,

    /// Address family of a file that does not state it
    #[arg(long, value_enum, value_name = "FAMILY", requires = "rules")]
    pub family: Option<FamilyName>,

    /// Sets that iptables rules refer to: the output of ipset save
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub sets: Option<PathBuf>,

    /// Addresses of the pods that Kubernetes network policies select: the output of kubectl get
    /// namespaces,pods -A -o yaml, or a list of pods
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub addresses: Option<PathBuf>,
}

/// Address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FamilyName {
    Ipv4,
    Ipv6,
}

/// Values that packets do not contain, and the treatment of rules that depend on unknown values.
#[derive(Clone, Debug, Default, Args)]
pub struct EnforceOptions {
    /// Interface by which all packets enter, replies too, for rules that match interfaces [default:
    /// for each packet, the interface that captured it, if the capture names all interfaces]
    #[arg(id = "in", long = "in", value_name = "NAME", requires = "rules")]
    pub input: Option<String>,

    /// Interface by which all packets leave, for rules that match interfaces [default: in
    /// the chains OUTPUT and POSTROUTING, the interface that captured each packet]
    #[arg(id = "out", long = "out", value_name = "NAME", requires = "rules")]
    pub output: Option<String>,

    /// How to treat rules that cannot be decided, such as those with a limit; by default they are
    /// refused
    #[arg(long, value_enum, value_name = "OUTCOME", requires = "rules")]
    pub assume: Option<AssumeName>,
}

/// Assumed outcomes of conditions that cannot be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AssumeName {
    /// They match
    Match,
    /// They do not match
    NoMatch,
}

impl AssumeName {
    pub fn assume(self) -> Assume {
        match self {
            Self::Match => Assume::Match,
            Self::NoMatch => Assume::NoMatch,
        }
    }
}

/// Arguments of `rules check`.
#[derive(Clone, Debug, Args)]
pub struct Check {
    #[command(flatten)]
    pub options: RuleOptions,

    /// Maximum number of rules to list
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub top: usize,

    /// Exit with 1 if any rule never wins
    #[arg(long)]
    pub strict: bool,

    /// Maximum comparisons of two rules and searches for rules; beyond it, rules are reported as
    /// undecided, except duplicates
    #[arg(long, default_value = "2G", value_name = "N", value_parser = parse::positive)]
    pub steps_max: u64,
}

/// Arguments of `rules stats`.
#[derive(Clone, Debug, Args)]
pub struct Stats {
    #[command(flatten)]
    pub options: RuleOptions,

    /// Memory limit for the classifier of each address family, in bytes
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive_bytes)]
    pub memory_max: u64,
}

/// Arguments of `rules explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom rules explain acl.rules 10.0.0.1:1024 192.0.2.7:443 tcp
  flowloom rules explain acl.rules 2001:db8::1 2001:db8::2 58
  flowloom rules explain acl.rules --capture edge.pcap --packet 12

The exit status is 0 if the packet is accepted whatever is not known of it, and 1 if it is denied or
may be. No rule that matches means denied; a rule without an action, as in ClassBench, accepts.")]
pub struct Explain {
    #[command(flatten)]
    pub options: RuleOptions,

    /// Sender's address and port; omit the port for protocols without ports
    #[arg(value_name = "SOURCE", value_parser = endpoint, required_unless_present = "capture")]
    pub source: Option<SocketAddr>,

    /// Receiver's address and port
    #[arg(value_name = "DESTINATION", value_parser = endpoint, required_unless_present = "capture")]
    pub destination: Option<SocketAddr>,

    /// Protocol: a number, or a name such as tcp, udp or icmpv6
    #[arg(value_name = "PROTOCOL", value_parser = protocol, required_unless_present = "capture")]
    pub protocol: Option<u8>,

    /// Explain a packet of this capture, with its interface and the state of its connection,
    /// instead of a header
    #[arg(long, value_name = "FILE", requires = "packet", conflicts_with_all =
        ["source", "destination", "protocol", "tcp_flags", "icmp_type", "fragment", "length"])]
    pub capture: Option<PathBuf>,

    /// Number of the packet in the capture, from 1
    #[arg(long, value_name = "N", requires = "capture", value_parser = parse::positive)]
    pub packet: Option<u64>,

    #[command(flatten)]
    pub decoding: DecodingOptions,

    /// Interface by which the packet enters
    #[arg(long = "in", value_name = "NAME")]
    pub input: Option<String>,

    /// Interface by which the packet leaves
    #[arg(long = "out", value_name = "NAME")]
    pub output: Option<String>,

    /// State of the connection: new, established, related, invalid or untracked
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub state: Option<ConnectionState>,

    /// TCP flags, such as SYN,ACK or NONE
    #[arg(long, value_name = "FLAGS", value_parser = flags)]
    pub tcp_flags: Option<u8>,

    /// ICMP type and optional code, such as 8 or 3/4
    #[arg(long, value_name = "TYPE", value_parser = icmp)]
    pub icmp_type: Option<(u8, u8)>,

    /// Part of a datagram that the packet is
    #[arg(long, value_enum, default_value_t = FragmentName::Whole, value_name = "PART")]
    pub fragment: FragmentName,

    /// Size of the IP packet, in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse::whole::<u32>)]
    pub length: Option<u32>,

    /// Maximum number of matching rules to list
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub top: usize,
}

/// Parts of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FragmentName {
    Whole,
    First,
    Later,
}

fn state(text: &str) -> Result<ConnectionState, String> {
    ConnectionState::from_name(text)
        .ok_or_else(|| format!("'{text}' is not a connection state, such as new, established or related"))
}

fn flags(text: &str) -> Result<u8, String> {
    load::tcp_flags(text).ok_or_else(|| {
        format!(
            "'{text}' is not a set of TCP flags: write names such \
        as SYN,ACK, or ALL or NONE"
        )
    })
}

fn icmp(text: &str) -> Result<(u8, u8), String> {
    let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
    let numbers = kind.parse().ok().zip(code.parse().ok());
    numbers.ok_or_else(|| {
        format!("'{text}' is not an ICMP type: write a type such as 8, or a type and a code such as 3/4")
    })
}

/// Arguments of `rules convert`.
#[derive(Clone, Debug, Args)]
pub struct Convert {
    #[command(flatten)]
    pub options: RuleOptions,

    /// Output format [default: by the name of the output: .toml, .nft or .json, otherwise
    /// classbench]
    #[arg(long, value_enum)]
    pub to: Option<TargetForm>,

    /// Output file [default: -, standard output]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Ignore later fragments: rules of nft that read ports from their payload are written for
    /// iptables, which does not
    #[arg(long)]
    pub no_later_fragments: bool,
}

/// Arguments of `rules minimise`.
#[derive(Clone, Debug, Args)]
pub struct Minimise {
    #[command(flatten)]
    pub options: RuleOptions,

    /// Output file for the remaining rules, as TOML; - for standard output; without it, only counts
    /// are printed
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Maximum number of rules to list
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub top: usize,

    /// Maximum comparisons of regions; rules that are undecided by then are kept
    #[arg(long, default_value = "2G", value_name = "N", value_parser = parse::positive)]
    pub steps_max: u64,
}

/// Arguments of `rules diff` and `rules equivalent`.
#[derive(Clone, Debug, Args)]
pub struct Diff {
    #[command(flatten)]
    pub options: RuleOptions,

    /// The rules to compare with, in any format
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,

    /// Chain of the other file [default: the chain of the first]
    #[arg(long, value_name = "NAME")]
    pub other_chain: Option<String>,

    /// Verdict for packets that no rule matches
    #[arg(long = "default", value_enum, default_value_t = VerdictName::Deny, value_name = "VERDICT")]
    pub unmatched: VerdictName,

    /// Verdict of rules that have no action of their own
    #[arg(long = "action", value_enum, default_value_t = VerdictName::Accept, value_name = "VERDICT")]
    pub no_action: VerdictName,

    /// Maximum number of packets to list
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub top: usize,

    /// Maximum steps; packets not compared by then are reported as undecided
    #[arg(long, default_value = "200M", value_name = "N", value_parser = parse::positive)]
    pub steps_max: u64,
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TargetForm {
    /// A ClassBench filter file; loses values, priorities and actions, and turns rules of both
    /// address families into IPv4 rules
    Classbench,
    /// TOML, which loses nothing
    Toml,
    /// A script for `nft -f`
    Nft,
    /// iptables-save format, for IPv4, or for IPv6 with --family ipv6
    Iptables,
    /// JSON, for other programs
    Json,
}

fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse().or_else(|_| alone()).map_err(|_| {
        format!(
            "'{text}' is not an address with a port: write 192.0.2.1:80, or \
            [2001:db8::1]:80"
        )
    })
}

/// Reads a protocol by number or by the names that rules use.
fn protocol(text: &str) -> Result<u8, String> {
    load::protocol(text).filter(|protocol| protocol.mask() == u8::MAX).map(ProtocolMatch::value).ok_or_else(
        || {
            format!(
                "'{text}' is not a protocol: write a name such as tcp, udp or icmpv6, or \
            0 to 255"
            )
        },
    )
}

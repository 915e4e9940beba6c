//! `flowloom rules`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flowloom::classifier::ProtocolMatch;
use flowloom::classifier::load;
use flowloom::classifier::policy::{Assume, ConnectionState};

use super::firewall::VerdictName;
use super::parse;

/// What to do with a rule set.
#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Rules {
    /// Say which rules never win: duplicates, shadowed and unreachable ones
    Check(Check),
    /// Say what is in a rule set, and what a classifier of it takes
    Stats(Stats),
    /// Say which rules match a header, in order
    Explain(Explain),
    /// Write a rule set in another form
    Convert(Convert),
    /// Leave out rules that change nothing: those that no packet reaches, and those that the rules
    /// behind them repeat
    Minimise(Minimise),
    /// List packets that two rule sets decide differently, one for each pair of rules; exit with 1
    /// if there are any
    Diff(Diff),
    /// Say whether two rule sets decide every packet alike; exit with 1 and show a packet if they
    /// do not
    Equivalent(Diff),
}

/// Where rules come from.
#[derive(Clone, Debug, Args)]
pub(crate) struct RuleOptions {
    /// Rules: what iptables-save writes, TOML, or a ClassBench filter file, plain or packed with
    /// gzip or zstd; - for standard input
    #[arg(value_name = "RULES")]
    pub(crate) rules: PathBuf,

    /// Table of an iptables or nftables file [default: filter of iptables, all of nftables]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    #[command(flatten)]
    pub(crate) file: FileOptions,
}

/// What to read of a file of rules.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct FileOptions {
    /// Chain that packets enter, of a form that has chains [default: INPUT]
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub(crate) chain: Option<String>,

    /// Address family of the packets that a file is about, where it does not say
    #[arg(long, value_enum, value_name = "FAMILY", requires = "rules")]
    pub(crate) family: Option<FamilyName>,

    /// Sets that rules of iptables refer to: what ipset save writes
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub(crate) sets: Option<PathBuf>,

    /// Addresses of the pods that network policies of Kubernetes name: what kubectl get
    /// namespaces,pods -A -o yaml writes, or a list of pods
    #[arg(long, value_name = "FILE", requires = "rules")]
    pub(crate) addresses: Option<PathBuf>,
}

/// Address families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FamilyName {
    Ipv4,
    Ipv6,
}

/// What is not in packets, and what to do where it is not known.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct EnforceOptions {
    /// Interface that the packets come in by, for rules that name one [default: what the capture
    /// names, where it names one for all packets]
    #[arg(long = "in", value_name = "NAME", requires = "rules")]
    pub(crate) input: Option<String>,

    /// Interface that the packets leave by, for rules that name one [default: in chains OUTPUT and
    /// POSTROUTING what the capture names]
    #[arg(long = "out", value_name = "NAME", requires = "rules")]
    pub(crate) output: Option<String>,

    /// What to take of rules that cannot be decided, such as those with a limit; without it they
    /// are refused
    #[arg(long, value_enum, value_name = "OUTCOME", requires = "rules")]
    pub(crate) assume: Option<AssumeName>,
}

/// Outcomes of what cannot be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AssumeName {
    /// They match
    Match,
    /// They do not match
    NoMatch,
}

impl AssumeName {
    pub(crate) fn assume(self) -> Assume {
        match self {
            Self::Match => Assume::Match,
            Self::NoMatch => Assume::NoMatch,
        }
    }
}

/// Arguments of `rules check`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// Rules to list at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    /// Exit with 1 if any rule never wins
    #[arg(long)]
    pub(crate) strict: bool,

    /// Comparisons of two rules and looks for rules at most; what is left then is undecided, but
    /// for duplicates
    #[arg(long, default_value = "2G", value_name = "N", value_parser = parse::positive)]
    pub(crate) steps_max: u64,
}

/// Arguments of `rules stats`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// Bytes that the classifier of each address family may take
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive)]
    pub(crate) memory_max: u64,
}

/// Arguments of `rules explain`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom rules explain acl.rules 10.0.0.1:1024 192.0.2.7:443 tcp
  flowloom rules explain acl.rules 2001:db8::1 2001:db8::2 58")]
pub(crate) struct Explain {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// Sender's address and port; the port may be left away where there is none
    #[arg(value_name = "SOURCE", value_parser = endpoint)]
    pub(crate) source: SocketAddr,

    /// Receiver's address and port
    #[arg(value_name = "DESTINATION", value_parser = endpoint)]
    pub(crate) destination: SocketAddr,

    /// Protocol: a name such as tcp, udp or icmpv6, or a number
    #[arg(value_name = "PROTOCOL", value_parser = protocol)]
    pub(crate) protocol: u8,

    /// Interface that the packet comes in by
    #[arg(long = "in", value_name = "NAME")]
    pub(crate) input: Option<String>,

    /// Interface that the packet leaves by
    #[arg(long = "out", value_name = "NAME")]
    pub(crate) output: Option<String>,

    /// State of its connection: new, established, related, invalid or untracked
    #[arg(long, value_name = "STATE", value_parser = state)]
    pub(crate) state: Option<ConnectionState>,

    /// Flags of TCP, such as SYN,ACK or NONE
    #[arg(long, value_name = "FLAGS", value_parser = flags)]
    pub(crate) tcp_flags: Option<u8>,

    /// Type of ICMP and its code, such as 8 or 3/4
    #[arg(long, value_name = "TYPE", value_parser = icmp)]
    pub(crate) icmp_type: Option<(u8, u8)>,

    /// Which part of a datagram it is
    #[arg(long, value_enum, default_value_t = FragmentName::Whole, value_name = "PART")]
    pub(crate) fragment: FragmentName,

    /// Bytes of the IP packet
    #[arg(long, value_name = "BYTES", value_parser = parse::whole::<u32>)]
    pub(crate) length: Option<u32>,

    /// Matching rules to list at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,
}

/// Parts of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FragmentName {
    Whole,
    First,
    Later,
}

fn state(text: &str) -> Result<ConnectionState, String> {
    ConnectionState::from_name(text)
        .ok_or_else(|| format!("'{text}' is no state of a connection, such as new, established or related"))
}

fn flags(text: &str) -> Result<u8, String> {
    load::tcp_flags(text).ok_or_else(|| format!("'{text}' are no flags: such as SYN,ACK, ALL or NONE"))
}

fn icmp(text: &str) -> Result<(u8, u8), String> {
    let (kind, code) = text.split_once('/').unwrap_or((text, "0"));
    let numbers = kind.parse().ok().zip(code.parse().ok());
    numbers.ok_or_else(|| {
        format!("'{text}' is no ICMP type: a type such as 8, or a type and a code such as 3/4")
    })
}

/// Arguments of `rules convert`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Convert {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// Form to write [default: that of the output's name: .toml, .nft or .json, else classbench]
    #[arg(long, value_enum)]
    pub(crate) to: Option<TargetForm>,

    /// Where to write; - is standard output, and the default
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

/// Arguments of `rules minimise`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Minimise {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// Where to write the rules that are left, as TOML; - is standard output; without it they are
    /// counted alone
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Rules to list at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    /// Comparisons of regions at most; rules that are undecided then are kept
    #[arg(long, default_value = "2G", value_name = "N", value_parser = parse::positive)]
    pub(crate) steps_max: u64,
}

/// Arguments of `rules diff` and `rules equivalent`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) options: RuleOptions,

    /// The rules to compare with, in any form
    #[arg(value_name = "OTHER")]
    pub(crate) other: PathBuf,

    /// Chain of the other file [default: that of the first]
    #[arg(long, value_name = "NAME")]
    pub(crate) other_chain: Option<String>,

    /// What becomes of packets that no rule matches
    #[arg(long = "default", value_enum, default_value_t = VerdictName::Deny, value_name = "VERDICT")]
    pub(crate) unmatched: VerdictName,

    /// What rules do that name no action of their own
    #[arg(long = "action", value_enum, default_value_t = VerdictName::Accept, value_name = "VERDICT")]
    pub(crate) no_action: VerdictName,

    /// Packets to list at most
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    /// Steps at most; packets that were not compared then are said to be undecided
    #[arg(long, default_value = "200M", value_name = "N", value_parser = parse::positive)]
    pub(crate) steps_max: u64,
}

/// Forms that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TargetForm {
    /// A ClassBench filter file; values, priorities and actions are lost, rules of both address
    /// families become IPv4's
    Classbench,
    /// TOML, which says everything
    Toml,
    /// A script for nft -f
    Nft,
    /// What iptables-save would write, for IPv4, or for IPv6 with --family ipv6
    Iptables,
    /// JSON, for other programs
    Json,
}

fn endpoint(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse::<IpAddr>().map(|address| SocketAddr::new(address, 0));
    text.parse()
        .or_else(|_| alone())
        .map_err(|_| format!("'{text}' is no address with a port: write 192.0.2.1:80, or [2001:db8::1]:80"))
}

/// Reads one protocol, by the names that rules have for it.
fn protocol(text: &str) -> Result<u8, String> {
    load::protocol(text)
        .filter(|protocol| protocol.mask() == u8::MAX)
        .map(ProtocolMatch::value)
        .ok_or_else(|| format!("'{text}' is no protocol: a name such as tcp, udp or icmpv6, or 0 to 255"))
}

//! Options of the firewall in `flowloom replay`.

use std::path::PathBuf;

use clap::Args;

use super::classify::AlgorithmName;
use super::parse;
use super::rules::{EnforceOptions, FileOptions};
use super::verdict::VerdictName;

/// The rules, what packets do not say of themselves, and the defaults: in every command that judges
/// the packets of records.
#[derive(Clone, Debug, Args)]
pub(crate) struct RuleSource {
    /// Apply the rules in this file: output of iptables-save or nft, access lists of Cisco, AWS or
    /// Kubernetes, TOML or ClassBench, plain or compressed
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<PathBuf>,

    /// Table of an iptables or nftables file [default: filter for iptables, all tables for
    /// nftables]
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub(crate) rules_table: Option<String>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    #[command(flatten)]
    pub(crate) enforce: EnforceOptions,

    /// Verdict for packets that no rule matches
    #[arg(long = "default", value_enum, default_value_t = VerdictName::Deny, value_name = "VERDICT", requires = "rules")]
    pub(crate) unmatched: VerdictName,

    /// Verdict of rules that have no action of their own, as in ClassBench
    #[arg(long = "action", value_enum, default_value_t = VerdictName::Accept, value_name = "VERDICT", requires = "rules")]
    pub(crate) no_action: VerdictName,

    /// Judge every packet separately, in its own direction, instead of judging a flow by its first
    /// packet
    #[arg(long, requires = "rules")]
    pub(crate) per_packet: bool,

    /// Deny TCP packets until a SYN has opened the connection
    #[arg(long, requires = "rules", conflicts_with = "per_packet")]
    pub(crate) strict_tcp: bool,
}

/// The rules, and how they are applied.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Firewall")]
pub(crate) struct FirewallOptions {
    #[command(flatten)]
    pub(crate) source: RuleSource,

    /// Reload the rules when their file has changed and its size and time have stayed the same for
    /// two seconds; SIGHUP reloads them at once, also without this option; if the file is invalid,
    /// the previous rules remain
    #[arg(long, requires = "rules")]
    pub(crate) watch_rules: bool,

    /// Algorithm that searches the rules; those of papers are for comparisons
    #[arg(long, value_enum, default_value_t = AlgorithmName::Auto, value_name = "NAME", requires = "rules")]
    pub(crate) rules_algorithm: AlgorithmName,

    /// Memory limit for the classifier of each address family, in bytes
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive_bytes, requires = "rules")]
    pub(crate) rules_memory: u64,

    /// Number of most-matched rules to list
    #[arg(long, default_value_t = 10, value_name = "N", requires = "rules", value_parser = parse::whole::<usize>)]
    pub(crate) top_rules: usize,
}

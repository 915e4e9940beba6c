//! Options of the firewall in `flowloom replay`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flowloom::engine::Verdict;

use super::parse;
use super::rules::{EnforceOptions, FileOptions};

/// Which rules, and what they do.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Firewall")]
pub(crate) struct FirewallOptions {
    /// Judge packets by rules: a ClassBench filter file, TOML, or what iptables-save writes, plain
    /// or packed; implies --app firewall
    #[arg(long, value_name = "RULES")]
    pub(crate) rules: Option<PathBuf>,

    /// Table of an iptables or nftables file [default: filter of iptables, all of nftables]
    #[arg(long, value_name = "NAME", requires = "rules")]
    pub(crate) rules_table: Option<String>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    #[command(flatten)]
    pub(crate) enforce: EnforceOptions,

    /// What becomes of packets that no rule matches
    #[arg(long = "default", value_enum, default_value_t = VerdictName::Deny, value_name = "VERDICT", requires = "rules")]
    pub(crate) unmatched: VerdictName,

    /// What rules do that name no action of their own, as all of ClassBench
    #[arg(long = "action", value_enum, default_value_t = VerdictName::Accept, value_name = "VERDICT", requires = "rules")]
    pub(crate) no_action: VerdictName,

    /// Judge every packet by itself, in its own direction, instead of a flow by its first packet
    #[arg(long, requires = "rules")]
    pub(crate) per_packet: bool,

    /// Deny TCP packets until a SYN has opened their connection
    #[arg(long, requires = "rules", conflicts_with = "per_packet")]
    pub(crate) strict_tcp: bool,

    /// Load the rules again when their file has changed (SIGHUP asks for it too); a bad file leaves
    /// the old ones
    #[arg(long, requires = "rules")]
    pub(crate) watch_rules: bool,

    /// Bytes that the classifier of each address family may take
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive, requires = "rules")]
    pub(crate) rules_memory: u64,

    /// Busiest rules to list
    #[arg(long, default_value_t = 10, value_name = "N", requires = "rules", value_parser = parse::whole::<usize>)]
    pub(crate) top_rules: usize,
}

/// Verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum VerdictName {
    Accept,
    Deny,
}

impl VerdictName {
    pub(crate) fn verdict(self) -> Verdict {
        match self {
            Self::Accept => Verdict::Accept,
            Self::Deny => Verdict::Deny,
        }
    }
}

//! `flowloom classify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use flowloom::classifier::aggrecuts::{Limits, Sharing, Stride};
use flowloom::classifier::hicuts::HiCutsConfig;
use flowloom::classifier::{Algorithm, BuildError, ClassifierBuilder, PaperTree};
use flowloom::rules::firewall::{Policy, PolicyMatcher};

use super::decoding::DecodingOptions;
use super::parse;
use super::rules::{EnforceOptions, FileOptions};

/// Arguments of `classify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom classify edge.pcap --rules acl.rules --top 10      rules that packets match
  flowloom classify edge.pcap --rules acl.rules --unused      rules that no packet matches
  flowloom classify headers.trace --rules acl.rules --verify  each answer checked by linear search
  flowloom classify edge.pcap --rules fw.nft --per-packet     the verdict on each packet

A later fragment has no ports and matches no rule that asks for ports.")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Classify {
    /// Captures, or header traces with five numbers per line; plain or compressed with gzip or zstd
    #[arg(required = true, value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Rules: output of iptables-save or nft, access lists of Cisco, AWS or Kubernetes, TOML or
    /// ClassBench, plain or compressed
    #[arg(short, long, value_name = "RULES")]
    pub(crate) rules: PathBuf,

    /// Table of an iptables or nftables file [default: filter for iptables, all tables for
    /// nftables]
    #[arg(long, alias = "rules-table", value_name = "NAME")]
    pub(crate) table: Option<String>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    #[command(flatten)]
    pub(crate) enforce: EnforceOptions,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// List the verdict on each packet and the rule that decides it, with the other rules that may
    /// decide it if the input leaves this undecided
    #[arg(long)]
    pub(crate) per_packet: bool,

    /// Check each answer by linear search; exit with 1 if one differs
    #[arg(long)]
    pub(crate) verify: bool,

    /// Ignore the flags column of ClassBench rules; header traces have no flags, so it is always
    /// ignored for them
    #[arg(long)]
    pub(crate) ignore_flags: bool,

    /// List the rules that decide no packet; jumps, RETURN and other rules that only pass packets
    /// on are not counted
    #[arg(long)]
    pub(crate) unused: bool,

    /// Maximum number of rules to list
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    /// Search algorithm
    #[arg(long, value_enum, default_value_t = AlgorithmName::Auto, value_name = "NAME")]
    pub(crate) algorithm: AlgorithmName,

    /// Memory limit for the classifier of each address family, in bytes
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive_bytes)]
    pub(crate) memory_max: u64,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,
}

/// Search algorithms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlgorithmName {
    /// FlowCuts, with the best of several plans
    Auto,
    /// Linear search, eight rules at a time
    Linear,
    /// AggreCuts as [FLOWNP] publishes it, with 8 bits per node; IPv6 by linear search
    #[value(name = "aggrecuts-8")]
    AggreCutsEight,
    /// AggreCuts as [FLOWNP] publishes it, with 4 bits per node; IPv6 by linear search
    #[value(name = "aggrecuts-4")]
    AggreCutsFour,
    /// aggrecuts-8, with equal sub-trees of the whole tree stored once, which the paper does not do
    #[value(name = "aggrecuts-8-shared")]
    AggreCutsEightShared,
    /// aggrecuts-4 in the same form
    #[value(name = "aggrecuts-4-shared")]
    AggreCutsFourShared,
    /// HiCuts with leaves of 8 rules and a space factor of 4, whose nodes reuse identical children;
    /// IPv6 by linear search
    #[value(name = "hicuts")]
    HiCuts,
    /// hicuts, with equal sub-trees of the whole tree stored once
    #[value(name = "hicuts-shared")]
    HiCutsShared,
}

impl AlgorithmName {
    /// Returns the name for readers.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Auto => "FlowCuts",
            Self::Linear => "linear search",
            Self::AggreCutsEight => "AggreCuts, 8 bits per node",
            Self::AggreCutsFour => "AggreCuts, 4 bits per node",
            Self::AggreCutsEightShared => "AggreCuts, 8 bits per node, shared sub-trees",
            Self::AggreCutsFourShared => "AggreCuts, 4 bits per node, shared sub-trees",
            Self::HiCuts => "HiCuts",
            Self::HiCutsShared => "HiCuts, shared sub-trees",
        }
    }

    /// Builds the matcher of a policy.
    ///
    /// # Errors
    ///
    /// Returns [`BuildError`] if the rules do not fit into `bytes_max` per address family.
    pub(crate) fn build(self, policy: Policy, bytes_max: usize) -> Result<PolicyMatcher, BuildError> {
        let builder = ClassifierBuilder::new().memory_bytes_max(bytes_max);
        let set = policy.set();
        let limits = Limits { memory_bytes_max: bytes_max, ..Limits::default() };
        let shared = |stride| PaperTree::aggrecuts_with(set, stride, Sharing::Everywhere, limits);
        let tree = match self {
            Self::Auto => return PolicyMatcher::build(policy, builder),
            Self::Linear => return PolicyMatcher::build(policy, builder.algorithm(Algorithm::Linear)),
            Self::AggreCutsEight => PaperTree::aggrecuts(set, Stride::Eight, bytes_max),
            Self::AggreCutsFour => PaperTree::aggrecuts(set, Stride::Four, bytes_max),
            Self::AggreCutsEightShared => shared(Stride::Eight),
            Self::AggreCutsFourShared => shared(Stride::Four),
            Self::HiCuts | Self::HiCutsShared => {
                let is_shared = self == Self::HiCutsShared;
                let sharing = if is_shared { Sharing::Everywhere } else { Sharing::Siblings };
                let usual = HiCutsConfig { sharing: Some(sharing), ..HiCutsConfig::new(8, 4.0) };
                PaperTree::hicuts(set, HiCutsConfig { memory_bytes_max: bytes_max, ..usual })
            }
        }?;
        Ok(PolicyMatcher::with_index(policy, Box::new(tree)))
    }
}

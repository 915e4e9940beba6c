//! `flowloom classify`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::decoding::DecodingOptions;
use super::parse;
use super::rules::{EnforceOptions, FileOptions};

/// Arguments of `classify`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom classify edge.pcap --rules acl.rules --top 10      which rules the packets hit
  flowloom classify edge.pcap --rules acl.rules --unused      which rules no packet hits
  flowloom classify headers.trace --rules acl.rules --verify  each answer checked by linear search

A packet that is a later fragment has no ports: it matches no rule that asks for ports.")]
pub(crate) struct Classify {
    /// Captures, or header traces of five numbers a line; plain or packed with gzip or zstd
    #[arg(required = true, value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Rules: a ClassBench filter file, TOML, or what iptables-save writes, plain or packed
    #[arg(short, long, value_name = "RULES")]
    pub(crate) rules: PathBuf,

    /// Table of an iptables or nftables file [default: filter of iptables, all of nftables]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    #[command(flatten)]
    pub(crate) file: FileOptions,

    #[command(flatten)]
    pub(crate) enforce: EnforceOptions,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// Check each answer by asking one rule after the other; exit with 1 if one differs
    #[arg(long)]
    pub(crate) verify: bool,

    /// Leave the last column of ClassBench rules out of matching, as header traces, which have no
    /// flags, always do
    #[arg(long)]
    pub(crate) ignore_flags: bool,

    /// List the rules that no packet hits
    #[arg(long)]
    pub(crate) unused: bool,

    /// Rules to list at most
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    /// How to search
    #[arg(long, value_enum, default_value_t = AlgorithmName::Auto)]
    pub(crate) algorithm: AlgorithmName,

    /// Bytes that the classifier of each address family may take
    #[arg(long, default_value = "1G", value_name = "BYTES", value_parser = parse::positive)]
    pub(crate) memory_max: u64,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,
}

/// Ways to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AlgorithmName {
    /// FlowCuts, planned by trying
    Auto,
    /// One rule after the other, eight at a time
    Linear,
}

//! The input of the commands that select records.

use std::path::PathBuf;

use clap::Args;

use super::decoding::DecodingOptions;
use super::firewall::RuleSource;
use super::parse::{self, Instant};
use super::replay::Replay;
use crate::exit::Failure;
use crate::record_view::Where;

/// Captures, and the selection of packets and records.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordInput {
    /// Captures: files, directories, or - for standard input; several are merged by the times of
    /// their packets
    #[arg(required = true, value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Read only packets that match this pcap-filter(7) expression: 'tcp port 443 and net
    /// 10.0.0.0/8'
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,

    /// Read only packets from this time on: 2026-11-25T17:00:00Z (UTC), seconds since 1970, or +30
    /// for seconds after the first packet
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) from: Option<Instant>,

    /// Read only packets before this time
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) to: Option<Instant>,

    /// Select only records that match, for example 'protocol == tcp and bytes > 1M';
    /// docs/selecting.md lists names and operators; packets and bytes are those of one direction
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<Where>)]
    pub(crate) record_filter: Option<Where>,

    /// The rules that judge packets, so that --where can select by verdict and rule.
    #[command(flatten)]
    pub(crate) rules: RuleSource,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// End flows that are idle for longer; a later packet begins a new record [default: never]
    #[arg(long, alias = "idle-timeout", value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) timeout: Option<u64>,

    /// Memory for flow tables, fields and sums, in bytes [default: what is free]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) memory: Option<u64>,

    /// Exit with 4 if a capture is truncated or corrupt
    #[arg(long)]
    pub(crate) strict: bool,

    /// Read uncompressed files instead of mapping them
    #[arg(long)]
    pub(crate) no_mmap: bool,

    /// Maximum bytes that a compressed input may decompress to
    #[arg(long, value_name = "BYTES", default_value = "1000G", value_parser = parse::positive_bytes)]
    pub(crate) unpack_max: u64,

    /// Maximum decompressed bytes per compressed byte, checked beyond 256 MiB [default: no limit]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) unpack_ratio_max: Option<u64>,
}

impl RecordInput {
    /// Refuses rules that select nothing. `others` names other options that select by verdict.
    pub(crate) fn check(&self, others: &str) -> Result<(), Failure> {
        if self.rules.rules.is_some() && self.record_filter.is_none() {
            return Err(Failure::Usage(format!(
                "--rules is for --where, which selects by verdict and rule\n  add --where, for example \
                 'verdict == deny'{others}",
            )));
        }
        Ok(())
    }

    /// Returns the run that produces the records.
    pub(crate) fn replay(&self) -> Replay {
        let mut replay = Replay::over(&self.inputs);
        replay.live.filter.clone_from(&self.filter);
        (replay.from, replay.to) = (self.from, self.to);
        replay.record_filter.clone_from(&self.record_filter);
        replay.firewall.source.clone_from(&self.rules);
        replay.decoding = self.decoding.clone();
        (replay.timeout, replay.strict, replay.no_mmap) = (self.timeout, self.strict, self.no_mmap);
        replay.memory = self.memory;
        (replay.unpack_max, replay.unpack_ratio_max) = (self.unpack_max, self.unpack_ratio_max);
        replay
    }
}

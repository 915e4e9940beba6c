//! What the verbs that look at records read, and which records.

use std::path::PathBuf;

use clap::Args;

use super::decoding::DecodingOptions;
use super::parse::{self, Instant};
use super::replay::Replay;
use crate::record_view::Where;

/// Captures, and what is taken of them.
#[derive(Clone, Debug, Args)]
pub(crate) struct RecordInput {
    /// Captures: files, directories, or - for standard input; several are merged by the times of
    /// their packets
    #[arg(required = true, value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Take only packets that this pcap-filter(7) expression matches: 'tcp port 443 and net
    /// 10.0.0.0/8'
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,

    /// Take only packets from this time on: 2026-11-25T17:00:00Z (UTC), seconds since 1970, or +30
    /// for seconds after the first packet
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) from: Option<Instant>,

    /// Take only packets before this time
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) to: Option<Instant>,

    /// Take only records that match, as in 'protocol == tcp and bytes > 1M'; docs/selecting.md has
    /// the names and the operators
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<Where>)]
    pub(crate) record_filter: Option<Where>,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// Flows idle for longer end; a later packet begins another record [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) timeout: Option<u64>,

    /// Exit 4 when a capture is cut or corrupt
    #[arg(long)]
    pub(crate) strict: bool,

    /// Read plain files instead of mapping them
    #[arg(long)]
    pub(crate) no_mmap: bool,

    /// The most bytes that a compressed input may unpack to
    #[arg(long, value_name = "BYTES", default_value = "1000G", value_parser = parse::positive)]
    pub(crate) unpack_max: u64,

    /// The most bytes that a compressed input may unpack to for each of its own, judged beyond 256
    /// MiB [default: any]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) unpack_ratio_max: Option<u64>,
}

impl RecordInput {
    /// Returns the run whose records are looked at.
    pub(crate) fn replay(&self) -> Replay {
        let mut replay = Replay::over(&self.inputs);
        replay.live.filter.clone_from(&self.filter);
        (replay.from, replay.to) = (self.from, self.to);
        replay.record_filter.clone_from(&self.record_filter);
        replay.decoding = self.decoding.clone();
        (replay.timeout, replay.strict, replay.no_mmap) = (self.timeout, self.strict, self.no_mmap);
        (replay.unpack_max, replay.unpack_ratio_max) = (self.unpack_max, self.unpack_ratio_max);
        replay
    }
}

//! `flowloom inspect`.

use std::path::PathBuf;

use clap::Args;
use flowloom::traffic::dedup::DedupWindow;

use super::decoding::DecodingOptions;
use super::parse;

/// Arguments of `inspect`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Inspect {
    /// Captures: files, directories, or - for standard input
    #[arg(required = true, value_name = "FILE")]
    pub(crate) inputs: Vec<PathBuf>,

    /// List the reasons why packets are not tracked, the encapsulations that were followed or not,
    /// and the unknown numbers, each with the first packets; docs/decoding.md explains the reasons
    #[arg(long)]
    pub(crate) why: bool,

    /// List the N largest flows
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = parse::whole::<usize>)]
    pub(crate) top: usize,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// Drop and count packets whose bytes equal those of an earlier one in the window: N packets
    /// including this one, as editcap -D N, or a time such as 50ms, as editcap -w
    #[arg(long, value_name = "WINDOW", value_parser = parse::from_str::<DedupWindow>)]
    pub(crate) dedup: Option<DedupWindow>,

    /// Idle time that ends a flow, for the flow statistics
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse::seconds)]
    pub(crate) timeout: u64,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,

    /// Maximum bytes that a compressed input may decompress to
    #[arg(long, value_name = "BYTES", default_value = "1000G", value_parser = parse::positive_bytes)]
    pub(crate) unpack_max: u64,

    /// Maximum decompressed bytes per compressed byte, checked beyond 256 MiB [default: no limit]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) unpack_ratio_max: Option<u64>,

    /// Exit with 4 if a capture is truncated or corrupt
    #[arg(long)]
    pub(crate) strict: bool,

    /// Read uncompressed files instead of mapping them
    #[arg(long)]
    pub(crate) no_mmap: bool,
}

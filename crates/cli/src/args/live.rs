//! Options of a live capture.

use clap::Args;

use super::parse;

/// Where and how packets are captured as they arrive.
#[derive(Clone, Debug, Args)]
pub(crate) struct Live {
    /// Capture on this interface instead of reading files, until interrupted (or --limit)
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["inputs", "passes", "forever", "speed", "strict"])]
    pub(crate) iface: Option<String>,

    /// Capture only what this pcap-filter(7) expression matches
    #[arg(
        long,
        value_name = "EXPRESSION",
        default_value = "",
        hide_default_value = true,
        requires = "iface"
    )]
    pub(crate) filter: String,

    /// Capture packets for other machines too
    #[arg(long, requires = "iface")]
    pub(crate) promiscuous: bool,

    /// Bytes captured of a packet at most
    #[arg(long, value_name = "BYTES", default_value_t = 262_144, value_parser = clap::value_parser!(u32).range(64..=262_144), requires = "iface")]
    pub(crate) snaplen: u32,

    /// Bytes that the kernel buffers; what does not fit is dropped and counted
    #[arg(long, value_name = "BYTES", default_value = "16M", value_parser = parse::bytes, requires = "iface")]
    pub(crate) kernel_buffer: u64,
}

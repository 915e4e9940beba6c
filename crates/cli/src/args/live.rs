//! Options of a live capture.

use clap::Args;

use super::parse;

/// Where and how packets are captured as they arrive.
#[derive(Clone, Debug, Args)]
pub(crate) struct Live {
    /// Capture on this interface instead of reading files, until interrupted (or --limit)
    #[arg(long, value_name = "INTERFACE", group = "packets_from",
          conflicts_with_all = ["inputs", "passes", "forever", "speed", "strict"])]
    pub(crate) iface: Option<String>,

    /// Take only packets that this pcap-filter(7) expression matches, from files too: 'tcp port 443
    /// and net 10.0.0.0/8'
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,

    /// Capture packets for other machines too
    #[arg(long)]
    pub(crate) promiscuous: bool,

    /// Bytes captured of a packet at most [default: 262144]
    #[arg(long, value_name = "BYTES", value_parser = parse::within(64..=262_144_u32))]
    pub(crate) snaplen: Option<u32>,

    /// Bytes that the kernel buffers; what does not fit is dropped and counted [default: 16M]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) kernel_buffer: Option<u64>,
}

impl Live {
    /// Returns an option that was given and means nothing without an interface.
    ///
    /// Clap would not say so: it takes an option's need for one that conflicts with a file as met
    /// by the file.
    pub(crate) fn idle_option(&self) -> Option<&'static str> {
        let given = [
            (self.promiscuous, "--promiscuous"),
            (self.snaplen.is_some(), "--snaplen"),
            (self.kernel_buffer.is_some(), "--kernel-buffer"),
        ];
        given.into_iter().find(|&(given, _)| given && self.iface.is_none()).map(|(_, name)| name)
    }
}

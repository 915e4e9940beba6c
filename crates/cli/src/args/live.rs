//! Options of a live capture.

use clap::Args;

use super::parse;

/// The interface and the settings of a live capture.
#[derive(Clone, Debug, Args)]
pub(crate) struct Live {
    /// Capture on this interface (or any) instead of reading files, until interrupted (or --limit)
    #[arg(long, value_name = "INTERFACE", group = "packets_from",
          conflicts_with_all = ["inputs", "passes", "forever", "speed", "strict"])]
    pub(crate) iface: Option<String>,

    /// Read only packets that match this pcap-filter(7) expression, also from files: 'tcp port 443
    /// and net 10.0.0.0/8'
    #[arg(long, value_name = "EXPRESSION")]
    pub(crate) filter: Option<String>,

    /// Also capture packets addressed to other machines
    #[arg(long)]
    pub(crate) promiscuous: bool,

    /// Maximum captured bytes per packet [default: 262144]
    #[arg(long, value_name = "BYTES", value_parser = parse::within(64..=262_144_u32))]
    pub(crate) snaplen: Option<u32>,

    /// Size of the kernel's capture buffer, in bytes, of which a packet takes 2 KiB; packets that
    /// do not fit are dropped and counted [default: 64M]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) kernel_buffer: Option<u64>,
}

impl Live {
    /// Returns a given option that has no effect without an interface.
    ///
    /// Clap does not report such an option: for clap, a file that conflicts with the interface
    /// satisfies the requirement.
    pub(crate) fn idle_option(&self) -> Option<&'static str> {
        let given = [
            (self.promiscuous, "--promiscuous"),
            (self.snaplen.is_some(), "--snaplen"),
            (self.kernel_buffer.is_some(), "--kernel-buffer"),
        ];
        given.into_iter().find(|&(given, _)| given && self.iface.is_none()).map(|(_, name)| name)
    }
}

//! `flowloom bridge`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::firewall::FirewallOptions;
use super::parse;

/// Arguments of `bridge`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom bridge eth0 eth1                                     a wire
  flowloom bridge eth0 eth1 --rules acl.toml --watch-rules      a transparent firewall
  flowloom bridge eth0 eth1 --flows ipfix://collector:4739      with records of flows
  flowloom bridge eth0 eth1 --backend xdp --user flowloom         by AF_XDP, without privileges

Frames without a flow (ARP, neighbour discovery, LLDP, spanning trees) pass. SIGTERM ends the bridge when the frames
that it has taken in have left; docs/bridge.md says more.")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Bridge {
    /// The interface on one side; tap:NAME makes one
    #[arg(value_name = "A")]
    pub(crate) a: String,

    /// The interface on the other side
    #[arg(value_name = "B")]
    pub(crate) b: String,

    /// How frames are received and sent
    #[arg(long, value_enum, default_value_t = BackendName::AfPacket, value_name = "NAME")]
    pub(crate) backend: BackendName,

    /// Threads; each has its own queue of both interfaces, and its own flows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=64_usize))]
    pub(crate) workers: usize,

    /// Bytes of the receive ring of each queue
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = parse::bytes)]
    pub(crate) ring: u64,

    /// When the process ends, however it ends, the kernel's bridge that has both interfaces passes
    /// all frames; a full flow table lets new flows pass
    #[arg(long, conflicts_with = "fail_closed")]
    pub(crate) fail_open: bool,

    /// When the process ends nothing passes, and a full flow table lets no new flow pass; this is
    /// the default
    #[arg(long)]
    pub(crate) fail_closed: bool,

    /// How the sender of a denied packet is told: not at all, by a reset of TCP and else an ICMP
    /// error, or by ICMP errors
    #[arg(long, value_enum, default_value_t = RefusalName::Silent, value_name = "HOW", requires = "rules")]
    pub(crate) deny_with: RefusalName,

    /// What becomes of frames without a flow: pass, or drop all but ARP and what announces links
    /// and neighbours
    #[arg(long, value_enum, default_value_t = WithoutFlowName::Pass, value_name = "WHAT")]
    pub(crate) without_flow: WithoutFlowName,

    /// Flows without a packet for so long end
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse::seconds)]
    pub(crate) timeout: u64,

    /// A packet that comes so long after its record's first begins another record
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) active_timeout: Option<u64>,

    /// The most flows at a time; beyond them, flows that are not established make way for new ones
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,

    /// Write a record of each flow when it ends: to a file or a collector, as `replay --flows` has
    /// it
    #[arg(long, value_name = "TO")]
    pub(crate) flows: Option<PathBuf>,

    /// Format of --flows, where its name does not say it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "flows")]
    pub(crate) flows_format: Option<crate::flow_file::Format>,

    /// Serve statistics on this loopback address while the bridge runs, as Prometheus reads them;
    /// port 0 picks one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse::socket)]
    pub(crate) listen: Option<SocketAddr>,

    /// Let --listen take an address that other hosts can reach
    #[arg(long, requires = "listen")]
    pub(crate) listen_publicly: bool,

    /// Run as this user once the ports are open
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,

    /// Keep all privileges once the ports are open, for debuggers and profilers
    #[arg(long, conflicts_with = "user")]
    pub(crate) keep_privileges: bool,

    #[command(flatten)]
    pub(crate) firewall: FirewallOptions,
}

/// Backends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendName {
    /// `AF_PACKET`: any interface
    AfPacket,
    /// `AF_XDP` in the driver
    Xdp,
    /// `AF_XDP` in the kernel's own code, for drivers without it
    XdpGeneric,
}

/// Ways to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RefusalName {
    Silent,
    Reset,
    Icmp,
}

/// What becomes of frames without a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WithoutFlowName {
    Pass,
    Drop,
}

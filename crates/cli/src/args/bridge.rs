//! `flowloom bridge`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use flowloom::packet::DropReason;

use super::firewall::FirewallOptions;
use super::parse;

/// Arguments of `bridge`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom bridge eth0 eth1                                     forward all frames
  flowloom bridge eth0 eth1 --rules acl.toml --watch-rules      a transparent firewall
  echo '-A INPUT -p tcp --dport 8080 -j DROP' > block           block one port; --default is deny:
  flowloom bridge eth0 eth1 --rules block --default accept      without it, all other traffic is denied
  flowloom bridge eth0 eth1 --flows ipfix://collector:4739      with records of flows
  flowloom bridge eth0 eth1 --backend xdp --user flowloom       with AF_XDP, without privileges
  flowloom bridge queue:0 --rules acl.toml                      judge packets of iptables -j NFQUEUE
  flowloom bridge eth0 eth1 --l7 --l7-deny bittorrent           deny flows by their payload

Frames that are not tracked (ARP, LLDP, spanning tree) and neighbour discovery pass, whatever the rules are. docs/bridge.md has the details.

Signals:
  SIGINT, SIGTERM   end the bridge after it has sent the frames that it has received
  SIGUSR1           print a line of statistics
  SIGHUP            reload the rules; without rules, end the bridge")]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Bridge {
    /// The interface on one side; tap:NAME creates one; queue:N, without B, takes the packets that
    /// a rule of the kernel hands over (-j NFQUEUE --queue-num N)
    #[arg(value_name = "A")]
    pub(crate) a: String,

    /// The interface on the other side
    #[arg(value_name = "B")]
    pub(crate) b: Option<String>,

    /// How the bridge receives and sends frames
    #[arg(long, value_enum, default_value_t = BackendName::AfPacket, value_name = "NAME")]
    pub(crate) backend: BackendName,

    /// Threads; each has its own queue of both interfaces and its own flows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=64_usize))]
    pub(crate) workers: usize,

    /// Size of the receive ring of each queue, in bytes
    #[arg(long, value_name = "BYTES", default_value = "8M", value_parser = parse::bytes)]
    pub(crate) ring: u64,

    /// When the process ends for any reason, a kernel bridge with both interfaces forwards all
    /// frames; while the flow table is full, frames of new flows pass; a failure of --flows does
    /// not end the process
    #[arg(long, conflicts_with = "fail_closed")]
    pub(crate) fail_open: bool,

    /// When the process ends, no frame passes; while the flow table is full, frames of new flows
    /// are dropped (the default)
    #[arg(long)]
    pub(crate) fail_closed: bool,

    /// How to answer a denied packet: not at all, with a TCP reset or else an ICMP error, or always
    /// with an ICMP error
    #[arg(long, value_enum, default_value_t = RefusalName::Silent, value_name = "HOW")]
    pub(crate) deny_with: RefusalName,

    /// What to do with frames that are not tracked: forward all, or drop IP packets that cannot be
    /// decoded and forward others, such as ARP; REASON=pass and REASON=drop select frames by
    /// reason, and later ones win
    #[arg(long, default_value = "pass", value_delimiter = ',', value_name = "[REASON=]WHAT", value_parser = parse::from_str::<WithoutFlow>)]
    pub(crate) without_flow: Vec<WithoutFlow>,

    /// If the application panics on a packet (bug): end the bridge, or pass or drop the packet,
    /// forget its flow, and go on
    #[arg(long, value_enum, default_value_t = OnPanicName::Stop, value_name = "WHAT")]
    pub(crate) on_panic: OnPanicName,

    /// Label flows by protocol, from the first bytes of their payload
    #[arg(long)]
    pub(crate) l7: bool,

    /// Deny flows of these protocols, from the packet on that identifies them
    #[arg(long, value_name = "PROTOCOL", value_delimiter = ',', requires = "l7")]
    pub(crate) l7_deny: Vec<String>,

    /// Patterns for --l7: an l7-filter .pat file, a flowloom pattern file, or a folder of either
    /// [default: builtin]
    #[arg(long, value_name = "PATH", requires = "l7")]
    pub(crate) patterns: Vec<PathBuf>,

    /// Memory for rings and flow tables, in bytes [default: half of free memory]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) memory: Option<u64>,

    /// End a flow that has had no packet for this time
    #[arg(long, value_name = "SECONDS", default_value = "300", value_parser = parse::seconds)]
    pub(crate) timeout: u64,

    /// Begin a new record if a packet arrives this long after the first of its record
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) active_timeout: Option<u64>,

    /// Maximum concurrent flows; beyond it, new flows replace flows that are not established
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,

    /// Write a record of each flow when it ends, to a file or a collector, as `replay --flows`
    /// does; if that fails, the bridge goes on, tries again, and counts the records that it loses
    #[arg(long, alias = "collector", value_name = "TO")]
    pub(crate) flows: Option<PathBuf>,

    /// Format of --flows, if its name does not determine it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "flows")]
    pub(crate) flows_format: Option<crate::record_format::Format>,

    /// Serve statistics in Prometheus format on this loopback address while the bridge runs; port 0
    /// chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse::socket)]
    pub(crate) listen: Option<SocketAddr>,

    /// Allow --listen on an address that other hosts can reach
    #[arg(long, requires = "listen")]
    pub(crate) listen_publicly: bool,

    /// Switch to this user once the ports are open
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
    /// `AF_XDP` in the kernel's generic code, for drivers without it
    XdpGeneric,
}

/// How to answer a denied packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RefusalName {
    Silent,
    Reset,
    Icmp,
}

/// What to do with frames that are not tracked, or with those of one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WithoutFlow {
    pub(crate) reason: Option<DropReason>,
    pub(crate) passes: bool,
}

impl FromStr for WithoutFlow {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, what) = text.split_once('=').map_or((None, text), |(name, what)| (Some(name), what));
        let passes = match what {
            "pass" => true,
            "drop" => false,
            _ => return Err(format!("'{what}' is neither pass nor drop")),
        };
        let reasons = || DropReason::ALL.iter().filter(|reason| !reason.is_loss());
        let reason = name.map(|name| {
            reasons().find(|reason| reason.name() == name).copied().ok_or_else(|| {
                let names: Vec<&str> = reasons().map(|reason| reason.name()).collect();
                format!("no such reason '{name}'\n  use {}", names.join(", "))
            })
        });
        Ok(Self { reason: reason.transpose()?, passes })
    }
}

/// What a panic of the application does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnPanicName {
    Stop,
    Pass,
    Drop,
}

//! `flowloom replay`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args, Command, FromArgMatches, ValueEnum};
use flowloom::engine::Pace;
use flowloom::tcb_cache::Policy;

use crate::part_file::PartNumber;
use crate::record_view::{Columns, FieldGroups, Where};

use super::decoding::DecodingOptions;
use super::firewall::FirewallOptions;
use super::live::Live;
use super::parse::{self, Instant};
use super::save::Save;
use super::scheduler::SchedulerName;

/// Descriptors of a ring, unless asked for otherwise.
pub(crate) const RING: usize = 16_384;

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "\
Examples:
  flowloom replay edge.pcap --flows flows.csv             who talked to whom, how much, how it ended
  flowloom replay edge.pcap --workers 2                   each worker reads half of the file
  flowloom replay tap0.pcap tap1.pcap --filter 'tcp'      two taps, merged by time
  flowloom replay edge.pcap --flows ipfix://collector:4739 --timeout 15 --active-timeout 1800

--help shows all options.",
    after_long_help = "\
Examples:
  flowloom replay edge.pcap --flows flows.csv        one line per flow
  flowloom replay edge.pcap --flows flows.parquet    typed columns, for DuckDB, pandas and Spark
  flowloom replay edge.pcap --workers 2 --verify     two workers, each on half of the file, checked by an oracle
  flowloom replay captures/ --passes 3 --seed 1      a directory, three times
  flowloom replay edge.pcap --rules acl.rules        a firewall: what is denied, and by which rule
  flowloom replay --iface eth0 --filter 'tcp'        what arrives, until Ctrl-C (built with --features live)
  flowloom replay edge.pcap --from +60 --to +120     the second minute
  flowloom replay edge.pcap --timeout 15 --active-timeout 1800 --flows netflow9://collector:2055

Flows:
  A flow is both directions of one key: addresses, protocol, ports (of ICMP kind and identifier) and VLANs; with
  --decap those of the innermost packet, and the tunnel's network number. Without --timeout it never ends. Other tools
  may count otherwise on the same capture. Fragments behind the first have no ports, and are a flow of their own unless
  --defrag joins them; Wireshark's conversations leave those out, and VLANs too, count each layer of a tunnel, and
  begin again where a connection's ports are used again.

Signals:
  SIGINT, SIGTERM   end the run with its result; a second one ends it at once
  SIGUSR1           print a line of statistics
  SIGHUP            load the rules again; where there are none, or with --verify, end the run,
                    unless it was started by nohup"
)]
#[command(group(ArgGroup::new("packets_from").required(true)))]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Replay {
    /// Captures: files, directories, or - for standard input; several are merged by the times of
    /// their packets
    #[arg(value_name = "FILE", group = "packets_from")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Read several captures one after the other, as they are named (directories by first
    /// timestamp), not by time
    #[arg(long)]
    pub(crate) concat: bool,

    #[command(flatten)]
    pub(crate) live: Live,

    /// How threads share the work [default: inline; with --workers sharded, or pipeline where that
    /// cannot be]
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutName>,

    /// Worker threads of the sharded and the pipeline layout [default: one per CPU, or further CPU]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) workers: Option<usize>,

    /// CPUs of the threads: in pipeline mode the first for the input, the others for workers; a
    /// list such as 0,2-5, or auto
    #[arg(long, default_value = "auto", value_name = "LIST")]
    pub(crate) cores: String,

    /// Do not pin threads to CPUs
    #[arg(long, conflicts_with = "cores")]
    pub(crate) no_pin: bool,

    /// What the workers do with packets; with --flows accounting, with --rules firewall
    #[arg(long, value_enum, default_value_t = AppName::TcpTracker, default_value_ifs([("rules", ArgPredicate::IsPresent, "firewall"), ("flows", ArgPredicate::IsPresent, "accounting")]))]
    pub(crate) app: AppName,

    /// Flow table
    #[arg(long, value_enum, default_value_t = TableName::Linehash)]
    pub(crate) table: TableName,

    /// Flows to build the table for; it grows when there are more [default: from a look at the
    /// capture]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) table_flows: Option<u64>,

    /// The most flows at a time; further ones are dropped and counted
    #[arg(long, value_name = "N", default_value = "64M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,

    /// Flows idle for longer, in packet time and to about two milliseconds, end; a later packet
    /// begins them again [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) timeout: Option<u64>,

    /// With --app accounting: a packet that comes so long after a record's first, in packet time,
    /// begins another
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) active_timeout: Option<u64>,

    /// With --app accounting: a closed TCP connection that is idle for longer ends, and its record
    /// is written [default: 5 with --iface, otherwise as --timeout]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) closed_timeout: Option<u64>,

    /// Which worker of the pipeline gets a packet; flows keep their worker with dh, hrw, hrw3, rss,
    /// fixed, crc, dst and hrw3-2009, else all workers share the flows [default: dh]
    #[arg(long, value_enum)]
    pub(crate) scheduler: Option<SchedulerName>,

    /// Sockets, cores, pipelines, threads of the pipeline's workers, as in 2x4x2, or `host` for
    /// this machine's: what hrw3, hrw3-2009 and adaptive descend [default: flat]
    #[arg(long, value_name = "TREE")]
    pub(crate) topology: Option<String>,

    /// Order of packets in the pipeline: none, of each flow by its scheduler, or of all, whatever
    /// the scheduler [default: internal]
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderName>,

    /// When a worker's ring in the pipeline is full: wait for it, or drop the packet and count it
    /// [default: block]
    #[arg(long, value_enum)]
    pub(crate) full: Option<FullName>,

    /// Descriptors per ring of the pipeline, a power of two [default: 16384]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) ring: Option<usize>,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// Join IP fragments into datagrams, each of which counts as one packet; what cannot be joined
    /// is dropped and counted
    #[arg(long)]
    pub(crate) defrag: bool,

    /// Speed: max, x1 (as recorded), x10, or packets a second
    #[arg(long, value_name = "PACE", default_value = "max", value_parser = parse::pace)]
    pub(crate) speed: Pace,

    /// Read the captures N times; each pass makes flows of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=u32::MAX))]
    pub(crate) passes: u32,

    /// Read the captures until interrupted (or --limit)
    #[arg(long = "loop", conflicts_with = "passes")]
    pub(crate) forever: bool,

    /// Take only packets from this time on: 2026-11-25T17:00:00Z (UTC), seconds since 1970, or +30
    /// for seconds after the first packet
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) from: Option<Instant>,

    /// Take only packets before this time
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) to: Option<Instant>,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,

    #[command(flatten)]
    pub(crate) save: Save,

    /// Keep what is known of the flows as a part, for `flowloom merge` to combine with others (of
    /// --app null, tcp-tracker and accounting)
    #[arg(long, value_name = "FILE")]
    pub(crate) save_part: Option<PathBuf>,

    /// With --save-part: this input is part K of N, which `flowloom merge` checks to be all there
    #[arg(long, value_name = "K/N", requires = "save_part", value_parser = parse::from_str::<PartNumber>)]
    pub(crate) part: Option<PartNumber>,

    /// Write a record of each flow when it ends: to a file (.csv, .jsonl, .ipfix, .nf9, .parquet,
    /// .log for Zeek's conn.log, .eve; .gz and .zst compress), to - for standard output, or to a
    /// collector, as ipfix://HOST:PORT, ipfix+tcp://HOST:PORT or netflow9://HOST:PORT
    #[arg(long, value_name = "TO")]
    pub(crate) flows: Option<PathBuf>,

    /// Format of --flows, where its name does not say it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "flows")]
    pub(crate) flows_format: Option<crate::flow_file::Format>,

    /// Columns of --flows in CSV, JSON lines and Parquet: names with commas between, or all
    /// (docs/records.md has them); the columns of other formats are fixed
    #[arg(long, value_name = "NAMES", value_parser = parse::from_str::<Columns>, requires = "flows")]
    pub(crate) columns: Option<Columns>,

    /// Further fields of --flows, by group: sizes, gaps, splt (sizes and directions of the first
    /// packets), handshake, tcp, rtt, tls (server name, ALPN, JA4), dns, http, quic, ssh; with
    /// commas between, or all. CSV, JSON lines and Parquet take all; IPFIX those of sizes and http
    /// that IANA has elements for; EVE tls, dns, http, quic and ssh; Zeek names the service by them
    #[arg(long, value_name = "GROUPS", value_parser = parse::from_str::<FieldGroups>, requires = "flows")]
    pub(crate) fields: Option<FieldGroups>,

    /// Write only the records of --flows that match, as in 'protocol == tcp and bytes > 1M';
    /// docs/selecting.md has the names and the operators
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<Where>, requires = "flows")]
    pub(crate) record_filter: Option<Where>,

    /// Write the records of --flows in the order of their keys, when the run has ended: all of them
    /// are kept until then
    #[arg(long, requires = "flows")]
    pub(crate) sort: bool,

    /// Write the packets that the application accepts to a file: pcap if its name ends in .pcap or
    /// .cap, else pcapng, packed with .gz or .zst behind it. Packets come in the order that --order
    /// promises; one whose time goes back in the input gets the latest time before it. Without
    /// --order external, a packet may stand before earlier ones of other flows. In order, a pcapng
    /// file keeps interfaces, comments, flags, names and secrets of the captures; a warning says
    /// what is not kept
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    /// Compare with a single-threaded oracle, but for what depends on order where none is kept;
    /// exit 1 at the first difference
    #[arg(long, conflicts_with = "watch_rules")]
    pub(crate) verify: bool,

    /// Simulate a cache of connection state of this size beside the run, one for each worker
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) tcb_cache: Option<u64>,

    /// Policy of that cache, as `simulate tcb-cache` names it
    #[arg(long, value_name = "POLICY", default_value = "spec", requires = "tcb_cache", value_parser = parse::from_str::<Policy>)]
    pub(crate) tcb_policy: Policy,

    /// Patterns for --app l7: a .pat file of l7-filter, a file of flowloom's form, or a folder of
    /// either [default: builtin]
    #[arg(long, value_name = "PATH")]
    pub(crate) patterns: Vec<PathBuf>,

    /// Data packets of a connection that --app l7 looks at [default: 8]
    #[arg(long, value_name = "N", value_parser = parse::within(1..=1000_u32))]
    pub(crate) l7_packets: Option<u32>,

    /// Let --app l7 search everything again for each pattern at each packet, as the original does;
    /// same results
    #[arg(long)]
    pub(crate) l7_rescan: bool,

    /// Exit 4 when a capture is cut or corrupt
    #[arg(long)]
    pub(crate) strict: bool,

    /// Secret of the hash, to make placement repeatable [default: a secret per process]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u64>)]
    pub(crate) seed: Option<u64>,

    /// Read plain files instead of mapping them
    #[arg(long)]
    pub(crate) no_mmap: bool,

    /// Instruction set of the table's bucket compare
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) isa: String,

    /// Ask for huge pages behind the table
    #[arg(long, value_enum, default_value_t = HugePagesName::Auto)]
    pub(crate) hugepages: HugePagesName,

    /// The most bytes that a compressed input may unpack to
    #[arg(long, value_name = "BYTES", default_value = "1000G", value_parser = parse::positive)]
    pub(crate) unpack_max: u64,

    /// The most bytes that a compressed input may unpack to for each of its own, judged beyond 256
    /// MiB [default: any]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) unpack_ratio_max: Option<u64>,

    /// Serve statistics on this loopback address while the run lasts, as Prometheus reads them;
    /// port 0 picks one
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse::socket)]
    pub(crate) listen: Option<SocketAddr>,

    /// Let --listen take an address that other hosts can reach
    #[arg(long, requires = "listen")]
    pub(crate) listen_publicly: bool,

    #[command(flatten)]
    pub(crate) firewall: FirewallOptions,
}

impl Replay {
    /// Returns the idle time after which closed connections end, in nanoseconds.
    pub(crate) fn closed_timeout_ns(&self) -> Option<u64> {
        const LIVE_NS: u64 = 5_000_000_000;
        let usual = self.live.iface.is_some() && self.app == AppName::Accounting;
        self.closed_timeout.or(usual.then_some(LIVE_NS))
    }

    /// Returns the arguments of a run over these inputs that asks for nothing else but records.
    pub(crate) fn over(inputs: &[PathBuf]) -> Self {
        let command = Self::augment_args(Command::new("replay").no_binary_name(true));
        let options = ["--app=accounting", "--"].map(OsString::from);
        let words = options.into_iter().chain(inputs.iter().map(OsString::from));
        let matches = command.try_get_matches_from(words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .expect("the defaults are valid, and there is an input: the verbs require one")
    }
}

/// Layout on threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// One thread does everything
    Inline,
    /// Each worker reads a part of the input, and flows are composed at the end: the quickest on
    /// files
    Sharded,
    /// One thread reads, and a ring leads to each worker: for schedulers, orders and live input
    Pipeline,
}

/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AppName {
    /// Nothing: the cost of everything else
    Null,
    /// Packets, bytes, times, flags and TCP state per flow
    TcpTracker,
    /// Verdicts of --rules, kept per flow
    Firewall,
    /// Records with a beginning, an end and the reason for it, cut by --timeout and
    /// --active-timeout
    Accounting,
    /// The protocol's name, by patterns over the first bytes of each direction
    L7,
}

/// Flow tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Thirty 16-bit signatures on a cache line
    Linehash,
    /// `DHash`: sixteen 32-bit signatures on a cache line
    Dhash,
    /// `SigHash`: four 8-bit signatures in a word
    Sighash,
}

impl TableName {
    /// Returns the name as it is given and reported.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linehash => "linehash",
            Self::Dhash => "dhash",
            Self::Sighash => "sighash",
        }
    }
}

/// Orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderName {
    /// None
    None,
    /// Packets of a flow in the order they came in, kept by the scheduler
    Internal,
    /// All packets in the order they came in
    External,
}

/// What to do when a ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FullName {
    Block,
    Drop,
}

/// Huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HugePagesName {
    Auto,
    Off,
}

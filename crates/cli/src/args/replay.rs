//! `flowloom replay`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{ArgGroup, Args, Command, FromArgMatches, ValueEnum};
use flowloom::engine::Pace;
use flowloom::scheduler::placement::adaptive::Threshold;
use flowloom::tcb_cache::Policy;
use flowloom::traffic::dedup::DedupWindow;
use flowloom::traffic::sample::Sampling;

use crate::flow_file::Destination;
use crate::memory_budget::Budget;
use crate::part_file::PartNumber;
use crate::record_format::Format;
use crate::record_view::{Columns, FieldGroups, Where};

use super::decoding::DecodingOptions;
use super::firewall::FirewallOptions;
use super::live::Live;
use super::parse::{self, Instant};
use super::save::Save;
use super::scheduler::SchedulerName;

/// Descriptors per ring by default.
pub(crate) const RING: usize = 16_384;
/// Idle time after which closed connections of live traffic end.
pub(crate) const LIVE_CLOSED_TIMEOUT_NS: u64 = 5_000_000_000;

/// Arguments of `replay`.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "\
Examples:
  flowloom replay edge.pcap --flows flows.csv             one record per flow
  flowloom replay edge.pcap --workers 2                   two threads, each with half of the flows
  flowloom replay tap0.pcap tap1.pcap --filter 'tcp'      two taps, merged by time
  flowloom replay edge.pcap --flows ipfix://collector:4739 --timeout 15 --active-timeout 1800

--help shows all options.",
    after_long_help = "\
Examples:
  flowloom replay edge.pcap --flows flows.csv        one line per flow
  flowloom replay edge.pcap --flows flows.parquet    typed columns, for DuckDB, pandas and Spark
  flowloom replay edge.pcap --workers 2 --verify     two threads, checked with an oracle
  flowloom replay captures/ --passes 3 --seed 1      read a directory three times
  flowloom replay edge.pcap --rules acl.rules        count what a firewall would deny, by rule
  flowloom replay --iface eth0 --filter 'tcp'        capture until Ctrl-C (needs CAP_NET_RAW)
  flowloom replay edge.pcap --from +60 --to +120     the second minute
  flowloom replay edge.pcap --timeout 15 --active-timeout 1800 --flows netflow9://collector:2055

Flows:
  A flow is both directions of one key: addresses, protocol, ports (for ICMP kind and identifier) and VLANs. With \
  --decap the key is that of the innermost packet, with the network number of the tunnel. Without --timeout a flow \
  never ends. Fragments after the first have no ports, and form a flow of their own unless --defrag joins them. Other \
  tools may count differently: Wireshark's conversations ignore later fragments and VLANs, count each layer of a tunnel, \
  and start anew when a connection reuses ports.

Signals:
  SIGINT, SIGTERM   end the run and print its result; a second signal ends the process at once
  SIGUSR1           print a line of statistics
  SIGHUP            reload the rules; without rules, or with --verify, end the run,
                    unless nohup started it"
)]
#[command(group(ArgGroup::new("packets_from").required(true)))]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub(crate) struct Replay {
    /// Captures: files, directories, or - for standard input; several are merged by the times of
    /// their packets
    #[arg(value_name = "FILE", group = "packets_from")]
    pub(crate) inputs: Vec<PathBuf>,

    /// Read several captures one after another in the given order (directories by first timestamp)
    /// instead of merging them by time
    #[arg(long)]
    pub(crate) concat: bool,

    #[command(flatten)]
    pub(crate) live: Live,

    /// Distribution of the work over threads [default: sharded for captures of 16 MiB and more,
    /// pipes, and with --workers; pipeline with --workers and its options; otherwise inline]
    #[arg(long, value_enum)]
    pub(crate) layout: Option<LayoutName>,

    /// Worker threads of the sharded and pipeline layouts; 1 is inline [default: one per CPU, at
    /// most 16; in the pipeline, one per CPU but that of the reader]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) workers: Option<usize>,

    /// CPUs for the threads: a list such as 0,2-5, or auto; in the pipeline the first is for the
    /// input, the others for workers
    #[arg(long, default_value = "auto", value_name = "LIST")]
    pub(crate) cores: String,

    /// Do not pin threads to CPUs
    #[arg(long, conflicts_with = "cores")]
    pub(crate) no_pin: bool,

    /// Application that the workers run; --flows implies accounting, --rules implies firewall
    #[arg(long, value_enum, default_value_t = AppName::TcpTracker, default_value_ifs([("rules", ArgPredicate::IsPresent, "firewall"), ("flows", ArgPredicate::IsPresent, "accounting")]))]
    pub(crate) app: AppName,

    /// Flow table
    #[arg(long, value_enum, default_value_t = TableName::Linehash)]
    pub(crate) table: TableName,

    /// With --table dhash: search as [DHASH] describes it, slot by slot, with this signature, and
    /// count the steps [default with --major-location: keyed]
    #[arg(long, value_enum, value_name = "NAME")]
    pub(crate) signature: Option<SignatureName>,

    /// With --table dhash: search as [DHASH] describes it, from the slot that the signature
    /// prefers, or from the first [default with --signature: on]
    #[arg(long, value_enum, value_name = "ON")]
    pub(crate) major_location: Option<MajorLocationName>,

    /// Initial size of the flow table, in flows; the table grows as needed [default: estimated from
    /// the capture]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) table_flows: Option<u64>,

    /// Maximum concurrent flows; packets of further flows are dropped and counted
    #[arg(long, value_name = "N", default_value = "64M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,

    /// End flows that are idle for longer, in packet time, accurate to about 2 ms; a later packet
    /// begins a new flow [default: never]
    #[arg(long, alias = "idle-timeout", value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) timeout: Option<u64>,

    /// Begin a new record if a packet arrives this long after the first of its record, in packet
    /// time; not for --app null and tcp-tracker
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) active_timeout: Option<u64>,

    /// With --app accounting: end a closed TCP connection that is idle for longer, and write its
    /// record [default: 5 with --iface, otherwise as --timeout]
    #[arg(long, value_name = "SECONDS", value_parser = parse::seconds)]
    pub(crate) closed_timeout: Option<u64>,

    /// Policy that chooses the worker of a packet in the pipeline; flows stay on their worker with
    /// dh, hrw, hrw3, rss, fixed, crc, dst and hrw3-2009; otherwise all workers share the flows
    /// [default: dh]
    #[arg(long, value_enum)]
    pub(crate) scheduler: Option<SchedulerName>,

    /// With the adaptive schedulers: percentage of the shortest queue by which the queue that the
    /// hash chooses may be longer; 0 for the shortest queue always, `none` for the hash alone
    /// [default: 10]
    #[arg(long, value_name = "PERCENT", value_parser = parse::threshold)]
    pub(crate) threshold: Option<Threshold>,

    /// Topology of the pipeline's workers as sockets, cores, pipelines, threads, for example 2x4x2,
    /// or `host` for this machine; hrw3, hrw3-2009 and adaptive use it [default: flat]
    #[arg(long, value_name = "TREE")]
    pub(crate) topology: Option<String>,

    /// Packet order in the pipeline: none, per flow as the scheduler keeps it, or over all packets
    /// [default: internal]
    #[arg(long, value_enum)]
    pub(crate) order: Option<OrderName>,

    /// If a worker's ring in the pipeline is full: wait, or drop the packet and count it [default:
    /// block]
    #[arg(long, value_enum)]
    pub(crate) full: Option<FullName>,

    /// Descriptors per ring of the pipeline, a power of two [default: 16384]
    #[arg(long, value_name = "N", value_parser = parse::whole::<usize>)]
    pub(crate) ring: Option<usize>,

    #[command(flatten)]
    pub(crate) decoding: DecodingOptions,

    /// Join IP fragments into datagrams, each of which counts as one packet; fragments that cannot
    /// be joined are dropped and counted
    #[arg(long)]
    pub(crate) defrag: bool,

    /// Drop and count packets whose bytes equal those of an earlier one in the window: N packets
    /// including this one, as editcap -D N, or a time such as 50ms, as editcap -w; of the packets
    /// that --filter selects
    #[arg(long, value_name = "WINDOW", value_parser = parse::from_str::<DedupWindow>, conflicts_with_all = ["save_part", "fragments", "bytes"])]
    pub(crate) dedup: Option<DedupWindow>,

    /// Take the first of every N packets that the other options leave, and count the others; the
    /// counts of records are those of the sampled packets, and the report says what they stand for
    #[arg(long, value_name = "1/N", value_parser = parse::from_str::<Sampling>, conflicts_with_all = ["save_part", "fragments", "bytes", "defrag"])]
    pub(crate) sample: Option<Sampling>,

    /// Speed: max, x1 (as recorded), x10, or packets per second
    #[arg(long, value_name = "PACE", default_value = "max", value_parser = parse::pace)]
    pub(crate) speed: Pace,

    /// Read the captures N times; each pass creates its own flows
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=u32::MAX))]
    pub(crate) passes: u32,

    /// Read the captures until interrupted (or --limit)
    #[arg(long = "loop", conflicts_with = "passes")]
    pub(crate) forever: bool,

    /// Read only packets from this time on: 2026-11-25T17:00:00Z (UTC), seconds since 1970, or +30
    /// for seconds after the first packet
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) from: Option<Instant>,

    /// Read only packets before this time
    #[arg(long, value_name = "TIME", value_parser = parse::instant)]
    pub(crate) to: Option<Instant>,

    /// Stop after N packets
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) limit: Option<u64>,

    #[command(flatten)]
    pub(crate) save: Save,

    /// Save the state of the flows as a part that `flowloom merge` combines with others (with --app
    /// null, tcp-tracker or accounting)
    #[arg(long, value_name = "FILE")]
    pub(crate) save_part: Option<PathBuf>,

    /// With --save-part: the number of this part, as K/N; `flowloom merge` checks that all N parts
    /// are present
    #[arg(long, value_name = "K/N", requires = "save_part", value_parser = parse::from_str::<PartNumber>)]
    pub(crate) part: Option<PartNumber>,

    /// Take only the records of a classic capture that begin in this range of its bytes, as
    /// 0..1000000; the second offset is excluded. Of several captures, give one for each, in their
    /// order; .. takes all records
    #[arg(long, value_name = "FROM..TO", value_parser = parse::extent, conflicts_with_all = ["workers", "limit", "iface", "passes", "forever"])]
    pub(crate) bytes: Vec<parse::Extent>,

    /// With --flows in Arrow: write a part for `flowloom merge --fragments`, of --app accounting.
    /// A flow that ends inside the input is a row with its record. A flow that may begin before the
    /// input or continue after it is a row with its key and its state
    #[arg(long, requires = "flows", conflicts_with_all = ["save_part", "closed_timeout", "fields", "record_filter", "verify", "limit", "iface"])]
    pub(crate) fragments: bool,

    /// Write a row of each packet instead of running an application, as a stream of Arrow: times,
    /// lengths, and what the headers say; to a file or to - for standard output
    #[arg(long, value_name = "TO", conflicts_with_all = ["flows", "save_part", "write", "rules", "verify", "workers", "defrag", "dedup", "limit", "iface"])]
    pub(crate) packets: Option<PathBuf>,

    /// With --packets: only those of the flows whose keys are in this file, with their bytes; the
    /// file holds values of the column `flow_key`, concatenated
    #[arg(long, value_name = "FILE", requires = "packets")]
    pub(crate) packets_of: Option<PathBuf>,

    /// Write a record of each flow when it ends: to a file (.csv, .jsonl or .json, .ipfix, .nf9,
    /// .parquet, .arrows, .log for Zeek's conn.log, .eve or a name such as eve.json or
    /// edge-eve.json; .gz and .zst compress), to - for standard output, or to a collector:
    /// ipfix://HOST:PORT, ipfix+tcp://HOST:PORT or netflow9://HOST:PORT. Texts of CSV are what
    /// hosts sent: a spreadsheet may run one that begins with = + - or @
    #[arg(long, alias = "collector", value_name = "TO")]
    pub(crate) flows: Option<PathBuf>,

    /// Format of --flows, if its name does not determine it
    #[arg(long, value_enum, value_name = "FORMAT", requires = "flows")]
    pub(crate) flows_format: Option<Format>,

    /// Columns of --flows in CSV, JSON lines, Parquet and Arrow: comma-separated names, or all
    /// (docs/records.md lists them for each application), or those of another meter: cicflowmeter,
    /// nfstream; other formats have fixed columns
    #[arg(long, value_name = "NAMES", value_parser = parse::from_str::<Columns>, requires = "flows")]
    pub(crate) columns: Option<Columns>,

    /// Times of --flows in CSV and JSON lines
    #[arg(long, alias = "time-format", value_enum, default_value_t = TimesName::Ns, value_name = "FORM")]
    pub(crate) times: TimesName,

    /// Additional fields of --flows, by group: sizes, gaps, splt (sizes and directions of the first
    /// packets), vlan, handshake, tcp, rtt, tls (server name, ALPN, JA4), dns, http, quic, ssh;
    /// comma-separated, or all; and l7, the name of the protocol. CSV, JSON lines, Parquet and
    /// Arrow hold all groups; IPFIX the fields of sizes, http and l7 that have IANA elements; EVE
    /// tls, dns, http, quic and ssh; Zeek derives the service from them. Zeek and EVE have l7
    /// unless `none` is given
    #[arg(long, value_name = "GROUPS", value_parser = parse::from_str::<FieldGroups>, requires = "flows")]
    pub(crate) fields: Option<FieldGroups>,

    /// Add the column `file` to --flows: the capture that a flow's first packet was read from
    #[arg(long, requires = "flows", conflicts_with_all = ["iface", "rules", "save_part"])]
    pub(crate) by_file: bool,

    /// Write only the records of --flows that match, for example 'protocol == tcp and bytes > 1M';
    /// docs/selecting.md lists names and operators
    #[arg(long = "where", value_name = "EXPRESSION", value_parser = parse::from_str::<Where>, requires = "flows")]
    pub(crate) record_filter: Option<Where>,

    /// Sort the records of --flows by key and write them when the run has ended; keeps all records
    /// in memory until then
    #[arg(long, requires = "flows")]
    pub(crate) sort: bool,

    /// Write the packets that the application accepts to a file: pcap if its name ends in .pcap or
    /// .cap, otherwise pcapng; a further .gz or .zst compresses it. --order determines the order of
    /// the packets. If time stamps go back in the input, a packet gets the latest earlier time.
    /// Without --order external, a packet may precede earlier packets of other flows. With packets
    /// in order, a pcapng file keeps interfaces, comments, flags, names and secrets of the
    /// captures; a warning lists omitted details
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,

    /// Compare the result with a single-threaded oracle, except values that depend on an order that
    /// is not kept; exit with 1 at the first difference
    #[arg(long, conflicts_with = "watch_rules")]
    pub(crate) verify: bool,

    /// Also simulate a cache of connection state of this size, in bytes, for each worker
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) tcb_cache: Option<u64>,

    /// Replacement policy of that cache, as `simulate tcb-cache` names it
    #[arg(long, value_name = "POLICY", default_value = "spec", requires = "tcb_cache", value_parser = parse::from_str::<Policy>)]
    pub(crate) tcb_policy: Policy,

    /// Memory of the run in bytes: the process, flow tables, fields of --fields, labels, outputs.
    /// Where it is short, the oldest fields are dropped, counted, and marked `(no memory)`; records
    /// stay [default: what is free]
    #[arg(long, value_name = "BYTES", value_parser = parse::bytes)]
    pub(crate) memory: Option<u64>,

    /// Bytes of the rows that `top` makes of the records.
    #[arg(skip)]
    pub(crate) rows_bytes: u64,

    /// Patterns for labels of protocols (--app l7, --fields l7): an l7-filter .pat file, a flowloom
    /// pattern file, or a folder of either [default: builtin]
    #[arg(long, value_name = "PATH")]
    pub(crate) patterns: Vec<PathBuf>,

    /// Number of data packets of a connection that labels are derived from [default: 8]
    #[arg(long, value_name = "N", value_parser = parse::within(1..=1000_u32))]
    pub(crate) l7_packets: Option<u32>,

    /// For labels, search all data again for each pattern at each packet, as the original
    /// l7-filter does; the results are the same
    #[arg(long)]
    pub(crate) l7_rescan: bool,

    /// Exit with 4 if a capture is truncated or corrupt
    #[arg(long)]
    pub(crate) strict: bool,

    /// Secret of the hash, for repeatable placement [default: a random secret per process]
    #[arg(long, value_name = "N", value_parser = parse::whole::<u64>)]
    pub(crate) seed: Option<u64>,

    /// Read uncompressed files instead of mapping them
    #[arg(long)]
    pub(crate) no_mmap: bool,

    /// Instruction set for the bucket comparison of the flow table
    #[arg(long, value_name = "NAME", default_value = "auto")]
    pub(crate) isa: String,

    /// Request huge pages for the flow table
    #[arg(long, value_enum, default_value_t = HugePagesName::Auto)]
    pub(crate) hugepages: HugePagesName,

    /// Maximum bytes that a compressed input may decompress to
    #[arg(long, value_name = "BYTES", default_value = "1000G", value_parser = parse::positive_bytes)]
    pub(crate) unpack_max: u64,

    /// Maximum decompressed bytes per compressed byte, checked beyond 256 MiB [default: no limit]
    #[arg(long, value_name = "N", value_parser = parse::positive)]
    pub(crate) unpack_ratio_max: Option<u64>,

    /// Serve statistics in Prometheus format on this loopback address during the run; port 0
    /// chooses a free port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = parse::socket)]
    pub(crate) listen: Option<SocketAddr>,

    /// Allow --listen on an address that other hosts can reach
    #[arg(long, requires = "listen")]
    pub(crate) listen_publicly: bool,

    #[command(flatten)]
    pub(crate) firewall: FirewallOptions,
}

impl Replay {
    /// Returns whether the run makes a part of a larger input.
    pub(crate) fn is_part(&self) -> bool {
        self.save_part.is_some() || self.fragments || !self.bytes.is_empty()
    }

    /// Returns whether the run takes the packets of a range of time as a part: those whose time in
    /// the run is in it, where a packet that goes back has the latest earlier time. Ranges that
    /// adjoin then have each packet once.
    pub(crate) fn is_part_by_time(&self) -> bool {
        let is_of_parts = self.save_part.is_some() || self.fragments || self.packets.is_some();
        is_of_parts && (self.from.is_some() || self.to.is_some())
    }

    /// Returns the range of a capture that is read by itself, which adjoins others by its bytes.
    pub(crate) fn byte_range(&self) -> Option<&std::ops::Range<u64>> {
        match self.bytes.as_slice() {
            [parse::Extent(range)] if !self.is_part_by_time() => range.as_ref(),
            _ => None,
        }
    }

    /// Returns the memory of the run.
    pub(crate) fn budget(&self) -> Budget {
        Budget::of_free(self.memory).with_rows(self.rows_bytes)
    }

    /// Returns the format of --flows, if there are any and their destination is valid.
    pub(crate) fn format_of_flows(&self) -> Option<Format> {
        let path = self.flows.as_deref()?;
        Destination::parse(path, self.flows_format).ok().map(|destination| destination.format)
    }

    /// Returns the additional fields: those asked for and, where a format's column of protocols
    /// needs them, labels.
    pub(crate) fn fields(&self) -> FieldGroups {
        let fields = self.fields.unwrap_or_default();
        let names_protocols = matches!(self.format_of_flows(), Some(Format::Zeek | Format::Eve));
        if names_protocols && self.option_of_merged_parts().is_none() {
            fields.with_labels()
        } else {
            fields
        }
    }

    /// Returns the option that makes the run a part of a larger input, if there is one.
    pub(crate) fn part_option(&self) -> &'static str {
        match self {
            Self { save_part: Some(_), .. } => "--save-part",
            Self { fragments: true, .. } => "--fragments",
            _ => "--bytes",
        }
    }

    /// Returns the option whose output is merged with others later, if there is one.
    pub(crate) fn option_of_merged_parts(&self) -> Option<&'static str> {
        (self.save_part.is_some() || self.fragments).then(|| self.part_option())
    }

    /// Returns the idle time after which closed connections end, in nanoseconds.
    pub(crate) fn closed_timeout_ns(&self) -> Option<u64> {
        let has_records = match self.app {
            AppName::Null | AppName::TcpTracker => false,
            AppName::Accounting => true,
            AppName::Firewall | AppName::L7 => self.flows.is_some(),
        };
        let usual = self.live.iface.is_some() && has_records;
        self.closed_timeout.or(usual.then_some(LIVE_CLOSED_TIMEOUT_NS))
    }

    /// Returns the arguments of a run over these inputs that produces only records.
    pub(crate) fn over(inputs: &[PathBuf]) -> Self {
        let command = Self::augment_args(Command::new("replay").no_binary_name(true));
        let options = ["--app=accounting", "--"].map(OsString::from);
        let words = options.into_iter().chain(inputs.iter().map(OsString::from));
        let matches = command.try_get_matches_from(words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .expect("the defaults are valid, and there is an input: the commands require one")
    }
}

/// Distribution of the work over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutName {
    /// One thread does everything
    Inline,
    /// Each worker reads a part of the input; flows are composed at the end: the fastest layout on
    /// files
    Sharded,
    /// One thread reads and passes packets to each worker through a ring: for schedulers, orders
    /// and live input
    Pipeline,
}

/// Applications.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AppName {
    /// No work: measures everything else
    Null,
    /// Packets, bytes, times, flags and TCP state per flow
    TcpTracker,
    /// Verdicts of --rules, kept per flow
    Firewall,
    /// Records with start, end and end reason, split by --timeout and --active-timeout
    Accounting,
    /// Protocol labels, from patterns over the first bytes of each direction
    L7,
}

/// Forms of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimesName {
    /// Nanoseconds since 1970
    Ns,
    /// Dates in UTC: 2026-11-25T17:00:00.000000000Z
    Iso,
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
    /// A list of flows in each bucket
    Chained,
    /// One flow in each bucket, and a list of those that collide
    Direct,
}

/// Signatures of `DHash`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SignatureName {
    /// Half of the keyed hash
    Keyed,
    /// Algorithm 1: the xor of addresses and ports
    #[value(name = "1")]
    One,
    /// Algorithm 2: a checksum of xors
    #[value(name = "2")]
    Two,
    /// Algorithm 3: the xor of the checksums of both directions
    #[value(name = "3")]
    Three,
    /// Algorithm 4: halves of the checksums of both directions
    #[value(name = "4")]
    Four,
}

/// Whether a search begins at the slot that a signature prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum MajorLocationName {
    On,
    Off,
}

impl AppName {
    /// Returns the name that users type and reports show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::TcpTracker => "tcp-tracker",
            Self::Firewall => "firewall",
            Self::Accounting => "accounting",
            Self::L7 => "l7",
        }
    }
}

impl TableName {
    /// Returns the name that users type and reports show.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Linehash => "linehash",
            Self::Dhash => "dhash",
            Self::Sighash => "sighash",
            Self::Chained => "chained",
            Self::Direct => "direct",
        }
    }
}

/// Packet orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrderName {
    /// None
    None,
    /// Packets of a flow in their input order, kept by the scheduler
    Internal,
    /// All packets in their input order
    External,
}

/// Behaviour when a ring is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FullName {
    Block,
    Drop,
}

/// Use of huge pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HugePagesName {
    Auto,
    Off,
}

//! `flowloom simulate tcb-cache`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use flowloom::tcb_cache::model::{Connection, PacketModel, Ports, View};
use flowloom::tcb_cache::trace::Format;
use flowloom::tcb_cache::{IndexFunction, Policy};

use crate::args::parse;

/// Arguments of `simulate tcb-cache`.
///
/// Runs one simulation for every combination of the values in comma-separated lists: policies,
/// sizes, banks, ways, index functions, and treatment of ended sessions. Simulations run in
/// parallel; results do not depend on the number of threads.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom simulate tcb-cache access.log.gz --policy mod,2-hash,spec,flowlru
  flowloom simulate tcb-cache access.log.gz --overlap 1000 --accesses 1M --size 8k,16k,32k,64k --svg curve.svg
  flowloom simulate tcb-cache --model s --overlap 6400 --policy spec,flowlru,min --fin off,on
  flowloom simulate tcb-cache trace.oracleGeneral.zst --policy lru,fa-lru,sieve --hash h3-64
  flowloom simulate tcb-cache edge.pcapng.zst --policy spec,flowlru

Policies:
  mod                                         the baseline: one bank with all ways, low bits, LRU
  2-hash rr access ts-8 ts-16 ts-24           the paper's alternatives
  access-uses ts-32                           access counting only hits and fills; more time bits
  ts-N-distance                               ts-N, comparing the distance to the counter
  no-migrate spec (-older, -turns)            the paper's policy without and with migration; other tie rules
  flowlru flowlru-8                           Flowloom's, and with 8-bit ages
  lru fifo srrip drrip ship zcache            within banks  fa-lru fa-fifo clock sieve s3-fifo arc 2q lirs w-tinylfu    fully associative
  min opt                                     knowing the future: fully associative, within banks")]
#[command(group(ArgGroup::new("accesses_from").required(true)))]
pub struct TcbCache {
    /// A log (common, combined, TSV, W3C extended, Boston University), a trace (CSV, oracleGeneral,
    /// VSCSI) or a capture, plain or compressed with gzip or zstd; - for standard input
    #[arg(value_name = "TRACE", group = "accesses_from")]
    pub trace: Option<PathBuf>,

    /// Model of sessions, instead of a trace
    #[arg(long, value_enum, value_name = "MODEL", requires = "overlap", group = "accesses_from")]
    pub model: Option<ModelName>,

    /// Format of the trace [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = parse::from_str::<Format>)]
    pub trace_format: Option<Format>,

    /// Policies, comma-separated
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', value_parser = policy,
        default_value = "mod,2-hash,no-migrate,spec,flowlru"
    )]
    pub policy: Vec<PolicyName>,

    /// Cache sizes in bytes, with k for 1,024 and M for 1,048,576
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::bytes, default_value = "32k")]
    pub size: Vec<u64>,

    /// Numbers of banks; each bank has its own index function
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2", value_parser = parse::whole::<u32>)]
    pub banks: Vec<u32>,

    /// Ways per bank
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4", value_parser = parse::whole::<u32>)]
    pub ways: Vec<u32>,

    /// Index functions: mod, xor, pmod, pdisp, crc, h3-N, h3-N-full [default: h3-16; h3-64 for
    /// oracleGeneral and VSCSI]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::from_str::<IndexFunction>)]
    pub hash: Vec<IndexFunction>,

    /// Bytes per line
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = parse::whole::<u32>)]
    pub line: u32,

    /// Whether the lines of ended sessions are freed at once; flowlru always frees them
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "off")]
    pub fin: Vec<Fin>,

    /// Number of random draws of index functions and choices to average over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=10_000_u32))]
    pub draws: u32,

    /// First accesses, which fill the caches without being counted: a share, or a number [default:
    /// 25% with --overlap, otherwise 0]
    #[arg(long, value_name = "PART", value_parser = warm)]
    pub warm: Option<Warm>,

    /// Overlap this many sessions, drawn from the log or the model, instead of keeping the order of
    /// the log
    #[arg(long, value_name = "SESSIONS", value_parser = parse::within(1..=u32::MAX), help_heading = "Workload")]
    pub overlap: Option<u32>,

    /// Number of accesses to generate with --overlap
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::positive, help_heading = "Workload")]
    pub accesses: u64,

    /// Part of a request that the cache sees
    #[arg(long, value_enum, default_value_t = ViewName::Request, value_name = "VIEW", help_heading = "Workload")]
    pub view: ViewName,

    /// Which requests share a connection
    #[arg(long, value_enum, default_value_t = ConnectionName::Session, value_name = "UNIT", help_heading = "Workload")]
    pub connection: ConnectionName,

    /// Source ports: paper-like, uniform, sequential, skewed-N
    #[arg(
        long, value_name = "PORTS", default_value = "paper-like", value_parser = parse::from_str::<Ports>,
        help_heading = "Workload"
    )]
    pub ports: Ports,

    /// Model: factor for the pauses between pages
    #[arg(long, value_name = "FACTOR", default_value_t = 16.0, value_parser = parse::think_factor, help_heading = "Workload")]
    pub think: f64,

    /// Stop after N records
    #[arg(long, value_name = "N", default_value = "100M", value_parser = parse::positive, help_heading = "Workload")]
    pub limit: u64,

    /// Maximum bytes to read after decompression
    #[arg(long, value_name = "BYTES", default_value = "64G", value_parser = parse::bytes, help_heading = "Workload")]
    pub unpack_max: u64,

    /// Seed of all random values
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,

    /// Threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = parse::within(1..=1024_u16))]
    pub threads: Option<u16>,

    /// Draw an SVG chart of miss ratios by size
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,

    /// Treat skipped records as an error
    #[arg(long)]
    pub strict: bool,
}

/// A policy, or the baseline, which is a policy with its own banks and index function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyName {
    Baseline,
    Policy(Policy),
}

impl TcbCache {
    /// Returns the rule that turns sessions into accesses.
    pub fn packet_model(&self) -> PacketModel {
        packet_model(self.connection, self.view)
    }
}

/// Returns the rule that turns sessions into accesses.
pub fn packet_model(connection: ConnectionName, view: ViewName) -> PacketModel {
    PacketModel {
        connection: match connection {
            ConnectionName::Session => Connection::PerSession,
            ConnectionName::Page => Connection::PerPage,
            ConnectionName::Request => Connection::PerRequest,
        },
        view: match view {
            ViewName::Request => View::Request,
            ViewName::Rx => View::Rx,
            ViewName::Rxtx => View::RxTx,
        },
    }
}

/// Models of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// ON and OFF periods, fitted to the miss ratios of the paper
    S,
}

/// Treatment of ended sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fin {
    /// The lines age
    Off,
    /// The lines are freed
    On,
}

/// Part of a request that the cache sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewName {
    /// One access
    Request,
    /// The packets that the server receives
    Rx,
    /// The packets that the server receives and sends
    Rxtx,
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConnectionName {
    /// All requests of a session
    Session,
    /// Requests less than 15 s apart
    Page,
    /// No requests
    Request,
}

/// Number of accesses that are not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warm {
    Share(f64),
    Accesses(u64),
}

fn policy(text: &str) -> Result<PolicyName, String> {
    if text == "mod" {
        return Ok(PolicyName::Baseline);
    }
    text.parse()
        .map(PolicyName::Policy)
        .map_err(|error: flowloom::tcb_cache::UnknownPolicy| format!("{error}, and mod, the baseline"))
}

fn warm(text: &str) -> Result<Warm, String> {
    if let Some(share) = text.strip_suffix('%') {
        return match parse::unsigned(share.trim()) {
            Some(share) if (0.0..100.0).contains(&share) => Ok(Warm::Share(share / 100.0)),
            _ => Err(format!("'{text}' is not a share: write a value from 0% to below 100%")),
        };
    }
    parse::count(text).map(Warm::Accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_a_fraction_or_a_count() {
        assert_eq!(warm("25%"), Ok(Warm::Share(0.25)));
        assert_eq!(warm("10k"), Ok(Warm::Accesses(10_000)));
        assert!(
            warm("100%").is_err() && warm("-1%").is_err() && warm("+1%").is_err() && warm("x").is_err()
        );
    }
}

//! `flowloom simulate tcb-cache`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use flowloom::tcb_cache::model::{Connection, PacketModel, Ports, View};
use flowloom::tcb_cache::trace::Format;
use flowloom::tcb_cache::{IndexFunction, Policy};

use crate::args::parse;

/// Arguments of `simulate tcb-cache`.
///
/// Comma lists are swept: every policy with every size, number of banks and ways, index function
/// and treatment of sessions that end. Points run in parallel; results do not depend on the number
/// of threads.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom simulate tcb-cache access.log.gz --policy mod,2-hash,spec,flowlru
  flowloom simulate tcb-cache access.log.gz --overlap 1000 --accesses 1M --size 8k,16k,32k,64k --svg curve.svg
  flowloom simulate tcb-cache --model s --overlap 6400 --policy spec,flowlru,min --fin off,on
  flowloom simulate tcb-cache trace.oracleGeneral.zst --policy lru,fa-lru,sieve --hash h3-64
  flowloom simulate tcb-cache edge.pcapng.zst --policy spec,flowlru

Policies:
  mod                                         the baseline: one bank of all ways, low bits, LRU
  2-hash rr access ts-8 ts-16 ts-24           the paper's alternatives
  access-uses ts-32                           access by hits and fills alone; more bits of time
  ts-N-distance                               ts-N, compared by the distance to the counter
  no-migrate spec (-older, -turns)            the paper's policy without and with migration; other tie rules
  flowlru flowlru-8                           ours, and with ages of eight bits
  lru fifo srrip drrip ship zcache            in banks
  fa-lru fa-fifo clock sieve s3-fifo arc 2q lirs w-tinylfu    over the whole cache
  min opt                                     with the future known: whole cache, banks")]
#[command(group(ArgGroup::new("accesses_from").required(true)))]
pub(crate) struct TcbCache {
    /// A log (common, combined, TSV, W3C extended, Boston University), a trace (CSV, oracleGeneral,
    /// VSCSI) or a capture, plain or packed with gzip or zstd; - for standard input
    #[arg(value_name = "TRACE", group = "accesses_from")]
    pub(crate) trace: Option<PathBuf>,

    /// Sessions of a model in place of a trace
    #[arg(long, value_enum, value_name = "MODEL", requires = "overlap", group = "accesses_from")]
    pub(crate) model: Option<ModelName>,

    /// Form of the trace [default: by its name and content]
    #[arg(long, value_name = "FORM", value_parser = parse::from_str::<Format>)]
    pub(crate) trace_format: Option<Format>,

    /// Policies, with commas in between
    #[arg(
        long, value_name = "LIST", value_delimiter = ',', value_parser = policy,
        default_value = "mod,2-hash,no-migrate,spec,flowlru"
    )]
    pub(crate) policy: Vec<PolicyName>,

    /// Sizes in bytes; k and M are 1024 and 1024 times that
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::bytes, default_value = "32k")]
    pub(crate) size: Vec<u64>,

    /// Banks, each with an index function of its own
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "2", value_parser = parse::whole::<u32>)]
    pub(crate) banks: Vec<u32>,

    /// Ways of a bank
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "4", value_parser = parse::whole::<u32>)]
    pub(crate) ways: Vec<u32>,

    /// Index functions: mod, xor, pmod, pdisp, crc, h3-N, h3-N-full [default: h3-16; h3-64 for
    /// oracleGeneral and VSCSI]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse::from_str::<IndexFunction>)]
    pub(crate) hash: Vec<IndexFunction>,

    /// Bytes of a line
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = parse::whole::<u32>)]
    pub(crate) line: u32,

    /// Whether sessions that end leave at once; flowlru always sees to that
    #[arg(long, value_enum, value_name = "LIST", value_delimiter = ',', default_value = "off")]
    pub(crate) fin: Vec<Fin>,

    /// Draws of index functions and choices to average over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::within(1..=10_000_u32))]
    pub(crate) draws: u32,

    /// First accesses that fill the caches and are not counted: a share, or a number [default: 25%
    /// with --overlap, else 0]
    #[arg(long, value_name = "PART", value_parser = warm)]
    pub(crate) warm: Option<Warm>,

    /// Lay so many sessions over each other, drawn from the log or the model, instead of the log's
    /// own order
    #[arg(long, value_name = "SESSIONS", value_parser = parse::within(1..=u32::MAX), help_heading = "Workload")]
    pub(crate) overlap: Option<u32>,

    /// Accesses to make with --overlap
    #[arg(long, value_name = "N", default_value = "1M", value_parser = parse::positive, help_heading = "Workload")]
    pub(crate) accesses: u64,

    /// What of a request the cache sees
    #[arg(long, value_enum, default_value_t = ViewName::Request, value_name = "VIEW", help_heading = "Workload")]
    pub(crate) view: ViewName,

    /// Which requests share a connection
    #[arg(long, value_enum, default_value_t = ConnectionName::Session, value_name = "UNIT", help_heading = "Workload")]
    pub(crate) connection: ConnectionName,

    /// Source ports: paper-like, uniform, sequential, skewed-N
    #[arg(
        long, value_name = "PORTS", default_value = "paper-like", value_parser = parse::from_str::<Ports>,
        help_heading = "Workload"
    )]
    pub(crate) ports: Ports,

    /// Model: what pauses between pages are multiplied by
    #[arg(long, value_name = "FACTOR", default_value_t = 16.0, value_parser = parse::think_factor, help_heading = "Workload")]
    pub(crate) think: f64,

    /// Stop after N records
    #[arg(long, value_name = "N", default_value = "100M", value_parser = parse::positive, help_heading = "Workload")]
    pub(crate) limit: u64,

    /// Unpacked bytes that are read at most
    #[arg(long, value_name = "BYTES", default_value = "64G", value_parser = parse::bytes, help_heading = "Workload")]
    pub(crate) unpack_max: u64,

    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub(crate) seed: u64,

    /// Threads [default: one per CPU]
    #[arg(long, value_name = "N", value_parser = parse::within(1..=1024_u16))]
    pub(crate) threads: Option<u16>,

    /// Draw miss ratios by size into an SVG file
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,

    /// Skipped records are an error
    #[arg(long)]
    pub(crate) strict: bool,
}

/// A policy, or the baseline, which is a policy with banks and index function of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PolicyName {
    Baseline,
    Policy(Policy),
}

impl TcbCache {
    /// Returns how sessions become accesses.
    pub(crate) fn packet_model(&self) -> PacketModel {
        packet_model(self.connection, self.view)
    }
}

/// Returns how sessions become accesses.
pub(crate) fn packet_model(connection: ConnectionName, view: ViewName) -> PacketModel {
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
pub(crate) enum ModelName {
    /// ON and OFF periods, fitted to the paper's miss ratios
    S,
}

/// Treatment of sessions that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fin {
    /// Their lines grow old
    Off,
    /// Their lines are emptied
    On,
}

/// What of a request the cache sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ViewName {
    /// One access
    Request,
    /// The packets that the server receives
    Rx,
    /// The packets that the server receives and sends
    Rxtx,
}

/// Which requests share a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConnectionName {
    /// All of a session
    Session,
    /// Those with less than 15 s in between
    Page,
    /// None
    Request,
}

/// How many accesses are not counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Warm {
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
            _ => Err(format!("'{text}' is not a share: 0% or more, and below 100%")),
        };
    }
    parse::count(text).map(Warm::Accesses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_a_share_or_a_number() {
        assert_eq!(warm("25%"), Ok(Warm::Share(0.25)));
        assert_eq!(warm("10k"), Ok(Warm::Accesses(10_000)));
        assert!(
            warm("100%").is_err() && warm("-1%").is_err() && warm("+1%").is_err() && warm("x").is_err()
        );
    }
}

//! `flowloom generate`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use flowloom::tcb_cache::model::Ports;
use flowloom::traffic::synth::FrameSize;
use flowloom_scenarios::COMBINED_MAX;

use super::parse;
use super::simulate::tcb_cache::{ConnectionName, ViewName};

/// What to generate.
#[derive(Clone, Debug, Subcommand)]
pub enum Generate {
    /// A capture: a mixture of flows, one of the paper's traces, or a committed sample
    Trace(Trace),
    /// A rule set that resembles a real one, as a ClassBench filter file
    Rules(RuleProfile),
    /// Headers for a rule set, as a trace of five numbers per line
    Headers(Headers),
    /// The log of a web server, or the accesses to connection state that its requests cause, with
    /// many concurrent sessions
    Weblog(Weblog),
    /// Small captures whose right flow records are known, to judge meters of flows with
    Scenarios(Scenarios),
}

impl Generate {
    /// Returns whether it generates a capture, which an interrupt stops between packets.
    pub fn is_trace(&self) -> bool {
        matches!(self, Self::Trace(_))
    }
}

/// Arguments of `generate weblog`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom generate weblog --overlap 1000 --accesses 100k -o access.log.gz
  flowloom generate weblog --overlap 6400 --accesses 1M -o s.csv.zst        with milliseconds and session ends
  flowloom generate weblog --overlap 6400 --accesses 1M -o s.oracleGeneral  for libCacheSim

Logs (.log, .tsv) have times in seconds, as servers write them. Traces (.csv, .oracleGeneral) have one access per line \
or record. A further .gz or .zst compresses the file.")]
pub struct Weblog {
    /// Output file: .log for the common log format, .tsv, .csv, .oracleGeneral; - for a common log
    /// on standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Concurrent sessions
    #[arg(long, value_name = "SESSIONS", default_value_t = 1000, value_parser = parse::within(1..=u32::MAX))]
    pub overlap: u32,

    /// Number of requests in a log, or accesses in a trace
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse::positive)]
    pub accesses: u64,

    /// Factor for the pauses between pages
    #[arg(long, value_name = "FACTOR", default_value_t = 16.0, value_parser = parse::think_factor)]
    pub think: f64,

    /// Traces: the part of a request that the cache sees
    #[arg(long, value_enum, default_value_t = ViewName::Request, value_name = "VIEW")]
    pub view: ViewName,

    /// Traces: which requests share a connection
    #[arg(long, value_enum, default_value_t = ConnectionName::Session, value_name = "UNIT")]
    pub connection: ConnectionName,

    /// Traces: source ports: paper-like, uniform, sequential, skewed-N
    #[arg(long, value_name = "PORTS", default_value = "paper-like", value_parser = parse::from_str::<Ports>)]
    pub ports: Ports,

    /// Seed; the same seed gives the same bytes on every machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,
}

/// Arguments of `generate scenarios`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  flowloom generate scenarios corpus --count 1000 --seed 7

Each scenario is a capture and a JSON document of the same name with the right records. manifest.json is written last: a \
folder without it is incomplete.")]
pub struct Scenarios {
    /// Folder for the files; it is created, or empty
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,

    /// Number of scenarios
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = parse::within(1..=99_999_u64))]
    pub count: u64,

    /// Number of dimensions that a scenario combines, behind those that have one alone
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = parse::within(1..=COMBINED_MAX))]
    pub dimensions: usize,

    /// Write pcapng instead of pcap
    #[arg(long)]
    pub pcapng: bool,

    /// Seed; the same seed gives the same bytes on every machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,
}

/// Arguments of `generate rules`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Example:
  flowloom generate rules --profile fw --rules 10k --seed 7 -o fw.rules")]
pub struct RuleProfile {
    /// Output file; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Kind of rule set
    #[arg(long, value_enum, default_value_t = ProfileName::Acl)]
    pub profile: ProfileName,

    /// Number of rules
    #[arg(long, value_name = "N", default_value = "1k", value_parser = parse::positive)]
    pub rules: u64,

    /// IPv6 instead of IPv4
    #[arg(long)]
    pub v6: bool,

    /// Seed; the same seed gives the same rules on every machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,
}

/// Kinds of rule sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileName {
    /// Access lists of routers
    Acl,
    /// Firewalls
    Fw,
    /// Chains of packet filters
    Ipc,
}

/// Arguments of `generate headers`.
#[derive(Clone, Debug, Args)]
pub struct Headers {
    #[command(flatten)]
    pub options: super::rules::RuleOptions,

    /// Output file; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Kind of headers
    #[arg(long, value_enum, default_value_t = TrafficName::Hits)]
    pub traffic: TrafficName,

    /// Number of headers
    #[arg(long, value_name = "N", default_value = "100k", value_parser = parse::positive)]
    pub count: u64,

    /// Seed; the same seed gives the same headers on every machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,
}

/// Kinds of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrafficName {
    /// Each matches a rule, chosen uniformly
    Hits,
    /// Three in ten at random
    Misses,
    /// A few of 16,384 flows with most of the packets
    Zipf,
}

/// Arguments of `generate trace`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom generate trace --flows 10k --packets 1M --zipf 1.1 --v6 15% --seed 7 -o t.pcap
  flowloom generate trace --paper-file 3 -o file-3.pcap      1,048,576 sessions of 20 packets
  flowloom generate trace --flows 30k --packets 300k --syn-flood 20k -o flood.pcap     a SYN flood within the traffic")]
pub struct Trace {
    /// Output file: pcapng if it ends in .pcapng, classic pcap otherwise; a further .zst or .gz
    /// compresses it; - for standard output
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Distinct flows
    #[arg(long, value_name = "N", default_value = "1k", value_parser = parse::positive)]
    pub flows: u64,

    /// Number of packets
    #[arg(long, value_name = "N", default_value = "20k", value_parser = parse::positive)]
    pub packets: u64,

    /// Skew of the popularity of flows; 0 is uniform
    #[arg(long, value_name = "EXPONENT", default_value_t = 1.1, value_parser = parse::real)]
    pub zipf: f64,

    /// Frame sizes: imix, or a number of bytes
    #[arg(long, value_name = "SIZE", default_value = "imix", value_parser = frame_size)]
    pub size: FrameSize,

    /// Share of IPv6 flows
    #[arg(long, value_name = "SHARE", default_value = "15%", value_parser = permille)]
    pub v6: u16,

    /// Share of flows in a VLAN
    #[arg(long, value_name = "SHARE", default_value = "3%", value_parser = permille)]
    pub vlan: u16,

    /// Share of flows with fragmented datagrams (IPv4 only); at most one flow in 32
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = permille)]
    pub fragments: u16,

    /// Share of packets that are not IP
    #[arg(long, value_name = "SHARE", default_value = "0.5%", value_parser = permille)]
    pub other: u16,

    /// Mean length of a packet train, that is, packets that a flow sends back to back; 1 means no
    /// trains
    #[arg(long, value_name = "PACKETS", default_value_t = 8, value_parser = parse::whole::<u32>)]
    pub bursts: u32,

    /// Number of flows that form a SYN flood: one packet each, all to one server; less than --flows
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse::count)]
    pub syn_flood: u64,

    /// Mean packets per second
    #[arg(long, value_name = "PPS", default_value = "100k", value_parser = parse::positive)]
    pub rate: u64,

    /// Generate one of the paper's traces instead: sessions of 20 packets, with the packets of a
    /// session as far apart as possible
    #[arg(long, value_name = "N", value_parser = parse::within(1..=3_u8), conflicts_with_all = ["sessions", "sample"], conflicts_with_all = OF_MIXTURES)]
    pub paper_file: Option<u8>,

    /// Generate such a trace with this number of sessions
    #[arg(long, value_name = "N", value_parser = parse::positive, conflicts_with = "sample", conflicts_with_all = OF_MIXTURES)]
    pub sessions: Option<u64>,

    /// Generate a sample of those under traces/
    #[arg(long, value_name = "NAME", conflicts_with = "seed", conflicts_with_all = OF_MIXTURES)]
    pub sample: Option<String>,

    /// Maximum captured bytes per packet [default: all; for a sample: as in traces/]
    #[arg(long, value_name = "BYTES", value_parser = parse::within(1..=u32::MAX))]
    pub snaplen: Option<u32>,

    /// Unit of the time stamps in classic pcap
    #[arg(long, value_enum, default_value_t = TimeUnitName::Ns)]
    pub time_unit: TimeUnitName,

    /// Seed; the same seed gives the same bytes on every machine
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = parse::whole::<u64>)]
    pub seed: u64,
}

/// Options that apply to mixtures only.
const OF_MIXTURES: [&str; 11] =
    ["flows", "packets", "zipf", "size", "v6", "vlan", "fragments", "other", "bursts", "syn_flood", "rate"];

/// Units of time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TimeUnitName {
    /// Microseconds
    Us,
    /// Nanoseconds
    Ns,
}

fn frame_size(text: &str) -> Result<FrameSize, String> {
    if text == "imix" {
        return Ok(FrameSize::Imix);
    }
    parse::unsigned(text)
        .map(FrameSize::Fixed)
        .ok_or_else(|| format!("'{text}' is not a size: write imix, or a number of bytes"))
}

/// Reads a share such as `15%` or `0.15` as thousandths.
fn permille(text: &str) -> Result<u16, String> {
    let (number, factor) = text.strip_suffix('%').map_or((text, 1000.0), |number| (number.trim(), 10.0));
    match parse::unsigned::<f64>(number) {
        Some(share) if (0.0..=1000.0).contains(&(share * factor)) => Ok((share * factor).round() as u16),
        _ => Err(format!("'{text}' is not a share: write a value between 0% and 100%, or between 0 and 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert_eq!(permille("15%"), Ok(150));
        assert_eq!(permille("0.5%"), Ok(5));
        assert_eq!(permille("0.15"), Ok(150));
        for text in ["101%", "-1", "+1", "+15%", "x"] {
            assert!(permille(text).is_err(), "{text}");
        }
        assert_eq!(frame_size("64"), Ok(FrameSize::Fixed(64)));
        assert!(frame_size("+64").is_err());
    }
}

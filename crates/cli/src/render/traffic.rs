//! Figures of traffic that a page shows: over time, and of records.

use flowloom::engine::{Interval, Timeline};
use schemars::JsonSchema;
use serde::Serialize;

use super::save::Table;
use super::{grouped, percent};

/// Packets and bytes by packet time.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TrafficFigures {
    /// Time at which the first interval begins, in nanoseconds since 1970: a multiple of
    /// `interval_ns`.
    pub(crate) begin_ns: u64,
    /// Length of each interval, in nanoseconds.
    pub(crate) interval_ns: u64,
    /// Packets of each interval.
    pub(crate) packets: Vec<u64>,
    /// Bytes on the wire of each interval.
    pub(crate) bytes: Vec<u64>,
    /// Packets of TCP flows among them.
    pub(crate) tcp_packets: Vec<u64>,
    /// Their bytes on the wire.
    pub(crate) tcp_bytes: Vec<u64>,
    /// Packets of UDP flows.
    pub(crate) udp_packets: Vec<u64>,
    /// Their bytes on the wire.
    pub(crate) udp_bytes: Vec<u64>,
}

impl From<&Timeline> for TrafficFigures {
    fn from(timeline: &Timeline) -> Self {
        let each = |count: fn(&Interval) -> u64| timeline.intervals().iter().map(count).collect();
        Self {
            begin_ns: timeline.begin_ns(),
            interval_ns: timeline.length_ns(),
            packets: each(|interval| interval.packets),
            bytes: each(|interval| interval.bytes),
            tcp_packets: each(|interval| interval.tcp[0]),
            tcp_bytes: each(|interval| interval.tcp[1]),
            udp_packets: each(|interval| interval.udp[0]),
            udp_bytes: each(|interval| interval.udp[1]),
        }
    }
}

/// Sums of the records of a run.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SumFigures {
    /// Number of records.
    pub(crate) flows: u64,
    /// Their packets.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
    /// Sums by IP protocol, those with the most bytes first.
    pub(crate) protocols: Vec<ProtocolSums>,
    /// Records by their number of packets, in classes from a power of two to the next.
    pub(crate) flow_sizes: Vec<SizeSums>,
    /// Records by the time from their first to their last packet, in classes from a power of ten
    /// microseconds to the next; absent if the application keeps no times.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) flow_durations: Option<Vec<DurationSums>>,
    /// The hosts with the most bytes, at most 50.
    pub(crate) talkers: TalkerFigures,
}

/// The records of an IP protocol.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct ProtocolSums {
    /// IANA's name of it, or its number.
    pub(crate) protocol: String,
    /// Number of records.
    pub(crate) flows: u64,
    /// Their packets.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
}

/// Records with a number of packets from a power of two to the next.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct SizeSums {
    /// Least number of packets of its records; the greatest is below twice that.
    pub(crate) packets_from: u64,
    /// Number of records.
    pub(crate) flows: u64,
    /// Their packets.
    pub(crate) packets: u64,
}

/// Records with a duration from a power of ten microseconds to the next.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct DurationSums {
    /// Shortest duration of its records, in nanoseconds; 0 for all below a microsecond.
    pub(crate) from_ns: u64,
    /// Number of records.
    pub(crate) flows: u64,
}

/// The hosts with the most bytes.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TalkerFigures {
    /// Number of hosts; null if there were too many to keep all, more than 131072.
    pub(crate) hosts: Option<u64>,
    /// The most bytes that the figures of a host may lack; 0 if all hosts were kept.
    pub(crate) bytes_missed_max: u64,
    /// The hosts, those with the most bytes first.
    pub(crate) rows: Vec<TalkerRow>,
}

/// One host, whose figures include both directions.
#[derive(Debug, PartialEq, Eq, JsonSchema, Serialize)]
pub(crate) struct TalkerRow {
    /// Its address.
    pub(crate) host: String,
    /// Number of records.
    pub(crate) flows: u64,
    /// Their packets.
    pub(crate) packets: u64,
    /// Their bytes on the wire.
    pub(crate) bytes: u64,
}

impl SumFigures {
    /// Returns the tables of talkers and protocols.
    pub(crate) fn tables(&self) -> Vec<Table> {
        let row = |name: &str, flows: u64, packets: u64, bytes: u64| {
            let figures = [grouped(bytes), percent(bytes, self.bytes), grouped(packets), grouped(flows)];
            std::iter::once(name.to_owned()).chain(figures).collect::<Vec<String>>()
        };
        let head = |name: &str| [name, "bytes", "share", "packets", "flows"].map(str::to_owned).to_vec();
        let talkers = &self.talkers;
        let mut hosts = vec![head("host")];
        hosts.extend(talkers.rows.iter().map(|host| row(&host.host, host.flows, host.packets, host.bytes)));
        let note = match talkers.hosts {
            Some(all) => format!("Of {} hosts; each record counts for both of its ends.", grouped(all)),
            None => format!(
                "Each record counts for both of its ends. There were too many hosts to keep all: a host \
                 may have up to {} bytes more than its row says.",
                grouped(talkers.bytes_missed_max)
            ),
        };
        let mut protocols = vec![head("protocol")];
        protocols.extend(self.protocols.iter().map(|p| row(&p.protocol, p.flows, p.packets, p.bytes)));
        vec![
            Table { title: "Top talkers", rows: hosts, note },
            Table { title: "IP protocols", rows: protocols, note: String::new() },
        ]
    }
}

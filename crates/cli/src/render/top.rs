//! The result of `top`.

use clap::ValueEnum as _;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::fit::terminal_width;
use super::reasons::NoResult;
use super::words::names;
use super::{Report, bytes, counted, dates, grouped, percent, scaled, some_of};
use crate::args::top::{GroupBy, SortBy};
use flowloom_measure::rows::Tool;

/// Groups of flows with the most traffic. Numbers are in base units: packets, bytes, nanoseconds;
/// rates are per second.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TopResult {
    pub(crate) schema: &'static str,
    /// The program.
    pub(crate) tool: Tool,
    /// The captures in the order in which they were named.
    pub(crate) inputs: Vec<String>,
    /// The options of decoding, which select the same flows elsewhere.
    #[serde(skip)]
    pub(crate) decoding: String,
    /// Key by which flows are grouped.
    #[serde(serialize_with = "name_of_key")]
    #[schemars(with = "String", extend("enum" = names::<GroupBy>()))]
    pub(crate) by: GroupBy,
    /// The figure that rows are sorted by.
    #[serde(serialize_with = "name_of_figure")]
    #[schemars(with = "String", extend("enum" = names::<SortBy>()))]
    pub(crate) sort: SortBy,
    /// Packets taken from the captures.
    pub(crate) packets: u64,
    /// Packets excluded by --filter, --from and --to.
    pub(crate) packets_passed_over: u64,
    #[serde(flatten)]
    pub(crate) no_result: NoResult,
    /// Records of flows that were added up.
    pub(crate) records: u64,
    /// A name in --where that counts what the source sends.
    #[serde(skip)]
    pub(crate) of_source: Option<&'static str>,
    /// Records that --where excluded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records_passed_over: Option<u64>,
    /// Packets of the records.
    pub(crate) record_packets: u64,
    /// Their bytes on the wire.
    pub(crate) record_bytes: u64,
    /// Their bytes of IP packets.
    pub(crate) record_ip_bytes: u64,
    /// Time of the first packet, since 1970.
    pub(crate) first_ns: u64,
    /// Time of the last packet.
    pub(crate) last_ns: u64,
    /// Number of groups told apart.
    pub(crate) groups: u64,
    /// The most groups that are told apart.
    pub(crate) groups_max: u64,
    /// The largest groups; of a hierarchy each group before those in it.
    pub(crate) rows: Vec<RowFigures>,
    /// Groups that are not among the rows.
    pub(crate) rest: RestFigures,
    /// Flows of groups beyond `groups_max`, which have no rows of their own; groups is 0.
    pub(crate) untold: RestFigures,
    /// Notes about the captures.
    pub(crate) notices: Vec<String>,
    /// Whether a signal ended the run.
    pub(crate) interrupted: bool,
    /// Error that ended the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fault: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn name_of_key<S: Serializer>(by: &GroupBy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&key_name(*by))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn name_of_figure<S: Serializer>(sort: &SortBy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&figure_name(*sort))
}

fn key_name(by: GroupBy) -> String {
    by.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn figure_name(sort: SortBy) -> String {
    sort.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A group.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RowFigures {
    /// The common key of the flows; a pair and a conversation begin with the initiator.
    pub(crate) name: String,
    /// Depth in the hierarchy.
    #[serde(skip)]
    pub(crate) depth: usize,
    /// Records.
    pub(crate) flows: u64,
    /// Packets of both directions.
    pub(crate) packets: u64,
    /// Bytes on the wire of both directions.
    pub(crate) bytes: u64,
    /// Bytes of IP packets of both directions, headers included.
    pub(crate) ip_bytes: u64,
    /// Packets from the host, the initiator, or the sources of the flows.
    pub(crate) packets_sent: u64,
    /// Packets of the other direction, and those that a host has sent to itself.
    pub(crate) packets_received: u64,
    /// Bytes of the packets sent.
    pub(crate) bytes_sent: u64,
    /// Bytes of the packets received.
    pub(crate) bytes_received: u64,
    /// Time of the first packet.
    pub(crate) first_ns: u64,
    /// Time of the last packet.
    pub(crate) last_ns: u64,
    /// From the first to the last packet.
    pub(crate) duration_ns: u64,
    /// Bits of both directions divided by the duration; null if the duration is 0.
    pub(crate) bits_per_second: Option<f64>,
    /// TCP segments sent again, from the host or source, or of both directions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retransmissions: Option<u64>,
    /// Records with a TCP reset, from the host or source, or of either direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resets: Option<u64>,
    /// Mean round-trip time of the handshakes, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) handshake_rtt_ns: Option<u64>,
    #[serde(flatten)]
    pub(crate) targets: Option<TargetFigures>,
}

/// What a source sends to; only with --by source.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct TargetFigures {
    /// Distinct destinations.
    pub(crate) peers: u64,
    /// Distinct destination ports, by protocol.
    pub(crate) ports: u64,
    /// Whether both are lower bounds, because the limit of --groups-max was reached.
    pub(crate) targets_bounded: bool,
}

/// Sums of several groups.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct RestFigures {
    /// Number of groups; 0 for groups beyond the limit.
    pub(crate) groups: u64,
    /// Their records.
    pub(crate) flows: u64,
    /// Their packets.
    pub(crate) packets: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Their bytes of IP packets.
    pub(crate) ip_bytes: u64,
}

impl TopResult {
    fn table(&self) -> Vec<[String; 8]> {
        let is_ip = self.sort == SortBy::IpBytes;
        let (title, all) =
            if is_ip { ("IP bytes", self.record_ip_bytes) } else { ("bytes", self.record_bytes) };
        let share = |bytes: u64| percent(bytes, all);
        // Sources have their targets in place of what others have.
        let is_source = self.by == GroupBy::Source;
        let mut last =
            if is_source { ["peers", "ports", "duration"] } else { ["sent", "duration", "rate"] };
        // The figure that rows are sorted by has the place of the last one.
        let special = match self.sort {
            SortBy::Retransmissions => Some("sent again"),
            SortBy::Resets => Some("resets"),
            SortBy::HandshakeRtt => Some("handshake"),
            SortBy::Sent => Some("bytes sent"),
            _ => None,
        };
        last[2] = special.unwrap_or(last[2]);
        let has_received = self.sort == SortBy::Sent && !is_source;
        if has_received {
            last[1] = "received";
        }
        let has_rtt = self.sort == SortBy::Retransmissions && !is_source;
        if has_rtt {
            last[1] = "handshake";
        }
        let head = [&key_name(self.by), "records", "packets", title, "share", last[0], last[1], last[2]];
        let mut table = vec![head.map(str::to_owned)];
        for row in &self.rows {
            let duration = format!("{:.3} s", row.duration_ns as f64 / 1e9);
            let [sent, duration, rate] = if let Some(targets) = &row.targets {
                let least = if targets.targets_bounded { "≥ " } else { "" };
                let [peers, ports] =
                    [targets.peers, targets.ports].map(|count| format!("{least}{}", grouped(count)));
                [peers, ports, duration]
            } else {
                let rate = row.bits_per_second.map(|rate| format!("{}bit/s", scaled(rate)));
                [percent(row.bytes_sent, row.bytes), duration, rate.unwrap_or_else(|| String::from("-"))]
            };
            let none = || String::from("-");
            let rtt = || row.handshake_rtt_ns.map_or_else(none, |ns| format!("{:.3} ms", ns as f64 / 1e6));
            let duration = match (has_rtt, has_received) {
                (true, _) => rtt(),
                (_, true) => bytes(row.bytes_received),
                _ => duration,
            };
            let special = match self.sort {
                SortBy::Retransmissions => Some(row.retransmissions.map_or_else(none, grouped)),
                SortBy::Resets => Some(row.resets.map_or_else(none, grouped)),
                SortBy::HandshakeRtt => Some(rtt()),
                SortBy::Sent => Some(bytes(row.bytes_sent)),
                _ => None,
            };
            let last = row.name.rsplit('/').next().unwrap_or_default();
            let name =
                if row.depth > 0 { format!("{}{last}", "  ".repeat(row.depth)) } else { row.name.clone() };
            table.push([
                name,
                grouped(row.flows),
                grouped(row.packets),
                bytes(if is_ip { row.ip_bytes } else { row.bytes }),
                share(if is_ip { row.ip_bytes } else { row.bytes }),
                sent,
                duration,
                special.unwrap_or(rate),
            ]);
        }
        let mut others = |name: String, rest: &RestFigures| {
            let (flows, packets) = (grouped(rest.flows), grouped(rest.packets));
            // Records count for two hosts, so that shares of hosts add up to more than all.
            let sum = if is_ip { rest.ip_bytes } else { rest.bytes };
            let share = if self.by == GroupBy::Host { String::new() } else { share(sum) };
            let rest = [name, flows, packets, bytes(sum), share];
            let [name, flows, packets, sum, share] = rest;
            table.push([name, flows, packets, sum, share, String::new(), String::new(), String::new()]);
        };
        if self.rest.groups > 0 {
            others(format!("({} more)", grouped(self.rest.groups)), &self.rest);
        }
        if self.untold.flows > 0 {
            others(String::from("(beyond --groups-max)"), &self.untold);
        }
        table
    }
}

/// Columns that also a narrow terminal shows, even if each line then has a continuation.
const COLUMNS_MIN: usize = 5;

/// Returns lines with aligned columns: the first is left-aligned, the others right-aligned. Leaves
/// out the last columns if lines would be wider than `most`. Also returns the number of the columns
/// shown and the width of all.
fn aligned(table: &[[String; 8]], most: usize) -> (Vec<String>, usize, usize) {
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..8).map(width).collect();
    let needed = |columns: usize| widths[..columns].iter().sum::<usize>() + 3 * (columns - 1);
    let shown = (COLUMNS_MIN..=8).rev().find(|&columns| needed(columns) <= most).unwrap_or(COLUMNS_MIN);
    let line = |row: &[String; 8]| {
        let mut line = format!("{:<width$}", row[0], width = widths[0]);
        for (cell, width) in row.iter().zip(&widths).take(shown).skip(1) {
            line.extend([String::from("   "), format!("{cell:>width$}")]);
        }
        line.trim_end().to_owned()
    };
    (table.iter().map(line).collect(), shown, needed(8))
}

impl Report for TopResult {
    fn lines(&self) -> Vec<String> {
        let (by, sort) = (key_name(self.by), figure_name(self.sort));
        let mut lines = vec![
            format!("{}   top by {by}, sorted by {sort}", self.tool),
            format!(
                "{}   {}   {}   {}",
                some_of(&self.inputs, ", "),
                counted(self.packets, "packet"),
                counted(self.records, "record"),
                bytes(self.record_bytes)
            ),
        ];
        if self.packets > 0 {
            lines.push(format!("Time        {}", dates(self.first_ns, self.last_ns)));
        }
        if self.packets_passed_over > 0 {
            lines.push(format!("Selected    not selected {}", counted(self.packets_passed_over, "packet")));
        }
        if let Some(passed_over) = self.records_passed_over {
            let of_source = self.of_source.map_or_else(String::new, |name| {
                format!(
                    "   where {name} are those of the source, and total_{name} those of both directions"
                )
            });
            lines.push(format!("Records     not selected {} by --where{of_source}", grouped(passed_over)));
        }
        lines.extend(self.no_result.lines());
        lines.push(String::new());
        let table = self.table();
        let (rows, shown, needed) = aligned(&table, terminal_width().unwrap_or(usize::MAX));
        lines.extend(rows);
        if shown < table[0].len() {
            let left_out = table[0][shown..].join(", ");
            lines.push(format!("Left out    {left_out}, which need {needed} columns, or --format csv"));
        }
        if self.untold.flows > 0 {
            lines.push(format!(
                "Noted       only the first {} have separate rows; raise --groups-max for more, or --memory, of which the rows take a quarter at most",
                grouped(self.groups_max)
            ));
        }
        let largest = self.rows.first().and_then(|row| match self.sort {
            SortBy::Retransmissions => Some(row.retransmissions.unwrap_or(0)),
            SortBy::Resets => Some(row.resets.unwrap_or(0)),
            SortBy::HandshakeRtt => Some(row.handshake_rtt_ns.unwrap_or(0)),
            _ => None,
        });
        if largest == Some(0) {
            lines.push(format!("Noted       no record has {sort}: the order of the rows means nothing"));
        } else if let ([row, ..], GroupBy::Conversation | GroupBy::Pair) = (&self.rows[..], self.by) {
            lines.push(format!(
                "Next        flowloom extract …{} -o out.pcapng --flow '{}'",
                self.decoding, row.name
            ));
        }
        lines.push(String::new());
        let shown = self.rows.len() as u64;
        let is_selection = self.packets_passed_over > 0 || self.records_passed_over.is_some_and(|n| n > 0);
        let verdict = if self.records == 0 && is_selection {
            String::from("nothing was selected")
        } else {
            format!("{} of {} shown", grouped(shown), grouped(self.groups))
        };
        lines.push(match (&self.fault, self.interrupted) {
            (Some(fault), _) => format!("stopped on a fault: {fault}"),
            (None, true) => format!("interrupted: {verdict}"),
            (None, false) => verdict,
        });
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "name", "flows", "packets", "bytes", "packets_sent", "packets_received", "bytes_sent",
            "bytes_received", "first_ns", "last_ns", "duration_ns", "bits_per_second", "ip_bytes", "peers",
            "ports", "retransmissions", "resets", "handshake_rtt_ns",
        ];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        for row in &self.rows {
            let numbers = [
                row.flows, row.packets, row.bytes, row.packets_sent, row.packets_received, row.bytes_sent,
                row.bytes_received, row.first_ns, row.last_ns, row.duration_ns,
            ];
            let mut cells = vec![row.name.clone()];
            cells.extend(numbers.map(|number| number.to_string()));
            cells.push(row.bits_per_second.map_or(String::new(), |rate| rate.to_string()));
            cells.push(row.ip_bytes.to_string());
            let targets = row.targets.as_ref();
            cells.extend(
                [
                    targets.map(|one| one.peers),
                    targets.map(|one| one.ports),
                    row.retransmissions,
                    row.resets,
                    row.handshake_rtt_ns,
                ]
                .map(|count| count.map_or(String::new(), |count| count.to_string())),
            );
            rows.push(cells);
        }
        for (name, rest) in [("(rest)", &self.rest), ("(beyond --groups-max)", &self.untold)] {
            if rest.flows > 0 {
                let mut cells = vec![name.to_owned()];
                cells.extend([rest.flows, rest.packets, rest.bytes].map(|number| number.to_string()));
                cells.resize(head.len(), String::new());
                rows.push(cells);
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let row = |name: &str, number: &str| {
            let mut row: [String; 8] = Default::default();
            (row[0], row[1]) = (name.to_owned(), number.to_owned());
            row
        };
        let table = [row("host", "flows"), row("::1", "7")];
        assert_eq!(aligned(&table, 80), (vec!["host   flows".into(), "::1        7".into()], 8, 30));
        assert_eq!([29, 26, 1].map(|most| aligned(&table, most).1), [7, 6, 5]);
    }
}

//! The result of `inspect`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::PathBuf;

use flowloom::packet::EncapsulationCounts;
use schemars::JsonSchema;
use serde::Serialize;

use super::encapsulations::Encapsulations;
use super::losses::LossFigures;
use super::{Report, bytes, counted, dates, grouped, of_many, percent, scaled, some_of};
use crate::args::decoding::DecodingOptions;
use crate::args::inspect::Inspect;
use crate::profile::{Layers, Profile, Zipf};

/// Contents of captures. Numbers are in base units: packets, bytes, nanoseconds; seconds if the
/// name states so.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct InspectResult {
    schema: &'static str,
    /// The captures read, in reading order; the last one may have been read only in part.
    files: Vec<FileFigures>,
    /// Packets.
    packets: u64,
    /// Sum of the packets' lengths on the wire, in bytes, as the captures state them; of those
    /// above 1 MiB, the captured bytes.
    bytes_on_wire: u64,
    /// Sum of the packets' captured lengths, in bytes.
    bytes_captured: u64,
    /// Earliest packet time, in nanoseconds since 1970.
    first_ns: u64,
    /// Latest packet time, in nanoseconds since 1970.
    last_ns: u64,
    /// Packets with a flow key: packets less the sum of `not_tracked`.
    decoded: u64,
    /// Packets that are not tracked, by reason; reasons without packets are omitted.
    not_tracked: BTreeMap<&'static str, u64>,
    /// Packets not tracked as unsupported, by link type in words.
    unsupported_links: BTreeMap<String, u64>,
    /// Packets with fewer captured bytes than bytes on the wire.
    cut_packets: u64,
    /// Packets with more captured bytes than their stated length on the wire.
    captured_over_wire: u64,
    /// Packets whose time was up to a minute before an earlier packet's.
    time_backwards: u64,
    /// Packets whose time stamp is more than ten years ahead or more than a minute behind.
    time_outliers: u64,
    /// Large steps of the time on which three consecutive packets agreed.
    time_steps: u64,
    /// Median length on the wire, in bytes.
    size_p50: u64,
    /// 95th percentile of the length on the wire, in bytes.
    size_p95: u64,
    /// Packets in the fullest second of packet time.
    peak_packets_per_second: u64,
    /// Packets with a flow key, by protocol.
    layers: Layers,
    /// Packets that --dedup dropped, which count nowhere else; absent without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicates: Option<u64>,
    /// What readers should know about the input: truncated files, malformed records.
    pub(crate) notices: Vec<String>,
    /// Flows: distinct keys.
    flows: u64,
    /// Number of flows if an idle time longer than `timeout_ns` ends a flow.
    flows_by_timeout: u64,
    /// The idle time, in nanoseconds of packet time.
    timeout_ns: u64,
    /// Maximum number of simultaneous flows with the timeout.
    concurrent_peak: u64,
    /// Time of this event, in nanoseconds since 1970.
    concurrent_peak_at_ns: u64,
    /// Median number of packets of a flow.
    packets_per_flow_p50: u64,
    /// 95th percentile of the number of packets of a flow.
    packets_per_flow_p95: u64,
    /// Packets of the largest flow.
    packets_per_flow_max: u64,
    /// Flows, by the timeout, that began in the fullest second of packet time.
    new_flows_peak_per_second: u64,
    /// Skew of packets over flows, fitted by rank; null for too few flows.
    zipf: Option<Zipf>,
    /// The largest flows by packets, up to the number of --top, which defaults to one.
    top_flows: Vec<TopFigures>,
    #[serde(flatten)]
    encapsulations: Encapsulations,
    /// Possible uses of the capture.
    fit: Vec<Fit>,
    /// The reasons why packets are not tracked; only with --why, and if there are such packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why: Vec<Why>,
    /// Whether a signal ended the reading.
    interrupted: bool,
    /// Error that ended reading before the end of the input, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip)]
    top_share: String,
    #[serde(skip)]
    list_top: bool,
    #[serde(skip)]
    list_why: bool,
    /// The arguments as a user would type them.
    #[serde(skip)]
    inputs: String,
}

/// One capture.
#[derive(Debug, JsonSchema, Serialize)]
pub(crate) struct FileFigures {
    /// Its path as given or found; - for standard input.
    pub(crate) path: String,
    /// Description of its format, including the compression.
    pub(crate) format: String,
    /// Sections: 1 for classic pcap.
    pub(crate) sections: u64,
    /// Interfaces it declares.
    pub(crate) interfaces: u64,
    /// What its interfaces lost in the capture; absent if it does not say it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) losses: Vec<LossFigures>,
    /// Link types of its interfaces, each once, by number and name.
    pub(crate) link_types: Vec<String>,
    /// Size of the file in bytes; 0 if it is not a regular file.
    pub(crate) bytes: u64,
    /// SHA-256 of the file on disk, in hexadecimal; null if it is not a regular file.
    pub(crate) sha256: Option<String>,
}

/// One flow.
#[derive(Debug, JsonSchema, Serialize)]
struct TopFigures {
    /// Its name as in `top --by conversation`, which `extract --flow` takes; the sender of its
    /// first packet comes first.
    flow: String,
    /// Its packets, both directions.
    packets: u64,
    /// Their lengths on the wire, in bytes.
    bytes_on_wire: u64,
}

/// One judgement.
#[derive(Debug, JsonSchema, Serialize)]
struct Fit {
    /// The use.
    #[schemars(extend("enum" = ["table", "scheduling"]))]
    experiment: &'static str,
    /// How well the capture suits it.
    #[schemars(extend("enum" = ["good", "poor", "no"]))]
    verdict: &'static str,
    /// The reason, in words.
    why: String,
}

/// One reason.
#[derive(Debug, JsonSchema, Serialize)]
struct Why {
    /// The reason, as in `not_tracked`.
    reason: &'static str,
    /// Packets without a key for it.
    packets: u64,
    /// Numbers of the first of them, counted from 1 over all captures.
    first_packets: Vec<u64>,
}

/// Returns arguments that name the same input again; for many inputs, only the first ones.
fn again(inputs: &[PathBuf], decoding: &DecodingOptions) -> String {
    let quoted = inputs.iter().take(3).map(|path| {
        let path = path.display().to_string();
        let is_plain = |c: char| c.is_alphanumeric() || "/._-+,:@%".contains(c);
        if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
    });
    let mut words: Vec<String> = quoted.collect();
    if inputs.len() > words.len() {
        words.push(String::from("…"));
    }
    words.extend(decoding.words());
    words.join(" ")
}

impl InspectResult {
    pub(crate) fn new(
        files: Vec<FileFigures>,
        profile: &Profile,
        counts: &EncapsulationCounts,
        arguments: &Inspect,
        l3_bytes: u64,
        interrupted: bool,
        fault: Option<String>,
    ) -> Self {
        let decoded = profile.packets - profile.dropped.total();
        let [p50, p95, max] = profile.packets_per_flow;
        let top_flows: Vec<TopFigures> = profile
            .top
            .iter()
            .map(|flow| TopFigures {
                flow: flow.name.clone(),
                packets: flow.packets,
                bytes_on_wire: flow.bytes,
            })
            .collect();
        Self {
            schema: "flowloom/inspect/1",
            files,
            packets: profile.packets,
            bytes_on_wire: profile.bytes_on_wire,
            bytes_captured: profile.bytes_captured,
            first_ns: profile.first_ns,
            last_ns: profile.last_ns,
            decoded,
            not_tracked: profile
                .dropped
                .nonzero()
                .map(|(reason, packets)| (reason.name(), packets))
                .collect(),
            unsupported_links: profile
                .unsupported
                .iter()
                .map(|(link, &packets)| (link.to_string(), packets))
                .collect(),
            cut_packets: profile.cut_packets,
            captured_over_wire: profile.captured_over_wire,
            time_backwards: profile.clock.late,
            time_outliers: profile.clock.outliers_ahead + profile.clock.outliers_behind,
            time_steps: profile.clock.steps_forward + profile.clock.steps_back,
            size_p50: profile.size_p50,
            size_p95: profile.size_p95,
            peak_packets_per_second: profile.peak_packets_per_second,
            layers: profile.layers,
            duplicates: None,
            notices: Vec::new(),
            flows: profile.flows,
            flows_by_timeout: profile.flows_by_timeout,
            timeout_ns: arguments.timeout,
            concurrent_peak: profile.concurrent_peak,
            concurrent_peak_at_ns: profile.concurrent_peak_at_ns,
            packets_per_flow_p50: p50,
            packets_per_flow_p95: p95,
            packets_per_flow_max: max,
            new_flows_peak_per_second: profile.new_flows_peak_per_second,
            zipf: profile.zipf,
            top_share: percent(max, decoded),
            list_top: arguments.top > 0,
            list_why: arguments.why,
            inputs: again(&arguments.inputs, &arguments.decoding),
            top_flows,
            encapsulations: Encapsulations::new(counts),
            fit: fit(profile, decoded, l3_bytes),
            why: if arguments.why { why(profile) } else { Vec::new() },
            interrupted,
            fault,
        }
    }

    fn file_lines(&self, lines: &mut Vec<String>) {
        for file in &self.files {
            lines.push(format!(
                "{}   {}, {}, {}, {}",
                file.path,
                file.format,
                counted(file.sections, "section"),
                counted(file.interfaces, "interface"),
                if file.link_types.is_empty() {
                    String::from("no link type")
                } else {
                    some_of(&file.link_types, ", ")
                }
            ));
            if let Some(sha256) = &file.sha256 {
                lines.push(format!("            sha256 {sha256}   {}", bytes(file.bytes)));
            }
            lines.extend(LossFigures::lines(&file.losses));
        }
    }

    /// Returns the span of packet time, in seconds.
    fn span(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / 1e9
    }

    /// Returns a number per second of packet time, or 0 if the span is zero.
    fn rate(&self, number: f64) -> f64 {
        if self.span() > 0.0 { number / self.span() } else { 0.0 }
    }

    fn packet_lines(&self, lines: &mut Vec<String>) {
        let span = self.span();
        lines.push(format!(
            "Packets     {}   span {span:.3} s   mean {}packets/s, {}bit/s   peak second {}",
            grouped(self.packets),
            scaled(self.rate(self.packets as f64)),
            scaled(self.rate(self.bytes_on_wire as f64 * 8.0)),
            counted(self.peak_packets_per_second, "packet")
        ));
        if self.packets > 0 {
            lines.push(format!("Time        {}", dates(self.first_ns, self.last_ns)));
        }
        lines.push(format!(
            "Sizes       p50 {} B   p95 {} B   {} captured of {} on the wire   {} cut by the snaplen",
            grouped(self.size_p50),
            grouped(self.size_p95),
            bytes(self.bytes_captured),
            bytes(self.bytes_on_wire),
            counted(self.cut_packets, "packet")
        ));
        if let Some(duplicates) = self.duplicates {
            lines.push(format!("Duplicates  {} dropped", counted(duplicates, "packet")));
        }
        let layers = &self.layers;
        let share = |packets| percent(packets, self.packets);
        lines.push(format!(
            "Layers      IPv4 {}   IPv6 {}   not tracked {}      TCP {}   UDP {}   ICMP {}   SCTP {}   other {}   VLAN {}",
            share(layers.ipv4),
            share(layers.ipv6),
            share(self.packets - self.decoded),
            share(layers.tcp),
            share(layers.udp),
            share(layers.icmp),
            share(layers.sctp),
            share(layers.other_transport),
            share(layers.in_vlan)
        ));
        lines.push(format!(
            "            later fragments {}   bad IPv4 header checksum {}   time backwards {}   times far off {}",
            grouped(layers.later_fragments),
            grouped(layers.bad_ipv4_checksum),
            grouped(self.time_backwards),
            grouped(self.time_outliers)
        ));
        let mut reasons: Vec<_> = self.not_tracked.iter().collect();
        reasons.sort_by_key(|(_, packets)| Reverse(**packets));
        let reasons: Vec<String> =
            reasons.iter().map(|(reason, packets)| format!("{reason} {}", grouped(**packets))).collect();
        if !reasons.is_empty() && self.why.is_empty() {
            lines.push(format!(
                "            not tracked: {}   (--why to list packets)",
                some_of(&reasons, "   ")
            ));
        }
    }

    fn why_lines(&self, lines: &mut Vec<String>) {
        for why in &self.why {
            let first: Vec<String> = why.first_packets.iter().map(ToString::to_string).collect();
            lines.push(format!(
                "            {:<22} {:>10}   first: packet {}",
                why.reason,
                grouped(why.packets),
                first.join(", ")
            ));
        }
        for (link, packets) in &self.unsupported_links {
            lines.push(format!("            link type {link}: {}", counted(*packets, "packet")));
        }
        if self.captured_over_wire > 0 {
            let packets = grouped(self.captured_over_wire);
            lines.push(format!("Noted       captured length above the length on the wire: {packets}"));
        }
        lines.extend(self.notices.iter().map(|notice| format!("Noted       {notice}")));
        if self.list_why {
            lines.extend(self.encapsulations.lines());
        } else {
            lines.extend(self.encapsulations.summary("", "--why"));
        }
    }

    fn flow_lines(&self, lines: &mut Vec<String>) {
        lines.push(format!(
            "Flows       {}  ({} with an idle timeout of {} s)   concurrent peak {} at {:.1} s",
            grouped(self.flows),
            grouped(self.flows_by_timeout),
            self.timeout_ns / 1_000_000_000,
            grouped(self.concurrent_peak),
            self.concurrent_peak_at_ns.saturating_sub(self.first_ns) as f64 / 1e9
        ));
        lines.push(format!(
            "            packets/flow p50 {}  p95 {}  max {}   top flow {} of decoded packets",
            grouped(self.packets_per_flow_p50),
            grouped(self.packets_per_flow_p95),
            grouped(self.packets_per_flow_max),
            self.top_share
        ));
        let zipf = self.zipf.map_or(String::from("too few flows to fit a skew"), |zipf| {
            format!("Zipf exponent ≈ {:.2} (fit r² {:.2})", zipf.exponent, zipf.r_squared)
        });
        lines.push(format!(
            "            new flows/s mean {:.0}  peak {}   {zipf}",
            self.rate(self.flows_by_timeout as f64),
            grouped(self.new_flows_peak_per_second)
        ));
        if self.list_top {
            for flow in &self.top_flows {
                lines.push(format!(
                    "            {:>12} {:<7}  {:>10}   {}",
                    grouped(flow.packets),
                    of_many(flow.packets, "packet"),
                    bytes(flow.bytes_on_wire),
                    flow.flow
                ));
            }
        }
    }
}

fn why(profile: &Profile) -> Vec<Why> {
    profile
        .dropped
        .nonzero()
        .map(|(reason, packets)| Why {
            reason: reason.name(),
            packets,
            first_packets: profile.examples.get(&reason).cloned().unwrap_or_default(),
        })
        .collect()
}

/// Judges which purposes the capture suits.
fn fit(profile: &Profile, decoded: u64, l3_bytes: u64) -> Vec<Fit> {
    // A state takes two cache lines, and the table has sixteen slots per ten flows.
    let states = profile.concurrent_peak * 128 * 16 / 10;
    let table = if profile.flows == 0 {
        ("no", String::from("it has no flows"))
    } else if profile.concurrent_peak < 1000 {
        (
            "poor",
            format!(
                "{} {} any cache",
                counted(profile.concurrent_peak, "concurrent flow"),
                if profile.concurrent_peak == 1 { "fits" } else { "fit" }
            ),
        )
    } else {
        let cache = if l3_bytes > 0 { format!("; L3 is {}", bytes(l3_bytes)) } else { String::new() };
        (
            "good",
            format!(
                "{} concurrent flows are {} of states{cache}",
                grouped(profile.concurrent_peak),
                bytes(states)
            ),
        )
    };
    let top = profile.packets_per_flow[2];
    let scheduling = if profile.flows < 100 {
        (
            "poor",
            format!(
                "{} {} too few to balance",
                counted(profile.flows, "flow"),
                if profile.flows == 1 { "is" } else { "are" }
            ),
        )
    } else if top * 10 > decoded {
        ("good", format!("one dominant flow has {} of the packets", percent(top, decoded)))
    } else {
        ("good", format!("{} flows, none of them dominant", grouped(profile.flows)))
    };
    vec![
        Fit { experiment: "table", verdict: table.0, why: table.1 },
        Fit { experiment: "scheduling", verdict: scheduling.0, why: scheduling.1 },
    ]
}

impl Report for InspectResult {
    fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.file_lines(&mut lines);
        lines.push(String::new());
        self.packet_lines(&mut lines);
        self.why_lines(&mut lines);
        lines.push(String::new());
        self.flow_lines(&mut lines);
        lines.push(String::new());
        for (i, fit) in self.fit.iter().enumerate() {
            let head = if i == 0 { "Fit for" } else { "" };
            lines.push(format!("{head:<12}{:<12}{:<6}{}", fit.experiment, fit.verdict, fit.why));
        }
        lines.push(match (&self.fault, self.interrupted) {
            (Some(fault), _) => format!("stopped on a fault: {fault}"),
            (None, true) => format!("interrupted after {}", counted(self.packets, "packet")),
            (None, false) => {
                format!(
                    "{} in {}. Next: flowloom replay {}",
                    counted(self.packets, "packet"),
                    counted(self.flows, "flow"),
                    self.inputs
                )
            }
        });
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let pairs: Vec<(&str, String)> = vec![
            ("packets", self.packets.to_string()),
            ("bytes_on_wire", self.bytes_on_wire.to_string()),
            ("bytes_captured", self.bytes_captured.to_string()),
            ("decoded", self.decoded.to_string()),
            ("flows", self.flows.to_string()),
            ("flows_by_timeout", self.flows_by_timeout.to_string()),
            ("concurrent_peak", self.concurrent_peak.to_string()),
            ("size_p50", self.size_p50.to_string()),
            ("size_p95", self.size_p95.to_string()),
            ("ipv4", self.layers.ipv4.to_string()),
            ("ipv6", self.layers.ipv6.to_string()),
            ("tcp", self.layers.tcp.to_string()),
            ("udp", self.layers.udp.to_string()),
            ("first_ns", self.first_ns.to_string()),
            ("last_ns", self.last_ns.to_string()),
        ];
        let (head, row): (Vec<String>, Vec<String>) =
            pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).unzip();
        vec![head, row]
    }
}

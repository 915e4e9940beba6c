//! The JSON format in which figures are published.

use flowloom_flow_table::MemoryReport;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::distances::Distances;
use crate::host::Host;
use crate::rounds::Samples;
use crate::stats::{Ratio, Summary};

/// Name and version of the schema.
pub const SCHEMA: &str = "flowloom/bench/1";

/// The program that measured the figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// Version of the program.
    pub version: String,
    /// Commit from which it was built; empty if unknown.
    pub git: String,
}

impl std::fmt::Display for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "flowloom {} ({})", self.version, self.git)
    }
}

/// Times of variants that were run in turn, and their ratios: rows with a common host header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// The input, if one description applies to all rows; each bench has its own fields.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Map<String, Value>>"))]
    pub input: Option<Value>,
    /// Times of single variants.
    pub results: Vec<ResultRow>,
    /// Comparisons.
    pub ratios: Vec<RatioRow>,
    /// Latencies at given rates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<LatencyRow>,
    /// Memory of tables, if measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memory: Vec<MemoryRow>,
    /// Distance of the CPUs in the rounds with several threads, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distances: Option<Distances>,
    /// Whether the run was completed.
    pub complete: bool,
}

/// Memory of a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryRow {
    /// The table.
    pub variant: String,
    /// Flows in it.
    pub size: u64,
    /// Bytes that it reserves, including keys, times and values.
    pub bytes: u64,
    /// Bytes of the lookup structure per flow: everything except keys, times and values.
    pub lookup_bytes_per_flow: f64,
    /// Whether huge pages were requested, and the kernel accepted the request.
    pub huge_pages_requested: bool,
    /// Whether at least a part of it is in huge pages; `None` if not requested, or if the system
    /// does not report it.
    pub huge_pages_obtained: Option<bool>,
}

impl MemoryRow {
    /// Returns the row of a table with a number of flows.
    pub fn new(variant: impl Into<String>, flows: u64, memory: &MemoryReport) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "bytes of a table are far below 2^53")]
        let lookup_bytes_per_flow = memory.lookup_bytes() as f64 / flows.max(1) as f64;
        Self {
            variant: variant.into(),
            size: flows,
            bytes: memory.total_bytes(),
            lookup_bytes_per_flow,
            huge_pages_requested: memory.pages.huge_requested,
            huge_pages_obtained: memory.pages.huge_obtained,
        }
    }
}

/// Latencies of packets, measured from the time at which they were due.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyRow {
    /// The layout.
    pub variant: String,
    /// The work.
    pub work: String,
    /// Rate at which packets were due, in packets per second.
    pub rate: f64,
    /// That rate as a share of the layout's maximum rate.
    pub share: f64,
    /// Rate at which packets were completed, in packets per second: less than `rate` if the layout
    /// could not keep up.
    pub achieved: f64,
    /// Number of timed packets.
    pub packets: u64,
    /// Mean latency in nanoseconds.
    pub mean_ns: f64,
    /// Latency in nanoseconds that half of the packets did not exceed.
    pub p50_ns: u64,
    /// Latency in nanoseconds that 90 % of the packets did not exceed.
    pub p90_ns: u64,
    /// Latency in nanoseconds that 99 % of the packets did not exceed.
    pub p99_ns: u64,
    /// Latency in nanoseconds that 99.9 % of the packets did not exceed.
    pub p999_ns: u64,
    /// Maximum latency in nanoseconds.
    pub max_ns: u64,
}

impl Report {
    /// Returns a report without rows.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::{Host, Report, rows::Tool};
    /// let tool = Tool { version: "0.1.0".into(), git: "1a2b3c".into() };
    /// let report = Report::new(tool, Host::read("scalar", &[]));
    /// assert!(report.to_json().starts_with("{\n  \"schema\": \"flowloom/bench/1\""));
    /// ```
    pub fn new(tool: Tool, host: Host) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool,
            host,
            input: None,
            results: Vec::new(),
            ratios: Vec::new(),
            latencies: Vec::new(),
            memory: Vec::new(),
            distances: None,
            complete: true,
        }
    }

    /// Returns the report as JSON, indented.
    ///
    /// # Panics
    ///
    /// Does not panic: every key is text, and numbers that are not finite become `null`.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("rows are maps with text for keys")
    }
}

/// The times of one variant, with every round, so that a reader can compute other statistics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultRow {
    /// The variant.
    pub variant: String,
    /// The work.
    pub work: String,
    /// Size of the work in items: flows, packets, rules.
    pub size: u64,
    /// Unit of the figures, such as `ns/op`.
    pub unit: String,
    /// Number of rounds.
    pub n: usize,
    /// The fastest round.
    pub min: f64,
    /// The median.
    pub median: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// All rounds, in order.
    pub samples: Vec<f64>,
    /// The median round-trip time of a cache line between the CPUs in these rounds, in nanoseconds,
    /// if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_round_trip_ns: Option<f64>,
}

impl ResultRow {
    /// Returns the row of a variant's processor times, divided by the `items` that a round works
    /// on.
    pub fn new(work: impl Into<String>, size: u64, items: u64, samples: &Samples) -> Self {
        Self::of_times(work, size, items, &samples.name, &samples.cpu_ns)
    }

    /// Returns the row of times of each round, in nanoseconds, divided by the `items` that a round
    /// works on.
    pub fn of_times(work: impl Into<String>, size: u64, items: u64, variant: &str, times: &[u64]) -> Self {
        let each: Vec<f64> = per_item(times, items).collect();
        let summary = Summary::from_samples(each.iter().copied());
        Self {
            variant: variant.to_owned(),
            work: work.into(),
            size,
            unit: "ns/op".to_owned(),
            n: summary.count,
            min: summary.min,
            median: summary.median,
            p5: summary.p5,
            p95: summary.p95,
            samples: each,
            line_round_trip_ns: None,
        }
    }

    /// Adds the distance of the CPUs, if known.
    #[must_use]
    pub fn with_line(mut self, line_round_trip_ns: Option<f64>) -> Self {
        self.line_round_trip_ns = line_round_trip_ns;
        self
    }
}

/// The time per item: the fastest round, and the median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PerItem {
    /// Nanoseconds in the fastest round.
    pub min_ns: f64,
    /// Nanoseconds in the median round.
    pub median_ns: f64,
}

/// A comparison: the rival's time divided by Flowloom's, so above 1 Flowloom is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatioRow {
    /// The work.
    pub work: String,
    /// Size of the work.
    pub size: u64,
    /// The rival.
    pub rival: String,
    /// The rival's time divided by Flowloom's, as the median of the rounds: above 1, Flowloom is
    /// faster.
    pub ratio_median: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end of its interval.
    pub ratio_high: f64,
    /// Number of rounds.
    pub rounds: usize,
    /// Flowloom's time per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<PerItem>,
    /// The rival's time per item.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub theirs: Option<PerItem>,
    /// The median round-trip time of a cache line between the CPUs in these rounds, in nanoseconds,
    /// if measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line_round_trip_ns: Option<f64>,
}

impl RatioRow {
    /// Returns the row of two variants' processor times.
    pub fn new(work: impl Into<String>, size: u64, rival: &Samples, ours: &Samples) -> Self {
        Self::of_times(work, size, &rival.name, &rival.cpu_ns, &ours.cpu_ns)
    }

    /// Returns the row of two lists of times of the same clock: work on several threads is timed by
    /// wall clock.
    pub fn of_times(
        work: impl Into<String>,
        size: u64,
        rival: &str,
        rival_ns: &[u64],
        ours_ns: &[u64],
    ) -> Self {
        let ratio = Ratio::of_rounds(rival_ns, ours_ns);
        Self {
            work: work.into(),
            size,
            rival: rival.to_owned(),
            ratio_median: ratio.median,
            ratio_low: ratio.low,
            ratio_high: ratio.high,
            rounds: ratio.rounds,
            ours: None,
            theirs: None,
            line_round_trip_ns: None,
        }
    }

    /// Replaces the interval by that of [`Ratio::of_repeats`].
    #[must_use]
    pub fn for_repeats(mut self, rival_ns: &[u64], ours_ns: &[u64]) -> Self {
        let ratio = Ratio::of_repeats(rival_ns, ours_ns);
        (self.ratio_low, self.ratio_high) = (ratio.low, ratio.high);
        self
    }

    /// Adds the distance of the CPUs, if known.
    #[must_use]
    pub fn with_line(mut self, line_round_trip_ns: Option<f64>) -> Self {
        self.line_round_trip_ns = line_round_trip_ns;
        self
    }

    /// Adds the times of both sides per item, of which a round has `items`.
    #[must_use]
    pub fn with_items(mut self, items: u64, rival_ns: &[u64], ours_ns: &[u64]) -> Self {
        let row = |times: &[u64]| {
            let summary = Summary::from_samples(per_item(times, items));
            Some(PerItem { min_ns: summary.min, median_ns: summary.median })
        };
        (self.theirs, self.ours) = (row(rival_ns), row(ours_ns));
        self
    }

    /// Returns the ratio, with the confidence of its interval.
    pub fn ratio(&self) -> Ratio {
        Ratio {
            median: self.ratio_median,
            low: self.ratio_low,
            high: self.ratio_high,
            rounds: self.rounds,
            confidence: Ratio::confidence_of(self.rounds),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "times of a round and its items are far below 2^53")]
fn per_item(times_ns: &[u64], items: u64) -> impl Iterator<Item = f64> {
    times_ns.iter().map(move |&time| time as f64 / items.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::ChangeVerdict;

    fn report() -> Report {
        let host = Host {
            cpu: "a".to_owned(),
            isa: "avx2".to_owned(),
            cores: vec![1],
            load1: 0.5,
            kernel: "6.1".to_owned(),
            rustc: None,
            noise_p95_over_p5: 1.5,
            line_round_trip_ns: None,
        };
        let tool = Tool { version: "0.1.0".to_owned(), git: "1a2b3c".to_owned() };
        let ours = Samples { name: "ours".to_owned(), cpu_ns: vec![10; 8], wall_ns: vec![11; 8] };
        let rival = Samples { name: "std".to_owned(), cpu_ns: vec![20; 8], wall_ns: vec![21; 8] };
        let mut report = Report::new(tool, host);
        report.results.push(ResultRow::new("lookup hit", 1000, 5, &ours));
        report.ratios.push(
            RatioRow::new("lookup hit", 1000, &rival, &ours).with_items(5, &rival.cpu_ns, &ours.cpu_ns),
        );
        report
    }

    #[test]
    fn json_uses_the_published_names() {
        let value: Value = serde_json::from_str(&report().to_json()).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(keys(&value), "complete host ratios results schema tool");
        assert_eq!(keys(&value["tool"]), "git version");
        assert_eq!(keys(&value["host"]), "cores cpu isa kernel load1 noise_p95_over_p5");
        assert_eq!(keys(&value["results"][0]), "median min n p5 p95 samples size unit variant work");
        assert_eq!(
            keys(&value["ratios"][0]),
            "ours ratio_high ratio_low ratio_median rival rounds size theirs work"
        );
        assert_eq!(value["results"][0]["median"], 2.0);
        assert_eq!(value["ratios"][0]["ratio_median"], 2.0);
        assert_eq!(value["ratios"][0]["theirs"]["min_ns"], 4.0);
        assert_eq!(value["complete"], true);
    }

    #[test]
    fn measured_distances_have_names() {
        let mut report = report();
        report.distances = Some(Distances::from_round_trips(&[Some(60.0), Some(62.0), Some(61.0), None]));
        report.results[0].line_round_trip_ns = Some(61.0);
        let ratio = report.ratios[0].clone();
        report.ratios[0] = ratio.with_line(Some(61.0));
        let value: Value = serde_json::from_str(&report.to_json()).unwrap();
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(
            (&value["results"][0]["line_round_trip_ns"], 61.0),
            (&value["ratios"][0]["line_round_trip_ns"], 61.0)
        );
        assert_eq!(keys(&value["distances"]), "changed elsewhere kinds line_round_trips_ns unmeasured");
        assert_eq!(keys(&value["distances"]["kinds"][0]), "least_ns line_round_trip_ns most_ns rounds");
        assert_eq!(value["distances"]["line_round_trips_ns"][3], Value::Null);
        assert_eq!(serde_json::from_str::<Report>(&report.to_json()).unwrap(), report);
    }

    #[test]
    fn report_reads_back_as_written() {
        let report = report();
        assert_eq!(serde_json::from_str::<Report>(&report.to_json()).unwrap(), report);
    }

    #[test]
    fn a_row_knows_its_verdict() {
        assert_eq!(report().ratios[0].ratio().verdict(), ChangeVerdict::Faster);
    }
}

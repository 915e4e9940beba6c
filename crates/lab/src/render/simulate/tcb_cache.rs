//! The result of `simulate tcb-cache`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flowloom_measure::chart::{Axis, Chart, Series};
use schemars::JsonSchema;
use serde::Serialize;

use crate::exit::Failure;
use crate::output::OutputFile;
use crate::render::{Report, bytes, counted, grouped};

/// Simulated caches of connection state over one trace. Numbers are in base units: accesses, bytes,
/// seconds; ratios are between 0 and 1.
#[derive(Debug, JsonSchema, Serialize)]
pub struct SimulateResult {
    pub schema: &'static str,
    /// The simulated trace.
    pub trace: TraceFigures,
    /// Seed of the workload, the index functions and random choices.
    pub seed: u64,
    /// Number of requested caches.
    pub points_asked: u64,
    /// The caches that were simulated, in the order of the lists.
    pub points: Vec<PointFigures>,
    /// Time of the whole command, in seconds.
    pub seconds: f64,
    /// Whether a signal ended the sweep; finished points are kept.
    pub interrupted: bool,
}

/// The simulated trace.
#[derive(Debug, JsonSchema, Serialize)]
pub struct TraceFigures {
    /// The file, or the model.
    pub source: String,
    /// Its format: that of a log, a trace, a capture, or a model.
    pub form: String,
    /// The model's parameters; only for a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Outcome of the file's records; only for a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<ReadFigures>,
    /// Sessions of a log, or flows of a capture; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u64>,
    /// Concurrent sessions; only if sessions were overlapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlap: Option<u64>,
    /// Connections that were started; only if sessions were overlapped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections: Option<u64>,
    /// The packets of a request that the cache sees; only for logs and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<String>,
    /// How source ports are chosen; only for logs and models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<String>,
    /// Accesses, including those of the warm-up.
    pub accesses: u64,
    /// Accesses that filled the caches and were not counted.
    pub warm: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Time from the first access to the last, in seconds.
    pub span_s: f64,
    /// Share of the counted accesses that are the first of their key.
    pub compulsory_miss_ratio: f64,
}

/// Records of a file by their treatment.
#[derive(Debug, JsonSchema, Serialize)]
pub struct ReadFigures {
    /// Examined records.
    pub records: u64,
    /// Records that are accesses or requests.
    pub used: u64,
    /// Records that are not, by reason.
    pub skipped: BTreeMap<&'static str, u64>,
    /// Used records whose time is before that of an earlier one.
    pub time_backwards: u64,
    /// Whether reading stopped at --limit.
    pub limited: bool,
}

/// A cache and its counts.
#[derive(Debug, JsonSchema, Serialize)]
pub struct PointFigures {
    /// Its policy.
    pub policy: String,
    /// Its index function; null for a cache without sets.
    pub hash: Option<String>,
    /// Banks; null for a cache without sets.
    pub banks: Option<u32>,
    /// Sets per bank; null for a cache without sets.
    pub sets: Option<u32>,
    /// Ways per bank; null for a cache without sets.
    pub ways: Option<u32>,
    /// Size in bytes.
    pub bytes: u64,
    /// Lines.
    pub lines: u32,
    /// Whether the lines of sessions that end are emptied.
    pub fin: bool,
    /// Draws of index functions and choices.
    pub draws: u64,
    /// Misses per access, as the mean of the draws.
    pub miss_ratio: f64,
    /// The minimum of the draws.
    pub miss_ratio_low: f64,
    /// The maximum of the draws.
    pub miss_ratio_high: f64,
    /// Counted accesses, of all draws.
    pub accesses: u64,
    /// Accesses that found their line, over all draws.
    pub hits: u64,
    /// Hits that only the auxiliary functions found.
    pub auxiliary_hits: u64,
    /// Accesses that did not find their line, over all draws.
    pub misses: u64,
    /// Lines that were evicted for others.
    pub evictions: u64,
    /// Lines that were moved within the cache.
    pub moves: u64,
    /// Lines that were emptied because their session ended.
    pub closed: u64,
    /// Misses that were not filled because their session ended.
    pub not_filled: u64,
    /// Time per packet in the offload engine, in nanoseconds, with one, two and three memory
    /// accesses per miss.
    pub offload_ns: [f64; 3],
}

impl TraceFigures {
    pub fn new(source: &str, form: &str) -> Self {
        Self {
            source: source.to_owned(),
            form: form.to_owned(),
            model: None,
            read: None,
            sessions: None,
            overlap: None,
            connections: None,
            packets: None,
            ports: None,
            accesses: 0,
            warm: 0,
            keys: 0,
            span_s: 0.0,
            compulsory_miss_ratio: 0.0,
        }
    }

    /// Returns a description of the workload, for tables and charts.
    fn workload(&self) -> String {
        let mut parts = Vec::new();
        if let Some(sessions) = self.overlap {
            parts.push(format!("N = {} at a time", counted(sessions, "session")));
        }
        parts.extend(self.packets.clone());
        parts.extend(self.ports.as_ref().map(|ports| format!("ports {ports}")));
        parts.join(", ")
    }
}

impl PointFigures {
    fn always_frees(&self) -> bool {
        self.policy.starts_with("flowlru")
    }

    /// Returns the name of the cache, without its size.
    fn name(&self) -> String {
        let mut name = self.policy.clone();
        if self.fin && !self.always_frees() {
            name.push_str(" +fin");
        }
        if let (Some(hash), Some(banks), Some(ways)) = (&self.hash, self.banks, self.ways) {
            return format!("{name}  {hash} {banks}×{ways}");
        }
        name
    }
}

/// The file of a chart, opened before the chart exists.
pub struct Picture<'a> {
    file: OutputFile,
    path: &'a Path,
}

impl<'a> Picture<'a> {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Output`] if it cannot be written.
    pub fn open(path: &'a Path) -> Result<Self, Failure> {
        OutputFile::open_whole(path)
            .map(|file| Self { file, path })
            .map_err(|error| cannot_draw(path, &error))
    }
}

fn cannot_draw(path: &Path, error: &dyn std::fmt::Display) -> Failure {
    Failure::Output(format!("cannot draw {}: {error}", path.display()))
}

impl SimulateResult {
    /// Draws miss ratios by size.
    pub fn draw(&self, picture: Picture<'_>) -> Result<(), Failure> {
        let Picture { mut file, path } = picture;
        let title = format!(
            "Miss ratio: {}{}{}, seed {}",
            self.trace.source,
            if self.trace.workload().is_empty() { "" } else { "; " },
            self.trace.workload(),
            self.seed
        );
        let mut chart = Chart::new(title, Axis::log("size in KiB"), Axis::linear("misses in %"));
        let mut names: Vec<String> = Vec::new();
        for name in self.points.iter().map(PointFigures::name) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        for name in names {
            let mut points: Vec<(f64, f64)> = self
                .points
                .iter()
                .filter(|point| point.name() == name)
                .map(|point| (point.bytes as f64 / 1024.0, point.miss_ratio * 100.0))
                .collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            chart = chart.with(Series::line(name, points));
        }
        let svg = chart.svg().map_err(|error| cannot_draw(path, &error))?;
        file.write_all(svg.as_bytes())
            .and_then(|()| file.flush())
            .and_then(|()| file.finish())
            .map_err(|error| cannot_draw(path, &error))
    }

    fn verdict(&self) -> String {
        let done = self.points.len() as u64;
        let head = if self.interrupted {
            format!("interrupted: {done} of {} finished", counted(self.points_asked, "point"))
        } else {
            counted(done, "point")
        };
        let least = self.points.iter().map(|point| point.miss_ratio).fold(f64::INFINITY, f64::min);
        let best: Vec<&PointFigures> =
            self.points.iter().filter(|point| point.miss_ratio.total_cmp(&least).is_eq()).collect();
        let has_sizes = self.points.iter().any(|point| point.bytes != self.points[0].bytes);
        let named = |point: &PointFigures| {
            let size = if has_sizes { format!(" of {}", bytes(point.bytes)) } else { String::new() };
            point.name() + &size
        };
        let best = match best.as_slice() {
            [] => String::new(),
            [best] => format!(", fewest misses {:.2} % by {}", least * 100.0, named(best)),
            all if all.len() == self.points.len() => {
                let is_compulsory = (least - self.trace.compulsory_miss_ratio).abs() < 1e-9;
                let why = if is_compulsory { ": every session fits, so no policy matters" } else { "" };
                format!(", each misses {:.2} %{why}", least * 100.0)
            }
            some => {
                let names: Vec<String> = some.iter().map(|point| named(point)).collect();
                format!(", fewest misses {:.2} % by each of {}", least * 100.0, names.join(", "))
            }
        };
        format!("{head}{best}, in {:.2} s", self.seconds)
    }
}

impl Report for SimulateResult {
    fn lines(&self) -> Vec<String> {
        let trace = &self.trace;
        let mut lines = vec![
            format!(
                "{} ({}): {}, {}, {} s",
                trace.source,
                trace.form,
                counted(trace.accesses, "access"),
                counted(trace.keys, "key"),
                grouped(trace.span_s.round() as u64)
            ),
            format!(
                "{}{}{}, compulsory misses {:.2} %, seed {}",
                trace.workload(),
                if trace.workload().is_empty() { "" } else { "; " },
                match trace.warm {
                    0 => String::from("all counted"),
                    warm => format!("the first {} not counted", grouped(warm)),
                },
                trace.compulsory_miss_ratio * 100.0,
                self.seed
            ),
        ];
        if let Some(read) = &trace.read {
            let mut parts =
                vec![format!("{} of {} used", grouped(read.used), counted(read.records, "record"))];
            let skipped = read.skipped.iter();
            parts.extend(skipped.map(|(reason, count)| format!("{} skipped ({reason})", grouped(*count))));
            if read.time_backwards > 0 {
                parts.push(format!("{} with earlier times", grouped(read.time_backwards)));
            }
            if read.limited {
                parts.push(String::from("stopped at --limit"));
            }
            lines.push(parts.join(", "));
        }
        lines.push(String::new());
        let width = self.points.iter().map(|point| point.name().chars().count()).max().unwrap_or(0).max(5);
        let range = self.points.iter().any(|point| point.draws > 1);
        lines.push(format!(
            "{:width$}  {:>9}  {:>8}{}  {:>9}  {:>9}  {:>8}",
            "cache",
            "bytes",
            "misses",
            if range { "          range    " } else { "" },
            "auxiliary",
            "moves",
            "TOE ns"
        ));
        for point in &self.points {
            let range = if range {
                format!("  {:>6.2} … {:<6.2}", point.miss_ratio_low * 100.0, point.miss_ratio_high * 100.0)
            } else {
                String::new()
            };
            let share = if point.hits == 0 { 0.0 } else { point.auxiliary_hits as f64 / point.hits as f64 };
            lines.push(format!(
                "{:width$}  {:>9}  {:>6.2} %{range}  {:>7.2} %  {:>9}  {:>8.1}",
                point.name(),
                point.bytes,
                point.miss_ratio * 100.0,
                share * 100.0,
                point.moves,
                point.offload_ns[0]
            ));
        }
        if self.points.iter().any(PointFigures::always_frees) && self.points.iter().any(|point| !point.fin)
        {
            lines.push(String::from(
                "flowlru frees the lines of ended sessions, as the others do with --fin on",
            ));
        }
        lines.push(String::new());
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "policy", "hash", "banks", "sets", "ways", "bytes", "lines", "fin", "draws", "miss_ratio",
            "miss_ratio_low", "miss_ratio_high", "accesses", "hits", "auxiliary_hits", "misses",
            "evictions", "moves", "closed", "not_filled", "offload_ns_1", "offload_ns_2", "offload_ns_3",
            "overlap", "seed",
        ];
        let optional = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.points.iter().map(|point| {
            vec![
                point.policy.clone(),
                point.hash.clone().unwrap_or_default(),
                optional(point.banks),
                optional(point.sets),
                optional(point.ways),
                point.bytes.to_string(),
                point.lines.to_string(),
                point.fin.to_string(),
                point.draws.to_string(),
                point.miss_ratio.to_string(),
                point.miss_ratio_low.to_string(),
                point.miss_ratio_high.to_string(),
                point.accesses.to_string(),
                point.hits.to_string(),
                point.auxiliary_hits.to_string(),
                point.misses.to_string(),
                point.evictions.to_string(),
                point.moves.to_string(),
                point.closed.to_string(),
                point.not_filled.to_string(),
                point.offload_ns[0].to_string(),
                point.offload_ns[1].to_string(),
                point.offload_ns[2].to_string(),
                self.trace.overlap.map_or(String::new(), |sessions| sessions.to_string()),
                self.seed.to_string(),
            ]
        }));
        rows
    }
}

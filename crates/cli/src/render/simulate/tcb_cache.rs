//! The result of `simulate tcb-cache`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use flowloom_measure::chart::{Axis, Chart, Series};
use serde::Serialize;

use crate::exit::Failure;
use crate::output::OutputFile;
use crate::render::{Report, counted, grouped};

/// The document of `simulate tcb-cache`; `docs/schema/simulate-tcb-cache-1.json` describes it.
#[derive(Debug, Serialize)]
pub(crate) struct SimulateResult {
    pub(crate) schema: &'static str,
    pub(crate) trace: TraceFigures,
    pub(crate) seed: u64,
    pub(crate) points_asked: u64,
    pub(crate) points: Vec<PointFigures>,
    pub(crate) seconds: f64,
    pub(crate) interrupted: bool,
}

/// The simulated trace.
#[derive(Debug, Serialize)]
pub(crate) struct TraceFigures {
    pub(crate) source: String,
    pub(crate) form: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) read: Option<ReadFigures>,
    /// Number of sessions in the source, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sessions: Option<u64>,
    /// Concurrent sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overlap: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) connections: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) packets: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ports: Option<String>,
    pub(crate) accesses: u64,
    pub(crate) warm: u64,
    pub(crate) keys: u64,
    pub(crate) span_s: f64,
    pub(crate) compulsory_miss_ratio: f64,
}

/// Records of a file by their treatment.
#[derive(Debug, Serialize)]
pub(crate) struct ReadFigures {
    pub(crate) records: u64,
    pub(crate) used: u64,
    pub(crate) skipped: BTreeMap<&'static str, u64>,
    pub(crate) time_backwards: u64,
    pub(crate) limited: bool,
}

/// A cache and its counts.
#[derive(Debug, Serialize)]
pub(crate) struct PointFigures {
    pub(crate) policy: String,
    pub(crate) hash: Option<String>,
    pub(crate) banks: Option<u32>,
    pub(crate) sets: Option<u32>,
    pub(crate) ways: Option<u32>,
    pub(crate) bytes: u64,
    pub(crate) lines: u32,
    pub(crate) fin: bool,
    pub(crate) draws: u64,
    pub(crate) miss_ratio: f64,
    pub(crate) miss_ratio_low: f64,
    pub(crate) miss_ratio_high: f64,
    pub(crate) accesses: u64,
    pub(crate) hits: u64,
    pub(crate) auxiliary_hits: u64,
    pub(crate) misses: u64,
    pub(crate) evictions: u64,
    pub(crate) moves: u64,
    pub(crate) closed: u64,
    pub(crate) not_filled: u64,
    /// Time per packet in an offload engine, with one, two and three memory accesses per miss.
    pub(crate) offload_ns: [f64; 3],
}

impl TraceFigures {
    pub(crate) fn new(source: &str, form: &str) -> Self {
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
    /// Returns the name of the cache, without its size.
    fn name(&self) -> String {
        let mut name = self.policy.clone();
        if self.fin && !self.policy.starts_with("flowlru") {
            name.push_str(" +fin");
        }
        if let (Some(hash), Some(banks), Some(ways)) = (&self.hash, self.banks, self.ways) {
            return format!("{name}  {hash} {banks}×{ways}");
        }
        name
    }
}

/// The file of a chart, opened before the chart exists.
pub(crate) struct Picture<'a> {
    file: OutputFile,
    path: &'a Path,
}

impl<'a> Picture<'a> {
    /// Opens the file.
    ///
    /// # Errors
    ///
    /// Returns [`Failure::Output`] if it cannot be written.
    pub(crate) fn open(path: &'a Path) -> Result<Self, Failure> {
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
    pub(crate) fn draw(&self, picture: Picture<'_>) -> Result<(), Failure> {
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
        let best = self.points.iter().min_by(|a, b| a.miss_ratio.total_cmp(&b.miss_ratio));
        let best = best.map_or(String::new(), |best| {
            format!(", fewest misses {:.2} % by {}", best.miss_ratio * 100.0, best.name())
        });
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
        lines.push(String::new());
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = [
            "policy",
            "hash",
            "banks",
            "sets",
            "ways",
            "bytes",
            "lines",
            "fin",
            "draws",
            "miss_ratio",
            "miss_ratio_low",
            "miss_ratio_high",
            "accesses",
            "hits",
            "auxiliary_hits",
            "misses",
            "evictions",
            "moves",
            "closed",
            "not_filled",
            "offload_ns_1",
            "offload_ns_2",
            "offload_ns_3",
            "overlap",
            "seed",
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

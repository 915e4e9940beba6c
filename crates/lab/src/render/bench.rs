//! The results of `bench`.

use flowloom_measure::chart::{Axis, Chart};
use flowloom_measure::{ResultRow, text};
use serde::{Serialize, Serializer};

use super::save::{Named, Table, print_and_save};
use super::{Report, counted};
use crate::args::Common;
use crate::args::save::Save;
use crate::exit::Failure;

/// Rows under a host header.
#[derive(Debug)]
pub struct BenchResult {
    pub title: &'static str,
    pub report: flowloom_measure::Report,
}

/// File names of the charts of a bench. Further kinds of work appear in tables only.
const NAMES: [&str; 12] = [
    "time-1", "time-2", "time-3", "time-4", "time-5", "time-6", "time-7", "time-8", "time-9", "time-10",
    "time-11", "time-12",
];

impl BenchResult {
    /// Prints the result, and saves it if requested.
    pub fn finish(&self, folder: &Save, common: &Common) -> Result<(), Failure> {
        print_and_save(self, self.title, folder, || self.charts(), common)
    }

    /// Returns a chart for each kind of work, with the median of every variant at each size, and a
    /// chart of latencies if there are any.
    fn charts(&self) -> Vec<Named> {
        let mut works: Vec<(&str, &str)> = Vec::new();
        for row in &self.report.results {
            if !works.contains(&(row.work.as_str(), row.unit.as_str())) {
                works.push((&row.work, &row.unit));
            }
        }
        let mut charts: Vec<Named> = NAMES
            .into_iter()
            .zip(works)
            .map(|(name, (work, unit))| {
                let rows = self.report.results.iter().filter(|row| row.work == work && row.unit == unit);
                (name, of_work(work, unit, &rows.collect::<Vec<_>>()))
            })
            .collect();
        if !self.report.latencies.is_empty() {
            let mut chart = Chart::new(
                "Latency since the due time of a packet",
                Axis::linear("offered load, million packets per second"),
                Axis::log("ns"),
            );
            for row in &self.report.latencies {
                for (part, ns) in [("p50", row.p50_ns), ("p99", row.p99_ns), ("max", row.max_ns)] {
                    chart.push(&format!("{} {part}", row.variant), true, (row.rate / 1e6, ns as f64));
                }
            }
            charts.push(("latency", chart));
        }
        charts
    }
}

/// Bars of medians, one group per size.
fn of_work(work: &str, unit: &str, rows: &[&ResultRow]) -> Chart {
    let mut sizes: Vec<u64> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut chart = Chart::bars(
        format!("{work}: medians, and the 5th to the 95th percentile of the rounds"),
        sizes.iter().map(|&size| super::grouped(size)),
        Axis::linear(unit),
    );
    for row in rows {
        let place = sizes.partition_point(|&size| size < row.size) as f64;
        chart.push(&row.variant, false, (place, row.median));
        if let Some(series) = chart.series.iter_mut().find(|series| series.name == row.variant) {
            series.intervals.push((row.p5, row.p95));
        }
    }
    chart
}

impl Serialize for BenchResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.report.serialize(serializer)
    }
}

impl BenchResult {
    fn header(&self) -> String {
        let report = &self.report;
        let host = &report.host;
        format!(
            "flowloom {} ({})   {}   {} {}   load {:.2}, noise {:.2}{}",
            report.tool.version,
            report.tool.git,
            self.title,
            host.cpu,
            host.isa,
            host.load1,
            host.noise_p95_over_p5,
            if host.is_quiet() { "" } else { " (noisy: only ratios mean anything)" },
        )
    }

    fn verdict(&self) -> String {
        let report = &self.report;
        let rounds = report.results.iter().map(|row| row.n);
        let rounds = match (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0)) {
            (least, most) if least == most => format!("{} each", counted(most as u64, "round")),
            (least, most) => format!("{least} to {most} rounds"),
        };
        let ended = if report.complete { "" } else { "interrupted: " };
        format!("{ended}{} of {rounds}", counted(report.ratios.len() as u64, "comparison"))
    }
}

impl Report for BenchResult {
    fn tables(&self) -> Vec<Table> {
        let tables = text::tables(&self.report).into_iter();
        tables.map(|(title, rows)| Table { title, rows, note: String::new() }).collect()
    }

    fn page_lines(&self) -> Vec<String> {
        let distances = self.report.distances.as_ref().map(text::distances).unwrap_or_default();
        let lines = distances.lines().map(str::to_owned);
        std::iter::once(self.header()).chain(lines).chain([self.verdict()]).collect()
    }

    fn lines(&self) -> Vec<String> {
        let report = &self.report;
        let mut lines = vec![self.header()];
        lines.push(String::new());
        lines.extend(text::results(&report.results).lines().map(str::to_owned));
        lines.push(String::new());
        if !report.latencies.is_empty() {
            lines.push(String::from("latency: from the due time of a packet until its completion"));
            lines.extend(text::latencies(&report.latencies).lines().map(str::to_owned));
            lines.push(String::new());
        }
        if !report.memory.is_empty() {
            lines.push(String::from("memory: reserved for a table with its flows"));
            lines.extend(text::memory(&report.memory).lines().map(str::to_owned));
            lines.push(String::new());
        }
        if let Some(distances) = &report.distances {
            lines.extend(text::distances(distances).lines().map(str::to_owned));
            lines.push(String::new());
        }
        lines.push(String::from(
            "ratio: the other variant's time / the first variant's time; above 1 \
            the first is faster",
        ));
        lines.extend(text::ratios(&report.ratios).lines().map(str::to_owned));
        lines.push(String::new());
        lines.push(self.verdict());
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head =
            ["variant", "work", "size", "unit", "n", "min", "median", "p5", "p95", "line_round_trip_ns"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.report.results.iter().map(|row| {
            let numbers = [row.min, row.median, row.p5, row.p95].map(|number| number.to_string());
            let mut cells = vec![
                row.variant.clone(),
                row.work.clone(),
                row.size.to_string(),
                row.unit.clone(),
                row.n.to_string(),
            ];
            cells.extend(numbers);
            cells.push(row.line_round_trip_ns.map(|ns| ns.to_string()).unwrap_or_default());
            cells
        }));
        rows
    }
}

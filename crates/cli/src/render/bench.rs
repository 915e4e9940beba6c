//! The results of `bench`.

use flowloom_measure::text;
use serde::{Serialize, Serializer};

use super::Report;

/// Rows under a host header.
#[derive(Debug)]
pub(crate) struct BenchResult {
    pub(crate) title: &'static str,
    pub(crate) report: flowloom_measure::Report,
}

impl Serialize for BenchResult {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.report.serialize(serializer)
    }
}

impl Report for BenchResult {
    fn lines(&self) -> Vec<String> {
        let report = &self.report;
        let host = &report.host;
        let mut lines = vec![format!(
            "flowloom {} ({})   {}   {} {}   load {:.2}, noise {:.2}{}",
            report.tool.version,
            report.tool.git,
            self.title,
            host.cpu,
            host.isa,
            host.load1,
            host.noise_p95_over_p5,
            if host.is_quiet() { "" } else { " (noisy: only ratios mean anything)" },
        )];
        lines.push(String::new());
        lines.extend(text::results(&report.results).lines().map(str::to_owned));
        lines.push(String::new());
        if !report.latencies.is_empty() {
            lines.push(String::from("latency: from the time a packet was due at until it was done"));
            lines.extend(text::latencies(&report.latencies).lines().map(str::to_owned));
            lines.push(String::new());
        }
        lines.push(String::from("ratio: the rival's time by ours, so above 1 the first is faster"));
        lines.extend(text::ratios(&report.ratios).lines().map(str::to_owned));
        lines.push(String::new());
        let rounds = report.results.iter().map(|row| row.n).max().unwrap_or(0);
        let ended = if report.complete { "" } else { "interrupted: " };
        lines.push(format!("{ended}{} comparisons of {rounds} rounds each", report.ratios.len()));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["variant", "work", "size", "unit", "n", "min", "median", "p5", "p95"];
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
            cells
        }));
        rows
    }
}

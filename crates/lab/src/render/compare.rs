//! The result of `compare`.

use flowloom_measure::ChangeVerdict;
use flowloom_measure::change::{Change, Changes};
use flowloom_measure::chart::{Axis, Chart, Series};
use schemars::JsonSchema;
use serde::Serialize;

use super::Report;
use super::save::{Named, Table};

/// Changes between two saved results of a bench.
#[derive(Debug, JsonSchema, Serialize)]
pub struct CompareResult {
    schema: &'static str,
    /// Rows that both results have.
    rows: Vec<Row>,
    /// Rows that only the base has.
    only_base: Vec<String>,
    /// Rows that only the new result has.
    only_new: Vec<String>,
    /// Rows shown to be slower.
    slower: u64,
    /// Rows shown to be faster.
    faster: u64,
    /// Percentage by which a row may be slower; null if not requested.
    fail_above_percent: Option<f64>,
    /// Rows shown to be slower by more than `fail_above_percent`.
    pub failed: u64,
}

/// How the time of a row changed.
#[derive(Debug, JsonSchema, Serialize)]
struct Row {
    #[serde(flatten)]
    change: Change,
    /// Conclusion from the interval.
    #[schemars(extend("enum" = ["faster", "slower", "no difference shown", "too few rounds to tell"]))]
    verdict: String,
}

impl CompareResult {
    pub fn new(changes: Changes, fail_above_percent: Option<f64>) -> Self {
        let count =
            |of: &dyn Fn(&Change) -> bool| changes.rows.iter().filter(|change| of(change)).count() as u64;
        Self {
            schema: "flowloom/compare/1",
            slower: count(&|change| change.verdict() == ChangeVerdict::Slower),
            faster: count(&|change| change.verdict() == ChangeVerdict::Faster),
            failed: fail_above_percent
                .map_or(0, |percent| count(&|change| change.is_slower_than(1.0 + percent / 100.0))),
            fail_above_percent,
            only_base: changes.only_base,
            only_new: changes.only_new,
            rows: changes
                .rows
                .into_iter()
                .map(|change| Row { verdict: change.verdict().to_string(), change })
                .collect(),
        }
    }
}

/// Returns a factor as a percentage change: `+13 %`.
fn added(factor: f64) -> String {
    format!("{:+.0} %", (factor - 1.0) * 100.0)
}

/// Maximum number of bars of the chart.
const BARS_MAX: usize = 24;

impl CompareResult {
    fn cells(&self) -> Vec<[String; 8]> {
        let mut cells = vec![
            ["variant", "work", "size", "base", "new", "change", "interval", "verdict"].map(str::to_owned),
        ];
        cells.extend(self.rows.iter().map(|Row { change, verdict }| {
            [
                change.variant.clone(),
                change.work.clone(),
                super::grouped(change.size),
                format!("{:.1} {}", change.base, change.unit),
                format!("{:.1} {}", change.new, change.unit),
                added(change.change),
                format!("{} … {}", added(change.low), added(change.high)),
                verdict.clone(),
            ]
        }));
        cells
    }

    /// Returns the chart of the greatest changes.
    pub fn charts(&self) -> Vec<Named> {
        let mut rows: Vec<&Change> = self.rows.iter().map(|row| &row.change).collect();
        rows.sort_by(|a, b| b.change.ln().abs().total_cmp(&a.change.ln().abs()));
        rows.truncate(BARS_MAX);
        let names = rows.iter().map(|row| format!("{} {} {}", row.variant, row.work, row.size));
        let percent = |factor: f64| (factor - 1.0) * 100.0;
        let intervals = rows.iter().map(|row| (percent(row.low), percent(row.high))).collect();
        let bars = Series::bars("% slower", rows.iter().map(|row| percent(row.change)));
        let title = "Change of the medians, with intervals";
        let chart = Chart::bars(title, names, Axis::linear("% slower"));
        vec![(NAME, chart.with(Series { intervals, ..bars }))]
    }
}

/// The name of the chart's files.
pub const NAME: &str = "changes";

impl Report for CompareResult {
    fn tables(&self) -> Vec<Table> {
        let rows = self.cells().into_iter().map(Vec::from).collect();
        vec![Table { title: "Rows", rows, note: String::new() }]
    }

    fn page_lines(&self) -> Vec<String> {
        self.lines().split_off(self.rows.len() + 1)
    }

    fn lines(&self) -> Vec<String> {
        let cells = self.cells();
        let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let widths: [usize; 8] = std::array::from_fn(width);
        let line = |row: &[String; 8]| {
            let padded = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        };
        let mut lines: Vec<String> = cells.iter().map(line).collect();
        for (which, rows) in [("base", &self.only_base), ("new result", &self.only_new)] {
            if !rows.is_empty() {
                lines.push(format!("only in the {which}: {}", rows.join("; ")));
            }
        }
        lines.push(String::new());
        let failed = self
            .fail_above_percent
            .map_or(String::new(), |percent| format!("; {} slower by more than {percent} %", self.failed));
        lines.push(format!(
            "{}: {} slower, {} faster{failed}",
            super::counted(self.rows.len() as u64, "row"),
            self.slower,
            self.faster
        ));
        lines
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let head = ["variant", "work", "size", "unit", "base", "new", "change", "low", "high", "verdict"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(self.rows.iter().map(|Row { change, verdict }| {
            let mut row = vec![
                change.variant.clone(),
                change.work.clone(),
                change.size.to_string(),
                change.unit.clone(),
            ];
            row.extend(
                [change.base, change.new, change.change, change.low, change.high].map(|n| n.to_string()),
            );
            row.push(verdict.clone());
            row
        }));
        rows
    }
}

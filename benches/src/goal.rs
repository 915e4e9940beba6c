//! Comparisons with goals: the published rows, each with its goal.

use std::io::Write;
use std::path::Path;

use flowloom_measure::rows::{SCHEMA, Tool};
use flowloom_measure::{Host, RatioRow, ResultRow, Samples, text};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The clock of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Processor time, of the thread or of the whole program.
    Cpu,
    /// Wall-clock time, if several threads work.
    Wall,
}

/// A comparison and its goal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedRow {
    /// The comparison.
    #[serde(flatten)]
    pub row: RatioRow,
    /// The clock of the compared times.
    pub clock: Clock,
    /// Minimum of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// Whether the goal is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

impl JudgedRow {
    /// Returns the row with its verdict, or without one if there is no goal.
    pub fn new(row: RatioRow, clock: Clock, goal: Option<f64>) -> Self {
        let met = goal.map(|goal| row.ratio_median >= goal);
        Self { row, clock, goal, met }
    }
}

/// A time with an upper limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedResult {
    /// The times.
    #[serde(flatten)]
    pub row: ResultRow,
    /// Maximum of the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<f64>,
    /// Whether the goal is met.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<bool>,
}

impl JudgedResult {
    /// Returns the row with its verdict, or without one if there is no goal.
    pub fn new(row: ResultRow, goal: Option<f64>) -> Self {
        let met = goal.map(|goal| row.median <= goal);
        Self { row, goal, met }
    }
}

/// A [`flowloom_measure::Report`] whose rows have goals; readers of that type can parse it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JudgedReport {
    /// Name and version of the schema.
    pub schema: String,
    /// The program.
    pub tool: Tool,
    /// The machine.
    pub host: Host,
    /// The input.
    pub input: Value,
    /// Times of single variants.
    pub results: Vec<JudgedResult>,
    /// Comparisons.
    pub ratios: Vec<JudgedRow>,
    /// Whether the run was completed.
    pub complete: bool,
}

impl JudgedReport {
    /// Returns a report without rows.
    pub fn new(tool: Tool, host: Host, input: Value) -> Self {
        let schema = SCHEMA.to_owned();
        Self { schema, tool, host, input, results: Vec::new(), ratios: Vec::new(), complete: true }
    }

    /// Adds all times of a work, and the ratio of every rival to the first.
    pub fn compare(
        &mut self,
        samples: &[Samples],
        (work, size, items): (&str, u64, u64),
        clock: Clock,
        goal: impl Fn(&str) -> Option<f64>,
    ) {
        let times = |sample: &Samples| match clock {
            Clock::Cpu => sample.cpu_ns.clone(),
            Clock::Wall => sample.wall_ns.clone(),
        };
        for sample in samples {
            let row = ResultRow::of_times(work, size, items, &sample.name, &times(sample));
            self.results.push(JudgedResult::new(row, None));
        }
        let Some((ours, rivals)) = samples.split_first() else { return };
        for rival in rivals {
            let (rival_ns, ours_ns) = (times(rival), times(ours));
            let row = RatioRow::of_times(work, size, &rival.name, &rival_ns, &ours_ns);
            let row = row.with_items(items, &rival_ns, &ours_ns);
            self.ratios.push(JudgedRow::new(row, clock, goal(&rival.name)));
        }
    }

    /// Returns the report as tables.
    pub fn to_text(&self) -> String {
        let rows: Vec<RatioRow> = self.ratios.iter().map(|judged| judged.row.clone()).collect();
        let ratios = beside(&text::ratios(&rows), "clock", |index| match self.ratios[index].clock {
            Clock::Cpu => String::from("cpu"),
            Clock::Wall => String::from("wall"),
        });
        let ratios = beside(&ratios, "goal", |index| {
            let judged = &self.ratios[index];
            judgement("≥", judged.goal, judged.met)
        });
        let rows: Vec<ResultRow> = self.results.iter().map(|judged| judged.row.clone()).collect();
        let results = beside(&text::results(&rows), "goal", |index| {
            let judged = &self.results[index];
            judgement("≤", judged.goal, judged.met)
        });
        format!("{}{}\n\n{ratios}\n{results}", text::host(&self.host), self.input)
    }

    /// Writes the report, as tables or as JSON, to a file or to standard output.
    ///
    /// # Errors
    ///
    /// Returns an error if the report cannot be written.
    pub fn write(&self, as_text: bool, output: Option<&Path>) -> Result<(), String> {
        let mut text = if as_text {
            self.to_text()
        } else {
            serde_json::to_string_pretty(self).map_err(|error| error.to_string())?
        };
        if !text.ends_with('\n') {
            text.push('\n');
        }
        let written = match output {
            Some(path) => std::fs::write(path, text),
            None => std::io::stdout().write_all(text.as_bytes()),
        };
        written.map_err(|error| format!("cannot write the rows: {error}"))
    }
}

fn judgement(sign: &str, goal: Option<f64>, met: Option<bool>) -> String {
    match (goal, met) {
        (Some(goal), Some(true)) => format!("{sign} {goal:.2} met"),
        (Some(goal), _) => format!("{sign} {goal:.2} missed"),
        _ => String::from("-"),
    }
}

/// Adds a column to a table.
fn beside(table: &str, head: &str, cell: impl Fn(usize) -> String) -> String {
    let width = table.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (number, line) in table.lines().enumerate() {
        let cell = number.checked_sub(1).map_or_else(|| head.to_owned(), &cell);
        let padded = format!("{line:<width$}  {cell}");
        text.push_str(padded.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use flowloom_measure::Report;

    use super::*;

    fn report() -> JudgedReport {
        let host = Host {
            cpu: "a".to_owned(),
            isa: "avx2".to_owned(),
            cores: Vec::new(),
            load1: 0.5,
            kernel: "6.1".to_owned(),
            rustc: None,
            noise_p95_over_p5: 1.0,
            line_round_trip_ns: None,
        };
        let tool = Tool { version: "0.1.0".to_owned(), git: String::new() };
        let mut report = JudgedReport::new(tool, host, serde_json::json!({"packets": 7}));
        let row = RatioRow::of_times("walk", 7, "copy", &[20; 8], &[10; 8]);
        report.ratios.push(JudgedRow::new(row.clone(), Clock::Cpu, Some(1.0)));
        report.ratios.push(JudgedRow::new(row.clone(), Clock::Wall, Some(5.0)));
        report.ratios.push(JudgedRow::new(row, Clock::Cpu, None));
        report
    }

    #[test]
    fn rows_show_whether_they_reach_their_goal() {
        let text = report().to_text();
        let ends: Vec<&str> = text.lines().filter_map(|line| line.split("faster").nth(1)).collect();
        assert_eq!(ends, ["   cpu    ≥ 1.00 met", "   wall   ≥ 5.00 missed", "   cpu    -"], "{text}");
    }

    #[test]
    fn published_names_are_kept_and_the_report_reads_as_one_without_goals() {
        let json = serde_json::to_string(&report()).unwrap();
        let plain: Report = serde_json::from_str(&json).unwrap();
        assert_eq!(plain.ratios[0], report().ratios[0].row);
        let value: Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&value["ratios"][0]["goal"], &value["ratios"][1]["met"]), (&1.0.into(), &false.into()));
        assert_eq!(serde_json::from_str::<JudgedReport>(&json).unwrap(), report());
    }
}

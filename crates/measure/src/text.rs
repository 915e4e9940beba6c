//! Formats rows as text, in columns.

use std::fmt::Write;

use crate::cpu_distance::range_text;
use crate::distances::{DistanceKind, Distances};
use crate::host::{Host, NOISE_MAX};
use crate::rows::{LatencyRow, MemoryRow, PerItem, RatioRow, Report, ResultRow};
use crate::stats::Summary;

/// Returns the comparisons as a table: one line each, with aligned numbers and the verdict in
/// words.
///
/// # Examples
///
/// ```
/// use flowloom_measure::{RatioRow, text};
/// let row = RatioRow::of_times("lookup hit", 1000, "std", &[20; 8], &[10; 8]);
/// assert_eq!(
///     text::ratios(&[row]),
///     "work        size  rival  ratio  interval     rounds  verdict\n\
///      lookup hit  1000  std     2.00  2.00 … 2.00       8  faster\n",
/// );
/// ```
pub fn ratios(rows: &[RatioRow]) -> String {
    table_of_ratios(rows).text()
}

fn table_of_ratios(rows: &[RatioRow]) -> Table {
    let with_times = rows.iter().any(|row| row.ours.is_some() || row.theirs.is_some());
    let mut head =
        vec![Left("work"), Right("size"), Left("rival"), Right("ratio"), Left("interval"), Right("rounds")];
    if with_times {
        head.extend([Right("ours ns"), Right("theirs ns")]);
    }
    head.push(Left("verdict"));
    let lines = rows.iter().map(|row| {
        let ratio = row.ratio();
        let mut cells = vec![
            row.work.clone(),
            row.size.to_string(),
            row.rival.clone(),
            format!("{:.2}", row.ratio_median),
            format!("{:.2} … {:.2}", row.ratio_low, row.ratio_high),
            row.rounds.to_string(),
        ];
        if with_times {
            let median = |time: Option<PerItem>| {
                time.map_or_else(|| "-".to_owned(), |time| format!("{:.1}", time.median_ns))
            };
            cells.extend([median(row.ours), median(row.theirs)]);
        }
        cells.push(ratio.verdict().to_string());
        cells
    });
    Table::new(&head, lines)
}

/// Returns latencies as a table, in microseconds.
pub fn latencies(rows: &[LatencyRow]) -> String {
    table_of_latencies(rows).text()
}

fn table_of_latencies(rows: &[LatencyRow]) -> Table {
    let head = [
        Left("layout"),
        Left("work"),
        Right("packets/s"),
        Right("of its maximum"),
        Right("done/s"),
        Right("p50 µs"),
        Right("p90"),
        Right("p99"),
        Right("p99.9"),
        Right("max"),
    ];
    let lines = rows.iter().map(|row| {
        let quantiles = [row.p50_ns, row.p90_ns, row.p99_ns, row.p999_ns, row.max_ns];
        let mut cells = vec![
            row.variant.clone(),
            row.work.clone(),
            format!("{:.0}", row.rate),
            format!("{:.0} %", row.share * 100.0),
            format!("{:.0}", row.achieved),
        ];
        // Up to a minute: exact in a double.
        cells.extend(
            quantiles.map(|ns| format!("{:.1}", std::time::Duration::from_nanos(ns).as_secs_f64() * 1e6)),
        );
        cells
    });
    Table::new(&head, lines)
}

/// Returns the times of single variants as a table: median, spread, and the fastest round.
pub fn results(rows: &[ResultRow]) -> String {
    table_of_results(rows).text()
}

fn table_of_results(rows: &[ResultRow]) -> Table {
    let head = [
        Left("variant"),
        Left("work"),
        Right("size"),
        Left("unit"),
        Right("median"),
        Right("p5"),
        Right("p95"),
        Right("min"),
        Right("n"),
    ];
    let lines = rows.iter().map(|row| {
        let number = |value: f64| format!("{value:.1}");
        vec![
            row.variant.clone(),
            row.work.clone(),
            row.size.to_string(),
            row.unit.clone(),
            number(row.median),
            number(row.p5),
            number(row.p95),
            number(row.min),
            row.n.to_string(),
        ]
    });
    Table::new(&head, lines)
}

/// Returns the memory of tables as a table.
///
/// # Examples
///
/// ```
/// use flowloom_flow_table::{FlowTable, LineHash, TableOptions};
/// use flowloom_measure::{rows::MemoryRow, text};
/// let table = LineHash::<u64, u64>::try_new(&TableOptions::for_flows(1000))?;
/// let row = MemoryRow::new("linehash", 1000, &table.memory());
/// let text = text::memory(&[row]);
/// assert!(text.starts_with("variant   size "), "{text}");
/// assert!(text.ends_with("  not requested\n"), "so small a table takes no huge pages: {text}");
/// # Ok::<(), flowloom_flow_table::BuildError>(())
/// ```
pub fn memory(rows: &[MemoryRow]) -> String {
    table_of_memory(rows).text()
}

fn table_of_memory(rows: &[MemoryRow]) -> Table {
    let head =
        [Left("variant"), Right("size"), Right("bytes"), Right("lookup bytes/flow"), Left("huge pages")];
    let lines = rows.iter().map(|row| {
        let huge_pages = match (row.huge_pages_requested, row.huge_pages_obtained) {
            (_, Some(true)) => "obtained",
            (true, Some(false)) => "not obtained",
            (true, None) => "asked for",
            (false, _) => "not requested",
        };
        vec![
            row.variant.clone(),
            row.size.to_string(),
            row.bytes.to_string(),
            format!("{:.2}", row.lookup_bytes_per_flow),
            huge_pages.to_owned(),
        ]
    });
    Table::new(&head, lines)
}

/// Returns the machine in one line, with a second line if it was too noisy for absolute figures.
pub fn host(host: &Host) -> String {
    let cores = match host.cores.as_slice() {
        [] => "not pinned".to_owned(),
        cores => {
            let numbers: Vec<String> = cores.iter().map(ToString::to_string).collect();
            format!("cores {} pinned", numbers.join(","))
        }
    };
    let Host { cpu, isa, load1, kernel, noise_p95_over_p5, line_round_trip_ns, .. } = host;
    let mut text =
        format!("{cpu}  {isa}  {cores}  kernel {kernel}  load {load1:.2}  noise {noise_p95_over_p5:.2}");
    // Writing to a `String` cannot fail.
    let _ = match line_round_trip_ns {
        None => writeln!(text),
        Some(trips) => writeln!(text, "  line {}", range_text(*trips)),
    };
    if !host.is_quiet() {
        let _ = writeln!(
            text,
            "noise is above {NOISE_MAX}: only ratios of interleaved rounds are meaningful, absolute \
             times are not"
        );
    }
    text
}

/// Returns the distance of the CPUs in one line, and the rounds that have no row.
///
/// # Examples
///
/// ```
/// use flowloom_measure::{distances::Distances, text};
/// assert_eq!(
///     text::distances(&Distances::from_round_trips(&[60.0, 62.0, 320.0, 310.0, 330.0].map(Some))),
///     "round trip of a line to another CPU: 62 ns in 1 round (near), 330 ns in 2 rounds (far); \
///      rounds without a row: 1 with a change of distance\n",
/// );
/// ```
pub fn distances(found: &Distances) -> String {
    let trips = &found.line_round_trips_ns;
    let measured = Summary::from_samples(trips.iter().flatten().copied());
    let known = match found.kinds.as_slice() {
        [] if trips.is_empty() => {
            "not measured, because threads are not pinned or there is only one CPU".to_owned()
        }
        [] if measured.count == 0 => {
            "could not be measured: CPUs do not answer, or have other work".to_owned()
        }
        [] => format!(
            "{}, but different before and after every round: rows include all rounds",
            range_text([measured.min, measured.max])
        ),
        [kind] => in_rounds(kind),
        [near, far @ ..] => {
            let far: Vec<String> = far.iter().map(|kind| format!(", {} (far)", in_rounds(kind))).collect();
            format!("{} (near){}", in_rounds(near), far.concat())
        }
    };
    let left_out = [
        (found.changed, "with a change of distance"),
        (found.elsewhere, "at other distances"),
        (found.unmeasured, "in which it could not be measured"),
    ];
    let left_out = left_out.iter().filter(|(count, _)| *count > 0 && !found.kinds.is_empty());
    let left_out: Vec<String> = left_out.map(|(count, why)| format!("{count} {why}")).collect();
    let left_out = match left_out.join(", ") {
        none if none.is_empty() => none,
        some => format!("; rounds without a row: {some}"),
    };
    format!("round trip of a line to another CPU: {known}{left_out}\n")
}

fn in_rounds(kind: &DistanceKind) -> String {
    let count = kind.rounds.len();
    let plural = if count == 1 { "" } else { "s" };
    format!("{} in {count} round{plural}", range_text([kind.least_ns, kind.most_ns]))
}

/// A column's header, and the alignment of its cells.
#[derive(Clone, Copy)]
enum Column {
    Left(&'static str),
    Right(&'static str),
}
use Column::{Left, Right};

/// Cells, the first row the head.
struct Table {
    head: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[Column], lines: impl Iterator<Item = Vec<String>>) -> Self {
        let names = head.iter().map(|(Left(name) | Right(name))| (*name).to_owned()).collect();
        Self { head: head.to_vec(), rows: std::iter::once(names).chain(lines).collect() }
    }

    fn text(&self) -> String {
        let width =
            |column: usize| self.rows.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..self.head.len()).map(width).collect();
        let mut text = String::new();
        for line in &self.rows {
            let mut row = String::new();
            for ((cell, column), &width) in line.iter().zip(&self.head).zip(&widths) {
                let gap = if row.is_empty() { "" } else { "  " };
                let _ = match column {
                    Left(_) => write!(row, "{gap}{cell:<width$}"),
                    Right(_) => write!(row, "{gap}{cell:>width$}"),
                };
            }
            text.push_str(row.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Returns the tables of a report that have rows, each with its title. The first row is the head.
pub fn tables(report: &Report) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let tables = [
        ("Ratios: above 1 the first variant is faster", table_of_ratios(&report.ratios)),
        ("Times", table_of_results(&report.results)),
        (
            "Latency from the due time of a packet until its completion",
            table_of_latencies(&report.latencies),
        ),
        ("Memory reserved for a table with its flows", table_of_memory(&report.memory)),
    ];
    tables
        .into_iter()
        .map(|(title, table)| (title, table.rows))
        .filter(|(_, rows)| rows.len() > 1)
        .collect()
}

/// Escapes text for use in markup.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rounds::Samples;

    #[test]
    fn columns_are_aligned_and_missing_times_are_dashes() {
        let (rival, ours) = ([30; 9], [20; 9]);
        let rows = [
            RatioRow::of_times("insert", 1_000_000, "hashbrown", &rival, &ours)
                .with_items(2, &rival, &ours),
            RatioRow::of_times("hit", 64, "std", &ours, &ours),
        ];
        let expected = "\
work       size  rival      ratio  interval     rounds  ours ns  theirs ns  verdict
insert  1000000  hashbrown   1.50  1.50 … 1.50       9     10.0       15.0  faster
hit          64  std         1.00  1.00 … 1.00       9        -          -  no difference shown
";
        assert_eq!(ratios(&rows), expected);
    }

    #[test]
    fn results_show_median_and_spread() {
        let samples = Samples { name: "ours".to_owned(), cpu_ns: vec![100, 110, 120], wall_ns: vec![0; 3] };
        let text = results(&[ResultRow::new("hit", 64, 10, &samples)]);
        assert!(text.ends_with("ours     hit     64  ns/op    11.0  10.1  11.9  10.0  3\n"), "{text}");
    }

    #[test]
    fn distances_name_the_rounds_without_a_row() {
        let said = |trips: &[Option<f64>]| {
            let text = distances(&Distances::from_round_trips(trips));
            text.strip_prefix("round trip of a line to another CPU: ").unwrap().trim_end().to_owned()
        };
        let (near, far) = (Some(60.0), Some(320.0));
        assert_eq!(said(&[near; 10]), "60 ns in 9 rounds");
        assert_eq!(said(&[near, Some(80.0)]), "60 to 80 ns in 1 round");
        assert_eq!(
            said(&[near, near, None, near, far, far, far, Some(20.0), Some(20.0), near, near]),
            "60 ns in 2 rounds (near), 320 ns in 2 rounds (far); rounds without a row: 3 with a change of distance, 1 at other distances, \
             2 in which it could not be measured"
        );
        assert_eq!(
            said(&[near, far, near]),
            "60 to 320 ns, but different before and after every round: rows include all rounds"
        );
        assert!(said(&[]).starts_with("not measured, because threads are not pinned"));
        assert!(said(&[None; 3]).starts_with("could not be measured"));
    }

    #[test]
    fn noisy_host_is_reported() {
        let mut machine = Host {
            cpu: "Foo".to_owned(),
            isa: "scalar".to_owned(),
            cores: vec![2, 3],
            load1: 1.0,
            kernel: "6".to_owned(),
            rustc: None,
            noise_p95_over_p5: 3.0,
            line_round_trip_ns: None,
        };
        assert!(host(&machine).contains("cores 2,3 pinned") && host(&machine).contains("only ratios"));
        (machine.noise_p95_over_p5, machine.cores) = (1.01, Vec::new());
        assert_eq!(host(&machine), "Foo  scalar  not pinned  kernel 6  load 1.00  noise 1.01\n");
        machine.line_round_trip_ns = Some([50.0, 60.0]);
        assert!(host(&machine).ends_with("noise 1.01  line 60 ns\n"));
        machine.line_round_trip_ns = Some([50.0, 320.0]);
        assert!(host(&machine).ends_with("noise 1.01  line 50 to 320 ns\n"));
    }
}

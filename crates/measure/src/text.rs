//! Rows as text, in columns.

use std::fmt::Write;

use crate::between::shown;
use crate::host::{Host, NOISE_MAX};
use crate::rows::{LatencyRow, PerItem, RatioRow, ResultRow};

/// Returns the comparisons as a table: a line each, numbers aligned, the verdict in words.
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
    table(&head, lines)
}

/// Returns latencies as a table, in microseconds.
pub fn latencies(rows: &[LatencyRow]) -> String {
    let head = [
        Left("layout"),
        Left("work"),
        Right("packets/s"),
        Right("of its most"),
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
    table(&head, lines)
}

/// Returns the times of single variants as a table: median, its spread, and the quickest round.
pub fn results(rows: &[ResultRow]) -> String {
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
    table(&head, lines)
}

/// Returns the machine in one line, with a second one where it was too noisy for absolute figures.
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
    // To a `String`, which takes everything.
    let _ = match line_round_trip_ns {
        None => writeln!(text),
        Some(trips) => writeln!(text, "  line {}", shown(*trips)),
    };
    if !host.is_quiet() {
        let _ = writeln!(
            text,
            "noise is above {NOISE_MAX}: only ratios of interleaved rounds mean anything here, absolute times do not"
        );
    }
    text
}

/// A column's head, and the side its cells lean to.
#[derive(Clone, Copy)]
enum Column {
    Left(&'static str),
    Right(&'static str),
}
use Column::{Left, Right};

fn table(head: &[Column], lines: impl Iterator<Item = Vec<String>>) -> String {
    let names = head.iter().map(|(Left(name) | Right(name))| (*name).to_owned()).collect();
    let lines: Vec<Vec<String>> = std::iter::once(names).chain(lines).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let mut row = String::new();
        for ((cell, column), &width) in line.iter().zip(head).zip(&widths) {
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
    fn a_noisy_host_is_called_one() {
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

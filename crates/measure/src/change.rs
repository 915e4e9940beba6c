//! The change between two runs whose rounds are not paired.

use serde::Serialize;

use crate::distances::{is_apart, without_kind};
use crate::rows::{Report, ResultRow};
use crate::stats::{CONFIDENCE, ChangeVerdict, Ratio};

/// How the time of a row changed: above 1 the new run takes longer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Change {
    /// The variant.
    pub variant: String,
    /// The work of the row.
    pub work: String,
    /// Size of the work.
    pub size: u64,
    /// Unit of both medians.
    pub unit: String,
    /// Median of the base.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub base: f64,
    /// Median of the new run.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub new: f64,
    /// The new median divided by that of the base: above 1, the new run takes longer; infinite if
    /// the base took no time.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub change: f64,
    /// Lower end of its interval.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub low: f64,
    /// Upper end of its interval.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
    /// Whether both runs had enough rounds for an interval.
    pub is_sure: bool,
}

impl Change {
    /// Compares two rows of the same work.
    ///
    /// The interval extends from the lowest to the highest ratio that the medians' intervals allow.
    /// Each of these contains its median with a probability of at least 95 %, so both do with at
    /// least 90 %. It is wider than an interval of paired rounds, which two separate runs do not
    /// have.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::{ChangeVerdict, change::Change, rows::ResultRow};
    /// let row = |ns: u64| {
    ///     let times = [ns, ns + 1, ns + 2, ns, ns + 1, ns + 3, ns + 2];
    ///     ResultRow::of_times("hit", 1, 1, "ours", &times)
    /// };
    /// let change = Change::between(&row(100), &row(120));
    /// assert_eq!(change.verdict(), ChangeVerdict::Slower);
    /// assert!(change.low > 1.16 && change.high < 1.24);
    /// ```
    pub fn between(base: &ResultRow, new: &ResultRow) -> Self {
        let interval = |row: &ResultRow| Ratio::of_ratios(row.samples.iter().copied());
        let (before, after) = (interval(base), interval(new));
        let by = |new: f64, base: f64| if base > 0.0 { new / base } else { f64::INFINITY };
        Self {
            variant: new.variant.clone(),
            work: new.work.clone(),
            size: new.size,
            unit: new.unit.clone(),
            base: before.median,
            new: after.median,
            change: by(after.median, before.median),
            low: by(after.low, before.high),
            high: by(after.high, before.low),
            is_sure: before.confidence.min(after.confidence) >= CONFIDENCE,
        }
    }

    /// Returns what the interval shows about the new run, as [`Ratio::verdict`] does for paired
    /// rounds.
    pub fn verdict(&self) -> ChangeVerdict {
        if self.low <= 1.0 && self.high >= 1.0 {
            ChangeVerdict::NoDifferenceShown
        } else if !self.is_sure {
            ChangeVerdict::TooFewRounds
        } else if self.low > 1.0 {
            ChangeVerdict::Slower
        } else {
            ChangeVerdict::Faster
        }
    }

    /// Returns whether the row is shown to be slower and its median is slower by more than
    /// `factor`.
    pub fn is_slower_than(&self, factor: f64) -> bool {
        self.verdict() == ChangeVerdict::Slower && self.change > factor
    }
}

/// The rows of two reports, matched.
#[derive(Clone, Debug, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Changes {
    /// Rows in both reports, in the order of the new report.
    pub rows: Vec<Change>,
    /// Names of rows that are only in the base.
    pub only_base: Vec<String>,
    /// Names of rows that are only in the new report.
    pub only_new: Vec<String>,
}

impl Changes {
    /// Matches rows by variant, work, size and unit. If both reports contain the distance of their
    /// CPUs, the distances must be similar; the suffix that describes the distance is ignored.
    pub fn between(base: &Report, new: &Report) -> Self {
        let same = |a: &ResultRow, b: &ResultRow| {
            (&a.variant, a.size, &a.unit) == (&b.variant, b.size, &b.unit)
                && match a.line_round_trip_ns.zip(b.line_round_trip_ns) {
                    None => a.work == b.work,
                    Some((one, other)) => {
                        without_kind(&a.work) == without_kind(&b.work) && !is_apart(one, other)
                    }
                }
        };
        let name = |row: &ResultRow| {
            let line = row.line_round_trip_ns.map(|ns| format!(", line {ns:.0} ns")).unwrap_or_default();
            format!("{}, {}, {}{line}", row.variant, row.work, row.size)
        };
        let mut changes = Self::default();
        for row in &new.results {
            match base.results.iter().find(|other| same(other, row)) {
                Some(other) => changes.rows.push(Change::between(other, row)),
                None => changes.only_new.push(name(row)),
            }
        }
        let gone = base.results.iter().filter(|row| !new.results.iter().any(|other| same(other, row)));
        changes.only_base = gone.map(name).collect();
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Host, rows::Tool};

    fn row(variant: &str, times: &[u64]) -> ResultRow {
        ResultRow::of_times("hit", 1000, 1, variant, times)
    }

    fn report(rows: Vec<ResultRow>) -> Report {
        let tool = Tool { version: String::new(), git: String::new() };
        let host = Host {
            cpu: String::new(),
            isa: String::new(),
            cores: Vec::new(),
            load1: 0.0,
            kernel: String::new(),
            rustc: None,
            noise_p95_over_p5: 1.0,
            line_round_trip_ns: None,
        };
        Report { results: rows, ..Report::new(tool, host) }
    }

    #[test]
    fn overlapping_intervals_show_no_difference() {
        let noisy = [90, 100, 110, 120, 130, 95, 105, 115];
        let slower: Vec<u64> = noisy.iter().map(|ns| ns + 10).collect();
        let change = Change::between(&row("a", &noisy), &row("a", &slower));
        assert_eq!(change.verdict(), ChangeVerdict::NoDifferenceShown);
        assert!(!change.is_slower_than(1.0) && change.change > 1.0);
    }

    #[test]
    fn few_rounds_without_overlap_give_no_verdict() {
        let change = Change::between(&row("a", &[100; 5]), &row("a", &[200; 5]));
        assert_eq!((change.verdict(), change.is_sure), (ChangeVerdict::TooFewRounds, false));
        assert!(!change.is_slower_than(1.0));
        let change = Change::between(&row("a", &[100, 300]), &row("a", &[200, 400]));
        assert_eq!((change.verdict(), change.is_sure), (ChangeVerdict::NoDifferenceShown, false));
    }

    #[test]
    fn slower_differs_from_slower_than_allowed() {
        let change = Change::between(&row("a", &[100; 8]), &row("a", &[104; 8]));
        assert!(change.is_slower_than(1.0) && !change.is_slower_than(1.05));
        let change = Change::between(&row("a", &[104; 8]), &row("a", &[100; 8]));
        assert_eq!(change.verdict(), ChangeVerdict::Faster);
        assert!(!change.is_slower_than(0.5), "what is faster is never slower");
    }

    #[test]
    fn rows_without_a_partner_are_named() {
        let base = report(vec![row("a", &[1; 6]), row("b", &[1; 6])]);
        let new = report(vec![row("c", &[1; 6]), row("a", &[1; 6])]);
        let changes = Changes::between(&base, &new);
        assert_eq!(changes.rows.len(), 1);
        assert_eq!(
            (&changes.only_base[..], &changes.only_new[..]),
            (&["b, hit, 1000".into()][..], &["c, hit, 1000".into()][..])
        );
    }

    #[test]
    fn near_rows_are_not_compared_with_far_rows() {
        let row = |work: &str, line| {
            let mut row = row("a", &[1; 6]).with_line(line);
            row.work = work.into();
            row
        };
        let matched = |base, new| Changes::between(&report(vec![base]), &report(vec![new])).rows.len();
        assert_eq!(matched(row("hit", Some(60.0)), row("hit", Some(66.0))), 1);
        assert_eq!(
            matched(row("hit", None), row("hit", Some(66.0))),
            1,
            "from before the line was measured"
        );
        assert_eq!(matched(row("hit", None), row("hit, near", Some(66.0))), 0);
        assert_eq!(matched(row("hit", Some(60.0)), row("hit", Some(320.0))), 0);
        let base = report(vec![row("hit, near", Some(60.0)), row("hit, far", Some(320.0))]);
        let changes = Changes::between(&base, &report(vec![row("hit", Some(300.0))]));
        assert_eq!((changes.rows.len(), changes.only_new.len()), (1, 0));
        assert_eq!(changes.only_base, ["a, hit, near, 1000, line 60 ns"]);
    }

    #[test]
    fn zero_base_time_causes_no_division_by_zero() {
        let change = Change::between(&row("a", &[0; 6]), &row("a", &[1; 6]));
        assert!(change.change.is_infinite() && !change.change.is_nan());
    }
}

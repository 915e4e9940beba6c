//! Order statistics of samples, and intervals of ratios.

use std::fmt;

/// The minimum confidence for reporting a difference.
pub const CONFIDENCE: f64 = 0.95;

/// Order statistics of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of samples.
    pub count: usize,
    /// The minimum.
    pub min: f64,
    /// The 5th percentile.
    pub p5: f64,
    /// The median.
    pub median: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The maximum.
    pub max: f64,
}

impl Summary {
    /// Returns the summary of `samples`; all zero if there are none.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::Summary;
    /// let summary = Summary::from_samples([4.0, 1.0, 3.0, 2.0]);
    /// assert_eq!((summary.min, summary.median, summary.max), (1.0, 2.5, 4.0));
    /// ```
    pub fn from_samples(samples: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(samples);
        Self {
            count: sorted.len(),
            min: quantile(&sorted, 0.0),
            p5: quantile(&sorted, 0.05),
            median: quantile(&sorted, 0.5),
            p95: quantile(&sorted, 0.95),
            max: quantile(&sorted, 1.0),
        }
    }
}

/// The probability that a second run repeats a ratio within the interval of
/// [`Ratio::of_repeats`].
pub const REPEATS: f64 = 0.97;

/// The rival's time divided by Flowloom's: above 1, Flowloom is faster.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub median: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Number of rounds that gave a ratio.
    pub rounds: usize,
    /// The probability that such an interval contains the true median: at least [`CONFIDENCE`] for
    /// six or more rounds.
    pub confidence: f64,
}

impl Ratio {
    /// Returns the ratio of paired times, one pair per round.
    ///
    /// The ends of the interval are two of the ratios. They are as far from the ends as possible
    /// while the probability of missing the true median is at most one in twenty, for any noise
    /// (the inverted sign test). A bootstrap would give a slightly narrower interval, which is too
    /// narrow with few rounds. With fewer than six rounds, it is the whole range, and `confidence`
    /// is correspondingly low. Rounds in which Flowloom's time is zero are omitted.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::{Ratio, ChangeVerdict};
    /// let ratio = Ratio::of_rounds(&[20, 22, 21, 20, 19, 24, 20], &[10, 11, 10, 10, 10, 11, 10]);
    /// assert_eq!(ratio.median, 2.0);
    /// assert_eq!(ratio.verdict(), ChangeVerdict::Faster);
    /// assert_eq!(ratio.to_string(), "2.00 [1.90 … 2.18] × faster");
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round are far below 2^53")]
    pub fn of_rounds(rival_ns: &[u64], ours_ns: &[u64]) -> Self {
        let pairs = rival_ns.iter().zip(ours_ns).filter(|(_, ours)| **ours > 0);
        Self::of_ratios(pairs.map(|(&rival, &ours)| rival as f64 / ours as f64))
    }

    /// Returns the median of ratios with its interval; all zero if there are none. Values that are
    /// not numbers are omitted.
    pub fn of_ratios(ratios: impl IntoIterator<Item = f64>) -> Self {
        let sorted = sorted(ratios.into_iter().filter(|ratio| !ratio.is_nan()));
        let (from_end, confidence) = ends(sorted.len());
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        Self {
            median: quantile(&sorted, 0.5),
            low: at(from_end),
            high: at(sorted.len().saturating_sub(from_end + 1)),
            rounds: sorted.len(),
            confidence,
        }
    }

    /// Returns the ratio of paired times as [`of_rounds`](Self::of_rounds) does, with a wider
    /// interval: that in which the median of a second run of as many rounds lies, with a
    /// probability of [`REPEATS`] from nine rounds on, for any noise that is the same in both runs.
    /// With fewer rounds, it is the whole range.
    ///
    /// # Examples
    ///
    /// ```
    /// use flowloom_measure::Ratio;
    /// let (rival, ours) = ([20, 22, 21, 20, 19, 24, 20, 21, 20], [10; 9]);
    /// let (once, again) = (Ratio::of_rounds(&rival, &ours), Ratio::of_repeats(&rival, &ours));
    /// assert_eq!((once.low, once.high), (2.0, 2.2));
    /// assert_eq!((again.low, again.high, again.median), (1.9, 2.4, once.median));
    /// ```
    #[expect(clippy::cast_precision_loss, reason = "nanoseconds of a round are far below 2^53")]
    pub fn of_repeats(rival_ns: &[u64], ours_ns: &[u64]) -> Self {
        let pairs = rival_ns.iter().zip(ours_ns).filter(|(_, ours)| **ours > 0);
        let sorted = sorted(pairs.map(|(&rival, &ours)| rival as f64 / ours as f64));
        let from_end = repeat_ends(sorted.len());
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        let (low, high) = (at(from_end), at(sorted.len().saturating_sub(from_end + 1)));
        Self { low, high, ..Self::of_rounds(rival_ns, ours_ns) }
    }

    /// Returns the confidence of an interval from this many rounds.
    pub fn confidence_of(rounds: usize) -> f64 {
        ends(rounds).1
    }

    /// Returns what the interval shows.
    pub fn verdict(&self) -> ChangeVerdict {
        if self.low <= 1.0 && self.high >= 1.0 {
            ChangeVerdict::NoDifferenceShown
        } else if self.confidence < CONFIDENCE {
            ChangeVerdict::TooFewRounds
        } else if self.low > 1.0 {
            ChangeVerdict::Faster
        } else {
            ChangeVerdict::Slower
        }
    }
}

impl fmt::Display for Ratio {
    /// Writes `2.18 [2.06 … 2.31] × faster`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, low, high, .. } = self;
        match self.verdict() {
            verdict @ (ChangeVerdict::NoDifferenceShown | ChangeVerdict::TooFewRounds) => {
                write!(f, "{median:.2} [{low:.2} … {high:.2}] {verdict}")
            }
            verdict => write!(f, "{median:.2} [{low:.2} … {high:.2}] × {verdict}"),
        }
    }
}

/// The result of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeVerdict {
    /// The whole interval lies above 1: the rival takes longer.
    Faster,
    /// The whole interval lies below 1: Flowloom takes longer.
    Slower,
    /// The interval contains 1.
    NoDifferenceShown,
    /// All rounds lie on one side of 1, but there are fewer than six, which chance could explain.
    TooFewRounds,
}

impl fmt::Display for ChangeVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifferenceShown => "no difference shown",
            Self::TooFewRounds => "too few rounds to tell",
        })
    }
}

fn sorted(samples: impl IntoIterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = samples.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the quantile of sorted samples, interpolated between two of them.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index in a slice is not negative, and far below 2^53"
)]
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = share * last as f64;
    let below = place as usize;
    let above = (below + 1).min(last);
    // There is nothing to interpolate between equal samples, even if they are infinite.
    if place <= below as f64 || sorted[above] <= sorted[below] {
        return sorted[below];
    }
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// Returns the distance of an interval for the median from either end of `count` sorted samples,
/// and its confidence.
///
/// Each sample lies below the true median with probability ½, so the number of such samples is
/// binomially distributed. An interval without `k` samples at each end misses the median with
/// probability 2 · P(number ≤ k).
fn ends(count: usize) -> (usize, f64) {
    if count == 0 {
        return (0, 0.0);
    }
    // In logarithms, because 2^-count underflows from 1,075 samples on.
    let mut term = -f64::from(u32::try_from(count).unwrap_or(u32::MAX)) * std::f64::consts::LN_2;
    let mut missed = 2.0 * term.exp();
    let mut best = (0, (1.0 - missed).max(0.0));
    for k in 1..count.div_ceil(2) {
        let (rest, place) = ((count - k + 1) as u64, k as u64);
        #[expect(clippy::cast_precision_loss, reason = "numbers of rounds")]
        {
            term += (rest as f64 / place as f64).ln();
        }
        missed += 2.0 * term.exp();
        if 1.0 - missed < CONFIDENCE {
            break;
        }
        best = (k, 1.0 - missed);
    }
    best
}

/// Returns the distance, from either end of `count` sorted samples, of an interval for the median
/// of as many further samples.
///
/// All orders of the samples of both runs are equally likely, so the number of samples of the first
/// run below the median of the second has a negative hypergeometric distribution.
#[expect(clippy::cast_precision_loss, reason = "numbers of rounds")]
fn repeat_ends(count: usize) -> usize {
    let (all, middle) = (count as f64, count.div_ceil(2));
    let mut term: f64 = (0..middle).map(|i| (all - i as f64) / (2.0 * all - i as f64)).product();
    let mut missed = 0.0;
    for below in 0..middle {
        missed += 2.0 * term;
        if 1.0 - missed < REPEATS {
            return below.saturating_sub(1);
        }
        let (j, m) = (below as f64, middle as f64);
        term *= (j + m) / (j + 1.0) * (all - j) / (2.0 * all - j - m);
    }
    0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A simple random number generator, so that the tests need no other.
    fn noise(seed: u64) -> impl FnMut() -> f64 {
        let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small positive numbers")]
    fn second_medians_lie_in_the_interval_for_them() {
        // Counted over all orders of two runs: 9 rounds 97.1 %, 15 rounds 98.6 % and 25 rounds
        // 98.4 % at these places; one place further in, below 97 %.
        for (count, place) in [(1, 0), (6, 0), (9, 0), (15, 1), (25, 4)] {
            assert_eq!(repeat_ends(count), place, "{count} rounds");
        }
        for rounds in [9, 12, 15, 40_usize] {
            let mut noise = noise(rounds as u64);
            let ours = vec![1000; rounds];
            let mut run =
                || (0..rounds).map(|_| (1000.0 + 500.0 * noise().powi(4)) as u64).collect::<Vec<_>>();
            let repeats = |_: &u32| {
                let first = Ratio::of_repeats(&run(), &ours);
                let second = Ratio::of_rounds(&run(), &ours);
                first.low <= second.median && second.median <= first.high
            };
            let repeated = (0..2000_u32).filter(repeats).count();
            assert!(repeated >= 1920, "{rounds} rounds: {repeated} of 2000");
        }
    }

    #[test]
    fn intervals_match_the_tables_of_the_sign_test() {
        // Order statistics for the median at 95 %, as in printed tables: n, distance from either
        // end.
        for (count, place) in
            [(6, 1), (8, 1), (9, 2), (10, 2), (15, 4), (20, 6), (25, 8), (30, 10), (50, 18)]
        {
            let (from_end, confidence) = ends(count);
            assert_eq!(from_end + 1, place, "{count} rounds");
            assert!(confidence >= CONFIDENCE, "{count} rounds: {confidence}");
        }
        assert!(ends(5).1 < CONFIDENCE);
        let (from_end, confidence) = ends(10_000);
        assert!((4800..4910).contains(&from_end) && confidence >= CONFIDENCE, "{from_end} {confidence}");
    }

    #[test]
    fn equal_variants_show_no_difference_in_nineteen_of_twenty_runs() {
        let mut false_alarms = 0;
        for run in 0..1000 {
            let mut next = noise(run + 1);
            // Heavy-tailed, like real times: a tenth of the rounds is disturbed.
            let mut time = || 1.0 + next() * 0.1 + if next() < 0.1 { next() * 5.0 } else { 0.0 };
            let ratio = Ratio::of_ratios((0..25).map(|_| time() / time()).collect::<Vec<_>>());
            false_alarms += u32::from(ratio.verdict() != ChangeVerdict::NoDifferenceShown);
        }
        assert!(false_alarms <= 65, "{false_alarms} of 1000");
    }

    #[test]
    fn a_known_ratio_is_recovered_through_noise() {
        let mut next = noise(7);
        let mut time = |true_ns: f64| true_ns * (1.0 + next() * 0.2);
        let ratio = Ratio::of_ratios((0..41).map(|_| time(150.0) / time(100.0)).collect::<Vec<_>>());
        assert_eq!(ratio.verdict(), ChangeVerdict::Faster);
        assert!(ratio.low <= 1.5 && 1.5 <= ratio.high, "{ratio:?}");
        assert!((ratio.median - 1.5).abs() < 0.08, "{ratio:?}");
    }

    #[test]
    fn too_few_rounds_show_nothing() {
        let ratio = Ratio::of_rounds(&[30, 30, 30, 30, 30], &[10, 10, 10, 10, 10]);
        assert_eq!(ratio.verdict(), ChangeVerdict::TooFewRounds);
        assert_eq!(ratio.to_string(), "3.00 [3.00 … 3.00] too few rounds to tell");
        let ratio = Ratio::of_rounds(&[30, 30, 10], &[10, 10, 30]);
        assert_eq!(ratio.verdict(), ChangeVerdict::NoDifferenceShown);
    }

    #[test]
    fn empty_samples_have_a_summary() {
        assert_eq!(Summary::from_samples([]).count, 0);
        assert_eq!(Ratio::of_rounds(&[1], &[0]).rounds, 0);
    }

    #[test]
    fn ratio_that_is_not_a_number_shows_no_difference() {
        let ratio = Ratio::of_ratios([0.5, f64::NAN, 0.6, 2.0, 2.0, 0.5, 0.5, 0.4, f64::NAN]);
        assert_eq!((ratio.rounds, ratio.verdict()), (7, ChangeVerdict::NoDifferenceShown), "{ratio}");
        assert_eq!(Ratio::of_ratios([f64::NAN; 9]).verdict(), ChangeVerdict::TooFewRounds);
    }

    #[test]
    fn infinite_samples_are_ordered() {
        let summary = Summary::from_samples([f64::INFINITY, 1.0, f64::INFINITY, f64::INFINITY]);
        assert_eq!((summary.min, summary.median, summary.max), (1.0, f64::INFINITY, f64::INFINITY));
    }

    proptest! {
        #[test]
        fn swapping_the_sides_inverts_the_ratio(times in prop::collection::vec((1_u64..1000, 1_u64..1000), 1..60)) {
            let (ours, rival): (Vec<u64>, Vec<u64>) = times.into_iter().unzip();
            let (there, back) = (Ratio::of_rounds(&rival, &ours), Ratio::of_rounds(&ours, &rival));
            prop_assert!((there.low * back.high - 1.0).abs() < 1e-9);
            prop_assert!((there.high * back.low - 1.0).abs() < 1e-9);
            prop_assert!(there.low <= there.median && there.median <= there.high);
            let inverse = match there.verdict() {
                ChangeVerdict::Faster => ChangeVerdict::Slower,
                ChangeVerdict::Slower => ChangeVerdict::Faster,
                neither => neither,
            };
            prop_assert_eq!(back.verdict(), inverse);
        }

        #[test]
        fn summary_values_ascend(samples in prop::collection::vec(-1e6..1e6_f64, 1..100)) {
            let Summary { count, min, p5, median, p95, max } = Summary::from_samples(samples.iter().copied());
            prop_assert_eq!(count, samples.len());
            prop_assert!(min <= p5 && p5 <= median && median <= p95 && p95 <= max);
        }
    }
}

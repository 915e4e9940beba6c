//! A number of an item beside the paper's, and the band in which it must lie.

use serde::Serialize;

/// The range in which a value of Flowloom must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Band {
    /// Minimum value; infinite, which is null in JSON, for no limit.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub low: f64,
    /// Maximum value; infinite, which is null in JSON, for no limit.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
}

impl Band {
    /// Returns the band from `value` minus to plus the fraction `share` of it.
    pub fn around(value: f64, share: f64) -> Self {
        let off = value.abs() * share;
        Self { low: value - off, high: value + off }
    }

    /// Returns the band of values that are at least `low`.
    pub fn at_least(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    /// Returns the band of values that are at most `high`.
    pub fn at_most(high: f64) -> Self {
        Self { low: f64::NEG_INFINITY, high }
    }

    /// Returns whether a value is inside the band, including its ends.
    pub fn holds(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The kind of limit that the paper states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// "Fewer than", "less than".
    Below,
    /// "At most", "within".
    AtMost,
    /// "More than".
    Above,
}

impl Bound {
    /// Returns the sign that tables use.
    pub fn sign(self) -> char {
        match self {
            Self::Below => '<',
            Self::AtMost => '≤',
            Self::Above => '>',
        }
    }

    /// Returns the word that files use.
    pub fn word(self) -> &'static str {
        match self {
            Self::Below => "below",
            Self::AtMost => "at-most",
            Self::Above => "above",
        }
    }
}

/// The interval of a value over several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interval {
    /// Lower end.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub low: f64,
    /// Upper end.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub high: f64,
    /// Number of seeds.
    pub draws: u32,
    /// Number of seeds with which the value lies outside its band. The median decides whether it
    /// [holds](Value::holds).
    pub outside: u32,
    /// The probability that such an interval contains the true median.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub confidence: f64,
}

/// One number of an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Value {
    /// The quantity.
    pub name: String,
    /// Its unit; empty for a count or ratio.
    pub unit: &'static str,
    /// The paper's value, if stated.
    pub paper: Option<f64>,
    /// The kind of limit, if the paper's value is one; `None` for an exact value or none.
    pub paper_bound: Option<Bound>,
    /// Flowloom's value; the median over several seeds.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub ours: f64,
    /// The interval over several seeds; `None` for a single seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// The range in which Flowloom's value must lie; `None` if every value is a valid result.
    pub band: Option<Band>,
    /// The reason why a value beside a number of the paper has no band.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unbanded: Option<&'static str>,
    /// The reason why the band leaves out the paper's value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<&'static str>,
    /// Whether it follows from times of this machine, in an item that also has values that do not.
    #[serde(skip)]
    pub is_timed: bool,
}

impl Value {
    /// Names of the [`cells`](Self::cells).
    pub const COLUMNS: [&str; 13] = [
        "value", "unit", "paper", "ours", "band_low", "band_high", "inside", "paper_bound", "as_stated",
        "low", "high", "draws", "unbanded",
    ];

    /// Relative difference from the paper's value up to which Flowloom's value counts as agreeing
    /// with it.
    pub const TOLERANCE: f64 = 0.1;

    /// Returns the value as cells of a table; missing parts are empty.
    pub fn cells(&self) -> [String; 13] {
        let optional = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
        [
            self.name.clone(),
            self.unit.to_owned(),
            optional(self.paper),
            self.ours.to_string(),
            optional(self.band.map(|band| band.low)),
            optional(self.band.map(|band| band.high)),
            self.holds().to_string(),
            self.paper_bound.map_or("", Bound::word).to_owned(),
            self.is_as_stated().map_or_else(String::new, |is| is.to_string()),
            optional(self.interval.map(|interval| interval.low)),
            optional(self.interval.map(|interval| interval.high)),
            self.interval.map_or_else(String::new, |interval| interval.draws.to_string()),
            self.unbanded.unwrap_or_default().to_owned(),
        ]
    }

    /// Returns whether Flowloom's value, including its whole interval, agrees with the paper: it
    /// satisfies a limit, or is within a [tenth](Self::TOLERANCE) of a number; of a ratio, whose
    /// unit is `×`, within a tenth of its effect, which is the distance from 1. Returns `None` if
    /// the paper states no value.
    pub fn is_as_stated(&self) -> Option<bool> {
        let paper = self.paper?;
        let (low, high) = self.interval.map_or((self.ours, self.ours), |at| (at.low, at.high));
        // A ratio of 1 states that there is no effect, and has no size of its own.
        let is_effect = self.unit == "×" && (paper - 1.0).abs() > f64::EPSILON;
        let size = if is_effect { paper.min((paper - 1.0).abs()) } else { paper.abs() };
        let off = size * Self::TOLERANCE;
        Some(match self.paper_bound {
            Some(Bound::Below) => high < paper,
            Some(Bound::AtMost) => high <= paper,
            Some(Bound::Above) => low > paper,
            None => low >= paper - off && high <= paper + off,
        })
    }

    /// Returns a value without a band.
    pub fn new(name: impl Into<String>, unit: &'static str, ours: f64) -> Self {
        Self {
            name: name.into(),
            unit,
            paper: None,
            paper_bound: None,
            ours,
            interval: None,
            band: None,
            unbanded: None,
            apart: None,
            is_timed: false,
        }
    }

    /// Sets the paper's value.
    #[must_use]
    pub fn paper(mut self, paper: f64) -> Self {
        self.paper = Some(paper);
        self
    }

    /// Sets the paper's value as an exclusive upper limit.
    #[must_use]
    pub fn paper_below(self, paper: f64) -> Self {
        self.paper(paper).bound(Bound::Below)
    }

    /// Sets the paper's value as an inclusive upper limit.
    #[must_use]
    pub fn paper_at_most(self, paper: f64) -> Self {
        self.paper(paper).bound(Bound::AtMost)
    }

    /// Sets the paper's value as an exclusive lower limit.
    #[must_use]
    pub fn paper_above(self, paper: f64) -> Self {
        self.paper(paper).bound(Bound::Above)
    }

    fn bound(mut self, bound: Bound) -> Self {
        self.paper_bound = Some(bound);
        self
    }

    /// Sets the range in which Flowloom's value must lie.
    #[must_use]
    pub fn band(mut self, low: f64, high: f64) -> Self {
        self.band = Some(Band { low, high });
        self
    }

    /// Sets the range in which Flowloom's value must lie.
    #[must_use]
    pub fn within(mut self, band: Band) -> Self {
        self.band = Some(band);
        self
    }

    /// The reason of values whose band does not [apply](Self::checked_if).
    pub const ELSEWHERE: &str = "the band holds at another scale or for another input";

    /// Removes the band unless it applies: a timed value of a smoke run has none.
    #[must_use]
    pub fn checked_if(mut self, applies: bool) -> Self {
        if !applies && self.band.take().is_some() {
            self.unbanded = Some(Self::ELSEWHERE);
        }
        self
    }

    /// States that the value follows from times of this machine: two runs of one seed differ in it.
    #[must_use]
    pub fn timed(mut self) -> Self {
        self.is_timed = true;
        self
    }

    /// States why the value has no band although the paper states a number: it cannot be compared
    /// with it, for example because it depends on the paper's hardware.
    #[must_use]
    pub fn not_comparable(mut self, why: &'static str) -> Self {
        self.unbanded = Some(why);
        self
    }

    /// States why the band, if it does, leaves out the paper's value: no reproduction of it can be
    /// right, or it is one of something else. Both are set before.
    #[must_use]
    pub fn apart(mut self, why: &'static str) -> Self {
        self.apart = self.leaves_out_the_paper().then_some(why);
        self
    }

    /// Returns whether no value in the band would be as the paper states it, or its own value lies
    /// outside and the band goes beyond the [tolerance](Self::TOLERANCE).
    pub fn leaves_out_the_paper(&self) -> bool {
        let (Some(paper), Some(Band { low, high })) = (self.paper, self.band) else { return false };
        let at = |end: f64| Self { ours: end, interval: None, ..self.clone() }.is_as_stated() == Some(true);
        match self.paper_bound {
            Some(_) => !at(low) && !at(high),
            None => !(Band { low, high }.holds(paper) || at(low) && at(high)),
        }
    }

    /// Returns the band as readers see it; "none" if the value has a
    /// reason to have none, and otherwise empty.
    pub fn band_text(&self) -> String {
        match self.band {
            Some(Band { low, high }) if low.is_finite() && high.is_finite() => {
                format!("{} … {}", number(low), number(high))
            }
            Some(Band { low, .. }) if low.is_finite() => format!("≥ {}", number(low)),
            Some(Band { high, .. }) => format!("≤ {}", number(high)),
            None => String::from(if self.unbanded.is_some() { "none" } else { "" }),
        }
    }

    /// Returns whether Flowloom's value lies in its band.
    pub fn holds(&self) -> bool {
        self.band.is_none_or(|band| band.holds(self.ours))
    }
}

/// Formats a number with four significant digits.
pub fn number(value: f64) -> String {
    let magnitude = value.abs();
    if !value.is_finite() {
        return String::from("—");
    }
    if value.fract() == 0.0 && magnitude < 1e15 {
        return format!("{value:.0}");
    }
    match magnitude {
        m if !(1e-4..1e9).contains(&m) => format!("{value:.3e}"),
        m if m >= 1000.0 => format!("{value:.0}"),
        m if m >= 100.0 => format!("{value:.1}"),
        m if m >= 10.0 => format!("{value:.2}"),
        m if m >= 1.0 => format!("{value:.3}"),
        m if m >= 0.01 => format!("{value:.4}"),
        _ => format!("{value:.6}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_four_figures() {
        let shown = [0.0, 11413.0, 3.72e-9, 67.312, 0.5474, 2.794e-8, f64::NAN, 249_036.8].map(number);
        assert_eq!(shown, ["0", "11413", "3.720e-9", "67.31", "0.5474", "2.794e-8", "—", "249037"]);
    }

    #[test]
    fn bands_are_relative_to_their_value() {
        assert!(Band::around(-2.0, 0.1).holds(-2.2));
        assert!(!Band::around(-2.0, 0.1).holds(-2.3));
        assert!(Band::at_most(3.0).holds(-1e300));
    }

    #[test]
    fn band_that_excludes_a_closer_value_is_reported() {
        let leaves_out =
            |low, high| Value::new("x", "", 1.0).paper(1.032).band(low, high).leaves_out_the_paper();
        assert!(leaves_out(0.65, 1.0) && leaves_out(1.04, 2.0), "the paper's own value is outside");
        assert!(!leaves_out(0.65, 1.1) && !leaves_out(1.0, 1.0), "1.0 is 1.032 but for its rounding");
        let more =
            |low, high| Value::new("x", "", 9.0).paper_above(28.0).band(low, high).leaves_out_the_paper();
        assert!(more(0.0, 28.0) && !more(0.0, 30.0));
        assert!(!Value::new("x", "", 9.0).paper(1.0).leaves_out_the_paper());
    }

    #[test]
    fn a_ratio_is_as_stated_if_its_effect_is() {
        let is = |ours: f64, paper: f64| Value::new("x", "×", ours).paper(paper).is_as_stated().unwrap();
        assert!(!is(1.0116, 1.10) && !is(1.213, 1.10) && is(1.105, 1.10));
        assert!(is(9.5, 10.0) && !is(8.9, 10.0));
        assert!(is(0.12, 0.112) && !is(0.2, 0.112), "small ratios are compared as they are");
        assert!(is(0.95, 1.0) && !is(0.85, 1.0), "no effect is stated");
    }

    #[test]
    fn value_outside_its_band_states_the_reason() {
        let timed = Value::new("x", "ns", 9.0).paper(3.0).band(0.0, 1.0);
        assert_eq!((timed.band_text().as_str(), timed.holds()), ("0 … 1", false));
        let unchecked = timed.checked_if(false);
        assert_eq!((unchecked.band_text().as_str(), unchecked.unbanded), ("none", Some(Value::ELSEWHERE)));
        let beside = Value::new("x", "ns", 9.0).paper(3.0).not_comparable("another processor");
        assert_eq!(beside.cells()[12], "another processor");
        assert_eq!(Value::new("x", "", 1.0).checked_if(false).band_text(), "");
    }
}

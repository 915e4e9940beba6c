//! Items of a paper, and the results of running them.
//!
//! An [`Item`] is a table, a figure or a section's claim. It has two separate results. The
//! *verdict* is about the paper: it agrees, it differs (and why), or it cannot be run here (and
//! why). The *checks* concern Flowloom: each [`Value`] may have a band, and a value outside its
//! band is a failure of Flowloom, independent of the paper.

use std::path::{Path, PathBuf};

use flowloom_measure::chart::{Axis, Chart, Series};
use serde::Serialize;
use thiserror::Error;

use crate::rivals::{self, Rivals};
pub use crate::value::{Band, Bound, Interval, Value};
use crate::variation::{Guess, Switch};

/// How the figures of an item are obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fidelity {
    /// Timed or counted on this machine.
    Measured,
    /// In virtual time, or by random sampling.
    Simulated,
    /// From the paper's own constants.
    Arithmetic,
    /// Not available; the verdict gives the reason.
    OutOfReach,
}

impl Fidelity {
    /// Returns the letter used in tables.
    pub fn letter(self) -> char {
        match self {
            Self::Measured => 'M',
            Self::Simulated => 'S',
            Self::Arithmetic => 'A',
            Self::OutOfReach => '–',
        }
    }
}

/// The amount of work of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Just enough to verify that it runs: about a second, even in a debug build. Bands of timed
    /// values are not checked.
    Smoke,
    /// Seconds; the shape of every figure.
    Quick,
    /// The paper's sizes; may take minutes.
    Full,
}

impl Scale {
    /// Returns one of three values.
    pub fn pick<T>(self, smoke: T, quick: T, full: T) -> T {
        match self {
            Self::Smoke => smoke,
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Parameters and services of a run.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The amount of work.
    pub scale: Scale,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Directory of real captures, rules and logs, with the subdirectories `pcaps`, `rules` and
    /// `logs`; `None` if there is none.
    pub data: Option<&'a Path>,
    /// Name of the [`Switch`] that is turned; `None` for the unchanged item.
    pub off: Option<&'a str>,
    /// Values of guesses by name, which replace their defaults.
    pub guesses: &'a [(&'a str, f64)],
    /// Algorithms of other crates that items run beside their own.
    pub rivals: &'a Rivals<'a>,
    /// Called regularly; `false` ends the item with [`ItemError::Interrupted`].
    pub go_on: &'a (dyn Fn() -> bool + Sync),
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("scale", &self.scale)
            .field("seed", &self.seed)
            .field("data", &self.data)
            .field("off", &self.off)
            .field("guesses", &self.guesses)
            .field("rivals", &self.rivals)
            .finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// Returns a context without real data, in which nothing is switched off.
    pub fn new(scale: Scale, seed: u64, go_on: &'a (dyn Fn() -> bool + Sync)) -> Self {
        Self { scale, seed, data: None, off: None, guesses: &[], rivals: rivals::NONE, go_on }
    }

    /// Returns whether a switch is turned.
    pub fn is_off(&self, switch: &Switch) -> bool {
        self.off == Some(switch.name)
    }

    /// Returns the value of a guess.
    pub fn guess(&self, guess: &Guess) -> f64 {
        self.guesses.iter().find(|(name, _)| *name == guess.name).map_or(guess.default, |(_, value)| *value)
    }

    /// Ends the item if it must not continue.
    ///
    /// # Errors
    ///
    /// Returns [`ItemError::Interrupted`].
    pub fn check_stop(&self) -> Result<(), ItemError> {
        if (self.go_on)() { Ok(()) } else { Err(ItemError::Interrupted) }
    }

    /// Returns a file of the data directory, if both exist.
    pub fn data_file(&self, path: &str) -> Option<PathBuf> {
        self.data.map(|data| data.join(path)).filter(|path| path.exists())
    }
}

/// The reason why an item gave no outcome. A result that differs from the paper is not an error.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ItemError {
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
    /// A component of Flowloom returned an error.
    #[error("{what}: {source}")]
    Failed {
        /// The failed action.
        what: String,
        /// The message of its error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl ItemError {
    /// Returns a function that wraps an error with the failed action.
    pub fn during<E: Into<Box<dyn std::error::Error + Send + Sync>>>(
        what: impl Into<String>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Failed { what: what.into(), source: source.into() }
    }
}

/// The result for the paper's claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "verdict", rename_all = "kebab-case")]
pub enum Agreement {
    /// The claim agrees with Flowloom's results.
    Agrees {
        /// The sense in which it agrees: exactly, in shape, by count.
        note: String,
    },
    /// The claim differs from Flowloom's results.
    Differs {
        /// The reason, as far as known.
        why: String,
    },
    /// It cannot be run here.
    CannotRun {
        /// The missing requirement.
        why: String,
    },
    /// It follows from the paper's own constants: no measurement can contradict it.
    Definition {
        /// What follows.
        note: String,
    },
    /// The claim also holds with its mechanism switched off.
    CannotTell {
        /// The mechanism, and what holds without it.
        why: String,
    },
    /// Some seeds agree and others do not.
    DependsOnDraw {
        /// Number of seeds that agree.
        agreeing: u32,
        /// Number of all seeds.
        draws: u32,
        /// The texts of one agreeing and one differing seed.
        why: String,
    },
}

impl Agreement {
    /// Returns the verdict that a claim agrees.
    pub fn agrees(note: impl Into<String>) -> Self {
        Self::Agrees { note: note.into() }
    }

    /// Returns the verdict that a claim differs.
    pub fn differs(why: impl Into<String>) -> Self {
        Self::Differs { why: why.into() }
    }

    /// Returns the verdict that a claim cannot be tested here.
    pub fn cannot_run(why: impl Into<String>) -> Self {
        Self::CannotRun { why: why.into() }
    }

    /// Returns the verdict that a claim follows from the paper's own constants.
    pub fn definition(note: impl Into<String>) -> Self {
        Self::Definition { note: note.into() }
    }

    /// Returns agreement if `holds`, otherwise the difference.
    pub fn from_check(holds: bool, note: impl Into<String>, why: impl Into<String>) -> Self {
        if holds { Self::agrees(note) } else { Self::differs(why) }
    }

    /// Returns the word that tables use.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Agrees { .. } => "agrees",
            Self::Differs { .. } => "differs",
            Self::CannotRun { .. } => "cannot run",
            Self::Definition { .. } => "definition",
            Self::CannotTell { .. } => "cannot tell",
            Self::DependsOnDraw { .. } => "depends",
        }
    }

    /// Returns the explanation of the verdict.
    pub fn text(&self) -> &str {
        match self {
            Self::Agrees { note } | Self::Definition { note } => note,
            Self::Differs { why }
            | Self::CannotRun { why }
            | Self::CannotTell { why }
            | Self::DependsOnDraw { why, .. } => why,
        }
    }

    /// Returns this verdict with another explanation.
    pub(crate) fn with_text(&self, text: String) -> Self {
        let mut verdict = self.clone();
        match &mut verdict {
            Self::Agrees { note } | Self::Definition { note } => *note = text,
            Self::Differs { why }
            | Self::CannotRun { why }
            | Self::CannotTell { why }
            | Self::DependsOnDraw { why, .. } => *why = text,
        }
        verdict
    }
}

/// The result of running an item.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Outcome {
    /// Numbers, the most important first.
    pub values: Vec<Value>,
    /// Pictures with their numbers.
    pub charts: Vec<Chart>,
    /// Notes for readers: sizes, seeds, models, interpretations of the text.
    pub notes: Vec<String>,
    /// The verdict on the paper. That of [`Item::run`] is the item's own, on one seed;
    /// [`examine`](crate::examine()) gives the published one, which also holds values to the bounds
    /// that the paper states, withdraws an agreement that remains without its mechanism, and says
    /// "depends" if seeds disagree.
    #[serde(flatten)]
    pub verdict: Agreement,
}

impl Outcome {
    /// Returns an outcome that contains only a verdict.
    pub fn new(verdict: Agreement) -> Self {
        Self { values: Vec::new(), charts: Vec::new(), notes: Vec::new(), verdict }
    }

    /// Adds a number.
    #[must_use]
    pub fn value(mut self, value: Value) -> Self {
        self.values.push(value);
        self
    }

    /// Adds numbers.
    #[must_use]
    pub fn values(mut self, values: impl IntoIterator<Item = Value>) -> Self {
        self.values.extend(values);
        self
    }

    /// Adds a picture.
    #[must_use]
    pub fn chart(mut self, chart: Chart) -> Self {
        self.charts.push(chart);
        self
    }

    /// Adds the values that `pick` names as bars, beside those of the paper; adds nothing if it
    /// names none.
    #[must_use]
    pub fn chart_of(self, title: &str, y: Axis, pick: impl Fn(&Value) -> bool) -> Self {
        let picked: Vec<&Value> = self.values.iter().filter(|value| pick(value)).collect();
        if picked.is_empty() {
            return self;
        }
        let stated =
            (0_u32..).map(f64::from).zip(&picked).filter_map(|(at, value)| Some((at, value.paper?)));
        let stated = Series::points("paper", stated.collect());
        let mut chart = Chart::bars(title, picked.iter().map(|value| value.name.as_str()), y);
        if !stated.points.is_empty() {
            chart = chart.with(stated);
        }
        let chart = chart.with(Series::bars("here", picked.iter().map(|value| value.ours)));
        self.chart(chart)
    }

    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Turns agreement into a difference if a value lies outside its band, for items whose bands
    /// are the paper's own numbers.
    #[must_use]
    pub fn judged(mut self) -> Self {
        let outside: Vec<String> = self.failed().map(|value| value.name.clone()).collect();
        let is_good = matches!(self.verdict, Agreement::Agrees { .. } | Agreement::Definition { .. });
        if is_good && !outside.is_empty() {
            self.verdict = Agreement::differs(format!("not as in the paper: {}", outside.join(", ")));
        }
        self
    }

    /// Turns agreement into a difference if a value violates a limit that the paper states for it.
    #[must_use]
    pub fn held_to_bounds(mut self) -> Self {
        let missed: Vec<String> = self
            .values
            .iter()
            .filter(|value| value.paper_bound.is_some() && value.is_as_stated() == Some(false))
            .map(|value| format!("{}, {:.4}", value.name, value.ours))
            .collect();
        if !missed.is_empty() && matches!(self.verdict, Agreement::Agrees { .. }) {
            self.verdict = Agreement::differs(format!(
                "not within the paper's bound: {}. {}",
                missed.join("; "),
                self.verdict.text()
            ));
        }
        self
    }

    /// Returns the reasons for which values have no band, each with the names of its values.
    pub fn unbanded(&self) -> Vec<(&'static str, Vec<&str>)> {
        self.reasons(|value| value.unbanded)
    }

    /// Returns the reasons for which bands leave out the paper's value, each with the names of its
    /// values.
    pub fn apart(&self) -> Vec<(&'static str, Vec<&str>)> {
        self.reasons(|value| value.apart)
    }

    fn reasons(&self, pick: fn(&Value) -> Option<&'static str>) -> Vec<(&'static str, Vec<&str>)> {
        let mut reasons: Vec<(&'static str, Vec<&str>)> = Vec::new();
        for value in &self.values {
            let Some(why) = pick(value) else { continue };
            match reasons.iter_mut().find(|(known, _)| *known == why) {
                Some((_, names)) => names.push(&value.name),
                None => reasons.push((why, vec![&value.name])),
            }
        }
        reasons
    }

    /// Returns the values of Flowloom that lie outside their band.
    pub fn failed(&self) -> impl Iterator<Item = &Value> {
        self.values.iter().filter(|value| !value.holds())
    }
}

/// Returns the file of an item.
pub(crate) fn source(id: &str) -> String {
    format!("crates/repro/src/{id}.rs")
}

/// A table, a figure or a section's claim.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Paper and item: `dhash/table5_comparisons`.
    pub id: &'static str,
    /// The place in the paper, such as `Tab. V`.
    pub place: &'static str,
    /// The paper's claim, paraphrased.
    pub claim: &'static str,
    /// Where the paper's numbers stand, and how they were read: as points, or as limits.
    pub numbers: &'static str,
    /// How Flowloom's figures are obtained.
    pub fidelity: &'static [Fidelity],
    /// The parts that can be switched off.
    pub switches: &'static [Switch],
    /// Why no part can be switched off; empty if the item has switches.
    pub unswitched: &'static str,
    /// The quantities that the paper leaves open and a sweep varies.
    pub guesses: &'static [Guess],
    /// Number of seeds of a quick run; a full run takes twice as many, and a smoke run takes one.
    pub draws: u32,
    /// Computes the item's outcome on one seed; [`examine`](crate::examine()) judges it.
    pub run: fn(&Context<'_>) -> Result<Outcome, ItemError>,
}

impl Item {
    /// An item without switches and guesses, for the remaining fields of a literal.
    pub const PLAIN: Self = Self {
        id: "",
        place: "",
        claim: "",
        numbers: "",
        fidelity: &[],
        switches: &[],
        unswitched: "",
        guesses: &[],
        draws: 1,
        run: |_| Ok(Outcome::new(Agreement::CannotRun { why: String::new() })),
    };

    /// Returns the paper's key, in lower case.
    pub fn paper(&self) -> &'static str {
        self.id.split('/').next().unwrap_or_default()
    }

    /// Returns the file that implements it, from the root of the repository on.
    pub fn source(&self) -> String {
        source(self.id)
    }

    /// Returns the guesses of a context that are this item's.
    pub(crate) fn own_guesses<'a>(&self, context: &Context<'a>) -> Vec<(&'a str, f64)> {
        let is_own = |name: &str| self.guesses.iter().any(|guess| guess.name == name);
        context.guesses.iter().copied().filter(|(name, _)| is_own(name)).collect()
    }

    /// Returns the item's name within its paper.
    pub fn name(&self) -> &'static str {
        self.id.split('/').nth(1).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_value_outside_its_band_fails() {
        let outcome = Outcome::new(Agreement::differs("x"))
            .value(Value::new("in", "", 1.0).band(0.5, 1.0))
            .value(Value::new("out", "", 1.1).band(0.5, 1.0))
            .value(Value::new("free", "", 9.0))
            .value(Value::new("none", "", f64::NAN).within(Band::at_least(0.0)))
            .value(Value::new("timed", "ns", 9.0).band(0.0, 1.0).checked_if(false));
        let failed: Vec<&str> = outcome.failed().map(|value| value.name.as_str()).collect();
        assert_eq!(failed, ["out", "none"], "no number is inside no band");
    }

    #[test]
    fn differing_number_withdraws_agreement() {
        let outcome = |ours| {
            let value = Value::new("x", "", ours).paper(1.0).within(Band::around(1.0, 0.1));
            Outcome::new(Agreement::agrees("it is so")).value(value).judged().verdict
        };
        assert_eq!(outcome(1.05), Agreement::agrees("it is so"));
        assert_eq!(outcome(1.2), Agreement::differs("not as in the paper: x"));
    }

    #[test]
    fn selected_values_are_drawn_beside_those_of_the_paper() {
        let outcome = || {
            Outcome::new(Agreement::agrees("x"))
                .value(Value::new("a", "MB", 1.0))
                .value(Value::new("b", "ns", 2.0))
                .value(Value::new("c", "MB", 3.0).paper(4.0))
        };
        let chart =
            outcome().chart_of("Sizes", Axis::linear("MB"), |value| value.unit == "MB").charts.remove(0);
        assert_eq!(chart.categories, ["a", "c"]);
        assert_eq!((chart.series[0].name.as_str(), &chart.series[0].points), ("paper", &vec![(1.0, 4.0)]));
        assert_eq!(
            (chart.series[1].name.as_str(), &chart.series[1].points),
            ("here", &vec![(0.0, 1.0), (1.0, 3.0)])
        );
        assert_eq!(
            outcome().chart_of("Times", Axis::linear("ns"), |value| value.unit == "ns").charts[0]
                .series
                .len(),
            1
        );
        assert!(outcome().chart_of("None", Axis::linear(""), |value| value.unit == "%").charts.is_empty());
    }

    #[test]
    fn bound_holds_only_if_the_whole_interval_keeps_it() {
        let interval = |low, high| Some(Interval { low, high, draws: 6, outside: 0, confidence: 0.97 });
        let above = Value::new("x", "%", 52.0).paper_above(50.0);
        assert_eq!(above.is_as_stated(), Some(true));
        assert_eq!(Value { interval: interval(49.4, 53.0), ..above.clone() }.is_as_stated(), Some(false));
        assert_eq!(Value::new("x", "", 50.0).paper_above(50.0).is_as_stated(), Some(false));
        assert_eq!(Value::new("x", "", 50.0).paper_at_most(50.0).is_as_stated(), Some(true));
        assert_eq!(Value::new("x", "", 1.09).paper(1.0).is_as_stated(), Some(true));
        assert_eq!(Value::new("x", "", 1.11).paper(1.0).is_as_stated(), Some(false));
        let missed = Value { ours: 49.4, ..above };
        let verdict = Outcome::new(Agreement::agrees("on the edge")).value(missed).held_to_bounds().verdict;
        assert_eq!(verdict, Agreement::differs("not within the paper's bound: x, 49.4000. on the edge"));
    }
}

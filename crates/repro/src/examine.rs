//! Runs an item with several seeds, without its mechanisms, and with other guesses, and judges the
//! results.
//!
//! ```text
//!  seeds ───────▶ outcomes ─▶ medians, intervals, one verdict or "depends"
//!  switches ────▶ does the verdict notice?  no: an agreement becomes "cannot tell"
//!  guesses ─────▶ the region in which the verdict stands
//! ```

use flowloom_measure::chart::{Chart, Series};
use flowloom_measure::{Ratio, Summary};
use serde::Serialize;

use crate::experiment::{
    Agreement, Band, Context, Fidelity, Interval, Item, ItemError, Outcome, Scale, Value,
};
use crate::value::number;
use crate::variation::{Guess, Switch, SwitchKind};

/// The runs that an item gets in addition to the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Number of seeds; `None` for the item's default at the scale.
    pub seeds: Option<u32>,
    /// Whether items that do not agree also run without their mechanisms, and all items run with
    /// their faults.
    pub ablate: bool,
    /// Whether guesses are swept.
    pub sweep: bool,
}

impl Plan {
    /// Maximum number of seeds of an item.
    pub const SEEDS_MAX: u32 = 1000;

    /// Returns the number of seeds of an item: one if the item uses no random numbers.
    fn seeds_of(self, item: &Item, scale: Scale) -> u32 {
        if item.fidelity.iter().all(|how| matches!(how, Fidelity::Arithmetic | Fidelity::OutOfReach)) {
            return 1;
        }
        let own = scale.pick(1, item.draws, item.draws * 2);
        self.seeds.unwrap_or(own).clamp(1, Self::SEEDS_MAX)
    }
}

/// How an item reacted to a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Noticed {
    /// The verdict changed.
    ByVerdict,
    /// A value of Flowloom left its band, but the verdict did not change.
    ByBand,
    /// Nothing changed.
    No,
    /// Nothing changed at a scale at which the item's bands are not checked.
    Unchecked,
}

impl Noticed {
    /// Returns the words that tables use.
    pub fn words(self) -> &'static str {
        match self {
            Self::ByVerdict => "by verdict",
            Self::ByBand => "by band",
            Self::No => "NOT NOTICED",
            Self::Unchecked => "not checked at this scale",
        }
    }
}

/// A value with and without a mechanism.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Effect {
    /// The value.
    pub name: String,
    /// Its unit; empty for a count or ratio.
    pub unit: &'static str,
    /// The value with the mechanism.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub with: f64,
    /// The value without the mechanism.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub without: f64,
}

/// The runs of an item with a switch turned, one per seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ablation {
    /// The switch.
    pub switch: &'static str,
    /// Description of the switch.
    pub about: &'static str,
    /// Whether it disables a mechanism or introduces a fault.
    pub kind: SwitchKind,
    /// The verdict without it.
    #[serde(rename = "without")]
    pub verdict: Agreement,
    /// Number of seeds with which the item agrees without it.
    pub agreeing: u32,
    /// Number of seeds.
    pub draws: u32,
    /// Whether the item reacted.
    pub noticed: Noticed,
    /// Names of values that leave their band.
    pub outside: Vec<String>,
    /// The values that leave their band, then those that are not timed, then all others; of each
    /// kind those with the largest relative change first.
    pub effects: Vec<Effect>,
}

impl Ablation {
    /// Returns the verdict without the mechanism, of several seeds with the number that agree.
    pub fn verdict_words(&self) -> String {
        let Self { verdict, agreeing, draws, .. } = self;
        match draws {
            ..=1 => verdict.word().to_owned(),
            _ => format!("{}, {agreeing} of {draws}", verdict.word()),
        }
    }
}

/// A verdict at one value of a guess.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Point {
    /// Value of the guess.
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub at: f64,
    /// Whether it is the item's default.
    pub is_default: bool,
    /// The verdict with this value.
    #[serde(flatten)]
    pub verdict: Agreement,
    /// Number of seeds with which the item agrees.
    pub agreeing: u32,
}

/// The verdicts for the values of a guess.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sweep {
    /// The guess.
    pub guess: &'static str,
    /// Its unit; empty for a choice.
    pub unit: &'static str,
    /// Description of the guess.
    pub about: &'static str,
    /// The points, in ascending order.
    pub points: Vec<Point>,
    /// Number of seeds.
    pub draws: u32,
}

impl Sweep {
    /// Describes the region in which the paper's conclusion holds.
    pub fn region(&self) -> String {
        if self.draws > 1 {
            let agreeing = |point: &Point| format!("{} at {}", point.agreeing, point.at);
            let points: Vec<String> = self.points.iter().map(agreeing).collect();
            return format!("of {} seeds agree: {}", self.draws, points.join(", "));
        }
        let at = |is: bool| -> Vec<String> {
            let chosen =
                self.points.iter().filter(|point| matches!(point.verdict, Agreement::Agrees { .. }) == is);
            chosen.map(|point| point.at.to_string()).collect()
        };
        let values = match (at(true), at(false)) {
            (holds, fails) if fails.is_empty() => format!("all of {}", holds.join(", ")),
            (holds, fails) if holds.is_empty() => format!("none of {}", fails.join(", ")),
            (holds, fails) => format!("{}, not at {}", holds.join(", "), fails.join(", ")),
        };
        format!("the claim holds at {values}")
    }
}

/// The outcome of an item with all additional runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Examined {
    /// Medians over the seeds, and the verdict on all seeds.
    pub outcome: Outcome,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Runs with a switch turned.
    pub ablations: Vec<Ablation>,
    /// Runs with other values for guesses.
    pub sweeps: Vec<Sweep>,
}

/// Runs an item by a plan. Takes as many runs as seeds; if the item agrees or the plan is to
/// ablate, as many more per switch; and in a sweep, as many per value.
///
/// # Errors
///
/// Returns the item's first error.
pub fn examine(item: &Item, context: &Context<'_>, plan: Plan) -> Result<Examined, ItemError> {
    // Items share models, and so would those that do not list a guess follow it.
    let guesses = item.own_guesses(context);
    let context = &Context { guesses: &guesses, ..*context };
    let count = plan.seeds_of(item, context.scale);
    let seeds: Vec<u64> = (0..u64::from(count)).map(|draw| context.seed.wrapping_add(draw)).collect();
    let is_guessed =
        item.guesses.iter().any(|guess| context.guess(guess).total_cmp(&guess.default).is_ne());
    let runs = |context: &Context<'_>| -> Result<Vec<Outcome>, ItemError> {
        let run = |&seed: &u64| {
            context.check_stop()?;
            let mut outcome = (item.run)(&Context { seed, ..*context }).map(Outcome::held_to_bounds)?;
            // Bands hold for the defaults of guesses.
            outcome.values.iter_mut().filter(|_| is_guessed).for_each(|value| value.band = None);
            Ok(outcome)
        };
        seeds.iter().map(run).collect()
    };
    let outcomes = runs(context)?;
    let agreeing = agreeing_of(&outcomes);
    let mut outcome = merged(outcomes, &seeds).held_to_bounds();
    let mut ablations = Vec::new();
    for switch in item.switches {
        if plan.ablate || (agreeing > 0 && switch.kind == SwitchKind::Mechanism) {
            let without = runs(&Context { off: Some(switch.name), ..*context })?;
            ablations.push(ablation(switch, (&outcome, agreeing), without, &seeds));
        }
    }
    if is_guessed {
        outcome.notes.push(String::from("our bands hold without --guess, so no value is checked"));
    }
    let mut sweeps = Vec::new();
    for guess in item.guesses.iter().filter(|_| plan.sweep) {
        sweeps.push(sweep(guess, (&outcome, agreeing), &runs, context, &seeds)?);
    }
    outcome.verdict = with_ablations(outcome.verdict, &ablations, is_guessed);
    Ok(Examined { outcome, seeds, ablations, sweeps })
}

/// Returns the number of outcomes that agree.
fn agreeing_of(draws: &[Outcome]) -> u32 {
    let agreeing = draws.iter().filter(|draw| matches!(draw.verdict, Agreement::Agrees { .. })).count();
    u32::try_from(agreeing).unwrap_or(u32::MAX)
}

/// Merges several outcomes into one: values by name and points of charts, as medians with
/// intervals; notes of the first outcome, and the values that some seeds have outside their band.
fn merged(mut draws: Vec<Outcome>, seeds: &[u64]) -> Outcome {
    if draws.len() == 1 {
        return draws.remove(0);
    }
    let values_of = |name: &str| -> Vec<&Value> {
        draws.iter().filter_map(|draw| draw.values.iter().find(|value| value.name == name)).collect()
    };
    let values = draws[0].values.iter().map(|value| {
        let same = values_of(&value.name);
        let ends = Ratio::of_ratios(same.iter().map(|value| value.ours));
        let interval = Interval {
            low: ends.low,
            high: ends.high,
            draws: u32::try_from(same.len()).unwrap_or(u32::MAX),
            outside: u32::try_from(same.iter().filter(|value| !value.holds()).count()).unwrap_or(u32::MAX),
            confidence: ends.confidence,
        };
        // A band may depend on the draw; then its ends are medians too.
        let bands: Vec<Band> = same.iter().filter_map(|value| value.band).collect();
        let end = |pick: fn(&Band) -> f64| Summary::from_samples(bands.iter().map(pick)).median;
        let is_fixed = bands.iter().all(|band| Some(*band) == value.band);
        let band = if is_fixed {
            value.band
        } else {
            Some(Band { low: end(|band| band.low), high: end(|band| band.high) })
        };
        let ours = Summary::from_samples(same.iter().map(|value| value.ours)).median;
        Value { ours, interval: Some(interval), band, ..value.clone() }
    });
    let values: Vec<Value> = values.collect();
    let verdict = verdict_of(&draws, seeds, &values);
    let charts = (0..draws[0].charts.len()).map(|at| merged_chart(&draws, at)).collect();
    let outside = values.iter().filter_map(|value| {
        let interval = value.interval.filter(|interval| interval.outside > 0)?;
        let Interval { outside, draws, .. } = interval;
        Some(format!("outside its band with {outside} of {draws} seeds: {}", value.name))
    });
    let is_common = |note: &String| draws.iter().all(|draw| draw.notes.contains(note));
    let notes = draws[0]
        .notes
        .iter()
        .map(|note| if is_common(note) { note.clone() } else { format!("Seed {}: {note}", seeds[0]) });
    let notes = notes.chain(outside).collect();
    Outcome { values, charts, notes, verdict }
}

/// Returns a chart with the medians and intervals of the points that all outcomes have; others are
/// those of the first outcome.
fn merged_chart(draws: &[Outcome], at: usize) -> Chart {
    let mut chart = draws[0].charts[at].clone();
    for (place, series) in chart.series.iter_mut().enumerate() {
        let same: Vec<&Series> =
            draws.iter().filter_map(|draw| draw.charts.get(at)?.series.get(place)).collect();
        let x_of =
            |series: &Series| series.points.iter().map(|point| point.0.to_bits()).collect::<Vec<_>>();
        if same.iter().any(|other| other.name != series.name || x_of(other) != x_of(series)) {
            continue;
        }
        let ratio = |point: usize| Ratio::of_ratios(same.iter().map(|series| series.points[point].1));
        let middles: Vec<Ratio> = (0..series.points.len()).map(ratio).collect();
        for (point, middle) in series.points.iter_mut().zip(&middles) {
            point.1 = if point.1.is_nan() { f64::NAN } else { middle.median };
        }
        // What does not vary, such as a number of the paper, has no interval.
        if middles.iter().any(|middle| middle.low < middle.high) {
            series.intervals = middles.iter().map(|middle| (middle.low, middle.high)).collect();
        }
    }
    chart
}

/// Returns the common verdict of all draws, or the verdict that the result depends on the draw. A
/// text is that of the draw whose values are nearest to the medians, with its seed.
fn verdict_of(draws: &[Outcome], seeds: &[u64], medians: &[Value]) -> Agreement {
    let distance = |at: usize| -> f64 {
        let off = |value: &Value| {
            let median = medians.iter().find(|median| median.name == value.name);
            median.map_or(0.0, |median| change(value.ours, median.ours))
        };
        draws[at].values.iter().map(off).sum()
    };
    let first = draws[0].verdict.word();
    let nearest = |is_first: bool| {
        (0..draws.len())
            .filter(|&at| (draws[at].verdict.word() == first) == is_first)
            .min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
    };
    let one = nearest(true).unwrap_or(0);
    let verdict = &draws[one].verdict;
    // A run that cannot tell has found the others' difference to lie within its noise.
    let uncertain = draws.iter().position(|draw| matches!(draw.verdict, Agreement::CannotTell { .. }));
    if let Some(at) = uncertain.filter(|_| !matches!(verdict, Agreement::CannotTell { .. })) {
        return draws[at].verdict.with_text(format!(
            "with seed {}, {}",
            seeds[at],
            draws[at].verdict.text()
        ));
    }
    let Some(other) = nearest(false).filter(|_| uncertain.is_none()) else {
        if draws.iter().all(|draw| draw.verdict == *verdict) {
            return verdict.clone();
        }
        return verdict.with_text(format!("with seed {}, {}", seeds[one], verdict.text()));
    };
    let agreeing = agreeing_of(draws);
    let of = |at: usize| {
        let verdict = &draws[at].verdict;
        format!("Seed {} {}: {}", seeds[at], verdict.word(), verdict.text())
    };
    Agreement::DependsOnDraw {
        agreeing,
        draws: u32::try_from(draws.len()).unwrap_or(u32::MAX),
        why: format!("{agreeing} of {} seeds agree. {}. {}", draws.len(), of(one), of(other)),
    }
}

/// Number of values that are kept per ablation beside those that leave their band.
const EFFECTS: usize = 3;

/// Compares the medians and the verdicts of the outcomes with and without a mechanism. A verdict
/// with which some seeds agree notices its absence if at most half as many agree without it.
fn ablation(
    switch: &Switch,
    (with, agreeing_with): (&Outcome, u32),
    without: Vec<Outcome>,
    seeds: &[u64],
) -> Ablation {
    let agreeing = agreeing_of(&without);
    let without = merged(without, seeds).held_to_bounds();
    let outside: Vec<String> = without
        .failed()
        .filter(|value| !with.failed().any(|known| known.name == value.name))
        .map(|value| value.name.clone())
        .collect();
    let has_changed = if agreeing_with > 0 {
        agreeing <= agreeing_with / 2
    } else {
        with.verdict.word() != without.verdict.word()
    };
    let noticed = if has_changed {
        Noticed::ByVerdict
    } else if outside.is_empty() {
        let is_unchecked = with.values.iter().any(|value| value.unbanded == Some(Value::ELSEWHERE));
        if is_unchecked { Noticed::Unchecked } else { Noticed::No }
    } else {
        Noticed::ByBand
    };
    let mut effects: Vec<(bool, bool, Effect)> = with
        .values
        .iter()
        .filter_map(|value| {
            let other = without.values.iter().find(|other| other.name == value.name)?;
            let is_inside = !outside.contains(&value.name);
            let (with, without) = (value.ours, other.ours);
            let effect = Effect { name: value.name.clone(), unit: value.unit, with, without };
            (!is_inside || effect.share() > 0.0).then_some((is_inside, value.is_timed, effect))
        })
        .collect();
    effects.sort_by(|a, b| (a.0, a.1).cmp(&(b.0, b.1)).then(b.2.share().total_cmp(&a.2.share())));
    let shown = EFFECTS + outside.len();
    let effects = effects.into_iter().take(shown).map(|(_, _, effect)| effect).collect();
    Ablation {
        switch: switch.name,
        about: switch.about,
        kind: switch.kind,
        verdict: without.verdict,
        agreeing,
        draws: u32::try_from(seeds.len()).unwrap_or(u32::MAX),
        noticed,
        outside,
        effects,
    }
}

impl Effect {
    /// Returns the change as a share of the larger of the two values; 0 where either is not a
    /// number.
    pub fn share(&self) -> f64 {
        change(self.with, self.without)
    }

    /// Describes the change in words.
    pub fn words(&self) -> String {
        let Self { name, unit, .. } = self;
        format!("{name}: {} → {} {unit}", number(self.with), number(self.without)).trim_end().to_owned()
    }
}

/// Returns the difference as a share of the larger of the two; 0 where either is not a number.
fn change(a: f64, b: f64) -> f64 {
    let change = (a - b).abs() / a.abs().max(b.abs());
    if change.is_finite() { change } else { 0.0 }
}

/// Withdraws an agreement that remains without one of its mechanisms.
fn with_ablations(verdict: Agreement, ablations: &[Ablation], is_guessed: bool) -> Agreement {
    let is_good = matches!(verdict, Agreement::Agrees { .. } | Agreement::DependsOnDraw { .. });
    let unnoticed: Vec<String> = ablations
        .iter()
        .filter(|ablation| ablation.kind == SwitchKind::Mechanism && ablation.noticed != Noticed::ByVerdict)
        // Guesses may have switched the mechanism off already.
        .filter(|ablation| !(is_guessed && ablation.effects.is_empty()))
        .map(|ablation| {
            let Ablation { switch, about, agreeing, draws, .. } = ablation;
            let who = match draws {
                ..=1 => String::from("it also agrees"),
                _ => format!("{agreeing} of {draws} seeds agree"),
            };
            format!("{who} without {switch} ({about})")
        })
        .collect();
    if unnoticed.is_empty() || !is_good {
        return verdict;
    }
    Agreement::CannotTell { why: format!("{}. With it, {}", unnoticed.join(", "), verdict.text()) }
}

/// Runs an item with all seeds for each value of a guess, except that of `context`, whose outcome
/// and number of agreeing seeds are known.
fn sweep(
    guess: &Guess,
    own: (&Outcome, u32),
    runs: &dyn Fn(&Context<'_>) -> Result<Vec<Outcome>, ItemError>,
    context: &Context<'_>,
    seeds: &[u64],
) -> Result<Sweep, ItemError> {
    let mut points = Vec::new();
    for at in guess.points() {
        let is_default = at.total_cmp(&context.guess(guess)).is_eq();
        let (verdict, agreeing) = if is_default {
            (own.0.verdict.clone(), own.1)
        } else {
            let guesses = [&[(guess.name, at)][..], context.guesses].concat();
            let outcomes = runs(&Context { guesses: &guesses, ..*context })?;
            let agreeing = agreeing_of(&outcomes);
            (merged(outcomes, seeds).held_to_bounds().verdict, agreeing)
        };
        points.push(Point { at, is_default, verdict, agreeing });
    }
    let draws = u32::try_from(seeds.len()).unwrap_or(u32::MAX);
    Ok(Sweep { guess: guess.name, unit: guess.unit, about: guess.about, points, draws })
}

#[cfg(test)]
mod tests {
    use flowloom_measure::chart::Axis;

    use super::*;

    const SEEN: Switch = Switch::mechanism("seen", "the value is halved");
    const UNSEEN: Switch = Switch::mechanism("unseen", "nothing changes");
    const BROKEN: Switch = Switch::fault("broken", "the value is tripled");
    const SIZE: Guess = Guess::new("size", "", 4.0, &[1.0, 9.0], "the value itself");

    fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
        let factor = if context.is_off(&SEEN) {
            0.5
        } else if context.is_off(&BROKEN) {
            3.0
        } else {
            1.0
        };
        let drawn = if context.seed >= 100 { 0.1 * context.seed as f64 - 10.0 } else { 0.0 };
        let value = (context.guess(&SIZE) + drawn) * factor;
        Ok(Outcome::new(Agreement::from_check(value > 3.0, "large", "small"))
            .value(Value::new("x", "", value).band(0.0, 10.0))
            .chart_of("X", Axis::linear("x"), |_| true))
    }

    const ITEM: Item =
        Item { id: "test/item", fidelity: &[Fidelity::Simulated], guesses: &[SIZE], run, ..Item::PLAIN };

    #[test]
    fn agreement_without_the_mechanism_is_not_agreement() {
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let seen = Item { switches: &[SEEN], ..ITEM };
        let examined = examine(&seen, &context, Plan::default()).unwrap();
        assert_eq!(examined.outcome.verdict, Agreement::agrees("large"));
        let ablation = &examined.ablations[0];
        assert_eq!((ablation.noticed, ablation.verdict.word()), (Noticed::ByVerdict, "differs"));
        assert_eq!((ablation.effects[0].with, ablation.effects[0].without), (4.0, 2.0));
        let blind = Item { switches: &[SEEN, UNSEEN], ..ITEM };
        let examined = examine(&blind, &context, Plan::default()).unwrap();
        assert_eq!(examined.outcome.verdict.word(), "cannot tell");
        let text = examined.outcome.verdict.text();
        assert_eq!(text, "it also agrees without unseen (nothing changes). With it, large");
    }

    #[test]
    fn mechanism_counts_if_at_most_half_of_the_agreeing_seeds_agree_without_it() {
        // Without it the value is half of 4 + (seed - 100) / 10, which is large from seed 121 on.
        let item = Item { switches: &[SEEN], ..ITEM };
        let plan = Plan { seeds: Some(4), ..Plan::default() };
        for (first, without, verdict) in [
            (117, "differs, 0 of 4", "agrees"),
            (119, "depends, 2 of 4", "agrees"),
            (120, "depends, 3 of 4", "cannot tell"),
        ] {
            let examined = examine(&item, &Context::new(Scale::Smoke, first, &|| true), plan).unwrap();
            assert_eq!(examined.ablations[0].verdict_words(), without);
            assert_eq!(examined.outcome.verdict.word(), verdict, "{without}");
        }
    }

    #[test]
    fn injected_fault_is_detected_by_a_band() {
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let item = Item { switches: &[BROKEN], ..ITEM };
        assert!(examine(&item, &context, Plan::default()).unwrap().ablations.is_empty());
        let examined = examine(&item, &context, Plan { ablate: true, ..Plan::default() }).unwrap();
        assert_eq!(examined.ablations[0].noticed, Noticed::ByBand);
        assert_eq!(examined.ablations[0].outside, ["x"]);
        assert_eq!(examined.outcome.verdict.word(), "agrees");
    }

    #[test]
    fn values_outside_their_band_are_named_before_greater_changes() {
        let run = |context: &Context<'_>| {
            let factor = if context.is_off(&BROKEN) { 3.0 } else { 1.0 };
            Ok(Outcome::new(Agreement::differs("so"))
                .value(Value::new("a time", "ns", factor * factor).timed())
                .value(Value::new("free", "", factor))
                .value(Value::new("banded", "", 9.0 + factor).band(9.0, 11.0)))
        };
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let item = Item { run, switches: &[BROKEN], ..ITEM };
        let examined = examine(&item, &context, Plan { ablate: true, ..Plan::default() }).unwrap();
        let words: Vec<String> = examined.ablations[0].effects.iter().map(Effect::words).collect();
        assert_eq!(words, ["banded: 10 → 12", "free: 1 → 3", "a time: 1 → 9 ns"]);
    }

    #[test]
    fn seeds_that_disagree_give_no_verdict() {
        let plan = |seeds| Plan { seeds: Some(seeds), ..Plan::default() };
        let guesses = [("size", 2.55)];
        let context = Context { guesses: &guesses, ..Context::new(Scale::Smoke, 100, &|| true) };
        let examined = examine(&ITEM, &context, plan(8)).unwrap();
        let Agreement::DependsOnDraw { agreeing, draws, why } = &examined.outcome.verdict else { panic!() };
        assert_eq!((*agreeing, *draws), (3, 8));
        assert_eq!(why, "3 of 8 seeds agree. Seed 104 differs: small. Seed 105 agrees: large");
        let value = &examined.outcome.values[0];
        let interval = value.interval.unwrap();
        assert!((value.ours - 2.9).abs() < 1e-9 && interval.draws == 8 && interval.confidence > 0.95);
        assert!(interval.low < value.ours && value.ours < interval.high);
        let bars = &examined.outcome.charts[0].series[0];
        assert_eq!((bars.points[0].1, bars.intervals[0]), (value.ours, (interval.low, interval.high)));
        assert_eq!(examined.seeds, (100..108).collect::<Vec<u64>>());
        assert_eq!(examined.outcome.notes, ["our bands hold without --guess, so no value is checked"]);
        assert_eq!(value.band, None);
        let context = Context::new(Scale::Smoke, 156, &|| true);
        let examined = examine(&ITEM, &context, plan(8)).unwrap();
        assert_eq!(examined.outcome.notes, ["outside its band with 3 of 8 seeds: x"]);
        assert_eq!(examined.outcome.values[0].interval.unwrap().outside, 3);
        assert_eq!(examined.outcome.failed().count(), 0, "the median is inside");
        let arithmetic = Item { fidelity: &[Fidelity::Arithmetic], ..ITEM };
        assert_eq!(examine(&arithmetic, &context, plan(8)).unwrap().seeds, [156]);
    }

    #[test]
    fn text_of_several_seeds_is_that_of_the_seed_nearest_the_median() {
        let run = |context: &Context<'_>| {
            let value: f64 = match context.seed {
                1 => 9.0,
                2 => 4.0,
                _ => 5.0,
            };
            Ok(Outcome::new(Agreement::differs(format!("it is {value}"))).value(Value::new("x", "", value)))
        };
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let plan = Plan { seeds: Some(3), ..Plan::default() };
        let verdict = examine(&Item { run, ..ITEM }, &context, plan).unwrap().outcome.verdict;
        assert_eq!(verdict, Agreement::differs("with seed 3, it is 5"));
    }

    #[test]
    fn sweep_reports_the_region_of_agreement() {
        let context = Context::new(Scale::Smoke, 1, &|| true);
        let examined = examine(&ITEM, &context, Plan { sweep: true, ..Plan::default() }).unwrap();
        assert_eq!(examined.sweeps[0].region(), "the claim holds at 4, 9, not at 1");
        let plan = Plan { sweep: true, seeds: Some(2), ..Plan::default() };
        let examined = examine(&ITEM, &context, plan).unwrap();
        assert_eq!(examined.sweeps[0].region(), "of 2 seeds agree: 0 at 1, 2 at 4, 2 at 9");
        assert_eq!(examined.sweeps[0].points.iter().filter(|point| point.is_default).count(), 1);
    }
}

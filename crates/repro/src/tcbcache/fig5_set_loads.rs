//! The uniformity with which index functions distribute sessions over sets [TCBCACHE §3.1, Fig. 5].

use std::collections::BTreeSet;

use flowloom::tcb_cache::{Geometry, IndexFunction, Indexing};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Workload, draw_seed, median, notes, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig5_set_loads",
    place: "§3.1, Fig. 5",
    claim: "several hash functions spread sessions over the sets more evenly than one",
    numbers: "none: the curves of Fig. 5 are not legible in our copy, §3.1 states an order",
    fidelity: &[Fidelity::Simulated],
    switches: &[TWO],
    draws: 3,
    run,
    ..Item::PLAIN
};

/// Number of sessions per set.
struct Loads(Vec<u64>);

impl Loads {
    /// One function: each session belongs to one set.
    fn single(keys: &BTreeSet<u64>, index: &Indexing) -> Self {
        let mut loads = vec![0; Geometry::PAPER.sets() as usize];
        for key in keys {
            loads[index.set(*key, 0) as usize] += 1;
        }
        Self(loads)
    }

    /// Several functions: each session goes to the least loaded of its sets, as in a cache that
    /// balances its banks.
    fn balanced(keys: &BTreeSet<u64>, index: &Indexing, banks: u32) -> Self {
        let sets = Geometry::PAPER.sets();
        let mut loads = vec![0; (sets * banks) as usize];
        for key in keys {
            let places = (0..banks).map(|bank| (bank * sets + index.set(*key, bank)) as usize);
            if let Some(least) = places.min_by_key(|place| loads[*place]) {
                loads[least] += 1;
            }
        }
        Self(loads)
    }

    fn mean(&self) -> f64 {
        self.0.iter().sum::<u64>() as f64 / self.0.len() as f64
    }

    /// Mean absolute deviation from the expected number, relative to it.
    fn deviation(&self) -> f64 {
        let mean = self.mean();
        let sum: f64 = self.0.iter().map(|load| (*load as f64 - mean).abs()).sum();
        sum / self.0.len() as f64 / mean
    }

    /// Chi-square divided by degrees of freedom: 1 for a random assignment.
    fn chi_square(&self) -> f64 {
        let mean = self.mean();
        let sum: f64 = self.0.iter().map(|load| (*load as f64 - mean).powi(2) / mean).sum();
        sum / (self.0.len() - 1) as f64
    }

    /// Share of sets by absolute deviation, in steps of a tenth of the expected number.
    fn density(&self) -> Vec<(f64, f64)> {
        let mean = self.mean();
        let step = |load: &u64| ((*load as f64 - mean).abs() / mean * 10.0).floor().min(20.0);
        let share = |bin: u32| {
            let sets = self.0.iter().filter(|load| (step(load) - f64::from(bin)).abs() < 0.5).count();
            sets as f64 * 100.0 / self.0.len() as f64
        };
        (0..=20).map(|bin| (f64::from(bin) * 10.0, share(bin))).collect()
    }
}

/// What counts as more even: a deviation that is less by a tenth at least.
const EVENER: f64 = 0.9;

const TWO: Switch = Switch::mechanism("two-functions", "two banks share one function");

fn loads(
    context: &Context<'_>,
    workload: &Workload,
    seed: u64,
) -> Result<Vec<(&'static str, Loads)>, ItemError> {
    // Address and port only: successive sessions with the same address and port are in one set.
    let keys: BTreeSet<u64> =
        workload.trace.accesses().iter().map(|access| access.key() & 0xFFFF_FFFF_FFFF).collect();
    let index = |function, banks| -> Result<Indexing, ItemError> {
        let shape = Geometry::new(64 * 64 * u64::from(banks), 64, banks, 1);
        let shape = shape.map_err(ItemError::during("shaping a cache"))?;
        Indexing::new(function, shape, seed).map_err(ItemError::during("drawing index functions"))
    };
    let universal = IndexFunction::H3 { key_bits: 16, full_rank: true };
    Ok(vec![
        ("Mod", Loads::single(&keys, &index(IndexFunction::Modulo, 1)?)),
        ("CRC", Loads::single(&keys, &index(IndexFunction::Crc, 1)?)),
        ("1-Universal", Loads::single(&keys, &index(universal, 1)?)),
        (
            "2-Universal",
            if context.is_off(&TWO) {
                Loads::single(&keys, &index(universal, 1)?)
            } else {
                Loads::balanced(&keys, &index(universal, 2)?, 2)
            },
        ),
        ("4-Universal", Loads::balanced(&keys, &index(universal, 4)?, 4)),
    ])
}

/// Number of draws of the functions. It is odd, so that the median is an actual draw.
const DRAWS: u32 = 9;

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was drawn"));
    let mut is_evener = true;
    for workload in &workloads {
        let short = workload.short;
        let drawn = (0..DRAWS)
            .map(|draw| loads(context, workload, draw_seed(context, draw)))
            .collect::<Result<Vec<_>, ItemError>>()?;
        let mut chart = Chart::new(
            format!("Sets by how far their sessions are from the expected number, {short}"),
            Axis::linear("deviation, % of the expected number"),
            Axis::linear("sets in %"),
        );
        let mut deviations = Vec::new();
        for (at, (name, _)) in drawn[0].iter().enumerate() {
            let of_draws = |value: fn(&Loads) -> f64| -> Vec<f64> {
                drawn.iter().map(|loads| value(&loads[at].1)).collect()
            };
            let by_draw = of_draws(Loads::deviation);
            let middle = median(&by_draw);
            deviations.push((*name, middle));
            outcome =
                outcome.value(Value::new(format!("{name}, mean deviation, {short}"), "%", middle * 100.0));
            let is_several = matches!(*name, "2-Universal" | "4-Universal");
            if is_several {
                let worst = by_draw.iter().copied().fold(0.0, f64::max);
                let name = format!("{name}, the worst draw's, {short}");
                outcome = outcome.value(Value::new(name, "%", worst * 100.0));
            } else {
                let name = format!("{name}, chi-square per degree of freedom, {short}");
                outcome = outcome.value(Value::new(name, "", median(&of_draws(Loads::chi_square))));
            }
            let shown = by_draw.iter().position(|one| one.total_cmp(&middle).is_eq()).unwrap_or(0);
            chart = chart.with(Series::line(*name, drawn[shown][at].1.density()));
        }
        let load =
            |name: &str| deviations.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, one)| *one);
        let two_of_one = load("2-Universal") / load("1-Universal");
        is_evener &= two_of_one <= EVENER;
        outcome = outcome
            .value(
                Value::new(format!("2-Universal of 1-Universal, {short}"), "", two_of_one)
                    .band(0.0, EVENER),
            )
            .value(
                Value::new(format!("1-Universal of Mod, {short}"), "", load("1-Universal") / load("Mod"))
                    .band(0.0, 0.6),
            )
            .chart(chart);
    }
    outcome.verdict = Agreement::from_check(
        is_evener,
        "two functions spread sessions more evenly than one where a session takes the emptier of its sets, but for draws that \
         lack rank over the bits that vary; each bank by itself is as even as a single function",
        "in the middle of the draws two functions do not spread sessions more evenly than one by a tenth",
    );
    outcome.notes = notes(&workloads);
    Ok(outcome
        .note("64 sets per bank; distinct pairs of address and port of the whole trace")
        .note(format!("middle of {DRAWS} draws of the functions, each of full rank over its 16 bits")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;

    #[test]
    fn one_bad_draw_of_the_hash_functions_does_not_decide_the_verdict() {
        // Functions drawn from 5 itself lack rank over the bits that vary, and two of them are then
        // five times less even than one.
        let context = Context::new(Scale::Smoke, 5, &|| true);
        let outcome = run(&context).unwrap();
        assert!(matches!(outcome.verdict, Agreement::Agrees { .. }), "{:?}", outcome.verdict);
        assert_eq!(outcome.failed().count(), 0, "{:?}", outcome.values);
    }
}

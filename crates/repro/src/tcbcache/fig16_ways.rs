//! Misses by the number of ways per bank [TCBCACHE §4.4, Fig. 16].

use flowloom::tcb_cache::{CacheSpec, Geometry, Policy};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draws, misses, notes, workloads};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig16_ways",
    place: "§4.4, Fig. 16",
    claim: "four and eight ways per bank do equally well",
    numbers: "text of §4.4: 1 for two that are “good”; the bars of Fig. 16 are not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    unswitched: SWEPT,
    run,
    ..Item::PLAIN
};

const WAYS: [u32; 5] = [1, 2, 4, 8, 16];

/// The limit for the difference between four and eight ways that the paper calls equally good.
const ALIKE: f64 = 0.02;

/// Judges the traces' results for the speculative policy: misses with 4 ways relative to 8, and
/// with 1 relative to 4.
fn verdict(found: &[(&str, f64, f64)]) -> Agreement {
    let words = |found: &[(&str, f64, f64)]| {
        let one = |(trace, four, one): &(&str, f64, f64)| {
            format!(
                "{trace} {:+.1} %, and one way {:+.0} % over four",
                (four - 1.0) * 100.0,
                (one - 1.0) * 100.0
            )
        };
        found.iter().map(one).collect::<Vec<_>>().join("; ")
    };
    Agreement::from_check(
        found.iter().all(|(_, four, _)| (four - 1.0).abs() <= ALIKE),
        format!("misses of spec with four ways over eight: {}", words(found)),
        format!("not on every trace. Misses of spec with four ways over eight: {}", words(found)),
    )
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let mut chart =
        Chart::new("Misses by ways of a bank, of those of 4", Axis::log("ways"), Axis::linear("of 4 ways"));
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was simulated"));
    let mut found = Vec::new();
    let long = context.scale > Scale::Smoke;
    // One bad draw of three causes a larger difference than the one percent to be shown.
    let draws = draws(context) * 3;
    for workload in &workloads {
        for (name, policy) in [("spec", CacheSpec::PAPER.policy), ("FlowLRU", Policy::FlowLru)] {
            let mut percents = Vec::new();
            for ways in WAYS {
                let geometry =
                    Geometry::new(32 << 10, 64, 2, ways).map_err(ItemError::during("shaping a cache"))?;
                let spec = CacheSpec { geometry, policy, ..CacheSpec::PAPER };
                percents.push(misses(context, &workload.trace, spec, draws)?.median());
            }
            let short = workload.short;
            // On the real day, four ways miss a twelfth more: the verdict says so.
            let alike = match (workload.is_model, name) {
                (true, _) => Band::around(1.0, 0.01),
                (false, "spec") => Band { low: 1.02, high: 1.15 },
                (false, _) => Band { low: 0.98, high: 1.06 },
            };
            if name == "spec" {
                found.push((short, percents[2] / percents[3], percents[0] / percents[2]));
            }
            outcome = outcome.values([
                Value::new(format!("4 ways of 8, {name}, {short}"), "", percents[2] / percents[3])
                    .paper(1.0)
                    .within(alike)
                    .checked_if(long),
                Value::new(format!("1 way of 4, {name}, {short}"), "", percents[0] / percents[2])
                    .band(0.98, 1.25)
                    .checked_if(workload.is_model),
            ]);
            let points =
                WAYS.iter().zip(&percents).map(|(ways, percent)| (f64::from(*ways), percent / percents[2]));
            chart = chart.with(Series::line(format!("{name}, {short}"), points.collect()));
        }
    }
    outcome.verdict = verdict(&found);
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note(format!("32 KiB in two banks; fewer ways are more sets; median of {draws} draws"))
        .judged())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_trace_that_needs_eight_ways_refutes_the_claim() {
        assert_eq!(verdict(&[("one", 1.006, 1.02), ("two", 0.99, 1.07)]).word(), "agrees");
        let differs = verdict(&[("one", 1.006, 1.02), ("NASA day", 1.083, 1.34)]);
        assert_eq!(differs.word(), "differs");
        assert!(
            differs.text().ends_with("NASA day +8.3 %, and one way +34 % over four"),
            "{}",
            differs.text()
        );
    }
}

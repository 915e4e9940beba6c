//! The frequency with which two flows of a bucket share a signature [DHASH §IV-B, §V-A].

use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section4_false_positives",
    place: "§IV-B, §V-A",
    claim: "a false positive rate of at most 2.79e-8 a bucket and 1.16e-3 over the table",
    numbers: "text of §IV-B and §V-A",
    fidelity: &[Fidelity::Arithmetic],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

/// Returns the probability that any two of `flows` flows share one of `values` values.
fn some_pair(flows: f64, values: f64) -> f64 {
    flows * (flows - 1.0) / (2.0 * values)
}

fn run(_context: &Context<'_>) -> Result<Outcome, ItemError> {
    let signatures = 4_294_967_296.0;
    let row = |name: &str, paper: f64, ours: f64| {
        Value::new(name, "", ours).paper(paper).within(Band::around(paper, 0.005))
    };
    // On average, a lookup passes half of the nine other flows of its bucket before its own slot.
    let per_hit = 10.0 / signatures / 2.0;
    Ok(Outcome::new(Agreement::definition(
        "the numbers are exact; §VI-C then compares 1.16e-3, the chance that any two flows of the table meet, \
         with rates per lookup, which an ideal signature keeps at 1e-9",
    ))
    .value(row("some pair among 16 of a bucket", 2.79e-8, some_pair(16.0, signatures)))
    .value(row("some pair among 10 of a bucket", 1.05e-8, some_pair(10.0, signatures)))
    .value(row("some pair of the whole table", 1.16e-3, some_pair(1e6, 1e5 * signatures)))
    .value(Value::new("false match per lookup that hits, ideal signature", "", per_hit).band(1.1e-9, 1.3e-9))
    .chart_of("Chance of a false match", Axis::log("probability"), |_| true)
    .judged())
}

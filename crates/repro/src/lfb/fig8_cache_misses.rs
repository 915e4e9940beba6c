//! Fetches of flow states per packet [LFB Fig. 8].

use flowloom_measure::chart::{Axis, Chart, Series};

use super::CAPTURES;
use crate::experiment::{Band, Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};
use crate::virtual_time::{
    CACHE_COST, LAST_WORKER, LOCK_COST, MOVE_COST, run as run_scheme, saturating, xeon,
};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig8_cache_misses",
    place: "Fig. 8",
    claim: "handing over misses often on Dominant, hashing and bundles alike; Many is the worst for both of these",
    fidelity: &[Fidelity::Simulated],
    switches: &[LAST_WORKER],
    guesses: &[MOVE_COST, LOCK_COST, CACHE_COST],
    draws: 3,
    run,
};

const SCHEMES: [&str; 6] = ["dh", "ph", "lfb-ns", "lfb", "flowpin", "flowpull"];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = xeon(context)?;
    let mut misses = Vec::new();
    for (_, model) in CAPTURES {
        let offered = saturating(context, model)?;
        let mut row = Vec::new();
        for scheme in SCHEMES {
            row.push(run_scheme(context, scheme, &machine, &offered)?.misses_per_job());
        }
        misses.push(row);
    }
    let [dominant, many, balanced] = &misses[..] else { unreachable!("there are three captures") };
    let holds = |bundles: usize| {
        dominant[1] > 5.0 * dominant[0]
            && dominant[bundles] < 2.0 * dominant[0]
            && many[0] > balanced[0].max(dominant[0])
            && many[bundles] > balanced[bundles].max(dominant[bundles])
    };
    let times = |bundles: usize| dominant[bundles] / dominant[0].max(1e-6);
    let found = format!(
        "on Dominant bundles fetch {:.1} times as often as hashing where they wait for their worker, and {:.1} times where they are stolen",
        times(2),
        times(3)
    );
    let mut chart = Chart::bars(
        "Fetches of a flow's state per packet",
        CAPTURES.map(|(name, _)| name),
        Axis::linear("fetches"),
    );
    for (at, scheme) in SCHEMES.into_iter().enumerate() {
        chart = chart.with(Series::bars(scheme, misses.iter().map(|row| row[at])));
    }
    let mut outcome = Outcome::new(Verdict::of(
        holds(2) || holds(3),
        format!("in order, in a model that counts flows, not lines, for {}: {found}", match (holds(2), holds(3)) {
            (true, true) => "both forms of the bundles",
            (true, false) => "bundles that wait",
            _ => "bundles that are stolen",
        }),
        format!("in a model that counts flows, not lines, the order is another for both forms of the bundles: {found}"),
    ))
    .value(Value::new("Dominant: handing over, over hashing", "", times(1)).within(Band::at_least(5.0)))
    .value(Value::new("Dominant: sticky bundles over hashing", "", times(2)).paper(1.0).band(0.5, 2.0))
    .value(Value::new("Dominant: bundles that are stolen over hashing", "", times(3)).paper(1.0));
    for ((name, _), row) in CAPTURES.iter().zip(&misses) {
        for (scheme, &value) in SCHEMES.iter().zip(row) {
            outcome = outcome.value(Value::new(format!("{name}: {scheme}"), "", value));
        }
    }
    Ok(outcome
        .chart(chart)
        .note("The figure has no numbers that could be read; hardware counters are not used here."))
}

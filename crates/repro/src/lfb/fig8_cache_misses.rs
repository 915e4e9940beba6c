//! Fetches of flow states per packet [LFB Fig. 8].

use flowloom_measure::chart::{Axis, Chart, Series};

use super::CAPTURES;
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{
    CACHE_COST, LAST_WORKER, LOCK_COST, MOVE_COST, run as run_scheme, saturating, with_rivals, xeon,
};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig8_cache_misses",
    place: "Fig. 8",
    claim: "handing over misses often on Dominant, hashing and bundles alike; Many is the worst for both of these",
    numbers: "slide: “alike” as 1; the bars have no numbers",
    fidelity: &[Fidelity::Simulated],
    switches: &[LAST_WORKER],
    guesses: &[MOVE_COST, LOCK_COST, CACHE_COST],
    draws: 3,
    run,
    ..Item::PLAIN
};

const SCHEMES: [&str; 6] = ["dh", "ph", "lfb-ns", "lfb", "flowpin", "flowpull"];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let machine = xeon(context)?;
    let schemes = with_rivals(context, &SCHEMES);
    let mut misses = Vec::new();
    for (_, model) in CAPTURES {
        let offered = saturating(context, model)?;
        let mut row = Vec::new();
        for scheme in &schemes {
            row.push(run_scheme(context, scheme, &machine, &offered)?.misses_per_job());
        }
        misses.push(row);
    }
    let [dominant, many, balanced] = &misses[..] else { unreachable!("there are three captures") };
    let place = |scheme: &str| schemes.iter().position(|known| *known == scheme).unwrap_or(0);
    let hashing = place("dh");
    let holds = |bundles: &str| {
        let bundles = place(bundles);
        dominant[place("ph")] > 5.0 * dominant[hashing]
            && dominant[bundles] < 2.0 * dominant[hashing]
            && many[hashing] > balanced[hashing].max(dominant[hashing])
            && many[bundles] > balanced[bundles].max(dominant[bundles])
    };
    let times = |scheme: &str| dominant[place(scheme)] / dominant[hashing].max(1e-6);
    let found = format!(
        "on Dominant bundles fetch {:.1} times as often as hashing where they wait for their worker, and {:.1} times where they are stolen",
        times("lfb-ns"),
        times("lfb")
    );
    let mut chart = Chart::bars(
        "Fetches of a flow's state per packet",
        CAPTURES.map(|(name, _)| name),
        Axis::linear("fetches"),
    );
    for (at, scheme) in schemes.iter().enumerate() {
        chart = chart.with(Series::bars(*scheme, misses.iter().map(|row| row[at])));
    }
    let mut outcome = Outcome::new(Agreement::from_check(
        holds("lfb-ns") || holds("lfb"),
        format!("in order, in a model that counts flows, not lines, for {}: {found}", match (holds("lfb-ns"), holds("lfb")) {
            (true, true) => "both forms of the bundles",
            (true, false) => "bundles that wait",
            _ => "bundles that are stolen",
        }),
        format!("in a model that counts flows, not lines, the order is another for both forms of the bundles: {found}"),
    ))
    .value(Value::new("Dominant: handing over, over hashing", "×", times("ph")).within(Band::at_least(5.0)))
    .value(Value::new("Dominant: sticky bundles over hashing", "×", times("lfb-ns")).paper(1.0).band(0.5, 2.0))
    .value(Value::new("Dominant: bundles that are stolen over hashing", "×", times("lfb")).paper(1.0).band(5.0, 15.0).apart("stealing moves flows; the slides do not say whether bundles are stolen"));
    for ((name, _), row) in CAPTURES.iter().zip(&misses) {
        for (scheme, &value) in schemes.iter().zip(row) {
            outcome = outcome.value(Value::new(format!("{name}: {scheme}"), "", value));
        }
    }
    Ok(outcome
        .chart(chart)
        .note("The figure has no numbers that could be read; hardware counters are not used here."))
}

//! Average latency [LFB Fig. 6].

use super::latency::{LOADS, charts, grid, place, schemes};
use super::{AHEAD, CAPTURES};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::virtual_time::{CACHE_COST, IMBALANCE, LOCK_COST, MOVE_COST};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig6_average_latency",
    place: "Fig. 6",
    claim: "direct hash has the highest average latency on all three captures",
    numbers: "none: the bars have no numbers, the slide states an order",
    fidelity: &[Fidelity::Simulated],
    switches: &[IMBALANCE],
    guesses: &[MOVE_COST, LOCK_COST, CACHE_COST],
    draws: 10,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let grid = grid(context)?;
    let high = LOADS.len() - 1;
    // The captures on which hashing is above Packet Handoff and above bundles; the slides do not
    // state whether bundles are stolen.
    let highest = |bundles: &str| -> Vec<&str> {
        CAPTURES
            .iter()
            .zip(&grid)
            .map(|((name, _), by_load)| (*name, &by_load[high]))
            .filter(|(_, row)| row[place("dh")].0 > AHEAD * row[place("ph")].0.max(row[place(bundles)].0))
            .map(|(name, _)| name)
            .collect()
    };
    let (without, with) = (highest("lfb-ns"), highest("lfb"));
    let words = |names: &[&str]| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    let mut outcome = Outcome::new(Agreement::from_check(
        with.len() == 3,
        format!(
            "at {} % load, where bundles are stolen; where they wait for their worker, on {}. At low loads schemes hardly differ",
            LOADS[high],
            if without.len() == 3 { "all three too".to_owned() } else { words(&without) }
        ),
        format!(
            "at {} % load it is the highest on {} where bundles are stolen, and on {} where they wait for their worker",
            LOADS[high],
            words(&with),
            words(&without)
        ),
    ));
    let longer = grid.iter().map(|by_load| {
        let others = ["ph", "lfb-ns", "lfb"].map(|other| by_load[high][place(other)].0);
        by_load[high][place("dh")].0 / others.into_iter().fold(f64::MIN_POSITIVE, f64::max)
    });
    let most = longer.fold(0.0, f64::max);
    outcome = outcome.value(
        Value::new("hashing over the longest of the others, the most", "×", most)
            .within(Band::at_least(0.9)),
    );
    for ((name, _), by_load) in CAPTURES.iter().zip(&grid) {
        for (at, scheme) in schemes(context).into_iter().enumerate() {
            let mut value =
                Value::new(format!("{name}, {} %: {scheme}", LOADS[high]), "µs", by_load[high][at].0);
            if scheme == "flowpull" {
                // Flowloom's scheme must not have the longest wait.
                let others = ["dh", "ph", "lfb-ns", "lfb"].map(|other| by_load[high][place(other)].0);
                let worst = others.into_iter().fold(0.0, f64::max);
                value = value.band(0.0, worst);
            }
            outcome = outcome.value(value);
        }
    }
    let outcome = outcome.note(
        "How flows fall on queues moves hashing's latency by several times. On Many, where the others come near, the hundred thousand packets of \
         a quick run need not show it ahead.",
    );
    let charts = charts(&schemes(context), &grid, "average latency", |cell| cell.0);
    Ok(charts.into_iter().fold(outcome, Outcome::chart))
}

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
    draws: 3,
    run,
    ..Item::PLAIN
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let grid = grid(context)?;
    let high = LOADS.len() - 1;
    // For each load, the captures on which hashing is above Packet Handoff and above bundles; the
    // slides state neither the load nor whether bundles are stolen.
    let highest = |bundles: &str| -> Vec<Vec<&str>> {
        let at = |load: usize| {
            let on = CAPTURES.iter().zip(&grid).filter(|(_, by_load)| {
                let row = &by_load[load];
                row[place("dh")].0 > AHEAD * row[place("ph")].0.max(row[place(bundles)].0)
            });
            on.map(|((name, _), _)| *name).collect()
        };
        (0..LOADS.len()).map(at).collect()
    };
    let (without, with) = (highest("lfb-ns"), highest("lfb"));
    let claimed =
        [&without, &with].map(|loads| loads.iter().filter(|on| on.len() == CAPTURES.len()).count());
    let words = |loads: &[Vec<&str>]| {
        let at = LOADS.iter().zip(loads).map(|(load, on)| {
            let on = match on.len() {
                0 => String::from("none"),
                3 => String::from("all three"),
                _ => on.join(" and "),
            };
            format!("at {load} % on {on}")
        });
        at.collect::<Vec<_>>().join(", ")
    };
    let found = format!(
        "with bundles that wait for their worker hashing has the highest {}; with bundles that are stolen {}",
        words(&without),
        words(&with)
    );
    let mut outcome = Outcome::new(Agreement::from_check(
        claimed.iter().any(|loads| loads * 2 > LOADS.len()),
        found.clone(),
        format!("it depends on the load, which the slides do not state: {found}"),
    ));
    for (bundles, loads) in ["wait for their worker", "are stolen"].into_iter().zip(claimed) {
        let name = format!("loads of {} at which the claim holds, bundles that {bundles}", LOADS.len());
        outcome = outcome.value(Value::new(name, "", loads as f64));
    }
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
        for (load, row) in LOADS.iter().zip(by_load) {
            for (at, scheme) in schemes(context).into_iter().enumerate() {
                let mut value = Value::new(format!("{name}, {load} %: {scheme}"), "µs", row[at].0);
                if scheme == "flowpull" {
                    // Flowloom's scheme must not have the longest wait.
                    let others = ["dh", "ph", "lfb-ns", "lfb"].map(|other| row[place(other)].0);
                    value = value.band(0.0, others.into_iter().fold(0.0, f64::max));
                }
                outcome = outcome.value(value);
            }
        }
    }
    let charts = charts(&schemes(context), &grid, "average latency", |cell| cell.0);
    Ok(charts.into_iter().fold(outcome, Outcome::chart))
}

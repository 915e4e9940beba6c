//! Average latency [LFB Fig. 6].

use super::CAPTURES;
use super::latency::{LOADS, SCHEMES, charts, grid};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig6_average_latency",
    place: "Fig. 6",
    claim: "direct hash has the highest average latency on all three captures",
    fidelity: &[Fidelity::Simulated],
    run,
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let grid = grid(context)?;
    let high = LOADS.len() - 1;
    let highest: Vec<&str> = CAPTURES
        .iter()
        .zip(&grid)
        // Of the schemes of the slides: hashing, handing over, bundles.
        .filter(|(_, by_load)| by_load[high][1..4].iter().all(|other| other.0 < by_load[high][0].0))
        .map(|((name, _), _)| *name)
        .collect();
    let mut outcome = Outcome::new(Verdict::of(
        highest.len() == 3,
        format!("at {} % load; at low loads schemes hardly differ", LOADS[high]),
        format!(
            "at {} % load it is the highest on {}; elsewhere bundles that wait for their worker are, or nothing is",
            LOADS[high],
            if highest.is_empty() { String::from("none") } else { highest.join(" and ") }
        ),
    ));
    for ((name, _), by_load) in CAPTURES.iter().zip(&grid) {
        for (at, scheme) in SCHEMES.into_iter().enumerate() {
            let mut value =
                Value::new(format!("{name}, {} %: {scheme}", LOADS[high]), "µs", by_load[high][at].0);
            if scheme == "flowpull" {
                // Ours must not be the scheme that waits longest.
                let worst = by_load[high][..4].iter().map(|other| other.0).fold(0.0, f64::max);
                value = value.band(0.0, worst);
            }
            outcome = outcome.value(value);
        }
    }
    Ok(charts(&grid, "average latency", |cell| cell.0).into_iter().fold(outcome, Outcome::chart))
}

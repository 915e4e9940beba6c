//! Maximum latency [LFB Fig. 7].

use super::CAPTURES;
use super::latency::{LOADS, charts, grid};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig7_maximum_latency",
    place: "Fig. 7",
    claim: "Last Flow Bundle has the highest maximum on Dominant and Balanced, and not on Many",
    fidelity: &[Fidelity::Simulated],
    switches: &[LAST_WORKER, CACHES],
    guesses: &[MOVE_COST, LOCK_COST, CACHE_COST],
    draws: 3,
    run,
};
use crate::virtual_time::{CACHE_COST, CACHES, LAST_WORKER, LOCK_COST, MOVE_COST};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let grid = grid(context)?;
    // Whether bundles have the highest maximum among the slides' schemes, by capture and load.
    let highest = |steal: usize| -> Vec<Vec<bool>> {
        grid.iter()
            .map(|by_load| by_load.iter().map(|row| row[steal].1 > row[0].1.max(row[1].1)).collect())
            .collect()
    };
    let (without, with) = (highest(2), highest(3));
    let as_claimed = |table: &[Vec<bool>]| {
        (0..LOADS.len()).filter(|&load| table[0][load] && table[2][load] && !table[1][load]).count()
    };
    let words = |table: &[Vec<bool>]| {
        CAPTURES
            .iter()
            .zip(table)
            .map(|((name, _), row)| {
                let loads: Vec<String> = LOADS
                    .iter()
                    .zip(row)
                    .filter(|&(_, &is)| is)
                    .map(|(load, _)| load.to_string())
                    .collect();
                format!(
                    "{name} at {}",
                    if loads.is_empty() { "no load".to_owned() } else { loads.join("/") + " %" }
                )
            })
            .collect::<Vec<_>>()
            .join(", ")
    };
    let claimed = as_claimed(&without).max(as_claimed(&with));
    let mut outcome = Outcome::new(Verdict::of(
        claimed * 2 > LOADS.len(),
        format!("at {claimed} of {} loads", LOADS.len()),
        "a maximum is one packet's luck: which scheme has the highest depends on the load and on whether bundles are stolen",
    ));
    for ((name, _), by_load) in CAPTURES.iter().zip(&grid) {
        for (load, row) in LOADS.iter().zip(by_load) {
            for (scheme, at) in [("dh", 0), ("ph", 1), ("lfb-ns", 2), ("lfb", 3), ("flowpull", 5)] {
                outcome = outcome.value(Value::new(format!("{name}, {load} %: {scheme}"), "µs", row[at].1));
            }
        }
    }
    let outcome = outcome
        .note(format!("Highest without stealing: {}", words(&without)))
        .note(format!("Highest with stealing: {}", words(&with)));
    Ok(charts(&grid, "maximum latency", |cell| cell.1).into_iter().fold(outcome, Outcome::chart))
}

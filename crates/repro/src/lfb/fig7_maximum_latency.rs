//! Maximum latency [LFB Fig. 7].

use super::CAPTURES;
use super::latency::{LOADS, charts, grid, mechanisms, place, schemes};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "lfb/fig7_maximum_latency",
    place: "Fig. 7",
    claim: "Last Flow Bundle has the highest maximum on Dominant and Balanced, and not on Many",
    numbers: "none: the bars have no numbers, the slide states an order",
    fidelity: &[Fidelity::Simulated],
    switches: &[SERVICE_ORDER, LAST_WORKER, CACHES],
    guesses: &[MOVE_COST, LOCK_COST, CACHE_COST],
    draws: 3,
    run,
    ..Item::PLAIN
};
use crate::virtual_time::{CACHE_COST, CACHES, LAST_WORKER, LOCK_COST, MOVE_COST, SERVICE_ORDER};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let grid = grid(context)?;
    // Whether bundles have the highest maximum among the slides' schemes, by capture and load.
    let highest = |bundles: &str| -> Vec<Vec<bool>> {
        let is_highest =
            |row: &Vec<(f64, f64)>| row[place(bundles)].1 > row[place("dh")].1.max(row[place("ph")].1);
        grid.iter().map(|by_load| by_load.iter().map(is_highest).collect()).collect()
    };
    let (without, with) = (highest("lfb-ns"), highest("lfb"));
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
    let claimed = [as_claimed(&without), as_claimed(&with)];
    let found = format!(
        "the claim holds at {} of {} loads with bundles that wait for their worker, which have the highest maximum on {}; and at {} with bundles \
         that are stolen, which have it on {}",
        claimed[0],
        LOADS.len(),
        words(&without),
        claimed[1],
        words(&with)
    );
    let mut outcome = Outcome::new(Agreement::from_check(
        claimed.iter().any(|loads| loads * 2 > LOADS.len()),
        found.clone(),
        found,
    ));
    for (bundles, loads) in ["wait for their worker", "are stolen"].into_iter().zip(claimed) {
        let name = format!("loads of {} at which the claim holds, bundles that {bundles}", LOADS.len());
        outcome = outcome.value(Value::new(name, "", loads as f64));
    }
    for ((name, _), by_load) in CAPTURES.iter().zip(&grid) {
        for (load, row) in LOADS.iter().zip(by_load) {
            for (scheme, cell) in
                schemes(context).iter().zip(row).filter(|(scheme, _)| **scheme != "flowpin")
            {
                outcome = outcome.value(Value::new(format!("{name}, {load} %: {scheme}"), "µs", cell.1));
            }
        }
    }
    let middle = &grid[1][1];
    let order = Value::new(
        format!("Many, {} %: lfb over ph", LOADS[1]),
        "",
        middle[place("lfb")].1 / middle[place("ph")].1,
    );
    // About 0.8 if bundles are served first, and 1.5 if the receive queue is.
    let order = order.band(0.5, 1.0).checked_if(context.scale == Scale::Quick);
    let outcome = outcome.value(order).values(mechanisms(context)?);
    let charts = charts(&schemes(context), &grid, "maximum latency", |cell| cell.1);
    Ok(charts.into_iter().fold(outcome, Outcome::chart))
}

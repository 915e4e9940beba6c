//! Latency with arrivals in waves, for the two figures that show it.

use flowloom_measure::chart::{Axis, Chart, Series};

use super::CAPTURES;
use crate::experiment::{Band, Context, ItemError, Value};
use crate::virtual_time::{CACHES, arriving, run as run_scheme, with_rivals, xeon};

/// The compared schemes, before rivals.
const SCHEMES: [&str; 6] = ["dh", "ph", "lfb-ns", "lfb", "flowpin", "flowpull"];
/// Load in percent of the throughput of eight cores on a capture.
pub(super) const LOADS: [u32; 4] = [30, 50, 70, 80];

/// Mean and maximum in microseconds, by capture, load and scheme.
pub(super) type Grid = Vec<Vec<Vec<(f64, f64)>>>;

/// Returns the compared schemes, in the order of a grid's rows.
pub(super) fn schemes(context: &Context<'_>) -> Vec<&'static str> {
    with_rivals(context, &SCHEMES)
}

/// Returns the place of a built-in scheme in a grid's rows.
pub(super) fn place(scheme: &str) -> usize {
    SCHEMES.iter().position(|known| *known == scheme).unwrap_or(0)
}

/// Runs all combinations. Arrivals are in waves of 2 ms.
pub(super) fn grid(context: &Context<'_>) -> Result<Grid, ItemError> {
    let machine = xeon(context)?;
    let micros = |cycles: u64| cycles as f64 * 1e6 / machine.hertz as f64;
    let mut grid = Vec::new();
    for (_, model) in CAPTURES {
        let packets = context.scale.pick(10_000, 100_000, model.packets());
        let mut by_load = Vec::new();
        for load in LOADS {
            // On Dominant, the order within one connection limits the throughput.
            let offered = arriving(context, model, packets, &machine, load, machine.hertz / 500)?;
            let mut row = Vec::new();
            for scheme in schemes(context) {
                let report = run_scheme(context, scheme, &machine, &offered)?;
                row.push((micros(report.latency.mean()), micros(report.latency.max())));
            }
            by_load.push(row);
        }
        grid.push(by_load);
    }
    Ok(grid)
}

/// Returns the effects of the mechanisms alone, without the order of the schemes: bundles that
/// wait for their worker never move a flow, and fetching a flow's state takes time.
pub(super) fn mechanisms(context: &Context<'_>) -> Result<[Value; 2], ItemError> {
    let (machine, model) = (xeon(context)?, CAPTURES[1].1);
    let free = xeon(&Context { off: Some(CACHES.name), ..*context })?;
    let packets = context.scale.pick(10_000, 50_000, 100_000);
    let offered = arriving(context, model, packets, &machine, LOADS[3], machine.hertz / 500)?;
    let moves = run_scheme(context, "lfb-ns", &machine, &offered)?.migrations;
    let [with, without] = [&machine, &free].map(|machine| run_scheme(context, "dh", machine, &offered));
    let slower = with?.latency.mean() as f64 / without?.latency.mean() as f64;
    Ok([
        Value::new("Many, 80 %: moves of flows by bundles that wait", "", moves as f64).band(0.0, 0.0),
        Value::new("Many, 80 %: latency over that with free caches, dh", "", slower)
            .within(Band::at_least(1.001)),
    ])
}

/// Draws one chart per capture of one of the two numbers.
pub(super) fn charts(
    schemes: &[&'static str],
    grid: &Grid,
    title: &str,
    number: fn(&(f64, f64)) -> f64,
) -> Vec<Chart> {
    CAPTURES
        .iter()
        .zip(grid)
        .map(|((name, _), by_load)| {
            let mut chart =
                Chart::new(format!("{name}: {title}"), Axis::linear("load, %"), Axis::log("microseconds"));
            for (at, scheme) in schemes.iter().enumerate() {
                let points =
                    LOADS.iter().zip(by_load).map(|(&load, row)| (f64::from(load), number(&row[at])));
                chart = chart.with(Series::line(*scheme, points.collect()));
            }
            chart
        })
        .collect()
}

//! The charts of a run.

use std::collections::BTreeMap;

use flowloom_measure::chart::{Axis, Chart, Series};

use crate::pace::Look;
use crate::render::replay::ReplayResult;
use crate::render::save::Named;

/// Maximum number of bars in a chart.
const BARS_MAX: usize = 14;
/// Maximum number of points of a rate over time.
const RATES_MAX: usize = 40;
/// Maximum number of points of a curve.
const POINTS_MAX: usize = 200;

/// All names that [`charts`] uses.
pub(super) const NAMES: [&str; 5] = ["pace", "packets", "workers", "flow-sizes", "protocols"];

/// Returns the charts of a run.
pub(super) fn charts(result: &ReplayResult, sizes: &BTreeMap<u64, u64>, looks: &[Look]) -> Vec<Named> {
    let mut charts = vec![("packets", ends(result))];
    if let Some(chart) = pace(looks) {
        charts.insert(0, ("pace", chart));
    }
    if result.workers.len() > 1 {
        charts.push(("workers", workers(result)));
    }
    if !sizes.is_empty() {
        charts.push(("flow-sizes", flow_sizes(sizes)));
    }
    if let Some(l7) = &result.l7 {
        let mut found: Vec<_> = l7.protocols.iter().collect();
        found.sort_by_key(|protocol| std::cmp::Reverse(protocol.flows));
        found.truncate(BARS_MAX);
        let chart = Chart::bars(
            "Flows by protocol",
            found.iter().map(|protocol| protocol.name),
            Axis::log("flows"),
        );
        charts.push(("protocols", chart.with(bars("flows", found.iter().map(|protocol| protocol.flows)))));
    }
    debug_assert!(charts.iter().all(|(name, _)| NAMES.contains(name)), "names are known before a run");
    charts
}

fn bars(name: &str, heights: impl Iterator<Item = u64>) -> Series {
    Series::bars(name, heights.map(|height| height as f64))
}

/// Packets by their outcome, the most frequent first.
fn ends(result: &ReplayResult) -> Chart {
    let mut ends = vec![("processed", result.processed)];
    let mut others: Vec<(&str, u64)> = result.no_result.iter().collect();
    others.sort_by_key(|&(_, packets)| std::cmp::Reverse(packets));
    let rest: u64 = others.iter().skip(BARS_MAX).map(|&(_, packets)| packets).sum();
    ends.extend(others.into_iter().take(BARS_MAX));
    if rest > 0 {
        ends.push(("other reasons", rest));
    }
    let names = ends.iter().map(|&(name, _)| name);
    Chart::bars("Packets by outcome", names, Axis::log("packets"))
        .with(bars("packets", ends.iter().map(|&(_, packets)| packets)))
}

/// The rate between samples that are some time apart; `None` for a run without such samples.
fn pace(looks: &[Look]) -> Option<Chart> {
    let begun = looks.iter().rposition(|look| look.1 == 0)?;
    let ended = looks.partition_point(|look| look.1 < looks[looks.len() - 1].1);
    let looks = looks.get(begun..=ended)?;
    let start = looks.first()?.0;
    // Counts arrive one batch at a time. A shorter interval would show only the batches.
    let step = looks.len().div_ceil(RATES_MAX);
    let apart: Vec<Look> = looks.iter().step_by(step).copied().collect();
    let rate = |pair: &[Look]| {
        let (before, after) = (pair[0], pair[1]);
        let seconds = after.0 - before.0;
        (seconds > 0.0).then(|| {
            (f64::midpoint(before.0, after.0) - start, (after.1 - before.1) as f64 / seconds / 1e6)
        })
    };
    let points: Vec<(f64, f64)> = apart.windows(2).filter_map(rate).collect();
    (points.len() >= 3).then(|| {
        Chart::new("Packets read", Axis::linear("seconds"), Axis::linear("million packets per second"))
            .with(Series::line("rate", points))
    })
}

fn workers(result: &ReplayResult) -> Chart {
    let workers = &result.workers;
    Chart::bars("Packets per worker", (0..workers.len()).map(|i| i.to_string()), Axis::linear("packets"))
        .with(bars("processed", workers.iter().map(|worker| worker.processed)))
        .with(bars("dropped", workers.iter().map(|worker| worker.dropped)))
}

/// The share of flows with at least so many packets, and the share of packets in those flows.
/// `sizes` maps a size to the number of flows of that size.
fn flow_sizes(sizes: &BTreeMap<u64, u64>) -> Chart {
    let all: u64 = sizes.values().sum();
    let packets: u64 = sizes.iter().map(|(size, flows)| size * flows).sum();
    let largest = sizes.last_key_value().map_or(1, |(&size, _)| size) as f64;
    let (mut flows, mut in_them) = (Vec::new(), Vec::new());
    let (mut smaller, mut in_smaller) = (0, 0);
    let mut next = 0.0;
    for (&size, &same) in sizes {
        // Equal steps of the logarithm show all small sizes without crowding the large ones.
        if size as f64 >= next {
            flows.push((size as f64, (all - smaller) as f64 * 100.0 / all as f64));
            in_them.push((size as f64, (packets - in_smaller) as f64 * 100.0 / packets.max(1) as f64));
            next = size as f64 * largest.max(2.0).powf(1.0 / POINTS_MAX as f64);
        }
        smaller += same;
        in_smaller += size * same;
    }
    Chart::new("Sizes of flows", Axis::log("packets per flow, at least"), Axis::linear("%"))
        .with(Series::line("flows of that size or more", flows))
        .with(Series::line("packets of these flows", in_them))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(sizes: impl IntoIterator<Item = u64>) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        sizes.into_iter().for_each(|size| *counts.entry(size).or_default() += 1);
        counts
    }

    #[test]
    fn shares_of_flows_begin_at_all_and_end_at_the_largest() {
        let chart = flow_sizes(&counted([1, 1, 2, 96]));
        assert_eq!(chart.series[0].points, [(1.0, 100.0), (2.0, 50.0), (96.0, 25.0)]);
        assert_eq!(chart.series[1].points, [(1.0, 100.0), (2.0, 98.0), (96.0, 96.0)]);
        let chart = flow_sizes(&counted((0..1_000_000_u64).map(|i| i * i % 99_991 + 1)));
        assert!(chart.series[0].points.len() <= POINTS_MAX + 1);
    }

    #[test]
    fn a_rate_is_that_between_two_looks() {
        assert_eq!(pace(&[(0.0, 0), (0.1, 5)]), None);
        assert_eq!(pace(&[]), None);
        assert_eq!(pace(&[(0.0, 0), (0.1, 0), (0.2, 0)]), None);
        let looks =
            [(0.0, 0), (1.0, 0), (2.0, 3_000_000), (2.5, 4_000_000), (3.5, 5_000_000), (4.0, 5_000_000)];
        let chart = pace(&looks).unwrap();
        assert_eq!(chart.series[0].points, [(0.5, 3.0), (1.25, 2.0), (2.0, 1.0)]);
        let looks: Vec<Look> = (0..1000_u32).map(|i| (f64::from(i), u64::from(i) * 1_000_000)).collect();
        let points = &pace(&looks).unwrap().series[0].points;
        assert!(
            (30..=RATES_MAX).contains(&points.len())
                && points.iter().all(|point| (point.1 - 1.0).abs() < 1e-9)
        );
    }
}

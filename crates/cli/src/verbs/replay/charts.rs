//! The charts of a run.

use flowloom_measure::chart::{Axis, Chart, Series};

use crate::pace::Look;
use crate::render::replay::ReplayResult;
use crate::render::save::Named;
use crate::render::traffic::{DurationSums, SizeSums, SumFigures, TrafficFigures};

/// Maximum number of bars in a chart.
const BARS_MAX: usize = 14;
/// Maximum number of points of a rate over time.
const RATES_MAX: usize = 40;

/// All names that [`charts`] uses.
pub(super) const NAMES: [&str; 8] = [
    "traffic-packets", "traffic-bits", "pace", "packets", "workers", "flow-sizes", "flow-durations",
    "protocols",
];

/// Returns the charts of a run.
pub(super) fn charts(result: &ReplayResult, looks: &[Look]) -> Vec<Named> {
    let mut charts = Vec::new();
    if let Some(traffic) = result.traffic.as_ref().filter(|traffic| !traffic.packets.is_empty()) {
        charts.extend(over_time(traffic));
    }
    if let Some(sums) = &result.sums {
        charts.push(("flow-sizes", flow_sizes(sums)));
        charts.extend(sums.flow_durations.as_deref().map(|them| ("flow-durations", flow_durations(them))));
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
    // What concerns the run, not the traffic, comes last.
    charts.push(("packets", ends(result)));
    if result.workers.len() > 1 {
        charts.push(("workers", workers(result)));
    }
    charts.extend(pace(looks).map(|chart| ("pace", chart)));
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
        Chart::new(
            "Speed of the run",
            Axis::linear("seconds of the run"),
            Axis::linear("million packets per second"),
        )
        .with(Series::line("million packets per second", points))
    })
}

fn workers(result: &ReplayResult) -> Chart {
    let workers = &result.workers;
    Chart::bars("Packets per worker", (0..workers.len()).map(|i| i.to_string()), Axis::linear("packets"))
        .with(bars("processed", workers.iter().map(|worker| worker.processed)))
        .with(bars("dropped", workers.iter().map(|worker| worker.dropped)))
}

/// Packets and bits per second by packet time and protocol, each at the middle of its interval.
fn over_time(traffic: &TrafficFigures) -> [Named; 2] {
    let seconds = traffic.interval_ns as f64 / 1e9;
    let x = format!("seconds of packet time, by intervals of {}", duration(traffic.interval_ns));
    let chart = |title: &str, y: &str, factor: f64, [all, tcp, udp]: [&[u64]; 3]| {
        let layer = |name: &str, count: &dyn Fn(usize) -> u64| {
            let middle = |at: usize| (2 * at as u64 + 1).saturating_mul(traffic.interval_ns) as f64 / 2e9;
            let place = |at| (middle(at), count(at) as f64 * factor / seconds);
            Series::line(name, (0..all.len()).map(place).collect())
        };
        Chart::new(title, Axis::linear(&x), Axis::linear(y))
            .stacked()
            .with(layer("TCP", &|at| tcp[at]))
            .with(layer("UDP", &|at| udp[at]))
            .with(layer("other", &|at| all[at].saturating_sub(tcp[at] + udp[at])))
    };
    let packets = [&traffic.packets[..], &traffic.tcp_packets, &traffic.udp_packets];
    let bytes = [&traffic.bytes[..], &traffic.tcp_bytes, &traffic.udp_bytes];
    [
        ("traffic-packets", chart("Packets over time", "packets per second", 1.0, packets)),
        ("traffic-bits", chart("Bits over time", "bits per second on the wire", 8.0, bytes)),
    ]
}

/// Returns a round duration with its unit.
fn duration(ns: u64) -> String {
    let units = [(86_400_000_000_000, "d"), (3_600_000_000_000, "h"), (60_000_000_000, "min")];
    let small = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "µs")];
    let unit = units.into_iter().chain(small).find(|(unit, _)| ns >= *unit && ns.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{ns} ns"), |(unit, name)| format!("{} {name}", ns / unit))
}

/// The shares of flows and of their packets, by sizes from a power of two to the next.
fn flow_sizes(sums: &SumFigures) -> Chart {
    let share = |part: u64, whole: u64| part as f64 * 100.0 / whole.max(1) as f64;
    let names = sums.flow_sizes.iter().map(|size| short(size.packets_from));
    let shares = |name: &str, part: fn(&SizeSums) -> u64, whole| {
        Series::bars(name, sums.flow_sizes.iter().map(|size| share(part(size), whole)))
    };
    Chart::bars("Flows by number of packets, from a power of two to the next", names, Axis::linear("%"))
        .with(shares("of all flows", |size| size.flows, sums.flows))
        .with(shares("of all packets", |size| size.packets, sums.packets))
}

fn short(number: u64) -> String {
    match number {
        0..1_000 => number.to_string(),
        1_000..1_000_000 => format!("{}k", number / 1000),
        _ => format!("{}M", number / 1_000_000),
    }
}

/// Flows by durations from a power of ten to the next.
fn flow_durations(durations: &[DurationSums]) -> Chart {
    let names = durations.iter().map(|them| match them.from_ns {
        0 => String::from("below 1 µs"),
        from => format!("from {}", duration(from)),
    });
    Chart::bars("Flows by duration", names, Axis::log("flows"))
        .with(bars("flows", durations.iter().map(|them| them.flows)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_rate_is_placed_at_the_middle_of_its_interval() {
        let traffic = TrafficFigures {
            begin_ns: 7_000,
            interval_ns: 20_000_000,
            packets: vec![3, 0, 1],
            bytes: vec![100, 0, 50],
            tcp_packets: vec![1, 0, 1],
            tcp_bytes: vec![60, 0, 50],
            udp_packets: vec![0; 3],
            udp_bytes: vec![0; 3],
        };
        let [(_, packets), (_, bits)] = over_time(&traffic);
        assert_eq!(packets.series[0].points, [(0.01, 50.0), (0.03, 0.0), (0.05, 50.0)]);
        assert_eq!(packets.series[2].points, [(0.01, 100.0), (0.03, 0.0), (0.05, 0.0)]);
        assert_eq!(bits.series[2].points[0], (0.01, 16_000.0));
        assert!(packets.x.label.ends_with("intervals of 20 ms"), "{}", packets.x.label);
        assert_eq!(
            [1_000, 60_000_000_000, 86_400_000_000_000, 7].map(duration),
            ["1 µs", "1 min", "1 d", "7 ns"]
        );
    }

    #[test]
    fn rate_covers_the_time_between_two_samples() {
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

//! Growth of the lookup time with the number of sessions [DHASH §V-C, Fig. 4].

use std::hint::black_box;

use flowloom::flow_table::baseline::PAPER_BUCKETS;
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Flows, chained, dhash, look_up, look_up_rival, rival};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::timing::{Timed, nanoseconds};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/fig4_lookup_time",
    place: "§V-C, Fig. 4",
    claim: "lookup time hardly grows from File-1 to File-3; that of 1,040 lists does. One core handles 3.3 Mpps",
    numbers: "text of §V-C; the curves of Fig. 4 are not legible in our copy",
    fidelity: &[Fidelity::Measured],
    switches: &[BUCKETS],
    run,
    ..Item::PLAIN
};

pub(super) const BUCKETS: Switch =
    Switch::mechanism("buckets", "lists stand in the place of DHash's buckets of sixteen slots");

/// Further numbers of lists, for which the paper draws lines as well. Its text has them for Fig. 6.
const MORE_LISTS: [(u32, &str); 3] =
    [(10_000, "10,000 lists"), (100_000, "100,000 lists"), (1_000_000, "1,000,000 lists")];

/// The greatest growth that is "hardly" any: a tenth, as for a value that the paper states.
const HARDLY: f64 = 1.1;
/// The least growth of 1,040 lists, of which four times the sessions are four times as long.
const LISTS_GROW: f64 = 3.0;

/// Returns the verdict on the growth of DHash's time, that of 1,040 lists, and those of more lists.
fn verdict(flat: f64, grown: f64, more: &[(&str, f64)]) -> Agreement {
    let lists: Vec<(&str, f64)> =
        [("1,040 lists", grown)].into_iter().chain(more.iter().copied()).collect();
    let growths: Vec<String> =
        lists.iter().map(|(name, growth)| format!("{growth:.2} in {name}")).collect();
    let twice = lists.iter().filter(|(_, growth)| *growth - 1.0 > 2.0 * (flat - 1.0)).count();
    let found = format!(
        "with four times the sessions a lookup takes {flat:.2} times as long in DHash, {}. Hardly growth is {HARDLY} at most, \
         1,040 lists have to grow {LISTS_GROW} times, and {twice} of {} kinds of lists grow by more than twice as much as DHash",
        growths.join(", "),
        lists.len()
    );
    Agreement::from_check(flat <= HARDLY && grown >= LISTS_GROW, found.clone(), found)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let divisor = context.scale.pick(64, 1, 1);
    // The time to fill lists is quadratic in their length, so a quick run has fewer sessions in
    // fewer lists, which are as long as the paper's.
    let lists_divisor = context.scale.pick(64, 16, 1);
    let (mut ours, mut lists, mut batched) = (Vec::new(), Vec::new(), Vec::new());
    let rivals = context.rivals.tables;
    let mut others = vec![Vec::new(); rivals.len()];
    let mut more = [const { Vec::new() }; MORE_LISTS.len()];
    for sessions in [262_144_u32, 524_288, 1_048_576] {
        context.check_stop()?;
        let flows = Flows::new(sessions / divisor, context.seed);
        let table = dhash(&flows)?;
        let listed = Flows::new(sessions / lists_divisor, context.seed);
        let chains = chained(&listed, PAPER_BUCKETS / lists_divisor)?;
        let longer = MORE_LISTS
            .iter()
            .map(|(buckets, _)| chained(&listed, buckets / lists_divisor))
            .collect::<Result<Vec<_>, _>>()?;
        let few = listed.keys.len().min(context.scale.pick(1000, 4000, 20_000));
        let all = flows.keys.len();
        let tables: Vec<_> = rivals.iter().map(|one| rival(one, &flows)).collect::<Result<_, _>>()?;
        let mut timed = vec![
            if context.is_off(&BUCKETS) {
                Timed::new("dhash", few as u64, || {
                    black_box(look_up(&chains, &listed, few));
                })
            } else {
                Timed::new("dhash", all as u64, || {
                    black_box(look_up(&table, &flows, all));
                })
            },
            Timed::new("lists", few as u64, || {
                black_box(look_up(&chains, &listed, few));
            }),
            Timed::new("dhash, batches", all as u64, || {
                black_box(flows.hits(&table, 32));
            }),
        ];
        timed.extend(rivals.iter().zip(&tables).map(|(one, table)| {
            Timed::new(one.name, all as u64, || {
                black_box(look_up_rival(&**table, &flows, all));
            })
        }));
        timed.extend(MORE_LISTS.iter().zip(&longer).map(|((_, name), lists)| {
            Timed::new(*name, few as u64, || {
                black_box(look_up(lists, &listed, few));
            })
        }));
        let times = nanoseconds(context, context.scale.pick(3, 5, 9), timed)?;
        let at = f64::from(sessions);
        ours.push((at, times[0]));
        lists.push((at, times[1]));
        batched.push((at, times[2]));
        for (points, time) in others.iter_mut().chain(&mut more).zip(&times[3..]) {
            points.push((at, *time));
        }
    }
    let growth = |series: &[(f64, f64)]| series[2].1 / series[0].1;
    let (flat, grown) = (growth(&ours), growth(&lists));
    let others_grown: Vec<(&str, f64)> =
        MORE_LISTS.iter().zip(&more).map(|((_, name), points)| (*name, growth(points))).collect();
    let checked = context.scale == Scale::Full;
    let mut chart = Chart::new("Time of a lookup, state included", Axis::log("sessions"), Axis::log("ns"))
        .with(Series::line("DHash, one by one", ours.clone()))
        .with(Series::line("DHash, batches of 32", batched.clone()))
        .with(Series::line("1,040 lists", lists.clone()));
    let of = |divisor: u32, lists: &str| {
        (divisor > 1).then(|| format!("At this scale {lists} divided by {divisor}."))
    };
    let scaled = [
        of(divisor, "the sessions of DHash are"),
        of(
            lists_divisor,
            "lists and their sessions, which stay as long but are closer to the processor, are",
        ),
    ];
    let mut rows = Vec::new();
    // Lists of ten to a hundred sessions grow with the sessions, as those of 1,040 do; where there
    // are as many lists as sessions, searches hardly become longer.
    let bands = [Band::at_least(2.0), Band::at_least(1.5), Band { low: 0.7, high: 4.0 }];
    for (((name, growth), points), band) in others_grown.iter().zip(more).zip(bands) {
        let growth = Value::new(format!("{name}, File-3 by File-1"), "×", *growth);
        rows.push(growth.within(band).checked_if(checked));
        chart = chart.with(Series::line(*name, points));
    }
    for (one, points) in rivals.iter().zip(others) {
        rows.push(Value::new(format!("lookups of File-3 in {}", one.name), "M/s", 1e3 / points[2].1));
        chart = chart.with(Series::line(one.name, points));
    }
    let outcome = Outcome::new(verdict(flat, grown, &others_grown))
    .value(Value::new("DHash, File-3 by File-1", "×", flat).band(0.5, 2.0).checked_if(checked))
    .value(Value::new("lists, File-3 by File-1", "×", grown).within(Band::at_least(LISTS_GROW)).checked_if(checked))
    .value(Value::new("lookups of File-3 on one core", "M/s", 1e3 / ours[2].1).paper(3.3).not_comparable(
        "the paper's are whole packets on another processor; the ratio to lists is beside it",
    ))
    .value(Value::new("DHash by lists, lookups of File-3", "×", lists[2].1 / ours[2].1).within(Band::at_least(10.0)).checked_if(context.scale > Scale::Smoke))
    .value(Value::new("the same in batches of 32", "M/s", 1e3 / batched[2].1))
    .value(Value::new("lookups of File-3 in 1,040 lists", "M/s", 1e3 / lists[2].1))
    .values(rows)
    .chart(chart)
    .note(
        "The paper's 3.3 Mpps are whole packets on a processor of its day: a figure beside, no verdict.",
    );
    Ok(scaled.into_iter().flatten().fold(outcome, Outcome::note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_grows_by_a_third_does_not_hardly_grow() {
        let lists = [("10,000 lists", 2.9), ("1,000,000 lists", 1.3)];
        let grows = verdict(1.34, 4.1, &lists);
        assert_eq!(grows.word(), "differs");
        assert!(
            grows.text().starts_with(
                "with four times the sessions a lookup takes 1.34 times as long in DHash, 4.10 in 1,040 lists, \
                 2.90 in 10,000 lists, 1.30 in 1,000,000 lists."
            ),
            "{}",
            grows.text()
        );
        assert!(grows.text().contains("2 of 3 kinds of lists grow by more than twice as much"));
        assert_eq!(verdict(1.08, 4.1, &lists).word(), "agrees");
        assert_eq!(verdict(1.08, 1.08, &lists).word(), "differs", "no lists to compare with");
    }
}

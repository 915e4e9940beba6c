//! The effect of the random draw of the hash functions [TCBCACHE §4.1].

use flowloom::tcb_cache::{CacheSpec, IndexFunction, Policy, Tie};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draw_seed, misses, notes, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/section4_1_draws",
    place: "§4.1",
    claim: "1,000 random draws of the hash functions lie within 2.5 %",
    numbers: "text of §4.1: a limit",
    fidelity: &[Fidelity::Simulated],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

/// Returns the range of the draws, the distance of the highest draw (without the top hundredth)
/// from the median, both in percent of the median, and the median.
fn spread(draws: &[f64]) -> (f64, f64, f64) {
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted[sorted.len() / 2];
    let last = sorted.len() - 1;
    let range = (sorted[last] - sorted[0]) / median * 100.0;
    let tail = (sorted[last * 99 / 100] - median) / median * 100.0;
    (range, tail, median)
}

/// Maximum range of draws in percent of the median. A draw that does not tell all sets apart leaves
/// sets unused, which costs less than half of the cache does (20 to 100 %, see Fig. 15).
const RANGE_MAX: f64 = 40.0;

/// The bits among the sixteen that vary most: the last octet of the address and the two lowest bits
/// of the port, as determined by `fig7_bit_means`.
const VARYING: u64 = 0x00FF_0003;

/// Returns the number of values that a linear function takes over the key bits in `selected`, as a
/// power of two.
fn rank_over(rows: &[u64], selected: u64) -> usize {
    let mut reduced: Vec<u64> = Vec::new();
    for row in rows {
        let rest = reduced.iter().fold(row & selected, |rest, known| rest.min(rest ^ known));
        if rest != 0 {
            reduced.push(rest);
        }
    }
    reduced.len()
}

/// Returns whether the functions of both banks in a draw distinguish all sets by the bits that
/// vary.
fn reaches_all_sets(context: &Context<'_>, spec: CacheSpec, draw: u32) -> Result<bool, ItemError> {
    let indexing = CacheSpec { seed: draw_seed(context, draw), ..spec }
        .indexing()
        .map_err(ItemError::during("drawing index functions"))?;
    Ok(indexing
        .matrices()
        .iter()
        .take(spec.geometry.banks() as usize)
        .all(|matrix| rank_over(matrix.rows(), VARYING) == matrix.rows().len()))
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let draws = context.scale.pick(8, 60, 1000);
    let mut chart = Chart::new(
        format!("Miss ratios of {draws} draws, in order"),
        Axis::linear("draw, in % of all"),
        Axis::linear("misses in %"),
    );
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was drawn"));
    let mut widest = ("", 0.0_f64);
    let mut lacking = 0;
    let full_rank = IndexFunction::H3 { key_bits: 16, full_rank: true };
    for workload in &workloads {
        for (name, spec, is_spec) in [
            ("spec", CacheSpec::PAPER, true),
            ("2-hash", CacheSpec::PAPER.with_policy(Policy::Enru), false),
            (
                "2-hash, full rank",
                CacheSpec { index: full_rank, policy: Policy::Enru, ..CacheSpec::PAPER },
                false,
            ),
            ("no-migrate", CacheSpec::PAPER.with_policy(Policy::NoMigrate { tie: Tie::Left }), false),
        ] {
            let mut found = misses(context, &workload.trace, spec, draws)?.draws;
            let mut others = Vec::new();
            for (draw, percent) in (0..).zip(&found) {
                if reaches_all_sets(context, spec, draw)? {
                    others.push(*percent);
                }
            }
            let (range, tail, median) = spread(&found);
            let short = workload.short;
            if is_spec {
                lacking = found.len() - others.len();
                if range > widest.1 {
                    widest = (short, range);
                }
            }
            let value =
                Value::new(format!("{name}, range of the median, {short}"), "%", range).paper_at_most(2.5);
            let value = value.band(0.05, if is_spec && workload.is_model { 4.0 } else { RANGE_MAX });
            outcome = outcome
                .value(value)
                .value(Value::new(format!("{name}, 99 in 100 above the median, {short}"), "%", tail))
                .value(Value::new(format!("{name}, median, {short}"), "%", median));
            if !others.is_empty() {
                let name = format!("{name}, range of draws that reach all sets, {short}");
                outcome = outcome
                    .value(Value::new(name, "%", spread(&others).0).paper_at_most(2.5).band(0.0, 2.5));
            }
            found.sort_by(f64::total_cmp);
            let last = (found.len() - 1).max(1) as f64;
            let points = found.iter().enumerate().map(|(i, percent)| (i as f64 * 100.0 / last, *percent));
            if name != "no-migrate" {
                chart = chart.with(Series::line(format!("{name}, {short}"), points.collect()));
            }
        }
    }
    let tail = format!(
        "{lacking} of {draws} draws have a bank whose sets are not all told apart by the bits that vary, the last octet and the \
         two lowest of the port: they make the tail. Full rank over all 16 bits does not spare it. The others lie within 2.5 %"
    );
    outcome.verdict = Agreement::from_check(
        widest.1 <= 2.5,
        format!("for the speculative policy. {tail}"),
        format!("the speculative policy's draws lie within {:.1} % on {}. {tail}", widest.1, widest.0),
    );
    outcome.notes = notes(&workloads);
    Ok(outcome.chart(chart).note(format!("{draws} draws; the paper has 1,000, and so has --scale full")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_of_constant_bits_reaches_fewer_sets() {
        let rows = [0x0001_0000, 0x0002_0000, 0x0003_0080];
        assert_eq!(rank_over(&rows, 0x00FF_00FF), 3);
        assert_eq!(rank_over(&rows, VARYING), 2, "the third is the sum of the others but for a port bit");
    }
}

//! How many bits a time stamp needs, and how often auxiliary functions find a line [TCBCACHE §3.4].

use flowloom::tcb_cache::{CacheSpec, Policy, Trace};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{draws, misses, notes, workloads};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/section3_4_stamps",
    place: "§3.4",
    claim: "LRU by time stamps needs more than 24 bits; most hits are found by the first two functions",
    fidelity: &[Fidelity::Simulated],
    run,
};

const BITS: [u32; 8] = [8, 10, 12, 14, 16, 18, 20, 24];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let mut chart = Chart::new(
        "LRU by time stamps of n bits, of LRU without a bound",
        Axis::linear("bits"),
        Axis::linear("misses, of unbounded"),
    );
    let mut outcome = Outcome::new(Verdict::differs(
        "most hits are found by the first two functions, as the paper has it. But 24 bits equal stamps without a bound \
         here: they wrap after 16.8 million accesses, more than our traces have. What wraps once in a while costs little; \
         16 bits wrap every 65,536 accesses and cost a tenth on the model and half on the real day's sessions",
    ));
    for workload in &workloads {
        let short = workload.short;
        let draws = draws(context);
        let of = |trace: &Trace, bits| {
            misses(context, trace, CacheSpec::PAPER.with_policy(Policy::Timestamp { bits }), draws)
        };
        let unbounded = of(&workload.trace, 32)?.percent;
        let mut points = Vec::new();
        for bits in BITS {
            points.push((f64::from(bits), of(&workload.trace, bits)?.percent / unbounded));
        }
        let at = |bits: u32| {
            points.iter().find(|(b, _)| (*b - f64::from(bits)).abs() < 0.5).map_or(0.0, |p| p.1)
        };
        outcome = outcome.values([
            Value::new(format!("8 bits, of unbounded, {short}"), "", at(8))
                .band(1.2, 3.0)
                .checked_if(workload.is_model),
            Value::new(format!("16 bits, of unbounded, {short}"), "", at(16))
                .band(1.05, 1.4)
                .checked_if(workload.is_model && context.scale > Scale::Smoke),
            Value::new(format!("24 bits, of unbounded, {short}"), "", at(24)).band(1.0, 1.0),
        ]);
        chart = chart.with(Series::line(short, points));
        let spec = misses(context, &workload.trace, CacheSpec::PAPER, draws)?;
        let ours = misses(context, &workload.trace, CacheSpec::PAPER.with_policy(Policy::FlowLru), draws)?;
        outcome = outcome.values([
            Value::new(
                format!("hits by auxiliary functions, spec, {short}"),
                "%",
                spec.counts.auxiliary_share() * 100.0,
            )
            .band(0.0, 10.0),
            Value::new(
                format!("hits by auxiliary functions, FlowLRU, {short}"),
                "%",
                ours.counts.auxiliary_share() * 100.0,
            )
            .band(0.0, 20.0),
        ]);
    }
    outcome.notes = notes(&workloads);
    Ok(outcome.chart(chart))
}

//! The number of bits that a time stamp needs, and the share of lines that auxiliary functions find
//! [TCBCACHE §3.4].

use flowloom::tcb_cache::{CacheSpec, Policy, Trace};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{STAMP_ORDER, draws, misses, notes, stamped, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/section3_4_stamps",
    place: "§3.4",
    claim: "LRU by time stamps needs more than 24 bits; most hits are found by the first two functions",
    numbers: "none: §3.4 states a number of bits as sufficient, and “most”",
    fidelity: &[Fidelity::Simulated],
    guesses: &[STAMP_ORDER],
    unswitched: SWEPT,
    run,
    ..Item::PLAIN
};

const BITS: [u32; 8] = [8, 10, 12, 14, 16, 18, 20, 24];

/// Results of a trace: misses with 16-bit stamps relative to unlimited ones, and hits by auxiliary
/// functions in percent.
struct StampMisses {
    trace: &'static str,
    sixteen: f64,
    auxiliary: f64,
}

/// Judges the results of the traces. 24-bit stamps wrap after 16.8 million accesses, more than
/// there are here. They wrap 256 times less often than 16-bit stamps, and the cost of a wrap does
/// not depend on its frequency.
fn verdict(found: &[StampMisses]) -> Agreement {
    let costs = |share: f64| (share - 1.0) * 100.0;
    let worst = found.iter().map(|one| costs(one.sixteen)).fold(0.0, f64::max) / 256.0;
    let sixteen: Vec<String> =
        found.iter().map(|one| format!("{:.0} % on {}", costs(one.sixteen), one.trace)).collect();
    let auxiliary = found.iter().map(|one| one.auxiliary).fold(0.0, f64::max);
    let text = format!(
        "auxiliary functions find {auxiliary:.1} % of the hits at most. Stamps of 16 bits, which wrap every 65,536 accesses, cost {} more \
         misses; those of 24 wrap 256 times less often, so {worst:.2} % more at most",
        sixteen.join(", ")
    );
    Agreement::from_check(worst > 1.0 && auxiliary < 50.0, text.clone(), text)
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let mut chart = Chart::new(
        "LRU by time stamps of n bits, of LRU without a bound",
        Axis::linear("bits"),
        Axis::linear("misses, of unbounded"),
    );
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was simulated"));
    let mut found = Vec::new();
    for workload in &workloads {
        let short = workload.short;
        let draws = draws(context);
        let stamped_misses = |trace: &Trace, bits| {
            misses(context, trace, CacheSpec::PAPER.with_policy(stamped(context, bits)), draws)
        };
        let unbounded = stamped_misses(&workload.trace, 32)?.percent;
        let mut points = Vec::new();
        for bits in BITS {
            points.push((f64::from(bits), stamped_misses(&workload.trace, bits)?.percent / unbounded));
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
            Value::new(format!("18 bits, of unbounded, {short}"), "", at(18)).band(1.0, at(16)),
            Value::new(format!("24 bits, of unbounded, {short}"), "", at(24)).band(1.0, 1.0),
        ]);
        let sixteen = at(16);
        chart = chart.with(Series::line(short, points));
        let spec = misses(context, &workload.trace, CacheSpec::PAPER, draws)?;
        let ours = misses(context, &workload.trace, CacheSpec::PAPER.with_policy(Policy::FlowLru), draws)?;
        found.push(StampMisses { trace: short, sixteen, auxiliary: spec.counts.auxiliary_share() * 100.0 });
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
    outcome.verdict = verdict(&found);
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note("stamps of 20 bits and more hardly wrap here or not at all: that they equal unbounded ones is no measurement"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_more_misses_with_sixteen_bits_agree_with_the_paper() {
        let found = |sixteen| [StampMisses { trace: "one", sixteen, auxiliary: 3.0 }];
        assert_eq!(verdict(&found(1.5)).word(), "differs");
        assert!(
            verdict(&found(1.5)).text().ends_with("so 0.20 % more at most"),
            "{}",
            verdict(&found(1.5)).text()
        );
        assert_eq!(verdict(&found(5.0)).word(), "agrees");
    }
}

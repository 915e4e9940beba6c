//! The frequency with which each bit of address and port is set [TCBCACHE §3.2, Fig. 7].

use std::collections::BTreeSet;

use flowloom::tcb_cache::model::Ports;
use flowloom::tcb_cache::{CacheSpec, IndexFunction, Trace};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Workload, draws, length, misses, model_s_from, notes, workloads};
use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig7_bit_means",
    place: "§3.2, Fig. 7",
    claim: "bits of the address are alike; of the port, the eight low bits are set about half of the time and the others are not",
    numbers: "text of §3.2: 0.5 for a good bit; the bars of Fig. 7 are not legible in our copy",
    fidelity: &[Fidelity::Simulated],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

/// Returns the mean of each key bit over the sessions of a trace, the lowest bit first.
fn means(workload: &Workload) -> Vec<f64> {
    let keys: BTreeSet<u64> = workload.trace.accesses().iter().map(|access| access.key()).collect();
    let share = |bit: u32| keys.iter().filter(|key| *key >> bit & 1 == 1).count() as f64;
    (0..48).map(|bit| share(bit) / keys.len().max(1) as f64).collect()
}

/// Returns the misses of a single Universal function, relative to those of Mod.
fn left_by_hashing(context: &Context<'_>, trace: &Trace) -> Result<f64, ItemError> {
    let means = |index| {
        let spec = CacheSpec { index, ..CacheSpec::BASELINE };
        Ok::<f64, ItemError>(misses(context, trace, spec, draws(context) * 3)?.median())
    };
    Ok(means(IndexFunction::PAPER)? / means(IndexFunction::Modulo)?)
}

/// Judges the misses of hashing relative to Mod, with ports as in Fig. 7 and with skewed ports.
/// Logs have no ports, and the day's addresses are derived from names, so the bit means themselves
/// are input of the simulation.
fn verdict(even: f64, skewed: f64) -> Agreement {
    let found = format!(
        "the logs have no ports, and names in place of addresses, so both are drawn and their bits say nothing. But with low port bits that \
         are set half of the time, as in Fig. 7, one Universal function has {even:.2} of Mod's misses, and with ours, skewed (paper-like), \
         {skewed:.2}"
    );
    if even > 0.9 {
        Agreement::differs(format!(
            "{found}: ports as in Fig. 7 leave hashing nothing to gain, and Figs. 4 and 12 have it gain a third and more"
        ))
    } else {
        Agreement::cannot_run(found)
    }
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    // The paper's bit 0 is the most significant bit.
    let place = |means: &[f64], from: usize, bits: usize| -> Vec<(f64, f64)> {
        (0..bits).map(|bit| (bit as f64, means[from + bits - 1 - bit])).collect()
    };
    let mut address =
        Chart::new("Address: mean of each bit", Axis::linear("bit, 0 the highest"), Axis::linear("mean"));
    let mut port =
        Chart::new("Port: mean of each bit", Axis::linear("bit, 0 the highest"), Axis::linear("mean"));
    let mut outcome = Outcome::new(Agreement::cannot_run("nothing was simulated"));
    for workload in &workloads {
        let means = means(workload);
        let short = workload.short;
        let off = |bits: std::ops::Range<usize>| {
            let count = bits.len();
            bits.map(|bit| (means[bit] - 0.5).abs()).sum::<f64>() / count as f64
        };
        address = address.with(Series::line(short, place(&means, 16, 32)));
        port = port.with(Series::line(short, place(&means, 0, 16)));
        outcome = outcome.values([
            Value::new(format!("address, mean distance from one half, {short}"), "", off(16..48))
                .band(0.0, 0.2)
                .checked_if(workload.is_model),
            Value::new(
                format!("two lowest port bits, mean, {short}"),
                "",
                f64::midpoint(means[0], means[1]),
            )
            .paper(0.5)
            .band(0.3, 0.5),
            Value::new(
                format!("port bits 2 to 7, mean, {short}"),
                "",
                means[2..8].iter().sum::<f64>() / 6.0,
            )
            .paper(0.5)
            .band(0.01, 0.15)
            .apart("the logs have no ports; those that are drawn leave these bits clear, so that Figs. 4 and 12 can be"),
            Value::new(format!("upper port bits but bit 10, mean, {short}"), "", {
                let upper = means[8..10].iter().chain(&means[11..16]);
                upper.sum::<f64>() / 7.0
            })
            .band(0.0, 0.01),
        ]);
    }
    let even = model_s_from(context, 1600, 4.0, length(context), Ports::Uniform)?;
    let [skewed, even] =
        [left_by_hashing(context, &workloads[0].trace)?, left_by_hashing(context, &even.trace)?];
    outcome.verdict = verdict(even, skewed);
    outcome = outcome.values([
        Value::new("1-Universal of Mod, low port bits even as in Fig. 7", "", even).band(0.9, 1.1),
        Value::new("1-Universal of Mod, paper-like ports", "", skewed).band(0.4, 0.75),
    ]);
    outcome.notes = notes(&workloads);
    Ok(outcome.chart(address).chart(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_bits_do_not_count_as_agreement() {
        assert_eq!(verdict(0.6, 0.55).word(), "cannot run");
        assert_eq!(verdict(1.0, 0.55).word(), "differs");
    }
}

//! How often each bit of address and port is set [TCBCACHE §3.2, Fig. 7].

use std::collections::BTreeSet;

use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{Workload, notes, workloads};
use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Value, Verdict};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig7_bit_means",
    place: "§3.2, Fig. 7",
    claim: "bits of the address are alike; of the port, the eight low bits are set about half of the time and the others are not",
    fidelity: &[Fidelity::Simulated],
    run,
};

/// Returns the mean of each key bit over the sessions of a trace, the lowest first.
fn means(workload: &Workload) -> Vec<f64> {
    let keys: BTreeSet<u64> = workload.trace.accesses().iter().map(|access| access.key()).collect();
    let share = |bit: u32| keys.iter().filter(|key| *key >> bit & 1 == 1).count() as f64;
    (0..48).map(|bit| share(bit) / keys.len().max(1) as f64).collect()
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    // The paper's bit 0 is the most significant.
    let place = |means: &[f64], from: usize, bits: usize| -> Vec<(f64, f64)> {
        (0..bits).map(|bit| (bit as f64, means[from + bits - 1 - bit])).collect()
    };
    let mut address =
        Chart::new("Address: mean of each bit", Axis::linear("bit, 0 the highest"), Axis::linear("mean"));
    let mut port =
        Chart::new("Port: mean of each bit", Axis::linear("bit, 0 the highest"), Axis::linear("mean"));
    let mut outcome = Outcome::new(Verdict::differs(
        "address bits are alike, and the upper port bits say nothing, as the paper has it. But low port bits that are \
         set half of the time make Mod an even function, and then no hash gains anything: the paper's miss ratios need \
         ports as skewed as ours (paper-like), where only the lowest bits vary much",
    ));
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
            .band(0.0, 0.15),
            Value::new(format!("upper port bits but bit 10, mean, {short}"), "", {
                let upper = means[8..10].iter().chain(&means[11..16]);
                upper.sum::<f64>() / 7.0
            })
            .band(0.0, 0.01),
        ]);
    }
    outcome.notes = notes(&workloads);
    Ok(outcome.chart(address).chart(port))
}

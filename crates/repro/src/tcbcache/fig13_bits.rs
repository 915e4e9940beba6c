//! Hash functions over n bits of the key, and their cost in gates [TCBCACHE §4.3, Fig. 13].

use flowloom::tcb_cache::cost::h3_output_bit;
use flowloom::tcb_cache::{CacheSpec, IndexFunction, Policy};
use flowloom_measure::chart::{Axis, Chart, Series};

use super::workload::{PORTS, PORTS_NOTE, draws, misses, notes, workloads};
use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::SWEPT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "tcbcache/fig13_bits",
    place: "§4.3, Fig. 13",
    claim: "16 bits of the key do as well as 48, 8 do not; an output bit takes 31 gates and 5 delays instead of 95 and 7",
    numbers: "text of §4.3: gates and delays; 1 for “the same” as 48 bits",
    fidelity: &[Fidelity::Simulated, Fidelity::Arithmetic],
    unswitched: SWEPT,
    guesses: &[PORTS],
    run,
    ..Item::PLAIN
};

const BITS: [u32; 7] = [8, 12, 16, 20, 24, 32, 40];

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let workloads = workloads(context)?;
    let mut chart = Chart::new(
        "Misses by bits of the key, of those of 48",
        Axis::linear("bits"),
        Axis::linear("of 48 bits"),
    );
    let mut agrees = true;
    let (gates_16, delays_16) = h3_output_bit(16);
    let (gates_48, delays_48) = h3_output_bit(48);
    let mut outcome = Outcome::new(Agreement::agrees(""))
        .value(
            Value::new("gates of an output bit, 16 bits", "", gates_16.into()).paper(31.0).band(31.0, 31.0),
        )
        .value(
            Value::new("gates of an output bit, 48 bits", "", gates_48.into()).paper(95.0).band(95.0, 95.0),
        )
        .value(Value::new("gate delays, 16 bits", "", delays_16.into()).paper(5.0).band(5.0, 5.0))
        .value(Value::new("gate delays, 48 bits", "", delays_48.into()).paper(7.0).band(7.0, 7.0));
    // A few draws are sufficient for the curve, but not for a difference of 2 %: a single bad
    // matrix shows.
    let draws = draws(context) * 3;
    for workload in &workloads {
        for (name, policy) in [("2-hash", Policy::Enru), ("spec", CacheSpec::PAPER.policy)] {
            let misses = |key_bits| {
                let index = IndexFunction::H3 { key_bits, full_rank: false };
                Ok::<f64, ItemError>(
                    misses(
                        context,
                        &workload.trace,
                        CacheSpec { index, policy, ..CacheSpec::PAPER },
                        draws,
                    )?
                    .percent,
                )
            };
            let all = misses(48)?;
            let mut points = Vec::new();
            for bits in BITS {
                points.push((f64::from(bits), misses(bits)? / all));
            }
            let (eight, sixteen) = (points[0].1, points[2].1);
            let short = workload.short;
            let alike = match (workload.is_model, context.scale) {
                (true, Scale::Quick | Scale::Full) => Band::around(1.0, 0.05),
                _ => Band::around(1.0, 0.15),
            };
            if workload.is_model {
                agrees &= sixteen < 1.02 && eight > 1.5;
            }
            outcome = outcome
                .value(
                    Value::new(format!("8 bits of 48, {name}, {short}"), "", eight)
                        .band(1.5, 4.0)
                        .checked_if(workload.is_model),
                )
                .value(
                    Value::new(format!("16 bits of 48, {name}, {short}"), "", sixteen)
                        .paper(1.0)
                        .within(alike),
                );
            chart = chart.with(Series::line(format!("{name}, {short}"), points));
        }
    }
    outcome.verdict = Agreement::from_check(
        agrees,
        "16 bits are as good as 48, and 8 collapse: they are of the port alone",
        "16 bits are not as good as 48, or 8 do not collapse",
    );
    outcome.notes = notes(&workloads);
    Ok(outcome
        .chart(chart)
        .note(format!("mean of {draws} draws; bits are chosen as Fig. 8 has them"))
        .note(PORTS_NOTE))
}

//! `DirectHash` against `SigHash` [FLOWNP §6.3, Fig. 10].
//!
//! The two tables are compared on one core. The paper's sweep over threads is not: its knee is a memory controller's queue of
//! read commands, and the text gives neither its depth nor the latencies that a model would need. A curve drawn
//! through the paper's own points would show nothing.

use std::hint::black_box;

use flowloom::flow_table::baseline::{DirectTable, DirectTableConfig};
use flowloom::flow_table::{FlowTable, SigHash, SigHashConfig};
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::lookup::{Flows, State};

use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};
use crate::timing::{Timed, nanoseconds};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig10_direct_vs_signature",
    place: "§6.3, Fig. 10",
    claim: "SigHash reaches 10 Gbps where DirectHash stops at 8.3, with a knee at 40 threads",
    fidelity: &[Fidelity::Measured],
    run,
};

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let count: u32 = context.scale.pick(1 << 13, 1 << 18, 1 << 21);
    let flows = Flows::<2>::new(count, context.seed);
    let mut signatures = SigHash::<[u64; 2], State>::try_new(&SigHashConfig {
        buckets: Some(count),
        ..SigHashConfig::for_flows(count)
    })
    .map_err(ItemError::during("building SigHash"))?;
    let mut direct = DirectTable::<[u64; 2], State>::try_new(&DirectTableConfig::for_flows(count))
        .map_err(ItemError::during("building DirectHash"))?;
    flows.fill(&mut signatures).map_err(ItemError::during("filling SigHash"))?;
    flows.fill(&mut direct).map_err(ItemError::during("filling DirectHash"))?;
    context.check_stop()?;
    let items = u64::from(count);
    let times = nanoseconds(
        context,
        context.scale.pick(3, 7, 11),
        vec![
            Timed::new("SigHash", items, || {
                black_box(flows.hits(&signatures, 64));
            }),
            Timed::new("DirectHash", items, || {
                black_box(flows.hits(&direct, 64));
            }),
            Timed::new("SigHash, single", items, || {
                black_box(flows.single_hits(&signatures));
            }),
            Timed::new("DirectHash, single", items, || {
                black_box(flows.single_hits(&direct));
            }),
        ],
    )?;
    let stats = direct.stats();
    let batched = times[1] / times[0];
    Ok(Outcome::new(Verdict::of(
        batched > 1.0,
        "SigHash is ahead where lookups overlap, as the paper's threads make them; one by one the two are alike, for both \
         read two lines",
        "SigHash was not ahead in this run",
    ))
    .value(Value::new("DirectHash by SigHash, batches of 64", "×", batched).paper(10.0 / 8.3).band(1.0, 10.0).checked_if(context.scale > Scale::Smoke))
    .value(Value::new("DirectHash by SigHash, one by one", "×", times[3] / times[2]))
    .value(Value::new("SigHash, batches of 64", "ns", times[0]))
    .value(Value::new("DirectHash, batches of 64", "ns", times[1]))
    .value(Value::new("flows of DirectHash in lists", "%", f64::from(stats.displaced) * 100.0 / f64::from(stats.len)))
    .chart(
        Chart::bars("Lookups, state included", ["batches of 64", "one by one"], Axis::linear("ns"))
            .with(Series::bars("SigHash", [times[0], times[2]]))
            .with(Series::bars("DirectHash", [times[1], times[3]])),
    )
    .note("The sweep over threads and its knee at 40 are not run: the text gives no latencies and no depth of the memory's command \
           queue, without which a model could only repeat the paper's points.")
    .note(format!("{count} flows, one a bucket in either table.")))
}

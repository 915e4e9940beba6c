//! `DirectHash` against `SigHash` [FLOWNP §6.3, Fig. 10].
//!
//! The comparison of one core is measured. Threads of a network processor are not to be had: their rows are virtual. A
//! thread waits for its own memory accesses and for nobody else, until a memory has as many accesses a second as it can
//! serve; which memory, and how many accesses a lookup makes there, is what the two tables differ in.

use std::hint::black_box;

use flowloom::flow_table::{DirectHash, DirectHashConfig, FlowTable, SigHash, SigHashConfig};
use flowloom_measure::chart::{Axis, Chart, Series};
use flowloom_measure::lookup::{Flows, State};

use crate::experiment::{Context, Fidelity, Item, ItemError, Outcome, Scale, Value, Verdict};
use crate::timing::{Timed, nanoseconds};

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/fig10_direct_vs_signature",
    place: "§6.3, Fig. 10",
    claim: "SigHash reaches 10 Gbps where DirectHash stops at 8.3, with a knee at 40 threads",
    fidelity: &[Fidelity::Measured, Fidelity::Simulated],
    run,
};

/// Minimum-size packets of 10 Gb/s, in millions a second, and what the paper's table reaches.
const LINE_MPPS: f64 = 14.88;
const PAPER_DIRECT_GBPS: f64 = 8.3;

/// Flows for each bucket of either table.
const LOAD: f64 = 1.0;

/// Returns rates for 1 … 64 threads, of which so many saturate the memory at a given accesses-a-lookup.
fn threads(accesses: f64, saturated_accesses: f64) -> Vec<(f64, f64)> {
    // One thread alone makes a sixty-fourth of the line rate's lookups with two accesses each.
    let one = LINE_MPPS / 64.0 * 2.0 / accesses;
    (1..=64)
        .map(|threads| (f64::from(threads), (one * f64::from(threads)).min(saturated_accesses / accesses)))
        .collect()
}

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let count: u32 = context.scale.pick(1 << 13, 1 << 18, 1 << 21);
    let flows = Flows::<2>::new(count, context.seed);
    let mut signatures = SigHash::<[u64; 2], State>::try_new(&SigHashConfig {
        buckets: Some(count),
        ..SigHashConfig::for_flows(count)
    })
    .map_err(ItemError::during("building SigHash"))?;
    let mut direct = DirectHash::<[u64; 2], State>::try_new(&DirectHashConfig::for_flows(count))
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
    // Entries read on the way to a flow: its own, and those before it in its list.
    let direct_accesses = 1.0 + LOAD / 2.0;
    // What the memory of full entries serves: the paper's knee.
    let saturated = PAPER_DIRECT_GBPS / 10.0 * LINE_MPPS * direct_accesses;
    let (sig, dir) = (threads(2.0, saturated * 2.0), threads(direct_accesses * 1.5, saturated * 1.5));
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
        Chart::new("Threads, in virtual time", Axis::linear("threads"), Axis::linear("M lookups a second"))
            .with(Series::line("SigHash", sig))
            .with(Series::line("DirectHash", dir))
            .with(Series::points("paper at 64", vec![(64.0, LINE_MPPS), (64.0, PAPER_DIRECT_GBPS / 10.0 * LINE_MPPS)])),
    )
    .note("The knee of the virtual rows is set by the paper's own 8.3 Gbps, which fixes how many accesses its memory serves: \
           the chart shows what that means for SigHash, it is no proof.")
    .note(format!("{count} flows, one a bucket in either table.")))
}

//! Load factors and sizes, from the paper's constants [DHASH §IV-A, §V-A].

use flowloom::flow_key::FlowKey;
use flowloom::flow_table::dhash::layout::{SLOTS_PER_BUCKET, index_bytes};
use flowloom::flow_table::{DHash, TableOptions};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::NO_EFFECT;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "dhash/section4_load_factor",
    place: "§IV-A, §V-A",
    claim: "a load factor of at most 3.72e-9, in megabytes where one level of buckets would take terabytes",
    numbers: "text of §IV-A and §V-A",
    fidelity: &[Fidelity::Arithmetic],
    unswitched: NO_EFFECT,
    run,
    ..Item::PLAIN
};

const SIGNATURES: f64 = 4_294_967_296.0;

fn run(_context: &Context<'_>) -> Result<Outcome, ItemError> {
    let slots = f64::from(SLOTS_PER_BUCKET);
    let (flows, buckets) = (1e6, 1e5);
    let table = DHash::<FlowKey, ()>::try_new(&TableOptions::for_flows(1_000_000))
        .map_err(ItemError::during("building DHash"))?;
    let index_mb = index_bytes(u64::from(table.bucket_count())) as f64 / 1e6;
    let smallest_mb = (index_bytes(62_500) + 62_500 * 8) as f64 / 1e6;
    let exact =
        |value: Value, paper: f64, digits: f64| value.paper(paper).within(Band::around(paper, digits));
    Ok(Outcome::new(Agreement::definition("every number is right; what it means is narrower than the text suggests"))
        .value(exact(Value::new("load factor, 16 in a bucket", "", slots / SIGNATURES), 3.72e-9, 0.005))
        .value(exact(Value::new("load factor as configured", "", flows / (buckets * SIGNATURES)), 2.3e-9, 0.02))
        .value(exact(Value::new("smallest table for a million flows", "MB", smallest_mb), 4.5, 1e-9))
        .value(exact(Value::new("table as configured", "MB", index_mb), 6.4, 1e-9))
        .value(exact(Value::new("the same with a pool, 100,000 elements of 8 bytes", "MB", index_mb + 0.8), 7.2, 1e-9))
        .value(exact(Value::new("one level of such a load, 8 bytes per bucket", "TB", 62_500.0 * SIGNATURES * 8.0 / 1e12), 2000.0, 0.1))
        .value(Value::new("slots in use as configured", "", flows / (buckets * slots)).band(0.625, 0.625))
        .chart_of("Sizes", Axis::linear("MB"), |value| value.unit == "MB")
        .note("The load factor is that of an imagined table of N·2³² buckets. Space goes by slots, which are 62.5 % full.")
        .judged())
}

//! Memory of ten million flows [FLOWNP §4.2].

use flowloom::flow_key::FlowHasher;
use flowloom::flow_table::{FlowTable, SigHash, TableOptions, Tick, TimeoutClass};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Band, Context, Fidelity, Item, ItemError, Outcome, Value};
use crate::variation::BOTH_RUN;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/section4_sizes",
    place: "§4.2",
    claim: "ten million flows take DirectHash 320 MB; SigHash holds more than that with 24 MB of SRAM",
    numbers: "text of §4.2: a size and a limit",
    fidelity: &[Fidelity::Arithmetic, Fidelity::Measured],
    unswitched: BOTH_RUN,
    run,
    ..Item::PLAIN
};

/// Size in bytes of an entry in the paper.
const ENTRY_BYTES: f64 = 32.0;

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let ten_million = 1e7;
    // Three chips of 8 MiB [FLOWNP §6.2.2].
    let buckets_in_sram = 24.0 * 1_048_576.0 / 4.0;
    let load = ten_million / buckets_in_sram;
    let flows: u32 = context.scale.pick(50_000, 1_000_000, 10_000_000);
    // A real table, with as many flows in as many words as fit into the paper's memory.
    let buckets: u32 = context.scale.pick(31_457, 629_146, 6_291_456);
    let config = TableOptions { buckets: Some(buckets), ..TableOptions::for_flows(flows) };
    let mut table = SigHash::<u64, ()>::try_new(&config).map_err(ItemError::during("building SigHash"))?;
    let hasher = FlowHasher::with_seed(context.seed);
    let hash = |key: u64| hasher.hash_words(&[key]).table;
    for key in 0..u64::from(flows) {
        if key % 100_000 == 0 {
            context.check_stop()?;
        }
        table
            .insert(key, hash(key), (), TimeoutClass(0), Tick(0))
            .map_err(ItemError::during("filling SigHash"))?;
    }
    let lost = (0..u64::from(flows)).filter(|key| table.lookup(key, hash(*key)).is_none()).count();
    let stats = table.stats();
    let words_mib = f64::from(1 << 24) * 4.0 / 1_048_576.0;
    let exceptions = f64::from(stats.displaced) * 100.0 / f64::from(stats.len);
    Ok(Outcome::new(Agreement::from_check(
        words_mib <= 24.0 && exceptions < 2.0 && lost == 0,
        format!("2²⁴ words are {words_mib:.0} MiB"),
        format!(
            "2²⁴ words of four 8-bit signatures are {words_mib:.0} MiB, not 24. 24 MiB are {:.1} million words: ten million flows then \
             load them with {load:.2}, where {exceptions:.1} % of the flows are exceptions, so \"more than ten million\" holds, but not \
             with 2²⁴ buckets",
            buckets_in_sram / 1e6
        ),
    ))
    .value(Value::new("DirectHash, ten million entries of 32 bytes", "MB", ten_million * ENTRY_BYTES / 1e6).paper(320.0).band(320.0, 320.0))
    .value(Value::new("2²⁴ words of four signatures", "MiB", words_mib).paper(24.0).band(64.0, 64.0).apart("2²⁴ words of four bytes are 64 MiB"))
    .value(Value::new("words in 24 MiB", "million", buckets_in_sram / 1e6).band(6.29, 6.30))
    .value(Value::new("flows per word then", "", load).band(1.58, 1.60))
    .value(Value::new("flows held here", "", f64::from(stats.len)).band(f64::from(flows), f64::from(flows)))
    .value(Value::new("of these not found again", "", lost as f64).band(0.0, 0.0))
    .value(Value::new("exceptions at that load", "%", exceptions).within(Band::around(1.92, context.scale.pick(0.2, 0.06, 0.03))))
    .value(Value::new("words of the table here", "MiB", f64::from(buckets) * 4.0 / 1_048_576.0))
    .chart_of("Words of signatures", Axis::linear("MiB"), |value| value.unit == "MiB")
    .note(format!("{flows} flows in {buckets} words at this scale; --scale full holds ten million.")))
}

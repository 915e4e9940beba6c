//! Memory accesses per lookup: one word and one state [FLOWNP §4.2].

use flowloom::flow_key::FlowHasher;
use flowloom::flow_key::TableHash;
use flowloom::flow_table::TableOptions;
use flowloom::flow_table::probe::Counts;
use flowloom::flow_table::sighash::ReferenceSigHash;
use flowloom::flow_table::{FlowTable, Tick, TimeoutClass};
use flowloom_measure::chart::Axis;

use crate::experiment::{Agreement, Context, Fidelity, Item, ItemError, Outcome, Scale, Value};
use crate::variation::Switch;

/// See the [module](self).
pub(super) const ITEM: Item = Item {
    id: "flownp/section4_accesses",
    place: "§4.2",
    claim: "a lookup takes one access to SRAM and one to DRAM while a bucket has up to four entries",
    numbers: "text of §4.2",
    fidelity: &[Fidelity::Measured],
    switches: &[SIGNATURES],
    run,
    ..Item::PLAIN
};

const SIGNATURES: Switch = Switch::mechanism("signatures", "all flows have the same signature");

fn run(context: &Context<'_>) -> Result<Outcome, ItemError> {
    let flows: u32 = context.scale.pick(1 << 13, 1 << 17, 1 << 20);
    // One flow per bucket: the highest load that the paper discusses.
    let config = TableOptions { buckets: Some(flows), ..TableOptions::for_flows(flows) };
    let mut table = ReferenceSigHash::<[u64; 2], ()>::try_new(&config)
        .map_err(ItemError::during("building the reference table"))?;
    let hasher = FlowHasher::with_seed(context.seed);
    let key = |number: u64| [number, number ^ 0x5555];
    let mask = if context.is_off(&SIGNATURES) { 0xFF } else { 0 };
    let hash = |key: &[u64; 2]| TableHash::from_mixed(hasher.hash_words(key).table.bits() & !mask);
    for number in 0..u64::from(flows) {
        let key = key(number);
        table
            .insert(key, hash(&key), (), TimeoutClass(0), Tick(0))
            .map_err(ItemError::during("filling the reference table"))?;
    }
    context.check_stop()?;
    let (mut at_home, mut exceptions, mut misses) = (Counts::default(), 0_u64, Counts::default());
    let mut more = 0_u64;
    for number in 0..u64::from(flows) {
        let flow = key(number);
        let mut counts = Counts::default();
        table.find_counting(&flow, hash(&flow), &mut counts);
        if counts.list_steps > 0 {
            exceptions += 1;
        } else {
            more += u64::from(counts.lines != 2 + counts.false_matches);
            at_home.lines += counts.lines;
            at_home.hits += counts.hits;
            at_home.false_matches += counts.false_matches;
        }
        let missing = key(number | 1 << 40);
        table.find_counting(&missing, hash(&missing), &mut misses);
    }
    let hits = at_home.hits as f64;
    let each = at_home.lines as f64 / hits;
    let checked = context.scale > Scale::Smoke;
    Ok(Outcome::new(Agreement::from_check(
        more == 0 && each <= 2.0 * 1.01,
        "one word and one state for every lookup that is no exception, and a further state for each 8-bit signature that \
         belongs to another flow",
        format!("lookups read {each:.2} words and states each"),
    ))
    .value(Value::new("lookups at home with other accesses than these", "", more as f64).band(0.0, 0.0))
    .value(Value::new("accesses per lookup, exceptions apart", "", each).paper(2.0).band(2.0, 2.02))
    .value(Value::new("false matches per lookup that hits", "%", at_home.false_matches as f64 * 100.0 / hits).band(0.1, 0.3).checked_if(checked))
    .value(Value::new("false matches per lookup that misses", "%", misses.false_matches as f64 * 100.0 / f64::from(flows)).band(0.3, 0.5).checked_if(checked))
    .value(Value::new("exceptions", "%", exceptions as f64 * 100.0 / f64::from(flows)).band(0.0, 2.0))
    .chart_of("Lookups of another kind", Axis::linear("%"), |value| value.unit == "%")
    .note(format!("{flows} flows, one per bucket. An 8-bit signature is equal by chance to one in 255: keys must be compared always, or flows merge.")))
}

//! Every table keeps all guarantees: the production tables on each instruction set, the reference
//! implementations, and growth.

use flowloom_cpu::features::Isa;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::TableHash;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::dhash::ReferenceDHash;
use flowloom_flow_table::dhash::major_location::{FirstSlot, Folded, LowBits};
use flowloom_flow_table::dhash::signature::Keyed;
use flowloom_flow_table::laws::{Operation, check};
use flowloom_flow_table::sighash::ReferenceSigHash;
use flowloom_flow_table::{DHash, Growing, LineHash, SigHash, TableOptions, TimeoutClass, Timeouts};
use proptest::prelude::*;

const CASES: u32 = if cfg!(miri) { 2 } else { 96 };
const STEPS: usize = if cfg!(miri) { 30 } else { 160 };

fn timeouts() -> Timeouts {
    Timeouts::NEVER.with(TimeoutClass(0), 100).with(TimeoutClass(1), 1000).with(TimeoutClass(2), 1_000_000)
}

fn operations(keys: u16) -> impl Strategy<Value = Vec<Operation>> {
    let (key, class) = (0..keys, 0_u8..4);
    // Up to more than all batch stages of any table contain together.
    let count = prop_oneof![
        Just(0_u16),
        Just(1),
        Just(6),
        Just(7),
        Just(96),
        Just(97),
        Just(128),
        Just(129),
        Just(256),
        Just(257),
        0_u16..600
    ]
    .boxed();
    let budget = prop_oneof![0_u32..5, Just(1000)];
    let ticks = prop_oneof![0_u64..30, 50_u64..2000, Just(1 << 40)];
    let operation = prop_oneof![
        8 => (key.clone(), class.clone()).prop_map(|(key, class)| Operation::Entry { key, class }),
        4 => (key.clone(), class.clone()).prop_map(|(key, class)| Operation::Insert { key, class }),
        4 => (key.clone(), class.clone()).prop_map(|(key, class)| Operation::EntryOrEvict { key, class }),
        4 => (key.clone(), count.clone()).prop_map(|(first, count)| Operation::Batch { first, count }),
        2 => (key.clone(), count.clone(), class.clone())
            .prop_map(|(first, count, class)| Operation::InsertBatch { first, count, class }),
        1 => (key.clone(), count).prop_map(|(first, count)| Operation::RemoveBatch { first, count }),
        4 => key.clone().prop_map(|key| Operation::Touch { key }),
        1 => (key.clone(), class).prop_map(|(key, class)| Operation::SetClass { key, class }),
        2 => key.clone().prop_map(|key| Operation::Remove { key }),
        1 => key.prop_map(|key| Operation::RemoveKey { key }),
        3 => ticks.prop_map(|ticks| Operation::Advance { ticks }),
        3 => budget.prop_map(|budget| Operation::Expire { budget }),
        1 => (0_u16..5).prop_map(|stride| Operation::Walk { stride }),
        1 => Just(Operation::Clear),
    ];
    // The rarest is rarer still: a table that is constantly cleared never fills.
    prop::collection::vec(operation, 1..STEPS).prop_map(|mut operations| {
        let mut clears = 0;
        operations.retain(|operation| {
            clears += u32::from(*operation == Operation::Clear);
            *operation != Operation::Clear || clears == 2
        });
        operations
    })
}

/// How many bits a hash keeps: all, few in both halves, none.
fn mask() -> impl Strategy<Value = u64> {
    prop_oneof![Just(u64::MAX), Just(0xC000_0000_0000_0003), Just(1 << 63), Just(3), Just(0)]
}

fn numbered(mask: u64) -> impl Fn(u16) -> (u64, TableHash) {
    move |number| (u64::from(number), TableHash::from_mixed(split_mix(&mut u64::from(number)) & mask))
}

fn config(flows: u32, buckets: u32, pool: u32, list_cap: u32) -> TableOptions {
    TableOptions {
        buckets: Some(buckets),
        pool: Some(pool),
        list_cap: Some(list_cap),
        timeouts: timeouts(),
        ..TableOptions::for_flows(flows)
    }
}

/// Space for all keys even if they share one bucket.
fn roomy(buckets: u32) -> TableOptions {
    config(64, buckets, 64, 64)
}

/// Rejects flows for every reason: capacity, pool, list limit.
fn tight() -> impl Strategy<Value = TableOptions> {
    (1_u32..4, 0_u32..8, 0_u32..6, 1_u32..40).prop_map(|(buckets, pool, list_cap, flows)| {
        config(flows.min(buckets * 16 + pool), buckets, pool, list_cap)
    })
}

fn check_production(config: &TableOptions, mask: u64, roomy: bool, operations: &[Operation]) {
    for isa in Isa::available() {
        let config = TableOptions { isa: Some(isa), ..*config };
        let mut table = DHash::<u64, u64>::try_new(&config).expect("a small table");
        check(&mut table, &numbered(mask), timeouts(), roomy, operations);
    }
}

fn tight_lines() -> impl Strategy<Value = TableOptions> {
    (1_u32..4, 0_u32..8, 0_u32..6, 1_u32..70).prop_map(|(lines, pool, list_cap, flows)| {
        config(flows.min(lines * 30 + pool), lines, pool, list_cap)
    })
}

fn check_lines(config: &TableOptions, mask: u64, roomy: bool, operations: &[Operation]) {
    for isa in Isa::available() {
        let config = TableOptions { isa: Some(isa), ..*config };
        let mut table = LineHash::<u64, u64>::try_new(&config).expect("a small table");
        check(&mut table, &numbered(mask), timeouts(), roomy, operations);
    }
}

fn check_signatures(config: &TableOptions, mask: u64, roomy: bool, operations: &[Operation]) {
    let keys = numbered(mask);
    let mut table = SigHash::<u64, u64>::try_new(config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
    let mut table = ReferenceSigHash::<u64, u64>::try_new(config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
}

fn check_baselines(
    flows: u32,
    buckets: u32,
    list_cap: u32,
    mask: u64,
    roomy: bool,
    operations: &[Operation],
) {
    let keys = numbered(mask);
    let config = config(flows, buckets, 0, list_cap);
    let mut table = Chained::<u64, u64>::try_new(&config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
    let mut table = DirectTable::<u64, u64>::try_new(&config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
}

fn check_reference(config: &TableOptions, mask: u64, roomy: bool, operations: &[Operation]) {
    let keys = numbered(mask);
    let mut table = ReferenceDHash::<u64, u64>::try_new(config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
    let mut table = ReferenceDHash::<u64, u64, Keyed, LowBits>::try_new(config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
    let mut table = ReferenceDHash::<u64, u64, Keyed, FirstSlot>::try_new(config).expect("a small table");
    check(&mut table, &keys, timeouts(), roomy, operations);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn production_table_passes_the_law_suite(operations in operations(64), mask in mask(), buckets in 1_u32..6) {
        check_production(&roomy(buckets), mask, true, &operations);
    }

    #[test]
    fn small_production_table_passes_the_law_suite(
        operations in operations(64), mask in mask(), config in tight(),
    ) {
        check_production(&config, mask, false, &operations);
    }

    #[test]
    fn line_hash_passes_the_law_suite(operations in operations(104), mask in mask(), lines in 1_u32..6) {
        check_lines(&config(104, lines, 104, 104), mask, true, &operations);
    }

    #[test]
    fn small_line_hash_passes_the_law_suite(operations in operations(104), mask in mask(), config in tight_lines()) {
        check_lines(&config, mask, false, &operations);
    }

    #[test]
    fn signatures_of_eight_bits_pass_the_law_suite(
        operations in operations(64), mask in mask(), buckets in 1_u32..20,
    ) {
        check_signatures(&roomy(buckets), mask, true, &operations);
    }

    #[test]
    fn small_table_with_signatures_of_eight_bits_passes_the_law_suite(
        operations in operations(64), mask in mask(), buckets in 1_u32..6, pool in 0_u32..8, list_cap in 0_u32..6,
        flows in 1_u32..24,
    ) {
        let flows = flows.min(buckets * 4 + pool);
        check_signatures(&config(flows, buckets, pool, list_cap), mask, false, &operations);
    }

    #[test]
    fn baselines_pass_the_law_suite(operations in operations(64), mask in mask(), buckets in 1_u32..20) {
        check_baselines(64, buckets, 64, mask, true, &operations);
    }

    #[test]
    fn small_baselines_pass_the_law_suite(
        operations in operations(64), mask in mask(), buckets in 1_u32..6, list_cap in 1_u32..6,
        flows in 1_u32..24,
    ) {
        check_baselines(flows, buckets, list_cap, mask, false, &operations);
    }

    #[test]
    fn reference_table_passes_the_law_suite(operations in operations(64), mask in mask(), buckets in 1_u32..6) {
        check_reference(&roomy(buckets), mask, true, &operations);
    }

    #[test]
    fn small_reference_table_passes_the_law_suite(operations in operations(64), mask in mask(), config in tight()) {
        check_reference(&config, mask, false, &operations);
    }

    #[test]
    fn growing_table_passes_the_law_suite(operations in operations(64), mask in mask(), first in 1_u32..10) {
        let options = TableOptions { buckets: None, ..config(64, 0, 64, 64) };
        let mut table = Growing::try_new(first, options, DHash::<u64, u64>::try_new).expect("a small table");
        check(&mut table, &numbered(mask), timeouts(), true, &operations);
    }

    #[test]
    fn small_growing_table_passes_the_law_suite(operations in operations(64), mask in mask()) {
        let limited = config(30, 0, 4, 3);
        let options = TableOptions { buckets: None, memory_limit_bytes: 40_000, ..limited };
        let mut table = Growing::try_new(2, options, DHash::<u64, u64>::try_new).expect("a small table");
        check(&mut table, &numbered(mask), timeouts(), false, &operations);
    }

    #[test]
    fn table_of_flow_keys_passes_the_law_suite(operations in operations(64), seed in any::<u64>()) {
        let hasher = FlowHasher::with_seed(seed);
        let keys = |number: u16| {
            let (key, _) = match number % 2 {
                0 => FlowKey::from_v4(u32::from(number), 7, number, 80, 6),
                _ => FlowKey::from_v6(u128::from(number), 7, number, 80, 17),
            };
            (key, hasher.hash(&key).table)
        };
        let mut table = DHash::<FlowKey, u64>::try_new(&roomy(4)).expect("a small table");
        check(&mut table, &keys, timeouts(), true, &operations);
        let mut table = ReferenceDHash::<FlowKey, u64, Keyed, Folded>::try_new(&roomy(4)).expect("a small table");
        check(&mut table, &keys, timeouts(), true, &operations);
    }
}

#[test]
fn a_table_without_timeouts_never_ages() {
    let config = TableOptions { timeouts: Timeouts::NEVER, ..roomy(2) };
    let mut table = DHash::<u64, u64>::try_new(&config).expect("a small table");
    let operations = [
        Operation::Entry { key: 1, class: 0 },
        Operation::Advance { ticks: u64::MAX / 2 },
        Operation::Expire { budget: 10 },
        Operation::Batch { first: 0, count: 3 },
    ];
    check(&mut table, &numbered(u64::MAX), Timeouts::NEVER, true, &operations);
}

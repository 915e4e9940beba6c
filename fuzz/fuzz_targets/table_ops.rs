//! Any sequence of operations on any small table preserves the properties of flow tables.
//!
//! The input selects the table's sizes, the number of bits that its hashes keep, and the
//! operations. Only a violated property may panic.
#![no_main]

use arbitrary::Arbitrary;
use flowloom_flow_key::TableHash;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::dhash::ReferenceDHash;
use flowloom_flow_table::laws::{Operation, check};
use flowloom_flow_table::sighash::ReferenceSigHash;
use flowloom_flow_table::{DHash, Growing, LineHash, SigHash, TableOptions, TimeoutClass, Timeouts};
use libfuzzer_sys::fuzz_target;

/// One step as bytes; there are few keys and classes, so that flows meet.
#[derive(Arbitrary, Clone, Copy, Debug)]
enum Step {
    Entry { key: u8, class: u8 },
    EntryOrEvict { key: u8, class: u8 },
    Insert { key: u8, class: u8 },
    Batch { first: u8, count: u8 },
    InsertBatch { first: u8, count: u8, class: u8 },
    RemoveBatch { first: u8, count: u8 },
    Touch { key: u8 },
    SetClass { key: u8, class: u8 },
    Remove { key: u8 },
    RemoveKey { key: u8 },
    Advance { ticks: u16, far: bool },
    Expire { budget: u8 },
    Walk { stride: u8 },
    Clear,
}

impl From<Step> for Operation {
    fn from(step: Step) -> Self {
        let key_of = |key: u8| u16::from(key % 64);
        match step {
            Step::Entry { key, class } => Self::Entry { key: key_of(key), class: class % 4 },
            Step::EntryOrEvict { key, class } => Self::EntryOrEvict { key: key_of(key), class: class % 4 },
            Step::Insert { key, class } => Self::Insert { key: key_of(key), class: class % 4 },
            Step::Batch { first, count } => Self::Batch { first: key_of(first), count: u16::from(count) },
            Step::InsertBatch { first, count, class } => {
                Self::InsertBatch { first: key_of(first), count: u16::from(count), class: class % 4 }
            }
            Step::RemoveBatch { first, count } => {
                Self::RemoveBatch { first: key_of(first), count: u16::from(count) }
            }
            Step::Touch { key } => Self::Touch { key: key_of(key) },
            Step::SetClass { key, class } => Self::SetClass { key: key_of(key), class },
            Step::Remove { key } => Self::Remove { key: key_of(key) },
            Step::RemoveKey { key } => Self::RemoveKey { key: key_of(key) },
            Step::Advance { ticks, far } => {
                Self::Advance { ticks: u64::from(ticks) << if far { 24 } else { 0 } }
            }
            Step::Expire { budget } => Self::Expire { budget: u32::from(budget) },
            Step::Walk { stride } => Self::Walk { stride: u16::from(stride) },
            Step::Clear => Self::Clear,
        }
    }
}

#[derive(Arbitrary, Debug)]
struct Input {
    buckets: u8,
    pool: u8,
    list_cap: u8,
    flows: u8,
    hash_bits: u64,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 100).with(TimeoutClass(1), 60_000);
    let (buckets, pool) = (u32::from(input.buckets % 6) + 1, u32::from(input.pool % 80));
    let config = TableOptions {
        buckets: Some(buckets),
        pool: Some(pool),
        list_cap: Some(u32::from(input.list_cap % 80)),
        timeouts,
        ..TableOptions::for_flows(u32::from(input.flows).clamp(1, buckets * 16 + pool))
    };
    // Every step compares the whole table, so long inputs only repeat work.
    let operations: Vec<Operation> = input.steps.iter().take(256).map(|&step| step.into()).collect();
    let keys = |number: u16| {
        (u64::from(number), TableHash::from_mixed(split_mix(&mut u64::from(number)) & input.hash_bits))
    };

    let mut table = DHash::<u64, u64>::try_new(&config).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);

    let mut table = ReferenceDHash::<u64, u64>::try_new(&config).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);

    let sized = |flows: u32| TableOptions { flows: u32::from(input.flows).clamp(1, flows), ..config };
    let mut table = LineHash::<u64, u64>::try_new(&sized(buckets * 30 + pool)).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);

    let words = sized(buckets * 4 + pool);
    let mut table = SigHash::<u64, u64>::try_new(&words).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);
    let mut table = ReferenceSigHash::<u64, u64>::try_new(&words).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);

    let mut table = Chained::<u64, u64>::try_new(&sized(u32::MAX)).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);
    let mut table = DirectTable::<u64, u64>::try_new(&sized(u32::MAX)).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);

    let first_flows = u32::from(input.flows % 16) + 1;
    let (pool, memory_limit_bytes) = (Some(pool + 64), 1 << 20);
    let growing = TableOptions { flows: 64, buckets: None, pool, memory_limit_bytes, ..config };
    let mut table =
        Growing::try_new(first_flows, growing, DHash::<u64, u64>::try_new).expect("a small table");
    check(&mut table, &keys, timeouts, false, &operations);
});

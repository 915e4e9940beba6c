//! Segments of a growing table: opened, freed, opened again, and never more than necessary.

use flowloom_flow_table::TableHash;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_flow_key::hash::fold::split_mix;

use flowloom_flow_table::{
    BuildError, DHash, FlowId, FlowTable, FullReason, Growing, LineHash, TableOptions, Tick, TimeoutClass,
    Timeouts,
};
use proptest::prelude::*;

const CLASS: TimeoutClass = TimeoutClass(0);

/// Returns a segment; flows of one hash fill a bucket of sixteen, and then
/// its list.
fn build_segment(options: &TableOptions) -> Result<DHash<u64, u64>, BuildError> {
    DHash::try_new(&TableOptions {
        buckets: Some(1),
        pool: Some(options.flows),
        list_cap: Some(1000),
        timeouts: Timeouts::NEVER.with(CLASS, 100),
        ..*options
    })
}

#[test]
fn released_segment_is_reused_under_new_ids() {
    // All flows go into one bucket of sixteen, so that a segment is full long before its nominal
    // number of flows.
    let options = TableOptions { buckets: Some(13), pool: Some(0), ..TableOptions::for_flows(200) };
    let mut table = Growing::try_new(200, options, DHash::<u64, u64>::try_new).unwrap();
    // Twelve places.
    let ids: Vec<FlowId> = (0..192)
        .map(|key| table.insert(key, TableHash::default(), key, CLASS, Tick(0)).expect("a place for each"))
        .collect();
    assert_eq!(table.stats().segments, 12);
    let full = table.insert(192, TableHash::default(), 192, CLASS, Tick(0)).unwrap_err();
    assert_eq!(full.reason, FullReason::Memory, "nothing more can be opened");
    // The fourth and the fifth segment alternate: the newest is never freed.
    for (round, part) in (1_u64..).zip([48..64_u64, 64..80, 48..64, 64..80]) {
        // Its flows are removed, and it with them.
        for key in part.clone() {
            let id = table.lookup(&key, TableHash::default()).expect("it is there");
            assert_eq!(table.remove(id), Some((key, key)));
        }
        assert_eq!(table.expire(Tick(1), 100, &mut |_, _, _| panic!("no flow is due")).removed, 0);
        assert_eq!(table.stats().segments, 11, "round {round}");
        for key in part.clone() {
            let id = table
                .insert(key, TableHash::default(), key, CLASS, Tick(0))
                .expect("the place is opened again");
            assert!(!ids.contains(&id) && table.get(id) == Some(&key), "round {round}: {id:?}");
        }
        assert!(table.insert(192, TableHash::default(), 192, CLASS, Tick(0)).is_err());
        let stats = table.stats();
        assert_eq!((stats.segments, stats.len, stats.removed), (12, 192, 16 * round));
    }
    // Ids of removed flows are invalid.
    for (key, id) in (0..).zip(&ids) {
        assert_eq!(table.get(*id), (!(48..80).contains(&key)).then_some(&key));
    }
}

#[test]
fn small_table_grows_to_its_maximum() {
    let flows_max = if cfg!(miri) { 1000 } else { 50_000 };
    for first in [1, 3, 40] {
        let mut table =
            Growing::try_new(first, TableOptions::for_flows(flows_max), LineHash::<u64, ()>::try_new)
                .unwrap();
        for key in 0..u64::from(flows_max) {
            let taken =
                table.insert(key, TableHash::from_mixed(split_mix(&mut key.clone())), (), CLASS, Tick(0));
            assert!(taken.is_ok(), "flow {key} of a table that began with {first}: {taken:?}");
        }
        assert!(table.stats().segments <= 12);
    }
}

#[test]
fn each_segment_is_reported_with_its_flows_and_bytes() {
    let (flows_of_all, bytes_of_all) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (flows_seen, bytes_seen) = (Arc::clone(&flows_of_all), Arc::clone(&bytes_of_all));
    let options = TableOptions::for_flows(1000);
    let mut table = Growing::try_new(10, options, LineHash::<u64, u64>::try_new).unwrap().on_open(
        move |flows, bytes| {
            flows_seen.fetch_add(flows.into(), Ordering::Relaxed);
            bytes_seen.fetch_add(bytes, Ordering::Relaxed);
        },
    );
    for key in 0..50 {
        table.insert(key, TableHash::from_weak(key), key, CLASS, Tick(0)).unwrap();
    }
    assert_eq!(table.stats().segments, 2);
    assert_eq!(flows_of_all.load(Ordering::Relaxed), 10 + 40);
    assert_eq!(bytes_of_all.load(Ordering::Relaxed), table.memory().total_bytes());
}

#[test]
fn table_built_for_many_flows_shrinks() {
    let bytes_of = |flows| LineHash::<u64, u64>::bytes_needed(&TableOptions::for_flows(flows));
    let hash = |key: &u64| TableHash::from_weak(*key);
    let flows = if cfg!(miri) { 5_000 } else { 100_000_u64 };
    let flows_max = u32::try_from(flows).unwrap();
    let mut table =
        Growing::try_new(flows_max, TableOptions::for_flows(flows_max), LineHash::<u64, u64>::try_new)
            .unwrap();
    for left in [flows, flows / 4, flows / 4 + 100, 2_000, 3, 0] {
        for key in 0..flows {
            match (key < left, table.lookup(&key, hash(&key)).is_some()) {
                (true, false) => {
                    table.insert(key, hash(&key), key, CLASS, Tick(0)).unwrap();
                }
                (false, true) => assert_eq!(table.remove_key(&key, hash(&key)), Some(key)),
                _ => {}
            }
        }
        while table.shrink(100, hash, |_, _| {}).more {}
        let wanted = u32::try_from(left).unwrap().max(1024);
        let (bytes, built) = (table.memory().total_bytes(), bytes_of(wanted));
        assert!(bytes * 10 <= built * 13, "{bytes} bytes for {left} flows, not {built}");
        assert!((0..flows).all(|key| table.lookup_value(&key, hash(&key)).is_some() == (key < left)));
    }
}

#[test]
fn smaller_segment_opens_if_memory_is_short() {
    let one = LineHash::<u64, ()>::bytes_needed(&TableOptions::for_flows(1000));
    for (times, least) in [(2, 1000), (3, 2000), (4, 3000), (6, 5000)] {
        let memory_limit_bytes = one * times + 1000;
        let options = TableOptions { memory_limit_bytes, ..TableOptions::for_flows(100_000) };
        let mut table = Growing::try_new(1000, options, LineHash::<u64, ()>::try_new).unwrap();
        let taken = (0..10_000_u64)
            .filter(|key| {
                table
                    .insert(*key, TableHash::from_mixed(split_mix(&mut key.clone())), (), CLASS, Tick(0))
                    .is_ok()
            })
            .count();
        assert!(taken >= least, "{taken} with memory for {times} thousand");
        assert!(table.memory().total_bytes() <= memory_limit_bytes);
    }
}

#[test]
fn next_oldest_segment_is_drained_from_its_beginning() {
    let mut table = Growing::try_new(4, TableOptions::for_flows(1000), build_segment).unwrap();
    // Parts of 4, 16 and 64 flows.
    for key in 0..25 {
        table.insert(key, TableHash::default(), key, CLASS, Tick(0)).unwrap();
    }
    assert_eq!(table.stats().segments, 3);
    let moved = table.drain_oldest(3, |_| TableHash::default(), |_, _| {});
    assert_eq!((moved.moved, moved.more), (3, true));
    // The last flow of the oldest segment ends, and the segment with it.
    let last = table.lookup(&3, TableHash::default()).unwrap();
    table.remove(last).unwrap();
    table.expire(Tick(1), 100, &mut |_, _, _| {});
    assert_eq!(table.stats().segments, 2);
    let moved = table.drain_oldest(1000, |_| TableHash::default(), |_, _| {});
    assert_eq!((moved.moved, moved.more, table.stats().segments), (16, false, 1));
    let found = (0..25).filter(|key| table.lookup(key, TableHash::default()).is_some()).count();
    assert_eq!((found, table.len()), (24, 24));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    /// Compared with a map: flows are inserted and removed while the table grows, and is
    /// sometimes drained or made smaller.
    #[test]
    fn a_table_that_grows_and_shrinks_loses_no_flow(
        steps in prop::collection::vec((0_u8..16, 0_u64..120), 1..if cfg!(miri) { 40 } else { 400 }),
    ) {
        let mut table = Growing::try_new(10, TableOptions::for_flows(500), LineHash::<u64, u64>::try_new).unwrap();
        let hash_of = |key: &u64| TableHash::from_mixed(split_mix(&mut key.clone()));
        let mut map: HashMap<u64, (FlowId, u64)> = HashMap::new();
        for (number, (step, key)) in (0_u64..).zip(steps) {
            let hash = hash_of(&key);
            match step {
                0..8 => {
                    let id = table.insert(key, hash, number, CLASS, Tick(0)).expect("space for all keys");
                    let old = map.insert(key, (id, number));
                    prop_assert!(old.is_none_or(|(old, _)| old == id), "replacing keeps the id");
                }
                8..12 => {
                    let value = map.remove(&key).map(|(_, value)| value);
                    prop_assert_eq!(table.remove_key(&key, hash), value);
                }
                _ => {
                    let mut moved = Vec::new();
                    let on_move = |old, new| moved.push((old, new));
                    if step == 12 {
                        table.shrink(9, hash_of, on_move);
                    } else {
                        table.drain_oldest(9, hash_of, on_move);
                    }
                    for (old, new) in moved {
                        let flow = map.values_mut().find(|flow| flow.0 == old);
                        flow.expect("an id that was given").0 = new;
                    }
                }
            }
            let (keys, hashes): (Vec<u64>, Vec<_>) = (0..120).map(|key| (key, hash_of(&key))).unzip();
            let mut ids = vec![None; keys.len()];
            table.lookup_batch(&keys, &hashes, &mut ids);
            for ((key, hash), id) in keys.iter().zip(&hashes).zip(ids) {
                let known = map.get(key).copied();
                prop_assert_eq!(id, known.map(|(id, _)| id));
                prop_assert_eq!(table.lookup_value(key, *hash), known.as_ref().map(|(id, value)| (*id, value)));
            }
            prop_assert_eq!(table.len() as usize, map.len());
        }
    }
}

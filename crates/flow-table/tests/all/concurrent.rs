//! Compares a [`ConcurrentFlowTable`] on one thread with the standard library's map, and on several
//! threads with what each of them may see.

#![cfg(not(any(loom, shuttle)))]

#[path = "../history/mod.rs"]
mod history;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;

use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
use flowloom_flow_table::{
    BuildError, Full, FullReason, KeyedState, Refused, Tick, TimeoutClass, Timeouts,
};
use history::{Event, What, is_linearizable};
use proptest::prelude::*;

fn table<V: Send + Sync>(config: &ConcurrentConfig) -> ConcurrentFlowTable<u64, V> {
    ConcurrentFlowTable::try_new(config).expect("a valid configuration")
}

/// One shard, so that steps of growth are frequent.
fn one_shard() -> ConcurrentConfig {
    ConcurrentConfig { shards: Some(1), ..ConcurrentConfig::for_flows(1) }
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u32),
    TryInsert(u64, u32),
    Remove(u64),
    RemoveById(u64),
    Batch(Vec<u64>),
    RemoveBelow(u64),
}

fn step(keys: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        10 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::TryInsert(key, value)),
        10 => (0..keys).prop_map(Step::Remove),
        3 => (0..keys).prop_map(Step::RemoveById),
        2 => prop::collection::vec(0..keys, 0..100).prop_map(Step::Batch),
        1 => (0..keys).prop_map(Step::RemoveBelow),
    ]
}

#[test]
fn each_flow_is_counted_once_at_insertion_and_once_at_its_end() {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 10);
    let config = ConcurrentConfig { max_flows: 100, timeouts, ..ConcurrentConfig::for_flows(1) };
    let table = table::<u32>(&config);
    let (handle, shards) = (table.handle(), table.stats().segments);
    let stats = || {
        let stats = table.stats();
        (stats.len, stats.inserted, stats.removed, stats.expired, stats.refused)
    };
    for key in 0..103 {
        assert_eq!(handle.pin().insert(key, 0).is_ok(), key < 100);
    }
    assert!(handle.pin().try_insert(200, 0).is_err());
    assert!(handle.pin().get_or_insert_with(200, || unreachable!()).is_err());
    assert_eq!((stats(), shards), ((100, 100, 0, 0, 5), 64));
    handle.pin().insert(0, 1).unwrap();
    handle.pin().remove(&0);
    handle.pin().retain(|flow| flow.key() >= 10);
    table.set_now(Tick(10));
    handle.pin().touch(&99);
    while handle.pin().expire(10, |_| {}).more {}
    assert_eq!(stats(), (1, 100, 10, 89, 5));
    handle.pin().clear();
    assert_eq!(stats(), (0, 100, 11, 89, 5));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn one_thread_gets_the_results_of_the_standard_map(steps in prop::collection::vec(step(200), 1..500)) {
        let table = table::<u32>(&one_shard());
        let handle = table.handle();
        let (mut model, mut ids) = (HashMap::new(), HashMap::new());
        for step in steps {
            let pinned = handle.pin();
            match step {
                Step::Insert(key, value) => {
                    let flow = pinned.insert(key, value).unwrap();
                    model.insert(key, value);
                    assert_eq!(*ids.entry(key).or_insert(flow.id()), flow.id());
                }
                Step::TryInsert(key, value) => {
                    let (flow, left) = pinned.try_insert(key, value).unwrap();
                    assert_eq!(left, model.contains_key(&key).then_some(value));
                    assert_eq!(flow.value(), model.entry(key).or_insert(value));
                    assert_eq!(*ids.entry(key).or_insert(flow.id()), flow.id());
                }
                Step::Remove(key) => {
                    assert_eq!(pinned.remove(&key), model.remove(&key).as_ref());
                    if let Some(id) = ids.remove(&key) {
                        assert!(pinned.get_by_id(id).is_none());
                    }
                }
                Step::RemoveById(key) => {
                    if let Some(id) = ids.remove(&key) {
                        let flow = pinned.remove_by_id(id).unwrap();
                        assert_eq!((flow.key(), Some(*flow.value())), (key, model.remove(&key)));
                        assert!(pinned.remove_by_id(id).is_none());
                    }
                }
                Step::Batch(keys) => {
                    let mut found = vec![None; keys.len()];
                    pinned.get_batch(&keys, |i, value| found[i] = Some(*value));
                    assert!(keys.iter().map(|key| model.get(key).copied()).eq(found));
                }
                Step::RemoveBelow(limit) => {
                    for key in 0..limit {
                        assert_eq!(pinned.remove(&key), model.remove(&key).as_ref());
                        ids.remove(&key);
                    }
                }
            }
            assert_eq!(table.len(), model.len());
        }
        let pinned = handle.pin();
        for (key, id) in ids {
            let flow = pinned.get_by_id(id).unwrap();
            assert_eq!((flow.key(), flow.value(), pinned.get(&key)), (key, &model[&key], model.get(&key)));
        }
        let mut all = HashMap::new();
        pinned.for_each(|flow| assert_eq!(all.insert(flow.key(), *flow.value()), None));
        assert_eq!(all, model);
    }
}

#[test]
fn a_table_grows_and_gives_its_memory_back() {
    let flows = if cfg!(miri) { 150 } else { 400_000_u64 };
    let table = table::<u64>(&ConcurrentConfig::for_flows(1));
    let handle = table.handle();
    let ids: Vec<_> = (0..flows).map(|key| handle.pin().insert(key, key).unwrap().id()).collect();
    let full = table.memory().total_bytes();
    assert!((0..flows).zip(&ids).all(|(key, id)| handle.pin().get_by_id(*id).unwrap().key() == key));
    for key in flows / 10..flows {
        assert_eq!(handle.pin().remove(&key), Some(&key));
    }
    let left = table.memory().total_bytes();
    assert!((0..flows / 10).zip(&ids).all(|(key, id)| handle.pin().get_by_id(*id).unwrap().key() == key));
    let built = self::table::<u64>(&ConcurrentConfig {
        shards: Some(64),
        ..ConcurrentConfig::for_flows(u32::try_from(flows / 10).unwrap())
    });
    for key in 0..flows / 10 {
        built.handle().pin().insert(key, key).unwrap();
    }
    let built = built.memory().total_bytes();
    assert!(left * 10 <= built * 13, "{left} bytes of {full} are left, a table for the rest has {built}");
}

/// Fills a table and removes all but some flows, by expiry or one by one. Then it takes a burst.
fn shrink_and_burst(config: &ConcurrentConfig, peak: u64, kept: u64, burst: u64, by_expiry: bool) {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 10);
    let table = table::<u64>(&ConcurrentConfig { timeouts, ..*config });
    let handle = table.handle();
    let insert = |key| match handle.pin().insert(key, key) {
        Ok(flow) => assert_eq!(*flow.value(), key),
        Err(refused) => panic!("{config:?}: {} flows, {refused}", table.len()),
    };
    (0..peak).for_each(insert);
    if by_expiry {
        table.set_now(Tick(1000));
        (0..kept).for_each(|key| assert!(handle.pin().touch(&key).is_some()));
        while handle.pin().expire(100, |_| {}).more {}
    } else {
        (kept..peak).for_each(|key| assert!(handle.pin().remove(&key).is_some()));
    }
    assert_eq!(table.len() as u64, kept);
    for round in 0..2 {
        let from = peak * (round + 1);
        (from..from + burst).for_each(insert);
        assert!((from..from + burst).all(|key| handle.pin().get(&key) == Some(&key)));
        table.set_now(Tick(2000 + 1000 * round));
        (0..kept).for_each(|key| assert_eq!(handle.pin().touch(&key), Some(&key)));
        while handle.pin().expire(1000, |_| {}).more {}
        assert_eq!(table.len() as u64, kept);
    }
}

#[test]
fn a_table_that_has_shrunk_takes_a_burst() {
    let scale = if cfg!(miri) { 200 } else { 1 };
    for shards in if cfg!(miri) { vec![Some(1)] } else { vec![Some(1), Some(2), None] } {
        for flows in if cfg!(miri) { vec![1] } else { vec![0, 1, 100, 65_536] } {
            let config = ConcurrentConfig { shards, ..ConcurrentConfig::for_flows(flows) };
            let cases = [(30_000, 0, 30_000), (30_000, 900, 10_000), (10_000, 7, 50_000)];
            for (peak, kept, burst) in cases.into_iter().take(if cfg!(miri) { 1 } else { 3 }) {
                for by_expiry in [true, false] {
                    shrink_and_burst(&config, peak / scale, kept / scale, burst / scale, by_expiry);
                }
            }
        }
    }
}

#[test]
fn operations_without_changes_also_release_memory() {
    let flows = if cfg!(miri) { 100 } else { 10_000 };
    for step in 0..3 {
        let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 10);
        let table = table::<u64>(&ConcurrentConfig { timeouts, max_flows: flows, ..one_shard() });
        let handle = table.handle();
        (0..u64::from(flows)).for_each(|key| assert!(handle.pin().insert(key, key).is_ok()));
        table.set_now(Tick(100));
        handle.pin().touch(&0);
        while handle.pin().expire(1000, |_| {}).more {}
        let before = table.memory().index_bytes;
        for _ in 0..flows {
            let pinned = handle.pin();
            match step {
                0 => assert_eq!(pinned.try_insert(0, 7).unwrap().1, Some(7)),
                1 => assert!(pinned.remove(&7).is_none()),
                _ => pinned.for_each(|flow| assert_eq!(flow.key(), 0)),
            }
        }
        let after = table.memory().index_bytes;
        assert!(after * 10 < before && after <= 128, "step {step}: {before} and then {after} bytes");
    }
}

#[test]
fn flows_are_removed_by_a_condition_or_all_at_once() {
    let flows = if cfg!(miri) { 30 } else { 5000 };
    for shards in [1, 8] {
        let config = ConcurrentConfig { shards: Some(shards), max_flows: flows, ..one_shard() };
        let table = table::<u32>(&config);
        let handle = table.handle();
        let pinned = handle.pin();
        let fill = || (0..flows).for_each(|key| assert!(pinned.insert(key.into(), key).is_ok()));
        fill();
        assert_eq!(pinned.remove_if(&7, |value| *value == 8), None);
        assert_eq!(pinned.remove_if(&7, |value| *value == 7), Some(&7));
        assert_eq!(pinned.remove_if(&7, |_| unreachable!()), None);
        let mut seen = 0;
        pinned.retain(|flow| {
            seen += 1;
            // The table may be used; a value that was replaced after it was seen stays.
            if flow.key() == 9 {
                assert!(pinned.insert(9, 999).is_ok());
            }
            flow.key() % 10 == 0
        });
        assert_eq!((seen, table.len()), (flows - 1, flows as usize / 10 + 1));
        assert_eq!((pinned.get(&9), pinned.get(&10), pinned.get(&11)), (Some(&999), Some(&10), None));
        fill();
        assert!(pinned.insert(u64::MAX, 0).is_err(), "{flows} is the maximum");
        pinned.clear();
        assert!(table.is_empty());
        pinned.for_each(|_| unreachable!());
        fill();
        assert_eq!(table.len(), flows as usize);
    }
}

#[test]
fn a_table_clears_itself_while_others_use_it() {
    let table = table::<Arc<u64>>(&ConcurrentConfig { max_flows: 200, ..one_shard() });
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let handle = table.handle();
                for round in 0..if cfg!(miri) { 2 } else { 200 } {
                    let pinned = handle.pin();
                    (0..100)
                        .for_each(|key| drop(pinned.insert(key, Arc::new(key)).unwrap().value().clone()));
                    if round % 2 == 0 {
                        pinned.clear();
                    } else {
                        pinned.retain(|flow| flow.key() % 2 == 0);
                    }
                }
            });
        }
    });
    let handle = table.handle();
    handle.pin().clear();
    assert!(table.is_empty());
    assert!((0..200).all(|key| handle.pin().insert(key, Arc::new(key)).is_ok()), "all space is there");
}

#[test]
fn capacity_counts_the_flows_before_the_next_growth() {
    let table = table::<()>(&ConcurrentConfig { shards: Some(1), ..ConcurrentConfig::for_flows(1000) });
    let handle = table.handle();
    let (before, bytes) = (table.capacity(), table.memory().index_bytes);
    assert!((1000..1200).contains(&before), "{before}");
    (0..before as u64).for_each(|key| assert!(handle.pin().insert(key, ()).is_ok()));
    assert_eq!((table.capacity(), table.memory().index_bytes), (before, bytes));
    handle.pin().insert(u64::MAX, ()).unwrap();
    assert!(table.capacity() >= 2 * before && table.memory().index_bytes > bytes);
    assert_eq!(table.max_flows(), 1 << 30);
}

#[test]
fn limits_on_growth_are_enforced() {
    let config = ConcurrentConfig { max_flows: 3, ..ConcurrentConfig::for_flows(3) };
    let table = table::<u8>(&config);
    let handle = table.handle();
    let pinned = handle.pin();
    let full = Full { reason: FullReason::Capacity };
    for key in 0..3 {
        pinned.insert(key, 0).unwrap();
    }
    let refused = |value| Refused { value, reason: FullReason::Capacity };
    assert_eq!(pinned.insert(3, 77).map(|_| ()), Err(refused(77)));
    assert_eq!(pinned.try_insert(3, 78).map(|_| ()), Err(refused(78)));
    assert_eq!(pinned.get_or_insert_with(3, || unreachable!()), Err(full));
    pinned.insert(1, 7).unwrap();
    assert_eq!((pinned.get(&1), table.len()), (Some(&7), 3));
    pinned.remove(&1).unwrap();
    assert_eq!(pinned.get_or_insert_with(3, || 9), Ok(&9));
    let with = |config| ConcurrentFlowTable::<u64, u8>::try_new(&config).map(|_| ());
    assert_eq!(with(ConcurrentConfig { max_flows: 0, ..config }), Err(BuildError::NoCapacity));
    for too_many in
        [ConcurrentConfig { max_flows: u32::MAX, ..config }, ConcurrentConfig { flows: u32::MAX, ..config }]
    {
        let (flows, flows_max) = (u32::MAX.into(), 1 << 30);
        assert_eq!(with(too_many), Err(BuildError::TooManyFlows { flows, flows_max }));
    }
    let never_used = ConcurrentConfig { flows: 1 << 30, max_flows: 10, ..config };
    let table = self::table::<u8>(&never_used);
    assert!(table.memory().total_bytes() < 10_000, "a table has no space for more than its maximum");
    for shards in [0, 3, 1 << 17] {
        let error = with(ConcurrentConfig { shards: Some(shards), ..config }).unwrap_err();
        assert_eq!(error, BuildError::InvalidShards { shards: shards.into(), shards_max: 1 << 16 });
    }
}

#[test]
fn flows_age_by_class_and_last_use() {
    let (short, long) = (TimeoutClass(0), TimeoutClass(1));
    let timeouts = Timeouts::NEVER.with(short, 100).with(long, 1000);
    let table = table::<()>(&ConcurrentConfig { timeouts, ..ConcurrentConfig::for_flows(1) });
    let handle = table.handle();
    let pinned = handle.pin();
    for key in 0..1000 {
        let flow = pinned.insert(key, ()).unwrap();
        if key % 10 == 1 {
            flow.set_class(long);
        }
    }
    table.set_now(Tick(50));
    for key in (0..1000).step_by(10) {
        pinned.touch(&key).unwrap();
        pinned.get(&(key + 2)).unwrap();
    }
    table.set_now(Tick(100));
    let (mut gone, mut calls, mut more) = (Vec::new(), 0, true);
    while more {
        let expired = pinned.expire(50, |flow| {
            assert!(pinned.get(&flow.key()).is_none(), "the table may be used");
            gone.push(flow.key());
        });
        (more, calls) = (expired.more, calls + 1);
        assert!(expired.examined <= 50 + 28 && calls < 50, "call {calls}: {expired:?}");
    }
    gone.sort_unstable();
    assert!(gone.iter().copied().eq((0..1000).filter(|key| key % 10 > 1)));
    assert_eq!(table.len(), 200);
    table.set_now(Tick(150));
    assert!(!pinned.expire(1000, |_| {}).more);
    assert_eq!(table.len(), 100, "those of the long class");
}

/// Counts its instances.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn every_value_is_dropped_once() {
    let count = AtomicUsize::new(0);
    let table = table::<Counted<'_>>(&one_shard());
    {
        let handle = table.handle();
        for key in 0..300 {
            handle.pin().insert(key % 200, Counted::new(&count)).unwrap();
        }
        for key in 0..150 {
            assert!(handle.pin().remove(&key).is_some());
        }
        assert!(count.load(Ordering::Relaxed) >= 50);
    }
    drop(table);
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn a_value_outlives_its_removal_as_long_as_a_reader_is_pinned() {
    let table = table::<Arc<u32>>(&one_shard());
    let (reader, writer) = (table.handle(), table.handle());
    let value = Arc::new(7);
    writer.pin().insert(1, Arc::clone(&value)).unwrap();
    let pinned = reader.pin();
    let seen = pinned.get(&1).unwrap();
    writer.pin().remove(&1).unwrap();
    for _ in 0..if cfg!(miri) { 50 } else { 5000 } {
        writer.pin().flush();
    }
    assert_eq!((**seen, Arc::strong_count(&value)), (7, 2));
    drop(pinned);
    for _ in 0..if cfg!(miri) { 500 } else { 5000 } {
        writer.pin().flush();
    }
    assert_eq!(Arc::strong_count(&value), 1, "freed once no thread reads it");
}

#[test]
fn readers_never_miss_a_flow_that_stays_while_the_table_grows_and_shrinks() {
    let (stay, churn, rounds) = if cfg!(miri) { (20, 60, 2) } else { (500, 20_000, 20_u64) };
    for shards in [1, 64] {
        let table = table::<u64>(&ConcurrentConfig { shards: Some(shards), ..one_shard() });
        for key in 0..stay {
            table.handle().pin().insert(key, key).unwrap();
        }
        let done = AtomicBool::new(false);
        let lookups = AtomicU64::new(0);
        thread::scope(|scope| {
            for reader in 0..2_u64 {
                let (table, done, lookups) = (&table, &done, &lookups);
                scope.spawn(move || {
                    let handle = table.handle();
                    let id = handle.pin().lookup(&(reader % stay)).unwrap().id();
                    let keys: Vec<u64> = (0..stay).collect();
                    while !done.load(Ordering::Relaxed) {
                        let pinned = handle.pin();
                        let mut found = 0;
                        pinned.get_batch(&keys, |i, value| {
                            assert_eq!(*value, keys[i]);
                            found += 1;
                        });
                        assert_eq!(found, stay, "all are there");
                        assert!(keys.iter().all(|key| pinned.touch(key) == Some(key)));
                        assert_eq!(pinned.get_by_id(id).unwrap().key(), reader % stay);
                        lookups.fetch_add(2 * stay, Ordering::Relaxed);
                    }
                });
            }
            let handle = table.handle();
            for round in 0..rounds {
                for key in stay..stay + churn {
                    handle.pin().insert(key, round).unwrap();
                }
                for key in stay..stay + churn {
                    assert_eq!(handle.pin().remove(&key), Some(&round));
                }
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(table.len() as u64, stay);
        assert!(lookups.load(Ordering::Relaxed) > 0);
    }
}

#[test]
fn linearizability_check_rejects_invalid_histories() {
    let event = |began, ended, what| Event { began, ended, what };
    let late = [event(0, 1, What::Insert(5)), event(2, 3, What::Get(0))];
    assert!(!is_linearizable(&late, 0, 0));
    let overlapping = [event(0, 2, What::Insert(5)), event(1, 3, What::Get(0))];
    assert!(is_linearizable(&overlapping, 0, 0));
    let twice = [event(0, 9, What::Insert(5)), event(1, 2, What::Remove(5)), event(3, 4, What::Remove(5))];
    assert!(!is_linearizable(&twice, 0, 0));
}

/// Waits until all threads have arrived; spins, so that they continue together.
fn meet(arrived: &AtomicU64, threads: u64) {
    let all = (arrived.fetch_add(1, Ordering::AcqRel) / threads + 1) * threads;
    let mut spins = 0;
    while arrived.load(Ordering::Acquire) < all {
        spins += 1;
        if spins > 1000 {
            thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Random histories of two threads on two keys, in a table whose one shard keeps growing and
/// shrinking; `FLOWLOOM_HISTORIES` sets their number. Operations overlap in half of the histories
/// if the machine has two idle CPUs, and in hardly any if it has one; the output reports the share.
#[test]
fn histories_are_linearizable() {
    const THREADS: u64 = 2;
    const KEYS: u64 = 2;
    const STEPS: u64 = 5;
    let histories = match std::env::var("FLOWLOOM_HISTORIES").ok().and_then(|text| text.parse().ok()) {
        Some(histories) => histories,
        None if cfg!(miri) => 5,
        None => 20_000_u64,
    };
    let table = ConcurrentFlowTable::<u64, u64>::try_with_hasher(&one_shard(), KeyedState::with_seed(1));
    let table = table.unwrap();
    let (clock, arrived) = (AtomicU64::new(1), AtomicU64::new(0));
    let run = |thread: u64| {
        let (table, clock, arrived) = (&table, &clock, &arrived);
        move || {
            let handle = table.handle();
            let mut all = Vec::new();
            for history in 0..histories {
                meet(arrived, THREADS);
                let mut state = history * 8 + thread;
                for step in 0..STEPS {
                    let random = flowloom_flow_key::hash::fold::split_mix(&mut state);
                    let key = history * KEYS + random % KEYS;
                    let new = 1 + thread + THREADS * step;
                    let pinned = handle.pin();
                    let began = clock.fetch_add(1, Ordering::AcqRel);
                    let what = match random >> 8 & 7 {
                        0..3 => What::Get(pinned.get(&key).copied().unwrap_or(0)),
                        3 => What::Insert(*pinned.insert(key, new).unwrap().value()),
                        4 | 5 => What::TryInsert(new, *pinned.try_insert(key, new).unwrap().0.value()),
                        _ => What::Remove(pinned.remove(&key).copied().unwrap_or(0)),
                    };
                    let ended = clock.fetch_add(1, Ordering::AcqRel);
                    all.push((key, Event { began, ended, what }));
                    // Other flows, for which the index grows, and flows of the previous history.
                    let other = u64::MAX - (random >> 16) % 30;
                    if history / 16 % 2 == 0 {
                        pinned.insert(other, 1).unwrap();
                    } else {
                        pinned.remove(&other);
                    }
                    if step < KEYS && history > 0 {
                        pinned.remove(&((history - 1) * KEYS + step));
                    }
                }
            }
            all
        }
    };
    let mut by_key: HashMap<u64, Vec<Event>> = HashMap::new();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(run(thread))).collect();
        for (key, event) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
            by_key.entry(key).or_default().push(event);
        }
    });
    let mut meetings = 0_u64;
    for (key, events) in &by_key {
        assert!(is_linearizable(events, 0, 0), "key {key}: {events:#?}");
        let meets = |a: &Event| events.iter().any(|b| b.began > a.began && b.began < a.ended);
        meetings += u64::from(events.iter().any(meets));
    }
    println!("{meetings} of {} keys with operations at once", by_key.len());
}

//! Random histories of the table with many readers under shuttle, which draws the order of all
//! steps of all threads: `cargo xtask shuttle`.
//!
//! Links, signatures and locks are those of the table, with shuttle's atomics, which are all
//! sequentially consistent: the models for loom (`loom.rs`) cover weaker orderings. The collector
//! is the real one.
#![cfg(shuttle)]

mod history;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use flowloom_flow_key::KeyedState;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
use history::{Event, What, is_linearizable};
use shuttle::sync::Arc;
use shuttle::thread;

const KEYS: u64 = 2;
const STEPS: usize = 4;

type Table = ConcurrentFlowTable<u64, u64>;

/// Returns the number of histories: `FLOWLOOM_HISTORIES`, or 10,000.
fn histories() -> usize {
    let asked = std::env::var("FLOWLOOM_HISTORIES").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(10_000)
}

/// Performs random operations and returns them with their answers.
fn operate(table: &Table, clock: &AtomicU64, thread: u64, mut random: u64) -> Vec<(u64, Event)> {
    let handle = table.handle();
    (0..STEPS)
        .map(|step| {
            let random = split_mix(&mut random);
            let (key, new) = (random % KEYS, 1 + thread + 4 * step as u64);
            let pinned = handle.pin();
            let began = clock.fetch_add(1, Ordering::Relaxed);
            let what = match random >> 8 & 7 {
                0..3 => What::Get(pinned.get(&key).copied().unwrap_or(0)),
                3 => {
                    let mut seen = 0;
                    pinned.get_batch(&[key], |_, value| seen = *value);
                    What::Get(seen)
                }
                4 => What::Insert(*pinned.insert(key, new).unwrap().value()),
                5 | 6 => What::TryInsert(new, *pinned.try_insert(key, new).unwrap().0.value()),
                _ => What::Remove(pinned.remove(&key).copied().unwrap_or(0)),
            };
            let ended = clock.fetch_add(1, Ordering::Relaxed);
            // Other flows, so that the index grows and shrinks at any moment of the history.
            let other = 100 + (random >> 16) % 4;
            if random >> 24 & 1 == 0 {
                pinned.insert(other, 1).unwrap();
            } else {
                pinned.remove(&other);
            }
            (key, Event { began, ended, what })
        })
        .collect()
}

/// One history of two or three threads, in a table that is about to grow, to shrink, or neither.
fn history(seed: u64) {
    let mut random = seed;
    let config = ConcurrentConfig { shards: Some(1), ..ConcurrentConfig::for_flows(1) };
    let table = Arc::new(Table::try_with_hasher(&config, KeyedState::with_seed(seed)).unwrap());
    {
        let handle = table.handle();
        let pinned = handle.pin();
        let (inserted, removed) = (split_mix(&mut random) % 14, split_mix(&mut random) % 14);
        for key in 0..inserted {
            pinned.insert(1000 + key, 0).unwrap();
        }
        for key in 0..removed {
            pinned.remove(&(1000 + key));
        }
    }
    let clock = Arc::new(AtomicU64::new(1));
    let threads: Vec<_> = (0..2 + split_mix(&mut random) % 2)
        .map(|number| {
            let (table, clock, random) = (Arc::clone(&table), Arc::clone(&clock), split_mix(&mut random));
            thread::spawn(move || operate(&table, &clock, number, random))
        })
        .collect();
    let mut by_key: BTreeMap<u64, Vec<Event>> = BTreeMap::new();
    for (key, event) in threads.into_iter().flat_map(|thread| thread.join().unwrap()) {
        by_key.entry(key).or_default().push(event);
    }
    // What the table has at the end is one more operation, after all others.
    let handle = table.handle();
    let pinned = handle.pin();
    for (key, mut events) in by_key {
        let now = clock.fetch_add(1, Ordering::Relaxed);
        let what = What::Get(pinned.get(&key).copied().unwrap_or(0));
        events.push(Event { began: now, ended: now, what });
        assert!(is_linearizable(&events, 0, 0), "seed {seed}, key {key}: {events:#?}");
    }
}

/// Runs histories with seeds from a first one on.
fn run(first: u64, schedule: impl FnOnce(Box<dyn Fn() + Send + Sync>)) {
    let next = Arc::new(AtomicU64::new(first));
    let counted = Arc::clone(&next);
    schedule(Box::new(move || history(counted.fetch_add(1, Ordering::Relaxed))));
    println!("{} histories", next.load(Ordering::Relaxed) - first);
}

#[test]
fn histories_in_random_order_are_linearizable() {
    run(0, |history| shuttle::check_random(history, histories() / 2));
}

#[test]
fn histories_with_few_changes_of_thread_are_linearizable() {
    run(1 << 32, |history| shuttle::check_pct(history, histories() - histories() / 2, 3));
}

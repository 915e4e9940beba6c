//! Models of the table with many readers, with every interleaving that loom finds:
//! `cargo xtask loom`.
//!
//! Links, signatures and locks are those of the table, with loom's atomics. The collector is the
//! real one, with the standard atomics: it has separate models.
#![cfg(loom)]

use std::hash::{BuildHasher, Hasher};

use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable};
use loom::sync::Arc;
use loom::thread;

/// Hashes a key to itself, so that a model has no secret.
#[derive(Clone, Default)]
struct Plain;

struct PlainHasher(u64);

impl Hasher for PlainHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for Plain {
    type Hasher = PlainHasher;

    fn build_hasher(&self) -> PlainHasher {
        PlainHasher(0)
    }
}

/// Runs a model and checks that loom tried several orders.
fn explore(model: impl Fn() + Sync + Send + 'static) {
    let orders = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = std::sync::Arc::clone(&orders);
    loom::model(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
    println!("{orders} orders");
    assert!(orders > 10, "{orders} orders");
}

type Table = ConcurrentFlowTable<u64, u64, Plain>;

fn table(flows: std::ops::Range<u64>) -> Arc<Table> {
    let config = ConcurrentConfig { shards: Some(1), ..ConcurrentConfig::for_flows(1) };
    let table = Table::try_with_hasher(&config, Plain).unwrap();
    let handle = table.handle();
    for key in flows {
        handle.pin().insert(key, key).unwrap();
    }
    drop(handle);
    Arc::new(table)
}

#[test]
fn a_flow_that_stays_is_found_while_its_index_grows() {
    explore(|| {
        // One line; the sixth flow makes it two, and all move.
        let table = table(0..5);
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.handle().pin().insert(5, 5).unwrap();
            })
        };
        let handle = table.handle();
        let pinned = handle.pin();
        assert_eq!(pinned.get(&3), Some(&3));
        let seen = pinned.get(&5).copied();
        assert!(seen.is_none() || seen == Some(5));
        drop(pinned);
        writer.join().unwrap();
        assert_eq!(handle.pin().get(&5), Some(&5));
    });
}

#[test]
fn a_flow_that_stays_is_found_while_its_index_shrinks() {
    explore(|| {
        // Two lines with four flows; one less makes it one line, and all move.
        let table = table(0..6);
        for key in 0..2 {
            table.handle().pin().remove(&key).unwrap();
        }
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                table.handle().pin().remove(&2).unwrap();
            })
        };
        let handle = table.handle();
        let pinned = handle.pin();
        assert_eq!(pinned.get(&4), Some(&4));
        drop(pinned);
        writer.join().unwrap();
        assert_eq!((table.len(), table.memory().index_bytes), (3, 64));
    });
}

#[test]
fn a_value_is_the_old_one_or_the_new_one() {
    explore(|| {
        let table = table(0..2);
        let writer = {
            let table = Arc::clone(&table);
            thread::spawn(move || {
                let handle = table.handle();
                let pinned = handle.pin();
                pinned.insert(1, 10).unwrap();
                assert_eq!(pinned.remove(&0), Some(&0));
            })
        };
        let handle = table.handle();
        let pinned = handle.pin();
        let removed = pinned.get(&0).is_none();
        let seen = pinned.get(&1).copied().unwrap();
        assert!(seen == 10 || seen == 1 && !removed, "the removal came after the change");
        drop(pinned);
        writer.join().unwrap();
        assert_eq!(table.len(), 1);
    });
}

#[test]
fn one_of_two_concurrent_insertions_of_a_key_wins() {
    explore(|| {
        let table = table(0..0);
        let threads: Vec<_> = (1..3)
            .map(|value| {
                let table = Arc::clone(&table);
                thread::spawn(move || {
                    let handle = table.handle();
                    let pinned = handle.pin();
                    let (flow, left) = pinned.try_insert(7, value).unwrap();
                    (*flow.value(), left.is_none())
                })
            })
            .collect();
        let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert_eq!(outcomes[0].0, outcomes[1].0);
        assert_eq!(outcomes.iter().filter(|(_, is_new)| *is_new).count(), 1);
    });
}

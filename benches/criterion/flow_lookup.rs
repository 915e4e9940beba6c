//! Time from key and hash to a flow's state: the pair of calls in the packet path.
//!
//! Every flow is looked up once per round, in shuffled order. This is the longest reuse distance,
//! the worst case in [DHASH §V-B]. The tables are filled in advance, so that the timed part touches
//! no fresh page. 16 K flows are close to the size of the second-level cache, 256 K exceed it.

use flowloom::flow_key::TableHash;
use std::hint::black_box;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::TableOptions;
use flowloom::flow_table::dhash::{DHash, ReferenceDHash};
use flowloom::flow_table::segments::Growing;
use flowloom::flow_table::{FlowTable, Tick, TimeoutClass};

/// Number of packets in a batch, as the engine takes them from a ring.
const BATCH: usize = 32;

/// The packets of one round, each as a key and its hash.
struct Round {
    keys: Vec<FlowKey>,
    hashes: Vec<TableHash>,
}

impl Round {
    /// Returns one packet for each of `flows` flows to a server port, shuffled.
    fn new(flows: u32, port: u16) -> Self {
        let hasher = FlowHasher::with_seed(1);
        let mut order: Vec<u32> = (0..flows).collect();
        let mut state = 2;
        for last in (1..flows as usize).rev() {
            let other = split_mix(&mut state) % (last as u64 + 1);
            order.swap(last, usize::try_from(other).expect("below the length"));
        }
        let key = |number: u32| FlowKey::from_v4(0x0A00_0000 + number, 0xC0A8_0001, 40_000, port, 6).0;
        let keys: Vec<FlowKey> = order.into_iter().map(key).collect();
        let hashes = keys.iter().map(|key| hasher.hash(key).table).collect();
        Self { keys, hashes }
    }

    /// Looks up all packets in batches and touches the found flows. Returns their number.
    fn play(&self, table: &mut impl FlowTable<FlowKey, ()>, now: Tick) -> usize {
        let mut ids = [None; BATCH];
        let mut found = 0;
        for (keys, hashes) in self.keys.chunks(BATCH).zip(self.hashes.chunks(BATCH)) {
            let ids = &mut ids[..keys.len()];
            table.lookup_batch(keys, hashes, ids);
            for &id in ids.iter().flatten() {
                found += usize::from(table.get_mut_touch(id, now).is_some());
            }
        }
        found
    }
}

/// Fills a table, checks its answers, and times rounds of hits, misses and single lookups.
fn measure(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    table: &mut impl FlowTable<FlowKey, ()>,
    hits: &Round,
    misses: &Round,
) {
    for (&key, &hash) in hits.keys.iter().zip(&hits.hashes) {
        let id = table.insert(key, hash, (), TimeoutClass(0), Tick(0)).expect("the table is not full");
        assert_eq!(table.lookup(&key, hash), Some(id), "{name} finds what was inserted");
    }
    assert_eq!(hits.play(table, Tick(1)), hits.keys.len(), "{name} finds every flow");
    assert_eq!(misses.play(table, Tick(1)), 0, "{name} finds no other flow");

    group.bench_function(format!("{name}/hit"), |b| b.iter(|| black_box(hits.play(table, Tick(2)))));
    group.bench_function(format!("{name}/miss"), |b| b.iter(|| black_box(misses.play(table, Tick(2)))));
    group.bench_function(format!("{name}/single"), |b| {
        b.iter(|| {
            let packets = hits.keys.iter().zip(&hits.hashes);
            let ids = packets.filter_map(|(key, &hash)| table.lookup(key, hash));
            ids.fold(0_u64, |sum, id| sum.wrapping_add(u64::from(id.slot())))
        });
    });
}

fn flow_lookup(criterion: &mut Criterion) {
    for flows in [16 << 10, 256 << 10] {
        let (hits, misses) = (Round::new(flows, 443), Round::new(flows, 80));
        let config = TableOptions::for_flows(flows);
        let mut group = criterion.benchmark_group(format!("flow_lookup/{}K", flows >> 10));
        group.throughput(Throughput::Elements(u64::from(flows))).sample_size(20);

        let mut table = DHash::try_new(&config).expect("a table fits the memory");
        measure(&mut group, "dhash", &mut table, &hits, &misses);

        let mut table = Growing::try_new(flows, TableOptions::for_flows(flows), DHash::try_new)
            .expect("a table fits the memory");
        measure(&mut group, "growing", &mut table, &hits, &misses);

        let mut table = ReferenceDHash::<FlowKey, ()>::try_new(&config).expect("a table fits the memory");
        measure(&mut group, "reference", &mut table, &hits, &misses);
        group.finish();
    }
}

criterion_group!(benches, flow_lookup);
criterion_main!(benches);

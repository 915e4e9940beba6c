//! All layouts give the digest of an oracle, over a thousand generated traces, and over real
//! captures where there are some.
//!
//! The oracle shares only the decoder with the engine, which has its own oracles; it shares no
//! hash, table, lookup or worker. It repeats the few lines of the application. Without
//! `FLOWLOOM_THOROUGH`, every scheme runs on every small capture with every number of workers, and
//! at least once on every large capture. With it, every scheme runs on every trace and every
//! capture with every number of workers, which takes minutes.

use std::collections::BTreeMap;
use std::path::Path;

use flowloom_engine::record::Value;
use flowloom_engine::{
    Control, Endpoints, EngineConfig, Layout, Order, PolicyRef, ResultDigest, run_seeded,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_flow_table::{BuildError, DHash, FlowTable, Growing, TableOptions};
use flowloom_packet::clock::PacketClock;
use flowloom_packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};
use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
use flowloom_traffic::synth::MixConfig;

use crate::common::{Memory, Recorder, Seen, config, small_table};

const WORKERS: [usize; 6] = [1, 2, 3, 4, 8, 16];

/// Every scheme by name, and whether its own order suffices.
fn schemes() -> Vec<(&'static str, Order)> {
    let topology = Topology::flat(WorkerCount::new(2).unwrap());
    let order = |scheme: &Scheme| {
        let keeps = scheme.policy(&topology, 1).unwrap().order().keeps_flow_order();
        if keeps { Order::Internal } else { Order::External }
    };
    Scheme::ALL.iter().map(|scheme| (scheme.name, order(scheme))).collect()
}

/// Returns the expected digest, and how many packets have a key, computed packet by packet with a
/// map in the order of keys.
fn oracle(source: &mut dyn PacketSource) -> (String, u64) {
    let mut flows: BTreeMap<FlowKey, Seen> = BTreeMap::new();
    let (mut batch, mut clock, mut processed) = (PacketBatch::new(), PacketClock::default(), 0);
    while source.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.as_ref().unwrap();
        for raw in &batch.packets {
            let now = clock.tick(raw.time_ns);
            let bytes = raw.bytes_in(block.bytes());
            let Ok(headers) = decode(raw.link, bytes, DecodeOptions::default()) else { continue };
            processed += 1;
            let flow = flows.entry(headers.key).or_default();
            flow.packets += 1;
            flow.last_ns = now;
            flow.order = flow.order.wrapping_mul(31) ^ now;
        }
    }
    let mut digest = ResultDigest::default();
    for (key, flow) in &flows {
        let values = [
            Value::Number(flow.packets),
            Value::Number(0),
            Value::Number(flow.last_ns),
            Value::Bits(flow.order),
        ];
        digest.add(ResultDigest::of_flow(key, &values));
    }
    (digest.finish(), processed)
}

/// Returns the digest of a run by seed.
fn digest<T: FlowTable<FlowKey, Seen> + Send + 'static>(
    source: &mut (dyn PacketSource + Send),
    workers: Option<usize>,
    (name, order): (&str, Order),
    seed: u64,
    table: impl FnMut(usize) -> Result<T, BuildError>,
) -> (String, u64) {
    let mode = workers.map_or(Layout::Inline, |workers| Layout::Pipeline { workers });
    let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, seed).unwrap();
    let policy_ref = PolicyRef::new(&mut policy);
    let config = EngineConfig { order, hasher: FlowHasher::with_seed(seed), ..config(mode) };
    let control = Control::default();
    let parts = Endpoints::new(source, policy_ref, &control);
    let report = run_seeded(&config, parts, table, |_| Recorder::default(), seed).unwrap();
    assert!(report.is_balanced() && report.fault.is_none(), "{name} {mode:?}: {:?}", report.fault);
    assert_eq!(report.flows.iter().map(|flow| flow.state.out_of_order).sum::<u64>(), 0, "{name} {mode:?}");
    (report.digest(), report.processed())
}

#[test]
fn a_thousand_traces_have_one_digest_each() {
    let schemes = schemes();
    let thorough = std::env::var_os("FLOWLOOM_THOROUGH").is_some();
    for trace in 0..1000_u64 {
        let flows = 2 + trace % 37;
        let packets = flows + trace * 7 % 150;
        let source = Memory::in_blocks(
            MixConfig { packets, flows, seed: trace, ..MixConfig::default() },
            30 + trace as usize % 90,
        );
        let expected = oracle(&mut source.clone());
        let inline = digest(&mut source.clone(), None, schemes[0], trace, |_| small_table());
        assert_eq!(inline, expected, "trace {trace} inline");
        let check = |workers, scheme| {
            let found = digest(&mut source.clone(), Some(workers), scheme, trace + 1, |_| small_table());
            assert_eq!(found, expected, "trace {trace} on {workers} workers, {scheme:?}");
        };
        if thorough {
            for scheme in &schemes {
                for workers in WORKERS {
                    check(workers, *scheme);
                }
            }
        } else {
            // Two of the six numbers of workers. The schemes have another period, so all pairs
            // occur.
            let scheme = schemes[trace as usize % schemes.len()];
            check(WORKERS[trace as usize % 6], scheme);
            check(WORKERS[(trace / 6) as usize % 6], scheme);
        }
    }
}

fn growing() -> Result<impl FlowTable<FlowKey, Seen> + Send, BuildError> {
    let options = TableOptions { memory_limit_bytes: 2 << 30, ..TableOptions::for_flows(1 << 22) };
    Growing::try_new(32, options, DHash::<FlowKey, Seen>::try_new)
}

fn open(path: &Path) -> CaptureSet {
    CaptureSet::open(&[Input::Path(path.to_path_buf())], SetOptions::default()).unwrap()
}

fn packets(path: &Path) -> u64 {
    let (mut source, mut batch, mut packets) = (open(path), PacketBatch::new(), 0);
    while matches!(source.next_batch(&mut batch), Ok(Fill::Packets)) {
        packets += batch.packets.len() as u64;
    }
    packets
}

#[test]
fn real_captures_have_one_digest_each() {
    let Some(data) = std::env::var_os("FLOWLOOM_DATA") else {
        eprintln!("skipped: FLOWLOOM_DATA is not set (the folder of real captures)");
        return;
    };
    let folder = Path::new(&data).join("pcaps");
    let table = std::fs::read_to_string(folder.join("expected.tsv")).unwrap();
    let schemes = schemes();
    let thorough = std::env::var_os("FLOWLOOM_THOROUGH").is_some();
    let mut nth = 0;
    for line in table.lines().skip(1) {
        let name = line.split('\t').next().unwrap();
        let path = folder.join(name);
        let run = |workers, scheme, seed| digest(&mut open(&path), workers, scheme, seed, |_| growing());
        let expected = oracle(&mut open(&path));
        assert_eq!(run(None, schemes[0], 1), expected, "{name} inline");
        // Every scheme on every number of workers; on a large capture each scheme once, on one
        // number of workers after another.
        let is_whole = thorough || packets(&path) < 2_000;
        for (i, &scheme) in schemes.iter().enumerate() {
            let counts = if is_whole { &WORKERS[..] } else { std::slice::from_ref(&WORKERS[i % 6]) };
            for &workers in counts {
                nth += 1;
                let found = run(Some(workers), scheme, nth);
                assert_eq!(found, expected, "{name} on {workers} workers, {scheme:?}");
            }
        }
    }
}

//! Every policy in every order it supports: all numbers of workers give one digest, and packets
//! leave in the guaranteed order.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowloom_engine::{
    App, ConfigError, Control, Endpoints, EngineConfig, Fault, IdleTimeout, Layout, Order, PacketSink,
    PlacementDigest, PolicyRef, Released, RunReport, SinkError, StartError, Verdict, WhenFull, run_seeded,
    run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_packet::{DecodeOptions, PacketView, decode};
use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{OrderGuarantee, Topology, WorkerCount};

use flowloom_traffic::synth::MixConfig;

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

/// Records the packets that leave.
#[derive(Default)]
struct Notes {
    numbers: Vec<u64>,
    /// The times of each flow's packets, in the order in which they left.
    flows: HashMap<FlowKey, Vec<u64>>,
    finished: u32,
    fail_at: Option<usize>,
    panic_at: Option<usize>,
}

impl PacketSink for Notes {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        if self.fail_at == Some(self.numbers.len()) {
            return Err(SinkError("injected failure".into()));
        }
        assert!(self.panic_at != Some(self.numbers.len()), "injected panic");
        self.numbers.push(packet.number);
        let headers = decode(packet.link, packet.bytes, DecodeOptions::default()).unwrap();
        self.flows.entry(headers.key).or_default().push(packet.time_ns);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.finished += 1;
        Ok(())
    }
}

/// Denies packets by their time, so that every layout denies the same packets.
struct DeniesSome(Recorder);

impl App for DeniesSome {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        self.0.on_packet(packet, flow);
        if packet.time_ns % 7 == 3 { Verdict::Deny } else { Verdict::Accept }
    }
}

fn policy(name: &str, workers: usize) -> Policy {
    let topology = Topology::flat(WorkerCount::new(workers).unwrap());
    Scheme::named(name).unwrap().policy(&topology, 1).unwrap()
}

/// Runs once: on threads, or by a seed.
fn go(
    config: &EngineConfig,
    source: &Memory,
    policy: &mut Policy,
    sink: Option<&mut Notes>,
    seed: Option<u64>,
) -> RunReport<Seen> {
    let control = Control::default();
    let mut source = source.clone();
    let parts = Endpoints::new(&mut source, PolicyRef::new(policy), &control)
        .with_packets(sink.map(|sink| sink as _));
    let app = |_| DeniesSome(Recorder::default());
    let report = match seed {
        None => run_with(config, parts, |_| small_table(), app).unwrap(),
        Some(seed) => run_seeded(config, parts, |_| small_table(), app, seed).unwrap(),
    };
    assert!(report.is_balanced(), "{:?} {:?}", report.input, report.workers);
    let snapshot = control.snapshot();
    assert_eq!(snapshot.packets, report.input.packets);
    assert_eq!((snapshot.processed, snapshot.in_flight), (report.processed(), 0));
    report
}

fn with(mode: Layout, order: Order) -> EngineConfig {
    EngineConfig { order, ring_slots: 64, ..config(mode) }
}

/// The results of the same run on one thread.
struct Expected {
    report: RunReport<Seen>,
    notes: Notes,
}

fn expected(source: &Memory) -> Expected {
    let mut notes = Notes::default();
    let report =
        go(&with(Layout::Inline, Order::Internal), source, &mut policy("dh", 1), Some(&mut notes), None);
    assert!(notes.numbers.is_sorted() && notes.finished == 1);
    Expected { report, notes }
}

fn check(expected: &Expected, report: &RunReport<Seen>, notes: &Notes, exact: bool, what: &str) {
    assert!(report.fault.is_none(), "{what}: {:?}", report.fault);
    assert_eq!(report.digest(), expected.report.digest(), "{what}");
    let totals = (report.worker_totals(), expected.report.worker_totals());
    assert_eq!(totals.0.denied, totals.1.denied, "{what}");
    assert_eq!(totals.0.flows_begun, totals.1.flows_begun, "{what}");
    let sink = report.sink.unwrap();
    assert_eq!((sink.taken, sink.refused), (report.processed() - totals.0.denied, 0), "{what}");
    assert_eq!(notes.finished, 1, "{what}");
    assert_eq!(notes.flows, expected.notes.flows, "{what}: the order of a flow");
    if exact {
        assert_eq!(notes.numbers, expected.notes.numbers, "{what}: the order of all");
    }
}

#[test]
fn packets_wait_for_slow_workers_only_if_the_order_requires_it() {
    let source = Memory::new(mix(3_000, 120));
    for (name, order, exact) in [
        ("dh", Order::Internal, false),
        ("dh", Order::None, false),
        ("dh", Order::External, true),
        ("flowpin", Order::Internal, true),
        ("flowpin", Order::None, false),
        ("lfb", Order::None, false),
    ] {
        let config = with(Layout::Pipeline { workers: 3 }, order);
        for seed in 1..=3 {
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, 3), Some(&mut notes), Some(seed));
            assert!(report.fault.is_none() && notes.numbers.len() > 2_000, "{name} {order:?}");
            assert_eq!(notes.numbers.is_sorted(), exact, "{name} {order:?}, seed {seed}");
        }
    }
}

#[test]
fn every_policy_gives_one_digest_and_the_order_it_promises() {
    let source = Memory::new(mix(3_000, 120));
    let expected = expected(&source);
    for scheme in Scheme::ALL {
        for workers in [1, 2, 3, 4, 8, 16] {
            for order in [Order::Internal, Order::External] {
                let mut policy = policy(scheme.name, workers);
                if order == Order::Internal && !policy.order().keeps_flow_order() {
                    continue;
                }
                let config = with(Layout::Pipeline { workers }, order);
                let what = format!("{} on {workers}, {order:?}", scheme.name);
                let mut notes = Notes::default();
                let report = go(&config, &source, &mut policy, Some(&mut notes), Some(workers as u64));
                let exact = order == Order::External;
                check(&expected, &report, &notes, exact, &what);
            }
        }
    }
}

#[test]
fn every_policy_gives_one_digest_on_threads() {
    let source = Memory::new(mix(3_000, 120));
    let expected = expected(&source);
    for name in
        ["dh", "hrw3", "rss++", "adaptive", "fbs", "p2c", "flowpin", "ph", "lfb", "lfb-ns", "flowpull"]
    {
        for (workers, order) in [(2, Order::Internal), (3, Order::External)] {
            let config = with(Layout::Pipeline { workers }, order);
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, workers), Some(&mut notes), None);
            check(&expected, &report, &notes, order == Order::External, name);
        }
    }
    for name in ["rr", "minload", "adaptive-racy"] {
        for workers in [2, 4] {
            let config = with(Layout::Pipeline { workers }, Order::External);
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, workers), Some(&mut notes), None);
            check(&expected, &report, &notes, true, name);
        }
    }
}

#[test]
fn without_order_every_packet_is_seen_once() {
    let source = Memory::new(mix(3_000, 120));
    let expected = expected(&source);
    for name in ["rr", "minload", "dh", "flowpin", "lfb"] {
        let config = with(Layout::Pipeline { workers: 4 }, Order::None);
        for seed in [None, Some(3)] {
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, 4), Some(&mut notes), seed);
            assert_eq!(report.processed(), expected.report.processed(), "{name}");
            assert_eq!(report.flows.len(), expected.report.flows.len(), "{name}");
            notes.numbers.sort_unstable();
            assert_eq!(notes.numbers, expected.notes.numbers, "{name}");
        }
    }
}

#[test]
fn a_policy_without_order_needs_external_order_or_none() {
    let source = Memory::new(mix(100, 10));
    let mut policy = policy("rr", 2);
    assert_eq!(policy.order(), OrderGuarantee::None);
    let control = Control::default();
    let mut again = source.clone();
    let parts = Endpoints::new(&mut again, PolicyRef::new(&mut policy), &control);
    let config = with(Layout::Pipeline { workers: 2 }, Order::Internal);
    let error =
        run_with(&config, parts, |_| small_table(), |_| DeniesSome(Recorder::default())).unwrap_err();
    assert!(matches!(error, StartError::Config(ConfigError::NoOrder { policy: "rr" })), "{error}");
}

#[test]
fn a_policy_made_for_another_number_of_workers_is_refused() {
    let source = Memory::new(mix(100, 10));
    for name in Scheme::ALL.iter().map(|scheme| scheme.name) {
        for (made_for, workers) in [(3, 2), (2, 3)] {
            let (mut policy, mut again, control) =
                (policy(name, made_for), source.clone(), Control::default());
            let parts = Endpoints::new(&mut again, PolicyRef::new(&mut policy), &control);
            let config = with(Layout::Pipeline { workers }, Order::None);
            let error = run_with(&config, parts, |_| small_table(), |_| DeniesSome(Recorder::default()))
                .unwrap_err();
            let expected = format!("was made for {made_for} workers, but the run has {workers}");
            assert!(error.to_string().contains(&expected), "{name}: {error}");
            assert!(matches!(error, StartError::Config(ConfigError::PolicyWorkers { .. })), "{error:?}");
        }
    }
}

#[test]
fn reordering_does_not_wait_for_dropped_packets() {
    let source = Memory::new(mix(4_000, 120));
    for name in ["dh", "flowpin", "rr", "lfb"] {
        let config = EngineConfig {
            when_full: WhenFull::Drop,
            ..with(Layout::Pipeline { workers: 2 }, Order::External)
        };
        for seed in 0..20 {
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, 2), Some(&mut notes), Some(seed));
            assert!(notes.numbers.is_sorted(), "{name} {seed}");
            let accepted = report.processed() - report.worker_totals().denied;
            assert_eq!(report.sink.unwrap().taken, accepted, "{name} {seed}");
        }
    }
}

#[test]
fn a_sink_that_fails_ends_the_run_and_is_named() {
    let source = Memory::new(mix(3_000, 120));
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        for order in [Order::Internal, Order::External] {
            for seed in [None, Some(5)] {
                let mut notes = Notes { fail_at: Some(100), ..Notes::default() };
                let report = go(&with(mode, order), &source, &mut policy("dh", 2), Some(&mut notes), seed);
                assert!(matches!(report.fault, Some(Fault::Sink { .. })), "{:?}", report.fault);
                let sink = report.sink.unwrap();
                assert_eq!(sink.taken, 100);
                let accepted = report.processed() - report.worker_totals().denied;
                assert_eq!(sink.taken + sink.refused, accepted, "{mode:?} {order:?}");
                assert_eq!(notes.finished, 0, "it is not asked again");
            }
        }
    }
}

#[test]
fn a_sink_that_panics_ends_the_run() {
    let source = Memory::new(mix(3_000, 120));
    let mut refused = 0;
    for seed in [None].into_iter().chain((0..10).map(Some)) {
        let mut notes = Notes { panic_at: Some(100), ..Notes::default() };
        let config = with(Layout::Pipeline { workers: 2 }, Order::External);
        let report = go(&config, &source, &mut policy("dh", 2), Some(&mut notes), seed);
        let fault = report.fault.as_ref().unwrap().to_string();
        assert!(fault.contains("injected panic"), "{fault}");
        let sink = report.sink.unwrap();
        assert_eq!(sink.taken, 100, "{sink:?}");
        refused += sink.refused;
    }
    assert!(refused > 0, "workers go on with what they have, in some schedule");
}

#[test]
fn idle_flows_end_at_the_same_packets_when_workers_share_them() {
    // Slow traffic, so that a short timeout ends many flows, even while packets of them wait at
    // another worker.
    let source = Memory::new(MixConfig { rate_pps: 500, ..mix(4_000, 150) });
    let timeout = IdleTimeout::from_ns(100_000_000);
    let run = |name: &str, mode, order, seed| {
        let config = EngineConfig { idle_timeout: Some(timeout), order, ring_slots: 256, ..config(mode) };
        let control = Control::default();
        let mut again = source.clone();
        let mut policy = policy(name, mode.workers());
        let parts = Endpoints::new(&mut again, PolicyRef::new(&mut policy), &control);
        let table = |_| table(2_000, Some(timeout));
        let report = run_seeded(&config, parts, table, |_| DeniesSome(Recorder::default()), seed).unwrap();
        (report.digest(), report.worker_totals(), report.tables().0.expired)
    };
    let expected = run("dh", Layout::Inline, Order::Internal, 1);
    assert!(expected.1.flows_expired > 100);
    for name in ["flowpin", "fbs", "ph", "lfb", "lfb-ns", "flowpull"] {
        let mut aged = 0;
        for seed in 0..10 {
            let found = run(name, Layout::Pipeline { workers: 3 }, Order::Internal, seed);
            assert_eq!(found.0, expected.0, "{name} {seed}");
            assert_eq!(found.1.flows_begun, expected.1.flows_begun, "{name} {seed}");
            aged += found.2;
        }
        assert!(aged > 0, "{name}: tables do forget idle flows");
    }
    let found = run("rr", Layout::Pipeline { workers: 3 }, Order::External, 7);
    assert_eq!(found.0, expected.0, "rr");
}

#[test]
fn policies_by_checksum_or_server_give_the_same_results() {
    let source = Memory::new(mix(3_000, 120));
    let expected = expected(&source);
    for (name, digest) in [("crc", PlacementDigest::Crc), ("dst", PlacementDigest::Destination)] {
        let mut shares = Vec::new();
        for seed in 0..3 {
            let config = EngineConfig {
                digest,
                hasher: FlowHasher::with_seed(seed),
                ..with(Layout::Pipeline { workers: 3 }, Order::Internal)
            };
            let mut notes = Notes::default();
            let report = go(&config, &source, &mut policy(name, 3), Some(&mut notes), Some(seed));
            check(&expected, &report, &notes, false, name);
            shares.push(report.workers.iter().map(|worker| worker.sent).collect::<Vec<_>>());
        }
        assert!(shares.windows(2).all(|pair| pair[0] == pair[1]), "no secret is in it: {shares:?}");
        assert!(shares[0].iter().filter(|&&sent| sent > 0).count() > 1, "{shares:?}");
    }
}

/// Gives other flows time to get ahead at each packet of one flow, until a third of their packets
/// are processed.
struct Dawdler {
    slow: FlowKey,
    /// Packets of the other flows.
    others: u64,
    /// Packets of the other flows per packet of the slow flow.
    pace: u64,
    seen: Arc<[AtomicU64; 2]>,
    /// Packets of the slow flow that arrived after all others.
    behind: Arc<AtomicU64>,
}

impl App for Dawdler {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, _: &mut Seen) -> Verdict {
        let [slow, others] = &*self.seen;
        if packet.headers.key != self.slow {
            others.fetch_add(1, Ordering::Relaxed);
            return Verdict::Accept;
        }
        let goal = (slow.fetch_add(1, Ordering::Relaxed) + 1) * self.pace;
        let begun = Instant::now();
        // Some packets may wait for this worker, so the wait has a limit.
        while others.load(Ordering::Relaxed) < goal.min(self.others)
            && begun.elapsed() < Duration::from_millis(20)
        {
            std::thread::sleep(Duration::from_micros(100));
        }
        self.behind.fetch_add(u64::from(others.load(Ordering::Relaxed) == self.others), Ordering::Relaxed);
        Verdict::Accept
    }
}

#[test]
fn slow_flow_delays_no_other_with_a_pull_policy() {
    let source = Memory::new(mix(2_000, 50));
    let expected = expected(&source);
    let slow = expected.report.flows.iter().max_by_key(|flow| flow.state.packets).unwrap();
    assert!((100..900).contains(&slow.state.packets), "its packets leave space in the pool");
    for name in ["ph", "lfb", "flowpull"] {
        let (seen, behind): (Arc<[AtomicU64; 2]>, Arc<AtomicU64>) = Default::default();
        let others = expected.report.processed() - slow.state.packets;
        let pace = (3 * others).div_ceil(slow.state.packets);
        let config =
            EngineConfig { ring_slots: 1024, ..with(Layout::Pipeline { workers: 2 }, Order::Internal) };
        let control = Control::default();
        let mut again = source.clone();
        let mut policy = policy(name, 2);
        let parts = Endpoints::new(&mut again, PolicyRef::new(&mut policy), &control);
        let app = |_| Dawdler {
            slow: slow.key,
            others,
            pace,
            seen: Arc::clone(&seen),
            behind: Arc::clone(&behind),
        };
        let report = run_with(&config, parts, |_| small_table(), app).unwrap();
        assert_eq!(report.processed(), expected.report.processed());
        // If the slow flow delayed the others, they would end with it.
        let behind = behind.load(Ordering::Relaxed);
        assert!(behind > slow.state.packets / 10, "{name}: {behind} of {}", slow.state.packets);
    }
}

#[test]
fn hash_secret_does_not_change_results() {
    let source = Memory::new(mix(2_000, 90));
    let expected = expected(&source);
    for seed in 0..4 {
        let config = EngineConfig {
            hasher: FlowHasher::with_seed(seed),
            ..with(Layout::Pipeline { workers: 3 }, Order::External)
        };
        let mut notes = Notes::default();
        let report = go(&config, &source, &mut policy("rr", 3), Some(&mut notes), Some(seed));
        check(&expected, &report, &notes, true, "rr");
    }
}

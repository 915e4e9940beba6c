//! Whole runs: every packet is accounted for, and the results do not depend on the layout.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flowloom_engine::{
    App, ConfigError, Control, Cores, EndedBy, Endpoints, EngineConfig, Fault, IdleTimeout, Interval,
    Layout, Order, Pace, PolicyRef, RunReport, StartError, Verdict, WhenFull, run, run_seeded, run_with,
};
use flowloom_flow_key::{FlowHasher, FlowKey};
use flowloom_packet::{BATCH_PACKETS, DropReason, LinkType, PacketView};
use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{
    Decision, DirectHash, FlowBurst, FlowPin, HrwFlat, Indirection, LoadView, OrderGuarantee, Placement,
    Topology, TwoChoices, WorkItem, WorkerCount,
};
use flowloom_traffic::synth::MixConfig;

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

fn go(config: &EngineConfig, source: &mut Memory) -> RunReport<Seen> {
    go_with(config, source, |_| Recorder::default(), &Control::default())
}

fn go_with(
    config: &EngineConfig,
    source: &mut Memory,
    app: impl FnMut(usize) -> Recorder,
    control: &Control,
) -> RunReport<Seen> {
    let workers = WorkerCount::new(config.layout.workers()).unwrap();
    let mut placement = DirectHash::new(workers);
    let timeout = config.idle_timeout;
    let report = run(config, source, &mut placement, |_| table(100_000, timeout), app, control).unwrap();
    assert!(report.is_balanced(), "{:?} {:?}", report.input, report.worker_totals());
    let (at_end, totals) = (control.snapshot(), report.worker_totals());
    assert_eq!((at_end.packets, at_end.in_flight), (report.input.packets, 0));
    assert_eq!((at_end.processed, at_end.denied), (report.processed(), totals.denied));
    assert_eq!(at_end.dropped, report.dropped());
    for (at_end, worker) in at_end.workers.iter().zip(&report.workers) {
        assert_eq!(at_end.dropped, worker.counters.dropped.total());
        assert_eq!((at_end.ring_full, at_end.full_waits), (worker.ring_full, worker.full_waits));
    }
    report
}

const LAYOUTS: [Layout; 6] = [
    Layout::Sharded { workers: 3 },
    Layout::Inline,
    Layout::Pipeline { workers: 1 },
    Layout::Pipeline { workers: 2 },
    Layout::Pipeline { workers: 4 },
    Layout::Pipeline { workers: 7 },
];

#[cfg(target_os = "linux")]
#[test]
fn a_report_says_on_which_cpus_its_threads_ran_and_for_how_long() {
    // With one CPU no thread is pinned by default.
    let allowed = flowloom_cpu::topology::allowed_cpus().unwrap();
    let cpus = if allowed.len() < 2 { [None; 2] } else { [Some(allowed[0]), Some(allowed[1])] };
    let config = EngineConfig { cores: Cores::Auto, ..config(Layout::Pipeline { workers: 1 }) };
    let report = go(&config, &mut Memory::new(mix(30_000, 900)));
    assert_eq!([report.input_cpu, report.workers[0].cpu], cpus);
    assert!(report.input_busy > Some(Duration::ZERO) && report.workers[0].busy > Some(Duration::ZERO));
}

#[test]
fn results_do_not_depend_on_layout_seed_or_policy() {
    let source = Memory::new(mix(30_000, 900));
    let expected = go(&config(Layout::Inline), &mut source.clone());
    assert!(expected.flows.len() >= 900);
    assert_eq!(expected.input.packets, 30_000);
    let intervals = expected.input.timeline.as_ref().unwrap().intervals();
    let sum = |figure: fn(&Interval) -> u64| intervals.iter().map(figure).sum::<u64>();
    assert_eq!((sum(|i| i.packets), sum(|i| i.bytes)), (30_000, expected.input.bytes_on_wire));
    for mode in LAYOUTS {
        for seed in [1, 2] {
            let config = EngineConfig { hasher: FlowHasher::with_seed(seed), ..config(mode) };
            let workers = WorkerCount::new(mode.workers()).unwrap();
            let policies: [Box<dyn Placement>; 2] =
                [Box::new(DirectHash::new(workers)), Box::new(HrwFlat::new(workers))];
            for mut policy in policies {
                let report = run(
                    &config,
                    &mut source.clone(),
                    &mut *policy,
                    |_| table(100_000, None),
                    |_| Recorder::default(),
                    &Control::default(),
                )
                .unwrap();
                assert!(report.is_balanced());
                assert_eq!(report.digest(), expected.digest(), "{mode:?} seed {seed} {}", policy.name());
                assert_eq!(report.flows.iter().map(|flow| flow.state.out_of_order).sum::<u64>(), 0);
                assert_eq!(report.input, expected.input);
            }
        }
    }
}

/// Records all packets of a flow, in any worker.
struct Watcher {
    flows: Arc<HashMap<FlowKey, Watched>>,
    broken: Arc<AtomicU64>,
}

#[derive(Default)]
struct Watched {
    last_ns: AtomicU64,
    in_work: AtomicU64,
    moves: AtomicU64,
    worker: AtomicU64,
}

impl App for Watcher {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, _: &mut Seen) -> Verdict {
        let flow = &self.flows[&packet.headers.key];
        // Fails on two packets at once, and on a packet after a later one.
        let races = flow.in_work.fetch_add(1, Ordering::SeqCst);
        let last = flow.last_ns.swap(packet.time_ns, Ordering::SeqCst);
        let worker = std::ptr::from_ref(self) as u64;
        let before = flow.worker.swap(worker, Ordering::SeqCst);
        flow.moves.fetch_add(u64::from(before != worker && before != 0), Ordering::Relaxed);
        self.broken.fetch_add(races + u64::from(packet.time_ns < last), Ordering::Relaxed);
        flow.in_work.fetch_sub(1, Ordering::SeqCst);
        Verdict::Accept
    }
}

#[test]
fn policies_that_move_flows_keep_their_order_across_workers() {
    let source = Memory::new(mix(15_000, 300));
    let keys = go(&config(Layout::Inline), &mut source.clone());
    let mode = Layout::Pipeline { workers: 4 };
    let topology = Topology::flat(WorkerCount::new(4).unwrap());
    let policies: [Box<dyn Placement>; 4] = [
        Box::new(FlowPin::new(&topology, 12).unwrap()),
        Box::new(FlowBurst::new(&topology, 12).unwrap()),
        Box::new(TwoChoices::new(&topology, 12, 1).unwrap()),
        Box::new(Indirection::rebalanced(&topology, 64, 200).unwrap()),
    ];
    for mut policy in policies {
        assert_eq!(policy.order(), OrderGuarantee::PerFlow);
        let mut moves = 0;
        for (when_full, seed) in [
            (WhenFull::Block, None),
            (WhenFull::Drop, None),
            (WhenFull::Block, Some(1)),
            (WhenFull::Drop, Some(2)),
        ] {
            let flows: Arc<HashMap<FlowKey, Watched>> =
                Arc::new(keys.flows.iter().map(|flow| (flow.key, Watched::default())).collect());
            let broken = Arc::new(AtomicU64::new(0));
            let config = EngineConfig { when_full, ring_slots: 64, ..config(mode) };
            let watcher = |_| Watcher { flows: Arc::clone(&flows), broken: Arc::clone(&broken) };
            let mut source = source.clone();
            let control = Control::default();
            let parts = Endpoints::new(&mut source, &mut *policy, &control);
            let report = match seed {
                None => run_with(&config, parts, |_| small_table(), watcher).unwrap(),
                Some(seed) => run_seeded(&config, parts, |_| small_table(), watcher, seed).unwrap(),
            };
            assert!(report.is_balanced());
            assert_eq!(broken.load(Ordering::Relaxed), 0, "{} {when_full:?}", policy.name());
            moves += flows.values().map(|flow| flow.moves.load(Ordering::Relaxed)).sum::<u64>();
        }
        assert!(moves > 0 || policy.name() == "rss++", "{} moves no flow", policy.name());
    }
}

#[test]
fn run_builds_the_configured_number_of_tables() {
    for (mode, order, name, tables) in [
        (Layout::Inline, Order::Internal, "dh", 1),
        (Layout::Pipeline { workers: 3 }, Order::Internal, "dh", 3),
        (Layout::Pipeline { workers: 3 }, Order::Internal, "flowpin", 8),
        (Layout::Pipeline { workers: 3 }, Order::External, "rr", 256),
    ] {
        let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
        let Policy::Push(mut policy) = Scheme::named(name).unwrap().policy(&topology, 1).unwrap() else {
            panic!("{name} dispatches packets");
        };
        let config = EngineConfig { order, ..config(mode) };
        assert_eq!(config.tables(policy.order()), tables, "{mode:?} {name}");
        let (mut built, mut source) = (0, Memory::new(mix(100, 10)));
        let table = |_| {
            built += 1;
            small_table()
        };
        let app = |_| Recorder::default();
        let report = run(&config, &mut source, &mut *policy, table, app, &Control::default()).unwrap();
        assert!(report.is_balanced());
        assert_eq!(built, tables, "{mode:?} {name}");
    }
}

#[test]
fn idle_flows_end_at_the_same_packets_in_every_layout() {
    // Slow traffic, so that a short timeout ends many flows.
    let source = Memory::new(MixConfig { rate_pps: 500, ..mix(8_000, 300) });
    let timeout = Some(IdleTimeout::from_ns(200_000_000));
    let expected =
        go(&EngineConfig { idle_timeout: timeout, ..config(Layout::Inline) }, &mut source.clone());
    assert!(expected.worker_totals().flows_expired > 100, "{:?}", expected.worker_totals());
    let expired = expected.flows.iter().filter(|flow| flow.ended == EndedBy::IdleTimeout).count();
    assert_eq!(expected.worker_totals().flows_expired, expired as u64);
    for mode in LAYOUTS {
        let report = go(&EngineConfig { idle_timeout: timeout, ..config(mode) }, &mut source.clone());
        assert_eq!(report.digest(), expected.digest(), "{mode:?}");
        let flows = |report: &RunReport<Seen>| {
            let totals = report.worker_totals();
            (totals.flows_begun, totals.flows_expired, report.timed_out_at_end)
        };
        let (ours, theirs) = (flows(&report), flows(&expected));
        assert_eq!((ours.0, ours.1), (theirs.0, theirs.1), "{mode:?}");
    }
}

#[test]
fn records_beyond_the_limit_are_counted() {
    let source = Memory::new(MixConfig { rate_pps: 500, ..mix(8_000, 300) });
    let config = EngineConfig {
        idle_timeout: Some(IdleTimeout::from_ns(200_000_000)),
        records_max: 10,
        ..config(Layout::Inline)
    };
    let report = go(&config, &mut source.clone());
    let totals = report.worker_totals();
    assert_eq!(totals.records_forgotten, totals.flows_expired - report.timed_out_at_end - 10);
}

#[test]
fn packet_limit_stops_the_run_exactly() {
    let source = Memory::new(mix(5_000, 100));
    for mode in LAYOUTS {
        for limit in [0, 1, 33, 4_999, 5_000, 9_999] {
            let config = EngineConfig { packet_limit: Some(limit), ..config(mode) };
            let report = go(&config, &mut source.clone());
            assert_eq!(report.input.packets, limit.min(5_000));
            assert!(!report.interrupted);
        }
    }
}

#[test]
fn a_worker_that_panics_is_named_and_its_packets_are_counted() {
    let source = Memory::new(mix(20_000, 500));
    for mode in LAYOUTS {
        for k in [1, 40, 500] {
            let begun = Instant::now();
            let report = go_with(
                &config(mode),
                &mut source.clone(),
                |worker| Recorder { panic_at: (worker == 0).then_some(k), ..Recorder::default() },
                &Control::default(),
            );
            let fault = report.fault.as_ref().expect("a panic is a fault");
            let text = fault.to_string();
            assert!(text.contains("injected panic"), "{text}");
            match (mode, fault) {
                (_, Fault::WorkerPanicked { worker: 0, processed, packet: Some(packet), .. }) => {
                    assert_eq!(*processed, k - 1);
                    assert!((k..=20_000).contains(packet), "{packet}");
                }
                other => panic!("{other:?}"),
            }
            assert!(report.dropped().get(DropReason::WorkerLost) > 0);
            assert!(begun.elapsed() < Duration::from_secs(20), "no hang");
        }
    }
}

#[test]
fn panic_ends_a_run_without_reading_further_input() {
    /// Panics at its tenth packet and records the moment.
    struct Timed(u64, Arc<Mutex<Option<Instant>>>);
    impl App for Timed {
        type Flow = Seen;
        fn on_packet(&mut self, _: &PacketView<'_>, _: &mut Seen) -> Verdict {
            self.0 += 1;
            if self.0 == 10 {
                *self.1.lock().unwrap() = Some(Instant::now());
                panic!("injected panic");
            }
            Verdict::Accept
        }
    }
    let source = Memory::new(mix(20_000, 500));
    for (mode, order, name) in [
        (Layout::Inline, Order::Internal, "dh"),
        (Layout::Pipeline { workers: 2 }, Order::Internal, "dh"),
        (Layout::Pipeline { workers: 2 }, Order::Internal, "lfb"),
        (Layout::Pipeline { workers: 3 }, Order::External, "rr"),
    ] {
        // At this pace all packets would take twenty seconds. Use the shortest of some runs,
        // because the machine has other work.
        let took = (0..4).map(|_| {
            let panicked = Arc::new(Mutex::new(None));
            let config = EngineConfig { pace: Pace::PerSecond(1_000.0), order, ..config(mode) };
            let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
            let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
            let mut source = source.clone();
            let control = Control::default();
            let policy_ref = PolicyRef::new(&mut policy);
            let parts = Endpoints::new(&mut source, policy_ref, &control);
            let app = |_| Timed(0, Arc::clone(&panicked));
            let report = run_with(&config, parts, |_| small_table(), app).unwrap();
            assert!(report.is_balanced());
            assert!(matches!(report.fault, Some(Fault::WorkerPanicked { packet: Some(_), .. })));
            let at = panicked.lock().unwrap().unwrap();
            at.elapsed()
        });
        let least = took.min().unwrap();
        assert!(least < Duration::from_millis(100), "{mode:?} {name}: {least:?}");
    }
}

#[test]
fn packets_before_a_source_error_are_processed() {
    let source = Memory::new(mix(5_000, 100));
    for mode in LAYOUTS {
        for after in [0, 1_000, 4_990] {
            let mut source = Memory { fail_after: Some(after), ..source.clone() };
            let report = go(&config(mode), &mut source);
            assert!(matches!(report.fault, Some(Fault::Source { .. })), "{:?}", report.fault);
            assert!(report.input.packets >= after);
            assert_eq!(report.processed() + report.dropped().total(), report.input.packets);
        }
    }
}

/// Places as the direct hash does, until it panics.
struct Panicking {
    inner: DirectHash,
    batches: u64,
}

impl Placement for Panicking {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        assert!(self.batches > 0, "injected panic");
        self.batches -= 1;
        self.inner.place(items, load, decisions);
    }

    fn order(&self) -> OrderGuarantee {
        self.inner.order()
    }

    fn name(&self) -> &'static str {
        "panicking"
    }
}

#[test]
fn a_source_that_panics_is_a_fault_of_a_balanced_run() {
    let source = Memory::new(mix(5_000, 100));
    for mode in LAYOUTS {
        for after in [0, 1_000, 4_990] {
            let mut source = Memory { panic_after: Some(after), ..source.clone() };
            let report = go(&config(mode), &mut source);
            assert!(matches!(report.fault, Some(Fault::InputPanicked { .. })), "{:?}", report.fault);
            assert!(report.input.packets >= after);
            assert_eq!(report.dropped().get(DropReason::WorkerLost), 0, "what was taken in is processed");
        }
    }
}

#[test]
fn a_decision_for_a_worker_that_does_not_exist_is_a_fault_of_a_balanced_run() {
    let source = Memory::new(mix(5_000, 100));
    for when_full in [WhenFull::Block, WhenFull::Drop] {
        let config = EngineConfig { when_full, ..config(Layout::Pipeline { workers: 2 }) };
        // The policy does not state a number of workers.
        let inner = DirectHash::new(WorkerCount::new(8).unwrap());
        let mut policy = Panicking { inner, batches: u64::MAX };
        let (mut source, control) = (source.clone(), Control::default());
        let new = |_| Recorder::default();
        let report = run(&config, &mut source, &mut policy, |_| table(1_000, None), new, &control).unwrap();
        match &report.fault {
            Some(Fault::InputPanicked { message, .. }) => {
                let named =
                    (2..8).any(|worker| message.contains(&format!("decided for worker {worker}, ")));
                assert!(named && message.contains("the 2 there are"), "{message}");
            }
            other => panic!("{other:?}"),
        }
        assert!(report.is_balanced(), "{:?} {:?}", report.input, report.worker_totals());
    }
}

#[test]
fn policy_panic_loses_only_the_packets_not_yet_placed() {
    let source = Memory::new(mix(5_000, 100));
    for workers in [1, 2, 4] {
        for batches in [0, 1, 50] {
            let config = config(Layout::Pipeline { workers });
            let inner = DirectHash::new(WorkerCount::new(workers).unwrap());
            let report = run(
                &config,
                &mut source.clone(),
                &mut Panicking { inner, batches },
                |_| table(1_000, None),
                |_| Recorder::default(),
                &Control::default(),
            )
            .unwrap();
            assert!(matches!(report.fault, Some(Fault::InputPanicked { .. })), "{:?}", report.fault);
            assert!(report.is_balanced(), "{:?} {:?}", report.input, report.worker_totals());
            let lost = report.dropped().get(DropReason::WorkerLost);
            // The input stage may hold up to 32 batches.
            let most = (workers + 2) * 2 * 16 * BATCH_PACKETS;
            assert!((1..=most as u64).contains(&lost), "{lost}");
            // The input stage asks a policy about up to two batches at a time.
            assert!(report.processed() <= (batches as usize * 2 * BATCH_PACKETS) as u64);
        }
    }
}

#[test]
fn a_stop_before_the_start_is_a_balanced_empty_run() {
    let control = Control::default();
    control.stop();
    for mode in LAYOUTS {
        let mut source = Memory::new(mix(1_000, 100));
        let report = go_with(&config(mode), &mut source, |_| Recorder::default(), &control);
        assert!(report.interrupted);
        assert_eq!(report.input.packets, 0);
        assert_eq!(source.asked.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_stop_in_the_middle_drains_the_rings() {
    let source = Memory::new(mix(20_000, 500));
    for mode in LAYOUTS {
        let control = Control::default();
        let mut source = source.clone();
        // At a thousand packets per second, this would take twenty seconds.
        let config = EngineConfig { pace: Pace::PerSecond(1_000.0), ..config(mode) };
        let report = std::thread::scope(|scope| {
            scope.spawn(|| {
                while control.packets() < 50 {
                    std::thread::yield_now();
                }
                control.stop();
            });
            go_with(&config, &mut source, |_| Recorder::default(), &control)
        });
        assert!(report.interrupted);
        assert!((50..5_000).contains(&report.input.packets), "{}", report.input.packets);
        assert!(report.dropped().get(DropReason::WorkerLost) == 0);
    }
}

#[test]
fn full_rings_lose_nothing_when_blocking_and_count_when_dropping() {
    let source = Memory::new(mix(4_000, 200));
    let slow = |_| Recorder { delay: Some(Duration::from_micros(1)), ..Recorder::default() };
    let mode = Layout::Pipeline { workers: 2 };
    let blocking = EngineConfig { ring_slots: 64, ..config(mode) };
    let report = go_with(&blocking, &mut source.clone(), slow, &Control::default());
    assert_eq!(report.dropped().get(DropReason::RingFull), 0);
    assert!(report.workers.iter().any(|worker| worker.full_waits > 0));
    let dropping = EngineConfig { when_full: WhenFull::Drop, ..blocking };
    let report = go_with(&dropping, &mut source.clone(), slow, &Control::default());
    let dropped = report.dropped().get(DropReason::RingFull);
    assert!(dropped > 0);
    assert_eq!(report.workers.iter().map(|worker| worker.ring_full).sum::<u64>(), dropped);
    let worker_sent: u64 = report.workers.iter().map(|worker| worker.sent).sum();
    assert_eq!(worker_sent, report.processed());
    assert!(report.processed() >= 32, "what the rings hold is processed");
}

#[test]
fn a_full_table_refuses_new_flows_and_keeps_the_others() {
    let source = Memory::new(mix(20_000, 5_000));
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        let config = config(mode);
        let workers = WorkerCount::new(mode.workers()).unwrap();
        let report = run(
            &config,
            &mut source.clone(),
            &mut DirectHash::new(workers),
            |_| table(500, None),
            |_| Recorder::default(),
            &Control::default(),
        )
        .unwrap();
        assert!(report.is_balanced());
        assert!(report.dropped().get(DropReason::TableFull) > 1000);
        let packets: u64 = report.flows.iter().map(|flow| flow.state.packets).sum();
        assert_eq!(packets, report.processed());
    }
}

#[test]
fn times_that_go_back_are_clamped_and_counted() {
    let mut source = Memory::new(mix(1_000, 50));
    let packets = &mut source.blocks[0].1;
    let latest_ns = packets[9].time_ns;
    packets[10].time_ns = latest_ns - 7;
    packets[20].time_ns -= 50_000_000_000;
    // Equal times do not count as going back.
    packets[30].time_ns = packets[29].time_ns;
    // Far away.
    packets[40].time_ns = 5;
    packets[50].time_ns = 4_294_967_295_000_000_000;
    let back_ns = packets[19].time_ns - packets[20].time_ns;
    let last_ns = packets.last().unwrap().time_ns;
    for layout in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        let report = go(&config(layout), &mut source.clone());
        assert_eq!((report.input.time_backwards, report.input.time_backwards_ns_max), (2, back_ns));
        assert_eq!((report.input.time_outliers, report.input.time_steps), (2, 0));
        assert!(report.input.last_ns >= last_ns && report.input.last_ns < last_ns * 2);
        assert_eq!(report.flows.iter().map(|flow| flow.state.out_of_order).sum::<u64>(), 0);
    }
}

#[test]
fn impossible_configuration_is_refused_before_the_start() {
    let start = |config: EngineConfig| {
        let mut source = Memory::new(mix(100, 10));
        let asked = Arc::clone(&source.asked);
        let workers = WorkerCount::new(1).unwrap();
        let result = run(
            &config,
            &mut source,
            &mut DirectHash::new(workers),
            |_| table(10, None),
            |_| Recorder::default(),
            &Control::default(),
        );
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        result.unwrap_err()
    };
    let error = start(config(Layout::Pipeline { workers: 0 }));
    assert!(matches!(error, StartError::Config(ConfigError::Workers { workers: 0, .. })));
    let error = start(EngineConfig { ring_slots: 100, ..config(Layout::Inline) });
    assert!(matches!(error, StartError::Config(ConfigError::RingSlots { slots: 100 })));
    let error = start(EngineConfig { ring_slots: 1 << 24, ..config(Layout::Pipeline { workers: 3 }) });
    assert!(matches!(error, StartError::Config(ConfigError::RingMemory { .. })));
    let error = start(EngineConfig { cores: Cores::List(vec![100_000]), ..config(Layout::Inline) });
    assert!(error.to_string().contains("CPU 100000 does not exist"), "{error}");
    let start = |flows, timeout| {
        run(
            &config(Layout::Inline),
            &mut Memory::new(mix(100, 10)),
            &mut DirectHash::new(WorkerCount::new(1).unwrap()),
            |_| table(flows, timeout),
            |_| Recorder::default(),
            &Control::default(),
        )
        .unwrap_err()
    };
    assert!(matches!(start(0, None), StartError::Table(_)));
    let error = start(10, Some(IdleTimeout::from_ns(1_000_000_000)));
    assert!(matches!(error, StartError::Timeouts), "the configuration has none");
}

#[test]
fn packets_that_cannot_be_decoded_are_counted_by_reason() {
    let mut source = Memory::new(mix(1_000, 50));
    for packet in source.blocks[0].1.iter_mut().take(7) {
        packet.link = LinkType(190);
    }
    source.blocks[0].1[8].captured_bytes = 3;
    let report = go(&config(Layout::Pipeline { workers: 2 }), &mut source);
    assert_eq!(report.dropped().get(DropReason::Unsupported), 7);
    assert_eq!(report.input.unsupported_links, [(LinkType(190), 7)]);
    assert!(report.dropped().get(DropReason::TruncatedLink) >= 1);
}

//! The load that policies see, how often a pool was full, and a paced run that ends.

use flowloom_engine::{
    Control, Endpoints, EngineConfig, Fault, Layout, Order, Pace, PolicyRef, RunReport, Snapshot, WhenFull,
    run_seeded, run_with,
};
use flowloom_packet::{DropReason, Fill, PacketBatch, PacketSource, SourceError};
use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{
    Decision, DirectHash, Fetched, LoadView, OrderGuarantee, Placement, PullPolicy, Topology, WorkItem,
    WorkerCount, WorkerId,
};

use crate::common::{Memory, Recorder, Seen, config, mix, small_table};

/// Places as the direct hash does, and records the load when no packet is in flight.
struct Looking {
    inner: DirectHash,
    order: OrderGuarantee,
    looks: u64,
}

impl Placement for Looking {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        assert_eq!(load.completed, load.sent, "all is done before more comes");
        assert_eq!(load.completed_bytes, load.sent_bytes, "also in bytes");
        self.looks += u64::from(load.sent_bytes.iter().all(|&bytes| bytes > 100));
        self.inner.place(items, load, decisions);
    }

    fn order(&self) -> OrderGuarantee {
        self.order
    }

    fn name(&self) -> &'static str {
        "looking"
    }
}

/// Yields a batch only when no packet is in flight.
struct OneByOne<'a>(Memory, &'a Control, bool);

impl PacketSource for OneByOne<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        // The engine asks a starved source again, and dispatches earlier packets meanwhile.
        self.2 = !self.2;
        if self.2 || self.1.snapshot().in_flight > 0 {
            return Ok(Fill::Starved);
        }
        self.0.next_batch(batch)
    }
}

#[test]
fn a_policy_sees_what_was_sent_and_completed_in_packets_and_bytes() {
    for order in [OrderGuarantee::Home, OrderGuarantee::PerFlow] {
        let control = Control::default();
        let mut source = OneByOne(Memory::new(mix(2_000, 100)), &control, false);
        let inner = DirectHash::new(WorkerCount::new(2).unwrap());
        let mut policy = Looking { inner, order, looks: 0 };
        let policy_ref = PolicyRef::Push(&mut policy);
        let parts = Endpoints::new(&mut source, policy_ref, &control);
        let config = config(Layout::Pipeline { workers: 2 });
        let report = run_with(&config, parts, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{:?}", report.fault);
        assert!(policy.looks > 30, "{}", policy.looks);
    }
}

fn go(name: &str, config: &EngineConfig, seed: Option<u64>) -> RunReport<Seen> {
    go_from(&mut Memory::new(mix(2_000, 100)), &Control::default(), name, config, seed)
}

fn go_from(
    source: &mut (dyn PacketSource + Send),
    control: &Control,
    name: &str,
    config: &EngineConfig,
    seed: Option<u64>,
) -> RunReport<Seen> {
    let topology = Topology::flat(WorkerCount::new(config.layout.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let policy_ref = PolicyRef::new(&mut policy);
    let parts = Endpoints::new(source, policy_ref, control);
    let app = |_| Recorder::default();
    match seed {
        None => run_with(config, parts, |_| small_table(), app).unwrap(),
        Some(seed) => run_seeded(config, parts, |_| small_table(), app, seed).unwrap(),
    }
}

#[test]
fn a_full_pool_is_counted() {
    let config = EngineConfig { ring_slots: 64, ..config(Layout::Pipeline { workers: 2 }) };
    let report = go("lfb", &config, Some(3));
    assert!(report.is_balanced() && report.fault.is_none());
    assert!(report.pool_full_waits > 0, "the pool is small");
    assert_eq!(report.unplaced, 0, "it is waited for");
    assert!(report.workers.iter().all(|worker| worker.full_waits == 0), "no worker has a ring");
    assert_eq!(report.shared.unwrap().shards, 4, "2 for each worker");
}

#[test]
fn each_drop_at_a_full_ring_counts_for_a_worker_or_the_pool() {
    for scheme in Scheme::ALL {
        let mode = Layout::Pipeline { workers: 3 };
        let when_full = WhenFull::Drop;
        let config = EngineConfig { ring_slots: 64, when_full, order: Order::None, ..config(mode) };
        let mut runs = (0..20).map(|seed| {
            let report = go(scheme.name, &config, Some(seed));
            assert!(report.is_balanced() && report.fault.is_none(), "{}, seed {seed}", scheme.name);
            (report.input.dropped.get(DropReason::RingFull), report)
        });
        let (dropped, report) = runs.find(|(dropped, _)| *dropped > 0).unwrap_or_else(|| {
            panic!("{}: the rings are small, and none of 20 schedules fills one", scheme.name)
        });
        let (rings, waits) = report.workers.iter().fold((0, 0), |(rings, waits), worker| {
            let is_counted = (worker.ring_full > 0) == (worker.full_waits > 0);
            assert!(is_counted && worker.full_waits <= worker.ring_full, "{} {worker:?}", scheme.name);
            (rings + worker.ring_full, waits + worker.full_waits)
        });
        // Schemes that place packets have rings; the others have a pool.
        let has_pool = rings == 0;
        let (all, all_waits) =
            if has_pool { (report.unplaced, report.pool_full_waits) } else { (rings, waits) };
        assert_eq!(all, dropped, "{}", scheme.name);
        assert!((1..=dropped).contains(&all_waits), "{}", scheme.name);
        assert!(has_pool || (report.unplaced, report.pool_full_waits) == (0, 0), "{}", scheme.name);
    }
}

#[test]
fn large_enough_rings_and_pool_never_count_as_full() {
    for name in ["dh", "lfb"] {
        let config = EngineConfig { ring_slots: 2_048, ..config(Layout::Pipeline { workers: 2 }) };
        let report = go(name, &config, Some(3));
        assert!(report.is_balanced() && report.fault.is_none());
        assert!(report.workers.iter().all(|worker| worker.full_waits == 0), "{name}");
        assert_eq!(report.pool_full_waits, 0, "{name}");
    }
}

#[test]
fn report_that_misses_a_packet_is_not_balanced() {
    let when_full = WhenFull::Drop;
    let config = EngineConfig { ring_slots: 64, when_full, ..config(Layout::Pipeline { workers: 2 }) };
    let wrongs: [fn(&mut RunReport<Seen>); 6] = [
        |report| report.input.packets += 1,
        |report| report.workers[0].sent += 1,
        |report| report.workers[1].ring_full -= 1,
        |report| report.unplaced += 1,
        // Here the worker's own counts agree.
        |report| {
            report.workers[0].sent += 1;
            report.workers[0].counters.processed += 1;
        },
        // Here all counts but those of a worker agree.
        |report| {
            report.input.packets += 1;
            report.workers[0].counters.processed += 1;
        },
    ];
    for (i, wrong) in wrongs.into_iter().enumerate() {
        let mut report = go("dh", &config, Some(3));
        assert!(report.is_balanced() && report.workers[1].ring_full > 0);
        wrong(&mut report);
        assert!(!report.is_balanced(), "{i}");
    }
}

/// Records the snapshot at each call.
struct Watching<'a>(Memory, &'a Control, Vec<Snapshot>);

impl PacketSource for Watching<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.2.push(self.1.snapshot());
        self.0.next_batch(batch)
    }
}

#[test]
fn a_snapshot_counts_full_rings_and_the_full_pool_while_the_run_lasts() {
    for (name, when_full) in
        [("dh", WhenFull::Block), ("dh", WhenFull::Drop), ("lfb", WhenFull::Block), ("lfb", WhenFull::Drop)]
    {
        let mode = Layout::Pipeline { workers: 3 };
        let config = EngineConfig { ring_slots: 64, when_full, ..config(mode) };
        let control = Control::default();
        let mut source = Watching(Memory::new(mix(8_000, 100)), &control, Vec::new());
        let report = go_from(&mut source, &control, name, &config, Some(3));
        assert!(report.is_balanced() && report.fault.is_none(), "{name}");
        let sum = |snapshot: &Snapshot| {
            let workers = snapshot.workers.iter();
            let (rings, waits) = workers.fold((0, 0), |(rings, waits), worker| {
                (rings + worker.ring_full, waits + worker.full_waits)
            });
            (rings + snapshot.unplaced, waits + snapshot.pool_full_waits)
        };
        for snapshot in &source.2 {
            assert_eq!(sum(snapshot).0, snapshot.dropped.get(DropReason::RingFull), "{name} {when_full:?}");
        }
        let counts: Vec<_> = source.2.iter().map(|snapshot| sum(snapshot).1).collect();
        let rises = counts.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(counts.is_sorted() && rises > 5, "{name} {when_full:?}: {counts:?}");
        assert!(*counts.last().unwrap() <= sum(&control.snapshot()).1, "{name} {when_full:?}");
    }
}

/// Drops every third packet, and places the others at the second worker.
struct Third(u64);

impl Placement for Third {
    fn place(&mut self, items: &[WorkItem], _: &LoadView<'_>, decisions: &mut [Decision]) {
        for decision in &mut decisions[..items.len()] {
            self.0 += 1;
            *decision = if self.0.is_multiple_of(3) { Decision::Drop } else { Decision::To(1.into()) };
        }
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "third"
    }
}

#[test]
fn drop_by_a_policy_counts_for_no_worker() {
    for when_full in [WhenFull::Block, WhenFull::Drop] {
        let config = EngineConfig { when_full, ring_slots: 64, ..config(Layout::Pipeline { workers: 2 }) };
        let (mut source, control) = (Memory::new(mix(2_000, 100)), Control::default());
        let mut policy = Third(0);
        let policy_ref = PolicyRef::Push(&mut policy);
        let parts = Endpoints::new(&mut source, policy_ref, &control);
        let report = run_seeded(&config, parts, |_| small_table(), |_| Recorder::default(), 5).unwrap();
        assert!(report.is_balanced() && report.fault.is_none());
        assert_eq!(report.unplaced, report.input.decoded / 3);
        let (first, second) = (&report.workers[0], &report.workers[1]);
        assert_eq!((first.ring_full, first.full_waits), (0, 0), "nothing goes there");
        assert!(second.full_waits > 0);
        assert_eq!(second.ring_full > 0, when_full == WhenFull::Drop);
        let at_end = control.snapshot();
        assert_eq!((at_end.workers[1].ring_full, at_end.unplaced), (second.ring_full, report.unplaced));
    }
}

#[test]
fn paced_run_processes_all_packets_and_ends() {
    for (mode, name) in [
        (Layout::Inline, "dh"),
        (Layout::Pipeline { workers: 2 }, "dh"),
        (Layout::Pipeline { workers: 2 }, "lfb"),
    ] {
        let config = EngineConfig { pace: Pace::PerSecond(100_000.0), ..config(mode) };
        let report = go(name, &config, None);
        let fault = report.fault.as_ref().map(Fault::to_string);
        assert!(report.is_balanced() && fault.is_none(), "{mode:?} {name}: {fault:?}");
        assert_eq!(report.input.packets, 2_000, "{mode:?} {name}");
    }
}

/// Panics at an arrival after some packets.
struct Refusing<'a>(&'a mut dyn PullPolicy, u64);

impl PullPolicy for Refusing<'_> {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        assert!(self.1 > 0, "injected panic");
        self.1 -= 1;
        self.0.arrive(token, item)
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        self.0.next(worker)
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn order(&self) -> OrderGuarantee {
        self.0.order()
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }
}

#[test]
fn a_pool_whose_policy_panics_at_an_arrival_counts_what_it_held() {
    let topology = Topology::flat(WorkerCount::new(2).unwrap());
    for after in [0, 1, 40, 333] {
        let mut policy = Scheme::named("lfb").unwrap().policy(&topology, 1).unwrap();
        let Policy::Pull(policy) = &mut policy else { panic!("workers fetch") };
        let mut policy = Refusing(&mut **policy, after);
        let (mut source, control) = (Memory::new(mix(2_000, 100)), Control::default());
        let policy_ref = PolicyRef::Pull(&mut policy);
        let parts = Endpoints::new(&mut source, policy_ref, &control);
        let config = config(Layout::Pipeline { workers: 2 });
        let report = run_with(&config, parts, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced(), "{after}: {:?} {:?}", report.input, report.workers);
        assert!(matches!(report.fault, Some(Fault::InputPanicked { .. })), "{after}: {:?}", report.fault);
        assert!(report.processed() <= after, "{after}");
    }
}

/// Returns each packet twice.
struct Twice<'a>(&'a mut dyn PullPolicy, Option<Fetched>);

impl PullPolicy for Twice<'_> {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        self.0.arrive(token, item)
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        if let Some(again) = self.1.take() {
            return Some(again);
        }
        self.1 = self.0.next(worker);
        self.1
    }

    fn waiting(&self) -> usize {
        self.0.waiting()
    }

    fn order(&self) -> OrderGuarantee {
        self.0.order()
    }

    fn name(&self) -> &'static str {
        "twice"
    }
}

#[test]
fn pull_policy_that_returns_an_unknown_packet_is_named_in_a_fault() {
    let topology = Topology::flat(WorkerCount::new(2).unwrap());
    let mut policy = Scheme::named("lfb").unwrap().policy(&topology, 1).unwrap();
    let Policy::Pull(policy) = &mut policy else { panic!("workers fetch") };
    let mut policy = Twice(&mut **policy, None);
    let (mut source, control) = (Memory::new(mix(2_000, 100)), Control::default());
    let policy_ref = PolicyRef::Pull(&mut policy);
    let parts = Endpoints::new(&mut source, policy_ref, &control);
    let config = config(Layout::Pipeline { workers: 2 });
    let report = run_with(&config, parts, |_| small_table(), |_| Recorder::default()).unwrap();
    assert!(report.is_balanced(), "{:?} {:?}", report.input, report.workers);
    let fault = report.fault.unwrap().to_string();
    assert!(fault.contains("twice gave out token"), "{fault}");
}

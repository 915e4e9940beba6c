//! Random faults by seed: in any layout and schedule every packet is accounted for, and no stage
//! waits forever.
//!
//! Each seed draws a layout, a policy, an order, a schedule and up to two faults, and runs the
//! engine's own stages step by step. `FLOWLOOM_SEEDS` sets the number of seeds and
//! `FLOWLOOM_SEED_FROM` the first one. A failure names its seed.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Once};

use flowloom_engine::{
    App, Control, Endpoints, EngineConfig, Fault, Layout, Order, PacketSink, PolicyRef, Released,
    RunReport, SeededError, SinkError, StartError, Verdict, WhenFull, run_seeded,
};
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{BuildError, DHash, TableOptions, Timeouts};
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{
    Block, DropReason, Fill, PacketBatch, PacketSource, PacketView, SharedBlock, SourceError,
};
use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{
    Decision, Fetched, LoadView, OrderGuarantee, Placement, PullPolicy, Topology, WorkItem, WorkerCount,
    WorkerId,
};

use crate::common::{Memory, Recorder, Seen, config, mix};

/// The faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Break {
    /// The application of a worker panics at its k-th packet.
    Worker {
        worker: usize,
        at: u64,
    },
    /// The source fails.
    SourceFails(u64),
    /// The source panics.
    SourcePanics(u64),
    /// The source ends early.
    SourceEnds(u64),
    /// The source withholds every k-th packet, as it does for a joined fragment.
    SourceWithholds(u64),
    /// Times go back every k-th packet.
    TimeGoesBack(u64),
    /// The tables hold one flow each.
    TableFull,
    /// A table cannot be built.
    TableFails(usize),
    /// The sink fails, or panics.
    SinkFails(u64),
    SinkPanics(u64),
    /// The run is asked to stop, at two moments.
    Stop(u64),
    StopTwice(u64),
    /// The policy panics at its k-th call.
    PolicyPanics(u64),
    /// The k-th call for a block's bytes panics, in the reader, a decoder, a worker or the egress
    /// stage.
    BlockPanics(u64),
}

/// Draws numbers from a seed.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % bound
    }

    fn fault(&mut self, packets: u64, workers: u64) -> Break {
        let at = self.below(packets + 10);
        match self.below(14) {
            0 => Break::Worker { worker: self.below(workers) as usize, at: 1 + at / workers },
            1 => Break::SourceFails(at),
            2 => Break::SourcePanics(at),
            3 => Break::SourceEnds(at),
            4 => Break::SourceWithholds(2 + at % 9),
            5 => Break::TimeGoesBack(2 + at % 9),
            6 => Break::TableFull,
            7 => Break::TableFails((at % workers) as usize),
            8 => Break::SinkFails(at),
            9 => Break::SinkPanics(at),
            10 => Break::Stop(at),
            11 => Break::StopTwice(at),
            12 => Break::PolicyPanics(at / 8),
            _ => Break::BlockPanics(at / 2),
        }
    }
}

/// A block that cannot be read after some calls.
struct Torn {
    block: SharedBlock,
    left: Arc<AtomicU64>,
}

impl AsRef<[u8]> for Torn {
    fn as_ref(&self) -> &[u8] {
        let left = self.left.fetch_sub(1, Ordering::Relaxed);
        if left == 0 {
            self.left.store(u64::MAX, Ordering::Relaxed);
            panic!("injected panic");
        }
        self.block.bytes()
    }
}

/// Returns the same packets in blocks that panic once.
fn torn(whole: &Memory, calls: u64) -> Memory {
    let left = Arc::new(AtomicU64::new(calls));
    let tear = |block: &SharedBlock| {
        let torn = Torn { block: Arc::clone(block), left: Arc::clone(&left) };
        Arc::new(Block::Foreign(Box::new(torn)))
    };
    let blocks = whole.blocks.iter().map(|(block, packets)| (tear(block), packets.clone())).collect();
    Memory { blocks, ..whole.clone() }
}

/// A source that fails, and stops the run that it feeds.
struct Breaking<'a> {
    inner: Memory,
    faults: &'a [Break],
    control: &'a Control,
    yielded: u64,
    withheld: u64,
    batch: u64,
}

impl PacketSource for Breaking<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        for fault in self.faults {
            match *fault {
                Break::SourceFails(at) if self.yielded >= at => {
                    return Err(SourceError("injected failure".into()));
                }
                Break::SourcePanics(at) => assert!(self.yielded < at, "injected panic"),
                Break::SourceEnds(at) if self.yielded >= at => return Ok(Fill::End),
                Break::Stop(at) if self.yielded >= at => self.control.stop(),
                Break::StopTwice(at) if self.yielded >= at => {
                    self.control.stop();
                    self.control.stop();
                }
                _ => {}
            }
        }
        // The pool has no blocks at times.
        self.batch += 1;
        if self.batch % 7 == 3 {
            return Ok(Fill::Starved);
        }
        let fill = self.inner.next_batch(batch)?;
        if fill == Fill::Packets {
            let mut number = self.yielded;
            self.yielded += batch.packets.len() as u64;
            for fault in self.faults {
                match *fault {
                    Break::TimeGoesBack(every) => {
                        for (i, packet) in batch.packets.iter_mut().enumerate() {
                            if (number + i as u64).is_multiple_of(every) {
                                packet.time_ns /= 2;
                            }
                        }
                    }
                    Break::SourceWithholds(every) => {
                        let before = batch.packets.len();
                        batch.packets.retain(|_| {
                            number += 1;
                            !number.is_multiple_of(every) || before == 1
                        });
                        self.withheld += (before - batch.packets.len()) as u64;
                    }
                    _ => {}
                }
            }
        }
        Ok(fill)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut counts = DropCounts::default();
        counts.add(DropReason::NotIp, std::mem::take(&mut self.withheld));
        counts
    }
}

/// A policy that panics.
struct PanickingPush<'a>(&'a mut dyn Placement, u64);

impl Placement for PanickingPush<'_> {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        assert!(self.1 > 0, "injected panic");
        self.1 -= 1;
        self.0.place(items, load, decisions);
    }

    fn order(&self) -> OrderGuarantee {
        self.0.order()
    }

    fn name(&self) -> &'static str {
        self.0.name()
    }
}

struct PanickingPull<'a>(&'a mut dyn PullPolicy, u64);

impl PullPolicy for PanickingPull<'_> {
    fn arrive(&mut self, token: u32, item: WorkItem) -> Option<WorkerId> {
        self.0.arrive(token, item)
    }

    fn next(&mut self, worker: WorkerId) -> Option<Fetched> {
        assert!(self.1 > 0, "injected panic");
        let fetched = self.0.next(worker);
        self.1 -= u64::from(fetched.is_some());
        fetched
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

#[derive(Default)]
struct Sink {
    fail_at: Option<u64>,
    panic_at: Option<u64>,
    numbers: Vec<u64>,
}

impl PacketSink for Sink {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        let at = self.numbers.len() as u64;
        assert!(self.panic_at != Some(at), "injected panic");
        if self.fail_at == Some(at) {
            return Err(SinkError("injected failure".into()));
        }
        assert!(!packet.bytes.is_empty());
        self.numbers.push(packet.number);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

struct Picky(Recorder);

impl App for Picky {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        self.0.on_packet(packet, flow);
        if packet.time_ns % 5 == 1 { Verdict::Deny } else { Verdict::Accept }
    }
}

fn build(flows: u32, fails: bool) -> Result<DHash<FlowKey, Seen>, BuildError> {
    let flows = if fails { 0 } else { flows };
    DHash::try_new(&TableOptions { timeouts: Timeouts::NEVER, ..TableOptions::for_flows(flows) })
}

const POLICIES: [&str; 14] = [
    "dh", "hrw", "rss++", "adaptive", "fbs", "p2c", "flowpin", "ph", "lfb", "lfb-ns", "flowpull", "rr",
    "minload", "adaptive-racy",
];

/// The layout, policy, order, schedule and faults of a seed.
#[derive(Debug)]
struct Scene {
    config: EngineConfig,
    policy: &'static str,
    workers: usize,
    has_sink: bool,
    faults: Vec<Break>,
    per_block: usize,
    packets: u64,
}

impl Scene {
    fn draw(seed: u64) -> Self {
        let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xF10_3100);
        let workers = 1 + draw.below(4) as usize;
        let mode = if draw.below(8) == 0 { Layout::Inline } else { Layout::Pipeline { workers } };
        let policy = POLICIES[draw.below(POLICIES.len() as u64) as usize];
        let topology = Topology::flat(WorkerCount::new(workers).unwrap());
        let keeps = Scheme::named(policy).unwrap().policy(&topology, 1).unwrap().order().keeps_flow_order();
        let order = match draw.below(3) {
            0 => Order::None,
            1 if keeps => Order::Internal,
            _ => Order::External,
        };
        let when_full = if draw.below(3) == 0 { WhenFull::Drop } else { WhenFull::Block };
        let packets = 20 + draw.below(300);
        let faults = (0..draw.below(3)).map(|_| draw.fault(packets, workers as u64)).collect();
        let config = EngineConfig { order, when_full, ring_slots: 64, ..config(mode) };
        let has_sink = draw.below(2) == 0;
        let per_block = [7, 40, 500][draw.below(3) as usize];
        Self { config, policy, workers, has_sink, faults, per_block, packets }
    }

    fn find<T>(&self, pick: impl Fn(&Break) -> Option<T>) -> Option<T> {
        self.faults.iter().find_map(pick)
    }

    fn run(&self, whole: &Memory, seed: u64) -> Result<(), String> {
        let control = Control::default();
        let topology = Topology::flat(WorkerCount::new(self.workers).unwrap());
        let mut policy = Scheme::named(self.policy).unwrap().policy(&topology, seed).unwrap();
        let panics = self.find(|fault| match fault {
            Break::PolicyPanics(at) => Some(*at),
            _ => None,
        });
        let (mut push, mut pull);
        let policy_ref = match (&mut policy, panics) {
            (Policy::Push(policy), None) => PolicyRef::Push(&mut **policy),
            (Policy::Pull(policy), None) => PolicyRef::Pull(&mut **policy),
            (Policy::Push(policy), Some(at)) => {
                push = PanickingPush(&mut **policy, at);
                PolicyRef::Push(&mut push)
            }
            (Policy::Pull(policy), Some(at)) => {
                pull = PanickingPull(&mut **policy, at);
                PolicyRef::Pull(&mut pull)
            }
        };
        let calls = self.find(|fault| match fault {
            Break::BlockPanics(at) => Some(*at),
            _ => None,
        });
        let mut source = Breaking {
            inner: calls.map_or_else(|| whole.clone(), |calls| torn(whole, calls)),
            faults: &self.faults,
            control: &control,
            yielded: 0,
            withheld: 0,
            batch: 0,
        };
        let mut sink = Sink {
            fail_at: self.find(|fault| match fault {
                Break::SinkFails(at) => Some(*at),
                _ => None,
            }),
            panic_at: self.find(|fault| match fault {
                Break::SinkPanics(at) => Some(*at),
                _ => None,
            }),
            numbers: Vec::new(),
        };
        let parts = Endpoints::new(&mut source, policy_ref, &control)
            .with_packets(self.has_sink.then_some(&mut sink as _));
        let flows = if self.faults.contains(&Break::TableFull) { 1 } else { 400 };
        let fails = self.find(|fault| match fault {
            Break::TableFails(at) => Some(*at),
            _ => None,
        });
        let app = |worker: usize| {
            let panic_at = self.find(|fault| match *fault {
                Break::Worker { worker: its, at } if its == worker => Some(at),
                _ => None,
            });
            Picky(Recorder { panic_at, ..Recorder::default() })
        };
        match run_seeded(&self.config, parts, |i| build(flows, fails == Some(i)), app, seed) {
            Ok(report) => self.check(&report, &control, &sink),
            Err(SeededError::Start(StartError::Table(_))) if fails.is_some() => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn check(&self, report: &RunReport<Seen>, control: &Control, sink: &Sink) -> Result<(), String> {
        let demand = |holds: bool, what: &str| {
            if holds {
                Ok(())
            } else {
                Err(format!("{what}: {:?} {:?} {:?}", report.input, report.workers, report.fault))
            }
        };
        demand(report.is_balanced(), "packets and drops do not add up")?;
        let snapshot = control.snapshot();
        let at_end = (snapshot.packets, snapshot.processed, snapshot.dropped, snapshot.in_flight);
        let reported = (report.input.packets, report.processed(), report.dropped(), 0);
        demand(at_end == reported, "the snapshot lags behind")?;
        let rings_at_end = snapshot.workers.iter().map(|worker| (worker.ring_full, worker.full_waits));
        let rings = report.workers.iter().map(|worker| (worker.ring_full, worker.full_waits));
        demand(rings_at_end.eq(rings.clone()), "the snapshot of rings lags behind")?;
        let at_end = (snapshot.unplaced, snapshot.pool_full_waits);
        demand(
            at_end == (report.unplaced, report.pool_full_waits),
            "the snapshot of the pool lags behind",
        )?;
        let at_rings: u64 = rings.map(|(dropped, _)| dropped).sum();
        let at_full = report.input.dropped.get(DropReason::RingFull);
        demand(at_rings + report.unplaced == at_full, "drops at rings do not add up")?;
        let lost = report.dropped().get(DropReason::WorkerLost);
        let broke = report.fault.is_some();
        demand(broke || lost == 0, "something is lost without a fault")?;
        let full = report.dropped().get(DropReason::RingFull);
        demand(full == 0 || self.config.when_full == WhenFull::Drop, "a full ring drops")?;
        let in_flows: u64 = report.flows.iter().map(|flow| flow.state.packets).sum();
        demand(in_flows <= report.processed(), "flows have more packets than were processed")?;
        if !broke {
            demand(in_flows == report.processed(), "flows have fewer packets than were processed")?;
        }
        let ordered = self.config.order != Order::None;
        let disordered: u64 = report.flows.iter().map(|flow| flow.state.out_of_order).sum();
        demand(!ordered || disordered == 0, "a flow's packets are out of order")?;
        if let Some(counters) = report.sink {
            demand(counters.taken == sink.numbers.len() as u64, "the sink has taken something else")?;
            let accepted = report.processed() - report.worker_totals().denied;
            let passed = counters.taken + counters.refused;
            demand(passed <= accepted && (broke || passed == accepted), "accepted packets vanish")?;
            let exact = self.config.order == Order::External;
            demand(!exact || sink.numbers.is_sorted(), "packets leave out of order")?;
        }
        // The report names a fault that certainly happens.
        if let [only] = self.faults[..] {
            match (only, &report.fault) {
                (Break::SourceFails(at), fault) if at <= self.packets => {
                    demand(matches!(fault, Some(Fault::Source { .. })), "the source's fault")?;
                }
                (Break::SourcePanics(at), fault) if at <= self.packets => {
                    demand(matches!(fault, Some(Fault::InputPanicked { .. })), "the source's panic")?;
                }
                (Break::Stop(at) | Break::StopTwice(at), None) if at + 32 <= self.packets => {
                    demand(report.interrupted, "a stop")?;
                }
                (Break::Worker { worker, .. }, Some(fault)) => {
                    let named = matches!(fault, Fault::WorkerPanicked { worker: its, packet: Some(_), .. }
                        if *its == worker);
                    demand(named, "the worker and its packet")?;
                }
                (
                    Break::SourceEnds(_)
                    | Break::SourceWithholds(_)
                    | Break::TimeGoesBack(_)
                    | Break::TableFull,
                    fault,
                ) => demand(fault.is_none(), "no fault")?,
                _ => {}
            }
        }
        Ok(())
    }
}

thread_local! {
    /// Panics of this thread are expected.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
}

/// Keeps injected panics out of the output.
fn quieten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !EXPECTED.get() {
                usual(info);
            }
        }));
    });
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

#[test]
fn seeded_faults_leave_every_packet_accounted_for() {
    quieten();
    let (from, seeds) = (number("FLOWLOOM_SEED_FROM", 0), number("FLOWLOOM_SEEDS", 3_000));
    let mixes: Vec<Vec<Memory>> = [7, 40, 500]
        .map(|per_block| (0..4).map(|i| Memory::in_blocks(mix(30 + 100 * i, 25), per_block)).collect())
        .into();
    let mut kinds = std::collections::BTreeMap::<String, u64>::new();
    for seed in from..from + seeds {
        let mut scene = Scene::draw(seed);
        let row = [7, 40, 500].iter().position(|&per_block| per_block == scene.per_block).unwrap();
        let whole = &mixes[row][(scene.packets / 100) as usize % 4];
        scene.packets = whole.blocks.iter().map(|(_, packets)| packets.len() as u64).sum();
        EXPECTED.set(true);
        let outcome = catch_unwind(AssertUnwindSafe(|| scene.run(whole, seed)));
        EXPECTED.set(false);
        assert!(matches!(outcome, Ok(Ok(()))), "seed {seed}: {outcome:?}\n{scene:?}");
        for fault in &scene.faults {
            let name = format!("{fault:?}");
            let kind = name.split(['(', ' ']).next().unwrap_or_default().to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
    }
    println!("{seeds} seeds from {from}: {kinds:?}");
    assert!(seeds < 1_000 || kinds.len() == 14, "every kind of fault was drawn: {kinds:?}");
}

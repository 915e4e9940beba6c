//! Appliances under seeded faults and in churn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flowloom_engine::{
    Actions, App, Control, FlowRecord, IdleTimeout, Layout, NoFlow, NoFlowPolicy, OnPanic, RecordSink,
    SinkError, Verdict, WireOptions, run_wires,
};
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{DHash, LineHash, TableOptions};
use flowloom_packet::refusal::Refusal;
use flowloom_packet::rewrite::Rewrite;
use flowloom_packet::wire::{Decision, Frame, PortCounts, WIRE_BATCH, Wire};
use flowloom_packet::{DropCounts, DropReason, Headers, PacketView, SourceError};
use flowloom_traffic::synth::{Generate, Mix};

use crate::common::{Seen, config, mix};

/// Kinds of faults, by index.
const KINDS: [&str; 9] = [
    "port error", "panic of the wire", "interface down", "missed frames", "rules reloaded", "ring full",
    "error while sending", "panic of the application", "error at the end",
];

/// A sequence of numbers from a seed, and the faults that it injected.
struct Chance {
    state: u64,
    faults: [u64; KINDS.len()],
}

impl Chance {
    fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, faults: [0; KINDS.len()] }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 11
    }

    /// Injects a fault of a kind once in `in_many` calls.
    fn strikes(&mut self, kind: usize, in_many: u64) -> bool {
        let strikes = self.next().is_multiple_of(in_many);
        self.faults[kind] += u64::from(strikes);
        strikes
    }
}

/// The shared state of the wire and the application of a run.
struct Shared<'a> {
    chance: &'a std::sync::Mutex<Chance>,
    /// The generation of the rules.
    rules: &'a AtomicU64,
    control: &'a Control,
}

impl Shared<'_> {
    fn strikes(&self, kind: usize, in_many: u64) -> bool {
        // The guard is dropped before the fault, so the lock is never poisoned.
        self.chance.lock().unwrap().strikes(kind, in_many)
    }
}

struct Faulty<'a> {
    shared: &'a Shared<'a>,
    frames: &'a [(u64, Vec<u8>)],
    at: usize,
    batch: usize,
    missed: u64,
    counts: [PortCounts; 2],
}

fn error(kind: usize) -> SourceError {
    SourceError(KINDS[kind].into())
}

impl Wire for Faulty<'_> {
    fn receive(&mut self) -> Result<usize, SourceError> {
        if self.shared.strikes(0, 300) {
            return Err(error(0));
        }
        assert!(!self.shared.strikes(1, 600), "injected panic");
        if self.shared.strikes(3, 10) {
            self.missed += 3;
            self.counts[0].missed += 3;
        }
        if self.shared.strikes(4, 10) {
            self.shared.rules.fetch_add(1, Ordering::Relaxed);
        }
        if self.at < self.frames.len() && self.shared.strikes(2, 10) {
            return Ok(0);
        }
        self.batch = (self.frames.len() - self.at).min(1 + self.at % WIRE_BATCH);
        self.counts[self.at & 1].received += self.batch as u64;
        Ok(self.batch)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        let (time_ns, bytes) = &self.frames[self.at + index];
        Frame::ethernet(bytes, (self.at & 1) as u16, *time_ns)
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        let opposite = self.at & 1 ^ 1;
        let passing = decisions.iter().filter(|decision| **decision != Decision::Drop);
        let sent = passing.count().min(self.batch);
        let fails = sent > 0 && self.shared.strikes(6, 400);
        for _ in 0..if fails { sent / 2 } else { sent } {
            let is_full = self.shared.strikes(5, 40);
            let counts = &mut self.counts[opposite];
            *(if is_full { &mut counts.refused } else { &mut counts.sent }) += 1;
        }
        self.at += std::mem::take(&mut self.batch);
        if fails { Err(error(6)) } else { Ok(()) }
    }

    fn rewrite(&mut self, index: usize, rewrite: &Rewrite, headers: &Headers) -> bool {
        rewrite.apply(&mut self.frames[self.at + index].1.clone(), headers, None)
    }

    fn emit(&mut self, port: u16, _bytes: &[u8]) -> bool {
        let is_full = self.shared.strikes(5, 20);
        let counts = &mut self.counts[usize::from(port)];
        *(if is_full { &mut counts.added_refused } else { &mut counts.added }) += 1;
        !is_full
    }

    fn wait(&mut self, _at_most: Duration) -> Result<(), SourceError> {
        self.shared.control.stop();
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        if self.shared.strikes(8, 20) { Err(error(8)) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        if self.shared.strikes(8, 20) { Err(error(8)) } else { Ok(()) }
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.counts.to_vec()
    }

    fn withheld(&mut self) -> DropCounts {
        let mut counts = DropCounts::default();
        counts.add(DropReason::InterfaceFull, std::mem::take(&mut self.missed));
        counts
    }
}

/// Judges by the generation of the rules, rewrites and emits, and panics anywhere.
struct Anything<'a>(&'a Shared<'a>);

impl Anything<'_> {
    fn may_panic(&self) {
        assert!(!self.0.strikes(7, 150), "injected panic");
    }
}

impl App for Anything<'_> {
    type Flow = Seen;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        flow.packets += 1;
        self.may_panic();
        let rules = self.0.rules.load(Ordering::Relaxed);
        let port = u64::from(packet.headers.tuple().source_port);
        if (port + rules).is_multiple_of(3) { Verdict::Deny } else { Verdict::Accept }
    }

    fn decide(&mut self, packet: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
        actions.rewrite(Rewrite::new().destination_port(9));
        if packet.time_ns.is_multiple_of(7) {
            actions.emit(1, vec![0; 60]);
        }
        self.may_panic();
        if verdict == Verdict::Accept { Decision::Pass } else { Decision::Drop }
    }

    fn on_frame_without_flow(&mut self, _: &Frame<'_>, _: DropReason, actions: &mut Actions) -> Decision {
        actions.emit(0, vec![0; 60]);
        self.may_panic();
        Decision::Pass
    }
}

/// Frames of a mix, and ARP frames among them.
fn frames() -> Vec<(u64, Vec<u8>)> {
    let mut mix = Mix::new(mix(600, 80)).unwrap();
    let (mut frames, mut frame) = (Vec::new(), Vec::new());
    while let Some(meta) = mix.next_into(&mut frame) {
        if frames.len() % 20 == 0 {
            frames.push((meta.time_ns, [&[0xFF; 12][..], &[8, 6], &[0; 46]].concat()));
        }
        frames.push((meta.time_ns, frame.clone()));
    }
    frames
}

#[test]
fn ten_thousand_faults_leave_every_frame_accounted_for() {
    std::panic::set_hook(Box::new(|_| {}));
    let given = frames();
    let (mut faults, mut runs) = ([0; KINDS.len()], 0);
    while faults.iter().sum::<u64>() < 10_000 || faults.iter().any(|count| *count < 30) {
        assert!(runs < 20_000, "some kinds of faults do not happen: {faults:?}");
        runs += 1;
        let chance = std::sync::Mutex::new(Chance::new(runs));
        let (rules, control) = (AtomicU64::new(0), Control::default());
        let shared = Shared { chance: &chance, rules: &rules, control: &control };
        let wire = Faulty {
            shared: &shared,
            frames: &given,
            at: 0,
            batch: 0,
            missed: 0,
            counts: [PortCounts::default(); 2],
        };
        let options = WireOptions {
            no_flow: NoFlowPolicy::all(NoFlow::Ask),
            refusal: Refusal::Reset,
            on_panic: [OnPanic::Drop, OnPanic::Pass, OnPanic::Stop][runs as usize % 3],
            table_full: [Verdict::Accept, Verdict::Deny][runs as usize % 2],
        };
        // Some tables are too small.
        let flows = if runs % 4 == 0 { 20 } else { 2000 };
        let table = |_| DHash::<FlowKey, Seen>::try_new(&TableOptions::for_flows(flows));
        let app = |_| Anything(&shared);
        let ran =
            run_wires(&config(Layout::Inline), &options, vec![wire], table, app, &control, None).unwrap();
        assert!(ran.is_balanced() && ran.report.is_balanced(), "seed {runs}: {ran:?}");
        let wires = control.snapshot().wires.unwrap();
        assert_eq!((wires.ports, wires.decisions), (ran.ports, ran.decisions), "seed {runs}");
        for (all, count) in faults.iter_mut().zip(chance.into_inner().unwrap().faults) {
            *all += count;
        }
    }
    eprintln!("{runs} runs, faults: {:?}", KINDS.iter().zip(faults).collect::<Vec<_>>());
}

/// A pair of ports in memory, between which datagrams pass: ten for each flow, and a new flow in
/// between.
struct Churn<'a> {
    control: &'a Control,
    packets: u64,
    at: u64,
    batch: usize,
    buffers: Vec<[u8; 60]>,
    counts: [PortCounts; 2],
    /// The anonymous memory after a tenth of the packets, and after the last one.
    memory: &'a [AtomicU64; 2],
}

const PACKETS_PER_FLOW: u64 = 10;
const LIVE_FLOWS: u64 = 5000;

/// Returns the anonymous memory of this process, if the system tells.
fn anonymous_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

impl Churn<'_> {
    fn measure(&self, time: usize) {
        self.memory[time].store(anonymous_bytes().unwrap_or(0), Ordering::Relaxed);
    }
}

impl Wire for Churn<'_> {
    fn receive(&mut self) -> Result<usize, SourceError> {
        let left = self.packets - self.at;
        self.batch = left.min(WIRE_BATCH as u64) as usize;
        for index in 0..self.batch as u64 {
            let number = self.at + index;
            // A window of flows moves on: each packet belongs to one of the live flows.
            let round = number / (LIVE_FLOWS * PACKETS_PER_FLOW);
            let flow = (round * LIVE_FLOWS + number % LIVE_FLOWS) as u32;
            let frame = &mut self.buffers[index as usize];
            frame[26..30].copy_from_slice(&(0x0A00_0000 ^ flow).to_be_bytes());
        }
        self.counts[0].received += self.batch as u64;
        if self.at / 32 == self.packets / 320 {
            self.measure(0);
        }
        Ok(self.batch)
    }

    fn frame(&self, index: usize) -> Frame<'_> {
        Frame::ethernet(&self.buffers[index], 0, 1_000_000_000 + (self.at + index as u64) * 1000)
    }

    fn settle(&mut self, decisions: &[Decision]) -> Result<(), SourceError> {
        self.counts[1].sent += decisions.iter().filter(|d| **d == Decision::Pass).count() as u64;
        self.at += std::mem::take(&mut self.batch) as u64;
        Ok(())
    }

    fn emit(&mut self, _port: u16, _bytes: &[u8]) -> bool {
        false
    }

    fn wait(&mut self, _at_most: Duration) -> Result<(), SourceError> {
        self.measure(1);
        self.control.stop();
        Ok(())
    }

    fn close(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SourceError> {
        Ok(())
    }

    fn ports(&self) -> Vec<PortCounts> {
        self.counts.to_vec()
    }
}

/// Counts records and forgets them.
#[derive(Default)]
struct Count(u64);

impl RecordSink<Seen> for Count {
    fn write(&mut self, records: &[FlowRecord<Seen>]) -> Result<(), SinkError> {
        self.0 += records.len() as u64;
        Ok(())
    }
}

struct Pass;

impl App for Pass {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        flow.packets += 1;
        Verdict::Accept
    }
}

/// `FLOWLOOM_SOAK_PACKETS` sets the number of packets; a million by default.
#[test]
fn memory_stays_flat_in_churn_and_counts_are_exact() {
    let packets = std::env::var("FLOWLOOM_SOAK_PACKETS").ok().and_then(|text| text.parse().ok());
    let packets: u64 = packets.unwrap_or(1_000_000);
    let mut frame = [0; 60];
    frame[..14].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame[14..42].copy_from_slice(&[
        0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 0, 192, 0, 2, 1, 4, 0, 0, 53, 0, 8, 0, 0,
    ]);
    let (control, memory) = (Control::default(), <[AtomicU64; 2]>::default());
    let wire = Churn {
        control: &control,
        packets,
        at: 0,
        batch: 0,
        buffers: vec![frame; WIRE_BATCH],
        counts: [PortCounts::default(); 2],
        memory: &memory,
    };
    // A flow's packets are five milliseconds apart, by the time of the packets.
    let timeout = IdleTimeout::from_ns(20_000_000);
    let mut config = config(Layout::Inline);
    config.idle_timeout = Some(timeout);
    let sized = TableOptions { timeouts: timeout.for_table(), ..TableOptions::for_flows(100_000) };
    let table = |_| LineHash::<FlowKey, Seen>::try_new(&sized);
    let mut records = Count::default();
    let begun = std::time::Instant::now();
    let ran = run_wires(
        &config,
        &WireOptions::default(),
        vec![wire],
        table,
        |_| Pass,
        &control,
        Some(&mut records),
    )
    .unwrap();
    let [early, late] = memory.map(AtomicU64::into_inner);
    assert!(ran.is_balanced() && ran.report.is_balanced(), "{ran:?}");
    assert_eq!((ran.decisions.passed, ran.report.input.packets), (packets, packets));
    let begun_flows = packets.div_ceil(PACKETS_PER_FLOW * LIVE_FLOWS) * LIVE_FLOWS;
    assert_eq!(ran.report.worker_totals().flows_begun, begun_flows);
    assert_eq!(records.0, begun_flows, "each flow has one record");
    eprintln!(
        "{packets} packets, {begun_flows} flows in {:?}; {early} bytes, then {late}",
        begun.elapsed()
    );
    assert!(early > 0 || late == 0, "memory was measured early");
    assert!(late < early + (8 << 20), "{early} bytes of memory became {late}");
}

//! The sharded layout, with failures in any of its parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowloom_engine::{
    App, ConfigError, Control, EngineConfig, Fault, FlowRecord, IdleTimeout, Layout, Outputs, Pace,
    PartSource, PartSupport, PartitionedSource, RecordSink, RunReport, SinkError, StartError, Verdict,
    run_sharded, run_sharded_with,
};
use flowloom_packet::{DropReason, Fill, PacketBatch, PacketSource, PacketView, RawPacket, SourceError};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::MixConfig;
use proptest::prelude::*;

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

/// Parts of packets in memory, each a range of packet numbers.
struct Cut {
    memory: Memory,
    ends: Vec<usize>,
    /// The part that cannot be opened.
    unopened: Option<usize>,
    /// The part that fails or panics after some packets.
    fails: Option<(usize, u64)>,
    panics: Option<(usize, u64)>,
    /// Parts from the third one on open once this is more than zero.
    waits_for: Option<Arc<AtomicU64>>,
}

impl Cut {
    fn new(memory: Memory, cuts: &[usize]) -> Self {
        let packets = memory.blocks.iter().map(|(_, packets)| packets.len()).sum();
        let ends = cuts.iter().copied().chain([packets]).collect();
        Self { memory, ends, unopened: None, fails: None, panics: None, waits_for: None }
    }

    fn between(&self, begin: usize, end: usize) -> Memory {
        let mut at = 0;
        let mut blocks = Vec::new();
        for (block, packets) in &self.memory.blocks {
            let (from, to) = (begin.clamp(at, at + packets.len()), end.clamp(at, at + packets.len()));
            if from < to {
                blocks.push((Arc::clone(block), packets[from - at..to - at].to_vec()));
            }
            at += packets.len();
        }
        Memory { blocks, ..self.memory.clone() }
    }
}

struct Part(Memory, usize, usize);

impl PacketSource for Part {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.0.next_batch(batch)
    }
}

impl PartSource for Part {
    type Read = (usize, usize);

    fn finish(self) -> (usize, usize) {
        (self.1, self.2)
    }
}

impl PartitionedSource for Cut {
    type Boundary = usize;
    type Read = (usize, usize);
    type Part = Part;

    fn parts(&self) -> usize {
        self.ends.len()
    }

    fn open(&self, part: usize) -> Result<Part, SourceError> {
        let begin = part.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.open_at(part, begin)
    }

    fn open_at(&self, part: usize, begin: usize) -> Result<Part, SourceError> {
        if self.unopened == Some(part) {
            return Err(SourceError("injected failure to open".into()));
        }
        if let Some(count) = self.waits_for.as_ref().filter(|_| part >= 2) {
            let begun = Instant::now();
            while count.load(Ordering::Relaxed) == 0 {
                if begun.elapsed() > Duration::from_secs(20) {
                    return Err(SourceError("nothing came in 20 seconds".into()));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let of_part =
            |which: Option<(usize, u64)>| which.filter(|(at, _)| *at == part).map(|(_, after)| after);
        let end = self.ends[part];
        let memory = Memory {
            fail_after: of_part(self.fails),
            panic_after: of_part(self.panics),
            ..self.between(begin, end)
        };
        Ok(Part(memory, begin, end))
    }

    fn begin(&self, read: &(usize, usize)) -> usize {
        read.0
    }

    fn unconfirmed(&self, _: &[(usize, usize)]) -> Vec<(usize, usize)> {
        Vec::new()
    }
}

fn go<A: App<Flow = Seen>>(cut: &Cut, app: impl FnMut(usize) -> A, control: &Control) -> RunReport<Seen> {
    let config = config(Layout::Sharded { workers: cut.parts() });
    let report = run_sharded(&config, cut, |_| small_table(), app, control).unwrap().report;
    assert!(report.is_balanced(), "{report:?}");
    assert_eq!(report.workers.len(), cut.parts());
    report
}

/// Returns the report of one thread over the first packets.
fn inline(memory: &Memory, packets: Option<u64>) -> RunReport<Seen> {
    let config = EngineConfig { packet_limit: packets, ..config(Layout::Inline) };
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let (mut memory, control) = (memory.clone(), Control::default());
    let app = |_| Recorder::default();
    flowloom_engine::run(&config, &mut memory, &mut policy, |_| small_table(), app, &control).unwrap()
}

#[test]
fn a_state_that_does_not_compose_comes_out_as_one_thread_has_it() {
    let memory = Memory::of(mix(5_000, 100));
    let report = go(
        &Cut::new(memory.clone(), &[0, 1_700, 1_701, 4_000]),
        |_| Recorder::default(),
        &Control::default(),
    );
    let whole = inline(&memory, None);
    assert_eq!(report.digest(), whole.digest());
    assert_eq!(report.input, whole.input);
    let sharded = report.sharded.unwrap();
    assert!(sharded.flows_joined == 0 && sharded.flows_reprocessed > 50, "{sharded:?}");
}

#[test]
fn a_part_is_read_again_only_as_far_as_its_flows_go() {
    // The flows across the cut end with the first mixture.
    let mut memory = Memory::of(mix(20_000, 1_000));
    let later = MixConfig {
        seed: 12,
        start_ns: MixConfig::default().start_ns + 1_000_000_000,
        ..mix(80_000, 4_000)
    };
    memory.blocks.extend(Memory::of(later).blocks);
    let batches: usize = memory.blocks.iter().map(|(_, packets)| packets.len().div_ceil(32)).sum();
    let asked = Arc::clone(&memory.asked);
    let cut = Cut::new(memory, &[10_000]);
    let (config, control) = (config(Layout::Sharded { workers: 2 }), Control::default());
    let table = |_| table(10_000, None);
    let run = run_sharded(&config, &cut, table, |_| Recorder::default(), &control).unwrap();
    let flows = run.report.sharded.unwrap().flows_reprocessed;
    assert!(run.report.is_balanced() && flows > 100, "{flows}");
    let again = asked.load(Ordering::Relaxed) as usize - batches;
    // Two threads read as far.
    assert!(again < 2 * batches / 5, "{again} of {batches} batches, where 9 / 10 lie behind the cut");
}

proptest! {
    #[test]
    fn wrong_time_stamps_do_the_same_in_one_thread_and_in_parts(
        wrong in prop::collection::vec((0..600_usize, 1..6_usize, 0..5_usize), 0..8),
        cuts in prop::collection::vec(0..600_usize, 0..6),
        (workers, limit) in (1..7_usize, prop::option::of(0..700_u64)),
    ) {
        const YEAR_NS: u64 = 365 * 86_400 * 1_000_000_000;
        let mut memory = Memory::of(mix(600, 40));
        let mut packets: Vec<&mut RawPacket> =
            memory.blocks.iter_mut().flat_map(|(_, packets)| packets).collect();
        for (at, run, kind) in wrong {
            for packet in packets.iter_mut().skip(at).take(run) {
                let time_ns = packet.time_ns;
                packet.time_ns = match kind {
                    0 => 5,
                    1 => time_ns.saturating_add(80 * YEAR_NS),
                    2 => time_ns.saturating_add(YEAR_NS),
                    3 => time_ns.saturating_sub(YEAR_NS),
                    _ => time_ns.saturating_sub(1_000_000_000),
                };
            }
        }
        let mut cuts = cuts;
        cuts.sort_unstable();
        let whole = inline(&memory, limit);
        let cut = Cut::new(memory, &cuts);
        let parts = cut.parts();
        for workers in [workers.min(parts), parts] {
            let config = EngineConfig { packet_limit: limit, ..config(Layout::Sharded { workers }) };
            let control = Control::default();
            for is_streamed in [false, true] {
                let mut counts = Counts::default();
                let mut outputs = Outputs::default();
                outputs.records = is_streamed.then_some(&mut counts as _);
                let (table, app) = (|_| small_table(), |_| Recorder::default());
                let run = run_sharded_with(&config, &cut, table, app, &control, outputs);
                let report = run.unwrap().report;
                prop_assert!(report.is_balanced(), "{:?}", report);
                prop_assert_eq!(report.digest(), whole.digest());
                prop_assert_eq!(&report.input, &whole.input);
                prop_assert_eq!(report.workers.len(), workers);
                prop_assert_eq!(report.record_count(), whole.record_count());
                let written = counts.0.load(Ordering::Relaxed);
                prop_assert_eq!(written, if is_streamed { whole.record_count() } else { 0 });
                prop_assert_eq!(control.snapshot().packets, whole.input.packets);
            }
        }
    }
}

/// Counts the records that it gets.
#[derive(Clone, Default)]
struct Counts(Arc<AtomicU64>);

impl RecordSink<Seen> for Counts {
    fn write(&mut self, records: &[FlowRecord<Seen>]) -> Result<(), SinkError> {
        self.0.fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn records_reach_the_sink_after_each_round() {
    let memory = Memory::of(mix(20_000, 5_000));
    let timeout = Some(IdleTimeout::from_ns(1_000_000));
    let inline = EngineConfig { idle_timeout: timeout, ..config(Layout::Inline) };
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let (mut packets, control) = (memory.clone(), Control::default());
    let app = |_| Recorder::default();
    let (table, part_table) = (|_| table(10_000, timeout), |_| table(10_000, timeout));
    let whole = flowloom_engine::run(&inline, &mut packets, &mut policy, table, app, &control).unwrap();
    let mut counts = Counts::default();
    let waits_for = Some(Arc::clone(&counts.0));
    let cut = Cut { waits_for, ..Cut::new(memory, &[4_000, 8_000, 12_000, 16_000]) };
    let mut outputs = Outputs::default();
    outputs.records = Some(&mut counts as _);
    let config = EngineConfig { idle_timeout: timeout, ..config(Layout::Sharded { workers: 2 }) };
    let report = run_sharded_with(&config, &cut, part_table, app, &control, outputs).unwrap().report;
    assert!(report.fault.is_none() && report.flows.is_empty(), "{report:?}");
    assert_eq!(report.digest(), whole.digest());
    assert_eq!(report.record_count(), whole.record_count());
    assert!(whole.record_count() > 6_000, "{}", whole.record_count());
}

#[test]
fn what_follows_a_part_that_broke_does_not_count() {
    let memory = Memory::of(mix(5_000, 100));
    let cut = || Cut::new(memory.clone(), &[1_000, 3_000]);
    let first = inline(&memory, Some(1_000));
    let app = |_| Recorder::default();
    let report = go(&Cut { unopened: Some(1), ..cut() }, app, &Control::default());
    assert!(matches!(report.fault, Some(Fault::Source { packets: 1_000, .. })), "{:?}", report.fault);
    assert_eq!(report.digest(), first.digest());
    let report = go(&Cut { fails: Some((1, 500)), ..cut() }, app, &Control::default());
    let Some(Fault::Source { packets, .. }) = report.fault else { panic!("{:?}", report.fault) };
    assert!((1_500..1_600).contains(&packets), "{packets}");
    assert_eq!(report.input.packets, packets);
    let report = go(&Cut { panics: Some((1, 500)), ..cut() }, app, &Control::default());
    assert!(
        matches!(report.fault, Some(Fault::InputPanicked { packets: 1_500.., .. })),
        "{:?}",
        report.fault
    );
}

#[test]
fn a_panic_of_an_application_names_the_part_and_the_packet_of_the_whole() {
    let memory = Memory::of(mix(5_000, 100));
    let cut = Cut::new(memory, &[1_000, 3_000]);
    let app = |worker| Recorder { panic_at: (worker == 1).then_some(700), ..Recorder::default() };
    let report = go(&cut, app, &Control::default());
    let Some(Fault::WorkerPanicked { worker: 1, packet: Some(packet), processed: 699, .. }) = report.fault
    else {
        panic!("{:?}", report.fault)
    };
    assert!((1_700..1_800).contains(&packet), "{packet}, with those that have no flow");
    assert!(report.dropped().of(DropReason::WorkerLost) > 0);
    assert!(report.input.packets < 3_000, "the third part does not count");
}

/// Stops the run at its first packet.
struct Stops(Arc<Control>, Arc<AtomicU64>);

impl App for Stops {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        self.0.stop();
        self.1.fetch_add(1, Ordering::Relaxed);
        flow.packets += 1;
        Verdict::Accept
    }
}

#[test]
fn a_run_that_is_stopped_has_what_each_worker_has_seen() {
    let (control, seen) = (Arc::new(Control::default()), Arc::new(AtomicU64::new(0)));
    let cut = Cut::new(Memory::of(mix(50_000, 100)), &[10_000, 30_000]);
    let report = go(&cut, |_| Stops(Arc::clone(&control), Arc::clone(&seen)), &control);
    assert!(report.interrupted && report.fault.is_none());
    assert_eq!(report.processed(), seen.load(Ordering::Relaxed));
    let in_flows: u64 = report.flows.iter().map(|flow| flow.state.packets).sum();
    assert_eq!(in_flows, report.processed());
    assert_eq!(control.snapshot().packets, report.input.packets);
}

struct Sequential;

impl App for Sequential {
    type Flow = Seen;
    const PARTS: PartSupport = PartSupport::Never("it counts on one sequence");

    fn on_packet(&mut self, _: &PacketView<'_>, _: &mut Seen) -> Verdict {
        Verdict::Accept
    }
}

#[test]
fn what_cannot_be_exact_is_refused_with_the_reason() {
    let cut = Cut::new(Memory::of(mix(500, 10)), &[100]);
    let usual = config(Layout::Sharded { workers: 2 });
    let control = Control::default();
    let error = run_sharded(&usual, &cut, |_| small_table(), |_| Sequential, &control).unwrap_err();
    assert!(error.to_string().contains("it counts on one sequence"), "{error}");
    let paced = EngineConfig { pace: Pace::Times(1.0), ..usual };
    let error =
        run_sharded(&paced, &cut, |_| small_table(), |_| Recorder::default(), &control).unwrap_err();
    assert!(matches!(error, StartError::Config(ConfigError::Sharded { .. })), "{error}");
}

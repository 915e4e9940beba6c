//! The sharded layout: equal to one thread, for any threads, chunks and segments.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flowloom_engine::{
    Control, Endpoints, EngineConfig, Fault, FlowRecord, IdleTimeout, Layout, PacketSink, Released,
    RunReport, SinkError, run_seeded, run_with,
};
use flowloom_packet::{Fill, PacketBatch, PacketSource, Segment, SourceError};
use flowloom_scheduler::{DirectHash, WorkerCount};
use flowloom_traffic::synth::MixConfig;
use proptest::prelude::*;

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

/// Packets in memory that can be split into segments, of which some are assumed at a wrong place.
struct Split {
    memory: Memory,
    all: usize,
    /// The number of the packet at which the next segment begins, and the true one.
    next: usize,
    known: usize,
    /// Every so many segments, the next is assumed one packet too late.
    wrong_each: Option<usize>,
    splits: usize,
    open: usize,
    /// The packet at which a segment fails or panics.
    fails_at: Option<usize>,
    panics_at: Option<usize>,
}

struct Part {
    memory: Memory,
    begin: usize,
    end: usize,
}

impl PacketSource for Part {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        self.memory.next_batch(batch)
    }
}

impl Segment for Part {
    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl Split {
    fn new(memory: Memory) -> Self {
        let all = memory.blocks.iter().map(|(_, packets)| packets.len()).sum();
        Self {
            memory,
            all,
            next: 0,
            known: 0,
            wrong_each: None,
            splits: 0,
            open: 0,
            fails_at: None,
            panics_at: None,
        }
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
        let after =
            |at: Option<usize>| at.filter(|at| (begin..end).contains(at)).map(|at| (at - begin) as u64);
        let (fail_after, panic_after) = (after(self.fails_at), after(self.panics_at));
        Memory { blocks, at: (0, 0), yielded: 0, fail_after, panic_after, ..self.memory.clone() }
    }
}

impl PacketSource for Split {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        assert_eq!(self.open, 0, "segments are taken back first");
        let end = (self.known + 7).min(self.all);
        let fill = self.between(self.known, end).next_batch(batch)?;
        batch.block_number = 1000 + self.known as u64;
        self.known += if fill == Fill::Packets { batch.packets.len() } else { 0 };
        self.next = self.known;
        Ok(fill)
    }

    fn split(&mut self, bytes: u64) -> Option<Box<dyn Segment>> {
        // A packet has 256 bytes here.
        let end = self.next + (bytes / 256) as usize;
        if end >= self.all {
            return None;
        }
        self.splits += 1;
        self.open += 1;
        let part = Part { memory: self.between(self.next, end), begin: self.next, end };
        let is_wrong = self.wrong_each.is_some_and(|each| self.splits.is_multiple_of(each));
        self.next = end + usize::from(is_wrong);
        Some(Box::new(part))
    }

    fn rejoin(&mut self, segment: Box<dyn Segment>) -> bool {
        let part = segment.into_any().downcast::<Part>().expect("it was split off here");
        if part.begin != self.known {
            (self.next, self.open) = (self.known, 0);
            return false;
        }
        self.open -= 1;
        self.known = part.end;
        if self.open == 0 {
            self.next = self.known;
        }
        true
    }
}

fn run(
    config: &EngineConfig,
    source: &mut (dyn PacketSource + Send),
    seed: Option<u64>,
) -> RunReport<Seen> {
    let mut policy = DirectHash::new(WorkerCount::new(config.layout.workers()).unwrap());
    let control = Control::default();
    let endpoints = Endpoints::new(source, &mut policy, &control);
    let (table, app) = (|_| table(2_000, config.idle_timeout), |_| Recorder::default());
    let report = match seed {
        Some(seed) => run_seeded(config, endpoints, table, app, seed).unwrap(),
        None => run_with(config, endpoints, table, app).unwrap(),
    };
    assert!(report.is_balanced(), "{report:?}");
    report
}

/// Returns traffic of a thousand packets per second, so that timeouts end flows.
fn slow(packets: u64, flows: u64) -> MixConfig {
    MixConfig { rate_pps: 1_000, ..mix(packets, flows) }
}

/// Returns the records, each as its key and its debug text.
fn records(report: &RunReport<Seen>) -> Vec<String> {
    report.flows.iter().map(|record| format!("{record:?}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_gives_the_result_of_one_thread(
        packets in 60_u64..2_000,
        workers in 1_usize..17,
        chunk_packets in prop_oneof![1_usize..20, 20_usize..400, Just(65_536)],
        is_split: bool,
        wrong_each in proptest::option::of(1_usize..9),
        timeout in proptest::option::of(1_000_000_u64..1_000_000_000),
        odd_times in proptest::collection::vec((0_usize..2_000, any::<i64>()), 0..4),
        limit in proptest::option::of(0_u64..2_000),
        timeline: bool,
        seed in proptest::option::of(any::<u64>()),
    ) {
        let mut memory = Memory::in_blocks(slow(packets, 60), 501);
        for (at, by) in odd_times {
            let (block, at) = (at / 501, at % 501);
            if let Some(raw) = memory.blocks.get_mut(block).and_then(|(_, packets)| packets.get_mut(at)) {
                raw.time_ns = raw.time_ns.wrapping_add_signed(by);
            }
        }
        let config = |layout| EngineConfig {
            chunk_packets,
            packet_limit: limit,
            timeline,
            idle_timeout: timeout.map(IdleTimeout::from_ns),
            ..config(layout)
        };
        let whole = run(&config(Layout::Inline), &mut memory.clone(), None);
        let sharded = config(Layout::Sharded { workers });
        let report = if is_split {
            run(&sharded, &mut Split { wrong_each, ..Split::new(memory) }, seed)
        } else {
            run(&sharded, &mut memory, seed)
        };
        prop_assert_eq!(report.digest(), whole.digest());
        prop_assert_eq!(&report.input, &whole.input);
        prop_assert_eq!(records(&report), records(&whole));
        let totals = |report: &RunReport<Seen>| {
            let totals = report.worker_totals();
            (totals.processed, totals.flows_begun, totals.flows_expired)
        };
        prop_assert_eq!(totals(&report), totals(&whole));
    }
}

/// Keeps the numbers and the bytes of packets.
#[derive(Default)]
struct Kept(Vec<(u64, u64, Vec<u8>)>);

impl PacketSink for Kept {
    fn take(&mut self, packet: &Released<'_>) -> Result<(), SinkError> {
        self.0.push((packet.number, packet.time_ns, packet.bytes.to_vec()));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

#[test]
fn accepted_packets_leave_in_the_order_of_the_input() {
    let kept = |layout: Layout, source: &mut (dyn PacketSource + Send)| {
        let mut policy = DirectHash::new(WorkerCount::new(layout.workers()).unwrap());
        let (control, mut kept) = (Control::default(), Kept::default());
        let endpoints = Endpoints::new(source, &mut policy, &control).with_packets(Some(&mut kept));
        let report =
            run_with(&config(layout), endpoints, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none());
        assert_eq!(report.sink.map(|sink| sink.taken), Some(kept.0.len() as u64));
        kept.0
    };
    let memory = Memory::new(mix(5_000, 100));
    let whole = kept(Layout::Inline, &mut memory.clone());
    for workers in [1, 2, 5] {
        let layout = Layout::Sharded { workers };
        assert!(kept(layout, &mut memory.clone()) == whole);
        assert!(kept(layout, &mut Split::new(memory.clone())) == whole, "in segments");
    }
}

#[test]
fn a_segment_that_fails_or_panics_ends_the_run_after_the_packets_before_it() {
    for seed in 0..20 {
        for panics in [false, true] {
            let mut source = Split::new(Memory::new(mix(3_000, 50)));
            if panics {
                source.panics_at = Some(1_000);
            } else {
                source.fails_at = Some(1_000);
            }
            let config = EngineConfig { timeline: false, ..config(Layout::Sharded { workers: 3 }) };
            let report = run(&config, &mut source, Some(seed));
            match report.fault {
                Some(Fault::InputPanicked { packets, .. }) if panics => assert!(packets <= 1_000),
                Some(Fault::Source { packets, .. }) if !panics => assert!((970..=1_000).contains(&packets)),
                other => panic!("{other:?}"),
            }
            assert_eq!(report.processed() + report.dropped().total(), report.input.packets);
        }
    }
}

#[test]
fn a_failure_behind_a_wrong_assumption_does_not_count() {
    // The segment after a wrong assumption begins too late, and fails there.
    let mut source = Split::new(Memory::new(mix(3_000, 50)));
    source.wrong_each = Some(2);
    let config = EngineConfig { timeline: false, ..config(Layout::Sharded { workers: 2 }) };
    let right = run(&config, &mut Split::new(source.memory.clone()), Some(1));
    let report = run(&config, &mut source, Some(1));
    assert!(report.fault.is_none());
    assert_eq!(report.digest(), right.digest());
}

#[test]
fn slow_shard_pauses_reading_until_it_catches_up() {
    /// Yields packets forever, and counts the requested batches.
    struct Endless(Memory, u64);
    impl PacketSource for Endless {
        fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
            self.1 += 1;
            if self.0.next_batch(batch)? == Fill::End {
                self.0.at = (0, 0);
                return self.0.next_batch(batch);
            }
            Ok(Fill::Packets)
        }
    }
    let mut source = Endless(Memory::new(mix(1_000, 50)), 0);
    let control = Control::default();
    let config = config(Layout::Sharded { workers: 2 });
    let report = std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            let mut policy = DirectHash::new(WorkerCount::new(2).unwrap());
            let app = |worker| Recorder {
                delay: (worker == 0).then_some(Duration::from_millis(2)),
                ..Recorder::default()
            };
            run_with(&config, Endpoints::new(&mut source, &mut policy, &control), |_| small_table(), app)
        });
        let begun = Instant::now();
        while control.snapshot().processed < 500 && begun.elapsed() < Duration::from_secs(20) {
            let now = control.snapshot();
            // Eight chunks of 100 packets, and batches on their way.
            assert!(now.in_flight <= 1_100, "{now:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        control.stop();
        run.join().unwrap().unwrap()
    });
    assert!(report.is_balanced() && report.interrupted);
}

#[test]
fn the_limit_of_kept_records_holds_for_the_run() {
    let config = EngineConfig {
        idle_timeout: Some(IdleTimeout::from_ns(10_000_000)),
        records_max: 10,
        ..config(Layout::Sharded { workers: 4 })
    };
    let report = run(&config, &mut Memory::new(slow(5_000, 200)), None);
    let totals = report.worker_totals();
    let live = report.tables().0.len;
    assert_eq!(report.flows.len() as u64, 10 + u64::from(live));
    assert_eq!(totals.records_forgotten + 10 + u64::from(live), totals.flows_begun);
}

#[test]
fn part_has_the_description_that_one_thread_gives() {
    let described = |layout: Layout| {
        let timeout = Some(IdleTimeout::from_ns(50_000_000));
        let config = EngineConfig { idle_timeout: timeout, ..config(layout) };
        let mut policy = DirectHash::new(WorkerCount::new(layout.workers()).unwrap());
        let (mut memory, control) = (Memory::new(slow(3_000, 100)), Control::default());
        let (mut all, mut ends) = (BTreeMap::new(), 0);
        let mut part = |record: &FlowRecord<Seen>, ticks: [u64; 2], is_live: bool| {
            let records: &mut Vec<_> = all.entry(record.key).or_default();
            // Whether a flow whose timeout has passed is still in the table depends on the table,
            // and the last tick counts for flows in it.
            records.push((format!("{:?}", record.state), ticks[0]));
            ends += u64::from(!is_live);
        };
        let mut endpoints = Endpoints::new(&mut memory, &mut policy, &control);
        endpoints.part = Some(&mut part);
        let app = |_| Recorder::default();
        let report = run_with(&config, endpoints, |_| table(2_000, timeout), app).unwrap();
        assert!(report.is_balanced() && ends > 100);
        all
    };
    let whole = described(Layout::Inline);
    assert!(whole.values().any(|records| records.len() > 1));
    assert!(described(Layout::Sharded { workers: 3 }) == whole);
}

#[test]
fn contending_threads_never_all_wait() {
    let memory = Memory::new(mix(300, 20));
    let whole = run(&config(Layout::Inline), &mut memory.clone(), None);
    for round in 0..600 {
        let layout = Layout::Sharded { workers: 2 + round % 4 };
        let config = EngineConfig { chunk_packets: 1 + round % 3, timeline: false, ..config(layout) };
        let mut split = Split { wrong_each: Some(5), ..Split::new(memory.clone()) };
        let report = if round % 2 == 0 {
            run(&config, &mut memory.clone(), None)
        } else {
            run(&config, &mut split, None)
        };
        assert_eq!(report.digest(), whole.digest());
    }
}

#[test]
fn a_short_input_starts_one_thread() {
    let usual = EngineConfig { threads_after_packets: 16 << 10, ..config(Layout::Sharded { workers: 4 }) };
    let report = run(&usual, &mut Memory::new(mix(5_000, 100)), None);
    assert_eq!(report.sharded.map(|sharded| sharded.threads), Some(1));
    let report = run(&usual, &mut Memory::new(mix(50_000, 100)), None);
    assert_eq!(report.sharded.map(|sharded| sharded.threads), Some(4));
}

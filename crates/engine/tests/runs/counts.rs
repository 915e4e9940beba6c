//! Checks the counts of the input stage against the packets themselves, over passes and pauses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flowloom_engine::counters::WorkerCounters;
use flowloom_engine::{
    App, Control, EndedBy, Endpoints, EngineConfig, IdleTimeout, Layout, PolicyRef, Verdict, run,
    run_seeded, run_with,
};
use flowloom_packet::drop_reason::DropCounts;
use flowloom_packet::{
    BATCH_PACKETS, DecodeOptions, DropReason, Fill, LinkType, PacketBatch, PacketSource, PacketView,
    RawPacket, SourceError, decode,
};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{DirectHash, Topology, WorkerCount};

use crate::common::{Memory, Recorder, Seen, config, mix, small_table, table};

/// Withholds every tenth packet of a batch, and reports it after the batch.
struct Withholding(Memory, u64);

impl PacketSource for Withholding {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.0.next_batch(batch)?;
        let mut number = 0;
        let before = batch.packets.len();
        batch.packets.retain(|_| {
            number += 1;
            number % 10 != 0
        });
        self.1 += (before - batch.packets.len()) as u64;
        Ok(fill)
    }

    fn withheld(&mut self) -> DropCounts {
        let mut counts = DropCounts::default();
        counts.add(DropReason::NotIp, std::mem::take(&mut self.1));
        counts
    }
}

/// Yields packets in batches of one size. Every other packet has no key.
struct Odd(usize);

impl PacketSource for Odd {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        Memory::new(mix(10, 10)).next_batch(batch)?;
        let packet = batch.packets[0];
        batch.packets.clear();
        batch.packets.extend(
            (0..self.0)
                .map(|i| RawPacket { captured_bytes: packet.captured_bytes * (i as u32 % 2), ..packet }),
        );
        Ok(Fill::Packets)
    }
}

#[test]
fn batch_of_invalid_size_is_reported_as_a_fault_of_the_source() {
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        for packets in [0, BATCH_PACKETS + 1] {
            let report = run(
                &config(mode),
                &mut Odd(packets),
                &mut DirectHash::new(WorkerCount::new(mode.workers()).unwrap()),
                |_| small_table(),
                |_| Recorder::default(),
                &Control::default(),
            )
            .unwrap();
            let fault = report.fault.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(report.is_balanced() && report.input.packets == 0, "{mode:?}");
            assert!(
                fault.contains(&format!("a batch of {packets} packets: must be from 1 to 32")),
                "{mode:?}: {fault}"
            );
        }
    }
}

/// Reports packets and yields none.
struct Nothing;

impl PacketSource for Nothing {
    fn next_batch(&mut self, _: &mut PacketBatch) -> Result<Fill, SourceError> {
        Ok(Fill::Packets)
    }
}

#[test]
fn a_batch_without_packets_is_refused_for_its_size_not_for_its_missing_block() {
    let table = |_| small_table();
    let new = |_| Recorder::default();
    let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
    let report =
        run(&config(Layout::Inline), &mut Nothing, &mut policy, table, new, &Control::default()).unwrap();
    let fault = report.fault.as_ref().map(ToString::to_string).unwrap_or_default();
    assert!(fault.contains("a batch of 0 packets: must be from 1 to 32"), "{fault}");
}

/// Yields packets without a block.
struct Blockless(Memory);

impl PacketSource for Blockless {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.0.next_batch(batch)?;
        batch.block = None;
        Ok(fill)
    }
}

#[test]
fn packets_outside_every_block_are_reported_as_a_fault_of_the_source() {
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        let mut source = Blockless(Memory::new(mix(100, 10)));
        let mut policy = DirectHash::new(WorkerCount::new(mode.workers()).unwrap());
        let new = |_| Recorder::default();
        let table = |_| small_table();
        let report = run(&config(mode), &mut source, &mut policy, table, new, &Control::default()).unwrap();
        let fault = report.fault.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(
            fault.contains("after 0 packets: the source yielded packets without a block"),
            "{mode:?} {fault}"
        );
        assert!(report.is_balanced() && report.input.packets == 0, "{mode:?} {:?}", report.input);
    }
}

/// Yields each batch in its own block, all with the same block number.
struct Unnumbered(Memory);

impl PacketSource for Unnumbered {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.0.next_batch(batch)?;
        batch.block_number = 7;
        Ok(fill)
    }
}

#[test]
fn reused_block_number_is_reported_as_a_fault_of_the_source() {
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        let mut source = Unnumbered(Memory::in_blocks(mix(2_000, 50), 100));
        let mut policy = DirectHash::new(WorkerCount::new(mode.workers()).unwrap());
        let new = |_| Recorder::default();
        let table = |_| small_table();
        let report = run(&config(mode), &mut source, &mut policy, table, new, &Control::default()).unwrap();
        let fault = report.fault.as_ref().map(ToString::to_string).unwrap_or_default();
        assert!(fault.contains("another block with the number of the block before, 7"), "{mode:?} {fault}");
        assert!(report.is_balanced() && report.input.packets == 100, "{mode:?} {:?}", report.input);
    }
}

#[test]
fn input_stage_counts_all_packets_and_bytes() {
    let mut source = Memory::new(mix(3_000, 100));
    for (_, packets) in &mut source.blocks {
        for (i, packet) in packets.iter_mut().enumerate() {
            match i % 50 {
                7 => packet.wire_bytes = packet.captured_bytes - 1,
                8 => packet.wire_bytes = packet.captured_bytes + 1,
                9 => (packet.link, packet.wire_bytes) = (LinkType(190), 5_000_000),
                10 => packet.wire_bytes = 900_000,
                11 => packet.wire_bytes = 4_000_000_000,
                _ => {}
            }
        }
    }
    // What the source yields, packet by packet.
    let (mut yielded, mut wire, mut captured, mut over, mut decoded) = (0, 0, 0, 0, 0);
    let mut times = Vec::new();
    let (mut again, mut batch) = (Withholding(source.clone(), 0), PacketBatch::new());
    while again.next_batch(&mut batch).unwrap() == Fill::Packets {
        let block = batch.block.as_ref().unwrap().bytes();
        for packet in &batch.packets {
            yielded += 1;
            captured += u64::from(packet.captured_bytes);
            over += u64::from(packet.captured_bytes > packet.wire_bytes);
            times.push(packet.time_ns);
            let bytes = packet.bytes_in(block);
            let headers = decode(packet.link, bytes, DecodeOptions::default());
            decoded += u64::from(headers.is_ok());
            // No frame is as long as some records state.
            wire += u64::from(match headers {
                Ok(mut headers) => headers.fit_to_wire(bytes, packet.wire_bytes),
                Err(_) => packet.wire_bytes.min(packet.captured_bytes),
            });
        }
    }
    let withheld = again.1;
    assert!(withheld > 100 && over > 20 && decoded < yielded);
    for mode in [Layout::Inline, Layout::Pipeline { workers: 2 }] {
        let report = run(
            &config(mode),
            &mut Withholding(source.clone(), 0),
            &mut DirectHash::new(WorkerCount::new(mode.workers()).unwrap()),
            |_| small_table(),
            |_| Recorder::default(),
            &Control::default(),
        )
        .unwrap();
        assert!(report.is_balanced());
        let input = &report.input;
        assert_eq!(input.packets, yielded + withheld, "{mode:?}");
        assert_eq!(input.decoded, decoded, "{mode:?}");
        assert_eq!(input.dropped.total(), yielded + withheld - decoded, "{mode:?}");
        assert_eq!((input.bytes_on_wire, input.bytes_captured), (wire, captured), "{mode:?}");
        let timeline = input.timeline.as_ref().unwrap();
        assert_eq!(timeline.intervals().iter().map(|interval| interval.bytes).sum::<u64>(), wire);
        assert_eq!(input.captured_over_wire, over, "{mode:?}");
        assert_eq!(Some(&input.first_ns), times.first(), "{mode:?}");
        assert_eq!(Some(&input.last_ns), times.iter().max(), "{mode:?}");
    }
}

/// Yields the same packets twice, as a repeated capture does.
struct Twice(Memory, Memory, u32);

impl PacketSource for Twice {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let fill = self.0.next_batch(batch)?;
        batch.pass = self.2;
        if fill == Fill::End && self.2 == 0 {
            (self.0, self.2) = (self.1.clone(), 1);
            return self.next_batch(batch);
        }
        Ok(fill)
    }
}

#[test]
fn each_pass_over_a_capture_has_flows_of_its_own() {
    let source = Memory::new(mix(2_000, 100));
    let mut digests = Vec::new();
    for (mode, name) in [
        (Layout::Inline, "dh"),
        (Layout::Pipeline { workers: 2 }, "dh"),
        (Layout::Pipeline { workers: 2 }, "flowpin"),
        (Layout::Pipeline { workers: 2 }, "lfb"),
    ] {
        let run = |source: &mut (dyn PacketSource + Send)| {
            let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
            let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
            let policy_ref = PolicyRef::new(&mut policy);
            let control = Control::default();
            let parts = Endpoints::new(source, policy_ref, &control);
            let app = |_| Recorder::default();
            let report = run_seeded(&config(mode), parts, |_| small_table(), app, 1).unwrap();
            assert!(report.is_balanced() && report.fault.is_none(), "{mode:?} {name}");
            report
        };
        let once = run(&mut source.clone());
        let twice = run(&mut Twice(source.clone(), source.clone(), 0));
        assert_eq!(twice.processed(), 2 * once.processed(), "{mode:?} {name}");
        assert_eq!(twice.flows.len(), 2 * once.flows.len(), "{mode:?} {name}");
        digests.push(twice.digest());
    }
    digests.dedup();
    assert_eq!(digests.len(), 1, "whatever the layout");
}

/// Yields a block of a few packets, then nothing until those are processed, and so on.
struct Halting<'a> {
    inner: Memory,
    control: &'a Control,
    starved: bool,
    begun: Instant,
    in_time: bool,
}

impl PacketSource for Halting<'_> {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        let snapshot = self.control.snapshot();
        if self.starved && snapshot.in_flight > 0 && self.in_time {
            self.in_time = self.begun.elapsed() < Duration::from_secs(20);
            return Ok(Fill::Starved);
        }
        self.starved = !self.starved;
        if self.starved { self.inner.next_batch(batch) } else { Ok(Fill::Starved) }
    }
}

#[test]
fn packets_are_processed_while_the_source_is_silent() {
    for (mode, name) in [
        (Layout::Inline, "dh"),
        (Layout::Pipeline { workers: 2 }, "dh"),
        (Layout::Pipeline { workers: 2 }, "flowpin"),
        (Layout::Pipeline { workers: 2 }, "lfb"),
    ] {
        let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
        let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
        let policy_ref = PolicyRef::new(&mut policy);
        let control = Control::default();
        let inner = Memory::in_blocks(mix(200, 50), 5);
        let mut source =
            Halting { inner, control: &control, starved: false, begun: Instant::now(), in_time: true };
        let parts = Endpoints::new(&mut source, policy_ref, &control);
        let report = run_with(&config(mode), parts, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{mode:?} {name}");
        assert!(source.in_time, "{mode:?} {name}: packets were held back while nothing came");
    }
}

#[test]
fn counts_of_workers_add_up_one_by_one() {
    let mut dropped = DropCounts::default();
    dropped.add(DropReason::TableFull, 3);
    let mut one = WorkerCounters::default();
    (one.processed, one.denied, one.dropped) = (5, 2, dropped);
    (one.flows_begun, one.flows_expired, one.records_forgotten) = (7, 11, 13);
    let mut sum = WorkerCounters::default();
    sum.merge(&one);
    assert_eq!(sum, one);
    sum.merge(&one);
    let found = (sum.processed, sum.denied, sum.dropped.total());
    assert_eq!(found, (10, 4, 6));
    assert_eq!((sum.flows_begun, sum.flows_expired, sum.records_forgotten), (14, 22, 26));
}

/// Ends a flow's record of two packets before its third packet.
struct Pairs;

impl App for Pairs {
    type Flow = Seen;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Seen) -> Verdict {
        flow.packets += 1;
        Verdict::Accept
    }

    fn next_record(&self, _: &PacketView<'_>, flow: &mut Seen) -> Option<Seen> {
        (flow.packets != 1).then(Seen::default)
    }
}

#[test]
fn an_application_ends_flows_and_each_counts_as_begun() {
    let source = Memory::new(mix(2_000, 100));
    let mode = Layout::Pipeline { workers: 2 };
    let mut policy = DirectHash::new(WorkerCount::new(2).unwrap());
    let control = Control::default();
    let report =
        run(&config(mode), &mut source.clone(), &mut policy, |_| small_table(), |_| Pairs, &control)
            .unwrap();
    assert!(report.flows.iter().all(|flow| (1..=2).contains(&flow.state.packets)));
    assert_eq!(report.worker_totals().flows_begun, report.flows.len() as u64);
    let ended = report.flows.iter().filter(|flow| flow.ended == EndedBy::Application).count();
    let keys: std::collections::HashSet<_> = report.flows.iter().map(|flow| flow.key).collect();
    assert_eq!(report.flows.len() - ended, keys.len(), "the last record of each key ends with the input");
}

#[test]
fn packets_keep_their_own_block() {
    let source = Memory::in_blocks(mix(600, 50), 1);
    let digest = |mode, delay| {
        let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
        let app = |_| Recorder { delay, ..Recorder::default() };
        let control = Control::default();
        let table = |_| small_table();
        let report = run(&config(mode), &mut source.clone(), &mut policy, table, app, &control).unwrap();
        assert!(report.is_balanced() && report.fault.is_none());
        (report.digest(), report.processed())
    };
    // More blocks than may be announced wait for a slow worker.
    let slow = digest(Layout::Pipeline { workers: 1 }, Some(Duration::from_micros(200)));
    assert_eq!(slow, digest(Layout::Inline, None));
}

#[test]
fn a_snapshot_adds_up_also_while_another_run_begins() {
    let (source, control, is_over) =
        (Memory::new(mix(200, 20)), Control::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let now = control.snapshot();
                assert_eq!(now.packets, now.processed + now.dropped.total() + now.in_flight, "{now:?}");
            }
        });
        for _ in 0..400 {
            let mut policy = DirectHash::new(WorkerCount::new(1).unwrap());
            let new = |_| Recorder::default();
            let config = config(Layout::Inline);
            let mut source = source.clone();
            let _ = run(&config, &mut source, &mut policy, |_| table(100, None), new, &control).unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        watcher.join().unwrap();
    });
}

#[test]
fn all_tables_together_keep_the_limit_of_the_run() {
    let run = |layout: Layout, idle_timeout| {
        let config = EngineConfig { flows_max: Some(50), idle_timeout, ..config(layout) };
        let mut policy = DirectHash::new(WorkerCount::new(layout.workers()).unwrap());
        let mut source = Memory::new(mix(6_000, 400));
        let (table, app) = (|_| table(2_000, idle_timeout), |_| Recorder::default());
        let report = run(&config, &mut source, &mut policy, table, app, &Control::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{layout:?}");
        report
    };
    for layout in [Layout::Sharded { workers: 3 }, Layout::Pipeline { workers: 2 }, Layout::Inline] {
        let report = run(layout, None);
        // Which flows are refused depends on the threads, but not how many there are at the end.
        let (tables, _) = report.tables();
        assert_eq!((report.record_count(), tables.len), (50, 50), "{layout:?}");
        assert!(tables.refused > 300, "{layout:?}: {}", tables.refused);
        // Others begin where flows have ended.
        let ended = run(layout, Some(IdleTimeout::from_ns(1_000_000))).record_count();
        assert!(ended > 60, "{layout:?}: {ended}");
    }
}

//! What the input stage takes in: its counts against the packets themselves, passes, and pauses.

use std::time::{Duration, Instant};

use flowloom_engine::{Control, Discipline, Mode, Parts, run, run_parts, run_seeded};
use flowloom_packet::reason::DropCounts;
use flowloom_packet::{
    DecodeOptions, DropReason, Fill, LinkType, PacketBatch, PacketSource, SourceError, decode,
};
use flowloom_scheduler::sim::Scheme;
use flowloom_scheduler::sim::schemes::Policy;
use flowloom_scheduler::{DirectHash, Topology, WorkerCount};

use crate::common::{Memory, Recorder, config, mix, small_table};

/// Withholds every tenth packet of a batch, and says so after the batch.
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

#[test]
fn the_input_stage_counts_what_there_is() {
    let mut source = Memory::of(mix(3_000, 100));
    for (_, packets) in &mut source.blocks {
        for (i, packet) in packets.iter_mut().enumerate() {
            match i % 50 {
                7 => packet.wire = packet.captured - 1,
                8 => packet.wire = packet.captured + 1,
                9 => packet.link = LinkType(190),
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
            wire += u64::from(packet.wire);
            captured += u64::from(packet.captured);
            over += u64::from(packet.captured > packet.wire);
            times.push(packet.time_ns);
            let start = packet.position as usize;
            let bytes = &block[start..start + packet.captured as usize];
            decoded += u64::from(decode(packet.link, bytes, DecodeOptions::default()).is_ok());
        }
    }
    let withheld = again.1;
    assert!(withheld > 100 && over > 20 && decoded < yielded);
    for mode in [Mode::Inline, Mode::Pipeline { workers: 2 }] {
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
        assert_eq!(input.captured_over_wire, over, "{mode:?}");
        assert_eq!(Some(&input.first_ns), times.first(), "{mode:?}");
        assert_eq!(Some(&input.last_ns), times.iter().max(), "{mode:?}");
    }
}

/// The same packets twice, as a capture that is repeated.
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
    let source = Memory::of(mix(2_000, 100));
    let mut digests = Vec::new();
    for (mode, name) in [
        (Mode::Inline, "dh"),
        (Mode::Pipeline { workers: 2 }, "dh"),
        (Mode::Pipeline { workers: 2 }, "flowpin"),
        (Mode::Pipeline { workers: 2 }, "lfb"),
    ] {
        let run = |source: &mut (dyn PacketSource + Send)| {
            let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
            let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
            let discipline = match &mut policy {
                Policy::Push(policy) => Discipline::Push(&mut **policy),
                Policy::Pull(policy) => Discipline::Pull(&mut **policy),
            };
            let control = Control::default();
            let parts = Parts { source, discipline, sink: None, control: &control };
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

/// Has a block of a few packets, then nothing until those are processed, and so on.
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
fn what_was_taken_in_is_processed_while_the_source_has_nothing() {
    for (mode, name) in [
        (Mode::Inline, "dh"),
        (Mode::Pipeline { workers: 2 }, "dh"),
        (Mode::Pipeline { workers: 2 }, "flowpin"),
        (Mode::Pipeline { workers: 2 }, "lfb"),
    ] {
        let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
        let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
        let discipline = match &mut policy {
            Policy::Push(policy) => Discipline::Push(&mut **policy),
            Policy::Pull(policy) => Discipline::Pull(&mut **policy),
        };
        let control = Control::default();
        let inner = Memory::in_blocks(mix(200, 50), 5);
        let mut source =
            Halting { inner, control: &control, starved: false, begun: Instant::now(), in_time: true };
        let parts = Parts { source: &mut source, discipline, sink: None, control: &control };
        let report = run_parts(&config(mode), parts, |_| small_table(), |_| Recorder::default()).unwrap();
        assert!(report.is_balanced() && report.fault.is_none(), "{mode:?} {name}");
        assert!(source.in_time, "{mode:?} {name}: packets were held back while nothing came");
    }
}

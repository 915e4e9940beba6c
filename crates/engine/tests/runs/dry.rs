//! A sink is flushed when the input runs dry.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flowloom_engine::{
    Control, Endpoints, EngineConfig, Fault, Layout, Order, PacketSink, PolicyRef, Released, RunReport,
    SeededError, SinkError, run_seeded, run_with,
};
use flowloom_packet::{Fill, PacketBatch, PacketSource, SourceError};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{LAYOUTS, Memory, Recorder, Seen, config, mix, small_table};

/// Counts the packets taken up to each flush. Fails or panics at one flush.
#[derive(Default)]
struct Flushing {
    taken: u64,
    flushed: Arc<Mutex<Vec<u64>>>,
    fail_at: Option<usize>,
    panic_at: Option<usize>,
}

impl PacketSink for Flushing {
    fn take(&mut self, _: &Released<'_>) -> Result<(), SinkError> {
        self.taken += 1;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        let at = {
            let mut flushed = self.flushed.lock().unwrap();
            flushed.push(self.taken);
            flushed.len()
        };
        assert!(self.panic_at != Some(at), "injected panic");
        if self.fail_at == Some(at) { Err(SinkError("injected failure".into())) } else { Ok(()) }
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        Ok(())
    }
}

/// Has no packets after some batches, until the sink has been flushed and a few more calls have
/// been made.
struct Halting {
    inner: Memory,
    batches: u64,
    dry: u64,
    polls: u64,
    flushed: Arc<Mutex<Vec<u64>>>,
    begun: Instant,
}

impl PacketSource for Halting {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        if self.batches == 5 {
            if self.flushed.lock().unwrap().len() as u64 <= self.dry {
                assert!(self.begun.elapsed() < Duration::from_secs(20), "the sink is never flushed");
                return Ok(Fill::Starved);
            }
            self.polls += 1;
            if self.polls < 100 {
                return Ok(Fill::Starved);
            }
            (self.batches, self.polls) = (0, 0);
            self.dry += 1;
        }
        self.batches += 1;
        self.inner.next_batch(batch)
    }
}

/// More slots than the source yields packets before it has none.
const PLENTY: usize = 256;

fn run_dry(
    (mode, order, name): (Layout, Order, &str),
    ring_slots: usize,
    sink: &mut Flushing,
    seed: Option<u64>,
) -> (RunReport<Seen>, u64) {
    let config = EngineConfig { order, ring_slots, ..config(mode) };
    let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let policy_ref = PolicyRef::new(&mut policy);
    let flushed = Arc::clone(&sink.flushed);
    let inner = Memory::new(mix(1_000, 100));
    let mut source = Halting { inner, batches: 0, dry: 0, polls: 0, flushed, begun: Instant::now() };
    let control = Control::default();
    let parts = Endpoints::new(&mut source, policy_ref, &control).with_packets(Some(sink));
    let app = |_| Recorder::default();
    let report = match seed {
        None => run_with(&config, parts, |_| small_table(), app).unwrap(),
        Some(seed) => run_seeded(&config, parts, |_| small_table(), app, seed).unwrap(),
    };
    assert!(report.is_balanced(), "{mode:?} {name}: {:?} {:?}", report.input, report.workers);
    (report, source.dry)
}

#[test]
fn a_sink_is_flushed_once_whenever_the_input_has_nothing() {
    for layout in LAYOUTS {
        for seed in [None, Some(3), Some(4)] {
            let mut sink = Flushing::default();
            let (report, dry) = run_dry(layout, PLENTY, &mut sink, seed);
            assert!(report.fault.is_none() && dry >= 5, "{layout:?} {:?} {dry}", report.fault);
            let flushed = sink.flushed.lock().unwrap();
            // The flush comes after all packets so far.
            assert_eq!(flushed.len() as u64, dry, "{layout:?} {seed:?}: {flushed:?}");
            assert!(flushed.is_sorted_by(|a, b| a < b) && flushed[0] > 0, "{layout:?}: {flushed:?}");
            assert_eq!(sink.taken, report.processed(), "{layout:?}");
        }
    }
}

#[test]
fn packets_refused_by_a_full_pool_move_on_without_further_input() {
    for layout in LAYOUTS {
        for seed in [None, Some(3), Some(4), Some(5), Some(6)] {
            let mut sink = Flushing::default();
            let (report, dry) = run_dry(layout, 64, &mut sink, seed);
            assert!(report.fault.is_none() && dry >= 5, "{layout:?} {seed:?} {:?} {dry}", report.fault);
            assert_eq!(sink.taken, report.processed(), "{layout:?}");
        }
    }
}

#[test]
fn a_sink_that_cannot_be_flushed_ends_a_run_whose_input_has_nothing() {
    for layout in LAYOUTS {
        for seed in [None, Some(3)] {
            for (fail_at, panic_at) in [(Some(2), None), (None, Some(2))] {
                let mut sink = Flushing { fail_at, panic_at, ..Flushing::default() };
                let (report, dry) = run_dry(layout, PLENTY, &mut sink, seed);
                let fault = report.fault.as_ref().unwrap();
                assert!(matches!(fault, Fault::Sink { .. }), "{layout:?}: {fault:?}");
                assert!(fault.to_string().contains("injected"), "{fault}");
                assert!(dry < 3, "{layout:?}");
                assert_eq!(sink.flushed.lock().unwrap().len(), 2, "{layout:?}");
            }
        }
    }
}

/// Has no packets after some batches, permanently. Counts the calls after that, and panics after
/// very many.
struct Drying(Memory, u64);

impl PacketSource for Drying {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        if self.0.yielded < 500 {
            return self.0.next_batch(batch);
        }
        self.1 += 1;
        assert!(self.1 < 100_000, "it is asked for ever");
        Ok(Fill::Starved)
    }
}

#[test]
fn a_seeded_run_does_not_wait_for_ever_for_a_source_that_has_nothing() {
    for (mode, order, name) in LAYOUTS {
        let config = EngineConfig { order, ..config(mode) };
        let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
        let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
        let policy_ref = PolicyRef::new(&mut policy);
        let (mut source, control) = (Drying(Memory::new(mix(1_000, 100)), 0), Control::default());
        let parts = Endpoints::new(&mut source, policy_ref, &control);
        let ended = run_seeded(&config, parts, |_| small_table(), |_| Recorder::default(), 3);
        let is_stuck = matches!(ended, Err(SeededError::Stuck { seed: 3, steps }) if steps > 10_000);
        assert!(is_stuck, "{mode:?} {name}: {:?}", ended.map(|report| report.fault));
        assert!((10_000..20_000).contains(&source.1), "{mode:?} {name}: {}", source.1);
    }
}

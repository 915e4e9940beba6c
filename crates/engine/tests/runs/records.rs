//! Records of flows go to a sink during a run.

use std::time::Duration;

use flowloom_engine::{
    Control, Endpoints, EngineConfig, Fault, FlowRecord, IdleTimeout, Layout, PolicyRef, RecordSink,
    ResultDigest, RunReport, SinkError, WhenFull, run_seeded, run_with,
};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};
use flowloom_traffic::synth::MixConfig;

use crate::common::{LAYOUTS, Memory, Recorder, Seen, config, mix, table};

/// Takes records slowly, until it fails.
#[derive(Default)]
struct Notes {
    packets: u64,
    records: u64,
    flushes: u64,
    /// Fails or panics at this record.
    breaks_at: Option<u64>,
    panics: bool,
    delay: Option<Duration>,
}

impl RecordSink<Seen> for Notes {
    fn write(&mut self, records: &[FlowRecord<Seen>]) -> Result<(), SinkError> {
        if let Some(delay) = self.delay {
            std::thread::sleep(delay);
        }
        for record in records {
            if self.breaks_at == Some(self.records) {
                assert!(!self.panics, "injected panic");
                return Err(SinkError("the disk is full".into()));
            }
            self.records += 1;
            self.packets += record.state.packets;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), SinkError> {
        self.flushes += 1;
        Ok(())
    }
}

/// Slow traffic, so that a short timeout ends many flows.
fn slow() -> MixConfig {
    MixConfig { rate_pps: 500, ..mix(8_000, 300) }
}

fn go(
    (layout, order, name): (Layout, flowloom_engine::Order, &str),
    config: EngineConfig,
    sink: Option<&mut Notes>,
    seed: Option<u64>,
) -> RunReport<Seen> {
    let mut source = Memory::new(slow());
    let topology = Topology::flat(WorkerCount::new(layout.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let config = EngineConfig { layout, order, ..config };
    let control = Control::default();
    let endpoints = Endpoints::new(&mut source, PolicyRef::new(&mut policy), &control)
        .with_records(sink.map(|sink| sink as _));
    let app = |_| Recorder::default();
    let table = |_| table(2_000, config.idle_timeout);
    let report = match seed {
        None => run_with(&config, endpoints, table, app).unwrap(),
        Some(seed) => run_seeded(&config, endpoints, table, app, seed).unwrap(),
    };
    assert!(report.is_balanced());
    let (snapshot, records) = (control.snapshot(), report.records.as_ref());
    let counts = records.map_or((0, 0), |records| (records.written, records.lost));
    assert_eq!((snapshot.records_written, snapshot.records_lost), counts);
    report
}

fn with_timeout() -> EngineConfig {
    let idle_timeout = Some(IdleTimeout::from_ns(200_000_000));
    EngineConfig { idle_timeout, ..config(Layout::Inline) }
}

#[test]
fn sink_receives_the_records_otherwise_kept_in_the_report() {
    for layout in LAYOUTS {
        for seed in [None, Some(5)] {
            let kept = go(layout, with_timeout(), None, seed);
            let mut sink = Notes::default();
            let sent = go(layout, with_timeout(), Some(&mut sink), seed);
            let records = sent.records.as_ref().unwrap();
            assert!(sent.fault.is_none() && sent.flows.is_empty(), "{layout:?}");
            assert_eq!((records.written, records.lost), (kept.flows.len() as u64, 0), "{layout:?}");
            assert_eq!((sink.records, sink.packets), (records.written, sent.processed()), "{layout:?}");
            assert_eq!(sent.digest(), kept.digest(), "{layout:?}");
            assert!(records.digest != ResultDigest::default());
            assert_eq!(sent.worker_totals().flows_expired, kept.worker_totals().flows_expired);
        }
    }
}

#[test]
fn a_sink_that_breaks_ends_the_run_and_every_record_is_counted() {
    for layout in LAYOUTS {
        for (panics, seed) in [(false, None), (true, None), (false, Some(3)), (true, Some(3))] {
            let mut sink = Notes { breaks_at: Some(100), panics, ..Notes::default() };
            let report = go(layout, with_timeout(), Some(&mut sink), seed);
            let fault = report.fault.as_ref().unwrap();
            assert!(matches!(fault, Fault::Records { .. }), "{layout:?}: {fault}");
            let records = report.records.as_ref().unwrap();
            assert!(records.written <= 100 && records.lost > 0, "{layout:?}: {records:?}");
            assert_eq!(report.record_count(), records.written + records.lost);
        }
    }
}

#[test]
fn workers_wait_for_a_slow_sink_or_count_dropped_records() {
    for records_when_full in [WhenFull::Block, WhenFull::Drop] {
        let mut sink = Notes { delay: Some(Duration::from_millis(2)), ..Notes::default() };
        let config = EngineConfig { records_when_full, ..with_timeout() };
        let report = go(LAYOUTS[0], config, Some(&mut sink), None);
        let records = report.records.as_ref().unwrap();
        assert_eq!(records.written, sink.records);
        assert!(sink.flushes >= 1 && report.fault.is_none());
        if records_when_full == WhenFull::Block {
            assert_eq!(records.lost, 0);
        }
    }
}

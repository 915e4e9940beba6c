//! A panic after the last packet leaves a balanced report too.

use std::panic::panic_any;

use flowloom_engine::record::{Column, Kind, Value};
use flowloom_engine::{
    App, Control, Endpoints, EngineConfig, Fault, FlowState, Layout, Order, PacketSink, PolicyRef,
    Released, RunReport, SinkError, Verdict, run_seeded, run_with,
};
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{DHash, TableOptions};
use flowloom_packet::PacketView;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{LAYOUTS, Memory, config, mix};

/// The time of a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// When the application is dropped.
    Drop,
    /// At a packet, and when the application is dropped.
    PacketAndDrop,
    /// At a packet, with a payload that panics when it is dropped.
    PacketWithMore,
    /// Never.
    Never,
}

#[derive(Debug, Default)]
struct Fragile(u64);

impl FlowState for Fragile {
    const COLUMNS: &'static [Column] = &[Column::new("packets", Kind::Packets, "")];

    fn values(&self, out: &mut Vec<Value>) {
        out.push(Value::Number(self.0));
    }
}

struct Ending(When, u64);

struct More;

impl Drop for More {
    fn drop(&mut self) {
        panic!("injected panic");
    }
}

impl App for Ending {
    type Flow = Fragile;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Fragile) -> Verdict {
        flow.0 += 1;
        self.1 += 1;
        match self.0 {
            When::PacketAndDrop if self.1 == 100 => panic!("injected panic"),
            When::PacketWithMore if self.1 == 100 => panic_any(More),
            _ => Verdict::Accept,
        }
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        assert!(!matches!(self.0, When::Drop | When::PacketAndDrop), "injected panic");
    }
}

/// Counts the calls of `finish`.
#[derive(Default)]
struct Finishing {
    taken: u64,
    finished: u32,
    panic_at: Option<u64>,
    panics_at_the_end: bool,
}

impl PacketSink for Finishing {
    fn take(&mut self, _: &Released<'_>) -> Result<(), SinkError> {
        assert!(self.panic_at != Some(self.taken), "injected panic");
        self.taken += 1;
        Ok(())
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.finished += 1;
        assert!(!self.panics_at_the_end, "injected panic");
        Ok(())
    }
}

fn go(
    (mode, order, name): (Layout, Order, &str),
    when: When,
    sink: &mut Finishing,
    seed: Option<u64>,
) -> RunReport<Fragile> {
    let config = EngineConfig { order, ..config(mode) };
    let topology = Topology::flat(WorkerCount::new(mode.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let policy_ref = PolicyRef::new(&mut policy);
    let (mut source, control) = (Memory::new(mix(3_000, 100)), Control::default());
    let parts = Endpoints::new(&mut source, policy_ref, &control).with_packets(Some(sink));
    let table = |_| DHash::<FlowKey, Fragile>::try_new(&TableOptions::for_flows(2_000));
    let app = |_| Ending(when, 0);
    let report = match seed {
        None => run_with(&config, parts, table, app).unwrap(),
        Some(seed) => run_seeded(&config, parts, table, app, seed).unwrap(),
    };
    assert!(report.is_balanced(), "{mode:?} {name} {when:?}: {:?} {:?}", report.input, report.workers);
    let snapshot = control.snapshot();
    assert_eq!((snapshot.packets, snapshot.in_flight), (report.input.packets, 0), "{mode:?} {name}");
    report
}

#[test]
fn panic_in_the_drop_of_an_application_is_a_fault_of_its_worker() {
    for layout in LAYOUTS {
        for seed in [None, Some(3)] {
            let mut sink = Finishing::default();
            let report = go(layout, When::Drop, &mut sink, seed);
            assert_eq!(report.processed(), report.input.decoded, "{layout:?}: all was done before");
            assert_eq!((sink.taken, sink.finished), (report.processed(), 1), "{layout:?}");
            match report.fault {
                Some(Fault::WorkerPanicked { worker, packet: None, processed, .. }) => {
                    assert_eq!(processed, report.workers[worker].counters.processed, "{layout:?}");
                }
                other => panic!("{layout:?}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_worker_that_panics_twice_blocks_no_other() {
    for layout in LAYOUTS {
        for when in [When::PacketAndDrop, When::PacketWithMore] {
            for seed in [None, Some(3)] {
                let mut sink = Finishing::default();
                let report = go(layout, when, &mut sink, seed);
                let fault = report.fault.unwrap();
                let named = matches!(fault, Fault::WorkerPanicked { packet: Some(_), .. });
                assert!(named, "{layout:?} {when:?}: {fault:?}");
                assert_eq!(sink.finished, 1, "{layout:?} {when:?}");
            }
        }
    }
}

#[test]
fn a_sink_that_panics_is_the_fault_of_the_sink_in_every_layout() {
    for layout in LAYOUTS {
        for seed in [None, Some(3)] {
            for at_the_end in [false, true] {
                let panic_at = (!at_the_end).then_some(100);
                let mut sink = Finishing { panic_at, panics_at_the_end: true, ..Finishing::default() };
                let report = go(layout, When::Never, &mut sink, seed);
                let fault = report.fault.as_ref().unwrap();
                assert!(matches!(fault, Fault::Sink { .. }), "{layout:?}: {fault:?}");
                assert!(fault.to_string().contains("injected panic"), "{fault}");
                let counters = report.sink.unwrap();
                assert_eq!(counters.taken, sink.taken, "{layout:?}");
                assert_eq!(sink.finished, u32::from(at_the_end), "{layout:?}: once, and not after a panic");
                if layout.0 == Layout::Inline {
                    let accepted = report.processed() - report.worker_totals().denied;
                    assert_eq!(counters.taken + counters.refused, accepted, "{at_the_end}");
                }
            }
        }
    }
}

//! Applications are told of the begin and end of flows and of the time, can be chosen at run time,
//! and can be combined.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use flowloom_engine::{
    App, Control, EndedBy, EngineConfig, Fault, FlowState, IdleTimeout, Layout, PolicyRef, RunReport,
    Verdict, run,
};
use flowloom_flow_key::FlowKey;
use flowloom_flow_table::{DHash, TableOptions, Timeouts};
use flowloom_packet::PacketView;
use flowloom_record::{Column, Kind, Value};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{LAYOUTS, Memory, Recorder, Seen, config, mix};

/// Packets of a record, and whether its flow holds a port.
#[derive(Debug, Default)]
struct Mapped {
    packets: u64,
    holds_port: bool,
}

impl FlowState for Mapped {
    const COLUMNS: &'static [Column] = &[Column::new("packets", Kind::Packets, "")];
    const EVICTABLE: bool = true;

    fn values(&self, out: &mut Vec<Value>) {
        out.push(Value::Number(self.packets));
    }

    fn is_established(&self) -> bool {
        self.packets > 3
    }
}

/// What all workers count.
#[derive(Debug, Default)]
struct Calls {
    begun: AtomicU64,
    idle: AtomicU64,
    split: AtomicU64,
    evicted: AtomicU64,
    time_ns: AtomicU64,
}

/// Gives each flow a port and takes it back, begins a record every 50 packets, and panics in a
/// hook if it is asked to.
struct Ports {
    calls: Arc<Calls>,
    /// The flow whose port goes on to its next record.
    carried: Option<FlowKey>,
    panics_at_begin: Option<u64>,
    panics_at_end: Option<u64>,
}

impl App for Ports {
    type Flow = Mapped;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Mapped) -> Verdict {
        assert!(flow.holds_port, "a flow begins before its first packet");
        flow.packets += 1;
        Verdict::Accept
    }

    fn next_record(&self, _: &PacketView<'_>, flow: &mut Mapped) -> Option<Mapped> {
        (flow.packets == 50).then(Mapped::default)
    }

    fn on_begin(&mut self, key: &FlowKey, flow: &mut Mapped) {
        assert!(!flow.holds_port && flow.packets == 0);
        flow.holds_port = true;
        if let Some(carried) = self.carried.take() {
            assert_eq!(carried, *key, "the next record of a flow begins at once");
            return;
        }
        let begun = self.calls.begun.fetch_add(1, Relaxed);
        assert!(self.panics_at_begin != Some(begun), "injected panic");
    }

    fn on_end(&mut self, key: &FlowKey, flow: &mut Mapped, ended: EndedBy) {
        assert!(flow.holds_port && flow.packets > 0);
        self.carried = (ended == EndedBy::Application).then_some(*key);
        let count = match ended {
            EndedBy::IdleTimeout => &self.calls.idle,
            EndedBy::Application => &self.calls.split,
            EndedBy::Evicted => &self.calls.evicted,
            other => panic!("{other:?} is not told"),
        };
        let ended = count.fetch_add(1, Relaxed);
        assert!(self.panics_at_end != Some(ended), "injected panic");
    }

    fn on_time(&mut self, time_ns: u64) {
        self.calls.time_ns.fetch_max(time_ns, Relaxed);
    }
}

fn go<A: App>(
    (layout, order, name): (Layout, flowloom_engine::Order, &str),
    flows: u32,
    app: impl FnMut(usize) -> A,
) -> RunReport<A::Flow> {
    let timeout = IdleTimeout::from_ns(4_000_000);
    let config = EngineConfig { order, idle_timeout: Some(timeout), ..config(layout) };
    let topology = Topology::flat(WorkerCount::new(layout.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let (mut source, control) = (Memory::new(mix(30_000, 600)), Control::default());
    let table = |_| {
        let timeouts: Timeouts = timeout.for_table();
        DHash::<FlowKey, A::Flow>::try_new(&TableOptions { timeouts, ..TableOptions::for_flows(flows) })
    };
    let report = run(&config, &mut source, PolicyRef::new(&mut policy), table, app, &control).unwrap();
    assert!(report.is_balanced(), "{layout:?} {name}");
    report
}

#[test]
fn each_flow_begins_once_and_ends_once_with_its_reason() {
    for layout in LAYOUTS {
        for flows in [2_000, 20] {
            let calls = Arc::new(Calls::default());
            let app = |_| Ports {
                calls: Arc::clone(&calls),
                carried: None,
                panics_at_begin: None,
                panics_at_end: None,
            };
            let report = go(layout, flows, app);
            assert!(report.fault.is_none(), "{layout:?}: {:?}", report.fault);
            let counted = report.worker_totals();
            let [begun, idle, split, evicted] =
                [&calls.begun, &calls.idle, &calls.split, &calls.evicted].map(|count| count.load(Relaxed));
            assert_eq!(begun + split, counted.flows_begun, "{layout:?} {flows}");
            assert_eq!(idle, counted.flows_expired - report.timed_out_at_end, "{layout:?} {flows}");
            assert_eq!(evicted, counted.flows_evicted, "{layout:?} {flows}");
            assert!(split > 0 && idle > 0, "{layout:?}: {calls:?}");
            assert!(layout.0 != Layout::Inline || (evicted > 0) == (flows == 20), "{calls:?}");
            assert!(calls.time_ns.load(Relaxed) > report.input.first_ns, "{layout:?}");
        }
    }
}

#[test]
fn a_panic_in_a_hook_is_the_workers_fault() {
    for layout in LAYOUTS {
        for (panics_at_begin, panics_at_end) in [(Some(300), None), (None, Some(100))] {
            let calls = Arc::new(Calls::default());
            let app =
                |_| Ports { calls: Arc::clone(&calls), carried: None, panics_at_begin, panics_at_end };
            let report = go(layout, 2_000, app);
            assert!(matches!(report.fault, Some(Fault::WorkerPanicked { .. })), "{:?}", report.fault);
        }
    }
}

#[test]
fn an_application_chosen_at_run_time_gives_the_same_results() {
    for layout in LAYOUTS {
        let direct = go(layout, 2_000, |_| Recorder::default()).digest();
        let chosen = go(layout, 2_000, |_| -> Box<dyn App<Flow = _>> { Box::new(Recorder::default()) });
        assert_eq!(chosen.digest(), direct, "{layout:?}");
    }
}

#[test]
fn combined_applications_see_the_same_packets() {
    for layout in LAYOUTS {
        let report = go(layout, 2_000, |_| (Recorder::default(), Recorder::default()));
        let alone = go(layout, 2_000, |_| Recorder::default());
        assert_eq!(report.flows.len(), alone.flows.len(), "{layout:?}");
        let columns = <(Seen, Seen)>::COLUMNS.iter().map(|column| column.name);
        let twice = Seen::COLUMNS.iter().chain(Seen::COLUMNS).map(|column| column.name);
        assert!(columns.eq(twice));
        for (pair, one) in report.flows.iter().zip(alone.flows.iter()) {
            let seen = |seen: &Seen| (seen.packets, seen.order, seen.out_of_order);
            let (first, second) = &pair.state;
            assert_eq!(
                (pair.key, seen(first), seen(second)),
                (one.key, seen(&one.state), seen(&one.state))
            );
        }
    }
}

/// Begins a record every 20 packets.
struct Splits;

impl App for Splits {
    type Flow = Mapped;

    fn on_packet(&mut self, _: &PacketView<'_>, flow: &mut Mapped) -> Verdict {
        flow.packets += 1;
        Verdict::Accept
    }

    fn next_record(&self, _: &PacketView<'_>, flow: &mut Mapped) -> Option<Mapped> {
        (flow.packets == 20).then(Mapped::default)
    }
}

#[test]
fn new_record_of_one_combined_application_begins_for_both() {
    for layout in LAYOUTS {
        let calls = Arc::new(Calls::default());
        let ports = || Ports {
            calls: Arc::clone(&calls),
            carried: None,
            panics_at_begin: None,
            panics_at_end: None,
        };
        let report = go(layout, 2_000, |_| (Splits, ports()));
        assert!(report.fault.is_none(), "{layout:?}: {:?}", report.fault);
        let [begun, split] = [&calls.begun, &calls.split].map(|count| count.load(Relaxed));
        assert!(split > 0, "{layout:?}");
        assert_eq!(begun + split, report.worker_totals().flows_begun, "{layout:?}");
    }
}

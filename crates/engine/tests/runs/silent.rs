//! Flows end by the clock while a live input is silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flowloom_engine::{
    Control, Endpoints, EngineConfig, FlowRecord, IdleTimeout, Layout, Order, PolicyRef, RecordSink,
    SinkError, run_with,
};
use flowloom_packet::{Fill, PacketBatch, PacketSource, SourceError};
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, WorkerCount};

use crate::common::{LAYOUTS, Memory, Recorder, Seen, config, mix, table};

const FLOWS: u64 = 100;
const TIMEOUT_NS: u64 = 2_000_000_000;

/// Yields packets, and then only the time, until all flows have ended.
struct Silent {
    packets: Memory,
    /// The time of the last packet, and then that of the silence.
    time_ns: Option<u64>,
    ended: Arc<AtomicU64>,
    begun: Instant,
    /// Whether it says that time passes.
    is_live: bool,
    calls: u64,
}

impl PacketSource for Silent {
    fn next_batch(&mut self, batch: &mut PacketBatch) -> Result<Fill, SourceError> {
        if self.packets.next_batch(batch)? == Fill::Packets {
            self.time_ns = batch.packets.last().map(|raw| raw.time_ns);
            batch.yielded_until_ns = self.time_ns;
            return Ok(Fill::Packets);
        }
        self.calls += 1;
        assert!(self.begun.elapsed() < Duration::from_secs(30), "the flows never end");
        let is_over = if self.is_live {
            self.ended.load(Ordering::Relaxed) == FLOWS
        } else {
            // Workers have long been idle, and the record thread has asked for records twice.
            self.calls > 5 && self.begun.elapsed() > Duration::from_millis(1500)
        };
        if is_over {
            return Ok(Fill::End);
        }
        std::thread::sleep(Duration::from_millis(1));
        self.time_ns = self.time_ns.map(|ns| ns + 10_000_000);
        batch.yielded_until_ns = self.time_ns.filter(|_| self.is_live);
        Ok(Fill::Starved)
    }
}

#[derive(Default)]
struct Count {
    ended: Arc<AtomicU64>,
    ticks: u64,
}

impl RecordSink<Seen> for Count {
    fn write(&mut self, records: &[FlowRecord<Seen>]) -> Result<(), SinkError> {
        self.ended.fetch_add(records.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn tick(&mut self) -> Result<(), SinkError> {
        self.ticks += 1;
        Ok(())
    }
}

fn run((layout, order, name): (Layout, Order, &str), is_live: bool) -> (u64, u64) {
    let idle_timeout = Some(IdleTimeout::from_ns(TIMEOUT_NS));
    let config = EngineConfig { order, idle_timeout, ..config(layout) };
    let topology = Topology::flat(WorkerCount::new(layout.workers()).unwrap());
    let mut policy = Scheme::named(name).unwrap().policy(&topology, 1).unwrap();
    let (mut sink, control) = (Count::default(), Control::default());
    let mut source = Silent {
        packets: Memory::new(mix(2_000, FLOWS)),
        time_ns: None,
        ended: Arc::clone(&sink.ended),
        begun: Instant::now(),
        is_live,
        calls: 0,
    };
    let endpoints =
        Endpoints::new(&mut source, PolicyRef::new(&mut policy), &control).with_records(Some(&mut sink));
    let app = |_| Recorder::default();
    let report = run_with(&config, endpoints, |_| table(2_000, idle_timeout), app).unwrap();
    assert!(report.is_balanced() && report.fault.is_none(), "{layout:?} {name}: {:?}", report.fault);
    let records = report.records.as_ref().unwrap();
    assert_eq!((records.written, records.lost), (FLOWS, 0), "{layout:?} {name}");
    assert!(sink.ticks > 0, "{layout:?} {name}");
    let totals = report.worker_totals();
    assert_eq!(totals.flows_begun, FLOWS, "{layout:?} {name}: time has not gone back");
    (totals.flows_expired, report.timed_out_at_end)
}

#[test]
fn flows_end_by_the_clock_while_a_live_input_is_silent() {
    for layout in LAYOUTS {
        assert_eq!(run(layout, true), (FLOWS, 0), "{layout:?}");
    }
}

#[test]
fn time_passes_with_packets_only_if_the_input_is_not_live() {
    for layout in [LAYOUTS[0], LAYOUTS[2], LAYOUTS[4]] {
        assert_eq!(run(layout, false), (0, 0), "{layout:?}");
    }
}

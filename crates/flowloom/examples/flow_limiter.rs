//! A rate limiter: each flow may send so many bytes a second, and what exceeds them is dropped.
//! `rate_limiter` does the same between the interfaces of an appliance.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use flowloom::engine::{App, Control, EngineConfig, FlowState, Layout, Verdict, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::packet::PacketView;
use flowloom::record::{Column, Kind, Value};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::synth::{Generated, Mix, MixConfig};

/// Bytes that a flow may send in a second, and at once after a pause.
const PER_SECOND: u64 = 20_000;

/// A bucket that fills with time.
#[derive(Default)]
struct Bucket {
    bytes: u64,
    first_ns: u64,
    filled_ns: u64,
    passed: u64,
    dropped: u64,
}

impl FlowState for Bucket {
    const COLUMNS: &'static [Column] = &[
        Column::new("passed_bytes", Kind::Bytes, "Bytes on the wire of packets that passed."),
        Column::new("dropped_bytes", Kind::Bytes, "Bytes on the wire of packets that were dropped."),
    ];

    fn values(&self, out: &mut Vec<Value>) {
        out.extend([Value::Number(self.passed), Value::Number(self.dropped)]);
    }
}

struct Limiter;

impl App for Limiter {
    type Flow = Bucket;

    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Bucket) -> Verdict {
        if flow.first_ns == 0 {
            (flow.first_ns, flow.filled_ns, flow.bytes) = (packet.time_ns, packet.time_ns, PER_SECOND);
        }
        // After a second the bucket is full.
        let since_ns = (packet.time_ns - flow.filled_ns).min(1_000_000_000);
        let more = since_ns * PER_SECOND / 1_000_000_000;
        if more > 0 {
            (flow.bytes, flow.filled_ns) = ((flow.bytes + more).min(PER_SECOND), packet.time_ns);
        }
        let bytes = u64::from(packet.wire_bytes);
        if let Some(left) = flow.bytes.checked_sub(bytes) {
            (flow.bytes, flow.passed) = (left, flow.passed + bytes);
            return Verdict::Accept;
        }
        flow.dropped += bytes;
        Verdict::Deny
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mix = MixConfig { flows: 300, packets: 40_000, ..MixConfig::default() };
    let mut source = Generated::new(Mix::new(mix)?);
    let config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&TableOptions::for_flows(10_000));
    let report = run(&config, &mut source, &mut placement, table, |_| Limiter, &Control::default())?;
    let (mut passed, mut dropped) = (0, 0);
    for flow in &report.flows {
        let Bucket { first_ns, filled_ns, passed: bytes, .. } = flow.state;
        let seconds = (filled_ns - first_ns) / 1_000_000_000 + 2;
        assert!(bytes <= seconds * PER_SECOND, "{}: {bytes} bytes in {seconds} s", flow.key);
        (passed, dropped) = (passed + bytes, dropped + flow.state.dropped);
    }
    println!("{passed} bytes of {} flows passed, {dropped} were dropped", report.flows.len());
    assert!(passed > 0 && dropped > 0 && report.fault.is_none());
    Ok(())
}

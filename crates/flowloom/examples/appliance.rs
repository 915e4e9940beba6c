//! Top talkers: an appliance in forty lines, with two counters per flow, that prints the largest
//! flows at the end.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use flowloom::engine::{App, Control, EngineConfig, FlowState, Layout, Verdict, run};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::packet::PacketView;
use flowloom::record::{Column, Kind, Value};
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

#[derive(Default)]
struct Talk(u64, u64);

impl FlowState for Talk {
    const COLUMNS: &'static [Column] = &[
        Column::new("packets", Kind::Packets, "Packets of the flow."),
        Column::new("bytes", Kind::Bytes, "Their bytes on the wire."),
    ];
    fn values(&self, out: &mut Vec<Value>) {
        out.extend([Value::Number(self.0), Value::Number(self.1)]);
    }
}

struct TopTalkers;

impl App for TopTalkers {
    type Flow = Talk;
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Talk) -> Verdict {
        *flow = Talk(flow.0 + 1, flow.1 + u64::from(packet.wire_bytes));
        Verdict::Accept
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: appliance FILE")?;
    let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
    let config = EngineConfig::new(Layout::Pipeline { workers: 2 });
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| LineHash::try_new(&TableOptions::for_flows(100_000));
    let report = run(&config, &mut source, &mut placement, table, |_| TopTalkers, &Control::default())?;
    let mut flows: Vec<_> = report.flows.iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.state.1));
    println!("{} packets, {} flows", report.input.packets, report.flows.len());
    for flow in flows.iter().take(10) {
        println!("{:>12} bytes {:>8} packets  {}", flow.state.1, flow.state.0, flow.key);
    }
    Ok(())
}

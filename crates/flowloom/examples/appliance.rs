//! An appliance in forty lines: who talks most? Reads a capture, keeps two counters per flow, prints the largest ones.
//!
//! `cargo run --release -p flowloom --example appliance -- traces/small/campus.pcap`

use flowloom::engine::{App, Control, EngineConfig, FlowState, FlowValue, Mode, Verdict, run};
use flowloom::flow_table::{DHash, DHashConfig};
use flowloom::packet::PacketView;
use flowloom::scheduler::{DirectHash, WorkerCount};
use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

#[derive(Default)]
struct Talk {
    packets: u64,
    bytes: u64,
}

impl FlowState for Talk {
    const COLUMNS: &'static [&'static str] = &["packets", "bytes"];
    fn values(&self, out: &mut Vec<FlowValue>) {
        out.extend([FlowValue::Count(self.packets), FlowValue::Count(self.bytes)]);
    }
    fn merge(&mut self, later: Self) {
        (self.packets, self.bytes) = (self.packets + later.packets, self.bytes + later.bytes);
    }
}

struct TopTalkers;

impl App for TopTalkers {
    type Flow = Talk;
    fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Talk) -> Verdict {
        flow.packets += 1;
        flow.bytes += u64::from(packet.wire_bytes);
        Verdict::Accept
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: appliance FILE")?;
    let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
    let config = EngineConfig::new(Mode::Pipeline { workers: 2 });
    let mut placement = DirectHash::new(WorkerCount::new(2)?);
    let table = |_| DHash::try_new(&DHashConfig::for_flows(100_000));
    let report = run(&config, &mut source, &mut placement, table, |_| TopTalkers, &Control::default())?;
    println!("{} packets, {} flows", report.input.packets, report.flows.len());
    let mut flows: Vec<_> = report.flows.iter().collect();
    flows.sort_by_key(|flow| std::cmp::Reverse(flow.state.bytes));
    for flow in flows.iter().take(10) {
        println!("{:>12} bytes {:>8} packets  {}", flow.state.bytes, flow.state.packets, flow.key);
    }
    Ok(())
}

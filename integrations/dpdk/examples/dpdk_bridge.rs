//! An appliance between two ports of DPDK: it keeps the state of each TCP connection, and passes
//! every frame.
//!
//! ```text
//! cargo run --example dpdk_bridge -- net_af_packet0 net_af_packet1 \
//!     --no-huge -m 256 --no-pci --vdev=net_af_packet0,iface=eth0 --vdev=net_af_packet1,iface=eth1
//! ```
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::io::Read as _;
use std::sync::Arc;

use flowloom::apps::TcpTracker;
use flowloom::engine::{Control, EngineConfig, IdleTimeout, Layout, WireOptions, run_wires};
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom::io::PortWire;
use flowloom_dpdk::DpdkPort;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, rest @ ..] = &arguments[..] else { return Err("two ports are needed".into()) };
    flowloom_dpdk::start(&rest.iter().map(String::as_str).collect::<Vec<_>>())?;
    let ports = [a, b].map(|name| DpdkPort::open(name, 1));
    let ports = ports.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();

    let timeout = IdleTimeout::from_ns(60_000_000_000);
    let config = EngineConfig { idle_timeout: Some(timeout), ..EngineConfig::new(Layout::Inline) };
    let table = TableOptions { timeouts: timeout.for_table(), ..TableOptions::for_flows(100_000) };
    let table = |_| LineHash::try_new(&table);
    let control = Arc::new(Control::default());
    let stop = Arc::clone(&control);
    // The end of standard input ends the run.
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        stop.stop();
    });
    let wires = vec![PortWire::new(ports, 0)];
    let run = run_wires(&config, &WireOptions::default(), wires, table, |_| TcpTracker, &control, None)?;
    for (name, port) in [a, b].iter().zip(&run.ports) {
        println!("{name}: received {} sent {} missed {}", port.received, port.sent, port.missed);
    }
    println!("{} packets of flows, every frame accounted for: {}", run.report.processed(), run.is_balanced());
    run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
}

//! Address translation on a wire: connections from the first interface leave by the second one with
//! the translator's address and a port of its own, and only their answers come in.
//!
//! ```text
//! cargo run -p flowloom --example nat -- eth0 eth1 192.0.2.7
//! ```

#[cfg(target_os = "linux")]
mod nat {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use flowloom::engine::{
        Actions, App, Control, EngineConfig, FlowState, IdleTimeout, Layout, NoFlow, NoFlowPolicy, Verdict,
        WireOptions, run_wires,
    };
    use flowloom::flow_table::{LineHash, LineHashConfig};
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use flowloom::packet::rewrite::Rewrite;
    use flowloom::packet::wire::{Decision, Frame};
    use flowloom::packet::{DropReason, PacketView, arp};

    /// The translator's station.
    const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0xFA];

    /// What changes in the packets of a flow.
    #[derive(Default)]
    struct Translation(Option<Rewrite>);

    impl FlowState for Translation {}

    struct Nat {
        address: Ipv4Addr,
        /// The host, port and station behind each port of the translator. A port is reused after
        /// all others.
        inside: BTreeMap<u16, (IpAddr, u16, [u8; 6])>,
        next: u16,
        current: Option<Rewrite>,
    }

    impl App for Nat {
        type Flow = Translation;

        fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Translation) -> Verdict {
            let (tuple, new) = (packet.headers.tuple(), Rewrite::new());
            if flow.0.is_none() && packet.port == 0 {
                self.next = self.next.checked_add(1).unwrap_or(20_000);
                let station = packet.bytes[6..12].try_into().unwrap_or(STATION);
                self.inside.insert(self.next, (tuple.source, tuple.source_port, station));
                let outside = new.source(IpAddr::V4(self.address)).source_port(self.next);
                flow.0 = Some(outside.source_station(STATION));
            } else if flow.0.is_none() && tuple.destination == IpAddr::V4(self.address) {
                flow.0 = self.inside.get(&tuple.destination_port).map(|&(address, port, station)| {
                    new.destination(address).destination_port(port).destination_station(station)
                });
            }
            self.current = flow.0;
            if flow.0.is_some() { Verdict::Accept } else { Verdict::Deny }
        }

        fn decide(&mut self, _: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
            self.current.take().into_iter().for_each(|rewrite| actions.rewrite(rewrite));
            if verdict == Verdict::Accept { Decision::Pass } else { Decision::Drop }
        }

        /// Answers for the translator's address (ARP), and passes everything else.
        fn on_frame_without_flow(&mut self, raw: &Frame<'_>, _: DropReason, to: &mut Actions) -> Decision {
            let Some(answer) = arp::answer(raw.bytes, self.address, STATION) else {
                return Decision::Pass;
            };
            to.emit(raw.port, answer);
            Decision::Drop
        }
    }

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [a, b, address] = &arguments[..] else {
            return Err("two interfaces and an address are needed".into());
        };
        let open = |name: &String| PacketPort::open(name, &PacketOptions::default());
        let wires = vec![PortWire::new(vec![open(a)?, open(b)?], 0)];
        let timeout = IdleTimeout::from_ns(300_000_000_000);
        let mut config = EngineConfig { idle_timeout: Some(timeout), ..EngineConfig::new(Layout::Inline) };
        config.decode = config.decode.with_errors_by_flow(true);
        let table = LineHashConfig { timeouts: timeout.for_table(), ..LineHashConfig::for_flows(40_000) };
        let options = WireOptions { no_flow: NoFlowPolicy::all(NoFlow::Ask), ..WireOptions::default() };
        let address = address.parse()?;
        let app = |_| Nat { address, inside: BTreeMap::new(), next: 20_000, current: None };
        let table = |_| LineHash::try_new(&table);
        let run = run_wires(&config, &options, wires, table, app, &Control::default(), None)?;
        run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return nat::main();
    #[cfg(not(target_os = "linux"))]
    Err("the ports are those of Linux".into())
}

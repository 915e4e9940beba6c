//! An appliance between two interfaces that shows a third interface a copy of the packets to and
//! from a port.
//!
//! ```text
//! cargo run -p flowloom --example mirror -- eth0 eth1 eth2 443
//! ```

#[cfg(target_os = "linux")]
mod mirror {
    use flowloom::engine::{
        Actions, App, Control, EngineConfig, FlowState, IdleTimeout, Layout, Verdict, WireOptions,
        run_wires,
    };
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use flowloom::packet::PacketView;
    use flowloom::packet::wire::Decision;
    use flowloom::record::{Column, Kind, Value};

    #[derive(Default)]
    struct Copied(u64);

    impl FlowState for Copied {
        const COLUMNS: &'static [Column] =
            &[Column::new("copied_packets", Kind::Packets, "Packets that were copied.")];
        fn values(&self, out: &mut Vec<Value>) {
            out.push(Value::Number(self.0));
        }
    }

    struct Mirror {
        port: u16,
        is_copied: bool,
    }

    impl App for Mirror {
        type Flow = Copied;

        fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Copied) -> Verdict {
            let tuple = packet.headers.tuple();
            self.is_copied = [tuple.source_port, tuple.destination_port].contains(&self.port);
            flow.0 += u64::from(self.is_copied);
            Verdict::Accept
        }

        fn decide(&mut self, _: &PacketView<'_>, _: Verdict, _: &mut Actions) -> Decision {
            // The third port is behind the two of the wire.
            if self.is_copied { Decision::Mirror(2) } else { Decision::Pass }
        }
    }

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [a, b, shown, port] = &arguments[..] else {
            return Err("three interfaces and a port are needed".into());
        };
        let port = port.parse()?;
        let open = |name| PacketPort::open(name, &PacketOptions::default());
        let wires = vec![PortWire::new(vec![open(a)?, open(b)?, open(shown)?], 0)];
        let idle_timeout = Some(IdleTimeout::from_ns(60_000_000_000));
        let config = EngineConfig { idle_timeout, records_max: 0, ..EngineConfig::new(Layout::Inline) };
        let timeouts = config.timeouts().for_table();
        let table = TableOptions { timeouts, ..TableOptions::for_flows(100_000) };
        let table = |_| LineHash::try_new(&table);
        let app = |_| Mirror { port, is_copied: false };
        let options = WireOptions::default();
        let run = run_wires(&config, &options, wires, table, app, &Control::default(), None)?;
        run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return mirror::main();
    #[cfg(not(target_os = "linux"))]
    Err("the ports are those of Linux".into())
}

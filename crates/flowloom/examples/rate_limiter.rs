//! An appliance between two interfaces that limits each flow to a rate in bytes per second, and
//! sends a copy of dropped frames to a third interface.
//!
//! ```text
//! cargo run -p flowloom --example rate_limiter -- eth0 eth1 125000 [eth2]
//! ```

#[cfg(target_os = "linux")]
pub(crate) mod limiter {
    use flowloom::engine::{
        Actions, App, Control, EngineConfig, FlowState, IdleTimeout, Layout, Verdict, WireOptions,
        run_wires,
    };
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use flowloom::packet::PacketView;
    use flowloom::packet::wire::Decision;
    use flowloom::record::{Column, Kind, Value};

    /// A bucket of a second's worth that fills with time.
    #[derive(Default)]
    pub(crate) struct Bucket {
        /// The time at which it is full if no packet passes before.
        full_ns: u64,
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

    const SECOND_NS: u64 = 1_000_000_000;

    pub(crate) struct Limiter {
        pub(crate) per_second: u64,
        pub(crate) shows: bool,
    }

    impl App for Limiter {
        type Flow = Bucket;

        fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Bucket) -> Verdict {
            let bytes = u64::from(packet.wire_bytes);
            let takes_ns = (bytes * SECOND_NS).div_ceil(self.per_second.max(1));
            let full_ns = flow.full_ns.max(packet.time_ns).saturating_add(takes_ns);
            if full_ns - packet.time_ns <= SECOND_NS {
                flow.full_ns = full_ns;
                flow.passed += bytes;
                return Verdict::Accept;
            }
            flow.dropped += bytes;
            Verdict::Deny
        }

        fn decide(&mut self, _: &PacketView<'_>, verdict: Verdict, _: &mut Actions) -> Decision {
            match verdict {
                Verdict::Accept => Decision::Pass,
                // The port behind the two of the wire.
                Verdict::Deny if self.shows => Decision::To(2),
                Verdict::Deny => Decision::Drop,
            }
        }
    }

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [a, b, per_second, shown @ ..] = &arguments[..] else {
            return Err("two interfaces and a number of bytes are needed".into());
        };
        let (per_second, shows) = (per_second.parse()?, !shown.is_empty());
        let open = |name: &String| PacketPort::open(name, &PacketOptions::default());
        let ports = [a, b].into_iter().chain(shown.first()).map(open).collect::<Result<_, _>>()?;
        let idle_timeout = Some(IdleTimeout::from_ns(60_000_000_000));
        let config = EngineConfig { idle_timeout, records_max: 0, ..EngineConfig::new(Layout::Inline) };
        let timeouts = config.timeouts().for_table();
        let table = TableOptions { timeouts, ..TableOptions::for_flows(100_000) };
        let (wires, options) = (vec![PortWire::new(ports, 0)], WireOptions::default());
        let app = |_| Limiter { per_second, shows };
        let run = run_wires(
            &config,
            &options,
            wires,
            |_| LineHash::try_new(&table),
            app,
            &Control::default(),
            None,
        )?;
        run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return limiter::main();
    #[cfg(not(target_os = "linux"))]
    Err("the ports are those of Linux".into())
}

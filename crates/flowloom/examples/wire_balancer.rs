//! A load balancer on a wire: connections of clients on the first interface to the address of a
//! service go to servers on the second, by weight. A line `drain NUMBER` on standard input stops
//! new connections to a server; those that it has stay.
//!
//! ```text
//! cargo run -p flowloom --example wire_balancer -- eth0 eth1 192.0.2.7:80 \
//!     192.0.2.21 02:00:00:00:00:21 100  192.0.2.22 02:00:00:00:00:22 200
//! ```
//!
//! A server is its address, its station and its weight; the first has number 0.

#[cfg(target_os = "linux")]
pub(crate) mod balancer {
    use std::net::{IpAddr, SocketAddrV4};
    use std::sync::{Arc, Mutex, PoisonError};

    use flowloom::engine::{
        Actions, App, Control, EngineConfig, FlowState, IdleTimeout, Layout, NoFlow, NoFlowPolicy, Verdict,
        WireOptions, run_wires,
    };
    use flowloom::flow_key::FlowHasher;
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use flowloom::packet::rewrite::Rewrite;
    use flowloom::packet::wire::{Decision, Frame};
    use flowloom::packet::{DropReason, PacketView, arp};
    use flowloom::scheduler::{MemberId, Members};

    /// The station that answers for the service's address.
    const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0xFB];

    /// The server of a connection: the place in the list.
    #[derive(Default)]
    pub(crate) struct Chosen(Option<u64>);

    impl FlowState for Chosen {}

    pub(crate) struct Balancer {
        service: SocketAddrV4,
        servers: Vec<(IpAddr, [u8; 6])>,
        members: Arc<Mutex<Members>>,
        hasher: FlowHasher,
        current: Option<Rewrite>,
    }

    impl Balancer {
        /// Returns a balancer over servers, each with its station, whose places are the members.
        pub(crate) fn new(
            service: SocketAddrV4,
            servers: &[(IpAddr, [u8; 6])],
            members: &Arc<Mutex<Members>>,
            hasher: &FlowHasher,
        ) -> Self {
            let (servers, members) = (servers.to_vec(), Arc::clone(members));
            Self { service, servers, members, hasher: hasher.clone(), current: None }
        }
    }

    impl App for Balancer {
        type Flow = Chosen;

        fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Chosen) -> Verdict {
            let (tuple, service) = (packet.headers.tuple(), IpAddr::V4(*self.service.ip()));
            self.current = None;
            // Clients are behind the first port, servers behind the second. Both directions share a
            // flow.
            let is_to_service =
                (tuple.destination, tuple.destination_port) == (service, self.service.port());
            if packet.port == 0 && is_to_service {
                let digest = self.hasher.hash(&packet.headers.key).worker;
                let members = || self.members.lock().unwrap_or_else(PoisonError::into_inner);
                flow.0 = flow.0.or_else(|| members().pick(digest).map(|member| member.0));
                let server = flow.0.and_then(|at| self.servers.get(usize::try_from(at).ok()?));
                let Some(&(address, station)) = server else { return Verdict::Deny };
                self.current = Some(Rewrite::new().destination(address).destination_station(station));
            } else if packet.port == 1
                && tuple.source_port == self.service.port()
                && self.servers.iter().any(|&(address, _)| address == tuple.source)
            {
                self.current = Some(Rewrite::new().source(service).source_station(STATION));
            }
            Verdict::Accept
        }

        fn decide(&mut self, _: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
            self.current.take().into_iter().for_each(|rewrite| actions.rewrite(rewrite));
            if verdict == Verdict::Accept { Decision::Pass } else { Decision::Drop }
        }

        /// Answers for the address of the service (ARP), and passes everything else.
        fn on_frame_without_flow(&mut self, raw: &Frame<'_>, _: DropReason, to: &mut Actions) -> Decision {
            let Some(answer) = arp::answer(raw.bytes, *self.service.ip(), STATION) else {
                return Decision::Pass;
            };
            to.emit(raw.port, answer);
            Decision::Drop
        }
    }

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [a, b, service, given @ ..] = &arguments[..] else {
            return Err("two interfaces, the service and its servers are needed".into());
        };
        let (mut members, mut servers) = (Members::new(), Vec::new());
        for (number, server) in (0..).zip(given.chunks_exact(3)) {
            members.set(MemberId(number), server[2].parse()?)?;
            let station = u64::from_str_radix(&server[1].replace(':', ""), 16)?.to_be_bytes();
            servers.push((server[0].parse()?, station[2..].try_into()?));
        }
        let members = Arc::new(Mutex::new(members));
        let orders = Arc::clone(&members);
        std::thread::spawn(move || {
            let numbers = std::io::stdin().lines().map_while(Result::ok);
            for number in numbers.filter_map(|line| line.strip_prefix("drain ")?.parse().ok()) {
                orders.lock().unwrap_or_else(PoisonError::into_inner).drain(MemberId(number));
            }
        });
        let open = |name: &String| PacketPort::open(name, &PacketOptions::default());
        let wires = vec![PortWire::new(vec![open(a)?, open(b)?], 0)];
        let idle_timeout = Some(IdleTimeout::from_ns(300_000_000_000));
        let config = EngineConfig { idle_timeout, records_max: 0, ..EngineConfig::new(Layout::Inline) };
        let timeouts = config.timeouts().for_table();
        let table = TableOptions { timeouts, ..TableOptions::for_flows(100_000) };
        let options = WireOptions { no_flow: NoFlowPolicy::all(NoFlow::Ask), ..WireOptions::default() };
        let (service, hasher) = (service.parse()?, FlowHasher::random());
        let app = |_| Balancer::new(service, &servers, &members, &hasher);
        let table = |_| LineHash::try_new(&table);
        let run = run_wires(&config, &options, wires, table, app, &Control::default(), None)?;
        run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return balancer::main();
    #[cfg(not(target_os = "linux"))]
    Err("the ports are those of Linux".into())
}

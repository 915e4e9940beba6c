//! Address translation on a wire: connections over IPv4 from the first interface leave by the
//! second one with the translator's address and a port of its own, and only their answers come in.
//! Later fragments, packets that are cut, IPv6 and protocols without ports are refused. Packets
//! from inside keep a port; answers alone do not, nor packets that are refused.
//!
//! ```text
//! cargo run -p flowloom --example nat -- eth0 eth1 192.0.2.7
//! ```

#![expect(clippy::print_stdout, reason = "an example says what it found")]

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use std::collections::{BTreeMap, VecDeque};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use flowloom::engine::time::tick_of;
    use flowloom::engine::{
        Actions, App, Control, EndedBy, EngineConfig, FlowState, IdleTimeout, Layout, NoFlow, NoFlowPolicy,
        Verdict, WireOptions, run_wires,
    };
    use flowloom::flow_key::FlowKey;
    use flowloom::flow_key::protocol::{TCP, UDP};
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use flowloom::packet::icmp::ICMP;
    use flowloom::packet::rewrite::Rewrite;
    use flowloom::packet::wire::{Decision, Frame};
    use flowloom::packet::{DropReason, PacketView, arp};

    /// The translator's station.
    const STATION: [u8; 6] = [2, 0, 0, 0, 0, 0xFA];

    /// What the translator knows of a flow: its port, if it comes from the first interface or is
    /// the answer to one that does.
    #[derive(Clone, Copy, Default)]
    pub(crate) enum Translation {
        #[default]
        Unknown,
        /// The port, and the time of the last packet from inside.
        Inside(u16, u64),
        Outside(u16),
    }

    /// A full table evicts flows that are refused, so a scan from outside ends no connection.
    impl FlowState for Translation {
        const EVICTABLE: bool = true;

        fn is_established(&self) -> bool {
            !matches!(self, Self::Unknown)
        }
    }

    /// A connection from inside.
    struct Connection {
        host: (IpAddr, u16),
        station: [u8; 6],
        /// The only address and port whose packets are answers, and their protocol.
        remote: (IpAddr, u16, u8),
    }

    pub(crate) struct Nat {
        address: Ipv4Addr,
        /// The connection behind each port of the translator.
        inside: BTreeMap<u16, Connection>,
        /// A port is reused after all others.
        free: VecDeque<u16>,
        timeout: Option<IdleTimeout>,
        current: Option<Rewrite>,
        /// Packets that were refused, for the caller to read.
        refused: Arc<AtomicU64>,
    }

    impl Nat {
        pub(crate) fn new(
            address: Ipv4Addr,
            ports: impl IntoIterator<Item = u16>,
            timeout: Option<IdleTimeout>,
            refused: &Arc<AtomicU64>,
        ) -> Self {
            let (free, refused) = (ports.into_iter().collect(), Arc::clone(refused));
            Self { address, inside: BTreeMap::new(), free, timeout, current: None, refused }
        }
    }

    /// Returns whether a packet has a port that can be rewritten, or is an error about one that
    /// has. A ping has an identifier instead: it is a request from inside, and an answer from
    /// outside.
    fn has_port(packet: &PacketView<'_>) -> bool {
        let headers = &packet.headers;
        let echo = if packet.port == 0 { 8 } else { 0 };
        let kind = || packet.bytes.get(headers.transport_offset as usize);
        !headers.later_fragment
            && packet.is_whole()
            && match headers.key.protocol() {
                ICMP => headers.is_error_of_flow || kind() == Some(&echo),
                protocol => matches!(protocol, TCP | UDP),
            }
    }

    impl App for Nat {
        type Flow = Translation;

        fn on_packet(&mut self, packet: &PacketView<'_>, flow: &mut Translation) -> Verdict {
            let (tuple, new) = (packet.headers.tuple(), Rewrite::new());
            let is_for_us = tuple.destination == IpAddr::V4(self.address);
            let has_port = has_port(packet);
            let is_new =
                has_port && !packet.headers.is_error_of_flow && matches!(flow, Translation::Unknown);
            if is_new && packet.port == 0 && tuple.source.is_ipv4() && !is_for_us {
                if let Some(port) = self.free.pop_front() {
                    // An answer to an echo has its identifier, which the translator chose, twice.
                    let answers_from = if tuple.protocol == ICMP { port } else { tuple.destination_port };
                    let connection = Connection {
                        host: (tuple.source, tuple.source_port),
                        station: packet.bytes[6..12].try_into().unwrap_or(STATION),
                        remote: (tuple.destination, answers_from, tuple.protocol),
                    };
                    self.inside.insert(port, connection);
                    *flow = Translation::Inside(port, packet.time_ns);
                }
            } else if is_new && packet.port != 0 && is_for_us {
                *flow = Translation::Outside(tuple.destination_port);
            }
            // Both directions share the flow, so a packet passes only at the port of its side.
            self.current = match (*flow, packet.port) {
                _ if !has_port => None,
                (Translation::Inside(port, _), 0) => {
                    let sender = (tuple.source, tuple.source_port);
                    let inside = self.inside.get(&port).filter(|connection| connection.host == sender);
                    inside.map(|_| {
                        *flow = Translation::Inside(port, packet.time_ns);
                        let address = IpAddr::V4(self.address);
                        new.source(address).source_port(port).router(address).source_station(STATION)
                    })
                }
                (Translation::Outside(port), 1) => {
                    let sender = (tuple.source, tuple.source_port, tuple.protocol);
                    let inside = self.inside.get(&port).filter(|connection| connection.remote == sender);
                    if inside.is_none() {
                        *flow = Translation::Unknown;
                    }
                    inside.map(|&Connection { host: (address, port), station, .. }| {
                        new.destination(address).destination_port(port).destination_station(station)
                    })
                }
                _ => None,
            };
            if self.current.is_some() {
                return Verdict::Accept;
            }
            self.refused.fetch_add(1, Ordering::Relaxed);
            Verdict::Deny
        }

        /// Any packet keeps a flow in the table, but only those that pass keep its port.
        fn next_record(&self, packet: &PacketView<'_>, flow: &mut Translation) -> Option<Translation> {
            let (Translation::Inside(_, last_ns), Some(timeout)) = (*flow, self.timeout) else {
                return None;
            };
            timeout.is_over(tick_of(last_ns), tick_of(packet.time_ns)).then_some(Translation::Unknown)
        }

        /// The port is released when its flow ends, for any reason.
        fn on_end(&mut self, _: &FlowKey, flow: &mut Translation, _: EndedBy) {
            if let Translation::Inside(port, _) = *flow {
                self.inside.remove(&port);
                self.free.push_back(port);
            }
        }

        fn decide(&mut self, _: &PacketView<'_>, verdict: Verdict, actions: &mut Actions) -> Decision {
            self.current.take().into_iter().for_each(|rewrite| actions.rewrite(rewrite));
            if verdict == Verdict::Accept { Decision::Pass } else { Decision::Drop }
        }

        /// Answers for the translator's address (ARP), and passes other frames without IP.
        fn on_frame_without_flow(&mut self, raw: &Frame<'_>, _: DropReason, to: &mut Actions) -> Decision {
            let Some(answer) = arp::answer(raw.bytes, self.address, STATION) else {
                return Decision::Pass;
            };
            to.emit(raw.port, answer);
            Decision::Drop
        }
    }

    /// Frames without IP are asked about. Malformed IP packets cannot be translated.
    pub(crate) const NO_FLOW: NoFlowPolicy =
        NoFlowPolicy::all(NoFlow::Drop).with(DropReason::NotIp, NoFlow::Ask);

    /// Returns what a run of the translator needs: flows end after this many seconds of silence.
    pub(crate) fn settings(timeout_s: u64) -> (EngineConfig, TableOptions) {
        let timeout = IdleTimeout::from_ns(timeout_s * 1_000_000_000);
        // No sink or caller reads records, so none is kept.
        let mut config = EngineConfig {
            idle_timeout: Some(timeout),
            records_max: 0,
            ..EngineConfig::new(Layout::Inline)
        };
        config.decode = config.decode.with_errors_by_flow(true);
        let timeouts = config.timeouts().for_table();
        (config, TableOptions { timeouts, ..TableOptions::for_flows(40_000) })
    }

    pub(super) fn main() -> Result<(), Box<dyn std::error::Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [a, b, address] = &arguments[..] else {
            return Err("two interfaces and an address are needed".into());
        };
        let open = |name: &String| PacketPort::open(name, &PacketOptions::default());
        let wires = vec![PortWire::new(vec![open(a)?, open(b)?], 0)];
        let (config, table) = settings(300);
        let options = WireOptions { no_flow: NO_FLOW, ..WireOptions::default() };
        let address = address.parse()?;
        let refused = Arc::new(AtomicU64::new(0));
        let app = |_| Nat::new(address, 20_000..=u16::MAX, config.idle_timeout, &refused);
        let table = |_| LineHash::try_new(&table);
        let run = run_wires(&config, &options, wires, table, app, &Control::default(), None)?;
        println!("{} packets were refused", refused.load(Ordering::Relaxed));
        run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    #[cfg(target_os = "linux")]
    return linux::main();
    #[cfg(not(target_os = "linux"))]
    Err("the ports are those of Linux".into())
}

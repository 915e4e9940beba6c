//! A stateful firewall between two interfaces, with rules of nftables or iptables for the chain
//! `forward`, which are read again while packets flow.
//!
//! ```text
//! cargo run -p flowloom --example stateful_firewall -- eth0 eth1 rules.nft
//! ```
#![expect(clippy::print_stdout, reason = "an example says what it found")]

pub(crate) mod gate {
    use std::sync::Arc;

    use flowloom::apps::firewall::{
        Connection, Defaults, Enforcement, FirewallRules, LiveRules, WorkerRules, describe,
    };
    use flowloom::classifier::ClassifierBuilder;
    use flowloom::engine::{
        App, EngineConfig, FlowState, IdleTimeout, Layout, NoFlow, NoFlowPolicy, Verdict,
    };
    use flowloom::flow_table::TableOptions;
    use flowloom::packet::{DropReason, PacketView};
    use flowloom::rules::firewall::ConnectionState;
    use flowloom::rules::load::{self, LoadOptions, RuleFormat};

    /// Reads rules for packets that come in by one of these interfaces and leave by the other.
    /// Rules that packets do not decide and a text without such a chain are errors.
    pub(crate) fn read(
        text: &str,
        interfaces: [&str; 2],
    ) -> Result<FirewallRules, Box<dyn std::error::Error>> {
        let format = RuleFormat::detect("", text);
        let chain = if format == RuleFormat::Iptables { "FORWARD" } else { "forward" };
        let asked = LoadOptions { chain: Some(chain.into()), ..LoadOptions::default() };
        let policy = load::load(text, format, &asked)?;
        let ports = Some(interfaces.map(String::from));
        let known = Enforcement { ports, ..Enforcement::default() };
        Ok(FirewallRules::of_policy(policy, Defaults::default(), known, ClassifierBuilder::new())?)
    }

    #[derive(Default)]
    pub(crate) struct Tracked(Connection);

    /// A full table evicts flows whose packets are denied, so a scan ends no connection.
    impl FlowState for Tracked {
        const EVICTABLE: bool = true;

        fn is_established(&self) -> bool {
            self.0.is_open()
        }
    }

    pub(crate) struct Gate(WorkerRules);

    impl Gate {
        pub(crate) fn new(live: Arc<LiveRules>) -> Self {
            Self(WorkerRules::new(live))
        }
    }

    impl App for Gate {
        type Flow = Tracked;

        fn on_packet(&mut self, view: &PacketView<'_>, Tracked(connection): &mut Tracked) -> Verdict {
            self.0.refresh();
            let rules = self.0.rules();
            let mut packet = rules.locate(describe(view), view.port, view.headers.interface);
            packet.state = if rules.untracks(&packet) {
                Some(ConnectionState::Untracked)
            } else {
                connection.take_view(view, &packet)
            };
            let judgement = rules.judge_packet(rules.policy().seen(packet));
            self.0.count(judgement, view.wire_bytes);
            if !view.headers.is_error_of_flow {
                // A connection whose first packet is denied is forgotten.
                connection.settle(packet.state, judgement.verdict == Verdict::Accept);
            }
            judgement.verdict
        }
    }

    /// Malformed IP packets and those of unknown forms are dropped; frames without IP, such as ARP,
    /// pass.
    pub(crate) const NO_FLOW: NoFlowPolicy =
        NoFlowPolicy::all(NoFlow::Drop).with(DropReason::NotIp, NoFlow::Pass);

    /// Returns what a run needs: connections end after five minutes of silence, and ICMP errors
    /// belong to the connection that they concern.
    pub(crate) fn settings() -> (EngineConfig, TableOptions) {
        let idle_timeout = Some(IdleTimeout::from_ns(300_000_000_000));
        let mut config = EngineConfig { idle_timeout, records_max: 0, ..EngineConfig::new(Layout::Inline) };
        config.decode = config.decode.with_errors_by_flow(true);
        let timeouts = config.timeouts().for_table();
        (config, TableOptions { timeouts, ..TableOptions::for_flows(100_000) })
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::Arc;
    use std::time::Duration;

    use flowloom::apps::firewall::LiveRules;
    use flowloom::engine::{Control, WireOptions, run_wires};
    use flowloom::flow_table::LineHash;
    use flowloom::io::{PacketOptions, PacketPort, PortWire};
    use gate::{Gate, NO_FLOW, read, settings};

    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [a, b, path] = &arguments[..] else { return Err("two interfaces and a file are needed".into()) };
    let mut text = std::fs::read_to_string(path)?;
    let live = Arc::new(LiveRules::new(read(&text, [a, b])?));
    let (again, file, names) = (Arc::clone(&live), path.clone(), [a.clone(), b.clone()]);
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(Duration::from_secs(1));
            let Ok(now) = std::fs::read_to_string(&file) else { continue };
            if now != text {
                // Rules with an error have no effect.
                let rules = read(&now, [&names[0], &names[1]]);
                rules.map_or_else(|error| println!("{file}: {error}"), |rules| again.replace(rules));
                text = now;
            }
        }
    });
    let open = |name: &String| PacketPort::open(name, &PacketOptions::default());
    let wires = vec![PortWire::new(vec![open(a)?, open(b)?], 0)];
    let (config, table) = settings();
    let (table, app) = (|_| LineHash::try_new(&table), |_| Gate::new(Arc::clone(&live)));
    let options = WireOptions { no_flow: NO_FLOW, ..WireOptions::default() };
    let run = run_wires(&config, &options, wires, table, app, &Control::default(), None)?;
    let counts = live.counts();
    for (generation, hits) in
        [(counts.previous_generation, &counts.previous), (counts.generation, &counts.by_rule)]
    {
        let Some(rules) = live.rules(generation) else { continue };
        for (number, hits) in (0..).zip(hits).filter(|(_, hits)| hits.packets > 0) {
            println!("{} packets by rules {generation}: {}", hits.packets, rules.text(number));
        }
    }
    println!("{} packets were denied because they lack what rules ask for", counts.undecided.packets);
    run.report.fault.map_or(Ok(()), |fault| Err(fault.to_string().into()))
}

#[cfg(not(target_os = "linux"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    Err("the ports are those of Linux".into())
}

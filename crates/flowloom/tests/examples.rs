//! The examples that bring their own traffic, each of which checks its result.

#[path = "../examples/flow_limiter.rs"]
mod flow_limiter;
#[path = "../examples/load_balancer.rs"]
mod load_balancer;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "its main function opens interfaces")]
#[path = "../examples/nat.rs"]
mod nat;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "its main function opens interfaces")]
#[path = "../examples/rate_limiter.rs"]
mod rate_limiter;
#[path = "../examples/sensor.rs"]
mod sensor;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "its main function opens interfaces")]
#[path = "../examples/stateful_firewall.rs"]
mod stateful_firewall;
#[path = "../examples/translator.rs"]
mod translator;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "its main function opens interfaces")]
#[path = "../examples/wire_balancer.rs"]
mod wire_balancer;

#[cfg(target_os = "linux")]
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

type Outcome = Result<(), Box<dyn std::error::Error>>;

#[test]
fn a_translator_returns_every_answer_to_its_host() -> Outcome {
    translator::main()
}

#[test]
fn a_limiter_lets_no_flow_exceed_its_rate() -> Outcome {
    flow_limiter::main()
}

#[test]
fn a_sensor_names_protocols_on_any_port() -> Outcome {
    sensor::main()
}

#[test]
fn a_balancer_keeps_connections_while_backends_come_and_go() -> Outcome {
    load_balancer::main()
}

/// The sample has 31 flows, of which at most 20 have a packet within a second. Flows end between
/// batches of packets, so a few more are live. Both directions have the port of a capture, so that
/// the translator denies answers.
#[cfg(target_os = "linux")]
#[test]
fn a_port_of_the_translator_returns_when_its_flow_ends() -> Outcome {
    use flowloom::engine::{Control, run};
    use flowloom::flow_table::LineHash;
    use flowloom::scheduler::{DirectHash, WorkerCount};
    use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};
    use nat::linux::{Nat, settings};

    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/small/names.pcap");
    let denied = |timeout_s, ports| -> Result<u64, Box<dyn std::error::Error>> {
        let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
        let (config, table) = settings(timeout_s);
        let mut policy = DirectHash::new(WorkerCount::new(1)?);
        let table = |_| LineHash::try_new(&table);
        let app = |_| Nat::new([198, 51, 100, 1].into(), 1..=ports, config.idle_timeout, &Arc::default());
        let report = run(&config, &mut source, &mut policy, table, app, &Control::default())?;
        Ok(report.workers.iter().map(|worker| worker.counters.denied).sum())
    };
    assert_eq!(denied(1, 27)?, denied(1, 31)?);
    assert!(denied(60, 27)? > denied(60, 31)?);
    Ok(())
}

/// Returns a frame of 40 bytes of IP: a SYN, a datagram, or a packet of another protocol that
/// begins with these ports.
#[cfg(target_os = "linux")]
fn frame(protocol: u8, source: [u8; 4], destination: [u8; 4], [from, to]: [u16; 2]) -> Vec<u8> {
    use etherparse::{IpNumber, PacketBuilder};
    let packet = PacketBuilder::ethernet2([0; 6], [0; 6]).ipv4(source, destination, 64);
    let mut frame = Vec::new();
    match protocol {
        6 => packet.tcp(from, to, 0, 0).syn().write(&mut frame, &[]),
        17 => packet.udp(from, to).write(&mut frame, &[0; 12]),
        other => {
            let ports = [from, to].map(u16::to_be_bytes).concat();
            packet.write(&mut frame, IpNumber(other), &[&ports, &[0; 16][..]].concat())
        }
    }
    .expect("it is in memory");
    frame
}

/// Runs the translator between two ports: a connection leaves with the translator's address, its
/// answer comes in, and nothing else does.
#[cfg(target_os = "linux")]
#[test]
fn a_translator_lets_only_answers_in() -> Outcome {
    use flowloom::engine::{Control, WireOptions, run_wires};
    use flowloom::flow_table::LineHash;
    use flowloom::packet::{DecodeOptions, FiveTuple, LinkType, MemoryWire, decode};
    use nat::linux::{NO_FLOW, Nat, settings};

    let (inside, server, other, ours) = ([10, 0, 0, 5], [192, 0, 2, 9], [192, 0, 2, 66], [198, 51, 100, 1]);
    let echo = |kind: u8, source, destination, identifier: u16| {
        let mut frame = frame(1, source, destination, [u16::from(kind) << 8, 0]);
        frame[38..40].copy_from_slice(&identifier.to_be_bytes());
        frame
    };
    let mut v6 = vec![0; 74];
    v6[12..15].copy_from_slice(&[0x86, 0xDD, 0x60]);
    (v6[19], v6[20], v6[66]) = (20, 6, 0x50);
    let received = [
        (0, frame(6, inside, server, [4000, 443])),
        (1, frame(6, server, ours, [443, 700])),
        (1, frame(6, other, ours, [443, 700])),
        (1, frame(6, server, ours, [444, 700])),
        (1, frame(17, server, ours, [443, 700])),
        (1, frame(6, server, ours, [443, 701])),
        (0, v6),
        // Packets of the same two flows by the other port, or with the sender of the other side.
        (1, frame(6, server, inside, [443, 4000])),
        (0, frame(6, server, inside, [443, 4000])),
        (0, frame(6, server, ours, [443, 700])),
        // GRE takes no port.
        (0, frame(47, inside, server, [0, 0])),
        (0, echo(8, inside, server, 20)),
        (1, echo(0, server, ours, 702)),
        (1, echo(0, other, ours, 702)),
        // A request is no answer, and a packet that is cut is none either.
        (1, echo(8, server, ours, 702)),
        (0, echo(0, inside, server, 20)),
        (1, frame(6, server, ours, [443, 700])[..52].to_vec()),
        (0, frame(6, inside, server, [4001, 443])[..53].to_vec()),
    ];

    let control = Control::default();
    let (refused, sent) = (Arc::new(AtomicU64::new(0)), received.len() as u64);
    let mut wire = MemoryWire::new(2, received, || control.stop());
    let (config, table) = settings(60);
    let options = WireOptions { no_flow: NO_FLOW, ..WireOptions::default() };
    let table = |_| LineHash::try_new(&table);
    let app = |_| Nat::new(ours.into(), [700, 702], config.idle_timeout, &refused);
    let run = run_wires(&config, &options, vec![&mut wire], table, app, &control, None)?;

    assert!(run.is_balanced() && run.report.fault.is_none(), "{:?}", run.report.fault);
    let left = wire.left().iter().map(|(port, bytes)| {
        let headers = decode(LinkType::ETHERNET, bytes, DecodeOptions::default()).expect("an IP packet");
        (*port, headers.tuple())
    });
    let outward = FiveTuple::v4(ours, server, 700, 443, 6);
    let inward = FiveTuple::v4(server, inside, 443, 4000, 6);
    let request = FiveTuple::v4(ours, server, 702, 702, 1);
    let reply = FiveTuple::v4(server, inside, 20, 20, 1);
    assert_eq!(refused.load(Ordering::Relaxed), sent - 4);
    assert_eq!(left.collect::<Vec<_>>(), [(1, outward), (0, inward), (1, request), (0, reply)]);
    Ok(())
}

/// After a minute of silence an answer finds no connection, and another host gets the port.
#[cfg(target_os = "linux")]
#[test]
fn a_translators_port_returns_after_silence() -> Outcome {
    use flowloom::engine::{Control, WireOptions, run_wires};
    use flowloom::flow_table::LineHash;
    use flowloom::packet::MemoryWire;
    use nat::linux::{NO_FLOW, Nat, settings};

    let (first, second, server, ours) = ([10, 0, 0, 5], [10, 0, 0, 6], [192, 0, 2, 9], [198, 51, 100, 1]);
    let answer = || frame(6, server, ours, [443, 700]);
    let received = [
        (0, frame(6, first, server, [4000, 443])),
        (0, frame(6, second, server, [4000, 443])),
        (1, answer()),
        // Forged packets of the first host's connection keep no port.
        (1, frame(6, first, server, [4000, 443])),
        (1, frame(6, server, first, [443, 4000])),
        (1, answer()),
        (0, frame(6, second, server, [4000, 443])),
    ];
    let control = Control::default();
    let times_ns = [0, 2, 30, 50, 90, 100, 101].map(|seconds| seconds * 1_000_000_000);
    let mut wire = MemoryWire::new(2, received, || control.stop()).with_times_ns(times_ns);
    let (config, table) = settings(60);
    let options = WireOptions { no_flow: NO_FLOW, ..WireOptions::default() };
    let table = |_| LineHash::try_new(&table);
    let app = |_| Nat::new(ours.into(), [700], config.idle_timeout, &Arc::default());
    let run = run_wires(&config, &options, vec![&mut wire], table, app, &control, None)?;
    assert!(run.is_balanced());
    let ports: Vec<u16> = wire.left().iter().map(|(port, _)| *port).collect();
    assert_eq!(ports, [1, 0, 1], "the first host, its answer, and then the second host");
    Ok(())
}

/// A flow gets its rate whatever the gaps between its frames are.
#[cfg(target_os = "linux")]
#[test]
fn a_limiter_on_a_wire_passes_the_rate_of_a_flow_without_gaps_too() -> Outcome {
    use flowloom::engine::{Control, EngineConfig, Layout, WireOptions, run_wires};
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::packet::MemoryWire;
    use rate_limiter::limiter::Limiter;

    for gap_ns in [1_000_u64, 9_000, 900_000] {
        let frames =
            vec![(0, frame(6, [10, 0, 0, 5], [192, 0, 2, 9], [4000, 443])); 3_000_000_000 / 1_000_000];
        // Three seconds of traffic in groups of frames, each group with these gaps.
        let times_ns = (0..frames.len() as u64).map(|i| i / 100 * 100_000_000 + i % 100 * gap_ns);
        let control = Control::default();
        let mut wire = MemoryWire::new(2, frames, || control.stop()).with_times_ns(times_ns);
        let table = |_| LineHash::try_new(&TableOptions::for_flows(100));
        // Twenty frames per second, and a second's worth at once.
        let app = |_| Limiter { per_second: 20 * 54, shows: false };
        let (config, options) = (EngineConfig::new(Layout::Inline), WireOptions::default());
        let run = run_wires(&config, &options, vec![&mut wire], table, app, &control, None)?;
        assert!(run.is_balanced());
        let passed = wire.left().len();
        assert!((75..=80).contains(&passed), "{passed} frames with gaps of {gap_ns} ns");
    }
    Ok(())
}

/// Rules of both languages let connections out, and only packets of these in.
#[cfg(target_os = "linux")]
#[test]
fn a_stateful_firewall_lets_only_answers_in() -> Outcome {
    use flowloom::apps::firewall::LiveRules;
    use flowloom::engine::{Control, WireOptions, run_wires};
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::packet::MemoryWire;
    use stateful_firewall::gate::{Gate, NO_FLOW, read, settings};

    let nft = "table inet f { chain forward { type filter hook forward priority 0; policy drop; ct state \
               established,related accept; iifname lan tcp dport 443 accept; } }";
    let iptables = "*filter\n:FORWARD DROP\n-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j \
                    ACCEPT\n-A FORWARD -i lan -p tcp --dport 443 -j ACCEPT\nCOMMIT\n";
    let (inside, server) = ([10, 0, 0, 5], [192, 0, 2, 9]);
    let mut answer = frame(6, server, inside, [443, 4000]);
    answer[47] = 0x12; // SYN and ACK
    let received = [
        (1, answer.clone()),
        (1, frame(6, server, inside, [4000, 443])),
        (0, frame(6, inside, server, [4000, 443])),
        (1, answer),
        (0, frame(6, inside, server, [4000, 22])),
    ];
    for text in [nft, iptables] {
        let live = Arc::new(LiveRules::new(read(text, ["lan", "wan"])?));
        let control = Control::default();
        let mut wire = MemoryWire::new(2, received.clone(), || control.stop());
        let (config, table) = settings();
        let (table, app) = (|_| LineHash::try_new(&table), |_| Gate::new(Arc::clone(&live)));
        let wires = vec![&mut wire];
        let run = run_wires(&config, &WireOptions::default(), wires, table, app, &control, None)?;
        assert!(run.is_balanced() && run.report.fault.is_none(), "{:?}", run.report.fault);
        let passed = [(1, received[2].1.clone()), (0, received[3].1.clone())];
        assert_eq!(wire.left(), passed, "{text}");
        let counts = live.counts();
        let by_rule: Vec<u64> = counts.by_rule[1..].iter().map(|hits| hits.packets).collect();
        assert_eq!(by_rule.iter().sum::<u64>(), 5, "each packet counts for a rule: {by_rule:?}");
        assert_eq!((counts.accepted.packets, counts.denied.packets), (2, 3));
    }
    // A later fragment has no state: it is let in only if the rules do so whatever its state is.
    let mut fragment = frame(17, server, inside, [0, 0]);
    fragment[21] = 9;
    for (rule, passes) in [("ct state != established drop", 0), ("ct state established accept", 1)] {
        let text = format!(
            "table inet f {{ chain forward {{ type filter hook forward priority 0; policy accept; iifname wan {rule}; }} }}"
        );
        let live = Arc::new(LiveRules::new(read(&text, ["lan", "wan"])?));
        let control = Control::default();
        let mut wire = MemoryWire::new(2, [(1, fragment.clone())], || control.stop());
        let (config, table) = settings();
        let (table, app) = (|_| LineHash::try_new(&table), |_| Gate::new(Arc::clone(&live)));
        let wires = vec![&mut wire];
        let run = run_wires(&config, &WireOptions::default(), wires, table, app, &control, None)?;
        assert!(run.is_balanced());
        assert_eq!(wire.left().len(), passes, "{rule}");
    }
    // A scan fills the table with flows that are denied, and closes nothing. What is not whole does
    // not pass.
    let scan = (1_000..3_000).map(|port| (1, frame(6, server, inside, [port, 80])));
    let mut malformed = frame(6, inside, server, [4001, 443]);
    malformed[14] = 0x44;
    let (out, arp) = (frame(6, inside, server, [4000, 443]), [&[0xFF; 12][..], &[8, 6], &[0; 46]].concat());
    let received = scan.chain([(0, out.clone()), (0, malformed), (0, arp.clone())]);
    let live = Arc::new(LiveRules::new(read(nft, ["lan", "wan"])?));
    let control = Control::default();
    let mut wire = MemoryWire::new(2, received, || control.stop());
    let (config, table) = settings();
    let table = TableOptions { flows: 500, ..table };
    let (table, app) = (|_| LineHash::try_new(&table), |_| Gate::new(Arc::clone(&live)));
    let options = WireOptions { no_flow: NO_FLOW, ..WireOptions::default() };
    let run = run_wires(&config, &options, vec![&mut wire], table, app, &control, None)?;
    assert!(run.is_balanced());
    assert_eq!(wire.left(), [(1, out), (1, arp)]);
    assert!(read("table inet f { chain forward { tcp dprot 22 drop; } }", ["lan", "wan"]).is_err());
    assert!(read("table inet f { chain input { drop; } }", ["lan", "wan"]).is_err(), "no such chain");
    Ok(())
}

/// Clients are behind the first port and servers behind the second: packets that claim to come from
/// the other side pass as they are.
#[cfg(target_os = "linux")]
#[test]
fn a_balancer_on_a_wire_changes_only_packets_of_their_side() -> Outcome {
    use std::sync::Mutex;

    use flowloom::engine::{Control, EngineConfig, Layout, WireOptions, run_wires};
    use flowloom::flow_key::FlowHasher;
    use flowloom::flow_table::{LineHash, TableOptions};
    use flowloom::packet::{DecodeOptions, FiveTuple, LinkType, MemoryWire, decode};
    use flowloom::scheduler::{MemberId, Members};
    use wire_balancer::balancer::Balancer;

    let (client, service, server) = ([10, 0, 0, 5], [192, 0, 2, 7], [192, 0, 2, 21]);
    let received = [
        (0, frame(6, client, service, [4000, 80])),
        (1, frame(6, server, client, [80, 4000])),
        (1, frame(6, client, service, [4001, 80])),
        (0, frame(6, server, client, [80, 4001])),
    ];
    let (mut members, hasher) = (Members::new(), FlowHasher::random());
    members.set(MemberId(0), 100)?;
    let members = Arc::new(Mutex::new(members));
    let control = Control::default();
    let mut wire = MemoryWire::new(2, received, || control.stop());
    let table = |_| LineHash::try_new(&TableOptions::for_flows(100));
    let app = |_| {
        Balancer::new(
            "192.0.2.7:80".parse().expect("an address"),
            &[(server.into(), [2; 6])],
            &members,
            &hasher,
        )
    };
    let (config, options) = (EngineConfig::new(Layout::Inline), WireOptions::default());
    let run = run_wires(&config, &options, vec![&mut wire], table, app, &control, None)?;

    assert!(run.is_balanced() && run.report.fault.is_none(), "{:?}", run.report.fault);
    let left = wire.left().iter().map(|(port, bytes)| {
        let headers = decode(LinkType::ETHERNET, bytes, DecodeOptions::default()).expect("an IP packet");
        (*port, headers.tuple())
    });
    let expected = [
        (1, FiveTuple::v4(client, server, 4000, 80, 6)),
        (0, FiveTuple::v4(service, client, 80, 4000, 6)),
        (0, FiveTuple::v4(client, service, 4001, 80, 6)),
        (1, FiveTuple::v4(server, client, 80, 4001, 6)),
    ];
    assert_eq!(left.collect::<Vec<_>>(), expected);
    Ok(())
}

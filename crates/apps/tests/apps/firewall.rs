//! Compares the firewall with a simple one: a map of flows, and a linear search of the rules.

use std::collections::HashMap;
use std::sync::Arc;

use flowloom_apps::firewall::{
    Defaults, Enforcement, Firewall, FirewallFlow, FirewallOptions, FirewallRules, Judgement, LiveRules,
    RulesError,
};
use flowloom_classifier::{Action, ClassifierBuilder, PortRange, PrefixV4, ProtocolMatch, Rule, RuleSet};
use flowloom_engine::record::Value;
use flowloom_engine::{App, Control, EngineConfig, Layout, Verdict, WireOptions, run_wires};
use flowloom_flow_key::{FiveTuple, FlowKey};
use flowloom_flow_table::{LineHash, TableOptions};
use flowloom_packet::{Headers, MemoryWire, PacketView};
use flowloom_rules::firewall::{Assume, Fragment, Packet};
use flowloom_rules::load::{self, LoadOptions, RuleFormat};
use flowloom_traffic::synth::MixConfig;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::support::{LAYOUTS, Memory, go, values};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet between very few hosts, so that flows match rules and each other.
#[derive(Clone, Copy, Debug)]
struct Sent {
    tuple: FiveTuple,
    tcp_flags: u8,
    later_fragment: bool,
    bytes: u32,
}

impl Sent {
    fn view(&self, time_ns: u64) -> PacketView<'static> {
        let (key, direction) = self.tuple.canonical();
        let mut headers = Headers::new(key, direction);
        headers.tcp_flags = self.tcp_flags.into();
        headers.later_fragment = self.later_fragment;
        (headers.network_offset, headers.transport_offset, headers.payload_offset) = (14, 34, 54);
        PacketView::new(&[], headers, time_ns, self.bytes)
    }
}

fn sent() -> impl Strategy<Value = Sent> {
    let flags = prop_oneof![Just(SYN), Just(SYN | ACK), Just(ACK), Just(4), Just(SYN | 4), Just(ACK | 1)];
    let protocol = prop_oneof![4 => Just(6_u8), 1 => Just(17), 1 => Just(1)];
    (0..3_u8, 0..3_u8, 0..3_u16, 0..3_u16, protocol, flags, prop::bool::weighted(0.1), 60..1500_u32)
        .prop_map(|(from, to, from_port, to_port, protocol, flags, later_fragment, bytes)| {
            let ports = if later_fragment { (0, 0) } else { (from_port, to_port) };
            Sent {
                tuple: FiveTuple::v4([10, 0, 0, from], [10, 0, 0, to], ports.0, ports.1, protocol),
                tcp_flags: if protocol == 6 && !later_fragment { flags } else { 0 },
                later_fragment,
                bytes,
            }
        })
}

fn rule() -> impl Strategy<Value = Rule> {
    let prefix = (0..3_u8, prop_oneof![Just(32_u32), Just(31), Just(0)])
        .prop_map(|(host, length)| PrefixV4::new(0x0a00_0000 + u128::from(host), length).unwrap());
    let ports = prop_oneof![
        2 => Just(PortRange::ANY),
        1 => (0..3_u16).prop_map(PortRange::exact),
        1 => Just(PortRange::new(1, 2).unwrap())
    ];
    let protocol = prop_oneof![Just(ProtocolMatch::ANY), Just(ProtocolMatch::exact(6))];
    let action = prop_oneof![Just(None), Just(Some(Action::Accept)), Just(Some(Action::Deny))];
    (prefix.clone(), prefix, ports.clone(), ports, protocol, action, -1..2_i32).prop_map(
        |(from, to, source_ports, destination_ports, protocol, action, priority)| Rule {
            source_ports,
            destination_ports,
            protocol,
            action,
            priority,
            ..Rule::v4(from, to)
        },
    )
}

fn defaults() -> impl Strategy<Value = Defaults> {
    let verdict = || prop_oneof![Just(Verdict::Accept), Just(Verdict::Deny)];
    (verdict(), verdict()).prop_map(|(unmatched, no_action)| Defaults { unmatched, no_action })
}

/// State of a flow in the simple firewall.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The direction that rules match.
    opener: FiveTuple,
    /// The rules and their answer; `None` before the first match.
    judged: Option<(usize, Judgement)>,
    is_open: bool,
}

/// Decides one packet. Returns `None` for a packet of a connection that was not opened.
fn plain(
    flows: &mut HashMap<FlowKey, Known>,
    packet: &Sent,
    rules: &FirewallRules,
    age: usize,
    options: FirewallOptions,
) -> Option<Judgement> {
    let judge = |tuple: &FiveTuple| {
        let fragment = if packet.later_fragment { Fragment::Later } else { Fragment::Whole };
        rules.judge_packet(Packet::new(*tuple).with_fragment(fragment))
    };
    let own = judge(&packet.tuple);
    if options.per_packet {
        return Some(own);
    }
    let is_tcp = packet.tuple.protocol == 6 && !packet.later_fragment;
    let asks = is_tcp && packet.tcp_flags & 0b1_0111 == SYN;
    let fresh = Known { opener: packet.tuple, judged: None, is_open: false };
    let flow = flows.entry(packet.tuple.canonical().0).or_insert(fresh);
    if options.strict_tcp && is_tcp && !flow.is_open {
        if !asks {
            return None;
        }
        *flow = Known { is_open: true, ..fresh };
    }
    let mut known = match flow.judged {
        Some((by, known)) if by == age => known,
        _ => judge(&flow.opener),
    };
    let mut answer = known;
    if asks && flow.opener != packet.tuple {
        answer = own;
        if known.verdict == Verdict::Deny && own.verdict == Verdict::Accept {
            (flow.opener, known) = (packet.tuple, own);
        }
    }
    flow.judged = Some((age, known));
    Some(answer)
}

proptest! {
    #[test]
    fn every_packet_gets_the_verdict_of_a_plain_firewall(
        packets in vec(sent(), 1..120),
        sets in vec(vec(rule(), 0..6), 1..4),
        defaults in defaults(),
        per_packet in prop::bool::weighted(0.25),
        strict_tcp: bool,
    ) {
        let options = FirewallOptions { per_packet, strict_tcp };
        let sets: Vec<RuleSet> = sets.into_iter().map(|rules| RuleSet::new(rules).unwrap()).collect();
        let build = |age: usize| {
            FirewallRules::build(sets[age].clone(), defaults, ClassifierBuilder::new()).unwrap()
        };
        let live = Arc::new(LiveRules::new(build(0)));
        let mut firewall = Firewall::new(Arc::clone(&live), options);
        let mut states: HashMap<FlowKey, FirewallFlow> = HashMap::new();
        let mut known = HashMap::new();
        let mut expected = [(0, 0); 2];
        let (mut not_opened, mut unmatched, mut last_numbers) = (0, 0, vec![]);
        let share = packets.len().div_ceil(sets.len());
        for (at, packet) in packets.iter().enumerate() {
            let age = at / share;
            if at > 0 && at % share == 0 {
                live.replace(build(age));
                last_numbers.clear();
            }
            let view = packet.view(at as u64);
            let verdict = firewall.on_packet(&view, states.entry(view.headers.key).or_default());
            let scanning = FirewallRules::scanning(sets[age].clone(), defaults);
            let answer = plain(&mut known, packet, &scanning, age, options);
            prop_assert_eq!(verdict, answer.map_or(Verdict::Deny, |answer| answer.verdict), "packet {}", at);
            let sum = &mut expected[usize::from(verdict == Verdict::Deny)];
            *sum = (sum.0 + 1, sum.1 + u64::from(packet.bytes));
            match answer {
                Some(Judgement { number, .. }) => {
                    unmatched += u64::from(number == 0);
                    last_numbers.push(number);
                }
                None => not_opened += 1,
            }
        }
        drop(firewall);
        let counts = live.counts();
        prop_assert_eq!((counts.accepted.packets, counts.accepted.bytes), expected[0]);
        prop_assert_eq!((counts.denied.packets, counts.denied.bytes), expected[1]);
        prop_assert_eq!((counts.not_opened.packets, counts.unmatched.packets), (not_opened, unmatched));
        prop_assert_eq!(counts.accepted.flows + counts.denied.flows, states.len() as u64);
        prop_assert_eq!(counts.generation, live.generation());
        if per_packet && sets.len() == 1 {
            prop_assert_eq!(counts.by_rule.iter().map(|hits| hits.flows).sum::<u64>(), states.len() as u64);
        }
        for (number, hits) in (0..).zip(&counts.by_rule) {
            let expected = last_numbers.iter().filter(|&&last| last == number).count();
            prop_assert_eq!(hits.packets, expected as u64, "rule {}", number);
        }
        for (at, (expected, _)) in expected.into_iter().enumerate() {
            let sum: u64 = states.values().map(|flow| flow.packets()[at]).sum();
            prop_assert_eq!(sum, expected);
        }
    }
}

fn web_only() -> FirewallRules {
    let web = Rule {
        destination_ports: PortRange::exact(80),
        protocol: ProtocolMatch::exact(6),
        ..Rule::v4(PrefixV4::new(0x0a00_0001, 32).unwrap(), PrefixV4::ANY)
    };
    let set = RuleSet::new(vec![web]).unwrap();
    FirewallRules::build(set, Defaults::default(), ClassifierBuilder::new()).unwrap()
}

/// Passes packets of one flow to a firewall, each as (from the client, flags).
fn talk(options: FirewallOptions, client: [u8; 4], packets: &[(bool, u8)]) -> (String, FirewallFlow) {
    let mut firewall = Firewall::new(Arc::new(LiveRules::new(web_only())), options);
    let mut flow = FirewallFlow::default();
    let there = FiveTuple::v4(client, [10, 0, 0, 2], 5000, 80, 6);
    let mut verdicts = String::new();
    for (time, &(from_client, tcp_flags)) in (0..).zip(packets) {
        let tuple = if from_client { there } else { there.reversed() };
        let packet = Sent { tuple, tcp_flags, later_fragment: false, bytes: 60 };
        let verdict = firewall.on_packet(&packet.view(time), &mut flow);
        verdicts.push(if verdict == Verdict::Accept { 'a' } else { 'd' });
    }
    (verdicts, flow)
}

#[test]
fn replies_pass_and_connections_from_outside_are_denied() {
    let handshake =
        [(true, SYN), (false, SYN | ACK), (true, ACK), (false, ACK), (false, SYN), (false, ACK)];
    let usual = FirewallOptions::default();
    let (verdicts, flow) = talk(usual, [10, 0, 0, 1], &handshake);
    assert_eq!(verdicts, "aaaada", "a SYN from the server opens a connection of its own");
    assert_eq!(values(&flow)[..3], [Value::Word("mixed"), Value::Number(1), Value::Word("low")]);
    assert_eq!(talk(usual, [10, 0, 0, 3], &handshake).0, "dddddd");
    let word = |client, packets: &[_]| values(&talk(usual, client, packets).1).swap_remove(0);
    assert_eq!(word([10, 0, 0, 1], &handshake[..4]), Value::Word("accept"));
    assert_eq!(word([10, 0, 0, 3], &handshake), Value::Word("deny"));
    assert_eq!(word([10, 0, 0, 1], &[]), Value::Word("-"));
    let each = FirewallOptions { per_packet: true, ..usual };
    assert_eq!(talk(each, [10, 0, 0, 1], &handshake).0, "adaddd", "replies have no rule");
    // The server sent first and was denied. The client may still connect.
    assert_eq!(
        talk(usual, [10, 0, 0, 1], &[(false, ACK), (true, ACK), (true, SYN), (false, ACK)]).0,
        "ddaa"
    );
}

#[test]
fn strict_tcp_denies_connections_without_a_syn() {
    let strict = FirewallOptions { strict_tcp: true, ..FirewallOptions::default() };
    let midstream = [(true, ACK), (false, ACK), (true, SYN), (false, SYN | ACK), (true, ACK)];
    assert_eq!(talk(strict, [10, 0, 0, 1], &midstream).0, "ddaaa");
    assert_eq!(talk(FirewallOptions::default(), [10, 0, 0, 1], &midstream).0, "aaaaa");
    assert_eq!(talk(strict, [10, 0, 0, 1], &[(false, SYN | ACK), (true, SYN), (true, ACK)]).0, "daa");
    assert_eq!(talk(strict, [10, 0, 0, 3], &midstream).0, "ddddd");
}

#[test]
fn rules_state_the_verdict_of_unmatched_packets() {
    let defaults = Defaults { unmatched: Verdict::Accept, ..Defaults::default() };
    assert_ne!(defaults, Defaults::default());
    assert_eq!(FirewallRules::scanning(RuleSet::default(), defaults).defaults(), defaults);
}

#[test]
fn a_connection_that_opens_on_a_flow_of_fragments_is_judged_by_its_opener() {
    let from = |host: u128| Rule::v4(PrefixV4::new(0x0a00_0000 + host, 32).unwrap(), PrefixV4::ANY);
    let set = RuleSet::new(vec![from(1)]).unwrap();
    let live = LiveRules::new(FirewallRules::scanning(set, Defaults::default()));
    let options = FirewallOptions { strict_tcp: true, ..FirewallOptions::default() };
    let mut firewall = Firewall::new(Arc::new(live), options);
    let mut flow = FirewallFlow::default();
    // Fragments without ports have port 0, and belong to the same flow.
    let back = FiveTuple::v4([10, 0, 0, 2], [10, 0, 0, 1], 0, 0, 6);
    let fragment = Sent { tuple: back, tcp_flags: 0, later_fragment: true, bytes: 60 };
    let syn = Sent { tuple: back.reversed(), tcp_flags: SYN, later_fragment: false, bytes: 60 };
    assert_eq!(firewall.on_packet(&fragment.view(0), &mut flow), Verdict::Deny);
    assert_eq!(firewall.on_packet(&syn.view(1), &mut flow), Verdict::Accept);
    assert_eq!(firewall.on_packet(&fragment.view(2), &mut flow), Verdict::Accept, "a reply");
}

#[test]
fn records_state_the_rule_set_of_their_rule_number() {
    for per_packet in [false, true] {
        let live = Arc::new(LiveRules::new(web_only()));
        let options = FirewallOptions { per_packet, ..FirewallOptions::default() };
        let mut firewall = Firewall::new(Arc::clone(&live), options);
        let mut flow = FirewallFlow::default();
        assert_eq!((flow.rule(), flow.generation()), (0, 0));
        let tuple = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 5000, 80, 6);
        let packet = Sent { tuple, tcp_flags: SYN, later_fragment: false, bytes: 60 };
        firewall.on_packet(&packet.view(0), &mut flow);
        assert_eq!((flow.rule(), flow.generation()), (1, 1));
        live.replace(FirewallRules::scanning(RuleSet::default(), Defaults::default()));
        assert_eq!((flow.rule(), flow.generation()), (1, 1), "it has sent nothing since");
        firewall.on_packet(&packet.view(1), &mut flow);
        assert_eq!((flow.rule(), flow.generation()), (0, 2));
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_workers() {
    let config = MixConfig { flows: 400, packets: 8000, seed: 3, ..MixConfig::default() };
    let source = Memory::new(config);
    let half = Rule { protocol: ProtocolMatch::exact(6), ..Rule::v4(PrefixV4::ANY, PrefixV4::ANY) };
    let even = Rule { destination_ports: PortRange::new(0, 443).unwrap(), ..half };
    for options in [
        FirewallOptions::default(),
        FirewallOptions { strict_tcp: true, ..FirewallOptions::default() },
        FirewallOptions { per_packet: true, ..FirewallOptions::default() },
    ] {
        let mut seen = Vec::new();
        for mode in LAYOUTS {
            let set = RuleSet::new(vec![even]).unwrap();
            let rules = FirewallRules::build(set, Defaults::default(), ClassifierBuilder::new()).unwrap();
            let live = Arc::new(LiveRules::new(rules));
            let report = go(&source, mode, Some(50_000_000), || Firewall::new(Arc::clone(&live), options));
            let (counts, totals) = (live.counts(), report.worker_totals());
            assert_eq!(counts.accepted.packets + counts.denied.packets, totals.processed);
            assert_eq!(counts.denied.packets, totals.denied);
            assert_eq!(counts.accepted.flows + counts.denied.flows, totals.flows_begun);
            assert!(counts.accepted.packets > 100 && counts.denied.packets > 100, "{counts:?}");
            seen.push((report.digest(), counts));
        }
        assert!(seen.windows(2).all(|pair| pair[0] == pair[1]), "{options:?}: {seen:#?}");
    }
}

#[test]
fn packet_enters_by_the_interface_of_its_port_and_leaves_by_the_other() {
    let text = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i eth0 -o eth1 -p udp -j ACCEPT\nCOMMIT\n";
    let asked = LoadOptions { chain: Some(String::from("FORWARD")), ..LoadOptions::default() };
    let policy = load::load(text, RuleFormat::Iptables, &asked).unwrap();
    let rules = |ports: Option<[String; 2]>| {
        let assume = ports.is_none().then_some(Assume::NoMatch);
        let enforcement = Enforcement { ports, assume, ..Enforcement::default() };
        let builder = ClassifierBuilder::new();
        FirewallRules::of_policy(policy.clone(), Defaults::default(), enforcement, builder).unwrap()
    };
    let names = || Some(["eth0", "eth1"].map(String::from));
    let packet = |from: u8, port: u16| {
        let tuple = FiveTuple::v4([10, 0, 0, from], [10, 0, 0, 3 - from], 7, 7, 17);
        let mut view = Sent { tuple, tcp_flags: 0, later_fragment: false, bytes: 60 }.view(0);
        view.port = port;
        view
    };
    for per_packet in [false, true] {
        let live = Arc::new(LiveRules::new(rules(names())));
        let options = FirewallOptions { per_packet, ..FirewallOptions::default() };
        let mut app = Firewall::new(Arc::clone(&live), options);
        let mut flow = FirewallFlow::default();
        let replies = if per_packet { Verdict::Deny } else { Verdict::Accept };
        assert_eq!(app.on_packet(&packet(1, 0), &mut flow), Verdict::Accept);
        assert_eq!(app.on_packet(&packet(2, 1), &mut flow), replies);
        // A reply is the first packet that new rules see of a flow.
        live.replace(rules(names()));
        assert_eq!(app.on_packet(&packet(2, 1), &mut flow), replies);
        let mut other = FirewallFlow::default();
        assert_eq!(app.on_packet(&packet(2, 1), &mut other), Verdict::Deny, "from the other side");
        live.replace(rules(None));
        let mut unknown = FirewallFlow::default();
        assert_eq!(app.on_packet(&packet(1, 0), &mut unknown), Verdict::Deny, "by no interface");
    }
}

#[test]
fn packet_without_a_state_is_denied_where_its_state_decides_and_counted() {
    let cases = [
        ("ct state established accept; accept", false),
        ("ct state != established drop; accept", true),
        // The verdict is the same if both match and if neither does, but not if one does.
        ("ct state established accept; ct state invalid drop; accept", true),
        ("ct state established jump more; accept", true),
    ];
    for (chain, is_undecided) in cases {
        let text = format!(
            "table inet f {{ chain more {{ drop; }}\n chain input {{ type filter hook input priority 0; policy drop; {chain}; }} }}"
        );
        let build = |scans: bool| {
            let policy = load::load(&text, RuleFormat::Nft, &LoadOptions::default()).unwrap();
            let (defaults, enforcement) = (Defaults::default(), Enforcement::default());
            if scans {
                return FirewallRules::scanning_policy(policy, defaults, enforcement).unwrap();
            }
            FirewallRules::of_policy(policy, defaults, enforcement, ClassifierBuilder::new()).unwrap()
        };
        for scans in [false, true] {
            let live = Arc::new(LiveRules::new(build(scans)));
            let mut app = Firewall::new(Arc::clone(&live), FirewallOptions::default());
            let tuple = FiveTuple::v4([10, 0, 0, 1], [10, 0, 0, 2], 0, 0, 17);
            let fragment = Sent { tuple, tcp_flags: 0, later_fragment: true, bytes: 60 }.view(0);
            let verdict = app.on_packet(&fragment, &mut FirewallFlow::default());
            assert_eq!(verdict == Verdict::Deny, is_undecided, "{chain}");
            let counts = live.counts();
            assert_eq!(counts.undecided.packets, u64::from(is_undecided), "{chain}");
            assert_eq!(counts.accepted.packets + counts.denied.packets, 1, "{chain}");
        }
    }
}

#[test]
fn rules_that_packets_do_not_decide_are_refused_unless_an_assumption_is_chosen() {
    let build = |form, text: &str, enforcement| {
        let policy = load::load(text, form, &LoadOptions::default()).unwrap();
        FirewallRules::of_policy(policy, Defaults::default(), enforcement, ClassifierBuilder::new())
    };
    let nft = |rule| {
        format!(
            "table inet f {{ chain input {{\n  type filter hook input priority 0; policy accept\n  {rule}\n}} }}"
        )
    };
    let refused = [
        (RuleFormat::Nft, nft("ip saddr 10.0.0.99 limit rate over 5/second drop")),
        (RuleFormat::Nft, nft("fib daddr type local drop")),
        (RuleFormat::Nft, nft("tcp dprot 22 drop")),
        (RuleFormat::Nft, nft("iifname wan tcp dport 22 drop")),
        (RuleFormat::Iptables, "*filter\n:INPUT ACCEPT\n-A INPUT --ctstat NEW -j DROP\nCOMMIT\n".into()),
    ];
    for (form, text) in &refused {
        let error = build(*form, text, Enforcement::default()).expect_err(text);
        assert!(matches!(&error, RulesError::Undecided { first, .. } if first[0].0 == 3), "{error}");
        let chosen = Enforcement { assume: Some(Assume::Match), ..Enforcement::default() };
        let rules = build(*form, text, chosen).expect(text);
        let tuple = FiveTuple::v4([10, 0, 0, 99], [10, 0, 0, 1], 9, 22, 6);
        assert_eq!(rules.judge(&tuple).verdict, Verdict::Deny, "{text}");
    }
    let ports = Some(["lan", "wan"].map(String::from));
    let known = Enforcement { ports, ..Enforcement::default() };
    assert!(build(RuleFormat::Nft, &refused[3].1, known).is_ok());
    let error = build(RuleFormat::Nft, &refused[3].1, Enforcement::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 condition cannot be decided from packets alone\n  line 3: in wan\n  correct misspelt \
         conditions; name the interfaces in Enforcement::ports, or input and output; \
         Enforcement::assume decides all of them"
    );
}

#[test]
fn a_chain_that_the_text_lacks_is_refused() {
    let asked = LoadOptions { chain: Some(String::from("forwrad")), ..LoadOptions::default() };
    for (form, text) in [
        (RuleFormat::Nft, "table inet f { chain forward {\n  tcp dport 22 drop\n} }"),
        (RuleFormat::Iptables, "*filter\n:FORWARD ACCEPT\n-A FORWARD -p tcp -j DROP\nCOMMIT\n"),
        (RuleFormat::Nft, ""),
    ] {
        let policy = load::load(text, form, &asked).unwrap();
        let builder = ClassifierBuilder::new();
        let rules = FirewallRules::of_policy(policy, Defaults::default(), Enforcement::default(), builder);
        assert_eq!(rules.unwrap_err(), RulesError::Empty, "{text}");
    }
}

#[test]
fn text_of_a_rule_has_all_alternatives_that_count_for_it() {
    let text = "table inet f { chain forward { type filter hook forward priority 0; policy drop;\n\
                tcp dport vmap { 23 : drop, 2323 : drop, 80 : accept }\n} }";
    let asked = LoadOptions { chain: Some(String::from("forward")), ..LoadOptions::default() };
    let policy = load::load(text, RuleFormat::Nft, &asked).unwrap();
    let builder = ClassifierBuilder::new();
    let rules =
        FirewallRules::of_policy(policy, Defaults::default(), Enforcement::default(), builder).unwrap();
    for port in [23, 2323, 80] {
        let number = rules.judge(&FiveTuple::v4([1; 4], [2; 4], 9, port, 6)).number;
        let text = rules.text(number);
        assert!(text.split(" or ").any(|one| one.ends_with(&format!("dport {port}"))), "{port}: {text}");
    }
}

#[test]
fn scan_that_fills_the_table_ends_no_accepted_flow_and_blocks_no_new_one() {
    let live = Arc::new(LiveRules::new(web_only()));
    let config = EngineConfig::new(Layout::Inline);
    let frame = |source: [u8; 4], port: u16| {
        let head = [&[2; 12][..], &[8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 6, 0, 0]].concat();
        let [high, low] = port.to_be_bytes();
        let tcp = [high, low, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, SYN, 0, 0, 0, 0, 0, 0];
        (0, [&head[..], &source, &[9; 4], &tcp].concat())
    };
    let first = frame([10, 0, 0, 1], 1);
    let scan = (1..2_000).map(|port| frame([66, 0, 0, 1], port));
    let frames: Vec<_> =
        [first.clone()].into_iter().chain(scan).chain([frame([10, 0, 0, 1], 2), first]).collect();
    let control = Control::default();
    let mut wire = MemoryWire::new(2, frames, || control.stop());
    let table = |_| LineHash::try_new(&TableOptions::for_flows(200));
    let app = |_| Firewall::new(Arc::clone(&live), FirewallOptions::default());
    let run =
        run_wires(&config, &WireOptions::default(), vec![&mut wire], table, app, &control, None).unwrap();
    assert!(run.is_balanced() && run.report.fault.is_none());
    assert_eq!((wire.left().len(), live.counts().accepted.flows), (3, 2), "{:?}", run.decisions);
}

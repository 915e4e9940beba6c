//! Comparing, minimising and checking small policies, beside all packets that there are.
//!
//! The rules match few values of each field, so one packet for each combination of them, and of one
//! other value, represents all packets.

use std::collections::BTreeSet;

use flowloom_classifier::{Action, FiveTuple, RuleId};
use flowloom_rules::firewall::{
    Assume, Chain, ChainRule, Chains, CompareDefaults, Conditions, ConnectionState, Families, Fragment,
    Packet, Policy, Ranges, Target, Test, TestKind, has_ports,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// Rules match addresses below this.
const ADDRESSES: u8 = 3;
/// Rules match ports below this.
const PORTS: u16 = 2;
/// TCP flags that rules match.
const FLAGS: [u8; 4] = [0, 2, 16, 18];
/// Two protocols that rules ask for; and one with ports and one without, that stand for all others.
const PROTOCOLS: [u8; 4] = [6, 17, 132, 47];

fn up_to(max: u128) -> impl Strategy<Value = Ranges> {
    (0..max, 0..max).prop_map(|(a, b)| Ranges::new([(a.min(b), a.max(b))]))
}

fn tests() -> impl Strategy<Value = Test> {
    let flags = || proptest::sample::select(&FLAGS[..]);
    let kind = prop_oneof![
        (flags(), flags()).prop_map(|(mask, value)| TestKind::TcpFlags { mask, value: value & mask }),
        (1_u8..32).prop_map(TestKind::State),
        (1_u8..8).prop_map(TestKind::Fragment),
        up_to(PORTS.into()).prop_map(TestKind::EitherPort),
    ];
    (kind, any::<bool>()).prop_map(|(kind, not)| Test::new(kind, not))
}

fn conditions() -> impl Strategy<Value = Conditions> {
    use proptest::option::weighted;
    let address = || weighted(0.5, up_to(ADDRESSES.into()));
    let port = || weighted(0.3, up_to(PORTS.into()));
    let protocol = weighted(0.4, proptest::sample::select(&PROTOCOLS[..2]));
    let fields = (address(), address(), any::<bool>(), protocol, port(), port());
    let rest = (weighted(0.3, any::<bool>()), proptest::collection::vec(tests(), 0..2));
    (fields, rest).prop_map(|((source, destination, is_v6, protocol, from, to), (family, tests))| {
        let mut conditions = Conditions::default();
        match family {
            Some(true) => conditions.families = Families::V6,
            Some(false) => conditions.families = Families::V4,
            None => {}
        }
        for (is_destination, set) in [(false, source), (true, destination)] {
            if let Some(set) = set {
                conditions.ask_address(is_destination, is_v6, &set);
            }
        }
        if let Some(protocol) = protocol {
            conditions.ask_protocol(&Ranges::exact(protocol.into()));
        }
        for (is_destination, set) in [(false, from), (true, to)] {
            if let Some(set) = set {
                conditions.ask_port(is_destination, &set);
            }
        }
        for test in tests {
            conditions.ask(test);
        }
        conditions
    })
}

/// A chain, and one that it may jump to; and the lines of the rules that decide.
fn policies() -> impl Strategy<Value = (Policy, BTreeSet<usize>)> {
    let rules = || proptest::collection::vec((conditions(), 0_u8..10), 0..6);
    (rules(), rules(), any::<bool>()).prop_map(|(first, second, has_policy)| {
        let (mut line, mut deciding) = (1, BTreeSet::new());
        let mut chain = |name: &str, list: Vec<(Conditions, u8)>, may_jump: bool| {
            let rule = |(conditions, what)| {
                line += 1;
                let target = match what {
                    0 if may_jump => Target::Jump(String::from("second")),
                    1 if may_jump => Target::Goto(String::from("second")),
                    2 => Target::Return,
                    3..=5 => Target::Decide { action: Action::Deny, value: 0 },
                    _ => Target::Decide { action: Action::Accept, value: 1 },
                };
                if matches!(target, Target::Decide { .. }) {
                    deciding.insert(line);
                }
                ChainRule::new(conditions, target, line)
            };
            let policy = (has_policy && may_jump).then_some((Action::Deny, 0, 1));
            Chain { name: name.to_owned(), rules: list.into_iter().map(rule).collect(), policy }
        };
        let chains = vec![chain("first", first, true), chain("second", second, false)];
        let (mut entries, mut sources) = (Vec::new(), Vec::new());
        Chains { chains, families: None }
            .flatten("first", 1000, &mut entries, &mut sources)
            .expect("few rules and no circle");
        (Policy::new(entries, sources, Vec::new()).expect("few boxes"), deciding)
    })
}

/// Returns one packet for each combination of values that a policy can distinguish.
fn all_packets() -> Vec<Packet<'static>> {
    let mut packets = Vec::new();
    let address = |last: u8| core::array::from_fn(|i| if i == 15 { last } else { 0 });
    for is_v6 in [false, true] {
        for pair in 0..(ADDRESSES + 1).pow(2) {
            let (from, to) = (pair / (ADDRESSES + 1), pair % (ADDRESSES + 1));
            for protocol in PROTOCOLS {
                for fragment in [Fragment::Whole, Fragment::First, Fragment::Later, Fragment::Second] {
                    let is_first = !fragment.is_later();
                    let ports = if has_ports(protocol) && is_first { PORTS + 1 } else { 1 };
                    let flags = if protocol == 6 && is_first { &FLAGS[..] } else { &FLAGS[..1] };
                    for (ports, &flags) in
                        (0..ports * ports).flat_map(|pair| flags.iter().map(move |flags| (pair, flags)))
                    {
                        let side = if has_ports(protocol) && is_first { PORTS + 1 } else { 1 };
                        let (sport, dport) = (ports / side, ports % side);
                        let tuple = if is_v6 {
                            FiveTuple::v6(address(from), address(to), sport, dport, protocol)
                        } else {
                            FiveTuple::v4([0, 0, 0, from], [0, 0, 0, to], sport, dport, protocol)
                        };
                        for state in ConnectionState::ALL {
                            let mut packet = Packet::new(tuple).with_fragment(fragment);
                            (packet.tcp_flags, packet.state) = (Some(flags), Some(state));
                            packets.push(packet);
                        }
                    }
                }
            }
        }
    }
    packets
}

fn verdict(policy: &Policy, packet: &Packet<'_>) -> Action {
    let rule = policy.first_match(packet, Assume::NoMatch).and_then(|id| policy.set().get(id));
    rule.and_then(|rule| rule.action).unwrap_or(CompareDefaults::default().unmatched)
}

/// Compares so many pairs of policies with what all packets show.
fn agree(pairs: u32) {
    let packets = all_packets();
    assert!(packets.len() > 10_000, "{}", packets.len());
    let (mut equivalent, mut different, mut dead_rules) = (0, 0, 0);
    let counts = std::cell::RefCell::new((&mut equivalent, &mut different, &mut dead_rules));
    let mut runner =
        TestRunner::new(Config { cases: pairs, failure_persistence: None, ..Config::default() });
    let outcome =
        runner.run(&(policies(), policies(), 0_u8..3), |((first, deciding), (other, _), kind)| {
            let smaller = first.minimised(1 << 30).expect("fewer rules");
            prop_assert_eq!(smaller.undecided, 0);
            // A third of the pairs mean the same, which two drawn policies hardly ever do.
            let second = if kind == 0 { smaller.policy.clone() } else { other };
            let comparison = first.compare(&second, CompareDefaults::default(), 1 << 28, 1000);
            prop_assert!(!comparison.is_undecided);
            let mut differs = false;
            let mut deciders = BTreeSet::new();
            for packet in &packets {
                let of_first = verdict(&first, packet);
                prop_assert_eq!(of_first, verdict(&smaller.policy, packet), "minimised: {:?}", packet);
                differs |= of_first != verdict(&second, packet);
                let found = first.first_match(packet, Assume::NoMatch);
                deciders.extend(found.map(|id| first.source_index(id)));
            }
            prop_assert_eq!(comparison.are_equivalent(), Some(!differs));
            for difference in &comparison.differences {
                let packet = difference.witness.packet();
                let verdicts = [&first, &second].map(|policy| verdict(policy, &packet));
                prop_assert_eq!(
                    verdicts,
                    [difference.first.1, difference.second.1],
                    "{}",
                    difference.witness
                );
                prop_assert!(verdicts[0] != verdicts[1], "{}", difference.witness);
            }
            // A rule that could decide and decides no packet is found, and no other rule.
            let is_deciding = |at: &usize| deciding.contains(&first.sources()[*at].line);
            let odd = first.check(1 << 30, |_| ()).oddities;
            let dead: BTreeSet<usize> =
                odd.iter().map(|odd| first.source_index(odd.rule())).filter(is_deciding).collect();
            let all = (0..).take(first.set().len()).map(|id| first.source_index(RuleId(id)));
            let never: BTreeSet<usize> =
                all.filter(|at| is_deciding(at) && !deciders.contains(at)).collect();
            prop_assert_eq!(&dead, &never);
            let mut counts = counts.borrow_mut();
            *counts.0 += u32::from(!differs);
            *counts.1 += u32::from(differs);
            *counts.2 += dead.len();
            Ok(())
        });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    eprintln!("{pairs} pairs: {equivalent} equivalent, {different} different; {dead_rules} dead rules");
    assert!(equivalent > pairs / 5 && different > pairs / 5 && dead_rules > 0, "no test of anything");
}

#[test]
fn policy_operations_agree_with_exhaustive_evaluation() {
    agree(40);
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_policy_pairs_agree_with_exhaustive_evaluation() {
    agree(10_000);
}

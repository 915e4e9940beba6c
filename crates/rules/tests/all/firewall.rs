//! Compares policies with an interpreter that walks chains rule by rule, like the kernel.

use flowloom_classifier::{Action, AnyKey, ClassifierBuilder, FiveTuple, Match};
use flowloom_rules::firewall::{
    Assume, Chain, ChainRule, Chains, CompareDefaults, Conditions, ConnectionState, Families, FlattenError,
    Fragment, InterfacePattern, Packet, Policy, PolicyMatcher, Ranges, Target, Test, TestKind, Truth,
    has_ports,
};
use proptest::prelude::*;

/// The result of a walk.
enum Walk {
    Decided(usize),
    Returned,
}

/// Walks a chain like the kernel.
fn walk(chains: &Chains, chain: &Chain, packet: &Packet<'_>, assume: Assume) -> Walk {
    for rule in &chain.rules {
        let holds = match rule.conditions.matches(packet) {
            Truth::Yes => true,
            Truth::Maybe => assume == Assume::Match,
            Truth::No => false,
        };
        if !holds {
            continue;
        }
        let find = |name: &str| chains.chains.iter().find(|chain| chain.name == name).expect("a chain");
        match &rule.target {
            Target::Decide { .. } => return Walk::Decided(rule.line),
            Target::Pass => {}
            Target::Return => return Walk::Returned,
            Target::Goto(name) => return walk(chains, find(name), packet, assume),
            Target::Jump(name) => {
                if let Walk::Decided(line) = walk(chains, find(name), packet, assume) {
                    return Walk::Decided(line);
                }
            }
        }
    }
    Walk::Returned
}

fn ranges(max: u128) -> impl Strategy<Value = Ranges> {
    proptest::collection::vec((0..=max, 0..=max), 1..4).prop_map(move |list| {
        let list = Ranges::new(list.into_iter().map(|(a, b)| (a.min(b), a.max(b))));
        if list.is_empty() { Ranges::exact(max) } else { list }
    })
}

fn tests() -> impl Strategy<Value = Test> {
    let kind = prop_oneof![
        (any::<u8>(), any::<u8>())
            .prop_map(|(mask, value)| TestKind::TcpFlags { mask, value: value & mask }),
        (1_u8..32).prop_map(TestKind::State),
        (1_u8..8).prop_map(TestKind::Fragment),
        ranges(3).prop_map(TestKind::EitherPort),
        prop_oneof![Just("a"), Just("ab"), Just("a+")]
            .prop_map(|name| TestKind::Input(vec![InterfacePattern::new(name, '+')])),
        (any::<bool>(), ranges(3)).prop_map(|(is_v6, codes)| TestKind::Icmp { is_v6, codes }),
        Just(TestKind::Unknowable(String::from("limit"))),
        (ranges(3), any::<bool>()).prop_map(|(ports, is_destination)| {
            let mut one = Conditions::default();
            one.ask_port(is_destination, &ports);
            TestKind::AnyOf(vec![one])
        }),
    ];
    (kind, any::<bool>()).prop_map(|(kind, not)| Test::new(kind, not))
}

/// Conditions over few values, so that rules overlap.
fn conditions() -> impl Strategy<Value = Conditions> {
    use proptest::option::weighted;
    let fields = (
        weighted(0.5, (any::<bool>(), ranges(7))),
        weighted(0.3, ranges(7)),
        weighted(
            0.4,
            prop_oneof![Just(Ranges::exact(6)), Just(Ranges::new([(0, 16), (18, 255)])), ranges(20)],
        ),
        weighted(0.3, ranges(3)),
        weighted(0.3, prop_oneof![ranges(3), Just(Ranges::up_to(65_535))]),
        proptest::collection::vec(tests(), 0..2),
        weighted(0.2, any::<bool>()),
    );
    fields.prop_map(|(source, destination, protocols, from, to, tests, family)| {
        let mut conditions = Conditions::default();
        if let Some(is_v6) = family {
            conditions.families = if is_v6 { Families::V6 } else { Families::V4 };
        }
        if let Some((is_v6, set)) = &source {
            conditions.ask_address(false, *is_v6, set);
            if let Some(set) = destination {
                conditions.ask_address(true, *is_v6, &set);
            }
        }
        if let Some(set) = &protocols {
            conditions.ask_protocol(set);
        }
        if let Some(set) = &from {
            conditions.ask_port(false, set);
        }
        if let Some(set) = &to {
            conditions.ask_port(true, set);
        }
        for test in tests {
            conditions.ask(test);
        }
        conditions
    })
}

/// Chains that jump only to later ones; every rule has its own line.
fn chains() -> impl Strategy<Value = Chains> {
    let rule = (conditions(), 0_u8..10, 0_usize..8);
    let lists = proptest::collection::vec(proptest::collection::vec(rule, 0..7), 1..5);
    (lists, any::<bool>()).prop_map(|(lists, has_policy)| {
        let count = lists.len();
        let mut line = 1;
        let chain = |(index, list): (usize, Vec<(Conditions, u8, usize)>)| {
            let rules = list.into_iter().map(|(conditions, what, to)| {
                line += 1;
                let later = index + 1 + to;
                let name = format!("c{later}");
                let target = match what {
                    0 | 1 if later < count => Target::Jump(name),
                    2 if later < count => Target::Goto(name),
                    3 | 4 => Target::Return,
                    5 => Target::Decide { action: Action::Deny, value: 0 },
                    _ => Target::Decide { action: Action::Accept, value: 1 },
                };
                ChainRule::new(conditions, target, line)
            });
            let rules = rules.collect();
            let policy = (has_policy && index == 0).then_some((Action::Deny, 0, 1));
            Chain { name: format!("c{index}"), rules, policy }
        };
        Chains { chains: lists.into_iter().enumerate().map(chain).collect(), families: None }
    })
}

fn packets() -> impl Strategy<Value = Packet<'static>> {
    let protocol = prop_oneof![Just(6_u8), Just(17), Just(1), Just(58), Just(136), 0_u8..21];
    let address = (any::<bool>(), 0_u8..9, 0_u8..9, 0_u16..5, 0_u16..5);
    let flags = proptest::option::of(any::<u8>());
    let state = proptest::option::of(proptest::sample::select(ConnectionState::ALL.to_vec()));
    let fragment = prop_oneof![3 => Just(Fragment::Whole), 1 => Just(Fragment::First), 2 => Just(Fragment::Later), 1 => Just(Fragment::Second)];
    let input = proptest::option::of(prop_oneof![Just("a"), Just("ab"), Just("b")]);
    (protocol, address, flags, state, fragment, input, proptest::option::of((0_u8..1, 0_u8..5))).prop_map(
        |(protocol, (is_v6, from, to, sport, dport), flags, state, fragment, input, icmp)| {
            let has = has_ports(protocol) && !fragment.is_later();
            let (sport, dport) = if has { (sport, dport) } else { (0, 0) };
            let tuple = if is_v6 {
                let last = |value: u8| core::array::from_fn(|i| if i == 15 { value } else { 0 });
                FiveTuple::v6(last(from), last(to), sport, dport, protocol)
            } else {
                FiveTuple::v4([0, 0, 0, from], [0, 0, 0, to], sport, dport, protocol)
            };
            let mut packet = Packet::new(tuple).with_fragment(fragment);
            (packet.tcp_flags, packet.state, packet.input, packet.icmp) = (flags, state, input, icmp);
            packet
        },
    )
}

fn policy_of(chains: &Chains) -> Policy {
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    chains.flatten("c0", 10_000, &mut entries, &mut sources).expect("few rules and no circle");
    Policy::new(entries, sources, Vec::new()).expect("few boxes")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_flattened_policy_decides_as_a_walk_through_its_chains(
        chains in chains(),
        packets in proptest::collection::vec(packets(), 60),
    ) {
        let policy = policy_of(&chains);
        let matchers: Vec<PolicyMatcher> = [
            ClassifierBuilder::new(),
            ClassifierBuilder::new().algorithm(flowloom_classifier::Algorithm::Linear),
        ]
        .into_iter()
        .map(|builder| PolicyMatcher::build(policy.clone(), builder).expect("few boxes"))
        .collect();
        for packet in &packets {
            for assume in [Assume::NoMatch, Assume::Match] {
                let expected = match walk(&chains, &chains.chains[0], packet, assume) {
                    Walk::Decided(line) => line,
                    Walk::Returned => usize::from(chains.chains[0].policy.is_some()),
                };
                let line = |found: Option<flowloom_classifier::RuleId>| {
                    found.and_then(|id| policy.source(id)).map_or(0, |source| source.line)
                };
                prop_assert_eq!(line(policy.first_match(packet, assume)), expected, "{:?}", packet);
                for matcher in &matchers {
                    prop_assert_eq!(line(matcher.find(packet, assume)), expected, "{:?}", packet);
                }
                // Whatever is unknown, the answer is among the possible ones.
                let possible = policy.outcomes(packet);
                let is_among = possible.deciders.iter().any(|one| line(Some(one.rule)) == expected);
                prop_assert!(is_among || expected == 0 && possible.unmatched.is_some(), "{:?}", possible);
                if let Some(rule) = possible.decided() {
                    prop_assert_eq!(line(Some(rule)), expected);
                }
            }
        }
    }

    #[test]
    fn candidates_are_all_matches_through_the_first_unconditional_one(
        chains in chains(),
        packets in proptest::collection::vec(packets(), 30),
    ) {
        let policy = policy_of(&chains);
        let set = policy.set();
        let classifier = ClassifierBuilder::new().build(set).expect("few boxes");
        for packet in &packets {
            let AnyKey::V4(key) = AnyKey::from(&packet.tuple) else { continue };
            let mut expected = Vec::new();
            for id in set.all_matches(&key) {
                expected.push(id);
                if !set.rules()[id.index()].is_conditional {
                    break;
                }
            }
            let found: Vec<_> = classifier.candidates(&key).take(expected.len()).collect();
            prop_assert_eq!(&found, &expected);
            let first = expected.first().map_or(Match::NONE, |&id| Match::from(id));
            prop_assert_eq!(classifier.classify_key(&key), first);
        }
    }
}

/// Returns a packet with all properties known.
fn known(mut packet: Packet<'static>) -> Packet<'static> {
    packet.tcp_flags = packet.tcp_flags.or(Some(2));
    packet.icmp = packet.icmp.or(Some((0, 1)));
    packet.state = packet.state.or(Some(ConnectionState::New));
    packet.input = packet.input.or(Some("ab"));
    packet
}

/// The action of a policy for a packet.
fn verdict(policy: &Policy, packet: &Packet<'_>, assume: Assume) -> Option<Action> {
    policy.first_match(packet, assume).and_then(|id| policy.set().get(id)).and_then(|rule| rule.action)
}

fn has_unknowable(policy: &Policy) -> bool {
    policy.entries().any(|entry| entry.conditions.unknowable().next().is_some())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn minimised_policy_decides_as_before_and_removed_rules_never_decide(
        chains in chains(),
        packets in proptest::collection::vec(packets().prop_map(known), 80),
    ) {
        let policy = policy_of(&chains);
        let smaller = policy.minimised(1 << 30).expect("fewer rules");
        prop_assert_eq!(smaller.undecided, 0);
        let dead: Vec<usize> = policy
            .check(1 << 30, |_| ())
            .oddities
            .iter()
            .map(|odd| policy.source_index(odd.rule()))
            .collect();
        for packet in &packets {
            for assume in [Assume::NoMatch, Assume::Match] {
                let (before, after) = (verdict(&policy, packet, assume), verdict(&smaller.policy, packet, assume));
                prop_assert_eq!(before, after, "{:?}", packet);
                let found = policy.first_match(packet, assume).map(|id| policy.source_index(id));
                prop_assert!(found.is_none_or(|source| !dead.contains(&source)), "{:?} {:?}", packet, dead);
            }
        }
    }

    #[test]
    fn policies_differ_if_and_only_if_a_packet_shows_it(
        one in chains(),
        other in chains(),
        is_same in any::<bool>(),
        packets in proptest::collection::vec(packets().prop_map(known), 80),
    ) {
        let first = policy_of(&one);
        let second = if is_same { first.minimised(1 << 30).expect("fewer rules").policy } else { policy_of(&other) };
        let comparison = first.compare(&second, CompareDefaults::default(), 1 << 24, 1000);
        prop_assume!(!comparison.is_undecided);
        let verdict = |policy: &Policy, packet: &Packet<'_>, assume| {
            verdict(policy, packet, assume).unwrap_or(CompareDefaults::default().unmatched)
        };
        if has_unknowable(&first) || has_unknowable(&second) {
            return Ok(());
        }
        for packet in &packets {
            if verdict(&first, packet, Assume::NoMatch) != verdict(&second, packet, Assume::NoMatch) {
                prop_assert_eq!(comparison.are_equivalent(), Some(false), "{:?}", packet);
            }
        }
        for difference in &comparison.differences {
            let packet = difference.witness.packet();
            let verdicts = [&first, &second].map(|policy| verdict(policy, &packet, Assume::NoMatch));
            prop_assert_eq!(verdicts, [difference.first.1, difference.second.1], "{}", difference.witness);
            prop_assert!(verdicts[0] != verdicts[1]);
        }
        prop_assert!(!is_same || comparison.differences.is_empty());
    }
}

// Some forms need the standard library to be read.
#[cfg(feature = "std")]
proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn written_policy_decides_as_the_original(chains in chains()) {
        use flowloom_rules::load::{LoadLimits, iptables, nft, toml};
        use flowloom_rules::write;
        let policy = policy_of(&chains);
        // Writing a rule as several rules repeats its limit, and each of them counts separately.
        prop_assume!(!has_unknowable(&policy));
        let alike = |other: &Policy, defaults| {
            let comparison = policy.compare(other, defaults, 1 << 24, 3);
            prop_assume!(!comparison.is_undecided);
            for one in &comparison.differences {
                prop_assert!(false, "{} {:?} {:?}", one.witness, one.first, one.second);
            }
            Ok(())
        };
        if let Ok(text) = write::toml::write(&policy) {
            let again = toml::load(&text, LoadLimits::default());
            prop_assert!(again.is_ok() || policy.is_empty(), "{}\n{:?}", text, again);
            alike(&again.unwrap_or_default(), CompareDefaults::default())?;
        }
        // Packets that no rule decides are accepted by a chain with this policy.
        let accepting = CompareDefaults { unmatched: Action::Accept, ..CompareDefaults::default() };
        if let Ok(text) = write::nft::write(&policy) {
            let again = nft::load(&text, &nft::Options::default());
            prop_assert!(again.is_ok(), "{}\n{:?}", text, again);
            alike(&again.unwrap_or_default(), accepting)?;
        }
        if let (Ok(v4), Ok(v6)) =
            (write::iptables::write(&policy, Families::V4), write::iptables::write(&policy, Families::V6))
        {
            let text = v4 + &v6;
            let again = iptables::load(&text, &iptables::Options::default());
            prop_assert!(again.is_ok(), "{}\n{:?}", text, again);
            alike(&again.unwrap_or_default(), accepting)?;
        }
    }
}

#[test]
fn chains_are_as_deep_as_the_kernel_allows() {
    let chain = |index: usize| Chain {
        name: format!("c{index}"),
        rules: vec![ChainRule::new(
            Conditions::default(),
            Target::Jump(format!("c{}", index + 1)),
            index + 1,
        )],
        policy: None,
    };
    let depth = |count: usize| {
        let mut chains = Chains { chains: (0..count).map(chain).collect(), families: None };
        chains.chains.last_mut().expect("a chain").rules.clear();
        chains.flatten("c0", 100, &mut Vec::new(), &mut Vec::new())
    };
    assert_eq!(depth(16), Ok(()));
    assert_eq!(depth(17), Err(FlattenError::TooDeep { line: 16, depth_max: 16 }));
}

#[cfg(feature = "std")]
#[test]
fn later_rules_decide_where_a_condition_does_not_hold() {
    use flowloom_classifier::aggrecuts::Stride;
    use flowloom_classifier::hicuts::HiCutsConfig;
    use flowloom_classifier::{FirstMatch, PaperTree};
    use flowloom_rules::load::{LoadOptions, RuleFormat, load};

    let text = "*filter\n:FORWARD DROP [0:0]\n\
                -A FORWARD -p tcp --dport 80 --tcp-flags SYN SYN -j DROP\n\
                -A FORWARD -p tcp -m ttl --ttl-eq 3 -j DROP\n\
                -A FORWARD -p tcp --dport 80 -j ACCEPT\nCOMMIT\n";
    let policy = load(text, RuleFormat::Iptables, &LoadOptions::default()).unwrap();
    let set = policy.set();
    let indexes: [Box<dyn FirstMatch>; 4] = [
        Box::new(ClassifierBuilder::new().build(set).unwrap()),
        Box::new(PaperTree::aggrecuts(set, Stride::Eight, 1 << 26).unwrap()),
        Box::new(PaperTree::aggrecuts(set, Stride::Four, 1 << 26).unwrap()),
        Box::new(PaperTree::hicuts(set, HiCutsConfig::new(8, 4.0)).unwrap()),
    ];
    for index in indexes {
        let matcher = PolicyMatcher::with_index(policy.clone(), index);
        for flags in [0x02, 0x10] {
            let mut packet = Packet::new(FiveTuple::v4([1; 4], [2; 4], 9, 80, 6));
            packet.tcp_flags = Some(flags);
            for assume in [Assume::Match, Assume::NoMatch] {
                assert_eq!(matcher.find(&packet, assume), policy.first_match(&packet, assume));
            }
        }
    }
}

//! Sets whose rules overlap so that a cut of one field separates nothing.

use flowloom_classifier::synth::{Profile, rules};
use flowloom_classifier::{
    Action, Addresses, ClassifierBuilder, FiveTuple, KeyV4, PortRange, PrefixV4, ProtocolMatch, Rule,
    RuleSet,
};
use flowloom_rules::firewall::{Assume, Packet, Policy};

/// Shuffles a list in the same order in every run.
fn shuffled<T>(mut list: Vec<T>) -> Vec<T> {
    let mut state = 4_u64;
    for i in (1..list.len()).rev() {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        list.swap(i, (state >> 33) as usize % (i + 1));
    }
    list
}

fn rule(addresses: Rule, from: (u16, u16), to: (u16, u16)) -> Rule {
    Rule {
        source_ports: PortRange::new(from.0, from.1).expect("a set that is right"),
        destination_ports: PortRange::new(to.0, to.1).expect("a set that is right"),
        protocol: ProtocolMatch::exact(6),
        ..addresses
    }
}

/// A staircase: each rule covers more in one field and less in the other than the previous one, so
/// that no rule is unreachable.
fn staircase(count: u16) -> RuleSet {
    let step = u16::MAX / count;
    let rules = (0..count).map(|i| rule(Rule::ANY, (0, i * step), (0, u16::MAX - i * step)));
    RuleSet::new(shuffled(rules.collect())).expect("a set that is right")
}

/// Nested ranges between two hosts, nearly all of which are unreachable after a few wide ones.
fn nested(count: u16) -> RuleSet {
    let hosts = Rule::v4(
        PrefixV4::new(0x0a00_0001, 32).expect("a set that is right"),
        PrefixV4::new(0x0a00_0002, 32).expect("a set that is right"),
    );
    let step = 0x7fff / count;
    let rules = (0..count).map(|i| {
        let low = i.wrapping_mul(7).wrapping_mul(step) % 0x8000;
        rule(hosts, (i * step, u16::MAX - i * step), (low, u16::MAX - low))
    });
    RuleSet::new(shuffled(rules.collect())).expect("a set that is right")
}

fn check(set: &RuleSet, blocks_max: u32) {
    let classifier = ClassifierBuilder::new().build(set).expect("a set that is right");
    let worst = classifier.stats().v4.worst;
    let mut state = 9_u64;
    #[expect(clippy::cast_possible_truncation, reason = "parts of a random number")]
    for _ in 0..3000 {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        let ports = ((state >> 20) as u16, (state >> 40) as u16);
        let key = KeyV4::new(0x0a00_0001, 0x0a00_0002, ports, 6);
        assert_eq!(classifier.classify_key(&key), set.first_match(&key));
    }
    assert!(worst.blocks <= blocks_max, "{worst:?} {:?}", classifier.stats().v4);
}

#[test]
fn a_staircase_of_ranges_is_not_searched_linearly() {
    check(&staircase(4096), 24);
}

#[test]
fn nested_ranges_are_not_searched_linearly() {
    check(&nested(4096), 24);
}

#[test]
#[expect(clippy::cast_possible_truncation, reason = "parts of a spread number, and IPv4 addresses")]
fn ten_thousand_rules_are_minimised_without_undecided_rules() {
    let generated = rules(Profile::Firewall, 10_000, 7, false).expect("a set that is right");
    let action = |index: usize| if index.is_multiple_of(3) { Action::Deny } else { Action::Accept };
    let decide = |(index, rule): (usize, &Rule)| Rule { action: Some(action(index)), ..*rule };
    let deciding = generated.rules().iter().enumerate().map(decide).collect();
    let set = RuleSet::new(deciding).expect("a set that is right");
    let policies = [Policy::from(generated), Policy::from(set), Policy::from(staircase(4000))];
    for policy in policies {
        let smaller = policy.minimised(100_000_000).expect("fewer rules");
        assert_eq!(smaller.undecided, 0);
        for i in 0..3000_u32 {
            let spread = i.wrapping_mul(0x9e37_79b9);
            let ports = ((spread >> 3) as u16, (spread >> 11) as u16);
            // The addresses are those of a rule, so that few packets match no rule.
            let rule = policy.set().rules()[spread as usize % policy.set().len()];
            let [source, destination] = match rule.addresses {
                Addresses::V4 { source, destination } => [source.low() as u32, destination.high() as u32],
                _ => [spread, !spread],
            };
            let tuple = FiveTuple::v4(source.to_be_bytes(), destination.to_be_bytes(), ports.0, ports.1, 6);
            let packet = Packet::new(tuple);
            let action = |policy: &Policy| {
                let found = policy.first_match(&packet, Assume::NoMatch);
                found.map(|id| policy.set().rules()[id.index()].action)
            };
            assert_eq!(action(&policy), action(&smaller.policy), "{tuple}");
        }
    }
}

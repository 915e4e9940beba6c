//! Sets whose rules overlap so that cutting one field parts nothing.

use flowloom_classifier::{ClassifierBuilder, KeyV4, PortRange, PrefixV4, ProtocolMatch, Rule, RuleSet};

/// Shuffles a list, the same way every time.
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

/// A staircase: each rule reaches further in one field and less far in the other, so that none is
/// dead.
fn staircase(count: u16) -> RuleSet {
    let step = u16::MAX / count;
    let rules = (0..count).map(|i| rule(Rule::ANY, (0, i * step), (0, u16::MAX - i * step)));
    RuleSet::new(shuffled(rules.collect())).expect("a set that is right")
}

/// Nested ranges between two hosts, nearly all of them dead behind a few wide ones.
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

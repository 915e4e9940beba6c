//! Sets with a high build cost: a build keeps its limits of memory and work, or returns an error.
#![expect(clippy::unwrap_used, reason = "parts of rules that are right by construction")]

use flowloom_classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{
    BuildError, ClassifierBuilder, KeyV4, KeyV6, Match, PortRange, PrefixV4, ProtocolMatch, Rule, RuleSet,
};

/// Ranges that overlap in every way, on both ports.
fn ranges(count: u16) -> RuleSet {
    let rules = (0..count).map(|i| Rule {
        source_ports: PortRange::new(i, 30_000 + i).unwrap(),
        destination_ports: PortRange::new(2000 - i, 60_000 - 7 * i).unwrap(),
        protocol: ProtocolMatch::new(i.to_le_bytes()[0], 0x55),
        ..Rule::v4(PrefixV4::new(u128::from(i) << 13, u32::from(i) % 25).unwrap(), PrefixV4::ANY)
    });
    RuleSet::new(rules.collect()).unwrap()
}

fn check(rules: &RuleSet, builder: ClassifierBuilder) {
    let classifier = builder.build(rules).unwrap();
    let keys: Vec<KeyV4> = headers(rules, Traffic::MISSES, 200, 1);
    let mut found = vec![Match::NONE; keys.len()];
    classifier.classify_batch(&keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, rules.first_match(key), "{key}");
    }
}

#[test]
fn overlapping_ranges_stay_within_memory_and_work() {
    let rules = ranges(1500);
    check(&rules, ClassifierBuilder::new());
    let tight = ClassifierBuilder::new().memory_bytes_max(100_000).steps_max(200_000);
    check(&rules, tight);
    let stats = tight.build(&rules).unwrap().stats();
    assert!(stats.v4.bytes() <= 100_000, "{stats:?}");
    assert!(stats.v4.leaf_bytes > 0 && stats.v4.bytes() == stats.v4.node_bytes + stats.v4.leaf_bytes);
    let limits = Limits { memory_bytes_max: 1 << 20, steps_max: 2_000_000 };
    let error = AggreCuts::build(&rules, Stride::Eight, Sharing::Everywhere, limits).unwrap_err();
    assert!(matches!(error, BuildError::Memory { .. } | BuildError::Work { .. }), "{error}");
    let error = ClassifierBuilder::new().memory_bytes_max(10_000).build(&rules).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the classifier needs at least 36096 bytes, the limit is 10000; raise the limit"
    );
}

#[test]
fn sets_of_every_kind_build_within_the_default_limits() {
    for profile in [Profile::Acl, Profile::Firewall, Profile::PacketFilter] {
        for (count, v6) in [(10_000, false), (3_000, true), (10_000, true)] {
            let rules = synth::rules(profile, count, 1, v6).unwrap();
            let stats = ClassifierBuilder::new().build(&rules).unwrap().stats();
            let family = if v6 { stats.v6 } else { stats.v4 };
            assert!(family.plan.is_some(), "{profile:?}, {count} rules, v6 {v6}: linear search");
            assert!(family.bytes() <= 5_000_000, "{profile:?}, v6 {v6}: {} bytes", family.bytes());
        }
    }
}

#[test]
fn million_equal_rules_collapse_to_one() {
    let rule = Rule { destination_ports: PortRange::exact(80), ..Rule::ANY };
    let rules = RuleSet::new(vec![rule; 1_000_000]).unwrap();
    let classifier = ClassifierBuilder::new().build(&rules).unwrap();
    assert!(classifier.stats().v4.bytes() < 10_000, "{:?}", classifier.stats());
    let hit = KeyV6::new(1, 2, (3, 80), 6);
    assert_eq!(classifier.classify_key(&hit).rule().map(|rule| rule.0), Some(0));
    assert_eq!(classifier.classify_key(&KeyV4::default()), Match::NONE);
}

#[test]
fn empty_rule_set_matches_nothing() {
    let classifier = ClassifierBuilder::new().build(&RuleSet::default()).unwrap();
    assert_eq!(classifier.classify_key(&KeyV4::default()), Match::NONE);
    assert_eq!(classifier.classify_key(&KeyV6::default()), Match::NONE);
    assert_eq!(classifier.stats().v4.bytes(), 0);
    classifier.classify_batch::<KeyV4>(&[], &mut []);
}

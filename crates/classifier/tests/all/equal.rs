//! Every classifier equals the definition: the first rule that matches.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "strategies build what is right by construction; parts of a box are as wide as their fields"
)]

use flowloom_classifier::flowcuts::plan::{Plan, Split};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{
    Addresses, Algorithm, Classifier, ClassifierBuilder, ClassifierKey, Key, KeyV4, KeyV6, Match,
    PortRange, PrefixV4, PrefixV6, ProtocolMatch, Rule, RuleId, RuleSet,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Prefixes of a small part of the space, so that rules meet.
fn prefix_v4() -> impl Strategy<Value = PrefixV4> {
    (prop_oneof![Just(0x0a00_0000_u32), Just(0xffff_fff0), Just(0)], 0_u32..16, 0_u32..=32)
        .prop_map(|(base, low, length)| PrefixV4::new(u128::from(base | low | low << 14), length).unwrap())
}

fn prefix_v6() -> impl Strategy<Value = PrefixV6> {
    (prop_oneof![Just(0x2001_0db8_u128 << 96), Just(u128::MAX - 15), Just(0)], 0_u128..16, 0_u32..=128)
        .prop_map(|(base, low, length)| PrefixV6::new(base | low | low << 50 | low << 84, length).unwrap())
}

fn ports() -> impl Strategy<Value = PortRange> {
    prop_oneof![
        Just(PortRange::ANY),
        (0_u16..20).prop_map(PortRange::exact),
        (0_u16..20, 0_u16..20).prop_map(|(low, more)| PortRange::new(low, low + more).unwrap()),
        any::<(u16, u16)>().prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).unwrap()),
        (1024_u16..1030).prop_map(|low| PortRange::new(low, u16::MAX).unwrap()),
    ]
}

fn protocol() -> impl Strategy<Value = ProtocolMatch> {
    prop_oneof![
        Just(ProtocolMatch::ANY),
        prop_oneof![Just(6), Just(17), Just(0), Just(255)].prop_map(ProtocolMatch::exact),
        any::<(u8, u8)>().prop_map(|(value, mask)| ProtocolMatch::new(value, mask)),
    ]
}

prop_compose! {
    fn rule()(
        addresses in prop_oneof![
            1 => Just(Addresses::Any),
            8 => (prefix_v4(), prefix_v4()).prop_map(|(source, destination)| Addresses::V4 { source, destination }),
            8 => (prefix_v6(), prefix_v6()).prop_map(|(source, destination)| Addresses::V6 { source, destination }),
        ],
        source_ports in ports(),
        destination_ports in ports(),
        protocol in protocol(),
        priority in prop_oneof![4 => Just(0), 1 => -2..3],
    ) -> Rule {
        Rule { addresses, source_ports, destination_ports, protocol, priority, ..Rule::ANY }
    }
}

/// Returns the corner points of every rule's box, and their neighbours, one dimension at a time.
fn corners<K: Key>(rules: &RuleSet) -> Vec<K> {
    let n = K::ADDRESS_DIMENSIONS;
    let mut keys = vec![K::default()];
    for rule in rules.rules() {
        let Some(spans) = rule.spans::<K>() else { continue };
        let spans = spans.as_ref();
        for dimension in 0..K::DIMENSIONS {
            let span = spans[dimension];
            let max = ((1_u64 << K::bits(dimension)) - 1) as u32;
            let neighbours =
                [span.low.wrapping_sub(1) & max, span.low, span.high, span.high.wrapping_add(1) & max];
            for value in neighbours {
                for high_end in [false, true] {
                    let mut point: Vec<u32> =
                        spans.iter().map(|span| if high_end { span.high } else { span.low }).collect();
                    point[dimension] = value;
                    let address = |first: usize| {
                        point[first..first + n]
                            .iter()
                            .fold(0_u128, |sum, &part| sum << 32 | u128::from(part))
                    };
                    let ports = (point[2 * n] as u16, point[2 * n + 1] as u16);
                    keys.push(K::from_fields(address(0), address(n), ports, point[2 * n + 2] as u8));
                }
            }
        }
    }
    keys
}

fn algorithms() -> [Algorithm; 7] {
    let plan = |split, leaf_rules, growth_max| Algorithm::FlowCuts(Plan { split, leaf_rules, growth_max });
    [
        Algorithm::Auto,
        Algorithm::Linear,
        plan(Split::Whole, 1, 16.0),
        plan(Split::Whole, 3, 4.0),
        plan(Split::Lengths { source: 8, destination: 8 }, 1, 8.0),
        plan(Split::Lengths { source: 0, destination: 15 }, 8, 2.0),
        plan(Split::Lengths { source: 24, destination: 0 }, 2, 100.0),
    ]
}

/// Compares a classifier with the definition, on every instruction set.
fn check<K: ClassifierKey>(rules: &RuleSet, algorithm: Algorithm, keys: &[K]) -> Result<(), TestCaseError> {
    let expected: Vec<Match> = keys.iter().map(|key| rules.first_match(key)).collect();
    for isa in flowloom_cpu::features::Isa::available() {
        let classifier = ClassifierBuilder::new().algorithm(algorithm).isa(isa).build(rules).unwrap();
        let mut found = vec![Match::NONE; keys.len()];
        classifier.classify_batch(keys, &mut found);
        for ((key, expected), found) in keys.iter().zip(&expected).zip(&found) {
            prop_assert_eq!(expected, found, "{:?} {} {:?}", algorithm, isa, key);
        }
        let stats = classifier.stats();
        let (trees, worst) =
            if K::IS_V6 { (stats.v6.trees, stats.v6.worst) } else { (stats.v4.trees, stats.v4.worst) };
        prop_assert_eq!(trees, worst.trees as usize);
        for (key, expected) in keys.iter().zip(&expected) {
            let (found, reads) = classifier.classify_counting(key);
            prop_assert_eq!(*expected, found);
            prop_assert!(
                reads.words <= worst.words && reads.nodes <= worst.nodes,
                "{:?} {:?}",
                reads,
                worst
            );
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn every_classifier_returns_the_first_match(rules in vec(rule(), 0..60), seed: u64) {
        let rules = RuleSet::new(rules).unwrap();
        let mut v4: Vec<KeyV4> = corners(&rules);
        v4.extend(headers::<KeyV4>(&rules, Traffic::MISSES, 100, seed));
        let mut v6: Vec<KeyV6> = corners(&rules);
        v6.extend(headers::<KeyV6>(&rules, Traffic::MISSES, 100, seed));
        for algorithm in algorithms() {
            check(&rules, algorithm, &v4)?;
            check(&rules, algorithm, &v6)?;
        }
    }

    #[test]
    fn protocols_under_any_mask_are_distinguished(
        protocols in vec(any::<(u8, u8)>().prop_map(|(value, mask)| ProtocolMatch::new(value, mask)), 2..40),
        port in 0_u16..3,
    ) {
        // Only the protocol can be cut, and its spans do not determine which packets match.
        let rules = protocols.iter().enumerate().map(|(at, &protocol)| {
            let ports = if at % 3 == 0 { PortRange::exact(port) } else { PortRange::ANY };
            Rule { protocol, destination_ports: ports, ..Rule::ANY }
        });
        let rules = RuleSet::new(rules.collect()).unwrap();
        let keys: Vec<KeyV4> = (0..=255).map(|protocol| KeyV4::new(1, 2, (3, port), protocol)).collect();
        for algorithm in algorithms() {
            check(&rules, algorithm, &keys)?;
        }
    }

    #[test]
    fn batches_of_any_length_are_answered(length in 0_usize..200, rules in vec(rule(), 30..40)) {
        let rules = RuleSet::new(rules).unwrap();
        let keys: Vec<KeyV4> = headers(&rules, Traffic::HITS, length, 1);
        check(&rules, Algorithm::FlowCuts(Plan { split: Split::Whole, leaf_rules: 2, growth_max: 8.0 }), &keys)?;
    }
}

#[test]
fn every_length_of_a_batch_is_answered_in_several_trees() {
    let plan =
        Plan { split: Split::Lengths { source: 15, destination: 15 }, leaf_rules: 4, growth_max: 8.0 };
    for v6 in [false, true] {
        let rules = synth::rules(Profile::Firewall, 300, 3, v6).unwrap();
        let (v4, six) = (
            headers::<KeyV4>(&rules, Traffic::MISSES, 270, 2),
            headers::<KeyV6>(&rules, Traffic::MISSES, 270, 2),
        );
        for isa in flowloom_cpu::features::Isa::available() {
            let builder = ClassifierBuilder::new().algorithm(Algorithm::FlowCuts(plan)).isa(isa);
            let classifier = builder.build(&rules).unwrap();
            let stats = classifier.stats();
            assert!(stats.v4.trees.max(stats.v6.trees) > 2, "{stats:?}");
            for length in (0..=140).chain(250..=270) {
                answers_alike(&classifier, &rules, &v4[..length]);
                answers_alike(&classifier, &rules, &six[..length]);
            }
        }
    }
}

/// Leaves store their lowest rule in thirteen bits, and ids that need more without their low bits.
#[test]
fn rules_with_ids_beyond_thirteen_bits_are_found() {
    for profile in [Profile::Acl, Profile::Firewall, Profile::PacketFilter] {
        let rules = synth::rules(profile, 20_000, 5, false).unwrap();
        let keys: Vec<KeyV4> = headers(&rules, Traffic::MISSES, 600, 9);
        for split in
            [Split::Lengths { source: 8, destination: 8 }, Split::Lengths { source: 32, destination: 8 }]
        {
            let plan = Plan { split, leaf_rules: 16, growth_max: 4.0 };
            let classifier =
                ClassifierBuilder::new().algorithm(Algorithm::FlowCuts(plan)).build(&rules).unwrap();
            for isa in flowloom_cpu::features::Isa::available() {
                answers_alike(&classifier.with_isa(isa).unwrap(), &rules, &keys);
            }
        }
    }
}

fn answers_alike<K: ClassifierKey>(classifier: &Classifier, rules: &RuleSet, keys: &[K]) {
    let mut found = vec![Match::from(RuleId(0)); keys.len()];
    classifier.classify_batch(keys, &mut found);
    for (position, (key, found)) in keys.iter().zip(&found).enumerate() {
        assert_eq!(
            *found,
            rules.first_match(key),
            "{} {key:?} at {position} of {}",
            classifier.isa(),
            keys.len()
        );
    }
}

#[test]
fn a_key_of_zeros_does_not_match_padding() {
    let nothing = Rule { destination_ports: PortRange::exact(1), ..Rule::ANY };
    for count in 0..18 {
        let rules = RuleSet::new(vec![nothing; count]).unwrap();
        for algorithm in algorithms() {
            check(&rules, algorithm, &[KeyV4::default()]).unwrap();
            check(&rules, algorithm, &[KeyV6::default()]).unwrap();
        }
    }
}

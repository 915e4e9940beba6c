//! Arbitrary rules and headers, with a memory limit: every classifier returns the first match, or
//! reports why it was not built.
#![no_main]

use arbitrary::Arbitrary;
use flowloom_classifier::aggrecuts::{AggreCuts, Limits, Sharing, Stride};
use flowloom_classifier::flowcuts::plan::{Plan, Split};
use flowloom_classifier::{
    Algorithm, Classifier, ClassifierBuilder, ClassifierKey, KeyV4, KeyV6, Match, PortRange, PrefixV4,
    PrefixV6, ProtocolMatch, Rule, RuleSet,
};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct RawRule {
    v6: bool,
    source: (u128, u8),
    destination: (u128, u8),
    ports: [u16; 4],
    protocol: (u8, u8),
    priority: i8,
}

#[derive(Arbitrary, Debug)]
struct Input {
    rules: Vec<RawRule>,
    keys: Vec<(u128, u128, u16, u16, u8)>,
    leaf_rules: u8,
    growth: u8,
    split: Option<(u8, u8)>,
}

fn rule(raw: &RawRule) -> Rule {
    let range = |a: u16, b: u16| PortRange::new(a.min(b), a.max(b)).expect("in order");
    let mut rule = if raw.v6 {
        let prefix = |(address, length): (u128, u8)| {
            PrefixV6::new(address, u32::from(length) % 129).expect("short enough")
        };
        Rule::v6(prefix(raw.source), prefix(raw.destination))
    } else {
        let prefix = |(address, length): (u128, u8)| {
            PrefixV4::new(address, u32::from(length) % 33).expect("short enough")
        };
        Rule::v4(prefix(raw.source), prefix(raw.destination))
    };
    rule.source_ports = range(raw.ports[0], raw.ports[1]);
    rule.destination_ports = range(raw.ports[2], raw.ports[3]);
    rule.protocol = ProtocolMatch::new(raw.protocol.0, raw.protocol.1);
    rule.priority = raw.priority.into();
    rule
}

fn check<K: ClassifierKey>(classifier: &Classifier, set: &RuleSet, keys: &[K]) {
    let mut found = vec![Match::NONE; keys.len()];
    classifier.classify_batch(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        assert_eq!(found, set.first_match(key), "{key:?}");
    }
}

fuzz_target!(|input: Input| {
    if input.rules.len() > 200 || input.keys.len() > 200 {
        return;
    }
    let set = RuleSet::new(input.rules.iter().map(rule).collect()).expect("few enough");
    let v4: Vec<KeyV4> = input
        .keys
        .iter()
        .map(|key| KeyV4::new(key.0 as u32, key.1 as u32, (key.2, key.3), key.4))
        .collect();
    let v6: Vec<KeyV6> =
        input.keys.iter().map(|key| KeyV6::new(key.0, key.1, (key.2, key.3), key.4)).collect();
    let split =
        input.split.map_or(Split::Whole, |(source, destination)| Split::Lengths { source, destination });
    let plan = Plan {
        split,
        leaf_rules: usize::from(input.leaf_rules) + 1,
        growth_max: f64::from(input.growth) + 1.0,
    };
    for algorithm in [Algorithm::Auto, Algorithm::FlowCuts(plan), Algorithm::Linear] {
        let builder =
            ClassifierBuilder::new().algorithm(algorithm).memory_bytes_max(8 << 20).steps_max(3_000_000);
        if let Ok(classifier) = builder.build(&set) {
            check(&classifier, &set, &v4);
            check(&classifier, &set, &v6);
        }
    }
    let limits = Limits { memory_bytes_max: 8 << 20, steps_max: 300_000 };
    for stride in [Stride::Eight, Stride::Four] {
        if let Ok(tree) = AggreCuts::build(&set, stride, Sharing::Everywhere, limits) {
            let mut found = vec![Match::NONE; v4.len()];
            tree.classify_batch(&v4, &mut found);
            for (key, found) in v4.iter().zip(found) {
                assert_eq!(found, set.first_match(key), "{key:?}");
                assert!(tree.classify(key).1.0 <= stride.worst_words());
            }
        }
    }
});

//! AggreCuts and HiCuts equal the definition, and keep the paper's guarantees.
#![expect(
    clippy::unwrap_used,
    clippy::unusual_byte_groupings,
    reason = "strategies build what is right by construction; words are written in the fields of the table"
)]

use flowloom_classifier::aggrecuts::{AggreCuts, Cut, Decoded, Limits, Sharing, Stride};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::hicuts::{HiCuts, HiCutsConfig};
use flowloom_classifier::{BuildError, KeyV4, Match, PortRange, PrefixV4, ProtocolMatch, Rule, RuleSet};
use proptest::collection::vec;
use proptest::prelude::*;

fn prefix() -> impl Strategy<Value = PrefixV4> {
    (prop_oneof![Just(0x0a00_0000_u32), Just(0xffff_fff0), Just(0)], 0_u32..16, 0_u32..=32)
        .prop_map(|(base, low, length)| PrefixV4::new(u128::from(base | low | low << 14), length).unwrap())
}

fn ports() -> impl Strategy<Value = PortRange> {
    prop_oneof![
        3 => Just(PortRange::ANY),
        2 => (0_u16..20).prop_map(PortRange::exact),
        1 => any::<(u16, u16)>().prop_map(|(a, b)| PortRange::new(a.min(b), a.max(b)).unwrap()),
    ]
}

fn protocol() -> impl Strategy<Value = ProtocolMatch> {
    prop_oneof![
        3 => Just(ProtocolMatch::ANY),
        3 => Just(ProtocolMatch::exact(6)),
        1 => any::<(u8, u8)>().prop_map(|(value, mask)| ProtocolMatch::new(value, mask | 0xe0)),
    ]
}

prop_compose! {
    fn rule()(
        source in prefix(), destination in prefix(), from in ports(), to in ports(), protocol in protocol(),
    ) -> Rule {
        Rule { source_ports: from, destination_ports: to, protocol, ..Rule::v4(source, destination) }
    }
}

fn keys(rules: &RuleSet, seed: u64) -> Vec<KeyV4> {
    let mut keys: Vec<KeyV4> = headers(rules, Traffic::MISSES, 400, seed);
    keys.push(KeyV4::default());
    keys
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn aggrecuts_returns_the_first_match_within_its_worst_case(rules in vec(rule(), 0..20), seed: u64) {
        let rules = RuleSet::new(rules).unwrap();
        let keys = keys(&rules, seed);
        let expected: Vec<Match> = keys.iter().map(|key| rules.first_match(key)).collect();
        for stride in [Stride::Eight, Stride::Four] {
            for sharing in [Sharing::Siblings, Sharing::Everywhere] {
                let tree = AggreCuts::build(&rules, stride, sharing, Limits::default()).unwrap();
                prop_assert!(tree.shape().depth <= stride.worst_words());
                let mut found = vec![Match::NONE; keys.len()];
                tree.classify_batch(&keys, &mut found);
                prop_assert_eq!(&found, &expected);
                for (key, expected) in keys.iter().zip(&expected) {
                    let (found, accesses) = tree.classify(key);
                    prop_assert_eq!(found, *expected);
                    prop_assert_eq!(tree.classify_key(key), *expected);
                    prop_assert!(accesses.0 <= tree.shape().depth);
                }
            }
        }
    }

    #[test]
    fn hicuts_returns_the_first_match(rules in vec(rule(), 0..40), seed: u64) {
        let rules = RuleSet::new(rules).unwrap();
        for (binth, spfac) in [(1, 2.0), (4, 1.0), (8, 4.0)] {
            let build = |sharing| {
                let config = HiCutsConfig { sharing, ..HiCutsConfig::new(binth, spfac) };
                // Without sharing, a tree of 40 rules may take gigabytes.
                HiCuts::build(&rules, HiCutsConfig { memory_bytes_max: 1 << 22, ..config })
            };
            let Ok(everywhere) = build(Some(Sharing::Everywhere)) else { continue };
            for key in keys(&rules, seed) {
                let (found, words) = everywhere.classify(&key);
                prop_assert_eq!(found, rules.first_match(&key));
                prop_assert!(words <= everywhere.worst_words());
            }
            // Sharing takes memory off a tree and nothing else.
            let mut bytes = everywhere.bytes();
            for tree in [Some(Sharing::Siblings), None].into_iter().map_while(|sharing| build(sharing).ok()) {
                prop_assert!(tree.bytes() >= bytes && tree.worst_words() == everywhere.worst_words());
                bytes = tree.bytes();
                for key in keys(&rules, seed) {
                    prop_assert_eq!(tree.classify(&key), everywhere.classify(&key));
                }
            }
        }
    }
}

#[test]
fn hicuts_reuses_identical_children_that_are_not_adjacent() {
    // The first and the third quarter of the sources have a rule each; the second and the fourth
    // have the last one alone, so that one leaf answers for both.
    let quarter = |address: u128| Rule::v4(PrefixV4::new(address << 24, 2).unwrap(), PrefixV4::ANY);
    let rules = RuleSet::new(vec![quarter(0), quarter(128), Rule::ANY]).unwrap();
    let bytes = |sharing| {
        let tree = HiCuts::build(&rules, HiCutsConfig { sharing, ..HiCutsConfig::new(2, 4.0) }).unwrap();
        // Two words for the node, six for the rule of the leaf.
        assert_eq!((tree.depth(), tree.worst_words()), (1, 2 + 6));
        for (source, rule) in [(0_u32, 0), (1 << 30, 2), (1 << 31, 1), (3 << 30, 2)] {
            let found = tree.classify(&KeyV4::new(source, 1, (2, 3), 4));
            assert_eq!((found.0.rule().map(|id| id.0), found.1), (Some(rule), 2 + 6));
        }
        tree.bytes()
    };
    // Three rules, a node of four pointers, and leaves of one rule.
    let (tree, leaf) = (3 * 24 + 4 + 4 * 4, 4 + 4);
    assert_eq!(bytes(None), tree + 4 * leaf);
    assert_eq!(bytes(Some(Sharing::Siblings)), tree + 3 * leaf);
}

#[test]
fn children_of_hicuts_with_equal_rules_share_a_leaf() {
    // The first rule lies in the first and the third quarter in part, and covers the second: both
    // have the same leaf, since a search of it compares whole rules.
    let ports = |low, high| Rule { source_ports: PortRange::new(low, high).unwrap(), ..Rule::ANY };
    let rules = vec![ports(0x1000, 0x8fff), ports(0xffff, 0xffff), Rule::ANY];
    let tree = HiCuts::build(&RuleSet::new(rules).unwrap(), HiCutsConfig::new(2, 4.0)).unwrap();
    let (leaf_of_one, leaf_of_two) = (4 + 4, 4 + 2 * 4);
    assert_eq!(tree.bytes(), 3 * 24 + 4 + 4 * 4 + leaf_of_one + 2 * leaf_of_two);
}

#[test]
fn hicuts_cuts_as_wide_as_spfac_allows() {
    let eighth = |at: u128| Rule::v4(PrefixV4::new(at << 29, 3).unwrap(), PrefixV4::ANY);
    let rules = RuleSet::new((0..8).map(eighth).collect()).unwrap();
    // Eight cells and eight rules in them are twice the rules; four are 1.5 times; and two cells
    // are the fewest. Then follow the nodes that cut the rest.
    for (spfac, depth, pointers, nodes) in [(2.0, 1, 8, 1), (1.5, 2, 4 + 4 * 2, 5), (1.0, 3, 7 * 2, 7)] {
        let tree = HiCuts::build(&rules, HiCutsConfig::new(1, spfac)).unwrap();
        let leaves = 8 * (4 + 4);
        assert_eq!((tree.depth(), tree.bytes()), (depth, 8 * 24 + 4 * nodes + 4 * pointers + leaves));
        assert_eq!(tree.worst_words(), 2 * depth + 6);
    }
}

#[test]
fn small_tree_has_the_expected_words() {
    // A single rule on the first byte of the source, 10.0.0.0/8: one node, two sub-arrays and the
    // rest.
    let rules =
        RuleSet::new(vec![Rule::v4(PrefixV4::new(0x0a00_0000, 8).unwrap(), PrefixV4::ANY)]).unwrap();
    let tree = AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, Limits::default()).unwrap();
    let none = 0xdfff_ffff;
    // d2c 00, b2c 00; sub-array 0 (values 0 to 31) holds value 10, sub-array 1 differs from it, all
    // others equal it.
    assert_eq!(tree.root().0, 0b00_00_0000_0011_0000_0000_0000_0000_0000);
    let mut words = vec![none; 64];
    words[10] = 0xd000_0000;
    assert_eq!(tree.words(), words);
    // w = 4: the upper half is 0, the lower half 10; both nodes name byte 0.
    let tree = AggreCuts::build(&rules, Stride::Four, Sharing::Siblings, Limits::default()).unwrap();
    // Sub-arrays have two values: value 10 is place 0 of sub-array 5, and the neighbouring ones are
    // empty.
    assert_eq!(&tree.words()[..6], [none, none, 0xd000_0000, none, none, none]);
    assert_eq!(tree.words()[6], 0b00_00_0110_0001_0000_0000_0000_0000_0000);
    assert_eq!(tree.root().0, 0b00_00_0000_0011_0000_0000_0000_0000_0011);
    assert_eq!(tree.shape().depth, 2);
}

/// Three rules: two of sixteen bits of the source, and one of eight bits of the destination.
fn two_sources_and_a_destination() -> RuleSet {
    let source = |address, length| Rule::v4(PrefixV4::new(address, length).unwrap(), PrefixV4::ANY);
    let destination = Rule::v4(PrefixV4::ANY, PrefixV4::new(0x0100_0000, 8).unwrap());
    RuleSet::new(vec![source(0x0a00_0000, 16), source(0x0b00_0000, 16), destination]).unwrap()
}

#[test]
fn equal_sub_trees_of_cousins_are_stored_once_if_sharing_is_global() {
    // The root cuts the first byte of the source; 10 and 11 have a node each that cuts the second
    // byte. The destination is cut below all three, for what the sources leave.
    let rules = two_sources_and_a_destination();
    for (sharing, destinations) in [(Sharing::Siblings, 3), (Sharing::Everywhere, 1)] {
        let tree = AggreCuts::build(&rules, Stride::Eight, sharing, Limits::default()).unwrap();
        let (shape, forms) = (tree.shape(), tree.pointer_forms());
        assert_eq!((shape.depth, shape.nodes), (3, 3 + destinations), "{sharing:?}");
        // The root has three distinct children, each other node two; values that differ are in the
        // first of the eight sub-arrays, which the second differs from.
        assert_eq!((shape.distinct_children, shape.sub_arrays), (7 + 2 * destinations, 2 * shape.nodes));
        assert_eq!(forms.plain_bytes, shape.nodes * 4 * 256);
        assert_eq!(forms.habs_bytes, shape.nodes * 4 * 2 * 32);
        // A bit for each pointer, and the pointers that differ from the previous one.
        let changes = 4 + 2 * 2 + 3 * destinations;
        assert_eq!(forms.abs_bytes, shape.nodes * 32 + 4 * changes);
        assert_eq!(tree.words().len() as u64, forms.habs_bytes / 4);
        assert_eq!(tree.bytes(), 4 * tree.words().len() + 4, "a word more is the root's");
        let from = |source| KeyV4::new(source, 2, (3, 4), 5);
        let keys = [from(0x0a00_0001), from(0x0a01_0001), from(0x0900_0001)];
        assert_eq!(keys.map(|key| tree.classify(&key).1.0), [2, 3, 2]);
        assert_eq!(tree.deepest_of(&keys, 2), [keys[1]; 2]);
    }
}

#[test]
fn the_field_whose_children_have_the_fewest_rules_is_cut_first() {
    // The source has three runs of one rule each; the destination two, of which one has both.
    let source = Rule::v4(PrefixV4::new(0x0800_0000, 5).unwrap(), PrefixV4::ANY);
    let destination = Rule::v4(PrefixV4::ANY, PrefixV4::new(0xff00_0000, 8).unwrap());
    let rules = RuleSet::new(vec![source, destination]).unwrap();
    let tree = AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, Limits::default()).unwrap();
    // If a run were cut once more, its rule would count twice, and the destination be ahead.
    assert!(matches!(tree.root().decode(), Decoded::Node { cut: Cut::Source(0), .. }));
}

#[test]
fn rule_that_covers_everything_ends_the_list_and_is_found() {
    let mut rules = two_sources_and_a_destination().rules().to_vec();
    rules.extend([Rule::ANY, Rule::v4(PrefixV4::new(0x0c00_0000, 8).unwrap(), PrefixV4::ANY)]);
    let (hidden, rules) =
        (RuleSet::new(rules.clone()).unwrap(), RuleSet::new(rules[..4].to_vec()).unwrap());
    for stride in [Stride::Eight, Stride::Four] {
        let build = |rules| AggreCuts::build(rules, stride, Sharing::Siblings, Limits::default()).unwrap();
        let tree = build(&hidden);
        assert_eq!(tree.words(), build(&rules).words(), "a rule that is never reached takes nothing");
        let key = KeyV4::new(0x0c00_0001, 2, (3, 4), 5);
        assert_eq!(tree.classify(&key).0, rules.first_match(&key));
        assert_eq!(rules.first_match(&key).rule().unwrap().0, 3);
    }
}

#[test]
fn value_equal_to_a_limit_is_allowed() {
    let build = |rules: &[Rule], steps_max, memory_bytes_max| {
        let rules = RuleSet::new(rules.to_vec()).unwrap();
        AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, Limits { memory_bytes_max, steps_max })
    };
    // A step for the root, and a sixteenth of the empty table of sub-trees.
    assert!(build(&[], 1, 16).is_ok());
    assert_eq!(build(&[], 0, 16).unwrap_err(), BuildError::Work { limit_steps: 0 });
    assert_eq!(build(&[], 1, 15).unwrap_err(), BuildError::Memory { needed_bytes: 16, limit_bytes: 15 });
    // A node of one rule, its cut in one dimension, an empty child and one with the rule.
    let rule = [Rule::v4(PrefixV4::new(0x0a00_0000, 8).unwrap(), PrefixV4::ANY)];
    assert!(build(&rule, 2 + 2 + 1 + 2, 1 << 20).is_ok());
    assert_eq!(build(&rule, 6, 1 << 20).unwrap_err(), BuildError::Work { limit_steps: 6 });
}

#[test]
fn a_tree_beyond_a_limit_is_an_error() {
    let nested = |count: u16| {
        let rule = |i: u16| Rule {
            source_ports: PortRange::new(i, 2 * count - i).unwrap(),
            destination_ports: PortRange::new(2 * i, 6 * count - i).unwrap(),
            ..Rule::v4(PrefixV4::new(u128::from(i) << 20, u32::from(i % 20)).unwrap(), PrefixV4::ANY)
        };
        // The narrowest first, so that none hides another.
        RuleSet::new((0..count).rev().map(rule).collect()).unwrap()
    };
    let rules = nested(150);
    let limits = Limits { memory_bytes_max: 1 << 16, ..Limits::default() };
    let error = AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, limits).unwrap_err();
    assert!(matches!(error, BuildError::Memory { .. }), "{error}");
    let limits = Limits { steps_max: 100, ..Limits::default() };
    let error = AggreCuts::build(&rules, Stride::Eight, Sharing::Siblings, limits).unwrap_err();
    assert!(matches!(error, BuildError::Work { .. }), "{error}");
    // Twenty bits of base number 2²⁰ sub-arrays of two words.
    let error =
        AggreCuts::build(&nested(3000), Stride::Four, Sharing::Siblings, Limits::default()).unwrap_err();
    assert_eq!(error, BuildError::BaseOverflow { stride: 4, limit_bytes: 8 << 20 });
    let config = HiCutsConfig { memory_bytes_max: 1 << 12, ..HiCutsConfig::new(2, 4.0) };
    assert!(matches!(HiCuts::build(&rules, config).unwrap_err(), BuildError::Memory { .. }));
    let config = HiCutsConfig { steps_max: 1000, ..HiCutsConfig::new(2, 4.0) };
    assert_eq!(HiCuts::build(&rules, config).unwrap_err(), BuildError::Work { limit_steps: 1000 });
}

//! A set that changes gives the same answers as a set built from the same rules.
#![expect(clippy::unwrap_used, reason = "strategies build what is right by construction")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flowloom_classifier::firewall::{
    Assume, Conditions, ConnectionState, Families, Fragment, Packet, Ranges, Test, TestKind, Truth,
};
use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::live::{Live, LiveError, LiveId, LiveMatch, PENDING_MAX};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{
    AnyKey, BuildError, ClassifierBuilder, FiveTuple, FlagsColumn, KeyV4, KeyV6, PortRange, PrefixV4, Rule,
    RuleSet,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Change {
    Insert(Rule),
    Remove(prop::sample::Index),
    Settle,
    Rebuild,
}

fn rule() -> impl Strategy<Value = Rule> {
    (0_u32..64, 20_u32..=32, 0_u16..4, -2_i32..3, any::<u32>()).prop_map(
        |(low, length, port, priority, value)| {
            let source = PrefixV4::new(u128::from(0x0a00_0000 | low << 4), length).unwrap();
            let ports = PortRange::new(port, port + 2).unwrap();
            Rule { destination_ports: ports, priority, value, ..Rule::v4(source, PrefixV4::ANY) }
        },
    )
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        6 => rule().prop_map(Change::Insert),
        5 => any::<prop::sample::Index>().prop_map(Change::Remove),
        1 => Just(Change::Settle),
        1 => Just(Change::Rebuild),
    ]
}

/// Compares the set with the definition.
fn check(live: &Live, keys: &[KeyV4]) -> Result<(), TestCaseError> {
    let rules = live.rules();
    for (id, rule) in &rules {
        prop_assert_eq!(live.get(*id), Some(*rule));
    }
    let mut reader = live.reader();
    let mut found = vec![LiveMatch::default(); keys.len()];
    reader.classify_batch(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let expected = rules.iter().find(|(_, rule)| rule.matches(key)).map(|(id, rule)| (*id, rule.value));
        prop_assert_eq!(found.rule(), expected, "{}", key);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn any_sequence_of_changes_is_as_a_set_of_its_rules(
        first in prop::collection::vec(rule(), 0..40),
        changes in prop::collection::vec(change(), 1..40),
    ) {
        let set = RuleSet::new(first).unwrap();
        let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
        let keys: Vec<KeyV4> = (0..64)
            .flat_map(|low| (0..6).map(move |port| KeyV4::new(0x0a00_0000 | low << 4, 1, (2, port), 6)))
            .collect();
        for change in changes {
            match change {
                Change::Insert(rule) => {
                    live.insert(rule).unwrap();
                }
                Change::Remove(index) => {
                    let rules = live.rules();
                    if !rules.is_empty() {
                        let (id, rule) = rules[index.index(rules.len())];
                        prop_assert_eq!(live.remove(id).unwrap(), rule);
                        prop_assert_eq!(live.remove(id), Err(LiveError::NoSuchRule));
                        prop_assert_eq!(live.get(id), None);
                    }
                }
                Change::Settle => live.settle().unwrap(),
                Change::Rebuild => {
                    live.rebuild().unwrap();
                    prop_assert_eq!(live.pending(), 0);
                }
            }
            check(&live, &keys)?;
        }
    }
}

/// A rule with up to two tests, and sometimes a flags column.
fn asking() -> impl Strategy<Value = (Rule, Vec<Test>)> {
    let test = prop_oneof![
        (1_u8..32).prop_map(|states| Test::from(TestKind::State(states))),
        (0_u8..4, 0_u8..4)
            .prop_map(|(mask, value)| Test::from(TestKind::TcpFlags { mask, value: value & mask })),
        Just(Test::from(TestKind::Unknowable(String::from("limit")))),
    ];
    let flags =
        prop::option::of((0_u16..4).prop_map(|bits| FlagsColumn { value: bits << 8, mask: 0x0300 }));
    (rule(), prop::collection::vec(test, 0..3), flags)
        .prop_map(|(rule, tests, flags)| (Rule { flags, ..rule }, tests))
}

/// Compares whole packets with a check of one rule after another.
fn check_packets(live: &Live) -> Result<(), TestCaseError> {
    let rules = live.rules();
    let mut reader = live.reader();
    for number in 0..64_u8 {
        let (low, port) = ((number & 7) << 4, u16::from(number >> 3 & 3));
        let tuple = FiveTuple::v4([10, 0, 0, low], [0, 0, 0, 1], 2, port, 6);
        let fragment = if number % 5 == 0 { Fragment::Later } else { Fragment::Whole };
        let mut packet = Packet::new(tuple).with_fragment(fragment);
        packet.tcp_flags = (number % 7 != 0).then_some(number >> 2 & 3);
        packet.state = (number % 3 != 0).then_some(ConnectionState::ALL[usize::from(number % 5)]);
        let policy = |id: LiveId, rule: &Rule| {
            let mut conditions = Conditions { families: Families::V4, ..Conditions::default() };
            conditions.tests = live.tests(id);
            conditions.tests.extend(rule.flags.map(|column| Test::from(TestKind::Column(column))));
            conditions.ask_port(
                true,
                &Ranges::of([(
                    u128::from(rule.destination_ports.low()),
                    u128::from(rule.destination_ports.high()),
                )]),
            );
            conditions.matches(&packet)
        };
        for assume in [Assume::NoMatch, Assume::Match] {
            let takes =
                |truth: Truth| truth == Truth::Yes || truth == Truth::Maybe && assume == Assume::Match;
            let AnyKey::V4(key) = packet.key() else { unreachable!("the packet is of IPv4") };
            let expected = rules
                .iter()
                .find(|(id, rule)| rule.matches(&key) && takes(policy(*id, rule)))
                .map(|(id, rule)| (*id, rule.value));
            prop_assert_eq!(reader.find(&packet, assume).rule(), expected, "{:?}", packet);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn rules_with_tests_decide_as_asked_one_by_one_through_any_changes(
        first in prop::collection::vec(rule(), 0..20),
        inserted in prop::collection::vec((asking(), 0_u8..8, any::<prop::sample::Index>()), 1..60),
    ) {
        let live = Live::new(&RuleSet::new(first).unwrap(), ClassifierBuilder::new()).unwrap();
        for ((rule, tests), then, index) in inserted {
            let id = live.insert_with(rule, tests.clone()).unwrap();
            prop_assert_eq!(live.tests(id), tests);
            match then {
                0 => live.settle().unwrap(),
                1 => live.rebuild().unwrap(),
                2..5 => {
                    let rules = live.rules();
                    let (id, _) = rules[index.index(rules.len())];
                    live.remove(id).unwrap();
                    prop_assert!(live.tests(id).is_empty());
                }
                _ => {}
            }
            check_packets(&live)?;
        }
    }
}

#[test]
fn tests_hold_in_the_small_tree_of_pending_rules_too() {
    let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
    for bits in 0..300_u16 {
        let tests = vec![TestKind::TcpFlags { mask: 3, value: (bits % 4) as u8 }.into()];
        let source = PrefixV4::new(0x0a00_0000 | u128::from(bits % 8) << 4, 28).unwrap();
        live.insert_with(Rule { value: u32::from(bits), ..Rule::v4(source, PrefixV4::ANY) }, tests)
            .unwrap();
    }
    live.settle().unwrap();
    check_packets(&live).unwrap();
    live.rebuild().unwrap();
    check_packets(&live).unwrap();
}

#[test]
fn lookups_go_on_while_rules_change() {
    let set = synth::rules(Profile::Acl, 500, 1, false).unwrap();
    let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
    let keys: Vec<KeyV4> = headers(&set, Traffic::HITS, 300, 1);
    let (stop, batches) = (AtomicBool::new(false), AtomicU64::new(0));
    // All packets match one of two rules that are never absent at the same time: a lookup that
    // found none would have seen half of a change.
    let mut guard = live.insert(Rule { priority: 9, value: 77, ..Rule::ANY }).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut reader = live.reader();
            let mut found = vec![LiveMatch::default(); keys.len()];
            while !stop.load(Ordering::Relaxed) {
                reader.classify_batch(&keys, &mut found);
                assert!(found.iter().all(|found| found.rule().is_some_and(|(_, value)| value == 77)));
                batches.fetch_add(1, Ordering::Relaxed);
            }
        });
        // A minimum number of changes, and as many as necessary for lookups to happen in between.
        let mut round = 0;
        while (round < 60 || batches.load(Ordering::Relaxed) < 20) && !reading.is_finished() {
            round += 1;
            let next = live.insert(Rule { priority: 9, value: 77, ..Rule::ANY }).unwrap();
            live.remove(guard).unwrap();
            guard = next;
            if round % 20 == 10 {
                live.rebuild().unwrap();
            } else if round % 5 == 0 {
                live.settle().unwrap();
            }
        }
        stop.store(true, Ordering::Relaxed);
        reading.join().unwrap();
    });
}

#[test]
fn a_change_is_seen_by_the_next_batch_and_both_families() {
    let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
    let mut reader = live.reader();
    let id = live.insert(Rule { value: 1, ..Rule::ANY }).unwrap();
    assert_eq!(reader.classify_key(&KeyV6::default()).rule(), Some((id, 1)));
    let above = live.insert(Rule { value: 2, priority: 1, ..Rule::ANY }).unwrap();
    assert_eq!(reader.classify_key(&KeyV4::default()).rule(), Some((above, 2)));
    live.rebuild().unwrap();
    live.remove(above).unwrap();
    assert_eq!(reader.classify_key(&KeyV4::default()).rule(), Some((id, 1)));
}

#[test]
fn a_copy_goes_its_own_way() {
    let set = RuleSet::new(vec![Rule { value: 1, ..Rule::ANY }]).unwrap();
    let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
    let above = live.insert(Rule { value: 2, priority: 1, ..Rule::ANY }).unwrap();
    let copy = live.clone();
    let key = KeyV4::default();
    assert_eq!(copy.reader().classify_key(&key).rule(), Some((above, 2)));
    copy.remove(above).unwrap();
    let id = copy.insert(Rule { value: 3, priority: 2, ..Rule::ANY }).unwrap();
    live.rebuild().unwrap();
    assert_eq!(copy.reader().classify_key(&key).rule(), Some((id, 3)));
    assert_eq!(live.reader().classify_key(&key).rule(), Some((above, 2)));
    assert_eq!((live.len(), copy.len()), (2, 2));
}

#[test]
fn what_cannot_be_built_leaves_the_rules_as_they_are() {
    let set = synth::rules(Profile::Acl, 300, 1, false).unwrap();
    let builder = ClassifierBuilder::new().memory_bytes_max(300 * 24 + 400);
    let live = Live::new(&set, builder).unwrap();
    let keys: Vec<KeyV4> = headers(&set, Traffic::HITS, 100, 1);
    for _ in 0..20 {
        live.insert(Rule { value: 5, ..Rule::ANY }).unwrap();
    }
    assert!(matches!(live.rebuild(), Err(LiveError::Build(BuildError::Memory { .. }))));
    check(&live, &keys).unwrap();
    let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
    let ids: Vec<LiveId> = (0..8).map(|_| live.insert(Rule::ANY).unwrap()).collect();
    assert_eq!(live.len(), ids.len());
    assert_eq!(live.pending(), 8);
}

#[test]
fn many_settled_changes_stand_where_their_priority_puts_them() {
    let at = |low: u32, priority, value| Rule {
        priority,
        value,
        ..Rule::v4(PrefixV4::new(u128::from(low), 32).unwrap(), PrefixV4::ANY)
    };
    let set = RuleSet::new((0..300).map(|low| at(low, 0, 1000 + low)).collect()).unwrap();
    let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
    // More than a prefilter accepts: above, beside and below the existing rules.
    for low in 0..300 {
        live.insert(at(low, [1, 0, -1][low as usize % 3], 2000 + low)).unwrap();
    }
    live.settle().unwrap();
    let keys: Vec<KeyV4> = (0..310).map(|low| KeyV4::new(low, 1, (2, 3), 6)).collect();
    check(&live, &keys).unwrap();
    // Unsettled rules before and after them.
    for low in 0..40 {
        live.insert(at(low, [2, -2, 0, 1][low as usize % 4], 3000 + low)).unwrap();
    }
    check(&live, &keys).unwrap();
    let values: Vec<Option<u32>> = keys[..4]
        .iter()
        .map(|key| live.reader().classify_key(key).rule().map(|(_, value)| value))
        .collect();
    assert_eq!(values, [Some(3000), Some(1001), Some(1002), Some(2003)]);
}

#[test]
fn a_rule_is_shown_to_programmers_under_the_number_of_the_rule_set() {
    let id = LiveId::from_number(7).unwrap();
    assert_eq!(format!("{id} {id:?}"), "7 LiveId(7)");
    let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
    let mut reader = live.reader();
    assert_eq!(format!("{:?}", reader.classify_key(&KeyV4::default())), "LiveMatch(none)");
    live.insert(Rule { value: 9, ..Rule::ANY }).unwrap();
    assert_eq!(format!("{:?}", reader.classify_key(&KeyV4::default())), "LiveMatch(0, value 9)");
}

#[test]
fn a_set_says_whether_it_is_empty_and_errors_say_what_to_do() {
    let live = Live::new(&RuleSet::default(), ClassifierBuilder::new()).unwrap();
    assert!(live.is_empty());
    let id = live.insert(Rule::ANY).unwrap();
    assert!(!live.is_empty());
    live.remove(id).unwrap();
    assert!(live.is_empty());
    for (error, said) in [
        (LiveError::NoSuchRule, "no rule has this id any more"),
        (LiveError::TooManyPending, "4096 changes already wait for a rebuild; rebuild first"),
        (LiveError::TooManyRules, "the set already has 16777215 rules; remove one first"),
        (LiveError::NumbersUsedUp, "4294967295 rules have been added; create another set"),
        (LiveError::Build(BuildError::Work { limit_steps: 7 }), "7"),
    ] {
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn as_many_changes_wait_as_the_limit_says_of_either_kind() {
    let set = RuleSet::new(vec![Rule::ANY; 2]).unwrap();
    let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
    let ids: Vec<LiveId> = live.rules().iter().map(|(id, _)| *id).collect();
    live.remove(ids[0]).unwrap();
    for _ in 1..PENDING_MAX {
        live.insert(Rule::ANY).unwrap();
    }
    assert_eq!(live.insert(Rule::ANY), Err(LiveError::TooManyPending));
    assert_eq!(live.remove(ids[1]), Err(LiveError::TooManyPending));
    live.rebuild().unwrap();
    assert_eq!(live.remove(ids[1]), Ok(Rule::ANY));
    assert!(live.insert(Rule::ANY).is_ok());
}

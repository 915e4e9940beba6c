//! A set that changes answers as a set built of the same rules does.
#![expect(clippy::unwrap_used, reason = "strategies build what is right by construction")]

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flowloom_classifier::headers::{Traffic, headers};
use flowloom_classifier::live::{Live, LiveError, LiveId, LiveMatch, PENDING_MAX};
use flowloom_classifier::synth::{self, Profile};
use flowloom_classifier::{
    BuildError, ClassifierBuilder, KeyV4, KeyV6, PortRange, PrefixV4, Rule, RuleSet,
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

#[test]
fn lookups_go_on_while_rules_change() {
    let set = synth::rules(Profile::Acl, 500, 1, false).unwrap();
    let live = Live::new(&set, ClassifierBuilder::new()).unwrap();
    let keys: Vec<KeyV4> = headers(&set, Traffic::HITS, 300, 1);
    let (stop, batches) = (AtomicBool::new(false), AtomicU64::new(0));
    // All packets match one of two rules that are never away at the same time: a lookup that found
    // none saw half a change.
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
        // At least so many changes, and as many as it takes for lookups to be in between.
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
    // More than a prefilter takes: above, beside and below the rules that were there.
    for low in 0..300 {
        live.insert(at(low, [1, 0, -1][low as usize % 3], 2000 + low)).unwrap();
    }
    live.settle().unwrap();
    let keys: Vec<KeyV4> = (0..310).map(|low| KeyV4::new(low, 1, (2, 3), 6)).collect();
    check(&live, &keys).unwrap();
    // And unsettled ones before and behind them.
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
        (LiveError::TooManyPending, "4096 changes wait for a rebuild already; rebuild first"),
        (LiveError::TooManyRules, "the set has 16777215 rules already; remove one first"),
        (LiveError::NumbersUsedUp, "4294967295 rules were added already; make another set"),
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

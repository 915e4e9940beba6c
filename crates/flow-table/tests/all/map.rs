//! Compares a [`FlowMap`] with the standard library's map, and tests its additional features.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};

use flowloom_flow_table::evict::UnestablishedFirst;
use flowloom_flow_table::map::Entry;
use flowloom_flow_table::{
    BuildError, FiveTuple, FlowMap, Full, FullReason, Refused, Tick, TimeoutClass, Timeouts,
};
use proptest::prelude::*;

/// The operation of a step in a random history, on one of a few keys.
#[derive(Clone, Debug)]
enum Step {
    Insert(u16, u32),
    Remove(u16),
    Get(u16),
    Change(u16, u32),
    Entry(u16, u32),
    RemoveEntry(u16),
    RemoveKey(u16),
    TryInsert(u16, u32),
    Disjoint([u16; 3], u32),
    EntryOfKey(u16),
    RetainMultiples(u32),
    ExtractMultiples(u32, usize),
    Reserve(u32),
    AddToAll(u32),
    Batch(Vec<u16>),
    Compact(u32),
    Shrink(u32),
    Drain(usize),
    Clone,
}

fn step(keys: u16) -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::Insert(key, value)),
        8 => (0..keys).prop_map(Step::Remove),
        5 => (0..keys).prop_map(Step::Get),
        5 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::Change(key, value)),
        8 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::Entry(key, value)),
        3 => (0..keys).prop_map(Step::RemoveEntry),
        3 => (0..keys).prop_map(Step::RemoveKey),
        3 => (0..keys, any::<u32>()).prop_map(|(key, value)| Step::TryInsert(key, value)),
        3 => ([0..keys, 0..keys, 0..keys], any::<u32>()).prop_map(|(keys, by)| Step::Disjoint(keys, by)),
        3 => (0..keys).prop_map(Step::EntryOfKey),
        1 => (2..9_u32).prop_map(Step::RetainMultiples),
        1 => (2..9_u32, 0..9_usize).prop_map(|(of, count)| Step::ExtractMultiples(of, count)),
        1 => (0..3000_u32).prop_map(Step::Reserve),
        1 => any::<u32>().prop_map(Step::AddToAll),
        2 => prop::collection::vec(0..keys, 0..600).prop_map(Step::Batch),
        2 => (1..40_u32).prop_map(Step::Compact),
        2 => (1..40_u32).prop_map(Step::Shrink),
        1 => (0..40_usize).prop_map(Step::Drain),
        1 => Just(Step::Clone),
    ]
}

/// Extracts a few of the flows whose values, once changed, are multiples.
fn extract(map: &mut FlowMap<u16, u32>, model: &mut HashMap<u16, u32>, of: u32, count: usize) {
    let condition = |_: &u16, value: &mut u32| {
        *value ^= 2;
        (*value).is_multiple_of(of)
    };
    let mut seen = Vec::new();
    let extracted: Vec<_> = map
        .extract_if(|key, value| {
            seen.push(*key);
            condition(key, value)
        })
        .take(count)
        .collect();
    for key in seen {
        let value = model.get_mut(&key).expect("the map has what the model has");
        if condition(&key, value) {
            let flow = model.remove_entry(&key).expect("it was just changed");
            assert!(extracted.contains(&flow));
        }
    }
    assert!(extracted.iter().all(|(key, _)| !model.contains_key(key)));
}

/// Reserves space, and uses some of it.
fn reserve(map: &mut FlowMap<u16, u32>, model: &HashMap<u16, u32>, flows: u32) {
    if map.try_reserve(flows).is_ok() {
        let (memory, stays) = (map.memory(), map.len() + flows as usize);
        let new: Vec<_> =
            (0..=u16::MAX).filter(|key| !model.contains_key(key)).take(flows.min(50) as usize).collect();
        for &key in &new {
            assert_eq!(map.insert(key, 0), Ok(None));
        }
        assert!(map.len() <= stays && map.memory() == memory, "reserved space is enough");
        assert!(new.iter().all(|key| map.remove(key) == Some(0)));
    }
}

/// Changes the values of three keys, if they differ.
fn change_disjoint(map: &mut FlowMap<u16, u32>, model: &mut HashMap<u16, u32>, keys: [u16; 3], by: u32) {
    let [a, b, c] = &keys;
    if a != b && b != c && a != c {
        let both = [map.get_disjoint_mut([a, b, c]), model.get_disjoint_mut([a, b, c])];
        assert_eq!(both[0], both[1]);
        for value in both.into_iter().flatten().flatten() {
            *value ^= by;
        }
    }
}

/// Compares all that iterators yield.
fn compare(map: FlowMap<u16, u32>, model: HashMap<u16, u32>) {
    let mut flows: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
    assert_eq!(map.iter().len(), flows.len());
    flows.sort_unstable();
    let mut expected: Vec<_> = model.into_iter().collect();
    expected.sort_unstable();
    assert_eq!(flows, expected);
    assert!(map.flows().all(|flow| {
        map.id_of(flow.key) == Some(flow.id)
            && map.get_by_id(flow.id) == Some(flow.value)
            && map.last_seen(flow.id) == Some(flow.last_seen)
    }));
    assert_eq!(map.flows().len(), expected.len());
    let copies = [map.clone(), map.clone()];
    let [keys, values] = copies;
    let mut parts = (keys.into_keys().collect::<Vec<_>>(), values.into_values().collect::<Vec<_>>());
    parts.0.sort_unstable();
    parts.1.sort_unstable();
    let mut expected_values: Vec<_> = expected.iter().map(|(_, value)| *value).collect();
    expected_values.sort_unstable();
    assert_eq!(parts, (expected.iter().map(|(key, _)| *key).collect(), expected_values));
    let mut owned: Vec<_> = map.into_iter().collect();
    owned.sort_unstable();
    assert_eq!(owned, expected);
}

fn check(steps: Vec<Step>, mut map: FlowMap<u16, u32>) {
    let mut model = HashMap::new();
    for step in steps {
        match step {
            Step::Insert(key, value) => assert_eq!(map.insert(key, value), Ok(model.insert(key, value))),
            Step::Remove(key) => assert_eq!(map.remove(&key), model.remove(&key)),
            Step::Get(key) => {
                assert_eq!(map.get(&key), model.get(&key));
                let id = map.id_of(&key);
                assert_eq!(id.and_then(|id| map.get_by_id(id)), model.get(&key));
                assert_eq!(id.and_then(|id| map.key_of(id)), model.contains_key(&key).then_some(key));
            }
            Step::Change(key, value) => {
                if let Some(old) = map.get_mut(&key) {
                    *old = value;
                }
                if let Some(old) = model.get_mut(&key) {
                    *old = value;
                }
            }
            Step::Entry(key, value) => {
                let own = map.entry(key).and_modify(|old| *old ^= 1).or_insert(value).copied();
                assert_eq!(own, Ok(*model.entry(key).and_modify(|old| *old ^= 1).or_insert(value)));
            }
            Step::RemoveEntry(key) => {
                let own = match map.entry(key) {
                    Entry::Occupied(entry) if key % 2 == 0 => Some((key, entry.remove())),
                    Entry::Occupied(entry) => Some(entry.remove_entry()),
                    Entry::Vacant(_) => None,
                };
                assert_eq!(own, model.remove_entry(&key));
            }
            Step::RemoveKey(key) => assert_eq!(map.remove_entry(&key), model.remove_entry(&key)),
            Step::TryInsert(key, value) => {
                let left = model.contains_key(&key).then_some(value);
                let mut expected = *model.entry(key).or_insert(value);
                assert_eq!(map.try_insert(key, value), Ok((&mut expected, left)));
            }
            Step::Disjoint(keys, by) => change_disjoint(&mut map, &mut model, keys, by),
            Step::EntryOfKey(key) => {
                let own = map.entry(key).or_insert_with_key(|key| u32::from(*key) + 1).copied();
                assert_eq!(own, Ok(*model.entry(key).or_insert_with_key(|key| u32::from(*key) + 1)));
            }
            Step::ExtractMultiples(of, count) => extract(&mut map, &mut model, of, count),
            Step::Reserve(flows) => reserve(&mut map, &model, flows),
            Step::RetainMultiples(of) => {
                map.retain(|_, value| value.is_multiple_of(of));
                model.retain(|_, value| value.is_multiple_of(of));
            }
            Step::AddToAll(number) => {
                for value in map.values_mut().chain(model.values_mut()) {
                    *value = value.wrapping_add(number);
                }
            }
            Step::Batch(keys) => {
                let mut found = vec![None; keys.len()];
                map.get_batch(&keys, |i, value| found[i] = Some(*value));
                let expected: Vec<_> = keys.iter().map(|key| model.get(key).copied()).collect();
                assert_eq!(found, expected);
                map.get_batch_mut(&keys, |i, value| *value ^= u32::try_from(i).expect("a short batch"));
                for (number, key) in (0..).zip(&keys) {
                    if let Some(value) = model.get_mut(key) {
                        *value ^= number;
                    }
                }
            }
            Step::Compact(budget) => {
                map.compact(budget, |old, new| assert_ne!(old, new));
            }
            Step::Shrink(budget) => {
                map.shrink(budget, |old, new| assert_ne!(old, new));
            }
            Step::Drain(count) => {
                let drained: Vec<_> = map.drain().take(count).collect();
                assert_eq!(drained.len(), count.min(model.len()));
                for (key, value) in drained {
                    assert_eq!(model.remove(&key), Some(value));
                }
                model.clear();
            }
            Step::Clone => map = map.clone(),
        }
        assert_eq!((map.len(), map.is_empty()), (model.len(), model.is_empty()));
    }
    compare(map, model);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn map_behaves_as_the_standard_map(steps in prop::collection::vec(step(150), 1..400)) {
        // A first segment of eight flows, so that it grows often.
        check(steps, FlowMap::builder().flows(8).build().unwrap());
    }

    #[test]
    fn map_that_grows_from_empty_behaves_as_the_standard_map(steps in prop::collection::vec(step(150), 1..400)) {
        check(steps, FlowMap::new());
    }

    #[test]
    fn map_of_one_segment_behaves_as_the_standard_map(steps in prop::collection::vec(step(40), 1..400)) {
        check(steps, FlowMap::with_capacity(64));
    }
}

/// A hasher of the kind that fills buckets by identity.
#[derive(Clone, Default)]
struct Identity;

struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are words");
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = word;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl BuildHasher for Identity {
    type Hasher = IdentityHasher;

    fn build_hasher(&self) -> IdentityHasher {
        IdentityHasher(0)
    }
}

#[test]
fn map_works_with_weak_hashers() {
    let flows = if cfg!(miri) { 500 } else { 100_000 };
    for shift in [0, 20, 32] {
        let mut map: FlowMap<u64, (), Identity> = FlowMap::with_hasher(Identity);
        for key in 0..flows {
            map.insert(key << shift, ()).expect("identity keys spread");
        }
        assert_eq!(map.len() as u64, flows);
    }
}

#[test]
fn map_grows_from_empty_and_returns_to_one_segment() {
    let flows = if cfg!(miri) { 3_000 } else { 300_000 };
    let mut map: FlowMap<FiveTuple, u32> = FlowMap::new();
    let tuple = |i: u32| FiveTuple::v4(i.to_be_bytes(), [10, 0, 0, 1], 5, 443, 6);
    let mut ids: Vec<_> = (0..flows)
        .map(|i| {
            map.insert(tuple(i), i).unwrap();
            map.id_of(&tuple(i)).unwrap()
        })
        .collect();
    assert!((0..flows).zip(&ids).all(|(i, id)| map.get_by_id(*id) == Some(&i)), "ids stay");
    assert!(map.stats().segments > 1);
    let mut moved = HashMap::new();
    let mut more = true;
    while more {
        let on_move = |old, new| {
            moved.insert(old, new);
        };
        more = map.compact(1000, on_move).more;
    }
    assert_eq!(map.stats().segments, 1);
    for id in &mut ids {
        while let Some(new) = moved.get(id) {
            *id = *new;
        }
    }
    assert!((0..flows).zip(&ids).all(|(i, id)| map.get_by_id(*id) == Some(&i)));
    assert!((0..flows).all(|i| map[&tuple(i)] == i));
}

#[test]
fn a_map_gives_its_memory_back_and_grows_again() {
    let flows = if cfg!(miri) { 6_000 } else { 400_000_u32 };
    let mut map: FlowMap<u32, u32> = FlowMap::new();
    for turn in 1..=2 {
        map.extend((0..flows).map(|key| (key, key)));
        let (full, last) = (map.memory().total_bytes(), map.id_of(&0));
        map.retain(|key, _| key % 10 == 0);
        let (mut moved, mut calls) = (0, 0);
        let mut last = last.expect("it stays");
        loop {
            let mut count = 0;
            let drained = map.shrink(1000, |old, new| {
                last = if last == old { new } else { last };
                count += 1;
            });
            assert!(count == drained.moved && count <= 1000, "the work of a call is bounded");
            (moved, calls) = (moved + count, calls + 1);
            if !drained.more {
                break;
            }
        }
        assert!((flows / 10..=flows / 5).contains(&moved), "{moved} moves in {calls} calls");
        assert_eq!((map.id_of(&0), map.get_by_id(last)), (Some(last), Some(&0)));
        let mut built = FlowMap::with_capacity(flows / 10);
        built.extend(map.iter().map(|(key, value)| (*key, *value)));
        let (left, built) = (map.memory().total_bytes(), built.memory().total_bytes());
        assert!(left * 10 <= built * 13, "turn {turn}: {left} bytes of {full} are left, not {built}");
        assert!((0..flows).all(|key| map.get(&key) == (key % 10 == 0).then_some(&key)));
        assert_eq!(map.shrink(1000, |_, _| panic!("nothing to move")).moved, 0);
    }
}

#[test]
fn a_map_with_a_maximum_refuses_and_evicts() {
    let mut map = FlowMap::builder().max_flows(3).build().unwrap();
    for key in 0..3_u32 {
        assert_eq!(map.insert(key, key == 0), Ok(None));
    }
    let full = Full { reason: FullReason::Capacity };
    let refused = |value| Refused { value, reason: FullReason::Capacity };
    assert_eq!(map.insert(3, true), Err(refused(true)));
    assert_eq!(map.insert(3, false), Err(refused(false)));
    assert_eq!(map.entry(3).or_insert(true), Err(refused(true)));
    assert_eq!(map.entry(3).or_insert_with(|| unreachable!()), Err(full));
    assert_eq!(map.get_or_insert_with(3, || unreachable!()), Err(full));
    assert_eq!(map.insert(1, false), Ok(Some(false)), "what is there may change");
    map.extend([(7, true), (8, true)]);
    assert_eq!((map.len(), map.stats().refused), (3, 7));
    let mut policy = UnestablishedFirst::new(|established: &bool| *established);
    map.get_or_evict_with(9, || true, &mut policy).unwrap();
    assert!(map.contains_key(&0) && map.contains_key(&9) && map.len() == 3);
    assert!(FlowMap::builder().max_flows(0).build::<u8, ()>().is_err());
    let zero = FlowMap::builder().timeout(0);
    assert_eq!(zero.build::<u8, ()>().map(|_| ()), Err(BuildError::ZeroTimeout));
    assert!(zero.timeout(1).build::<u8, ()>().is_ok());
    assert!(zero.timeouts(Timeouts::NEVER).build::<u8, ()>().is_ok());
    assert!(FlowMap::builder().max_flows(u32::MAX).build::<u8, ()>().is_err());
    assert!(FlowMap::builder().flows(1 << 20).memory_max_bytes(1 << 20).build::<u8, ()>().is_err());
}

#[test]
fn only_packet_calls_renew_a_flow() {
    let (short, long) = (TimeoutClass(0), TimeoutClass(1));
    let timeouts = Timeouts::NEVER.with(short, 100).with(long, 10_000);
    let mut map = FlowMap::builder().timeouts(timeouts).build().unwrap();
    for key in 0..8_u32 {
        map.insert(key, ()).unwrap();
    }
    map.entry(8).in_class(long).or_insert(()).unwrap();
    map.set_now(Tick(90));
    assert!(map.get(&0).is_some() && map.peek_mut(&1).is_some() && map.iter_mut().count() == 9);
    map.get_mut(&2).unwrap();
    map.insert(3, ()).unwrap();
    map.entry(4).or_default().unwrap();
    map.get_batch_mut(&[5], |_, ()| {});
    map.get_or_insert_with(6, || unreachable!()).unwrap();
    let id = map.id_of(&7).unwrap();
    map.get_by_id_mut(id).unwrap();
    assert_eq!(map.last_seen(id), Some(Tick(90)));
    let mut gone = Vec::new();
    map.set_now(Tick(150));
    let all: HashMap<_, _> = map.flows().map(|flow| (flow.id, *flow.key)).collect();
    let expired = map.expire(100, |id, key, ()| {
        assert_eq!(all[&id], key);
        gone.push(key);
    });
    gone.sort_unstable();
    assert_eq!((gone, expired.removed, map.len()), (vec![0, 1], 2, 7));
    assert!(map.set_class(id, long));
    let mut copy = map.clone();
    for map in [&mut map, &mut copy] {
        map.set_now(Tick(1000));
        map.expire(100, |_, _, ()| {});
        let mut left: Vec<_> = map.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [7, 8], "classes and times are cloned");
    }
}

#[test]
fn get_disjoint_renews_flows_and_never_aliases() {
    let mut map = FlowMap::builder().flows(2).build().unwrap();
    for key in 0..20_u32 {
        map.insert(key, key).unwrap();
    }
    assert!(map.stats().segments > 1);
    map.set_now(Tick(9));
    let keys: [u32; 6] = [19, 3, 77, 0, 5, 18];
    let found = map.get_disjoint_mut(keys.each_ref());
    assert_eq!(found.map(|value| value.map(|value| *value)), keys.map(|key| (key < 20).then_some(key)));
    assert_eq!(map.flows().filter(|flow| flow.last_seen == Tick(9)).count(), 5);
    assert_eq!(map.get_disjoint_mut([&77, &77]), [None, None]);
    let twice = std::panic::AssertUnwindSafe(|| map.get_disjoint_mut([&3, &4, &3]).len());
    assert!(std::panic::catch_unwind(twice).is_err());
}

/// A map with two segments, whose flow 0 is past its deadline and not removed yet.
fn overdue(granule: u64, now: u64) -> FlowMap<u32, u32> {
    let mut map = FlowMap::builder().flows(2).timeout(8 * granule).build().expect("a valid configuration");
    map.set_now(Tick(now - 8 * granule));
    map.extend([(0, 0)]);
    map.set_now(Tick(now));
    map.extend((1..30).map(|key| (key, key)));
    assert!(map.stats().segments > 1);
    map
}

#[test]
fn a_flow_that_moves_past_its_deadline_is_found_by_the_same_expire() {
    for granule in [1, 2, 1000] {
        for now in [8, 9, 100, 5000].map(|granules| granules * granule) {
            let (mut map, mut gone) = (overdue(granule, now), Vec::new());
            map.clone().expire(100, |_, key, _| gone.push(key));
            while map.compact(7, |_, _| ()).more {}
            assert_eq!((map.stats().segments, map.len()), (1, 30));
            map.expire(100, |_, key, _| gone.push(key));
            assert_eq!(gone, [0, 0], "granule {granule}, now {now}");
            assert_eq!(map.expire(100, |_, _, _| ()).removed, 0);
            map.set_now(Tick(now + 10 * granule));
            assert_eq!(map.expire(100, |_, _, _| ()).removed, 29);
        }
    }
}

#[test]
fn a_flow_whose_new_class_has_timed_out_is_found_by_the_next_expire() {
    let (long, short) = (TimeoutClass(0), TimeoutClass(1));
    let timeouts = Timeouts::NEVER.with(long, 1000).with(short, 80);
    let mut map = FlowMap::builder().timeouts(timeouts).build().unwrap();
    for key in 0..20_u32 {
        map.insert(key, ()).unwrap();
    }
    map.set_now(Tick(500));
    assert_eq!(map.expire(100, |_, _, ()| ()).removed, 0);
    for key in 0..10 {
        let id = map.id_of(&key).unwrap();
        assert!(map.set_class(id, short));
    }
    assert_eq!(map.expire(100, |_, _, ()| ()).removed, 10, "at the same time");
    map.set_now(Tick(999));
    assert_eq!(map.expire(100, |_, _, ()| ()).removed, 0);
    map.set_now(Tick(1010));
    assert_eq!(map.expire(100, |_, _, ()| ()).removed, 10);
}

#[test]
fn maps_are_collected_compared_and_printed_as_standard_maps() {
    let map = FlowMap::<_, _>::from([(1_u32, "a"), (2, "b")]);
    let other: FlowMap<_, _> = [(2, "b"), (1, "a")].into_iter().collect();
    assert_eq!(map, other);
    assert_ne!(map, FlowMap::from([(1, "a"), (2, "c")]));
    assert_eq!(format!("{:?}", FlowMap::<_, _>::from([(1_u32, "a")])), "{1: \"a\"}");
    let mut sum = 0;
    for (key, _) in &map {
        sum += key;
    }
    assert_eq!((sum, map.values().count(), map.contains_key(&3)), (3, 2, false));
    assert!(FlowMap::<u32, u32>::default().is_empty());
}

#[test]
#[should_panic(expected = "the map contains the key")]
fn indexing_with_an_absent_key_panics() {
    let map = FlowMap::<u32, u32>::new();
    let _ = map[&7];
}

#[test]
fn values_are_dropped_once() {
    let value = std::rc::Rc::new(());
    let mut map = FlowMap::builder().flows(4).build().unwrap();
    for key in 0..100_u32 {
        map.insert(key, value.clone()).unwrap();
    }
    map.insert(7, value.clone()).unwrap();
    drop(map.drain().take(3));
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
    map.insert(7, value.clone()).unwrap();
    let mut rest = map.clone().into_iter();
    assert!(rest.next().is_some() && rest.next().is_none());
    drop(rest);
    drop(map);
    assert_eq!(std::rc::Rc::strong_count(&value), 1);
}

#[test]
fn a_map_of_references_may_be_dropped_after_what_they_refer_to() {
    let (mut map, mut pairs, text);
    text = String::from("dropped before the map");
    map = FlowMap::new();
    pairs = FlowMap::new().into_iter();
    map.insert(7_u32, text.as_str()).unwrap();
    assert_eq!((map[&7], pairs.next()), (text.as_str(), None));
    pairs = FlowMap::<_, _>::from([(7_u32, text.as_str())]).into_iter();
    assert_eq!(pairs.len(), 1);
}

/// A map and its iterators are covariant in their lifetime.
#[expect(dead_code, reason = "these functions need only compile")]
mod covariant {
    use flowloom_flow_table::FlowMap;
    use flowloom_flow_table::map::{Flows, IntoIter, IntoKeys, IntoValues, Iter, Keys, Values};

    type Text = &'static str;

    fn map<'s>(map: FlowMap<u8, Text>) -> FlowMap<u8, &'s str> {
        map
    }
    fn iter<'s>(iter: Iter<'_, u8, Text>) -> Iter<'_, u8, &'s str> {
        iter
    }
    fn flows<'s>(flows: Flows<'_, u8, Text>) -> Flows<'_, u8, &'s str> {
        flows
    }
    fn keys<'s>(keys: Keys<'_, u8, Text>) -> Keys<'_, u8, &'s str> {
        keys
    }
    fn values<'s>(values: Values<'_, u8, Text>) -> Values<'_, u8, &'s str> {
        values
    }
    fn into_iter<'s>(iter: IntoIter<u8, Text>) -> IntoIter<u8, &'s str> {
        iter
    }
    fn into_keys<'s>(keys: IntoKeys<u8, Text>) -> IntoKeys<u8, &'s str> {
        keys
    }
    fn into_values<'s>(values: IntoValues<u8, Text>) -> IntoValues<u8, &'s str> {
        values
    }
}

#[test]
fn map_can_be_sent_between_threads() {
    fn crosses<T: Send + Sync>(_: &T) {}
    crosses(&FlowMap::<u32, u32>::new());
}

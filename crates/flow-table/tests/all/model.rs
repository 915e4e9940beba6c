//! Random steps on every table that callers use directly, beside a model: the standard library's
//! map with a deadline for each flow. Tables begin with too little, too much or the right space,
//! and pass through bursts, expiry, refusals and panics of `make`.

#![cfg(not(any(loom, shuttle)))]

use std::collections::HashMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;

use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, Handle};
use flowloom_flow_table::{
    Expired, FlowMap, FlowTable, Full, FullReason, KeyedState, LineHash, Refused, TableHash, TableOptions,
    Tick, TimeoutClass, Timeouts,
};
use proptest::prelude::*;

/// A value that owns memory, so that Miri and leak checks see each one.
type Value = Arc<u64>;

/// Idle time after which a flow ends, by class.
const TIMEOUTS: [Option<u64>; 3] = [Some(100), Some(1000), None];

fn timeouts() -> Timeouts {
    let [Some(short), Some(long), None] = TIMEOUTS else { unreachable!("two of the classes time out") };
    Timeouts::NEVER.with(TimeoutClass(0), short).with(TimeoutClass(1), long)
}

/// The operations that all tables have.
trait Subject {
    /// Ticks by which an expired flow may stay.
    fn granule(&self) -> u64;
    fn len(&self) -> usize;
    fn set_now(&mut self, now: u64);
    fn insert(&mut self, key: u64, value: Value) -> Result<(), Refused<Value>>;
    /// Inserts a value unless the key has one; returns whether it did.
    fn insert_if_absent(&mut self, key: u64, value: Value) -> Result<bool, Refused<Value>>;
    fn get_or_insert_with(&mut self, key: u64, make: impl FnOnce() -> Value) -> Result<Value, Full>;
    fn get(&self, key: u64) -> Option<Value>;
    fn touch(&mut self, key: u64) -> Option<Value>;
    fn set_class(&mut self, key: u64, class: TimeoutClass) -> bool;
    fn remove(&mut self, key: u64) -> Option<Value>;
    fn expire(&mut self, budget: u32, gone: &mut Vec<(u64, Value)>) -> Expired;
    fn all(&self) -> Vec<(u64, Value)>;
}

struct Shared<'t> {
    table: &'t ConcurrentFlowTable<u64, Value>,
    handle: Handle<'t, u64, Value, KeyedState>,
}

impl Subject for Shared<'_> {
    fn granule(&self) -> u64 {
        0
    }

    fn len(&self) -> usize {
        self.table.len()
    }

    fn set_now(&mut self, now: u64) {
        self.table.set_now(Tick(now));
    }

    fn insert(&mut self, key: u64, value: Value) -> Result<(), Refused<Value>> {
        self.handle.pin().insert(key, value).map(|_| ())
    }

    fn insert_if_absent(&mut self, key: u64, value: Value) -> Result<bool, Refused<Value>> {
        self.handle.pin().try_insert(key, value).map(|(_, left)| left.is_none())
    }

    fn get_or_insert_with(&mut self, key: u64, make: impl FnOnce() -> Value) -> Result<Value, Full> {
        self.handle.pin().get_or_insert_with(key, make).cloned()
    }

    fn get(&self, key: u64) -> Option<Value> {
        self.handle.pin().get(&key).cloned()
    }

    fn touch(&mut self, key: u64) -> Option<Value> {
        self.handle.pin().touch(&key).cloned()
    }

    fn set_class(&mut self, key: u64, class: TimeoutClass) -> bool {
        self.handle.pin().lookup(&key).map(|flow| flow.set_class(class)).is_some()
    }

    fn remove(&mut self, key: u64) -> Option<Value> {
        self.handle.pin().remove(&key).cloned()
    }

    fn expire(&mut self, budget: u32, gone: &mut Vec<(u64, Value)>) -> Expired {
        self.handle.pin().expire(budget, |flow| gone.push((flow.key(), Arc::clone(flow.value()))))
    }

    fn all(&self) -> Vec<(u64, Value)> {
        let mut all = Vec::new();
        self.handle.pin().for_each(|flow| all.push((flow.key(), Arc::clone(flow.value()))));
        all
    }
}

impl Subject for FlowMap<u64, Value> {
    fn granule(&self) -> u64 {
        self.stats().granule_ticks
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn set_now(&mut self, now: u64) {
        self.set_now(Tick(now));
    }

    fn insert(&mut self, key: u64, value: Value) -> Result<(), Refused<Value>> {
        self.insert(key, value).map(|_| ())
    }

    fn insert_if_absent(&mut self, key: u64, value: Value) -> Result<bool, Refused<Value>> {
        let given = Arc::clone(&value);
        self.entry(key).or_insert(value).map(|value| Arc::ptr_eq(value, &given))
    }

    fn get_or_insert_with(&mut self, key: u64, make: impl FnOnce() -> Value) -> Result<Value, Full> {
        self.get_or_insert_with(key, make).cloned()
    }

    fn get(&self, key: u64) -> Option<Value> {
        self.get(&key).cloned()
    }

    fn touch(&mut self, key: u64) -> Option<Value> {
        self.get_mut(&key).cloned()
    }

    fn set_class(&mut self, key: u64, class: TimeoutClass) -> bool {
        self.id_of(&key).is_some_and(|id| self.set_class(id, class))
    }

    fn remove(&mut self, key: u64) -> Option<Value> {
        self.remove(&key)
    }

    fn expire(&mut self, budget: u32, gone: &mut Vec<(u64, Value)>) -> Expired {
        self.expire(budget, |_, key, value| gone.push((key, value)))
    }

    fn all(&self) -> Vec<(u64, Value)> {
        self.iter().map(|(key, value)| (*key, Arc::clone(value))).collect()
    }
}

/// A [`LineHash`] with the time of its packets.
struct Lines {
    table: LineHash<u64, Value>,
    now: Tick,
}

const SHORT: TimeoutClass = TimeoutClass(0);

impl Subject for Lines {
    fn granule(&self) -> u64 {
        self.table.stats().granule_ticks
    }

    fn len(&self) -> usize {
        self.table.len() as usize
    }

    fn set_now(&mut self, now: u64) {
        self.now = Tick(now);
    }

    fn insert(&mut self, key: u64, value: Value) -> Result<(), Refused<Value>> {
        self.table.insert(key, TableHash::from_weak(key), value, SHORT, self.now).map(|_| ())
    }

    fn insert_if_absent(&mut self, key: u64, value: Value) -> Result<bool, Refused<Value>> {
        let hash = TableHash::from_weak(key);
        match self.table.lookup_touch(&key, hash, self.now) {
            Some(_) => Ok(false),
            None => self.table.insert(key, hash, value, SHORT, self.now).map(|_| true),
        }
    }

    fn get_or_insert_with(&mut self, key: u64, make: impl FnOnce() -> Value) -> Result<Value, Full> {
        let entry = self.table.entry_with(key, TableHash::from_weak(key), SHORT, self.now, make)?;
        let (value, _) = self.table.get_mut_touch(entry.id, self.now).expect("the entry has its flow");
        Ok(Arc::clone(value))
    }

    fn get(&self, key: u64) -> Option<Value> {
        self.table.lookup_value(&key, TableHash::from_weak(key)).map(|(_, value)| Arc::clone(value))
    }

    fn touch(&mut self, key: u64) -> Option<Value> {
        let found = self.table.lookup_touch(&key, TableHash::from_weak(key), self.now);
        found.map(|(_, value, _)| Arc::clone(value))
    }

    fn set_class(&mut self, key: u64, class: TimeoutClass) -> bool {
        let id = self.table.lookup(&key, TableHash::from_weak(key));
        id.is_some_and(|id| self.table.set_class(id, class))
    }

    fn remove(&mut self, key: u64) -> Option<Value> {
        self.table.remove_key(&key, TableHash::from_weak(key))
    }

    fn expire(&mut self, budget: u32, gone: &mut Vec<(u64, Value)>) -> Expired {
        self.table.expire(self.now, budget, &mut |_, key, value| gone.push((key, value)))
    }

    fn all(&self) -> Vec<(u64, Value)> {
        self.table.iter().map(|(_, key, value)| (key, Arc::clone(value))).collect()
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert(u64),
    InsertIfAbsent(u64),
    GetOrInsert(u64),
    MakePanics(u64),
    Touch(u64),
    SetClass(u64, u8),
    Remove(u64),
    /// Inserts keys that no other step uses.
    Burst(u16),
    /// Removes flows until this many are left.
    RemoveAllBut(usize),
    /// Time passes.
    Wait(u64),
    ExpireSome(u32),
    ExpireAll(u32),
    /// Nothing comes for so long that most flows end.
    Night(u32),
}

fn step() -> impl Strategy<Value = Step> {
    let key = 0..100_u64;
    prop_oneof![
        6 => key.clone().prop_map(Step::Insert),
        4 => key.clone().prop_map(Step::InsertIfAbsent),
        4 => key.clone().prop_map(Step::GetOrInsert),
        3 => key.clone().prop_map(Step::MakePanics),
        4 => key.clone().prop_map(Step::Touch),
        3 => (key.clone(), 0..3_u8).prop_map(|(key, class)| Step::SetClass(key, class)),
        4 => key.prop_map(Step::Remove),
        4 => (0..if cfg!(miri) { 30 } else { 700_u16 }).prop_map(Step::Burst),
        2 => (0..50_usize).prop_map(Step::RemoveAllBut),
        3 => (0..300_u64).prop_map(Step::Wait),
        2 => (0..200_u32).prop_map(Step::ExpireSome),
        2 => (1..500_u32).prop_map(Step::ExpireAll),
        2 => (1..5000_u32).prop_map(Step::Night),
    ]
}

#[derive(Clone, Debug)]
struct Flow {
    value: Value,
    class: u8,
    seen: u64,
}

impl Flow {
    fn deadline(&self) -> u64 {
        TIMEOUTS[usize::from(self.class)].map_or(u64::MAX, |timeout| self.seen + timeout)
    }
}

/// A table and a model of its contents.
struct Pair<T> {
    table: T,
    flows: HashMap<u64, Flow>,
    flows_max: usize,
    now: u64,
    /// The number of values so far, each of which is new.
    values: u64,
    /// Whether a walk for expiry has begun and not ended.
    in_walk: bool,
}

impl<T: Subject> Pair<T> {
    fn new(table: T, flows_max: usize) -> Self {
        Self { table, flows: HashMap::new(), flows_max, now: 0, values: 0, in_walk: false }
    }

    fn value(&mut self) -> Value {
        self.values += 1;
        Arc::new(self.values)
    }

    /// Returns whether the model has a key or space for it.
    fn has_space(&self, key: u64) -> bool {
        self.flows.contains_key(&key) || self.flows.len() < self.flows_max
    }

    fn check_refusal(&self, key: u64, value: &Value, outcome: Result<(), Refused<Value>>) {
        match outcome {
            Ok(()) => assert!(self.has_space(key), "{key} is beyond the maximum"),
            Err(refused) => {
                let flows = self.flows.len();
                assert!(!self.has_space(key), "{key} is refused beside {flows} flows: {refused}");
                assert!(Arc::ptr_eq(&refused.value, value), "the value comes back");
                assert_eq!(refused.reason, FullReason::Capacity);
            }
        }
    }

    fn learn(&mut self, key: u64, value: Value) {
        self.flows.insert(key, Flow { value, class: 0, seen: self.now });
    }

    fn insert(&mut self, key: u64) {
        let value = self.value();
        let outcome = self.table.insert(key, Arc::clone(&value));
        let inserted = outcome.is_ok();
        self.check_refusal(key, &value, outcome);
        if inserted {
            self.learn(key, value);
        }
    }

    fn insert_if_absent(&mut self, key: u64) {
        let value = self.value();
        let outcome = self.table.insert_if_absent(key, Arc::clone(&value));
        let known = self.flows.contains_key(&key);
        if let Ok(is_new) = outcome {
            assert_ne!(is_new, known, "{key}");
        }
        let refused = outcome.is_err();
        self.check_refusal(key, &value, outcome.map(|_| ()));
        match self.flows.get_mut(&key) {
            Some(flow) => flow.seen = self.now,
            None if refused => {}
            None => self.learn(key, value),
        }
    }

    fn get_or_insert(&mut self, key: u64, panics: bool) {
        let (value, space) = (self.value(), self.has_space(key));
        let mut asked = false;
        let make = || {
            asked = true;
            if panics {
                panic::resume_unwind(Box::new("no value"));
            }
            Arc::clone(&value)
        };
        let Self { table, flows, now, .. } = self;
        let call = AssertUnwindSafe(|| table.get_or_insert_with(key, make));
        let outcome = panic::catch_unwind(call);
        assert_eq!(asked, space && !flows.contains_key(&key), "{key}: `make` runs if it is needed");
        match (outcome, flows.get_mut(&key)) {
            (Err(_), _) => assert!(asked && panics),
            (Ok(Ok(seen)), Some(flow)) => {
                assert!(Arc::ptr_eq(&seen, &flow.value));
                flow.seen = *now;
            }
            (Ok(Ok(seen)), None) => {
                assert!(Arc::ptr_eq(&seen, &value));
                self.learn(key, value);
            }
            (Ok(Err(full)), _) => {
                assert!(!space, "{key} is refused: {full}");
                assert_eq!(full.reason, FullReason::Capacity);
            }
        }
    }

    fn remove(&mut self, key: u64) {
        let removed = self.table.remove(key);
        let expected = self.flows.remove(&key);
        assert_eq!(removed, expected.map(|flow| flow.value), "{key}");
    }

    /// Removes from the model what the table has removed.
    fn forget(&mut self, gone: Vec<(u64, Value)>) {
        for (key, value) in gone {
            let flow = self.flows.remove(&key).expect("an expired flow was in the table");
            assert!(Arc::ptr_eq(&value, &flow.value));
            assert!(flow.deadline() <= self.now, "{key} is removed at {}, too early: {flow:?}", self.now);
        }
    }

    fn expire(&mut self, budget: u32) {
        let mut gone = Vec::new();
        let expired = self.table.expire(budget, &mut gone);
        assert_eq!(expired.removed as usize, gone.len());
        self.forget(gone);
        self.in_walk = expired.more;
    }

    /// Walks over the table once, after the walk that has begun, if any.
    fn expire_all(&mut self, budget: u32) {
        for _ in 0..=usize::from(self.in_walk) {
            let mut calls = 0;
            self.expire(budget);
            while self.in_walk {
                calls += 1;
                assert!(calls < 100_000, "a walk over the table does not end");
                self.expire(budget);
            }
        }
        let granule = self.table.granule();
        let late = |flow: &Flow| flow.deadline().saturating_add(granule) < self.now;
        assert!(!self.flows.values().any(late), "a flow is not removed: {:?}", self.flows);
    }

    fn perform(&mut self, step: Step) {
        match step {
            Step::Insert(key) => self.insert(key),
            Step::InsertIfAbsent(key) => self.insert_if_absent(key),
            Step::GetOrInsert(key) => self.get_or_insert(key, false),
            Step::MakePanics(key) => self.get_or_insert(key, true),
            Step::Touch(key) => {
                let seen = self.table.touch(key);
                let flow = self.flows.get_mut(&key);
                assert_eq!(seen.as_ref(), flow.as_ref().map(|flow| &flow.value), "{key}");
                if let Some(flow) = flow {
                    flow.seen = self.now;
                }
            }
            Step::SetClass(key, class) => {
                let is_there = self.table.set_class(key, TimeoutClass(class));
                assert_eq!(is_there, self.flows.contains_key(&key), "{key}");
                if let Some(flow) = self.flows.get_mut(&key) {
                    flow.class = class;
                }
            }
            Step::Remove(key) => self.remove(key),
            Step::Burst(count) => {
                let from = 1000 + self.values;
                (from..from + u64::from(count)).for_each(|key| self.insert(key));
            }
            Step::RemoveAllBut(count) => {
                let keys: Vec<u64> = self.flows.keys().copied().skip(count).collect();
                for key in keys {
                    self.remove(key);
                }
            }
            Step::Wait(ticks) => {
                self.now += ticks;
                self.table.set_now(self.now);
            }
            Step::ExpireSome(budget) => self.expire(budget),
            Step::ExpireAll(budget) => self.expire_all(budget),
            Step::Night(budget) => {
                self.perform(Step::Wait(2000));
                self.expire_all(budget);
            }
        }
        assert_eq!(self.table.len(), self.flows.len());
    }

    /// Performs steps, and compares the table with the model.
    fn run(&mut self, steps: &[Step]) {
        for step in steps {
            self.perform(*step);
            for key in 0..100 {
                let flow = self.flows.get(&key);
                assert_eq!(self.table.get(key).as_ref(), flow.map(|flow| &flow.value), "{key}");
            }
        }
        let mut all = HashMap::new();
        for (key, value) in self.table.all() {
            assert_eq!(all.insert(key, value), None, "{key} twice");
        }
        assert_eq!(all.len(), self.flows.len());
        assert!(self.flows.iter().all(|(key, flow)| all.get(key) == Some(&flow.value)));
    }
}

/// Returns expected numbers of flows, from none to far too many.
fn expected() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), 2..50_u32, 50..3000_u32, Just(100_000)]
}

/// Returns maximum numbers of flows, small ones and the highest.
fn maximum() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), 2..100_u32, 100..2000_u32, Just(1 << 30)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..if cfg!(miri) { 15 } else { 60 })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 300 }))]

    #[test]
    fn shared_table_agrees_with_the_model(
        steps in steps(),
        flows in expected(),
        max_flows in maximum(),
        shards in prop_oneof![Just(Some(1)), Just(Some(2)), Just(Some(16)), Just(None)],
    ) {
        let config = ConcurrentConfig { flows, max_flows, shards, timeouts: timeouts() };
        let table = ConcurrentFlowTable::try_new(&config).unwrap();
        let mut pair = Pair::new(Shared { table: &table, handle: table.handle() }, max_flows as usize);
        pair.run(&steps);
        let values: Vec<_> = pair.flows.values().map(|flow| Arc::clone(&flow.value)).collect();
        drop(pair);
        drop(table);
        prop_assert!(values.iter().all(|value| Arc::strong_count(value) == 1), "the table leaks");
    }

    #[test]
    fn map_agrees_with_the_model(steps in steps(), flows in expected(), max_flows in maximum()) {
        let builder = FlowMap::builder().flows(flows).max_flows(max_flows).timeouts(timeouts());
        Pair::new(builder.build().unwrap(), max_flows as usize).run(&steps);
    }

    #[test]
    fn table_of_fixed_size_agrees_with_the_model(steps in steps(), flows in 1..2000_u32) {
        let config = TableOptions { timeouts: timeouts(), ..TableOptions::for_flows(flows) };
        let table = LineHash::try_new(&config).unwrap();
        Pair::new(Lines { table, now: Tick(0) }, flows as usize).run(&steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 60 }))]

    /// Each thread has its own keys, whose flows only it changes, and all share a maximum.
    #[test]
    fn threads_share_a_table_and_its_maximum(
        bursts in prop::collection::vec(prop::collection::vec((1..400_u64, 0..40_u64), 1..6), 2..4),
        flows in expected(),
        shards in prop_oneof![Just(1), Just(2), Just(64)],
        max_flows in prop_oneof![Just(50), Just(400), Just(1 << 30)],
    ) {
        let scale = if cfg!(miri) { 20 } else { 1 };
        let config = ConcurrentConfig { flows, max_flows, shards: Some(shards), timeouts: Timeouts::NEVER };
        let table = ConcurrentFlowTable::<u64, u64>::try_new(&config).unwrap();
        let kept: usize = thread::scope(|scope| {
            let threads: Vec<_> = (0_u64..).zip(&bursts).map(|(thread, bursts)| {
                let table = &table;
                scope.spawn(move || run_bursts(table, thread << 32, bursts, scale))
            }).collect();
            threads.into_iter().map(|thread| thread.join().expect("its checks hold")).sum()
        });
        prop_assert_eq!(table.len(), kept);
        let handle = table.handle();
        let more = (0..2000_u64).filter(|key| handle.pin().insert(1 << 60 | key, 0).is_ok()).count();
        prop_assert_eq!(more, 2000.min(max_flows as usize - kept), "all space is there");
    }
}

/// Inserts bursts of keys from one on, some of whose `make` panics, and removes most of each again.
/// Returns the number of flows that it leaves.
fn run_bursts(
    table: &ConcurrentFlowTable<u64, u64>,
    first: u64,
    bursts: &[(u64, u64)],
    scale: u64,
) -> usize {
    let (handle, mut next, mut mine) = (table.handle(), first, Vec::new());
    for &(count, kept) in bursts {
        let (count, kept) = (count / scale + 1, kept / scale);
        for key in next..next + count {
            let panics = AssertUnwindSafe(|| {
                let make = || panic::resume_unwind(Box::new("no value"));
                handle.pin().get_or_insert_with(key, make).map(|_| ())
            });
            // Without space `make` does not run.
            assert!(matches!(panic::catch_unwind(panics), Err(_) | Ok(Err(_))));
            match handle.pin().insert(key, key) {
                Ok(_) => mine.push(key),
                Err(refused) => assert_eq!(refused.reason, FullReason::Capacity),
            }
        }
        next += count;
        assert!(mine.iter().all(|key| handle.pin().get(key) == Some(key)));
        let left = mine.len().min(usize::try_from(kept).expect("a small number"));
        for key in mine.drain(left..) {
            assert_eq!(handle.pin().remove(&key), Some(&key));
            assert_eq!(handle.pin().get(&key), None);
        }
        assert!(mine.iter().all(|key| handle.pin().get(key) == Some(key)));
    }
    mine.len()
}

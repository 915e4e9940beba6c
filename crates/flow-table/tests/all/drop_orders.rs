//! When a [`ConcurrentFlowTable`] drops values: the orders of drops that compile, panics at every
//! place where the table calls its user, and values that use the table. Run it with Miri too. The
//! orders that must not compile are in `src/concurrent/drop_orders.rs`.

#![cfg(not(any(loom, shuttle)))]

use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use flowloom_flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, OwnedHandle};
use flowloom_flow_table::{Tick, TimeoutClass, Timeouts};
use proptest::prelude::*;

/// Counts its instances, and reads what it borrows when it is dropped.
struct Borrowing<'a> {
    text: &'a str,
    live: &'a AtomicUsize,
}

impl<'a> Borrowing<'a> {
    fn new(text: &'a str, live: &'a AtomicUsize) -> Self {
        live.fetch_add(1, Ordering::Relaxed);
        Self { text, live }
    }
}

impl Drop for Borrowing<'_> {
    fn drop(&mut self) {
        assert_eq!(self.text, "borrowed");
        self.live.fetch_sub(1, Ordering::Relaxed);
    }
}

fn one_shard() -> ConcurrentConfig {
    ConcurrentConfig { shards: Some(1), ..ConcurrentConfig::for_flows(1) }
}

type Table<V> = ConcurrentFlowTable<u32, V>;

fn table<V: Send + Sync>() -> Table<V> {
    ConcurrentFlowTable::try_new(&one_shard()).expect("a valid configuration")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 20 } else { 500 }))]

    /// Handles and pins are taken, used and dropped in any order, then the table, then what its
    /// values borrow.
    #[test]
    fn values_are_dropped_with_the_table_at_the_latest(
        steps in prop::collection::vec((0..6_u8, 0..4_usize, 0..20_u32), 0..60),
        ends_with_handles in any::<bool>(),
    ) {
        let (text, live) = (String::from("borrowed"), AtomicUsize::new(0));
        let table = table::<Borrowing<'_>>();
        let (mut handles, mut pins) = (vec![table.handle()], vec![table.handle().pin()]);
        for (what, which, key) in steps {
            match what {
                0 if handles.len() < 4 => handles.push(table.handle()),
                1 if handles.len() > 1 => drop(handles.remove(which % handles.len())),
                2 if pins.len() < 6 => pins.push(handles[which % handles.len()].pin()),
                3 if pins.len() > 1 => drop(pins.remove(which % pins.len())),
                4 => {
                    let pinned = &pins[which % pins.len()];
                    let flow = pinned.insert(key, Borrowing::new(&text, &live)).unwrap();
                    assert_eq!(flow.value().text, "borrowed");
                }
                5 => {
                    let count = pins.len();
                    if let Some(value) = pins[which % count].remove(&key) {
                        assert_eq!(value.text, "borrowed");
                    }
                    pins[which % count].flush();
                }
                _ => {}
            }
        }
        assert!(live.load(Ordering::Relaxed) >= table.len());
        if ends_with_handles {
            drop(pins);
            drop(handles);
        } else {
            drop(handles);
            drop(pins);
        }
        drop(table);
        assert_eq!(live.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_value_is_dropped_before_what_it_borrows_ends_on_any_thread() {
    let (text, live) = (String::from("borrowed"), AtomicUsize::new(0));
    let table = table::<Borrowing<'_>>();
    for round in 0..if cfg!(miri) { 3 } else { 50 } {
        thread::scope(|scope| {
            for thread in 0..2 {
                let (table, text, live) = (&table, text.as_str(), &live);
                scope.spawn(move || {
                    let handle = table.handle();
                    for key in 0..if cfg!(miri) { 10 } else { 200 } {
                        let pinned = handle.pin();
                        pinned.insert(key, Borrowing::new(text, live)).unwrap();
                        if key % 3 == thread {
                            pinned.remove(&(key / 2));
                        }
                    }
                    // Both orders of the ends of a handle and a pin.
                    let pinned = handle.pin();
                    if (round + thread) % 2 == 0 {
                        drop(handle);
                        drop(pinned);
                    }
                });
            }
        });
    }
    drop(table);
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[test]
#[cfg_attr(miri, ignore = "it leaks")]
fn leaked_pin_leaks_removed_values_and_never_drops_them_late() {
    let (text, live) = (String::from("borrowed"), AtomicUsize::new(0));
    let table = table::<Borrowing<'_>>();
    let handle = table.handle();
    handle.pin().insert(1, Borrowing::new(&text, &live)).unwrap();
    handle.pin().insert(2, Borrowing::new(&text, &live)).unwrap();
    mem::forget(handle.pin());
    handle.pin().remove(&1).unwrap();
    drop(handle);
    drop(table);
    assert_eq!(live.load(Ordering::Relaxed), 1, "the removed one");
}

/// A value whose drop panics if it is told to.
struct Fragile<'a>(bool, &'a AtomicUsize);

impl Drop for Fragile<'_> {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::Relaxed);
        assert!(!self.0, "a value panics when it is dropped");
    }
}

/// Runs something that panics.
fn panics<T>(run: impl FnOnce() -> T) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err());
}

#[test]
#[cfg_attr(miri, ignore = "it leaks")]
fn a_panic_of_a_removed_value_leaves_the_table_usable() {
    let dropped = AtomicUsize::new(0);
    let table = table::<Fragile<'_>>();
    let handle = table.handle();
    handle.pin().insert(0, Fragile(true, &dropped)).unwrap();
    handle.pin().remove(&0).unwrap();
    let mut panics = 0;
    while panics == 0 {
        let flush = || handle.pin().flush();
        panics += usize::from(catch_unwind(AssertUnwindSafe(flush)).is_err());
    }
    for key in 1..100 {
        handle.pin().insert(key, Fragile(false, &dropped)).unwrap();
        handle.pin().remove(&(key - 1));
    }
    while dropped.load(Ordering::Relaxed) < 99 {
        handle.pin().flush();
    }
    assert_eq!(table.len(), 1);
}

#[test]
fn a_panic_of_a_value_drops_the_others_of_its_table() {
    let dropped = AtomicUsize::new(0);
    let table = table::<Fragile<'_>>();
    for key in 0..50 {
        table.handle().pin().insert(key, Fragile(key == 17, &dropped)).unwrap();
    }
    panics(|| drop(table));
    assert_eq!(dropped.load(Ordering::Relaxed), 50);
}

/// A value that uses its table when it is dropped.
struct Chain(u32, Arc<OnceLock<Table<Chain>>>);

impl Drop for Chain {
    fn drop(&mut self) {
        if let Some(table) = self.1.get() {
            let handle = table.handle();
            let pinned = handle.pin();
            assert!(pinned.get(&u32::MAX).is_some());
            if self.0 > 0 {
                let next = Chain(self.0 - 1, Arc::clone(&self.1));
                pinned.insert(self.0 - 1, next).expect("the table has no limit");
                pinned.remove(&(self.0 - 1)).expect("it was just inserted");
            }
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "the table owns itself")]
fn a_value_may_use_its_table_while_it_is_dropped() {
    let cell = Arc::new(OnceLock::new());
    let table = cell.get_or_init(table::<Chain>);
    let handle = table.handle();
    handle.pin().insert(u32::MAX, Chain(0, Arc::clone(&cell))).unwrap();
    handle.pin().insert(100, Chain(100, Arc::clone(&cell))).unwrap();
    // Replacing and removing hand the old value over, and drop nothing while a shard is locked.
    handle.pin().insert(100, Chain(50, Arc::clone(&cell))).unwrap();
    handle.pin().remove(&100).unwrap();
    let chains = || Arc::strong_count(&cell);
    while chains() > 2 {
        handle.pin().flush();
    }
    assert_eq!(table.len(), 1);
}

#[test]
fn owned_handles_share_a_table_and_drop_values_before_what_they_borrow() {
    let live = AtomicUsize::new(0);
    let text = String::from("borrowed");
    {
        let first = OwnedHandle::new(Arc::new(table::<Borrowing<'_>>()));
        let second = OwnedHandle::new(Arc::clone(first.table()));
        for key in 0..100 {
            assert!(first.pin().insert(key, Borrowing::new(&text, &live)).is_ok());
        }
        let pinned = second.pin();
        assert_eq!(pinned.remove(&7).map(|value| value.text), Some(text.as_str()));
        drop(first);
        assert!(pinned.get(&8).is_some() && live.load(Ordering::Relaxed) >= 99);
        let other = Arc::clone(second.table());
        thread::scope(|scope| {
            scope.spawn(move || OwnedHandle::new(other).pin().clear());
        });
        drop(pinned);
        assert!(second.table().is_empty());
    }
    assert_eq!(live.load(Ordering::Relaxed), 0);
}

#[test]
fn panic_in_the_value_constructor_takes_no_space() {
    for (max_flows, flows) in [(10, 1), (10, 10), (if cfg!(miri) { 11 } else { 1000 }, 1)] {
        let table = ConcurrentFlowTable::try_new(&ConcurrentConfig { max_flows, flows, ..one_shard() });
        let table: Table<Arc<()>> = table.unwrap();
        let (handle, captured) = (table.handle(), Arc::new(()));
        for key in 0..2 * max_flows {
            let pinned = handle.pin();
            let value = Arc::clone(&captured);
            panics(|| pinned.get_or_insert_with(key, || panic!("no {value:?}")).map(|_| ()));
            assert!(pinned.get(&key).is_none());
        }
        assert_eq!((table.len(), Arc::strong_count(&captured)), (0, 1));
        for key in 0..max_flows {
            assert!(handle.pin().insert(key, Arc::clone(&captured)).is_ok(), "{key} of {max_flows}");
        }
        assert!(handle.pin().insert(max_flows, Arc::clone(&captured)).is_err());
        assert_eq!(table.len(), max_flows as usize);
    }
}

/// A key whose comparison or hash panics on a thread that says so.
#[derive(Clone, Copy, Debug)]
struct Panicking(u32);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Panic {
    Never,
    InEq,
    InHash,
}

thread_local! {
    static PANIC: Cell<Panic> = const { Cell::new(Panic::Never) };
}

impl PartialEq for Panicking {
    fn eq(&self, other: &Self) -> bool {
        assert_ne!(PANIC.get(), Panic::InEq);
        self.0 == other.0
    }
}

impl Eq for Panicking {}

impl Hash for Panicking {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert_ne!(PANIC.get(), Panic::InHash);
        self.0.hash(state);
    }
}

#[test]
fn a_panic_of_a_key_or_of_a_callback_changes_nothing() {
    let key = Panicking;
    let config = ConcurrentConfig { max_flows: 100, ..one_shard() };
    let table = ConcurrentFlowTable::<Panicking, u32>::try_new(&config).unwrap();
    let handle = table.handle();
    for number in 0..90 {
        handle.pin().insert(key(number), number).unwrap();
    }
    let pinned = handle.pin();
    for at in [Panic::InEq, Panic::InHash] {
        PANIC.set(at);
        panics(|| pinned.insert(key(1), 0).map(|_| ()));
        panics(|| pinned.try_insert(key(1), 0).map(|_| ()));
        panics(|| pinned.get_or_insert_with(key(1), || 0).map(|_| ()));
        panics(|| pinned.remove(&key(1)).copied());
        panics(|| pinned.get(&key(1)).copied());
        panics(|| pinned.get_batch(&[key(1)], |_, _| {}));
    }
    PANIC.set(Panic::Never);
    panics(|| pinned.for_each(|_| panic!("a callback panics")));
    panics(|| pinned.get_batch(&[key(1)], |_, _| panic!("a callback panics")));
    assert_eq!(table.len(), 90);
    assert!((0..90).all(|number| pinned.get(&key(number)) == Some(&number)));
    assert_eq!((90..200).filter(|number| pinned.insert(key(*number), 0).is_ok()).count(), 10);
    assert!((0..90).all(|number| pinned.remove(&key(number)) == Some(&number)));
}

#[test]
fn a_panic_of_a_callback_of_expire_gives_all_space_back() {
    let timeouts = Timeouts::NEVER.with(TimeoutClass(0), 10);
    let config = ConcurrentConfig { max_flows: 50, timeouts, ..one_shard() };
    let table: Table<u32> = ConcurrentFlowTable::try_new(&config).unwrap();
    let handle = table.handle();
    for round in 1..4 {
        (0..50).for_each(|key| assert!(handle.pin().insert(key, key).is_ok(), "round {round}, {key}"));
        table.set_now(Tick(100 * round));
        panics(|| handle.pin().expire(1000, |_| panic!("a callback panics")));
        assert_eq!(table.len(), 0);
    }
}

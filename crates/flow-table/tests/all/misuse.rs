//! Errors of safe callers: a panic in the middle of a call, changing hashes, inconsistent
//! comparisons. A table may then find fewer flows than it contains; it still counts what it
//! contains, drops nothing twice, and ends every walk.

use flowloom_flow_table::TableHash;
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use flowloom_cpu::features::Isa;
use flowloom_flow_key::hash::fold::split_mix;
use flowloom_flow_table::baseline::{Chained, DirectTable};
use flowloom_flow_table::dhash::ReferenceDHash;
use flowloom_flow_table::evict::Evict;
use flowloom_flow_table::sighash::ReferenceSigHash;
use flowloom_flow_table::{
    Cursor, DHash, Flow, FlowId, FlowMap, FlowTable, Growing, KeyedState, LineHash, SigHash, TableOptions,
    Tick, TimeoutClass, Timeouts,
};

/// Flows of the tables, and additional keys.
const FLOWS: u32 = 100;
const KEYS: u64 = 160;
const CLASS: TimeoutClass = TimeoutClass(0);

thread_local! {
    /// Calls of the caller's code until one panics; 0 for none.
    static FUSE: Cell<u32> = const { Cell::new(0) };
    /// Whether keys are compared correctly; if not, they are compared by these random bits.
    static WHIM: Cell<Option<u64>> = const { Cell::new(None) };
    /// The existing values, by their serial numbers.
    static LIVE: RefCell<HashSet<u64>> = RefCell::new(HashSet::new());
    static SERIAL: Cell<u64> = const { Cell::new(0) };
}

/// Called wherever a table calls foreign code.
fn burn() {
    let left = FUSE.get();
    FUSE.set(left.saturating_sub(1));
    if left == 1 && !std::thread::panicking() {
        // Without a message on the screen.
        resume_unwind(Box::new("burnt"));
    }
}

/// A key whose comparison may panic, or return anything.
#[derive(Clone, Copy, Debug)]
struct Touchy(u64);

impl PartialEq for Touchy {
    fn eq(&self, other: &Self) -> bool {
        burn();
        let lie = WHIM.get().is_some_and(|mut state| {
            let drawn = split_mix(&mut state);
            WHIM.set(Some(state));
            drawn.is_multiple_of(4)
        });
        (self.0 == other.0) != lie
    }
}

impl Eq for Touchy {}

impl Hash for Touchy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        burn();
        self.0.hash(state);
    }
}

/// A counted value whose drop may panic.
#[derive(Debug)]
struct Counted(u64);

impl Counted {
    fn new() -> Self {
        burn();
        let serial = SERIAL.get();
        SERIAL.set(serial + 1);
        LIVE.with_borrow_mut(|live| live.insert(serial));
        Self(serial)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        assert!(LIVE.with_borrow_mut(|live| live.remove(&self.0)), "{self:?} is dropped twice");
        burn();
    }
}

/// Evicts every other flow, and may panic in both methods.
struct Reluctant;

impl Evict<Touchy, Counted> for Reluctant {
    fn rank(&mut self, candidate: &Flow<'_, Touchy, Counted>) -> Option<u64> {
        burn();
        candidate.key.0.is_multiple_of(2).then_some(candidate.value.0)
    }

    fn evicted(&mut self, _: FlowId, _: Touchy, _: Counted) {
        burn();
    }
}

/// One of all operations, on drawn keys.
fn operate<T: FlowTable<Touchy, Counted>>(
    table: &mut T,
    state: &mut u64,
    hash: &mut impl FnMut(u64) -> TableHash,
) {
    let number = split_mix(state) % KEYS;
    let (key, now) = (Touchy(number), Tick(split_mix(state) % 400));
    let run: Vec<Touchy> = (number..number + 7).map(Touchy).collect();
    let hashes: Vec<TableHash> = run.iter().map(|key| hash(key.0)).collect();
    let mut ids = [None; 7];
    match split_mix(state) % 16 {
        0..4 => drop(table.insert(key, hashes[0], Counted::new(), CLASS, now)),
        4 | 5 => drop(table.entry_with(key, hashes[0], CLASS, now, Counted::new)),
        6..9 => drop(table.entry_or_evict(key, hashes[0], CLASS, now, Counted::new, &mut Reluctant)),
        9 => _ = table.insert_batch(&run, &hashes, CLASS, now, |_| Counted::new(), &mut ids),
        10 => drop(table.remove_key(&key, hashes[0])),
        11 => _ = table.remove_batch(&run[..2], &hashes[..2], |_, _| burn()),
        12 => table.lookup_batch_values(&run, &hashes, &mut ids, |_, value| {
            burn();
            assert!(LIVE.with_borrow(|live| live.contains(&value.0)), "{value:?} is shown after its end");
        }),
        13 => drop(table.lookup(&key, hashes[0]).and_then(|id| table.remove(id))),
        14 => _ = table.lookup_touch(&key, hashes[0], now),
        _ => _ = table.expire(now, 5, &mut |_, _, _| burn()),
    }
}

/// Checks what is always true: a walk visits each counted flow once with a live value, and no
/// other.
fn check<T: FlowTable<Touchy, Counted>>(table: &T) -> Vec<FlowId> {
    let (mut cursor, mut met, mut values) = (Cursor::default(), Vec::new(), HashSet::new());
    while let Some((id, next)) = table.next_live(cursor) {
        assert!(met.len() < table.slot_count() as usize && table.key_of(id).is_some(), "{id:?}");
        values.insert(table.get(id).expect("it was just met").0);
        met.push(id);
        cursor = next;
    }
    let stats = table.stats();
    assert_eq!((met.len(), values.len()), (table.len() as usize, table.len() as usize));
    assert_eq!(stats.inserted - stats.removed - stats.evicted - stats.expired, u64::from(table.len()));
    LIVE.with_borrow(|live| assert_eq!(*live, values));
    met
}

/// Runs a trial on each table, built anew.
macro_rules! on_each_table {
    ($trial:ident) => {{
        let timeouts = Timeouts::NEVER.with(CLASS, 100);
        for isa in Isa::available() {
            let config = TableOptions {
                isa: Some(isa),
                buckets: Some(3),
                timeouts,
                ..TableOptions::for_flows(FLOWS)
            };
            $trial(|| LineHash::try_new(&config).unwrap());
        }
        let options = TableOptions { timeouts, ..TableOptions::for_flows(FLOWS) };
        $trial(|| Growing::try_new(3, options, LineHash::try_new).unwrap());
        let config = TableOptions { buckets: Some(4), timeouts, ..TableOptions::for_flows(FLOWS) };
        $trial(|| DHash::try_new(&config).unwrap());
        $trial(|| ReferenceDHash::<_, _>::try_new(&config).unwrap());
        let config = TableOptions { buckets: Some(16), timeouts, ..TableOptions::for_flows(FLOWS) };
        $trial(|| SigHash::try_new(&config).unwrap());
        $trial(|| ReferenceSigHash::try_new(&config).unwrap());
        $trial(|| {
            Chained::try_new(&TableOptions { buckets: Some(4), timeouts, ..TableOptions::for_flows(FLOWS) })
                .unwrap()
        });
        let config = TableOptions { buckets: Some(8), timeouts, ..TableOptions::for_flows(FLOWS) };
        $trial(|| DirectTable::try_new(&config).unwrap());
    }};
}

/// Gives three in four keys one line, and a few one signature, so that lines are full and lists
/// long.
fn crowded(key: u64) -> TableHash {
    let good = split_mix(&mut key.clone());
    TableHash::from_mixed(u64::from(good.is_multiple_of(4)) << 63 | good & 0x1F_000F)
}

/// Inserts nearly as many flows as fit, and returns how many there are, how many are displaced and
/// how many are in lists.
fn fill<T: FlowTable<Touchy, Counted>>(table: &mut T) -> [u32; 3] {
    for key in 0..u64::from(FLOWS) - 4 {
        let _ = table.insert(Touchy(key), crowded(key), Counted::new(), CLASS, Tick(key));
    }
    let stats = table.stats();
    assert!(stats.stashed > 0 || stats.segments > 1, "no flow is where the lookup looks last");
    [stats.len, stats.displaced, stats.stashed]
}

fn interrupted<T: FlowTable<Touchy, Counted>>(build: impl Fn() -> T) {
    let steps = if cfg!(miri) { 15 } else { 30 };
    let mut fuse = 1;
    loop {
        let (mut table, mut state, mut burnt) = (build(), 7, false);
        let filled = fill(&mut table);
        let parts = table.stats().segments;
        FUSE.set(fuse);
        for _ in 0..steps {
            let step = AssertUnwindSafe(|| operate(&mut table, &mut state, &mut crowded));
            if let Err(message) = catch_unwind(step) {
                assert_eq!(message.downcast_ref(), Some(&"burnt"), "after {fuse} calls");
                burnt = true;
                for id in check(&table) {
                    let key = table.key_of(id).expect("it was just met");
                    assert_eq!(table.lookup(&key, crowded(key.0)), Some(id), "after {fuse} calls");
                }
            }
        }
        FUSE.set(0);
        check(&table);
        table.clear();
        if parts == 1 {
            assert_eq!(fill(&mut table), filled, "as good as new after {fuse} calls");
        }
        drop(table);
        assert!(LIVE.with_borrow(HashSet::is_empty), "dropped with their table");
        if !burnt {
            break;
        }
        fuse += if cfg!(miri) { 301 } else { 1 };
    }
    assert!(fuse > 100, "the caller's code is called {fuse} times");
}

#[test]
fn table_stays_consistent_if_the_callers_code_panics() {
    on_each_table!(interrupted);
}

#[test]
fn a_flow_whose_value_is_never_made_takes_no_space() {
    for isa in Isa::available() {
        let config =
            TableOptions { isa: Some(isa), buckets: Some(1), pool: Some(0), ..TableOptions::for_flows(30) };
        let mut table = LineHash::try_new(&config).unwrap();
        for key in 0..30 {
            FUSE.set(1);
            let entry = AssertUnwindSafe(|| {
                table.entry_with(Touchy(key), TableHash::from_mixed(key), CLASS, Tick(0), Counted::new)
            });
            assert!(catch_unwind(entry).is_err(), "{isa}: {key}");
            table
                .insert(Touchy(key), TableHash::from_mixed(key), Counted::new(), CLASS, Tick(0))
                .expect("as many as there are lanes");
        }
        assert_eq!(check(&table).len(), 30);
    }
}

/// Checks a table occasionally while it is used, empties it, and checks that it works as a new one.
fn misused<T: FlowTable<Touchy, Counted>>(
    build: impl Fn() -> T,
    mut hash: impl FnMut(u64) -> TableHash,
    whim: Option<u64>,
) {
    let mut table = build();
    fill(&mut table);
    let mut state = 11;
    WHIM.set(whim);
    for round in 0..if cfg!(miri) { 30 } else { 3000 } {
        operate(&mut table, &mut state, &mut hash);
        if round % 16 == 0 {
            check(&table);
        }
    }
    WHIM.set(None);
    let (all, mut gone) = (table.len(), 0);
    table.drain(&mut |_, _, _| gone += 1);
    assert_eq!((gone, table.len()), (all, 0));
    let good = |key: u64| TableHash::from_mixed(split_mix(&mut key.clone()));
    let ids: Vec<_> = (0..8)
        .map(|key| table.insert(Touchy(key), good(key), Counted::new(), CLASS, Tick(0)).ok())
        .collect();
    assert!(ids.iter().all(Option::is_some));
    for (key, id) in (0..).zip(ids) {
        assert_eq!(table.lookup(&Touchy(key), good(key)), id, "{key}");
    }
    check(&table);
}

#[test]
fn inconsistent_hashes_of_a_key_do_no_harm() {
    fn trial<T: FlowTable<Touchy, Counted>>(build: impl Fn() -> T) {
        let mut drawn = 3;
        misused(build, |key| crowded(key ^ (split_mix(&mut drawn) % 3) << 32), None);
    }
    on_each_table!(trial);
}

#[test]
fn inconsistent_key_comparison_does_no_harm() {
    fn trial<T: FlowTable<Touchy, Counted>>(build: impl Fn() -> T) {
        misused(build, crowded, Some(5));
    }
    on_each_table!(trial);
}

#[test]
fn flow_is_kept_if_the_callers_code_panics_during_its_move() {
    for fuse in (1..).step_by(if cfg!(miri) { 30 } else { 1 }) {
        let mut table = Growing::try_new(12, TableOptions::for_flows(FLOWS), LineHash::try_new).unwrap();
        fill(&mut table);
        let (before, mut moved) = (check(&table), Vec::new());
        FUSE.set(fuse);
        let hash = |key: &Touchy| {
            burn();
            crowded(key.0)
        };
        let on_move = |old, _| {
            moved.push(old);
            burn();
        };
        let burnt = catch_unwind(AssertUnwindSafe(|| table.drain_oldest(8, hash, on_move))).is_err();
        FUSE.set(0);
        let after = check(&table);
        assert_eq!(before.len(), after.len(), "after {fuse} calls");
        assert!(before.iter().all(|id| after.contains(id) != moved.contains(id)), "after {fuse} calls");
        if !burnt {
            assert!(moved.len() == 8 && fuse > 16, "{fuse} calls for {moved:?}");
            while table.drain_oldest(8, hash, |_, _| {}).more {}
            assert_eq!((check(&table).len(), table.stats().segments), (before.len(), 1));
            break;
        }
    }
}

type Map = FlowMap<Touchy, Counted>;

/// One of all operations of a map that may drop a value or call its caller, on drawn keys.
fn operate_map(map: &mut Map, state: &mut u64) {
    let number = split_mix(state) % KEYS;
    let key = Touchy(number);
    map.set_now(Tick(split_mix(state) % 400));
    let keeps = |key: &Touchy, _: &mut Counted| {
        burn();
        !key.0.is_multiple_of(5)
    };
    match split_mix(state) % 20 {
        0..3 => drop(map.insert(key, Counted::new())),
        3 => drop(map.try_insert(key, Counted::new()).map(|(_, left)| left)),
        4..6 => drop(map.get_or_insert_with(key, Counted::new).map(|value| value.0)),
        6 => drop(map.get_or_evict_with(key, Counted::new, &mut Reluctant).map(|value| value.0)),
        7 => drop(map.entry(key).or_insert_with_key(|_| Counted::new()).map(|value| value.0)),
        8 => drop(
            map.entry(key).and_modify(|value| *value = Counted::new()).or_insert(Counted::new()).is_ok(),
        ),
        9 => drop(map.remove(&key)),
        10 => drop(map.remove_entry(&key)),
        11 => map.retain(keeps),
        12 => map.extract_if(keeps).take(2).for_each(drop),
        13 => _ = map.get_disjoint_mut([&key, &Touchy(KEYS)]),
        14 => map.get_batch_mut(&[key, Touchy(number / 2)], |_, value| *value = Counted::new()),
        15 => _ = map.expire(5, |_, _, _| burn()),
        16 => _ = map.compact(7, |_, _| burn()),
        17 => _ = map.shrink(7, |_, _| burn()),
        _ => _ = map.drain().take(2).count(),
    }
}

#[test]
fn map_stays_consistent_if_the_callers_code_panics() {
    let builder = FlowMap::builder().flows(12).max_flows(FLOWS).timeout(100);
    let (steps, stride) = if cfg!(miri) { (40, 97) } else { (120, 1) };
    for fuse in (1..).step_by(stride) {
        let mut map: Map = builder.build_with_hasher(KeyedState::with_seed(1)).unwrap();
        let (mut state, mut burnt) = (u64::from(fuse) % 5, false);
        map.extend((0..60).map(|key| (Touchy(key), Counted::new())));
        FUSE.set(fuse);
        for _ in 0..steps {
            let step = AssertUnwindSafe(|| operate_map(&mut map, &mut state));
            burnt |= catch_unwind(step).is_err();
            let left = FUSE.replace(0);
            let flows: Vec<_> = map.flows().map(|flow| (*flow.key, flow.id, flow.value.0)).collect();
            let values: HashSet<u64> = flows.iter().map(|(_, _, value)| *value).collect();
            assert_eq!((flows.len(), values.len()), (map.len(), map.len()), "after {fuse} calls");
            LIVE.with_borrow(|live| assert_eq!(*live, values, "after {fuse} calls"));
            assert!(flows.iter().all(|(key, id, _)| map.id_of(key) == Some(*id)), "after {fuse} calls");
            FUSE.set(left);
        }
        FUSE.set(0);
        drop(map);
        assert!(LIVE.with_borrow(HashSet::is_empty), "dropped with their map");
        if !burnt {
            assert!(fuse > 100, "the caller's code is called {fuse} times");
            break;
        }
    }
}

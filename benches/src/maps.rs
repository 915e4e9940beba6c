//! Compares [`FlowMap`] and [`ConcurrentFlowTable`](flowloom::flow_table::ConcurrentFlowTable) with
//! other Rust maps: verified answers, then interleaved rounds of all operations.

use std::cell::RefCell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use flowloom::flow_table::{FlowHasher, FlowMap, FlowTable, LineHash, LineHashConfig, Tick, TimeoutClass};
use flowloom_measure::lookup::contender::{Contender, MapContender, OurTable, StateMap, StdMap, Work};
use flowloom_measure::lookup::{EXCHANGED_MAX, Flows, State, prefetched, state};
use flowloom_measure::{RatioRow, ResultRow, Rounds, Samples};
use foldhash::fast::RandomState;

use crate::goal::{Clock, JudgedReport, JudgedResult, JudgedRow};
use crate::peers::maps::Hashbrown;
use crate::peers::shared::{Access, Dash, Key, Locked, Papaya, Scc, SharedMap, ours};

const LINE_HASH: &str = "linehash, hashed by the caller";
const HASHING: &str = "linehash, hashing each key";
const FLOW_MAP: &str = "flow map";
const CONCURRENT: &str = "concurrent table";

/// Number of keys per batch.
const BATCH: usize = 32;

/// Number of lookups of a reader per change of the concurrent writer.
const READS_PER_WRITE: u64 = 10;

/// Compares maps for one thread.
///
/// # Errors
///
/// Returns an error if a table does not pass its trial, or two answers differ.
pub fn owned(rounds: usize, sizes: &[u32], report: &mut JudgedReport) -> Result<()> {
    sizes.iter().try_for_each(|&count| owned_of(&Flows::<2>::new(count, 1), rounds, report))
}

/// Compares maps that threads share.
///
/// # Errors
///
/// Returns the same errors as [`owned`].
pub fn shared(rounds: usize, sizes: &[u32], report: &mut JudgedReport) -> Result<()> {
    sizes.iter().try_for_each(|&count| shared_of(&Flows::<2>::new(count, 1), rounds, report))
}

/// Flowloom's map, with the trait of the comparison.
#[derive(Debug)]
struct Ours(FlowMap<Key, State>);

impl StateMap<2> for Ours {
    fn with_capacity_for(flows: usize) -> Self {
        Self(FlowMap::with_capacity(u32::try_from(flows).unwrap_or(u32::MAX)))
    }

    #[inline]
    fn first_word(&self, key: &Key) -> Option<u64> {
        self.0.get(key).map(|state| state[0])
    }

    #[inline]
    fn put(&mut self, key: Key, state: State) -> bool {
        self.0.insert(key, state) == Ok(None)
    }

    #[inline]
    fn take(&mut self, key: &Key) -> bool {
        self.0.remove(key).is_some()
    }

    fn count(&self) -> usize {
        self.0.len()
    }
}

/// `LineHash` with the hasher of its callers, so that it does all that a map does.
#[derive(Debug)]
struct Hashing {
    table: LineHash<Key, State>,
    hasher: FlowHasher,
}

impl StateMap<2> for Hashing {
    fn with_capacity_for(flows: usize) -> Self {
        let config = LineHashConfig::for_flows(u32::try_from(flows).unwrap_or(u32::MAX));
        let table = LineHash::try_new(&config).expect("memory for the flows");
        Self { table, hasher: FlowHasher::random() }
    }

    #[inline]
    fn first_word(&self, key: &Key) -> Option<u64> {
        let id = self.table.lookup(key, self.hasher.hash_words(key).table)?;
        self.table.get(id).map(|state| state[0])
    }

    #[inline]
    fn put(&mut self, key: Key, state: State) -> bool {
        let hash = self.hasher.hash_words(&key).table;
        self.table.insert(key, hash, state, TimeoutClass(0), Tick(0)).is_ok()
    }

    #[inline]
    fn take(&mut self, key: &Key) -> bool {
        self.table.remove_key(key, self.hasher.hash_words(key).table).is_some()
    }

    fn count(&self) -> usize {
        self.table.len() as usize
    }
}

/// Maps for one thread.
fn owned_of(flows: &Flows<2>, rounds: usize, report: &mut JudgedReport) -> Result<()> {
    let line = |count: u32| LineHash::<Key, State>::try_new(&LineHashConfig::for_flows(count));
    let contenders: Vec<RefCell<Box<dyn Contender + '_>>> = vec![
        RefCell::new(Box::new(MapContender::<2, Ours>::new(FLOW_MAP, flows))),
        RefCell::new(Box::new(OurTable::new(LINE_HASH, flows, line)?)),
        RefCell::new(Box::new(MapContender::<2, Hashing>::new(HASHING, flows))),
        RefCell::new(Box::new(MapContender::<2, Hashbrown<2>>::new("hashbrown + foldhash", flows))),
        RefCell::new(Box::new(MapContender::<2, StdMap<2>>::new("std", flows))),
    ];
    let works = [Work::Single, Work::Dependent, Work::Miss { batch: 1 }, Work::Churn, Work::Build];
    for work in works {
        let mut run = Rounds::new(rounds);
        for contender in &contenders {
            let name = contender.borrow().name().to_owned();
            run = run.variant_with_lap(name, move |lap| contender.borrow_mut().run(work, lap).unwrap_or(0));
        }
        let samples = run.run()?.samples;
        let goal = |rival: &str| {
            ([LINE_HASH, HASHING].contains(&rival) && work != Work::Build).then_some(1.0 / 1.15)
        };
        add(report, &samples, &work.name(), flows, work.items(flows.keys.len()), Clock::Cpu, goal);
    }
    drop(contenders);
    let mut map = FlowMap::with_capacity(u32::try_from(flows.keys.len()).unwrap_or(u32::MAX));
    map.extend(flows.arrivals.iter().map(|&(key, number)| (key, state(number))));
    let table = flows.trial(line)?;
    let samples = Rounds::new(rounds)
        .variant(FLOW_MAP, || {
            let mut sum = 0;
            for keys in flows.keys.chunks(BATCH) {
                map.get_batch(keys, |_, state| sum += state[0]);
            }
            sum
        })
        .variant(LINE_HASH, || flows.hits(&table, BATCH))
        .run()?
        .samples;
    let work = Work::Hit { batch: BATCH };
    add(report, &samples, &work.name(), flows, flows.keys.len() as u64, Clock::Cpu, |_| Some(1.0 / 1.15));
    Ok(())
}

/// Maps that threads share, and a single-threaded `LineHash` for comparison.
fn shared_of(flows: &Flows<2>, rounds: usize, report: &mut JudgedReport) -> Result<()> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let capacity = flows.keys.len();
    let maps: [(&str, Box<dyn SharedMap>); 5] = [
        (CONCURRENT, Box::new(ours(count))),
        ("dashmap + foldhash", Box::new(Dash::with_capacity_and_hasher(capacity, RandomState::default()))),
        ("papaya + foldhash", Box::new(Papaya::with_capacity_and_hasher(capacity, RandomState::default()))),
        ("scc + foldhash", Box::new(Scc::with_capacity_and_hasher(capacity, RandomState::default()))),
        (
            "hashbrown + foldhash, locked",
            Box::new(Locked::new(hashbrown::HashMap::with_capacity_and_hasher(
                capacity,
                RandomState::default(),
            ))),
        ),
    ];
    for (_, map) in &maps {
        let access = map.access();
        for &(key, number) in &flows.arrivals {
            access.put(key, state(number));
        }
    }
    let line = LineHash::<Key, State>::try_new(&LineHashConfig::for_flows(count))?;
    let mut line = line;
    flows.fill(&mut line)?;

    for batch in [1, BATCH] {
        let mut run = Rounds::new(rounds);
        for (name, map) in &maps {
            let access = map.access();
            run = run.variant(*name, move || read(&*access, &flows.keys, batch, &AtomicU64::new(0)));
        }
        let line = &line;
        run = run.variant(LINE_HASH, move || {
            if batch == 1 { flows.single_hits(line) } else { flows.hits(line, batch) }
        });
        let samples = run.run()?.samples;
        let name = format!("shared: hit, {batch} per pin");
        add(report, &samples, &name, flows, count.into(), Clock::Cpu, |_| None);
    }

    let mut run = Rounds::new(rounds);
    for (name, map) in &maps {
        let access = map.access();
        let mut is_swapped = false;
        run = run.variant(*name, move || {
            is_swapped = !is_swapped;
            let (old, new, numbers) = flows.exchanged(!is_swapped);
            let pairs = prefetched(old).zip(prefetched(new)).zip(numbers);
            pairs
                .map(|((old, new), &number)| {
                    let removed = access.take(old);
                    u64::from(access.put(*new, state(number)) && removed)
                })
                .sum::<u64>()
        });
    }
    let samples = run.warm_up(0).run()?.samples;
    let items = Work::Churn.items(capacity);
    add(report, &samples, "shared: delete + insert", flows, items, Clock::Cpu, |_| None);
    if samples.first().is_some_and(|sample| sample.cpu_ns.len() % 2 == 1) {
        // An odd number of rounds leaves different flows in the map.
        for (_, map) in &maps {
            let access = map.access();
            let (old, new, numbers) = flows.exchanged(true);
            for ((old, new), &number) in old.iter().zip(new).zip(numbers) {
                access.take(old);
                access.put(*new, state(number));
            }
        }
    }

    let mut run = Rounds::new(rounds);
    for (name, map) in &maps {
        run = run.variant_with_lap(*name, |lap| beside_writer(&**map, flows, lap));
    }
    let samples = run.run()?.samples;
    let goal = |rival: &str| match rival {
        "dashmap + foldhash" if count > 100_000 => Some(2.0),
        "papaya + foldhash" if count > 100_000 => Some(1.5),
        _ => None,
    };
    let name = format!("shared: hit, {BATCH} per pin, beside a writer");
    add(report, &samples, &name, flows, count.into(), Clock::Cpu, goal);
    Ok(())
}

/// Looks up all keys, and counts them in `done` as it proceeds.
fn read(access: &dyn Access, keys: &[Key], batch: usize, done: &AtomicU64) -> u64 {
    let mut sum = 0;
    for keys in keys.chunks(batch) {
        sum += access.sum(keys);
        if keys.len() > 1 {
            done.fetch_add(keys.len() as u64, Ordering::Relaxed);
        }
    }
    sum
}

/// Looks up all keys while another thread inserts and removes other keys, one change per ten
/// lookups. Times the reader.
fn beside_writer(map: &dyn SharedMap, flows: &Flows<2>, lap: &mut flowloom_measure::rounds::Lap) -> u64 {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let access = map.access();
            let others = &flows.missing[..flows.missing.len().min(EXCHANGED_MAX)];
            let (mut writes, mut is_in) = (0_u64, false);
            'all: loop {
                for key in others {
                    while writes * READS_PER_WRITE >= done.load(Ordering::Relaxed) {
                        if stop.load(Ordering::Relaxed) {
                            break 'all;
                        }
                        spin_loop();
                    }
                    if is_in {
                        access.take(key);
                    } else {
                        access.put(*key, state(0));
                    }
                    writes += 1;
                }
                is_in = !is_in;
            }
            for key in others {
                access.take(key);
            }
        });
        let access = map.access();
        let sum = lap.time(|| read(&*access, &flows.keys, BATCH, &done));
        stop.store(true, Ordering::Relaxed);
        writer.join().expect("the writer ends");
        sum
    })
}

/// Adds all times, and the ratio of every rival to the first.
fn add(
    report: &mut JudgedReport,
    samples: &[Samples],
    work: &str,
    flows: &Flows<2>,
    items: u64,
    clock: Clock,
    goal: impl Fn(&str) -> Option<f64>,
) {
    let size = flows.keys.len() as u64;
    for sample in samples {
        report.results.push(JudgedResult::new(ResultRow::new(work, size, items, sample), None));
    }
    let Some((ours, rivals)) = samples.split_first() else { return };
    for rival in rivals {
        let row = RatioRow::new(work, size, rival, ours).with_items(items, &rival.cpu_ns, &ours.cpu_ns);
        report.ratios.push(JudgedRow::new(row, clock, goal(&rival.name)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn everyone_gives_the_same_answers() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        owned(1, &[500], &mut report).unwrap();
        shared(1, &[500], &mut report).unwrap();
        for rival in
            [LINE_HASH, HASHING, "std", "papaya + foldhash", "scc + foldhash", "dashmap + foldhash"]
        {
            assert!(report.ratios.iter().any(|judged| judged.row.rival == rival), "{rival}");
        }
    }
}

//! Compares [`ConcurrentFlowTable`](flowloom::flow_table::ConcurrentFlowTable) with other maps that
//! threads share: verified answers, then interleaved rounds of all operations.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use anyhow::Result;
use flowloom::flow_table::{LineHash, TableOptions};
use flowloom_measure::Rounds;
use flowloom_measure::lookup::contender::Work;
use flowloom_measure::lookup::{EXCHANGED_MAX, Flows, State, prefetched, state};
use foldhash::fast::RandomState;

use crate::goal::{Clock, JudgedReport};
use crate::peers::shared::{Access, Dash, Key, Locked, Papaya, Scc, SharedMap, ours};

const LINE_HASH: &str = "linehash, hashed by the caller";

/// Number of keys per batch.
const BATCH: usize = 32;

/// Number of lookups of a reader per change of the concurrent writer.
const READS_PER_WRITE: u64 = 10;

/// Compares maps that threads share.
///
/// # Errors
///
/// Returns an error if a table does not pass its trial, or two answers differ.
pub fn run(rounds: usize, sizes: &[u32], report: &mut JudgedReport) -> Result<()> {
    sizes.iter().try_for_each(|&count| shared_of(&Flows::<2>::new(count, 1), rounds, report))
}

/// Maps that threads share, and a single-threaded `LineHash` for comparison.
fn shared_of(flows: &Flows<2>, rounds: usize, report: &mut JudgedReport) -> Result<()> {
    let count = u32::try_from(flows.keys.len()).unwrap_or(u32::MAX);
    let (capacity, size) = (flows.keys.len(), u64::from(count));
    let maps: [(&str, Box<dyn SharedMap>); 5] = [
        ("concurrent table", Box::new(ours(count))),
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
    let line = LineHash::<Key, State>::try_new(&TableOptions::for_flows(count))?;
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
        report.compare(&samples, (&name, size, size), Clock::Cpu, |_| None);
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
    report.compare(&samples, ("shared: delete + insert", size, items), Clock::Cpu, |_| None);
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
    report.compare(&samples, (&name, size, size), Clock::Cpu, goal);
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

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn all_implementations_give_the_same_answers() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        run(1, &[500], &mut report).unwrap();
        for rival in [LINE_HASH, "papaya + foldhash", "scc + foldhash", "dashmap + foldhash"] {
            assert!(report.ratios.iter().any(|judged| judged.row.rival == rival), "{rival}");
        }
    }
}

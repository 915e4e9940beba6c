//! Times every operation of maps while they grow to many flows and shrink again.
//!
//! The operations are the same in each round, and the shortest time of each operation over all
//! rounds counts: a pause of the machine hits another operation in each round, a pause of the map
//! the same one. Counts the bytes that were requested from the allocator.

use std::time::{Duration, Instant};

use dashmap::DashMap;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, Handle};
use flowloom::flow_table::{FlowMap, KeyedState};
use foldhash::fast::FixedState;

use crate::peers::allocated::allocated_bytes;

/// Flows that stay, as a share of all.
const STAY: u32 = 10;

/// Rounds, of which the shortest time of each operation counts.
const ROUNDS: u32 = 3;

/// The most that an operation should take.
const GOAL_NS: u32 = 10_000;

type Key = [u64; 2];
type State = [u64; 4];

/// Times all maps, and prints a table. A line `bytes` has those of an entry of the full map, of one
/// that stays after the removals, and of one after the map was told to give memory back, and the
/// time of that.
pub fn run(flows: u32) {
    say(
        "map",
        "phase",
        &["p50", "p99", "p99.9", "p99.99", "max", "> 10 µs", "max of one round"].map(String::from),
    );
    for (name, with) in MAPS {
        time(name, with, flows);
    }
}

#[expect(clippy::print_stdout, reason = "the result")]
fn say(name: &str, phase: &str, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>16}")).collect();
    println!("{name:<26} {phase:<6}{}", cells.concat());
}

/// A map from keys to states.
trait Map {
    fn put(&mut self, key: Key, state: State) -> bool;
    fn take(&mut self, key: &Key) -> bool;
    /// Does a step of the work that a caller repeats to give memory back, if the map has one.
    /// Returns whether there is more.
    fn shrink(&mut self) -> bool {
        false
    }
    /// Gives memory back in one call, if the map has one, after its values that wait to be freed.
    fn shrink_at_once(&mut self) {}
}

/// Makes an empty map and passes it on.
type With = fn(u32, &mut dyn FnMut(&mut dyn Map));

const MAPS: [(&str, With); 6] = [
    ("nothing", |_, work| work(&mut Nothing)),
    ("concurrent table", |flows, work| {
        // As many shards as for all flows, but space for few.
        let shards = (flows / 4096).next_power_of_two().clamp(64, 1 << 16);
        let config = ConcurrentConfig { shards: Some(shards), ..ConcurrentConfig::for_flows(1) };
        let table = ConcurrentFlowTable::try_with_hasher(&config, KeyedState::with_seed(1));
        let table = table.expect("a small table");
        work(&mut Shared(table.handle()));
    }),
    ("flow map", |_, work| work(&mut FlowMap::<Key, State>::with_hasher(KeyedState::with_seed(1)))),
    ("dashmap + foldhash", |_, work| work(&mut DashMap::with_hasher(FixedState::default()))),
    ("papaya + foldhash", |_, work| work(&mut papaya::HashMap::with_hasher(FixedState::default()))),
    ("scc + foldhash", |_, work| work(&mut scc::HashMap::with_hasher(FixedState::default()))),
];

/// Does nothing: shows what the machine adds.
struct Nothing;

impl Map for Nothing {
    fn put(&mut self, _: Key, _: State) -> bool {
        true
    }

    fn take(&mut self, _: &Key) -> bool {
        true
    }
}

/// A thread's access to Flowloom's table.
struct Shared<'t>(Handle<'t, Key, State, KeyedState>);

impl Map for Shared<'_> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.0.pin().try_insert(key, state).is_ok_and(|(_, left)| left.is_none())
    }

    fn take(&mut self, key: &Key) -> bool {
        self.0.pin().remove(key).is_some()
    }

    fn shrink_at_once(&mut self) {
        (0..100).for_each(|_| self.0.pin().flush());
    }
}

impl Map for FlowMap<Key, State> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.insert(key, state) == Ok(None)
    }

    fn take(&mut self, key: &Key) -> bool {
        self.remove(key).is_some()
    }

    fn shrink(&mut self) -> bool {
        FlowMap::shrink(self, 2, |_, _| ()).more
    }
}

impl Map for DashMap<Key, State, FixedState> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.insert(key, state).is_none()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.remove(key).is_some()
    }

    fn shrink_at_once(&mut self) {
        self.shrink_to_fit();
    }
}

impl Map for papaya::HashMap<Key, State, FixedState> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.pin().insert(key, state).is_none()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.pin().remove(key).is_some()
    }

    fn shrink_at_once(&mut self) {
        (0..100).for_each(|_| papaya::Guard::flush(&self.guard()));
    }
}

impl Map for scc::HashMap<Key, State, FixedState> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.insert_sync(key, state).is_ok()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.remove_sync(key).is_some()
    }
}

fn key(number: u64) -> Key {
    let mut state = number;
    [split_mix(&mut state), number]
}

/// Runs all rounds of a map, and prints the times.
fn time(name: &str, with: With, flows: u32) {
    let mut best = [vec![u32::MAX; flows as usize], vec![u32::MAX; flows as usize]];
    let mut worst = [0_u32; 2];
    let (mut bytes, mut elapsed) = ([0; 3], Duration::MAX);
    for _ in 0..ROUNDS {
        let before = allocated_bytes();
        let taken = || allocated_bytes().wrapping_sub(before);
        with(flows, &mut |map| {
            let [growing, shrinking] = &mut best;
            worst[0] = worst[0].max(phase(growing, |number| map.put(key(number), [number; 4])));
            bytes[0] = taken();
            let longest = phase(shrinking, |number| {
                // Some stay, all over the map.
                let is_right = number % u64::from(STAY) == 0 || map.take(&key(number));
                map.shrink();
                is_right
            });
            bytes[1] = taken();
            let begun = Instant::now();
            while map.shrink() {}
            map.shrink_at_once();
            elapsed = elapsed.min(begun.elapsed());
            bytes[2] = taken();
            worst[1] = worst[1].max(longest);
        });
    }
    for ((phase, times), worst) in ["grow", "shrink"].into_iter().zip(&mut best).zip(worst) {
        times.sort_unstable();
        let at = |share: f64| {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_precision_loss,
                clippy::cast_sign_loss,
                reason = "an index, far below 2^52"
            )]
            let place = (share * (times.len() - 1) as f64) as usize;
            format!("{} ns", times[place])
        };
        let long = times.len() - times.partition_point(|&time| time <= GOAL_NS);
        let cells =
            [at(0.5), at(0.99), at(0.999), at(0.9999), at(1.0), long.to_string(), format!("{worst} ns")];
        say(name, phase, &cells);
    }
    let stay = flows.div_ceil(STAY) as usize;
    let each = |bytes: usize, flows: usize| format!("{} B", bytes / flows.max(1));
    let cells = [
        each(bytes[0], flows as usize),
        each(bytes[1], stay),
        each(bytes[2], stay),
        format!("{} µs", elapsed.as_micros()),
    ];
    say(name, "bytes", &cells);
}

/// Times an operation for every number, and keeps the shortest time of each. Returns the longest
/// time.
fn phase(best: &mut [u32], mut operate: impl FnMut(u64) -> bool) -> u32 {
    let mut longest = 0;
    for (number, shortest) in (0..).zip(best) {
        let begun = Instant::now();
        let is_right = operate(number);
        let elapsed = u32::try_from(begun.elapsed().as_nanos()).unwrap_or(u32::MAX);
        assert!(is_right, "operation {number} has a wrong answer");
        *shortest = elapsed.min(*shortest);
        longest = elapsed.max(longest);
    }
    longest
}

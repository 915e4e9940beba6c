//! Times every operation of maps while they grow to many flows and shrink again.
//!
//! The operations are the same in each round, and the shortest time of each operation over all
//! rounds counts: a pause of the machine hits another operation in each round, a pause of the map
//! the same one.

use std::time::Instant;

use dashmap::DashMap;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, Handle};
use flowloom::flow_table::{FlowMap, KeyedState};
use foldhash::fast::FixedState;

/// Flows that stay, as a share of all.
const STAY: u64 = 10;

/// The most that an operation should take.
const GOAL_NS: u32 = 10_000;

type Key = [u64; 2];
type State = [u64; 4];

/// Times all maps, and prints a table.
pub fn run(rounds: u32, flows: u32) {
    say("map", "phase", &["p50", "p99", "p99.99", "max", "> 10 µs", "max of one round"].map(String::from));
    for (name, with) in MAPS {
        time(name, with, flows, rounds);
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
    /// The bytes of the map, if it says.
    fn bytes(&self) -> Option<u64> {
        None
    }
}

/// Makes an empty map and passes it on.
type With = fn(u32, &mut dyn FnMut(&mut dyn Map));

const MAPS: [(&str, With); 5] = [
    ("nothing", |_, work| work(&mut Nothing)),
    ("concurrent table", |flows, work| {
        // As many shards as for all flows, but space for few.
        let shards = (flows / 4096).next_power_of_two().clamp(64, 1 << 16);
        let config = ConcurrentConfig { shards: Some(shards), ..ConcurrentConfig::for_flows(1) };
        let table = ConcurrentFlowTable::try_with_hasher(&config, KeyedState::with_seed(1));
        let table = table.expect("a small table");
        work(&mut Shared { handle: table.handle(), table: &table });
    }),
    ("flow map", |_, work| work(&mut FlowMap::<Key, State>::with_hasher(KeyedState::with_seed(1)))),
    ("dashmap + foldhash", |_, work| work(&mut DashMap::with_hasher(FixedState::default()))),
    ("papaya + foldhash", |_, work| work(&mut papaya::HashMap::with_hasher(FixedState::default()))),
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

/// Flowloom's table and a thread's access to it.
struct Shared<'t> {
    table: &'t ConcurrentFlowTable<Key, State>,
    handle: Handle<'t, Key, State, KeyedState>,
}

impl Map for Shared<'_> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.handle.pin().try_insert(key, state).is_ok_and(|(_, left)| left.is_none())
    }

    fn take(&mut self, key: &Key) -> bool {
        self.handle.pin().remove(key).is_some()
    }

    fn bytes(&self) -> Option<u64> {
        Some(self.table.memory().total_bytes())
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

    fn bytes(&self) -> Option<u64> {
        Some(self.memory().total_bytes())
    }
}

impl Map for DashMap<Key, State, FixedState> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.insert(key, state).is_none()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.remove(key).is_some()
    }
}

impl Map for papaya::HashMap<Key, State, FixedState> {
    fn put(&mut self, key: Key, state: State) -> bool {
        self.pin().insert(key, state).is_none()
    }

    fn take(&mut self, key: &Key) -> bool {
        self.pin().remove(key).is_some()
    }
}

fn key(number: u64) -> Key {
    let mut state = number;
    [split_mix(&mut state), number]
}

/// Runs all rounds of a map, and prints the times.
fn time(name: &str, with: With, flows: u32, rounds: u32) {
    let count = u64::from(flows);
    let mut best = [vec![u32::MAX; flows as usize], vec![u32::MAX; flows as usize]];
    let mut worst = [0_u32; 2];
    let mut bytes = None;
    for _ in 0..rounds {
        with(flows, &mut |map| {
            let [growing, shrinking] = &mut best;
            worst[0] = worst[0].max(phase(growing, |number| map.put(key(number), [number; 4])));
            let longest = phase(shrinking, |number| {
                // Some stay, all over the map.
                let is_right = number % STAY == 0 || map.take(&key(number));
                map.shrink();
                is_right
            });
            while map.shrink() {}
            worst[1] = worst[1].max(longest);
            bytes = map.bytes();
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
        let cells = [at(0.5), at(0.99), at(0.9999), at(1.0), long.to_string(), format!("{worst} ns")];
        say(name, phase, &cells);
    }
    if let Some(bytes) = bytes {
        // A map into which only the flows that stay were inserted.
        let mut fresh = bytes;
        with(flows, &mut |map| {
            for number in (0..count).filter(|number| number % STAY == 0) {
                map.put(key(number), [number; 4]);
            }
            fresh = map.bytes().unwrap_or(bytes);
        });
        #[expect(clippy::cast_precision_loss, reason = "bytes of a map")]
        let ratio = bytes as f64 / fresh as f64;
        say(name, "memory", &[format!("{ratio:.2} ×"), String::from("of a map with the flows that stay")]);
    }
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

//! The flow tables of two programs, as their maintainers describe them, on Flowloom's tables and on
//! the maps that they use.
//!
//! * A virtual switch [opte, issue 779 and change 995]: one owner, a `BTreeMap` or hashbrown from a
//!   five-tuple to `Arc<Flow>`, a million flows, of which some expire from time to time.
//! * A proxy [quilkin, issue 1383]: all threads look up the session of each packet in one map of
//!   pairs of socket addresses to `Arc<Session>`, a map with a mutex or a `DashMap`.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use dashmap::DashMap;
use flowloom::flow_key::hash::fold::split_mix;
use flowloom::flow_table::concurrent::{ConcurrentConfig, ConcurrentFlowTable, Handle};
use flowloom::flow_table::{FlowMap, KeyedState, Tick};
use flowloom_measure::Rounds;
use flowloom_measure::rounds::Lap;
use foldhash::fast::RandomState;

use crate::goal::{Clock, JudgedReport};

/// The time after which a flow of the switch expires, in rounds of the comparison. A flow map may
/// remove a flow an eighth of its timeout late, which is one round.
const TTL: u64 = 8;

/// Lookups per round of the switch, and packets per round and thread of the proxy.
const PACKETS: u64 = 200_000;

/// Packets of the proxy per new session.
const PACKETS_PER_SESSION: u64 = 100;

/// Threads of the proxy.
const THREADS: u64 = 2;

/// Runs both programs' comparisons.
///
/// # Errors
///
/// Returns an error if two tables disagree, or a table has no space.
pub fn run(rounds: usize, sizes: &[u32], report: &mut JudgedReport) -> Result<()> {
    for &flows in sizes {
        switch(flows, rounds, report)?;
        proxy(flows, rounds, report)?;
    }
    Ok(())
}

/// Addresses of one family.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Addresses {
    V4([u32; 2]),
    V6([u128; 2]),
}

/// The key of a virtual switch's flow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct FlowId {
    protocol: u8,
    addresses: Addresses,
    ports: [u16; 2],
}

/// Returns the key with this number. It is computed, so that no array of keys competes for the
/// caches.
fn flow_id(number: u64) -> FlowId {
    let mut state = number;
    let (first, second) = (split_mix(&mut state), split_mix(&mut state));
    let [a, b, c, d, ..] = second.to_le_bytes();
    let addresses = if first % 8 == 0 {
        Addresses::V6([u128::from(first) << 64 | u128::from(number), u128::from(second)])
    } else {
        #[expect(clippy::cast_possible_truncation, reason = "the upper half is the other address")]
        Addresses::V4([first as u32, (first >> 32) as u32])
    };
    let protocol = if (second >> 40) % 4 == 0 { 17 } else { 6 };
    FlowId { protocol, addresses, ports: [u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d])] }
}

/// The value of a flow: shared with the layer that made it.
#[derive(Debug)]
struct Flow {
    number: u64,
    last_seen: AtomicU64,
    hits: AtomicU64,
    /// What the switch does to packets.
    _actions: [u64; 5],
}

impl Flow {
    fn new(number: u64, now: u64) -> Arc<Self> {
        let (last_seen, hits) = (AtomicU64::new(now), AtomicU64::new(0));
        Arc::new(Self { number, last_seen, hits, _actions: [number; 5] })
    }

    fn hit(&self, now: u64) -> u64 {
        self.last_seen.store(now, Ordering::Relaxed);
        self.hits.fetch_add(1, Ordering::Relaxed);
        self.number
    }

    fn is_due(&self, now: u64) -> bool {
        self.last_seen.load(Ordering::Relaxed) + TTL <= now
    }
}

/// A table of the switch.
trait FlowStore {
    /// Returns the number of a key's flow, and records the packet.
    fn hit(&mut self, key: &FlowId, now: u64) -> Option<u64>;
    /// Inserts a flow. Returns whether it is new.
    fn put(&mut self, key: FlowId, flow: Arc<Flow>) -> bool;
    /// Removes a flow. Returns whether it was there.
    fn take(&mut self, key: &FlowId) -> bool;
    /// Removes flows that were not seen for [`TTL`]. Returns their number.
    fn expire(&mut self, now: u64) -> u64;
}

/// Implements the trait for a map of the standard library's form.
macro_rules! flow_store {
    ($map:ty) => {
        impl FlowStore for $map {
            fn hit(&mut self, key: &FlowId, now: u64) -> Option<u64> {
                self.get(key).map(|flow| flow.hit(now))
            }

            fn put(&mut self, key: FlowId, flow: Arc<Flow>) -> bool {
                self.insert(key, flow).is_none()
            }

            fn take(&mut self, key: &FlowId) -> bool {
                self.remove(key).is_some()
            }

            fn expire(&mut self, now: u64) -> u64 {
                let before = self.len();
                self.retain(|_, flow| !flow.is_due(now));
                (before - self.len()) as u64
            }
        }
    };
}

flow_store!(BTreeMap<FlowId, Arc<Flow>>);
flow_store!(hashbrown::HashMap<FlowId, Arc<Flow>, RandomState>);

impl FlowStore for FlowMap<FlowId, Arc<Flow>> {
    fn hit(&mut self, key: &FlowId, now: u64) -> Option<u64> {
        self.get_mut(key).map(|flow| flow.hit(now))
    }

    fn put(&mut self, key: FlowId, flow: Arc<Flow>) -> bool {
        matches!(self.insert(key, flow), Ok(None))
    }

    fn take(&mut self, key: &FlowId) -> bool {
        self.remove(key).is_some()
    }

    fn expire(&mut self, now: u64) -> u64 {
        self.set_now(Tick(now));
        let mut removed = 0;
        loop {
            let step = FlowMap::expire(self, 64, |_, _, _| ());
            removed += u64::from(step.removed);
            if !step.more {
                return removed;
            }
        }
    }
}

/// A table of the switch, with the flows in it: those with numbers from `oldest` on.
struct Switch {
    store: Box<dyn FlowStore>,
    flows: u64,
    oldest: u64,
    now: u64,
}

impl Switch {
    /// Returns a table whose flows were last seen in the last eight rounds.
    fn new(mut store: Box<dyn FlowStore>, flows: u64) -> Self {
        let each = flows / TTL;
        for number in 0..each * TTL {
            if number % each == 0 {
                // Only sets the clock: none is due.
                store.expire(number / each);
            }
            store.put(flow_id(number), Flow::new(number, number / each));
        }
        let mut switch = Self { store, flows: each * TTL, oldest: 0, now: TTL - 1 };
        // A flow may expire one round late, so the first round may differ between tables.
        switch.pass();
        switch
    }

    fn insert_next(&mut self) -> u64 {
        let number = self.oldest + self.flows;
        self.oldest += 1;
        u64::from(self.store.put(flow_id(number), Flow::new(number, self.now)))
    }

    /// Looks up flows that exist, in random order. Returns how many were right.
    fn hits(&mut self) -> u64 {
        let mut random = self.oldest;
        (0..PACKETS)
            .map(|_| {
                let number = self.oldest + split_mix(&mut random) % self.flows;
                u64::from(self.store.hit(&flow_id(number), self.now) == Some(number))
            })
            .sum()
    }

    /// Removes the oldest flows, and inserts as many.
    fn churn(&mut self) -> u64 {
        (0..self.flows / TTL)
            .map(|_| u64::from(self.store.take(&flow_id(self.oldest))) + self.insert_next())
            .sum()
    }

    /// Lets a round pass: an eighth of the flows expires, and as many begin.
    fn pass(&mut self) -> u64 {
        self.now += 1;
        let expired = self.store.expire(self.now);
        expired + (0..self.flows / TTL).map(|_| self.insert_next()).sum::<u64>()
    }
}

/// An operation on all flows of a switch, which returns how many answers were right.
type Step = fn(&mut Switch) -> u64;

fn switch(flows: u32, rounds: usize, report: &mut JudgedReport) -> Result<()> {
    let count = u64::from(flows);
    let ours: FlowMap<FlowId, Arc<Flow>> = FlowMap::builder().flows(flows).timeout(TTL).build()?;
    let hashbrown: hashbrown::HashMap<FlowId, Arc<Flow>, RandomState> =
        hashbrown::HashMap::with_capacity_and_hasher(flows as usize, RandomState::default());
    let mut switches: Vec<(&str, Switch)> = vec![
        ("flow map", Switch::new(Box::new(ours), count)),
        ("BTreeMap", Switch::new(Box::new(BTreeMap::new()), count)),
        ("hashbrown + foldhash", Switch::new(Box::new(hashbrown), count)),
    ];
    // The first one depends on when flows were last seen, which the others change.
    let works: [(&str, Step, u64); 3] = [
        ("switch: an eighth expires, as many begin", Switch::pass, count / TTL),
        ("switch: hit", Switch::hits, PACKETS),
        ("switch: delete + insert", Switch::churn, count / TTL),
    ];
    for (name, step, items) in works {
        let mut run = Rounds::new(rounds);
        for (rival, switch) in &mut switches {
            run = run.variant(*rival, move || step(switch));
        }
        report.compare(&run.run()?.samples, (name, count, items), Clock::Cpu, |_| None);
    }
    Ok(())
}

/// The key of a session: the client and the server.
type Pair = (SocketAddr, SocketAddr);

/// A session of the proxy.
#[derive(Debug)]
struct Session {
    number: u64,
    packets: AtomicU64,
}

fn pair(number: u64) -> Pair {
    let mut state = number;
    let random = split_mix(&mut state);
    let [address @ .., low, high, server, _] = random.to_le_bytes();
    let client = SocketAddrV4::new(Ipv4Addr::from(address), u16::from_le_bytes([low, high]));
    let server = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, server), 7777);
    (client.into(), server.into())
}

/// A table of the proxy.
trait SessionStore: Sync {
    /// Returns a thread's access to it.
    fn access(&self) -> Box<dyn Sessions + '_>;
}

/// The operations of a thread.
trait Sessions {
    /// Looks up the sessions of a burst of packets, and creates those that are missing. Returns the
    /// sum of their numbers.
    fn burst(&self, numbers: &[u64]) -> u64;
    /// Ends a session. Returns whether it existed.
    fn end(&self, number: u64) -> bool;
}

fn session(number: u64) -> Arc<Session> {
    Arc::new(Session { number, packets: AtomicU64::new(0) })
}

impl Session {
    fn count(&self) -> u64 {
        self.packets.fetch_add(1, Ordering::Relaxed);
        self.number
    }
}

type Mutexed = Mutex<hashbrown::HashMap<Pair, Arc<Session>, RandomState>>;

impl SessionStore for Mutexed {
    fn access(&self) -> Box<dyn Sessions + '_> {
        Box::new(self)
    }
}

impl Sessions for &Mutexed {
    fn burst(&self, numbers: &[u64]) -> u64 {
        let step = |&number: &u64| {
            // The lock covers the lookup; the session is used after it.
            let mut map = self.lock().unwrap_or_else(PoisonError::into_inner);
            let found = Arc::clone(map.entry(pair(number)).or_insert_with(|| session(number)));
            drop(map);
            found.count()
        };
        numbers.iter().map(step).sum()
    }

    fn end(&self, number: u64) -> bool {
        self.lock().unwrap_or_else(PoisonError::into_inner).remove(&pair(number)).is_some()
    }
}

type Dash = DashMap<Pair, Arc<Session>, RandomState>;

impl SessionStore for Dash {
    fn access(&self) -> Box<dyn Sessions + '_> {
        Box::new(self)
    }
}

impl Sessions for &Dash {
    fn burst(&self, numbers: &[u64]) -> u64 {
        let step = |&number: &u64| match self.get(&pair(number)) {
            Some(found) => found.count(),
            None => self.entry(pair(number)).or_insert_with(|| session(number)).count(),
        };
        numbers.iter().map(step).sum()
    }

    fn end(&self, number: u64) -> bool {
        self.remove(&pair(number)).is_some()
    }
}

type Ours = ConcurrentFlowTable<Pair, Arc<Session>>;

impl SessionStore for Ours {
    fn access(&self) -> Box<dyn Sessions + '_> {
        Box::new(self.handle())
    }
}

impl Sessions for Handle<'_, Pair, Arc<Session>, KeyedState> {
    fn burst(&self, numbers: &[u64]) -> u64 {
        let pinned = self.pin();
        let step = |&number: &u64| {
            let found = pinned.get_or_insert_with(pair(number), || session(number));
            found.map_or(0, |session| session.count())
        };
        numbers.iter().map(step).sum()
    }

    fn end(&self, number: u64) -> bool {
        self.pin().remove(&pair(number)).is_some()
    }
}

/// A table of the proxy with sessions in it: those with numbers from `oldest` on.
struct Proxy {
    store: Box<dyn SessionStore>,
    sessions: u64,
    oldest: u64,
}

impl Proxy {
    fn new(store: Box<dyn SessionStore>, sessions: u64) -> Self {
        let access = store.access();
        for number in 0..sessions {
            access.burst(&[number]);
        }
        drop(access);
        Self { store, sessions, oldest: 0 }
    }

    /// All threads look up sessions in random order; one packet in a hundred begins a session, for
    /// which the oldest one ends. Returns how many bursts and sessions were right.
    fn serve(&mut self, burst: usize, lap: &mut Lap) -> u64 {
        let (store, sessions, oldest) = (&*self.store, self.sessions, self.oldest);
        let changes = PACKETS / PACKETS_PER_SESSION;
        let stay = oldest + changes * THREADS;
        let serve = |thread: u64| {
            let access = store.access();
            let mut random = oldest ^ thread << 48;
            let (mut right, mut numbers) = (0, [0; 32]);
            let numbers = &mut numbers[..burst];
            for change in 0..changes {
                for _ in 0..PACKETS_PER_SESSION / burst as u64 {
                    for number in &mut *numbers {
                        *number = stay + split_mix(&mut random) % (sessions - changes * THREADS);
                    }
                    right += u64::from(access.burst(numbers) == numbers.iter().sum::<u64>());
                }
                let place = change * THREADS + thread;
                right += u64::from(access.burst(&[oldest + sessions + place]) == oldest + sessions + place);
                right += u64::from(access.end(oldest + place));
            }
            right
        };
        let right = lap.time(|| {
            thread::scope(|scope| {
                let threads: Vec<_> =
                    (0..THREADS).map(|thread| scope.spawn(move || serve(thread))).collect();
                threads.into_iter().map(|thread| thread.join().expect("a thread ends")).sum()
            })
        });
        self.oldest = stay;
        right
    }
}

fn proxy(sessions: u32, rounds: usize, report: &mut JudgedReport) -> Result<()> {
    let (count, capacity) = (u64::from(sessions), sessions as usize);
    let ours: Ours = ConcurrentFlowTable::try_new(&ConcurrentConfig::for_flows(sessions))?;
    let mutexed: Mutexed =
        Mutex::new(hashbrown::HashMap::with_capacity_and_hasher(capacity, RandomState::default()));
    let dash: Dash = DashMap::with_capacity_and_hasher(capacity, RandomState::default());
    let mut proxies = [
        ("concurrent table", Proxy::new(Box::new(ours), count)),
        ("hashbrown + foldhash, mutex", Proxy::new(Box::new(mutexed), count)),
        ("dashmap + foldhash", Proxy::new(Box::new(dash), count)),
    ];
    for burst in [1, 25] {
        let mut run = Rounds::new(rounds);
        for (name, proxy) in &mut proxies {
            run = run.variant_with_lap(*name, move |lap| proxy.serve(burst, lap));
        }
        let name = format!("proxy: packets of {THREADS} threads, {burst} per pin");
        report.compare(&run.run()?.samples, (&name, count, PACKETS * THREADS), Clock::Wall, |_| None);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_measure::{Host, rows::Tool};

    #[test]
    fn all_tables_give_the_same_answers() {
        let tool = Tool { version: String::new(), git: String::new() };
        let mut report = JudgedReport::new(tool, Host::read("", &[]), serde_json::Value::Null);
        run(1, &[10_000], &mut report).unwrap();
        assert_eq!(report.ratios.len(), 3 * 2 + 2 * 2);
    }

    #[test]
    fn every_lookup_of_the_switch_is_right() {
        let ours: FlowMap<FlowId, Arc<Flow>> = FlowMap::builder().timeout(TTL).build().unwrap();
        let mut switch = Switch::new(Box::new(ours), 1000);
        assert_eq!((switch.pass(), switch.churn(), switch.hits()), (250, 250, PACKETS));
    }
}

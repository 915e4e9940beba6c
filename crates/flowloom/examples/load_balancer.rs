//! A load balancer: new connections go to backends by weight. A connection stays with its backend
//! while other backends are added, drained and removed.
#![expect(clippy::print_stdout, reason = "an example says what it found")]

use std::collections::BTreeMap;

use flowloom::flow_key::{FlowHasher, FlowKey};
use flowloom::flow_table::{FlowMap, Tick};
use flowloom::scheduler::{MemberId, Members};

/// Seconds after which an idle connection is forgotten.
const TIMEOUT: u64 = 60;

struct Balancer {
    hasher: FlowHasher,
    members: Members,
    connections: FlowMap<FlowKey, MemberId>,
    /// Number of connections per backend.
    load: BTreeMap<MemberId, u64>,
}

impl Balancer {
    fn new(backends: &[(u64, u32)]) -> Result<Self, Box<dyn std::error::Error>> {
        let mut members = Members::new();
        for &(id, weight) in backends {
            members.set(MemberId(id), weight)?;
        }
        let connections = FlowMap::builder().max_flows(100_000).timeout(TIMEOUT).build()?;
        Ok(Self { hasher: FlowHasher::random(), members, connections, load: BTreeMap::new() })
    }

    /// Returns the backend of a packet; `None` if it is to be dropped.
    fn forward(&mut self, key: FlowKey) -> Option<MemberId> {
        if let Some(backend) = self.connections.get_mut(&key) {
            return Some(*backend);
        }
        let digest = self.hasher.hash(&key).worker;
        let load = |id| self.load.get(&id).copied().unwrap_or(0);
        let backend = self.members.pick_bounded(digest, 125, load)?;
        self.connections.insert(key, backend).ok()?;
        *self.load.entry(backend).or_default() += 1;
        Some(backend)
    }

    /// Forgets connections that ended, and removes backends that drained and have none left.
    fn tick(&mut self, second: u64) {
        self.connections.set_now(Tick(second));
        self.connections.expire(10_000, |_, _, backend| {
            *self.load.entry(backend).or_default() -= 1;
        });
        let drained = |id| self.load.get(&id).is_none_or(|count| *count == 0);
        let gone: Vec<_> =
            self.members.iter().filter(|member| member.is_draining && drained(member.id)).collect();
        for member in gone {
            self.members.remove(member.id);
            println!("second {second}: backend {} has drained and is gone", member.id.0);
        }
    }
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut balancer = Balancer::new(&[(1, 100), (2, 100), (3, 100), (4, 200)])?;
    let mut first_backend = BTreeMap::new();
    let (mut packets, mut lost, mut sent_to_drained) = (0_u32, 0_u32, 0_u32);
    for second in 0..600_u32 {
        match second {
            200 => drop(balancer.members.drain(MemberId(2))),
            300 => balancer.members.set(MemberId(5), 100)?,
            _ => {}
        }
        balancer.tick(second.into());
        // Fifty connections begin each second and last for a minute and a half, a packet every ten
        // seconds.
        let ages = (0..90).step_by(10).filter_map(|age| second.checked_sub(age));
        for connection in ages.flat_map(|start| (0..50).map(move |number| start * 50 + number)) {
            let (key, _) = FlowKey::from_v4(connection, 0x0A00_0001, 40_000, 443, 6);
            let backend = balancer.forward(key).ok_or("a packet was dropped")?;
            let (first, begun) = *first_backend.entry(connection).or_insert((backend, second));
            lost += u32::from(first != backend);
            sent_to_drained += u32::from(backend == MemberId(2) && begun >= 200);
            packets += 1;
        }
    }
    let connections = first_backend.len();
    println!("{packets} packets, {connections} connections, {lost} with another backend than before");
    println!("connections now: {:?}", balancer.load);
    assert_eq!((lost, sent_to_drained), (0, 0));
    assert!(balancer.members.get(MemberId(2)).is_none(), "the drained backend is gone");
    Ok(())
}

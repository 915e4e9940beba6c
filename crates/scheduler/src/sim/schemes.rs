//! Every scheduler by name: the policy, the digest it is made for, and what its decisions cost the dispatcher.

use super::machine::Machine;
use super::models::{Digest, Traffic, crc_of};
use super::report::Report;
use super::workload::{Pace, Workload};
use super::{pull, push};
use crate::intake::Intake;
use crate::placement::adaptive::{Form, Threshold};
use crate::placement::{OrderGuarantee, Placement, SetupError};
use crate::topology::Topology;
use crate::{
    Adaptive, Cached, DirectHash, Fixed, FlowBurst, FlowPin, FlowPull, HrwFlat, HrwTree, HrwTree2009,
    Indirection, LastFlowBundle, MinLoad, Modulo, PacketHandoff, RoundRobin, TwoChoices,
};

/// A policy of either seam.
pub enum Policy {
    /// The dispatcher decides.
    Push(Box<dyn Placement>),
    /// Workers fetch.
    Pull(Box<dyn Intake>),
}

impl core::fmt::Debug for Policy {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Push(policy) => f.debug_tuple("Push").field(&policy.name()).finish(),
            Self::Pull(policy) => f.debug_tuple("Pull").field(&policy.name()).finish(),
        }
    }
}

impl Policy {
    /// Returns what it promises about order.
    #[must_use]
    pub fn order(&self) -> OrderGuarantee {
        match self {
            Self::Push(policy) => policy.order(),
            Self::Pull(policy) => policy.order(),
        }
    }
}

/// A scheduler by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// Its name, as on the command line.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// What its digests are made from.
    pub digest: Digest,
    /// Whether an idealised operating system moves its threads among all pipelines.
    pub pooled: bool,
    /// Thousandths that its decisions add to the dispatcher's work for a packet.
    ///
    /// Of schemes with a table of flows, what [HRWTREE §4.6] states for the adaptive one: 0.57 after 0.49 µs.
    pub decision_permille: u32,
    /// The same for each packet that it has the dispatcher sort into its flow.
    pub sort_permille: u32,
}

/// What a table of flows or queue lengths costs [HRWTREE §4.6].
const STATEFUL: u32 = 163;

const fn scheme(name: &'static str, about: &'static str, decision_permille: u32) -> Scheme {
    Scheme { name, about, digest: Digest::Keyed, pooled: false, decision_permille, sort_permille: 0 }
}

impl Scheme {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        scheme("rr", "round robin: no order", 0),
        scheme("dh", "direct hash, keyed", 0),
        Self { digest: Digest::Crc, ..scheme("crc", "CRC-32 of the five-tuple modulo the workers", 0) },
        Self { digest: Digest::Destination, ..scheme("dst", "server's address modulo the workers", 0) },
        scheme("rss", "indirection table of 128 entries", 0),
        scheme("rss++", "the same with 512, rebalanced while entries are idle", STATEFUL),
        scheme("fixed", "least loaded worker at a flow's first packet, for life", STATEFUL),
        scheme("minload", "least loaded worker for each packet: no order", STATEFUL),
        scheme("hrw", "highest random weight over all workers", 50),
        scheme("hrw3", "the same level by level, weighted", 80),
        scheme("hrw3-2009", "the tree's formula as printed, which idles threads", 80),
        scheme("adaptive", "the tree overruled by queue lengths, order kept", STATEFUL),
        scheme("adaptive-racy", "the same as published: moves flows in flight", STATEFUL),
        scheme("adaptive-2009", "the same to the letter of its table", STATEFUL),
        Self {
            pooled: true,
            ..scheme("pckt+os", "packets in turn to threads that an OS moves: no order", 0)
        },
        scheme("conn+aff", "connections to threads by hash, threads pinned", 0),
        Self {
            pooled: true,
            ..scheme("conn+os", "connections to threads by hash, threads moved by an OS", 0)
        },
        scheme("fbs", "with its flow's packets in flight, else least loaded", STATEFUL),
        scheme("p2c", "idle flows to the better of two random workers", STATEFUL),
        scheme("flowpin", "idle flows move, only where it is worth it; pipelines seen", STATEFUL),
        scheme("ph", "packet handoff: workers take, and hand over to owners", 0),
        scheme("lfb", "last flow bundle, sticky, with stealing", 0),
        scheme("lfb-ns", "last flow bundle, sticky, without stealing", 0),
        Self {
            sort_permille: STATEFUL,
            ..scheme("flowpull", "workers fetch flows, back to the last one unless it is busy", 0)
        },
    ];

    /// Returns the scheme of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|scheme| scheme.name == name).copied()
    }

    /// Returns the policy for the workers of a topology.
    ///
    /// # Errors
    ///
    /// None of the sizes used here is out of bounds; the type says that sizes may be.
    pub fn policy(self, topology: &Topology, seed: u64) -> Result<Policy, SetupError> {
        let workers = topology.workers();
        let adaptive = |form| Adaptive::new(topology, form, Threshold::PAPER, Adaptive::BITS);
        Ok(match self.name {
            "ph" => Policy::Pull(Box::new(PacketHandoff::new(topology, PacketHandoff::BITS)?)),
            "lfb" => Policy::Pull(Box::new(LastFlowBundle::new(topology, LastFlowBundle::BITS, true)?)),
            "lfb-ns" => Policy::Pull(Box::new(LastFlowBundle::new(topology, LastFlowBundle::BITS, false)?)),
            "flowpull" => Policy::Pull(Box::new(FlowPull::new(topology, FlowPull::BITS)?)),
            name => Policy::Push(match name {
                "rr" | "pckt+os" => Box::new(RoundRobin::new(workers)),
                "crc" | "dst" => Box::new(Modulo::new(workers, self.name)),
                "rss" => Box::new(Indirection::fixed(topology, Indirection::ENTRIES)?),
                "rss++" => Box::new(Indirection::rebalanced(topology, 512, Indirection::PERIOD)?),
                "fixed" => Box::new(Fixed::new(topology, Fixed::BITS)?),
                "minload" => Box::new(MinLoad::new(topology)),
                "hrw" => Box::new(Cached::new(HrwFlat::new(workers), Cached::<HrwFlat>::BITS)?),
                "hrw3" => Box::new(Cached::new(HrwTree::new(topology), Cached::<HrwTree>::BITS)?),
                "hrw3-2009" => Box::new(HrwTree2009::new(topology)),
                "adaptive" => Box::new(adaptive(Form::OrderSafe)?),
                "adaptive-racy" => Box::new(adaptive(Form::Corrected)?),
                "adaptive-2009" => Box::new(adaptive(Form::Printed)?),
                "fbs" => Box::new(FlowBurst::new(topology, FlowBurst::BITS)?),
                "p2c" => Box::new(TwoChoices::new(topology, TwoChoices::BITS, seed)?),
                "flowpin" => Box::new(FlowPin::new(topology, FlowPin::BITS)?),
                _ => Box::new(DirectHash::new(workers)),
            }),
        })
    }

    /// Returns the machine as this scheme has it.
    #[must_use]
    pub fn machine(self, machine: &Machine) -> Machine {
        let share =
            |permille: u32| (u64::from(machine.dispatch_cycles) * u64::from(permille) / 1000) as u32;
        Machine {
            pooled: machine.pooled || self.pooled,
            dispatch_cycles: machine.dispatch_cycles.saturating_add(share(self.decision_permille)),
            sort_cycles: machine.sort_cycles.saturating_add(share(self.sort_permille)),
            ..machine.clone()
        }
    }

    /// Runs the scheme on a machine.
    ///
    /// # Errors
    ///
    /// As [`push()`] and [`pull()`].
    pub fn run(self, machine: &Machine, offered: &Offered, seed: u64) -> Result<Report, SetupError> {
        let machine = self.machine(machine);
        let workload = match self.digest {
            Digest::Keyed => &offered.keyed,
            other => &offered.with(other),
        };
        let topology = machine.topology.clone().with_thread_demand(machine.thread_demand_permille);
        let mut report = match self.policy(&topology, seed)? {
            Policy::Push(mut policy) => push(&machine, &mut *policy, workload)?,
            Policy::Pull(mut policy) => pull(&machine, &mut *policy, workload)?,
        };
        self.name.clone_into(&mut report.scheduler);
        Ok(report)
    }
}

/// Jobs for any scheme, whatever its digests are made from.
#[derive(Clone, Debug)]
pub struct Offered {
    keyed: Workload,
    crc: Vec<u32>,
    servers: Vec<u32>,
}

impl Offered {
    /// Returns generated traffic.
    ///
    /// # Errors
    ///
    /// As [`Workload::new`].
    pub fn of(traffic: Traffic, pace: Pace) -> Result<Self, SetupError> {
        let crc = traffic.keys.iter().map(crc_of).collect();
        Ok(Self { keyed: Workload::new(traffic.jobs, pace)?, crc, servers: traffic.servers })
    }

    /// Returns the jobs with the keyed digest.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.keyed
    }

    /// Returns the jobs with another digest.
    #[must_use]
    pub fn with(&self, digest: Digest) -> Workload {
        match digest {
            Digest::Keyed => self.keyed.clone(),
            Digest::Crc => self.keyed.with_digests(&self.crc),
            Digest::Destination => self.keyed.with_digests(&self.servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::models::Model;

    #[test]
    fn every_scheme_is_found_by_its_name_and_runs() {
        let topology: Topology = "2x2x2".parse().unwrap();
        let offered = Offered::of(Model::Balanced.generate(3000, 1).unwrap(), Pace::Closed).unwrap();
        let machine = Machine::xeon(topology.clone());
        for scheme in Scheme::ALL {
            assert_eq!(Scheme::named(scheme.name), Some(*scheme));
            let order = scheme.policy(&topology, 1).unwrap().order();
            let report = scheme.run(&machine, &offered, 1).unwrap();
            assert_eq!((report.scheduler.as_str(), report.completed), (scheme.name, 3000));
            assert_eq!(
                scheme.about.contains("no order"),
                order == OrderGuarantee::None && !scheme.name.contains("adaptive")
            );
        }
        assert_eq!(Scheme::named("best"), None);
    }

    #[test]
    fn whoever_sorts_packets_pays_for_it_and_no_other() {
        let machine = Machine::xeon("2".parse().unwrap());
        let costs = |name: &str| {
            let machine = Scheme::named(name).unwrap().machine(&machine);
            (machine.dispatch_cycles, machine.sort_cycles)
        };
        assert_eq!(["lfb", "flowpin", "flowpull"].map(costs), [(120, 0), (139, 0), (120, 19)]);
        // With as many packets as a machine takes, the dispatcher of a busy one does the sorting.
        let offered = Offered::of(Model::Many.generate(8000, 1).unwrap(), Pace::Closed).unwrap();
        let cycles = |sort_cycles| {
            let machine = Machine { sort_cycles, ..machine.clone() };
            let mut intake = FlowPull::new(&machine.topology, 16).unwrap();
            pull(&machine, &mut intake, offered.workload()).unwrap().blocked_cycles
        };
        assert!(cycles(0) > cycles(1000));
    }

    #[test]
    fn a_name_stands_for_the_policy_of_that_name() {
        let topology: Topology = "2x2".parse().unwrap();
        for scheme in Scheme::ALL {
            let expected = match scheme.name {
                "pckt+os" => "rr",
                "conn+aff" | "conn+os" => "dh",
                name @ ("hrw" | "hrw3") => &format!("{name}-cached"),
                name => name,
            };
            let name = match scheme.policy(&topology, 1).unwrap() {
                Policy::Push(policy) => policy.name(),
                Policy::Pull(policy) => policy.name(),
            };
            assert_eq!(name, expected);
            assert_eq!(
                scheme.machine(&Machine::xeon(topology.clone())).pooled,
                scheme.name.ends_with("+os")
            );
        }
        let pooled = Machine { pooled: true, ..Machine::xeon(topology) };
        assert!(Scheme::ALL.iter().all(|scheme| scheme.machine(&pooled).pooled));
    }

    #[test]
    fn destinations_and_checksums_are_other_digests() {
        let offered = Offered::of(Model::Balanced.generate(3000, 1).unwrap(), Pace::Closed).unwrap();
        let distinct = |digest| {
            let mut digests: Vec<u32> = offered.with(digest).jobs().iter().map(|job| job.digest).collect();
            digests.sort_unstable();
            digests.dedup();
            digests.len()
        };
        assert!(distinct(Digest::Destination) <= 40);
        assert!(distinct(Digest::Crc) == distinct(Digest::Keyed) && distinct(Digest::Crc) > 100);
    }
}

//! Runs a scheme of the registry on a simulated machine.

use super::machine::Machine;
use super::models::Traffic;
use super::report::Report;
use super::workload::{Pace, Workload};
use super::{pull, push};
use crate::placement::SetupError;
use crate::placement::modulo::crc_of;
use crate::registry::{DigestKind, Policy, Scheme};

impl Scheme {
    /// Adds the costs of this scheme to a machine.
    #[must_use]
    pub fn machine(self, machine: &Machine) -> Machine {
        let share =
            |permille: u32| (u64::from(machine.dispatch_cycles) * u64::from(permille) / 1000) as u32;
        Machine {
            pooled: machine.pooled || self.pooled,
            is_replicated: machine.is_replicated || self.replicates,
            dispatch_cycles: machine.dispatch_cycles.saturating_add(share(self.decision_permille)),
            sort_cycles: machine.sort_cycles.saturating_add(share(self.sort_permille)),
            ..machine.clone()
        }
    }

    /// Runs the scheme on a machine.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`push()`] and [`pull()`].
    pub fn run(self, machine: &Machine, offered: &Offered, seed: u64) -> Result<Report, SetupError> {
        let machine = self.machine(machine);
        let workload = match self.digest {
            DigestKind::Keyed => &offered.keyed,
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

/// Jobs for any scheme, with a digest of each kind.
#[derive(Clone, Debug)]
pub struct Offered {
    keyed: Workload,
    crc: Vec<u32>,
    servers: Vec<u32>,
}

impl Offered {
    /// Takes generated traffic as the offered jobs.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Workload::new`].
    pub fn new(traffic: Traffic, pace: Pace) -> Result<Self, SetupError> {
        let crc = traffic.keys.iter().map(crc_of).collect();
        Ok(Self { keyed: Workload::new(traffic.jobs, pace)?, crc, servers: traffic.servers })
    }

    /// Returns the jobs with the keyed digest.
    #[must_use]
    pub fn workload(&self) -> &Workload {
        &self.keyed
    }

    /// Returns the jobs with a digest of another kind.
    #[must_use]
    pub fn with(&self, digest: DigestKind) -> Workload {
        match digest {
            DigestKind::Keyed => self.keyed.clone(),
            DigestKind::Crc => self.keyed.with_digests(&self.crc),
            DigestKind::Destination => self.keyed.with_digests(&self.servers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::models::Model;
    use crate::sim::workload::Job;
    use crate::{FlowPull, Topology};

    #[test]
    fn every_scheme_runs() {
        let topology: Topology = "2x2x2".parse().unwrap();
        let offered = Offered::new(Model::Balanced.generate(3000, 1).unwrap(), Pace::Closed).unwrap();
        let machine = Machine::xeon(topology.clone());
        for scheme in Scheme::ALL {
            let report = scheme.run(&machine, &offered, 1).unwrap();
            assert_eq!((report.scheduler.as_str(), report.completed), (scheme.name, 3000));
            let half = Machine { thread_demand_permille: 400, ..machine.clone() };
            for report in [report, scheme.run(&half, &offered, 1).unwrap()] {
                let mut uses = report.levels.iter().flat_map(|level| &level.permille);
                assert!(uses.all(|permille| *permille <= 1000), "{:?}", report.levels);
            }
        }
    }

    #[test]
    fn only_schemes_that_sort_packets_pay_for_it() {
        let machine = Machine::xeon("2".parse().unwrap());
        let costs = |name: &str| {
            let machine = Scheme::named(name).unwrap().machine(&machine);
            (machine.dispatch_cycles, machine.sort_cycles)
        };
        assert_eq!(["lfb", "flowpin", "flowpull"].map(costs), [(120, 0), (139, 0), (120, 19)]);
        // With the machine's maximum number of packets, the dispatcher of a busy machine does the
        // sorting.
        let offered = Offered::new(Model::Many.generate(8000, 1).unwrap(), Pace::Closed).unwrap();
        let cycles = |sort_cycles| {
            let machine = Machine { sort_cycles, ..machine.clone() };
            let mut policy = FlowPull::new(&machine.topology, 16).unwrap();
            pull(&machine, &mut policy, offered.workload()).unwrap().blocked_cycles
        };
        assert!(cycles(0) > cycles(1000));
    }

    #[test]
    fn replicas_share_one_flow_at_the_cost_of_its_history() {
        const WORK: u32 = 1000;
        let traffic = Model::Many.generate(8000, 1).unwrap();
        let jobs = traffic.jobs.iter().map(|job| Job { flow: 0, digest: 7, work: WORK, ..*job }).collect();
        let offered = Offered::new(Traffic { jobs, ..traffic }, Pace::Closed).unwrap();
        let scr = Scheme::named("scr").unwrap();
        for (workers, replay_cycles) in [(1_u32, 50), (2, 50), (4, 50), (8, 0), (8, 50), (8, 1000)] {
            let machine = Machine::xeon(workers.to_string().parse().unwrap());
            let machine = Machine { replay_cycles, dispatch_cycles: 1, take_cycles: 0, ..machine };
            let report = scr.run(&machine, &offered, 1).unwrap();
            // Each worker processes its share of the packets, and replays those of the others.
            let cycles = 8000 / workers * (WORK + (workers - 1) * replay_cycles);
            let factor = report.cycles as f64 / f64::from(cycles);
            assert!((0.99..1.02).contains(&factor), "{workers} workers, {replay_cycles}: {factor}");
            let hashed = Scheme::named("dh").unwrap().run(&machine, &offered, 1).unwrap();
            assert!(hashed.cycles >= 8000 * u64::from(WORK));
            assert_eq!((report.races, report.completed), (0, 8000));
        }
    }

    #[test]
    fn threads_scheduled_by_an_operating_system_share_a_queue() {
        let machine = Machine::xeon("2x2".parse().unwrap());
        for scheme in Scheme::ALL {
            assert_eq!(scheme.machine(&machine).pooled, scheme.name.ends_with("+os"));
        }
        let pooled = Machine { pooled: true, ..machine };
        assert!(Scheme::ALL.iter().all(|scheme| scheme.machine(&pooled).pooled));
    }

    #[test]
    fn destination_and_checksum_policies_use_other_digests() {
        let offered = Offered::new(Model::Balanced.generate(3000, 1).unwrap(), Pace::Closed).unwrap();
        let distinct = |digest| {
            let mut digests: Vec<u32> = offered.with(digest).jobs().iter().map(|job| job.digest).collect();
            digests.sort_unstable();
            digests.dedup();
            digests.len()
        };
        assert!(distinct(DigestKind::Destination) <= 40);
        assert!(
            distinct(DigestKind::Crc) == distinct(DigestKind::Keyed) && distinct(DigestKind::Crc) > 100
        );
    }
}

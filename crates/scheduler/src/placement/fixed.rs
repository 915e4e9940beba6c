//! Flow-based scheduling: the first packet of a flow goes to the least loaded worker, and all later
//! ones to the same worker [LFB slide 4].

use flowloom_cpu::prefetch;

use super::backlog::{Backlog, least_by};
use super::{Decision, LoadView, OrderGuarantee, Placement, SetupError, WorkItem, bounded};
use crate::topology::Topology;

/// Marks a slot that no flow has used.
const NO_WORKER: u16 = u16::MAX;

/// Places a flow on the worker with the least waiting work when its first packet arrives, and keeps
/// it there.
///
/// The table has 2^`bits` slots of two bytes. Flows whose digests begin with the same bits share a
/// slot.
#[derive(Clone)]
pub struct Fixed {
    backlog: Backlog,
    homes: Vec<u16>,
    shift: u32,
}

impl core::fmt::Debug for Fixed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Fixed")
            .field("backlog", &self.backlog)
            .field("places", &self.homes.len())
            .finish_non_exhaustive()
    }
}

impl Fixed {
    /// Default size of the table, as a power of two.
    pub const BITS: u32 = 20;

    /// Returns the policy over the workers of a topology.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::Parameter`] for a table of more than 2²⁴ slots.
    pub fn new(topology: &Topology, bits: u32) -> Result<Self, SetupError> {
        bounded("table bits", u64::from(bits), 0, 24)?;
        Ok(Self { backlog: Backlog::new(topology), homes: vec![NO_WORKER; 1 << bits], shift: 32 - bits })
    }
}

impl Placement for Fixed {
    fn place(&mut self, items: &[WorkItem], load: &LoadView<'_>, decisions: &mut [Decision]) {
        for item in items {
            prefetch::read_at(&self.homes, (u64::from(item.digest) >> self.shift) as usize);
        }
        self.backlog.refresh(load);
        for (&item, decision) in items.iter().zip(decisions) {
            let slot = (u64::from(item.digest) >> self.shift) as usize;
            let home = &mut self.homes[slot];
            if *home == NO_WORKER {
                *home = least_by(self.backlog.waiting(), item.digest) as u16;
            }
            let worker = usize::from(*home);
            self.backlog.assign(worker, item);
            *decision = Decision::To(Backlog::id(worker));
        }
    }

    fn workers(&self) -> Option<usize> {
        Some(self.backlog.workers())
    }

    fn order(&self) -> OrderGuarantee {
        OrderGuarantee::Home
    }

    fn name(&self) -> &'static str {
        "fixed"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_flow_goes_to_the_least_loaded_worker_and_a_known_one_to_its_own() {
        let mut policy = Fixed::new(&"2".parse().unwrap(), 8).unwrap();
        let place = |policy: &mut Fixed, digest: u32, sent: [u64; 2]| {
            let mut decision = [Decision::Drop];
            let load = LoadView { sent: &sent, completed: &[0, 0], ..LoadView::idle() };
            policy.place(&[WorkItem { digest, bytes: 60 }], &load, &mut decision);
            decision[0]
        };
        assert_eq!(place(&mut policy, 7 << 24, [5, 9]), Decision::To(0.into()));
        assert_eq!(place(&mut policy, 9 << 24, [50, 9]), Decision::To(1.into()));
        assert_eq!(place(&mut policy, 7 << 24, [50, 9]), Decision::To(0.into()));
        assert!(Fixed::new(&"2".parse().unwrap(), 25).is_err());
    }
}

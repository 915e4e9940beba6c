//! A fully associative cache: counters, and the interface of its policies.

use crate::access::Access;
use crate::counts::Counts;
use crate::simulator::Simulator;

/// Number of lines that a miss evicted.
pub(crate) type Eviction = u64;

/// A policy over keys only.
pub(crate) trait Full: core::fmt::Debug + Send {
    /// Records a hit on the key if it is resident; returns whether it is.
    fn hit(&mut self, key: u64) -> bool;

    /// Inserts a key that is not resident, and returns how many lines were evicted for it.
    fn fill(&mut self, key: u64) -> Eviction;

    /// Removes a resident key.
    fn close(&mut self, key: u64);

    /// Returns the resident keys.
    fn resident(&self) -> Vec<u64>;
}

#[derive(Clone, Debug)]
pub(crate) struct FullCache<P> {
    policy: P,
    drops_closed: bool,
    counts: Counts,
}

impl<P: Full> FullCache<P> {
    pub(crate) fn new(policy: P, drops_closed: bool) -> Self {
        Self { policy, drops_closed, counts: Counts::default() }
    }
}

impl<P: Full> Simulator for FullCache<P> {
    fn run(&mut self, accesses: &[Access]) {
        for access in accesses {
            let key = access.key();
            let ends = self.drops_closed && access.closes();
            if self.policy.hit(key) {
                self.counts.hits += 1;
                if ends {
                    self.counts.closed += 1;
                    self.policy.close(key);
                }
            } else {
                self.counts.misses += 1;
                if ends {
                    self.counts.not_filled += 1;
                } else {
                    self.counts.evictions += self.policy.fill(key);
                }
            }
        }
        self.counts.accesses += accesses.len() as u64;
    }

    fn counts(&self) -> Counts {
        self.counts
    }

    fn resident(&self) -> Vec<u64> {
        self.policy.resident()
    }
}

//! Runs a whole trace through a cache.

use core::fmt;

use crate::access::Access;
use crate::bounds::{Greedy, Min, NextUses};
use crate::counts::Counts;
use crate::policy::Policy;
use crate::simulator::Simulator;
use crate::spec::{CacheSpec, SpecError};

/// Number of accesses between checks of the stop condition.
const STRIDE: usize = 1 << 16;

/// A trace that can be run through any number of caches.
#[derive(Clone)]
pub struct Trace {
    accesses: Vec<Access>,
    warm: usize,
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trace")
            .field("accesses", &self.accesses.len())
            .field("warm", &self.warm)
            .finish_non_exhaustive()
    }
}

/// The outcome of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulated {
    /// The counts of the measured part.
    Finished(Counts),
    /// The simulation was stopped before the end.
    Stopped,
}

/// The reason why a trace cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimulateError {
    /// The trace has no accesses to measure.
    Empty,
    /// The cache's parameters are invalid.
    Spec(SpecError),
    /// The trace is too long for a policy that knows the future.
    TooLong {
        /// Accesses of the trace.
        accesses: usize,
    },
}

impl fmt::Display for SimulateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the trace has no accesses to measure"),
            Self::Spec(error) => error.fmt(f),
            Self::TooLong { accesses } => {
                write!(
                    f,
                    "{accesses} accesses exceed the limit of {} for policies that know the future",
                    NextUses::MAX
                )
            }
        }
    }
}

impl core::error::Error for SimulateError {}

impl From<SpecError> for SimulateError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl Trace {
    /// Returns a trace whose first `warm` accesses fill the caches without being counted.
    #[must_use]
    pub fn new(accesses: Vec<Access>, warm: usize) -> Self {
        let warm = warm.min(accesses.len());
        Self { accesses, warm }
    }

    /// Returns the accesses, including those of the warm-up.
    #[must_use]
    pub fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Converts the trace to its accesses.
    #[must_use]
    pub fn into_accesses(self) -> Vec<Access> {
        self.accesses
    }

    /// Returns how many accesses are not counted.
    #[must_use]
    pub fn warm(&self) -> usize {
        self.warm
    }

    /// Returns the next uses, for policies that know the future. Policies that treat closing
    /// accesses in the same way can share them.
    ///
    /// # Errors
    ///
    /// Returns [`SimulateError::TooLong`] beyond [`NextUses::MAX`] accesses.
    pub fn next_uses(&self, drops_closed: bool) -> Result<NextUses, SimulateError> {
        NextUses::new(&self.accesses, drops_closed)
            .map_err(|error| SimulateError::TooLong { accesses: error.accesses })
    }

    /// Runs the trace through any cache, and returns the counts of its measured part. Calls `stop`
    /// every 65,536 accesses.
    ///
    /// # Errors
    ///
    /// Returns [`SimulateError::Empty`] if no access is measured.
    pub fn simulate_with(
        &self,
        cache: &mut dyn Simulator,
        stop: &dyn Fn() -> bool,
    ) -> Result<Simulated, SimulateError> {
        if self.warm == self.accesses.len() {
            return Err(SimulateError::Empty);
        }
        Ok(self.run(stop, |part| {
            cache.run(part);
            cache.counts()
        }))
    }

    /// Runs the trace through a cache, and returns the counts of its measured part.
    ///
    /// Calls `stop` every 65,536 accesses. `uses` avoids the computation of next uses: pass the
    /// result of [`next_uses`](Self::next_uses) for this trace and for [`CacheSpec::uses_closing`].
    /// With any other value, the counts are meaningless.
    ///
    /// # Errors
    ///
    /// Returns [`SimulateError`] if no access is measured, the cache's parameters are invalid, or
    /// the trace is too long for a policy that knows the future.
    ///
    /// # Panics
    ///
    /// Panics if the policy knows the future and `uses` belongs to a trace of another length.
    pub fn simulate(
        &self,
        spec: &CacheSpec,
        uses: Option<&NextUses>,
        stop: &dyn Fn() -> bool,
    ) -> Result<Simulated, SimulateError> {
        if self.warm == self.accesses.len() {
            return Err(SimulateError::Empty);
        }
        let drops = spec.uses_closing();
        let own;
        let uses = match uses {
            Some(uses) => Some(uses),
            None if spec.policy.needs_future() => {
                own = self.next_uses(drops)?;
                Some(&own)
            }
            None => None,
        };
        if spec.policy.needs_future()
            && let Some(uses) = uses
        {
            let (known, here) = (uses.accesses(), self.accesses.len());
            assert_eq!(
                known, here,
                "these next uses belong to a trace of {known} accesses, but this one has {here}"
            );
        }
        match (spec.policy, uses) {
            (Policy::Min, Some(uses)) => {
                let mut min = Min::new(spec.geometry.lines() as usize, self.accesses.len(), drops);
                Ok(self.run(stop, |part| {
                    min.run(part, uses);
                    min.counts()
                }))
            }
            (Policy::GreedyOpt, Some(uses)) => {
                let mut greedy = Greedy::new(spec.geometry, spec.indexing()?, drops);
                Ok(self.run(stop, |part| {
                    greedy.run(part, uses);
                    greedy.counts()
                }))
            }
            _ => self.simulate_with(&mut *spec.build()?, stop),
        }
    }

    fn run(&self, stop: &dyn Fn() -> bool, mut step: impl FnMut(&[Access]) -> Counts) -> Simulated {
        let (warm, measured) = self.accesses.split_at(self.warm);
        let mut before = Counts::default();
        for part in warm.chunks(STRIDE) {
            if stop() {
                return Simulated::Stopped;
            }
            before = step(part);
        }
        let mut after = before;
        for part in measured.chunks(STRIDE) {
            if stop() {
                return Simulated::Stopped;
            }
            after = step(part);
        }
        Simulated::Finished(after - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_is_not_counted_and_a_stop_ends_the_simulation() {
        let accesses: Vec<Access> = (0..1000).map(|i| Access::new(i % 100, i)).collect();
        let trace = Trace::new(accesses, 100);
        let lru = CacheSpec::PAPER.with_policy(Policy::FullLru);
        let Simulated::Finished(counts) = trace.simulate(&lru, None, &|| false).unwrap() else { panic!() };
        assert_eq!((counts.accesses, counts.hits), (900, 900));
        assert_eq!(trace.simulate(&lru, None, &|| true), Ok(Simulated::Stopped));
        let empty = Trace::new(vec![Access::new(1, 1)], 1);
        assert_eq!(empty.simulate(&lru, None, &|| false), Err(SimulateError::Empty));
    }

    #[test]
    #[should_panic(expected = "these next uses belong to a trace of 200 accesses, but this one has 100")]
    fn future_of_another_trace_panics_with_a_message() {
        let trace = |accesses| Trace::new((0..accesses).map(|i| Access::new(i % 70, i)).collect(), 0);
        let other = trace(200).next_uses(false).unwrap();
        let min = CacheSpec::PAPER.with_policy(Policy::Min);
        let _ = trace(100).simulate(&min, Some(&other), &|| false);
    }
}

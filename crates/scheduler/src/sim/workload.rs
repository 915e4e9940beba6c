//! Jobs, and lower bounds for their total time.

use super::machine::Machine;
use crate::placement::SetupError;

/// Maximum number of jobs in a workload.
pub const JOBS_MAX: usize = 64 << 20;
/// Maximum cycles of one job.
pub const WORK_MAX: u32 = 1 << 30;

/// A packet, or another unit that is scheduled like one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    /// Arrival time in cycles, ascending. Ignored with [`Pace::Closed`].
    pub arrival: u64,
    /// Index of its flow.
    pub flow: u32,
    /// The worker bits of the flow's hash.
    pub digest: u32,
    /// Size in bytes, visible to policies.
    pub bytes: u32,
    /// Cycles of work, not visible to policies.
    pub work: u32,
}

/// How jobs arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Each job arrives as soon as the dispatcher is free: the machine is saturated.
    Closed,
    /// Jobs arrive at their arrival times.
    Open,
}

/// Jobs in order of arrival.
#[derive(Clone, PartialEq, Eq)]
pub struct Workload {
    jobs: Vec<Job>,
    flows: u32,
    pace: Pace,
}

impl core::fmt::Debug for Workload {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Workload")
            .field("jobs", &self.jobs.len())
            .field("flows", &self.flows)
            .field("pace", &self.pace)
            .finish_non_exhaustive()
    }
}

impl Workload {
    /// Returns a workload.
    ///
    /// # Errors
    ///
    /// Returns [`SetupError::NoWork`] for zero jobs, and [`SetupError::Parameter`] for more than
    /// [`JOBS_MAX`] jobs, for a job of more than [`WORK_MAX`] cycles, and for arrival times that
    /// decrease in an open workload.
    pub fn new(jobs: Vec<Job>, pace: Pace) -> Result<Self, SetupError> {
        let bound = |name, value, least, most| crate::placement::bounded(name, value, least, most);
        bound("number of jobs", jobs.len() as u64, 0, JOBS_MAX as u64)?;
        let Some(flow) = jobs.iter().map(|job| job.flow).max() else { return Err(SetupError::NoWork) };
        bound("index of a flow", u64::from(flow), 0, JOBS_MAX as u64)?;
        let work = jobs.iter().map(|job| job.work).max().unwrap_or(0);
        bound("cycles of a job", u64::from(work), 0, u64::from(WORK_MAX))?;
        if pace == Pace::Open {
            for pair in jobs.windows(2) {
                bound("arrival of a job", pair[1].arrival, pair[0].arrival, 1 << 50)?;
            }
            bound("arrival of a job", jobs[0].arrival, 0, 1 << 50)?;
        }
        Ok(Self { jobs, flows: flow + 1, pace })
    }

    /// Returns the jobs.
    #[must_use]
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns one more than the highest flow index.
    #[must_use]
    pub fn flows(&self) -> u32 {
        self.flows
    }

    /// Returns how the jobs arrive.
    #[must_use]
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Returns the same jobs with other digests, one per flow. Flows without an entry keep theirs.
    #[must_use]
    pub fn with_digests(&self, digests: &[u32]) -> Self {
        let mut other = self.clone();
        for job in &mut other.jobs {
            job.digest = digests.get(job.flow as usize).copied().unwrap_or(job.digest);
        }
        other
    }

    /// Returns the total work in cycles.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.jobs.iter().map(|job| u64::from(job.work)).sum()
    }

    /// Returns the work of the flow with the most work, in cycles.
    #[must_use]
    pub fn heaviest_flow(&self) -> u64 {
        let mut flows = vec![0_u64; self.flows as usize];
        for job in &self.jobs {
            flows[job.flow as usize] += u64::from(job.work);
        }
        flows.into_iter().max().unwrap_or(0)
    }

    /// Returns a lower bound for the cycles of any scheduler that keeps order, independent of
    /// arrival times.
    ///
    /// The bound is the greater of two values: all work spread over the whole machine, and the
    /// heaviest flow processed packet by packet on the fastest thread. It does not include the
    /// costs of taking packets, caches and dispatching.
    #[must_use]
    pub fn least_cycles(&self, machine: &Machine) -> u64 {
        let leaf = machine.topology.levels() - 1;
        let fastest = (0..machine.topology.nodes(leaf)).map(|w| machine.topology.capacity(leaf, w)).max();
        let alone = self.heaviest_flow() * 100 / u64::from(fastest.unwrap_or(100));
        let spread = u128::from(self.work()) * 1000 / u128::from(machine.parallelism_permille().max(1));
        alone.max(spread as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(arrival: u64, flow: u32, work: u32) -> Job {
        Job { arrival, flow, digest: flow, bytes: 60, work }
    }

    #[test]
    fn lower_bound_is_set_by_the_machine_or_the_heaviest_flow() {
        let machine = Machine::xeon("4".parse().unwrap());
        let even = Workload::new((0..8).map(|flow| job(0, flow, 100)).collect(), Pace::Closed).unwrap();
        assert_eq!((even.least_cycles(&machine), even.work(), even.flows()), (200, 800, 8));
        let one = Workload::new((0..8).map(|flow| job(0, flow / 6, 100)).collect(), Pace::Closed).unwrap();
        assert_eq!(one.least_cycles(&machine), 600);
    }

    #[test]
    fn empty_and_unsorted_workloads_are_refused() {
        assert_eq!(Workload::new(Vec::new(), Pace::Closed), Err(SetupError::NoWork));
        let falling = vec![job(5, 0, 1), job(4, 0, 1)];
        assert!(Workload::new(falling.clone(), Pace::Open).is_err());
        assert!(Workload::new(falling, Pace::Closed).is_ok());
        assert!(Workload::new(vec![job(0, 0, u32::MAX)], Pace::Closed).is_err());
    }
}

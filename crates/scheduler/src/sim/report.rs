//! The result of a run in virtual time.

use super::histogram::Histogram;

/// Fetches of a flow's state that missed the private cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Misses {
    /// From the shared cache.
    pub shared: u64,
    /// From the private cache of another core.
    pub remote: u64,
    /// From memory.
    pub memory: u64,
}

impl Misses {
    /// Returns the sum.
    #[must_use]
    pub fn total(self) -> u64 {
        self.shared + self.remote + self.memory
    }
}

/// The use of the nodes of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LevelUse {
    /// Name of the nodes.
    pub name: &'static str,
    /// Thousandths of the time that each node worked; for a pipeline, thousandths of its capacity.
    pub permille: Vec<u32>,
    /// The latency in cycles that 99 % of each node's jobs did not exceed.
    pub p99_cycles: Vec<u64>,
}

impl LevelUse {
    /// Returns the mean use, in thousandths.
    #[must_use]
    pub fn mean(&self) -> u32 {
        let sum: u64 = self.permille.iter().map(|&use_| u64::from(use_)).sum();
        sum.checked_div(self.permille.len() as u64).unwrap_or(0) as u32
    }

    /// Returns the lowest and the highest use, in thousandths.
    #[must_use]
    pub fn range(&self) -> (u32, u32) {
        let least = self.permille.iter().copied().min().unwrap_or(0);
        (least, self.permille.iter().copied().max().unwrap_or(0))
    }
}

/// The result of a run in virtual time.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// The scheduler's name.
    pub scheduler: String,
    /// Number of jobs offered.
    pub jobs: u64,
    /// Number of jobs completed.
    pub completed: u64,
    /// Number of jobs dropped because a queue was full.
    pub dropped: u64,
    /// Cycles until the last job was completed.
    pub cycles: u64,
    /// Work of all offered jobs in cycles, without any costs.
    pub work: u64,
    /// Work of the completed jobs in cycles: all of it, unless some jobs were dropped.
    pub work_done: u64,
    /// A lower bound for any scheduler, in cycles: [`super::Workload::least_cycles`].
    pub least_cycles: u64,
    /// Jobs completed after a later one of the same flow.
    pub reorders: u64,
    /// Jobs started while a worker still had another one of the same flow.
    pub races: u64,
    /// Jobs of flows whose previous job was processed by another worker.
    pub migrations: u64,
    /// Fetches of state.
    pub misses: Misses,
    /// Packets that a worker passed to another one.
    pub hand_overs: u64,
    /// Bundles that a worker took from another one.
    pub steals: u64,
    /// Cycles that the dispatcher waited for space in a queue.
    pub blocked_cycles: u64,
    /// Maximum queue length of each worker; empty for schemes without queues.
    pub queue_max: Vec<u32>,
    /// Mean queue length of each worker over time, in thousandths.
    pub queue_mean_milli: Vec<u64>,
    /// Use of each level, starting from the outermost.
    pub levels: Vec<LevelUse>,
    /// Cycles from a job's arrival until its completion.
    pub latency: Histogram,
    /// Digest of the order, worker and time of every completion: equal runs have equal digests.
    pub digest: u64,
}

#[expect(clippy::cast_precision_loss, reason = "shown with a few digits")]
impl Report {
    /// Returns the share of the physical bound that was reached; 1 means the shortest possible
    /// time.
    ///
    /// If jobs were dropped, it is a ratio of rates, that is, of work per time. It may then exceed
    /// 1, because the bound includes all jobs: slightly, or by a fifth if most dropped jobs belong
    /// to the flow that determines the bound.
    #[must_use]
    pub fn share_of_bound(&self) -> f64 {
        let done = self.work_done as f64 / self.work.max(1) as f64;
        self.least_cycles as f64 / self.cycles as f64 * done
    }

    /// Returns the speed-up over another run of the same jobs.
    #[must_use]
    pub fn speed_up(&self, other: &Self) -> f64 {
        let rate = |report: &Self| report.completed as f64 / report.cycles as f64;
        rate(self) / rate(other)
    }

    /// Returns how many ordinary threads' work was done at once, on average.
    #[must_use]
    pub fn parallelism(&self) -> f64 {
        self.work_done as f64 / self.cycles as f64
    }

    /// Returns the share of jobs that were dropped.
    #[must_use]
    pub fn drop_share(&self) -> f64 {
        self.dropped as f64 / self.jobs as f64
    }

    /// Returns the fetches of state per completed job.
    #[must_use]
    pub fn misses_per_job(&self) -> f64 {
        self.misses.total() as f64 / self.completed.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(completed: u64, cycles: u64) -> Report {
        Report {
            scheduler: String::new(),
            jobs: 10,
            completed,
            dropped: 10 - completed,
            cycles,
            work: 600,
            work_done: 60 * completed,
            least_cycles: 150,
            reorders: 0,
            races: 0,
            migrations: 0,
            misses: Misses { shared: 1, remote: 4, memory: 15 },
            hand_overs: 0,
            steals: 0,
            blocked_cycles: 0,
            queue_max: Vec::new(),
            queue_mean_milli: Vec::new(),
            levels: Vec::new(),
            latency: Histogram::default(),
            digest: 0,
        }
    }

    #[test]
    fn shares_and_rates_are_relative_to_the_stated_totals() {
        let (fast, slow) = (report(8, 200), report(4, 400));
        let figures = [
            fast.share_of_bound(),
            slow.share_of_bound(),
            fast.speed_up(&slow),
            slow.speed_up(&fast),
            fast.parallelism(),
            fast.drop_share(),
            fast.misses_per_job(),
            report(0, 1).misses_per_job(), // No job is completed, so all fetches count.
        ];
        let expected = [0.75 * 0.8, 0.375 * 0.4, 4.0, 0.25, 2.4, 0.2, 2.5, 20.0];
        assert_eq!(figures.map(f64::to_bits), expected.map(f64::to_bits), "{figures:?}");
        assert_eq!(fast.misses.total(), 20);
    }

    #[test]
    fn tree_level_without_nodes_has_no_utilisation() {
        let level = |permille: &[u32]| LevelUse {
            name: "core",
            permille: permille.to_vec(),
            p99_cycles: Vec::new(),
        };
        let used = level(&[500, 100, 900, 400]);
        assert_eq!((used.mean(), used.range()), (475, (100, 900)));
        assert_eq!((level(&[]).mean(), level(&[]).range()), (0, (0, 0)));
    }
}

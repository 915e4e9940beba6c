//! Measures how evenly a policy distributes many flows.

use flowloom::flow_key::hash::fold::split_mix;
use flowloom::scheduler::{ByDigest, Decision, LoadView, Placement, WorkItem};

/// Flows per thread.
pub(super) struct Shares {
    pub(super) counts: Vec<u64>,
}

impl Shares {
    /// Counts `keys` flows, drawn from `seed`, with a policy that uses only the digest.
    pub(super) fn by_digest(
        policy: &(impl ByDigest + ?Sized),
        threads: usize,
        keys: u64,
        seed: u64,
    ) -> Self {
        let mut counts = vec![0; threads];
        let mut state = seed;
        for _ in 0..keys {
            counts[policy.worker((split_mix(&mut state) >> 32) as u32).index()] += 1;
        }
        Self { counts }
    }

    /// Counts the flows of each thread with any policy, one batch at a time.
    pub(super) fn count(policy: &mut dyn Placement, threads: usize, keys: u64, seed: u64) -> Self {
        let mut counts = vec![0; threads];
        let mut state = seed;
        let mut items = [WorkItem { digest: 0, bytes: 60 }; 64];
        let mut decisions = [Decision::Drop; 64];
        for _ in 0..keys.div_ceil(64) {
            for item in &mut items {
                item.digest = (split_mix(&mut state) >> 32) as u32;
            }
            policy.place(&items, &LoadView::idle(), &mut decisions);
            for decision in decisions {
                if let Decision::To(worker) = decision {
                    counts[worker.index()] += 1;
                }
            }
        }
        Self { counts }
    }

    fn mean(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64 / self.counts.len() as f64
    }

    /// Returns the coefficient of variation relative to that of random assignment.
    pub(super) fn over_noise(&self) -> f64 {
        let mean = self.mean();
        let squares: f64 = self.counts.iter().map(|&count| (count as f64 - mean).powi(2)).sum();
        let deviation = (squares / (self.counts.len() - 1) as f64).sqrt();
        let noise = (mean * (1.0 - 1.0 / self.counts.len() as f64)).sqrt();
        deviation / noise
    }

    /// Returns the same over several draws, as the root of their mean square: 64 counts of a single
    /// draw reach 1.3 by chance.
    pub(super) fn over_noise_of(draws: &[Self]) -> f64 {
        let squares: f64 = draws.iter().map(|shares| shares.over_noise().powi(2)).sum();
        (squares / draws.len() as f64).sqrt()
    }

    /// Returns the coefficient of variation that random assignment does not explain.
    pub(super) fn beyond_noise(&self) -> f64 {
        let noise = ((1.0 - 1.0 / self.counts.len() as f64) / self.mean()).sqrt();
        noise * (self.over_noise().powi(2) - 1.0).max(0.0).sqrt()
    }

    /// Returns whether the deviation is larger than that of random assignment by five standard
    /// deviations of its square, which has a χ² distribution.
    pub(super) fn is_uneven(&self) -> bool {
        let freedom = (self.counts.len() - 1) as f64;
        self.over_noise().powi(2) > 1.0 + 5.0 * (2.0 / freedom).sqrt()
    }

    /// Returns the greatest share of the busiest of `threads` threads by chance, of `flows` flows:
    /// one of a hundred thousand draws exceeds it.
    pub(super) fn busiest_by_chance(threads: u64, flows: u64) -> f64 {
        1.0 + 5.2 / (flows as f64 / threads as f64).sqrt()
    }

    /// Returns the busiest thread's share relative to an even share.
    pub(super) fn busiest(&self) -> f64 {
        self.counts.iter().copied().max().unwrap_or(0) as f64 / self.mean()
    }

    /// Returns the number of threads without flows.
    pub(super) fn idle(&self) -> usize {
        self.counts.iter().filter(|&&count| count == 0).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_random_draws_show_only_sampling_noise() {
        let drawn = |seed: u64| {
            let (mut counts, mut state) = (vec![0; 64], seed);
            for _ in 0..64_000 {
                counts[(split_mix(&mut state) % 64) as usize] += 1;
            }
            Shares { counts }
        };
        let over = Shares::over_noise_of(&(0..32).map(|seed| drawn(seed << 32)).collect::<Vec<_>>());
        assert!((0.95..1.05).contains(&over), "{over}");
    }

    #[test]
    fn imbalance_beyond_noise_does_not_depend_on_the_flows() {
        for flows in [10_000_000, 1_000_000_000] {
            let counts = (0..64_u64)
                .map(|thread| flows / 64 * (if thread % 2 == 0 { 99 } else { 101 }) / 100)
                .collect();
            let shares = Shares { counts };
            assert!((shares.beyond_noise() - 0.01).abs() < 0.001, "{flows}: {}", shares.beyond_noise());
        }
    }
}

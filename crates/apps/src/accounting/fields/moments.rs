//! Minimum, mean, maximum and standard deviation of a series of numbers.
#![expect(clippy::cast_precision_loss, reason = "means and deviations are rounded anyway")]

/// Sums over numbers below 2^56. There are fewer than 2^16 times 2^56 of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moments {
    count: u64,
    least: u64,
    largest: u64,
    sum: u128,
    squares: u128,
}

impl Moments {
    #[inline(always)]
    pub(super) fn add(&mut self, number: u64) {
        self.least = if self.count == 0 { number } else { self.least.min(number) };
        self.largest = self.largest.max(number);
        self.count += 1;
        self.sum += u128::from(number);
        self.squares = self.squares.saturating_add(u128::from(number) * u128::from(number));
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn least(&self) -> u64 {
        self.least
    }

    pub(super) fn largest(&self) -> u64 {
        self.largest
    }

    pub(super) fn sum(&self) -> u64 {
        u64::try_from(self.sum).unwrap_or(u64::MAX)
    }

    /// Returns the moments of both series together.
    pub(super) fn with(&self, other: &Self) -> Self {
        match (self.count, other.count) {
            (_, 0) => *self,
            (0, _) => *other,
            _ => Self {
                count: self.count + other.count,
                least: self.least.min(other.least),
                largest: self.largest.max(other.largest),
                sum: self.sum + other.sum,
                squares: self.squares.saturating_add(other.squares),
            },
        }
    }

    /// Returns minimum, mean, maximum and standard deviation of the population; 0 without numbers.
    pub(super) fn real(&self) -> [f64; 4] {
        let mean = if self.count == 0 { 0.0 } else { self.sum as f64 / self.count as f64 };
        [self.least as f64, mean, self.largest as f64, self.variance().sqrt()]
    }

    /// Returns the variance of the population.
    pub(super) fn variance(&self) -> f64 {
        self.deviations() / self.count.max(1) as f64
    }

    /// Returns the standard deviation of a sample; 0 with fewer than two numbers.
    pub(super) fn sample_deviation(&self) -> f64 {
        (self.deviations() / self.count.saturating_sub(1).max(1) as f64).sqrt()
    }

    /// Returns the sum of the squared distances from the mean.
    fn deviations(&self) -> f64 {
        let count = u128::from(self.count.max(1));
        // The difference is exact unless it exceeds 128 bits.
        let exact = || count.checked_mul(self.squares)?.checked_sub(self.sum.checked_mul(self.sum)?);
        exact().map_or_else(
            || (self.squares as f64 - self.sum as f64 * self.sum as f64 / count as f64).max(0.0),
            |difference| difference as f64 / count as f64,
        )
    }

    /// Returns minimum, mean, maximum and standard deviation (of the population, not of a sample),
    /// or `None` without numbers. The mean and the deviation are rounded down.
    pub(super) fn shown(&self) -> Option<[u64; 4]> {
        let count = u128::from(self.count);
        let mean = self.sum.checked_div(count)?;
        // The result is exact unless sums of squares exceed 128 bits; then its relative error is
        // 2^-64.
        let exact =
            || Some((count.checked_mul(self.squares)? - self.sum.checked_mul(self.sum)?) / (count * count));
        let variance =
            exact().unwrap_or_else(|| (self.squares / count).saturating_sub(mean.saturating_pow(2)));
        let number = |value: u128| u64::try_from(value).unwrap_or(u64::MAX);
        Some([self.least, number(mean), self.largest, number(variance.isqrt())])
    }
}

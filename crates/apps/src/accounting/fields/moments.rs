//! Minimum, mean, maximum and standard deviation of a series of numbers.

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

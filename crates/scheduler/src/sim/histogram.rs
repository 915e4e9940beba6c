//! A histogram of times with sixteen steps per doubling, so that a percentile is accurate to 6 %.

/// Steps per doubling, as a power of two.
const STEP_BITS: u32 = 4;
const STEPS: usize = 1 << STEP_BITS;
const BINS: usize = STEPS * (64 - STEP_BITS as usize + 1);

/// Counts of values by magnitude.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    bins: Vec<u64>,
    count: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bins: vec![0; BINS], count: 0, sum: 0, max: 0 }
    }
}

#[inline]
fn bin(value: u64) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let octave = value.ilog2() - STEP_BITS;
    (octave as usize + 1) * STEPS + ((value >> octave) as usize & (STEPS - 1))
}

/// Returns the smallest value of a bin.
fn least_of(bin: usize) -> u64 {
    if bin < STEPS {
        return bin as u64;
    }
    let octave = bin / STEPS - 1;
    ((STEPS + bin % STEPS) as u64) << octave
}

impl Histogram {
    /// Counts a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.bins[bin(value)] += 1;
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
        self.max = self.max.max(value);
    }

    /// Adds all values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (bin, more) in self.bins.iter_mut().zip(&other.bins) {
            *bin += more;
        }
        self.count += other.count;
        self.sum = self.sum.saturating_add(other.sum);
        self.max = self.max.max(other.max);
    }

    /// Returns the number of counted values.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the mean, or 0 if there are no values.
    #[must_use]
    pub fn mean(&self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Returns the exact maximum.
    #[must_use]
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Returns the value that `permille` thousandths of all values do not exceed, to within a
    /// sixteenth, or 0 if there are no values.
    #[must_use]
    pub fn permille(&self, permille: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(permille.min(1000))).div_ceil(1000) as u64;
        let mut seen = 0;
        for (at, &count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= wanted.max(1) {
                // The upper end of the bin, limited to the maximum of the values.
                let upper = if at + 1 < BINS { least_of(at + 1) - 1 } else { u64::MAX };
                return upper.min(self.max);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_cover_all_values_without_gap() {
        for at in 0..BINS {
            assert_eq!(bin(least_of(at)), at);
            if at + 1 < BINS {
                assert_eq!(bin(least_of(at + 1) - 1), at);
            }
        }
        assert_eq!(bin(u64::MAX), BINS - 1);
    }

    #[test]
    fn percentiles_are_right_within_a_sixteenth() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.permille(500), 0);
        for value in 1..=10_000 {
            histogram.add(value);
        }
        for (permille, exact) in [(500, 5000), (990, 9900), (1000, 10_000)] {
            let found = histogram.permille(permille);
            assert!(found >= exact && found - exact <= exact / 16, "{permille}: {found}");
        }
        assert_eq!((histogram.mean(), histogram.max(), histogram.count()), (5000, 10_000, 10_000));
    }
}

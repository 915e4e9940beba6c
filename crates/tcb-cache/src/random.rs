//! The simulator's random numbers, which are the same on every machine.

use flowloom_flow_key::hash::fold::split_mix;

/// A sequence of well-mixed words. Not suitable for secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Returns the sequence of a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next word.
    #[inline]
    pub fn next_word(&mut self) -> u64 {
        split_mix(&mut self.state)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0; one word is drawn in both cases.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_word()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns a number above 0 and at most 1, in steps of 2⁻⁵³.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next_word() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns the generator's state, for functions that draw from it directly.
    pub(crate) fn state_mut(&mut self) -> &mut u64 {
        &mut self.state
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_numbers_stay_within_their_bounds() {
        let mut random = Random::new(4);
        assert_eq!(random.below(0), 0);
        let mut seen = [0_u32; 5];
        for _ in 0..5000 {
            seen[random.below(5) as usize] += 1;
            let unit = random.unit();
            assert!(unit > 0.0 && unit <= 1.0);
        }
        assert!(seen.iter().all(|count| (850..1150).contains(count)), "{seen:?}");
    }
}

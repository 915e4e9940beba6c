//! The generators' random numbers: the same on every machine.

use flowloom_flow_key::hash::fold::split_mix;

/// A sequence of well-mixed words. Not for secrets.
#[derive(Clone, Debug)]
pub(super) struct Random {
    state: u64,
}

impl Random {
    /// Returns the sequence of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next word.
    #[inline]
    pub(super) fn next(&mut self) -> u64 {
        split_mix(&mut self.state)
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    ///
    /// Multiply and shift: the bias is below `bound / 2^64`, and no loop depends on the numbers.
    #[inline]
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        scale(self.next(), bound)
    }
}

/// Returns `word` (uniform over 64 bits) scaled to a number below `bound`.
#[inline]
pub(super) fn scale(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// Returns the word at `index` in the family `seed`: a sequence with random access.
#[inline]
pub(super) fn word_of(seed: u64, index: u64) -> u64 {
    let mut state = seed ^ index.wrapping_mul(0xD6E8_FEB8_6659_FD93);
    split_mix(&mut state)
}

/// An order that visits every number below `count` once, in steps of about 0.618 of `count`.
///
/// Neighbours in the order have distant numbers, and the order needs no memory.
#[derive(Clone, Debug)]
pub(super) struct Stride {
    count: u64,
    step: u64,
    next: u64,
}

impl Stride {
    /// Returns the order of the numbers below `count`, beginning at `first` modulo `count`.
    pub(super) fn new(count: u64, first: u64) -> Self {
        let count = count.max(1);
        let mut step = (count - count / 3 - count / 21).max(1);
        while greatest_common_divisor(step, count) != 1 {
            step += 1;
        }
        Self { count, step: step % count, next: first % count }
    }

    /// Returns the next number. The order repeats after `count` numbers.
    #[inline]
    pub(super) fn advance(&mut self) -> u64 {
        let current = self.next;
        self.next += self.step;
        if self.next >= self.count {
            self.next -= self.count;
        }
        current
    }
}

fn greatest_common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stride_visits_every_number_once() {
        for count in [1, 2, 3, 4, 16, 97, 100, 256, 1000] {
            let mut stride = Stride::new(count, 12_345);
            let mut seen: Vec<u64> = (0..count).map(|_| stride.advance()).collect();
            let again: Vec<u64> = (0..count).map(|_| stride.advance()).collect();
            assert_eq!(seen, again);
            seen.sort_unstable();
            assert_eq!(seen, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn random_number_stays_below_its_bound() {
        let mut random = Random::new(9);
        assert_eq!(random.below(0), 0);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7) as usize] = true;
        }
        assert_eq!(seen, [true; 7]);
    }
}

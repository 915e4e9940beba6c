//! Random numbers drawn from a seed.

use flowloom::flow_key::hash::fold::split_mix;

/// Random numbers drawn from a seed.
#[derive(Clone, Debug)]
pub(super) struct Draw(pub(super) u64);

impl Draw {
    /// Returns a number below `end`, which is at least 1.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        split_mix(&mut self.0) % end
    }

    /// Returns an index into a list of this length, which is at least 1.
    pub(super) fn index(&mut self, length: usize) -> usize {
        index_of(split_mix(&mut self.0), length)
    }

    /// Returns `true` with a probability of one in `times`.
    pub(super) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(super) fn choice<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.index(choices.len())]
    }
}

/// Returns a number modulo a length.
pub(super) fn index_of(number: u64, length: usize) -> usize {
    usize::try_from(number % length as u64).expect("it is below a length")
}

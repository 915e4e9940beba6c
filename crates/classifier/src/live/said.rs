//! What lookups say of each rule, in as little memory as will do: a table of a hundred thousand entries of eight bytes would
//! push the classifier out of the cache.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use super::{LiveId, LiveMatch};
use crate::key::Match;

/// Numbers of rules by rank.
#[derive(Debug)]
enum Numbers {
    /// The rank itself: of rules that were added in the order they match in.
    Rank,
    Each(Box<[u32]>),
}

/// Values of rules by rank. Tables have one entry more, for packets that no rule matches.
#[derive(Debug)]
enum Values {
    Same(u32),
    /// The rule's number itself: of rules whose values are their places, as loaders give them where none is said.
    Number,
    Bytes(Box<[u8]>),
    Each(Box<[u32]>),
}

/// Number and value of each rule.
#[derive(Debug)]
pub(super) struct Said {
    rules: usize,
    numbers: Numbers,
    values: Values,
}

impl Said {
    /// Takes numbers and values in the order of ranks.
    pub(super) fn of(rules: impl ExactSizeIterator<Item = (u32, u32)> + Clone) -> Self {
        let count = rules.len();
        let in_order = (0_u32..).zip(rules.clone()).all(|(rank, (number, _))| rank == number);
        let numbers = if in_order {
            Numbers::Rank
        } else {
            // The number of no rule: one more is no id.
            Numbers::Each(rules.clone().map(|(number, _)| number).chain([u32::MAX]).collect())
        };
        let are_numbers = rules.clone().all(|(number, value)| number == value);
        let values: Vec<u32> = rules.map(|(_, value)| value).chain([0]).collect();
        let first = values[0];
        let values = if values[..count].iter().all(|&value| value == first) {
            Values::Same(first)
        } else if are_numbers {
            Values::Number
        } else if values.iter().all(|&value| value < 256) {
            Values::Bytes(values.iter().map(|&value| value as u8).collect())
        } else {
            Values::Each(values.into())
        };
        Self { rules: count, numbers, values }
    }

    /// Writes what lookups say of each rank.
    #[inline]
    pub(super) fn tell(&self, ranks: &[Match], out: &mut [LiveMatch]) {
        match &self.values {
            Values::Same(value) => self.tell_with(ranks, out, |_, _| *value),
            Values::Number => self.tell_with(ranks, out, |_, number| number),
            Values::Bytes(values) => self.tell_with(ranks, out, |at, _| u32::from(values[at])),
            Values::Each(values) => self.tell_with(ranks, out, |at, _| values[at]),
        }
    }

    /// Returns what lookups say of a rule.
    pub(super) fn one(&self, rank: Match) -> LiveMatch {
        let mut out = [LiveMatch::default()];
        self.tell(&[rank], &mut out);
        out[0]
    }

    #[inline]
    fn tell_with(&self, ranks: &[Match], out: &mut [LiveMatch], value: impl Fn(usize, u32) -> u32) {
        let at = |rank: &Match| (rank.0 as usize).min(self.rules);
        match &self.numbers {
            // No match is the highest rank: one more is no id.
            Numbers::Rank => {
                for (out, rank) in out.iter_mut().zip(ranks) {
                    *out = said(rank.0, value(at(rank), rank.0));
                }
            }
            Numbers::Each(numbers) => {
                for (out, rank) in out.iter_mut().zip(ranks) {
                    let number = numbers[at(rank)];
                    *out = said(number, value(at(rank), number));
                }
            }
        }
    }
}

#[inline]
fn said(number: u32, value: u32) -> LiveMatch {
    LiveMatch { rule: NonZeroU32::new(number.wrapping_add(1)).map(|id| (LiveId(id), value)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_says_the_same() {
        for numbers in [[0_u32, 1, 2], [4, 9, 2]] {
            for values in [[7_u32, 7, 7], [0, 255, 3], [256, 0, 7], [1 << 30, 0, 5], numbers] {
                let said = Said::of(numbers.into_iter().zip(values));
                for rank in 0..3 {
                    let expected = Some((LiveId::of(numbers[rank]), values[rank]));
                    assert_eq!(said.one(Match(rank as u32)).rule, expected);
                }
                assert_eq!(said.one(Match::NONE), LiveMatch::default());
            }
        }
        let none = Said::of([].into_iter());
        assert_eq!(none.one(Match::NONE), LiveMatch::default());
    }
}

//! The lookup result of each rule, in as little memory as possible: a table of a hundred thousand
//! eight-byte entries would evict the classifier from the cache.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::LiveMatch;
use crate::key::Match;

/// The lookup results by rank. Tables have one more entry, for packets that no rule matches.
#[derive(Debug)]
enum Form {
    /// For rules added in matching order: the rank, and its value.
    InOrder(Values),
    Each(Box<[LiveMatch]>),
}

/// Values of rules that were added in matching order.
#[derive(Debug)]
enum Values {
    /// They increase by a constant from rule to rule: one value for all, positions, sequence
    /// numbers.
    Line {
        first: u32,
        step: u32,
    },
    /// One of a few values.
    Few {
        which: Box<[u8]>,
        values: Box<[u32]>,
    },
    Each(Box<[u32]>),
}

impl Values {
    /// Takes the values and one more, for packets that no rule matches.
    fn of(values: Vec<u32>) -> Self {
        let rules = values.split_last().map_or(&[][..], |(_, rules)| rules);
        let first = rules.first().copied().unwrap_or_default();
        let step = rules.get(1).map_or(0, |second| second.wrapping_sub(first));
        if rules.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) == step) {
            return Self::Line { first, step };
        }
        let mut few = values.clone();
        few.sort_unstable();
        few.dedup();
        let which = |value: &u32| few.binary_search(value).ok().and_then(|which| u8::try_from(which).ok());
        match values.iter().map(which).collect() {
            Some(which) => Self::Few { which, values: few.into() },
            None => Self::Each(values.into()),
        }
    }
}

/// Number and value of each rule.
#[derive(Debug)]
pub(super) struct RuleValues {
    rules: usize,
    form: Form,
}

impl RuleValues {
    /// Takes numbers and values in the order of ranks.
    pub(super) fn of(rules: impl ExactSizeIterator<Item = (u32, u32)> + Clone) -> Self {
        let count = rules.len();
        let form = if (0_u32..).zip(rules.clone()).all(|(rank, (number, _))| rank == number) {
            Form::InOrder(Values::of(rules.map(|(_, value)| value).chain([0]).collect()))
        } else {
            let each = rules.map(|(number, value)| LiveMatch::of(number, value));
            Form::Each(each.chain([LiveMatch::default()]).collect())
        };
        Self { rules: count, form }
    }

    /// Writes the lookup result of each rank.
    #[inline]
    pub(super) fn tell(&self, ranks: &[Match], out: &mut [LiveMatch]) {
        match &self.form {
            Form::InOrder(values) => match values {
                Values::Line { first, step } => self.tell_each(ranks, out, |rank, _| {
                    let value = first.wrapping_add(step.wrapping_mul(rank));
                    LiveMatch::of(rank, if rank == Match::NONE.0 { 0 } else { value })
                }),
                Values::Few { which, values } => {
                    self.tell_each(ranks, out, |rank, at| {
                        LiveMatch::of(rank, values[usize::from(which[at])])
                    });
                }
                Values::Each(values) => {
                    self.tell_each(ranks, out, |rank, at| LiveMatch::of(rank, values[at]));
                }
            },
            Form::Each(each) => self.tell_each(ranks, out, |_, at| each[at]),
        }
    }

    /// Returns the lookup result of a rule.
    pub(super) fn one(&self, rank: Match) -> LiveMatch {
        let mut out = [LiveMatch::default()];
        self.tell(&[rank], &mut out);
        out[0]
    }

    /// Returns the index of a rank in tables.
    #[inline]
    fn at(&self, rank: Match) -> usize {
        (rank.0 as usize).min(self.rules)
    }

    #[inline]
    fn tell_each(&self, ranks: &[Match], out: &mut [LiveMatch], say: impl Fn(u32, usize) -> LiveMatch) {
        for (out, &rank) in out.iter_mut().zip(ranks) {
            // "No match" is the highest rank; adding one gives no valid id.
            *out = say(rank.0, self.at(rank));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::LiveId;
    use super::*;

    #[test]
    fn every_form_says_the_same() {
        for numbers in [[0_u32, 1, 2], [4, 9, 2]] {
            for values in [[7_u32, 7, 7], [0, 255, 3], [256, 0, 7], [1 << 30, 0, 5], numbers] {
                let values_of = RuleValues::of(numbers.into_iter().zip(values));
                for rank in 0..3 {
                    let expected = Some((LiveId::of(numbers[rank]), values[rank]));
                    assert_eq!(values_of.one(Match(rank as u32)).rule(), expected);
                }
                assert_eq!(values_of.one(Match::NONE), LiveMatch::default());
            }
        }
        let none = RuleValues::of([].into_iter());
        assert_eq!(none.one(Match::NONE), LiveMatch::default());
    }
}

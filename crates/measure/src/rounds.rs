//! Runs variants in turn, round by round.
//!
//! Running all of A before all of B would attribute to B everything that the machine did in the
//! second half. Each round therefore runs every variant once. The order rotates from round to
//! round, and every second round is mirrored. In the long run, each variant takes each position and
//! follows each other variant equally often.

use std::fmt;

use thiserror::Error;

use crate::clock::{Elapsed, Stopwatch};

/// The reason why the rounds gave no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RoundsError {
    /// There are no variants.
    #[error("there are no variants to run")]
    NoVariants,
    /// The first round was not allowed.
    #[error("interrupted before the first round")]
    Interrupted,
    /// Two variants disagree, so at least one did different work.
    #[error(
        "{other} answered {other_answer} in round {round}, but {first} answered {first_answer}: no times are reported"
    )]
    AnswersDiffer {
        /// The variant whose first answer is the reference for the others.
        first: String,
        /// Its answer.
        first_answer: String,
        /// The variant that differs.
        other: String,
        /// Its answer.
        other_answer: String,
        /// The round, including warm-up rounds, numbered from 0.
        round: usize,
    },
    /// A variant that marks its own timed part did not do so.
    #[error(
        "{variant} timed nothing in round {round}: a variant that gets a lap calls `Lap::time` or `Lap::add`"
    )]
    NothingTimed {
        /// The variant.
        variant: String,
        /// The round, including warm-up rounds, numbered from 0.
        round: usize,
    },
}

/// The times of one run of a variant that marks its own timed part.
#[derive(Debug, Default)]
pub struct Lap {
    elapsed: Option<Elapsed>,
}

impl Lap {
    /// Runs `work` and adds its time to the lap. Work outside it, such as building a table, does
    /// not count.
    pub fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let stopwatch = Stopwatch::start();
        let result = work();
        self.add(stopwatch.elapsed());
        result
    }

    /// Adds time that was measured elsewhere, for example on another thread or by a child process.
    pub fn add(&mut self, elapsed: Elapsed) {
        let sum = self.elapsed.get_or_insert_default();
        sum.cpu_ns += elapsed.cpu_ns;
        sum.wall_ns += elapsed.wall_ns;
    }
}

struct Variant<'a, C> {
    name: String,
    run: Box<dyn FnMut(&mut Lap) -> C + 'a>,
}

/// The times of one variant: a pair of times per round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Samples {
    /// The variant's name.
    pub name: String,
    /// Processor time of each round.
    pub cpu_ns: Vec<u64>,
    /// Wall-clock time of each round.
    pub wall_ns: Vec<u64>,
}

impl Samples {
    /// Returns the times of some of the rounds.
    ///
    /// # Panics
    ///
    /// Panics if there is no such round.
    #[must_use]
    pub fn of_rounds(&self, rounds: &[usize]) -> Self {
        let picked = |times: &[u64]| rounds.iter().map(|&round| times[round]).collect();
        Self { name: self.name.clone(), cpu_ns: picked(&self.cpu_ns), wall_ns: picked(&self.wall_ns) }
    }
}

/// The results of the rounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome<C> {
    /// The answer that all variants gave in all rounds.
    pub answer: C,
    /// The times, in the order in which the variants were added.
    pub samples: Vec<Samples>,
    /// Whether all rounds were run; `false` after an interruption.
    pub complete: bool,
}

/// A comparison to be run.
///
/// # Examples
///
/// ```
/// use flowloom_measure::{Rounds, RoundsError};
/// let wrong = Rounds::new(3).variant("two", || 2).variant("three", || 3).run();
/// assert!(matches!(wrong, Err(RoundsError::AnswersDiffer { .. })));
/// ```
pub struct Rounds<'a, C> {
    variants: Vec<Variant<'a, C>>,
    count: usize,
    warm_up: usize,
}

impl<C> fmt::Debug for Rounds<'_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.variants.iter().map(|variant| variant.name.as_str()).collect();
        f.debug_struct("Rounds")
            .field("variants", &names)
            .field("rounds", &self.count)
            .field("warm_up", &self.warm_up)
            .finish()
    }
}

impl<'a, C: PartialEq + fmt::Debug> Rounds<'a, C> {
    /// Returns a comparison of `rounds` rounds, after one warm-up round. Fewer than six rounds
    /// cannot show a difference.
    pub fn new(rounds: usize) -> Self {
        Self { variants: Vec::new(), count: rounds, warm_up: 1 }
    }

    /// Sets the number of warm-up rounds, which run first and are checked but not counted.
    #[must_use]
    pub fn warm_up(mut self, rounds: usize) -> Self {
        self.warm_up = rounds;
        self
    }

    /// Adds a variant that is timed as a whole. It returns its answer, which must equal that of the
    /// others.
    #[must_use]
    pub fn variant(self, name: impl Into<String>, mut run: impl FnMut() -> C + 'a) -> Self {
        self.variant_with_lap(name, move |lap| lap.time(&mut run))
    }

    /// Adds a variant that marks its timed part with [`Lap::time`].
    #[must_use]
    pub fn variant_with_lap(
        mut self,
        name: impl Into<String>,
        run: impl FnMut(&mut Lap) -> C + 'a,
    ) -> Self {
        self.variants.push(Variant { name: name.into(), run: Box::new(run) });
        self
    }

    /// Runs all rounds.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`run_while`](Self::run_while).
    pub fn run(self) -> Result<Outcome<C>, RoundsError> {
        self.run_while(|| true)
    }

    /// Runs rounds while `go_on`, which is called before each round, returns `true`. After an
    /// interruption, the complete rounds are kept.
    ///
    /// # Errors
    ///
    /// Returns [`RoundsError::AnswersDiffer`] as soon as an answer differs from the first one,
    /// [`RoundsError::NothingTimed`] if a variant does not mark its timed part, and
    /// [`RoundsError::NoVariants`] without variants, and [`RoundsError::Interrupted`] if the first
    /// round was not allowed.
    pub fn run_while(mut self, mut go_on: impl FnMut() -> bool) -> Result<Outcome<C>, RoundsError> {
        let count = self.variants.len();
        let mut samples: Vec<Samples> = self
            .variants
            .iter()
            .map(|variant| Samples { name: variant.name.clone(), cpu_ns: Vec::new(), wall_ns: Vec::new() })
            .collect();
        let mut answer: Option<(usize, C)> = None;
        let mut complete = true;
        for round in 0..self.warm_up.saturating_add(self.count) {
            if !go_on() {
                complete = false;
                break;
            }
            for place in 0..count {
                let index = order(round, place, count);
                let mut lap = Lap::default();
                let found = (self.variants[index].run)(&mut lap);
                match &answer {
                    None => answer = Some((index, found)),
                    Some((_, expected)) if *expected == found => {}
                    Some((first, expected)) => {
                        return Err(RoundsError::AnswersDiffer {
                            first: self.variants[*first].name.clone(),
                            first_answer: format!("{expected:?}"),
                            other: self.variants[index].name.clone(),
                            other_answer: format!("{found:?}"),
                            round,
                        });
                    }
                }
                let Some(elapsed) = lap.elapsed else {
                    let variant = self.variants[index].name.clone();
                    return Err(RoundsError::NothingTimed { variant, round });
                };
                if round >= self.warm_up {
                    samples[index].cpu_ns.push(elapsed.cpu_ns);
                    samples[index].wall_ns.push(elapsed.wall_ns);
                }
            }
        }
        let missing = if complete { RoundsError::NoVariants } else { RoundsError::Interrupted };
        let (_, answer) = answer.ok_or(missing)?;
        Ok(Outcome { answer, samples, complete })
    }
}

/// Returns the variant at a position of a round: the order rotates, and every second round is
/// mirrored.
fn order(round: usize, place: usize, count: usize) -> usize {
    let turned = (place + round / 2) % count;
    if round.is_multiple_of(2) { turned } else { count - 1 - turned }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn every_variant_runs_in_every_position_equally_often() {
        for count in 1..6 {
            let rounds = 2 * count;
            for index in 0..count {
                for place in 0..count {
                    let times = (0..rounds).filter(|&round| order(round, place, count) == index).count();
                    assert_eq!(times, 2, "{count} variants, variant {index} at {place}");
                }
            }
        }
    }

    #[test]
    fn rounds_without_an_end_go_on_until_they_are_stopped() {
        let mut left = 4;
        let go_on = || {
            left -= 1;
            left > 0
        };
        let outcome = Rounds::new(usize::MAX).variant("a", || 1).run_while(go_on).unwrap();
        assert_eq!((outcome.complete, outcome.samples[0].cpu_ns.len()), (false, 2));
    }

    #[test]
    fn rounds_interleave_and_warm_up_is_not_counted() {
        let log = RefCell::new(Vec::new());
        let outcome = Rounds::new(3)
            .warm_up(1)
            .variant("a", || log.borrow_mut().push('a'))
            .variant("b", || log.borrow_mut().push('b'))
            .run()
            .unwrap();
        assert_eq!(outcome.samples[0].cpu_ns.len(), 3);
        assert_eq!(outcome.samples[1].name, "b");
        assert!(outcome.complete);
        assert_eq!(log.into_inner(), ['a', 'b', 'b', 'a', 'b', 'a', 'a', 'b']);
    }

    #[test]
    fn differing_answers_stop_the_run_and_name_both_variants() {
        let mut calls = 0;
        let error = Rounds::new(5)
            .variant("steady", || 7)
            .variant_with_lap("fickle", |lap| {
                calls += 1;
                lap.time(|| if calls == 3 { 8 } else { 7 })
            })
            .run()
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "fickle answered 8 in round 2, but steady answered 7: no times are reported"
        );
    }

    #[test]
    fn only_the_bracketed_section_is_timed() {
        let outcome = Rounds::new(1)
            .variant_with_lap("added", |lap| {
                lap.add(Elapsed { cpu_ns: 5, wall_ns: 7 });
                lap.add(Elapsed { cpu_ns: 1, wall_ns: 1 });
            })
            .run()
            .unwrap();
        assert_eq!((outcome.samples[0].cpu_ns[0], outcome.samples[0].wall_ns[0]), (6, 8));
        let error = Rounds::new(1).variant_with_lap("idle", |_| ()).run().unwrap_err();
        assert!(matches!(error, RoundsError::NothingTimed { .. }));
    }

    #[test]
    fn an_interruption_keeps_whole_rounds() {
        let mut asked = 0;
        let outcome = Rounds::new(10)
            .variant("a", || 1)
            .variant("b", || 1)
            .run_while(|| {
                asked += 1;
                asked <= 4
            })
            .unwrap();
        assert!(!outcome.complete);
        assert!(outcome.samples.iter().all(|samples| samples.cpu_ns.len() == 3));
    }

    #[test]
    fn no_variants_give_no_result() {
        assert_eq!(Rounds::<()>::new(3).run(), Err(RoundsError::NoVariants));
    }
}

//! Timing for measured items: a few interleaved rounds, medians, thread processor time.

use std::fmt::Debug;

use flowloom_measure::{Outcome, Ratio, Rounds, RoundsError, Samples, Summary};

use crate::experiment::{Context, ItemError};

/// The least ratio of two times that counts as a difference: less is noise of a run.
pub(crate) const FASTER: f64 = 1.05;

/// A timed variant: its name and the work of a round.
pub(crate) struct Timed<'a> {
    name: String,
    items: u64,
    run: Box<dyn FnMut() + 'a>,
}

impl<'a> Timed<'a> {
    /// Returns a variant with a number of items per round.
    pub(crate) fn new(name: impl Into<String>, items: u64, run: impl FnMut() + 'a) -> Self {
        Self { name: name.into(), items, run: Box::new(run) }
    }
}

/// Times of variants with the same number of rounds.
pub(crate) struct Times {
    samples: Vec<Samples>,
    items: Vec<u64>,
}

impl Times {
    /// Returns the median nanoseconds per item of each variant, in order.
    pub(crate) fn nanoseconds(&self) -> Vec<f64> {
        let median = |(samples, &items): (&Samples, &u64)| {
            Summary::from_samples(samples.cpu_ns.iter().map(|&ns| ns as f64 / items.max(1) as f64)).median
        };
        self.samples.iter().zip(&self.items).map(median).collect()
    }

    /// Returns the ratio of the times of two variants with the same number of items, by rounds.
    pub(crate) fn ratio(&self, rival: usize, other: usize) -> Ratio {
        Ratio::of_rounds(&self.samples[rival].cpu_ns, &self.samples[other].cpu_ns)
    }
}

/// Returns the median nanoseconds per item of each variant, in order.
///
/// # Errors
///
/// Returns the same errors as [`times`].
pub(crate) fn nanoseconds(
    context: &Context<'_>,
    rounds: usize,
    variants: Vec<Timed<'_>>,
) -> Result<Vec<f64>, ItemError> {
    times(context, rounds, variants).map(|times| times.nanoseconds())
}

/// Runs rounds until the context stops them.
///
/// # Errors
///
/// Returns [`ItemError::Interrupted`] before the first round, and the errors of the rounds.
pub(crate) fn compare<C: PartialEq + Debug>(
    rounds: Rounds<'_, C>,
    context: &Context<'_>,
) -> Result<Outcome<C>, ItemError> {
    match rounds.run_while(|| (context.go_on)()) {
        Err(RoundsError::Interrupted) => Err(ItemError::Interrupted),
        outcome => outcome.map_err(ItemError::during("timing in rounds")),
    }
}

/// Times all variants in interleaved rounds.
///
/// # Errors
///
/// Returns [`ItemError::Interrupted`] before the first round is complete; after it, the completed
/// rounds count.
pub(crate) fn times(
    context: &Context<'_>,
    rounds: usize,
    variants: Vec<Timed<'_>>,
) -> Result<Times, ItemError> {
    let items: Vec<u64> = variants.iter().map(|timed| timed.items).collect();
    let mut comparison = Rounds::new(rounds);
    for mut timed in variants {
        comparison = comparison.variant(timed.name, move || (timed.run)());
    }
    let outcome = compare(comparison, context)?;
    if outcome.samples.iter().any(|samples| samples.cpu_ns.is_empty()) {
        return Err(ItemError::Interrupted);
    }
    Ok(Times { samples: outcome.samples, items })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Scale;

    #[test]
    fn a_stop_before_the_first_round_is_an_interrupt() {
        let go_on = || false;
        let context = Context::new(Scale::Smoke, 1, &go_on);
        let rounds = Rounds::new(3).variant("one", || 1_u64);
        assert!(matches!(compare(rounds, &context), Err(ItemError::Interrupted)));
    }
}

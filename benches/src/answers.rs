//! The answers of variants, which are compared before any time is reported.
//!
//! Variants know different counts: a copy counts no packets, and a walk counts no flows. Each
//! reports the counts that it knows; the first report of a count is the reference for the others.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// The reference values, each with the variant that reported it first.
#[derive(Debug, Default)]
pub struct Answers {
    known: RefCell<BTreeMap<&'static str, (u64, String)>>,
}

impl Answers {
    /// Checks the counts of the variant `variant` against the reference values.
    ///
    /// # Errors
    ///
    /// Returns a sentence with both variants if another one reported a different value before.
    pub fn check(&self, variant: &str, facts: &[(&'static str, u64)]) -> Result<(), String> {
        let mut known = self.known.borrow_mut();
        for &(thing, number) in facts {
            let (before, witness) = known.entry(thing).or_insert_with(|| (number, variant.to_owned()));
            if *before != number {
                return Err(format!("{variant} found {number} {thing}, {witness} found {before}"));
            }
        }
        Ok(())
    }

    /// Returns the reference value of a count.
    pub fn get(&self, thing: &str) -> Option<u64> {
        self.known.borrow().get(thing).map(|&(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variant_that_disagrees_is_named_with_the_first_reporter() {
        let answers = Answers::default();
        answers.check("walk", &[("packets", 7)]).unwrap();
        answers.check("engine", &[("packets", 7), ("flows", 2)]).unwrap();
        let error = answers.check("other", &[("flows", 3)]).unwrap_err();
        assert_eq!(error, "other found 3 flows, engine found 2");
        assert_eq!((answers.get("flows"), answers.get("bytes")), (Some(2), None));
    }
}

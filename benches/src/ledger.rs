//! Answers, compared before any time is looked at.
//!
//! Variants know different things: a copy knows no packets, a walk no flows. Each tells what it knows; the first
//! to know a thing sets it for the others.

use std::cell::RefCell;
use std::collections::BTreeMap;

/// What was said of a thing, and by whom.
#[derive(Debug, Default)]
pub struct Ledger {
    known: RefCell<BTreeMap<&'static str, (u64, String)>>,
}

impl Ledger {
    /// Takes down what `who` found.
    ///
    /// # Errors
    ///
    /// A sentence naming both, where somebody found something else before.
    pub fn say(&self, who: &str, facts: &[(&'static str, u64)]) -> Result<(), String> {
        let mut known = self.known.borrow_mut();
        for &(thing, number) in facts {
            let (before, witness) = known.entry(thing).or_insert_with(|| (number, who.to_owned()));
            if *before != number {
                return Err(format!("{who} found {number} {thing}, {witness} found {before}"));
            }
        }
        Ok(())
    }

    /// Returns what was said of a thing.
    pub fn get(&self, thing: &str) -> Option<u64> {
        self.known.borrow().get(thing).map(|&(number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_disagrees_is_named_with_its_witness() {
        let ledger = Ledger::default();
        ledger.say("walk", &[("packets", 7)]).unwrap();
        ledger.say("engine", &[("packets", 7), ("flows", 2)]).unwrap();
        let error = ledger.say("other", &[("flows", 3)]).unwrap_err();
        assert_eq!(error, "other found 3 flows, engine found 2");
        assert_eq!((ledger.get("flows"), ledger.get("bytes")), (Some(2), None));
    }
}

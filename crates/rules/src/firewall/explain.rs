//! The possible deciders of a packet that is only partly known.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use super::conditions::Truth;
use super::entries::{Outcome, Policy, Possible};
use super::packet::Packet;
use crate::rule::RuleId;

/// The possible deciders of a packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PossibleOutcome {
    /// Entries that may decide, in order, followed by the first entry that certainly decides, if
    /// there is one.
    pub deciders: Vec<Possible>,
    /// Rules of the set that match and pass on, like RETURN, in order.
    pub passed: Vec<Possible>,
    /// Whether no entry decides.
    pub unmatched: Option<Truth>,
}

impl PossibleOutcome {
    /// Returns the rule of the set that decides regardless of unknown properties; `None` if these
    /// affect the answer, or if no rule decides.
    #[must_use]
    pub fn decided(&self) -> Option<RuleId> {
        match self.deciders[..] {
            [Possible { rule, truth: Truth::Yes }] => Some(rule),
            _ => None,
        }
    }
}

impl Policy {
    /// Returns all possible deciders of a packet, with both outcomes of each rule that may match.
    #[must_use]
    pub fn outcomes(&self, packet: &Packet<'_>) -> PossibleOutcome {
        self.explore(self.candidates(packet).into_iter(), packet)
    }

    fn explore(&self, candidates: impl Iterator<Item = RuleId>, packet: &Packet<'_>) -> PossibleOutcome {
        let mut outcome = PossibleOutcome::default();
        // Whether the next entry is evaluated, and how later entries can be evaluated otherwise.
        let mut alive = Truth::Yes;
        let mut pending: BTreeMap<usize, Truth> = BTreeMap::new();
        let mut last = None;
        for id in candidates {
            let entry = self.entry_of(id);
            // Boxes of one entry may overlap if they are larger than the entry.
            if last == Some(entry) {
                continue;
            }
            while let Some((&to, &truth)) = pending.first_key_value().filter(|&(&to, _)| to <= entry) {
                alive = alive.or(truth);
                pending.remove(&to);
            }
            // If nothing was decided and no path leads elsewhere, every path has led here.
            if outcome.deciders.is_empty() && pending.is_empty() {
                alive = Truth::Yes;
            }
            if alive == Truth::No {
                continue;
            }
            let truth = self.holds(id, packet);
            if truth == Truth::No {
                continue;
            }
            last = Some(entry);
            let reached = alive.and(truth);
            alive = alive.and(truth.negated());
            match self.outcome(id) {
                Outcome::Decide { .. } => {
                    let is_certain = truth == Truth::Yes && pending.is_empty();
                    outcome.deciders.push(Possible { rule: id, truth: reached });
                    if is_certain {
                        outcome.unmatched = None;
                        return outcome;
                    }
                }
                Outcome::Skip { to } => {
                    outcome.passed.push(Possible { rule: id, truth: reached });
                    let way = pending.entry(to as usize).or_insert(Truth::No);
                    *way = way.or(reached);
                }
            }
        }
        let left = pending.values().fold(alive, |truth, &way| truth.or(way));
        outcome.unmatched = match left {
            Truth::No => None,
            _ if outcome.deciders.is_empty() => Some(Truth::Yes),
            _ => Some(Truth::Maybe),
        };
        outcome
    }
}
